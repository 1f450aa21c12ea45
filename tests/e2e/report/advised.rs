//! Each kind of advice that a report gives is tried: what it says is done, and what it promises happens.
//!
//! The kinds stand in `tests/data/advice.json`, which a test of the report holds against every advice that it can give; the test
//! at the end holds it against the trials.

use std::path::Path;

use serde_json::Value;
use turnkey_tests::{Ran, Run, Server, callers_scratch, network_of_its_own, open_to_all, scratch};

const KINDS: &str = include_str!("../../data/advice.json");
const TRIALS: &str = include_str!("advised.rs");

/// True when a text is what the kind says, with anything at each `*`.
fn fits(kind: &str, text: &str) -> bool {
    let kinds: Value = serde_json::from_str(KINDS).expect("it is JSON");
    let pattern = kinds[kind].as_str().expect("a kind");
    let mut parts = pattern.split('*');
    let begins = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(begins) else {
        return false;
    };
    let parts: Vec<&str> = parts.collect();
    for part in &parts {
        let Some(at) = rest.find(part) else {
            return false;
        };
        rest = &rest[at + part.len()..];
    }
    parts
        .last()
        .map_or(rest.is_empty(), |last| last.is_empty() || rest.is_empty())
}

/// The first advice of this kind in the report of a run, or on its terminal.
fn advice(ran: &Ran, kind: &str) -> String {
    let lists = ["/violations", "/refused_calls"].map(|list| ran.list(list));
    let rows = lists.into_iter().flatten().map(|row| &row["advice"]);
    let mut told: Vec<String> = rows.filter_map(Value::as_str).map(str::to_owned).collect();
    let lines = ran.stderr.lines().map(str::trim);
    let lines = lines.filter_map(|line| line.strip_prefix("to allow "));
    told.extend(lines.map(|line| line.trim().to_owned()));
    let found = told.iter().find(|one| fits(kind, one));
    found
        .unwrap_or_else(|| panic!("no advice is {kind}: {told:?}"))
        .clone()
}

/// A file of the host that everybody may read and no shipped profile shows, login.defs(5).
const DATA: &str = "/etc/login.defs";

/// A rule of one's own about it.
fn about_data(more: &str) -> String {
    format!("[[rule]]\nid = \"own\"\non = \"open\"\npath = \"/etc/login.*\"\n{more}\n")
}

fn reading(run: Run) -> Ran {
    run.shell(&format!("head -c 1 {DATA} > /dev/null && echo read"))
}

#[test]
fn advised_read() {
    let notice = about_data("action = \"log\"\nhidden = true");
    let told = advice(&reading(Run::new().profile(&notice)), "read");
    let ran = reading(Run::new().profile(&notice).option(&told));
    ran.expect(ran.stdout == "read\n", "it is read");
    ran.expect(ran.violations().is_empty(), "and no rule is against it");
}

/// A flag that names what the host has not is refused, so none is named.
#[test]
fn what_no_flag_can_show_is_not_advised() {
    let told = |name: &str| {
        let notice = format!(
            "[[rule]]\nid = \"own\"\non = \"open\"\npath = \"{name}\"\naction = \"log\"\nseverity = \"high\"\nwhy = \"w\"\nhidden = true\n"
        );
        let ran = Run::new().profile(&notice).shell(&format!("cat {name}"));
        let advice = ran.at("/violations/0/advice").as_str();
        advice.unwrap_or_default().to_owned()
    };
    let nowhere = told("/etc/no-such-setting");
    assert!(
        nowhere.starts_with("no flag shows it: this host has no /etc/no-such-setting"),
        "{nowhere}"
    );
    let there = told(DATA);
    assert!(
        there.starts_with(&format!("--read {DATA}")),
        "the control: {there}"
    );
}

#[test]
fn advised_write() {
    let place = scratch();
    let home = place.path().display().to_string();
    for change in ["echo new > {}/file", "rm {}/file"] {
        let file = place.path().join("file");
        std::fs::write(&file, "old").expect("a test can write its own directory");
        open_to_all(place.path());
        open_to_all(&file);
        let script = change.replace("{}", &home);
        let refused = Run::new().option(&format!("--read {home}")).shell(&script);
        let advice = advice(&refused, "write");
        Run::new().option(&advice).shell(&script).expect_code(0);
        let after = std::fs::read_to_string(&file).unwrap_or_default();
        assert_ne!(after, "old", "{change}");
    }
}

