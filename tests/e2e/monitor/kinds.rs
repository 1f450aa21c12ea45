//! Rules on calls that have a kind of their own beside a wider one, and on signals.

use turnkey_tests::Run;

use super::{rule, violations};

/// A kind, the wider one, and what does it to `/workspace/x`, of which the effect can be seen.
const OWN: [(&str, &str, &str, &str); 8] = [
    ("mkdir", "open", "os.mkdir('x')", "os.path.isdir('x')"),
    (
        "rmdir",
        "unlink",
        "os.rmdir('x')",
        "not os.path.exists('x')",
    ),
    (
        "symlink",
        "open",
        "os.symlink('a', 'x')",
        "os.readlink('x') == 'a'",
    ),
    (
        "mknod",
        "open",
        "os.mkfifo('x')",
        "stat.S_ISFIFO(os.stat('x').st_mode)",
    ),
    (
        "truncate",
        "open",
        "os.truncate('x', 0)",
        "os.stat('x').st_size == 0",
    ),
    ("chown", "chmod", "os.chown('x', os.getuid(), -1)", "True"),
    (
        "utimens",
        "attribute",
        "os.utime('x', (5, 5))",
        "os.stat('x').st_mtime == 5",
    ),
    (
        "xattr",
        "attribute",
        "os.setxattr('x', 'user.a', b'1')",
        "os.getxattr('x', 'user.a') == b'1'",
    ),
];

/// The statement that makes what has to be there before.
fn before(kind: &str) -> &'static str {
    match kind {
        "rmdir" => "os.mkdir('x')",
        "mkdir" | "symlink" | "mknod" => "pass",
        _ => "open('x', 'w').write('text')",
    }
}

/// A program that does it in the directory of that name, and prints whether it had its effect.
fn does((kind, _, way, effect): (&str, &str, &str, &str)) -> String {
    let before = before(kind);
    format!(
        "import os, stat\nos.mkdir('/workspace/{kind}')\nos.chdir('/workspace/{kind}')\n\
         {before}\n{way}\nprint({effect})\n"
    )
}

#[test]
fn each_call_is_told_by_a_rule_on_its_own_kind_and_by_one_on_the_wider() {
    let program: String = OWN.map(does).concat();
    let path = "path = \"/workspace/*/x\"";
    let own = OWN.map(|(kind, ..)| rule(kind, kind, "log", path));
    let ran = Run::new().profile(&own.concat()).python(&program);
    ran.expect(ran.stdout == "True\n".repeat(OWN.len()), "the control");
    let wider = ["open", "unlink", "chmod", "attribute"].map(|on| rule(on, on, "log", path));
    let by_wider = Run::new().profile(&wider.concat()).python(&program);
    for (kind, on, ..) in OWN {
        let path = format!("/workspace/{kind}/x");
        // What is made there before is told by no other rule than that on `mkdir`.
        let made = usize::from(kind == "mkdir");
        let told: Vec<_> = violations(&ran, kind).collect();
        let at_it = told.iter().filter(|told| told["path"] == path.as_str());
        ran.expect(at_it.count() == 1, &format!("told by its own kind: {kind}"));
        let beside = told.len() - 1;
        ran.expect(beside <= made, &format!("and no other is: {kind}"));
        ran.expect(told.iter().all(|told| told["on"] == kind), "by that name");
        // A name that goes away is an attempt on what `open` guards, too: of equal rules the first is told.
        let mut told = by_wider.violations().iter();
        let is_told = told.any(|told| told["path"] == path.as_str() && told["on"] == on);
        by_wider.expect(is_told, &format!("and by the wider kind: {kind}"));
    }
}

#[test]
fn a_rule_on_the_kind_of_a_call_kills_for_it() {
    for case @ (kind, ..) in OWN {
        let path = format!("path = \"/workspace/{kind}/x\"");
        let ran = Run::new()
            .profile(&rule("own", kind, "kill", &path))
            .python(&does(case));
        ran.expect_code(121);
        ran.expect(ran.stdout.is_empty(), kind);
        let told = violations(&ran, "own").count();
        ran.expect(told == 1, "told once");
    }
}

const SIGNALS: &str = r#"
import ctypes, os, signal, subprocess, sys
libc = ctypes.CDLL(None)
child = subprocess.Popen(['sleep', '9'])
signal.signal(signal.SIGUSR1, lambda *_: None)
os.kill(os.getpid(), signal.SIGUSR1)
signal.raise_signal(signal.SIGUSR1)
os.kill(child.pid, 0)
print('before', flush=True)
if sys.argv[1] == 'kill': os.kill(child.pid, 9)
if sys.argv[1] == 'tkill': libc.syscall(200, child.pid, 9)
if sys.argv[1] == 'tgkill': libc.syscall(234, child.pid, child.pid, 9)
print(child.wait(), flush=True)
"#;

#[test]
fn a_rule_on_signals_is_about_those_to_others() {
    for call in ["kill", "tkill", "tgkill"] {
        let run = |action| {
            let rules = rule("signals", "kill", action, "");
            let run = Run::new().profile(&rules);
            run.run(&["python3", "-c", SIGNALS, call])
        };
        let seen = run("log");
        seen.expect(
            seen.stdout == "before\n-9\n",
            "the control: it ends the child",
        );
        let told: Vec<_> = violations(&seen, "signals").collect();
        seen.expect(told.len() == 1 && told[0]["count"] == 1, "told once");
        seen.expect(told[0]["syscall"] == call, "by its name");
        let ran = run("kill");
        ran.expect_code(121);
        ran.expect(ran.stdout == "before\n", "and the jail dies by it");
    }
    let refused = Run::new()
        .profile(&rule("signals", "kill", "deny", ""))
        .shell("true");
    refused.expect_code(125);
    refused.expect(refused.stderr.contains("signals"), "the rule is named");
}