/// Of a file that the host does not have, only the directory can be given; a profile that is made of the report has the same.
#[test]
fn a_new_file_is_advised_by_its_directory() {
    for make in ["echo new > {}/made", "mkdir {}/made", "ln -s x {}/made"] {
        let place = callers_scratch();
        open_to_all(place.path());
        let home = place.path().display().to_string();
        let script = make.replace("{}", &home);
        let refused = Run::new().option(&format!("--read {home}")).shell(&script);
        let told = advice(&refused, "write");
        assert_eq!(told, format!("--write {home}"), "{make}");
        let control = Run::new().option(&format!("--write {home}/made"));
        control.shell("true").expect_code(125);
        Run::new().option(&told).shell(&script).expect_code(0);
        assert!(
            place.path().join("made").symlink_metadata().is_ok(),
            "{make}"
        );
    }
}

/// No advice has a program write the system's own files.
#[test]
fn a_change_of_the_system_is_advised_as_one_that_is_thrown_away() {
    let scripts = [
        "echo x > /usr/bin/made",
        "rm /usr/bin/env",
        "mkdir /etc/made",
    ];
    let told = scripts.map(|script| advice(&Run::new().shell(script), "writable-root"));
    assert!(told.iter().all(|one| *one == told[0]), "{told:?}");
    // Once for all: such a run looks at every file of /usr.
    let all = scripts.join(" && ");
    Run::new().option(&told[0]).shell(&all).expect_code(0);
    assert!(Path::new("/usr/bin/env").exists() && !Path::new("/usr/bin/made").exists());
}

const CONNECT: &str = "import socket, sys
try:
  peer = socket.create_connection((sys.argv[1], int(sys.argv[2])), 5)
  peer.sendall(b'x'); peer.shutdown(socket.SHUT_WR); print(peer.recv(1))
except OSError as error: print(error.errno)";

fn connecting(run: Run, host: &str, port: &str) -> Ran {
    run.run(&["python3", "-c", CONNECT, host, port])
}

#[test]
fn advised_writable_root() {
    let make = "mkdir /made && ls -d /made";
    let flag = advice(&Run::new().shell(make), "writable-root");
    let ran = Run::new().option(&flag).shell(make);
    ran.expect(ran.stdout == "/made\n", "it is made");
}

#[test]
fn advised_loopback() {
    let send = "import socket; print(socket.socket(2, 2).sendto(b'x', ('127.0.0.1', 9)))";
    let advice = advice(&Run::new().python(send), "loopback");
    let (flag, _) = advice.split_once(" (").expect("a flag and what it means");
    let ran = Run::new().option(flag).python(send);
    ran.expect(ran.code == 0 && ran.stdout == "1\n", "it is sent");
    ran.expect(ran.violations().is_empty(), "and no rule is against it");
}

#[test]
fn advised_loopback_or_host() {
    network_of_its_own();
    let _server = Server::echo(8443);
    let refused = connecting(Run::new(), "127.0.0.1", "8443");
    let advice = advice(&refused, "loopback-or-host");
    let (own, hosts) = advice.split_once(", or ").expect("two ways");
    for (way, expected) in [(own, "111\n"), (hosts, "b'x'\n")] {
        let (flag, _) = way.split_once(" (").expect("a flag and what it means");
        let ran = connecting(Run::new().option(flag), "127.0.0.1", "8443");
        ran.expect(ran.stdout == expected, flag);
        ran.expect(ran.violations().is_empty(), "and no rule is against it");
    }
}

#[test]
fn advised_host() {
    network_of_its_own();
    let _server = Server::echo(8443);
    for (host, port) in [("203.0.113.7", "8443"), ("server.test", "8443")] {
        let refused = connecting(Run::new(), host, port);
        let advice = advice(&refused, "host");
        let (flag, _) = advice.split_once(" (").unwrap_or((&advice, ""));
        let ran = connecting(Run::new().option(&flag.replace("PORT", port)), host, port);
        ran.expect(ran.stdout == "b'x'\n", flag);
        ran.expect(ran.violations().is_empty(), "and no rule is against it");
    }
}

#[test]
fn advised_lists() {
    let list = |by_name: &str| {
        let lines = format!(
            "[filesystem]\ninherit = false\nread = [{{ path = \"/usr\"{by_name} }}, {{ path = \"/bin\"{by_name} }}, {{ path = \"/lib\"{by_name} }}, {{ path = \"/lib64\"{by_name} }}]"
        );
        Run::new()
            .profile(&lines)
            .shell("ls / > /dev/null && echo listed")
    };
    let told = advice(&list(", list = false"), "lists");
    assert!(told.contains("without `list = false`"), "{told}");
    let ran = list("");
    ran.expect(ran.stdout == "listed\n", "without it the list is there");
}

#[test]
fn advised_proc() {
    let read = |lines: &str| Run::new().profile(lines).shell("head -c 9 /proc/cpuinfo");
    let notice =
        "\n[[rule]]\nid = \"notice\"\non = \"open\"\npath = \"/proc/cpuinfo\"\naction = \"log\"";
    let refused = read(&format!("[filesystem]\nproc = \"processes\"{notice}"));
    let told = advice(&refused, "proc");
    let line = told.split(" and, in a profile").next().unwrap_or_default();
    let ran = read(&line.replacen("] ", "]\n", 1));
    ran.expect(ran.code == 0 && ran.stdout.len() == 9, "it is read");
}

/// Enough for Python and nothing that is tried here.
const FEW: &str = "\"@basic\", \"@core\", \"@descriptor\", \"@file-open\", \"@process\", \"@thread\", \"@memory\", \"@time\", \"@signal\", \"getdents64\"";

fn with_calls(more: &str) -> Run {
    let lines = format!("[syscalls]\ninherit = false\nallow = [{FEW}{more}]");
    Run::new().profile(&lines)
}

/// The contents of an advice's brackets, and the names behind its `or`.
fn named(advice: &str) -> Vec<String> {
    let own = advice.split(" and, ").next().unwrap_or_default();
    let quoted = own.split('"').skip(1).step_by(2);
    quoted.map(|name| format!(", \"{name}\"")).collect()
}

#[test]
fn advised_call() {
    let script = "import ctypes; print(ctypes.CDLL(None).shmget(0, 4096, 0o600) >= 0)";
    let told = advice(&with_calls("").python(script), "call");
    let ways = named(&told);
    assert_eq!(ways.len(), 2, "{told}");
    for way in ways {
        let ran = with_calls(&way).python(script);
        ran.expect(ran.stdout == "True\n", &way);
    }
}

#[test]
fn advised_limits() {
    let script = "import resource as r; r.setrlimit(r.RLIMIT_NOFILE, (5000, 5000)); print('more')";
    let told = advice(&Run::new().python(script), "limits");
    let (flag, _) = told.split_once(' ').expect("a flag");
    let ran = Run::new().option(&format!("{flag} 5000")).python(script);
    ran.expect(ran.stdout == "more\n", "it has as many");
}

#[test]
fn advised_sockets() {
    let script = "import socket; socket.socket(); print('made')";
    let told = advice(&with_calls("").python(script), "sockets");
    for way in named(&told) {
        let ran = with_calls(&way).python(script);
        ran.expect(ran.stdout == "made\n", &way);
    }
}

#[test]
fn advised_file_calls() {
    let script = "import os; os.chmod('/workspace', 0o755); print('made')";
    let told = advice(&with_calls("").python(script), "file-calls");
    for way in named(&told) {
        let ran = with_calls(&way).python(script);
        ran.expect(ran.stdout == "made\n", &way);
    }
}

#[test]
fn advised_never() {
    let refused = Run::new().shell("unshare -U true");
    let told = advice(&refused, "never");
    assert!(told.contains("namespaces"), "{told}");
    let allowed = Run::new().profile("[syscalls]\nallow = [\"unshare\"]");
    allowed.shell("true").expect_code(125);
}

#[test]
fn advised_arguments() {
    let script = "import fcntl, struct, sys
for request in (0x5412, 0x541b):
  try: fcntl.ioctl(0, request, bytes(8)); print('answered')
  except OSError as error: print(error.errno)";
    let ran = Run::new().python(script);
    let told = advice(&ran, "arguments");
    assert!(told.contains("with others"), "{told}");
    let answers: Vec<&str> = ran.stdout.lines().collect();
    ran.expect(answers[0] == "1", "these are refused");
    ran.expect(answers[1] != "1", "and others are answered by the kernel");
}

/// Of a jail that writes to the host, what the filter says of set-id bits.
#[test]
fn advised_set_id() {
    let place = scratch();
    open_to_all(place.path());
    let script = "import os
try: os.close(os.open('own', os.O_CREAT | os.O_WRONLY, 0o4700)); print('made')
except OSError as error: print(error.errno)";
    let write = format!("--write {}", place.path().display());
    let refused = Run::new().option(&write).python(script);
    refused.expect(refused.stdout != "made\n", "the control");
    let ran = Run::new().python(script);
    ran.expect(ran.stdout == "made\n", "a jail that writes nowhere may");
}

#[test]
fn advised_rule() {
    let place = scratch();
    let rule =
        "[[rule]]\nid = \"modes\"\non = \"chmod\"\naction = \"kill\"\nseverity = \"medium\"\n";
    // Beside the rule that decided, and in its place.
    for script in ["echo x > .bashrc && echo done", "chmod 700 . && echo done"] {
        let base = place.path().join("base.toml");
        let head = "schema = \"turnkey.profile/v1\"\nname = \"base\"\nextends = [\"untrusted\"]\n";
        std::fs::write(&base, format!("{head}{rule}")).expect("a test can write its own directory");
        let under = |profile: &Path| Run::new().option(&format!("--profile {}", profile.display()));
        let told = advice(&under(&base).shell(script), "rule");
        let (_, lines) = told.split_once('\n').expect("a rule to paste");
        let above = place.path().join("above.toml");
        let head = "schema = \"turnkey.profile/v1\"\nname = \"above\"\nextends = [\"base.toml\"]\n";
        std::fs::write(&above, format!("{head}{lines}\n"))
            .expect("a test can write its own directory");
        let ran = under(&above).shell(script);
        ran.expect(ran.stdout == "done\n", &told);
        ran.expect(ran.violations().is_empty(), "and no rule is against it");
    }
}

/// The rule that is asked for in words.
#[test]
fn advised_rule_in_words() {
    let rule = "[[rule]]\nid = \"odd\"\non = \"open\"\naccess = \"write\"\npath = \"/workspace/odd*\"\naction = \"kill\"\n";
    let script = "open('/workspace/odd\\n', 'w'); print('done')";
    let told = advice(&Run::new().profile(rule).python(script), "rule-in-words");
    assert!(told.contains("action = \"allow\""), "{told}");
    let allow =
        "[[rule]]\nid = \"own\"\non = \"open\"\npath = \"/workspace/odd\\n\"\naction = \"allow\"\n";
    let ran = Run::new().profile(&format!("{rule}{allow}")).python(script);
    ran.expect(ran.stdout == "done\n", "it is allowed");
}

/// A home is not shown for one program, a file in it is.
#[test]
fn advised_below() {
    let ran = Run::new()
        .profile("[behaviour]\nfile-discovery = \"off\"\n")
        .shell("ls /home/*");
    let told = advice(&ran, "below");
    let place = scratch();
    open_to_all(place.path());
    let file = place.path().join("meant");
    std::fs::write(&file, "text").expect("a test can write its own directory");
    let flag = told.split(" with ").next().unwrap_or_default();
    let ran = Run::new()
        .option(&format!("{flag} {}", file.display()))
        .run(&["/bin/cat", &file.display().to_string()]);
    ran.expect(ran.stdout == "text", "what is below is shown");
}

#[test]
fn advised_writable_workspace() {
    let read_only = "[filesystem]\nworkdir = { mode = \"read-only\" }\n";
    for change in ["echo x > mine", "mkdir new", "rm theirs", "mv theirs other"] {
        let run = || Run::new().profile(read_only).file("theirs", "");
        let told = advice(&run().shell(change), "writable-workspace");
        let ran = run().option(&told).shell(change);
        ran.expect_code(0);
        ran.expect(ran.violations().is_empty(), change);
    }
}

/// A flag opens the layer, and a rule is in the way besides.
#[test]
fn advised_and_rule() {
    let rule = about_data("action = \"log\"");
    let told = advice(&reading(Run::new().profile(&rule)), "and-rule");
    let (flag, rest) = told.split_once(", and ").expect("a flag and a rule");
    let (_, lines) = rest.split_once('\n').expect("a rule to paste");
    let ran = reading(Run::new().profile(&format!("{rule}{lines}\n")).option(flag));
    ran.expect(ran.stdout == "read\n", "it is read");
    ran.expect(ran.violations().is_empty(), "and no rule is against it");
}

/// A new kind has a trial of its name.
#[test]
fn each_kind_of_advice_is_tried() {
    let kinds: Value = serde_json::from_str(KINDS).expect("it is JSON");
    for kind in kinds.as_object().expect("kinds by name").keys() {
        let trial = format!("fn advised_{}() {{", kind.replace('-', "_"));
        let is_tried = TRIALS.contains(&trial);
        assert!(is_tried, "{kind} has no trial");
    }
}
