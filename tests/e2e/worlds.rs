//! Time bombs in five languages go off in some world and are found; honest programs that tell the date, name files by it, seed random
//! numbers or sleep are accused of nothing.
//!
//! Each case is five runs: three here, and two of the world in which the bomb goes off.

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use turnkey_expectations::expected;
use turnkey_tests::{NOBODY, binary, compile, finish, open_to_all, scratch};

expected!(
    not_on[ORDINARY_6_12, PROGRAMS_6_12],
    "each case is five runs of an interpreter or of what a compiler made, which an emulated CPU takes minutes for: on this host"
);

expected!(a_date_is_found_in_a_shell: on[BY_DAY]);

/// A program, by the files that it takes and the command that runs it.
struct Program {
    files: Vec<(&'static str, String)>,
    command: Vec<&'static str>,
}

fn python(source: &str) -> Program {
    Program {
        files: vec![("program.py", source.to_owned())],
        command: vec!["python3", "program.py"],
    }
}

fn shell(source: &str) -> Program {
    Program {
        files: vec![("program.sh", source.to_owned())],
        command: vec!["bash", "program.sh"],
    }
}

fn node(source: &str) -> Program {
    Program {
        files: vec![("program.js", source.to_owned())],
        command: vec!["node", "program.js"],
    }
}

/// Compiled outside, into one file that needs no library.
fn go(body: &str) -> Program {
    Program {
        files: vec![(
            "program.go",
            format!("package main\nimport (\n\"os\"\n\"time\"\n)\nfunc main() {{ {body} }}\n"),
        )],
        command: vec!["./program"],
    }
}

/// Compiled outside, with the usual headers.
fn c(body: &str) -> Program {
    let headers = [
        "fcntl.h",
        "signal.h",
        "stdio.h",
        "stdlib.h",
        "string.h",
        "sys/time.h",
        "sys/timerfd.h",
        "time.h",
        "unistd.h",
    ];
    let headers: String = headers
        .iter()
        .map(|name| format!("#include <{name}>\n"))
        .collect();
    Program {
        files: vec![(
            "program.c",
            format!(
                "{headers}static void nothing(int signal) {{ (void)signal; }}\n\
                 int main(void) {{ (void)nothing; {body} return 0; }}\n"
            ),
        )],
        command: vec!["./program"],
    }
}

fn compile_go(directory: &Path, name: &str) {
    let mut go = Command::new("go");
    go.args(["build", "-o", "program", name]);
    go.current_dir(directory).env("CGO_ENABLED", "0");
    let output = go.output().expect("go can be started");
    assert!(output.status.success(), "{output:?}");
}

fn answer(directory: &Path, options: &[&str], command: &[&str]) -> Output {
    let mut turnkey = Command::new(binary());
    turnkey.arg("worlds").args(options).arg("--").args(command);
    turnkey.current_dir(directory).stdin(Stdio::null());
    let child = turnkey
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    finish(child.expect("turnkey can be started"))
}

/// The page of a program in these worlds, with the exit status that it goes with.
fn page(program: &Program, options: &[&str]) -> Value {
    let directory = scratch();
    for (name, source) in &program.files {
        let path = directory.path().join(name);
        if let Some(program) = name.strip_suffix(".c") {
            compile(&directory.path().join(program), source);
            continue;
        }
        std::fs::write(path, source).expect("a test can write its own directory");
        if name.ends_with(".go") {
            compile_go(directory.path(), name);
        }
    }
    let options: Vec<&str> = [&["--json"], options].concat();
    let output = answer(directory.path(), &options, &program.command);
    let page: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let differs = page["findings"]
        .as_array()
        .map(|findings| !findings.is_empty());
    let expected = differs.map(i32::from);
    assert_eq!(output.status.code(), expected, "{output:?}");
    page
}

/// The finding of this kind says that the program did this there and not here.
#[track_caller]
fn found(program: &Program, world: &str, kind: &str, act: &str) {
    let page = page(program, &["--world", world]);
    let finding = &page["findings"][0];
    assert_eq!(finding["id"], kind, "{page:#}");
    assert_eq!(finding["worlds"][0], world, "{page:#}");
    let acts = finding["there_alone"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let is_told = acts.iter().any(|told| told["act"] == act);
    assert!(is_told, "{act} is not told: {page:#}");
}

const PWNED: &str = "wrote /workspace/pwned";

/// A date that is later than every test, and earlier than the world `in-10-years`.
const LATER: &str = "2035-01-01";

#[test]
fn a_date_is_found_in_python() {
    let bomb = format!(
        "import datetime\nprint(datetime.date.today())\nif datetime.date.today() > datetime.date.fromisoformat('{LATER}'):\n    open('pwned', 'w')\n"
    );
    found(&python(&bomb), "in-10-years", "time-dependent", PWNED);
}

#[test]
fn a_date_is_found_in_a_shell() {
    let bomb = format!("date\n[ $(date +%s) -gt $(date -d {LATER} +%s) ] && touch pwned\ntrue\n");
    found(&shell(&bomb), "in-10-years", "time-dependent", PWNED);
}

#[test]
fn a_date_is_found_in_c() {
    let bomb = "time_t now = time(NULL); puts(ctime(&now)); if (now > 2051222400) close(open(\"pwned\", O_CREAT | O_WRONLY, 0644));";
    found(&c(bomb), "in-10-years", "time-dependent", PWNED);
}

#[test]
fn a_date_is_found_in_node() {
    let bomb = format!(
        "console.log(new Date()); if (new Date() > new Date('{LATER}')) require('fs').writeFileSync('pwned', '')"
    );
    found(&node(&bomb), "in-10-years", "time-dependent", PWNED);
}

#[test]
fn a_date_is_found_in_go() {
    let bomb = "println(time.Now().String()); if time.Now().Year() >= 2035 { os.WriteFile(\"pwned\", nil, 0o644) }";
    found(&go(bomb), "in-10-years", "time-dependent", PWNED);
}

#[test]
fn a_long_sleep_does_not_hide_what_comes_after_in_go() {
    let bomb =
        "<-time.After(2 * time.Hour); if time.Now().IsZero() { return }; os.Remove(\"program.go\")";
    found(
        &go(bomb),
        "patience",
        "time-dependent",
        "removed /workspace/program.go",
    );
}

#[test]
fn a_long_sleep_does_not_hide_what_comes_after_in_python() {
    let bomb = "import time\nfor _ in range(48):\n    time.sleep(3600)\nopen('pwned', 'w')\n";
    found(&python(bomb), "patience", "time-dependent", PWNED);
}

#[test]
fn a_long_sleep_does_not_hide_what_comes_after_in_a_shell() {
    found(
        &shell("sleep 2d\nid\n"),
        "patience",
        "time-dependent",
        "ran /usr/bin/id",
    );
}

#[test]
fn a_long_sleep_does_not_hide_what_comes_after_in_c() {
    let bomb = "sleep(86400); unlink(\"program.c\");";
    found(
        &c(bomb),
        "patience",
        "time-dependent",
        "removed /workspace/program.c",
    );
}

#[test]
fn a_long_sleep_does_not_hide_what_comes_after_in_node() {
    let bomb = "setTimeout(() => require('fs').renameSync('program.js', 'gone'), 86400000)";
    found(
        &node(bomb),
        "patience",
        "time-dependent",
        "renamed /workspace/program.js",
    );
}

/// The ways to have the kernel wait for a day, one after the other: nothing of the program runs until then.
const TIMERS: &str = "signal(SIGALRM, nothing); alarm(86400); pause(); \
     struct itimerval day = {{0, 0}, {86400, 0}}; setitimer(ITIMER_REAL, &day, NULL); pause(); \
     timer_t timer; struct itimerspec later = {{0, 0}, {86400, 0}}; timer_create(CLOCK_BOOTTIME, NULL, &timer); \
     timer_settime(timer, 0, &later, NULL); pause(); \
     unsigned long times; int fd = timerfd_create(CLOCK_MONOTONIC, 0); \
     timerfd_settime(fd, 0, &later, NULL); if (read(fd, &times, sizeof times) < 0) return 1;";

#[test]
fn a_timer_does_not_hide_what_comes_after() {
    found(
        &c(&format!("{TIMERS} unlink(\"program.c\");")),
        "patience",
        "time-dependent",
        "removed /workspace/program.c",
    );
}

#[test]
fn a_day_of_the_week_is_found_by_some_date() {
    let bomb = "import datetime, os\nday = datetime.date.today().weekday()\nif day == WANTED:\n    os.mkdir('pwned')\n";
    // The day after today: the world is a year later, and begins a day later in the week.
    let wanted = Command::new("date")
        .args(["-d", "tomorrow", "+%u"])
        .output()
        .expect("date(1)");
    let wanted: u32 = String::from_utf8_lossy(&wanted.stdout)
        .trim()
        .parse()
        .expect("a number");
    let bomb = bomb.replace("WANTED", &(wanted - 1).to_string());
    found(&python(&bomb), "in-1-year", "time-dependent", PWNED);
}

#[test]
fn a_variable_is_found() {
    let bomb = shell("if [ \"$CI\" = true ]; then echo x > pwned; fi\n");
    found(&bomb, "ci", "environment-dependent", PWNED);
}

#[test]
fn a_host_name_is_found() {
    let bomb = c(
        "char name[64] = \"\"; gethostname(name, sizeof name); if (!strncmp(name, \"build\", 5)) system(\"id\");",
    );
    found(
        &bomb,
        "other-host",
        "environment-dependent",
        "ran /usr/bin/id",
    );
}

#[test]
fn a_file_is_found() {
    let bomb = node(
        "const fs = require('fs'); const home = process.env.HOME + '/Documents'; if (fs.existsSync(home)) fs.rmSync('program.js')",
    );
    found(
        &bomb,
        "desktop",
        "environment-dependent",
        "removed /workspace/program.js",
    );
}

#[test]
fn credentials_of_a_cloud_are_decoys() {
    let thief = python(
        "import os\ntry:\n    print(open(os.path.expanduser('~/.aws/credentials')).read())\nexcept OSError:\n    pass\n",
    );
    let page = page(&thief, &["--world", "cloud"]);
    assert_eq!(page["worlds"][0]["status"], "exited", "{page:#}");
    assert_eq!(page["worlds"][1]["status"], "killed_by_policy", "{page:#}");
    assert_eq!(
        page["findings"][0]["id"], "environment-dependent",
        "{page:#}"
    );
}

#[test]
fn a_network_is_found() {
    let program = python(
        "import socket\ntry:\n    socket.create_connection(('127.0.0.1', 9))\n\
         except ConnectionRefusedError:\n    pass\nexcept PermissionError:\n    open('pwned', 'w')\n",
    );
    let page = page(
        &program,
        &["--world", "no-network", "--network", "loopback"],
    );
    assert_eq!(page["findings"][0]["id"], "network-dependent", "{page:#}");
    // Under a profile without one it is no other world.
    let none = crate::worlds::page(&program, &["--world", "no-network"]);
    assert_eq!(none["worlds"][1]["status"], Value::Null, "{none:#}");
}

#[test]
fn a_program_that_acts_where_somebody_answers_is_found() {
    let program = python(
        "import urllib.request\ntry:\n    urllib.request.urlopen('http://update.example/task', timeout=5).read()\n\
         except OSError:\n    pass\nelse:\n    open('pwned', 'w')\n",
    );
    let page = page(&program, &["--world", "answering-network"]);
    assert_eq!(page["findings"][0]["id"], "network-dependent", "{page:#}");
    assert!(
        page["findings"][0].to_string().contains("pwned"),
        "{page:#}"
    );
}

/// Asserts that nothing is found in these worlds, each of which was run.
#[track_caller]
fn nothing_found(program: &Program) {
    let worlds = ["in-40-days", "patience", "other-host"];
    let options: Vec<&str> = worlds.iter().flat_map(|world| ["--world", world]).collect();
    let page = page(program, &options);
    assert_eq!(
        page["findings"].as_array().map(Vec::len),
        Some(0),
        "{page:#}"
    );
    let ended = page["worlds"].as_array().expect("a list").iter();
    assert_eq!(
        ended.filter(|world| world["exit_code"] == 0).count(),
        4,
        "{page:#}"
    );
}

#[test]
fn an_honest_program_is_not_accused_in_python() {
    nothing_found(&python(
        "import datetime, logging, os, random, tempfile, threading, time\nnow = datetime.datetime.now()\n\
         logging.basicConfig(filename=now.strftime('app-%d%b%Y.log'))\nlogging.warning('began %s', now)\n\
         open(now.strftime('%A') + '.txt', 'w').write(str(now))\nos.makedirs(now.strftime('out/%Y/%m/%d'))\n\
         random.seed(time.time())\ntempfile.NamedTemporaryFile(delete=False).write(b'x')\ntime.sleep(1)\nthreading.Event().wait(1)\n\
         print(random.random(), os.uname().nodename)\n",
    ));
}

#[test]
fn an_honest_program_is_not_accused_in_a_shell() {
    nothing_found(&shell(
        "date\nhostname\necho x > log-$(date +%F).txt\nmkdir backup.$(date +%s)\nRANDOM=$(date +%s)\nsleep 1\nmktemp\necho $RANDOM > $$.pid\n",
    ));
}

#[test]
fn an_honest_program_is_not_accused_in_c() {
    nothing_found(&c(
        "char name[64]; time_t now = time(NULL); puts(ctime(&now)); srand(now); printf(\"%d\\n\", rand()); sleep(1); \
         strftime(name, sizeof name, \"log-%Y-%m-%d_%H%M%S\", localtime(&now)); close(open(name, O_CREAT | O_WRONLY, 0644)); \
         strcpy(name, \"/tmp/fileXXXXXX\"); close(mkstemp(name));",
    ));
}

#[test]
fn an_honest_program_is_not_accused_in_go() {
    nothing_found(&go(
        "os.WriteFile(time.Now().Format(\"log-2006-01-02.txt\"), []byte(time.Now().String()), 0o644); time.Sleep(time.Second)",
    ));
}

#[test]
fn an_honest_program_is_not_accused_in_node() {
    nothing_found(&node(
        "const fs = require('fs'); const os = require('os'); console.log(new Date(), os.hostname(), Math.random());\n\
         fs.writeFileSync(`log-${new Date().toISOString().slice(0, 10)}.txt`, String(Date.now()));\n\
         fs.mkdtempSync('/tmp/work-'); setTimeout(() => fs.writeFileSync(`${Date.now()}.json`, '{}'), 1000);\n",
    ));
}

#[test]
fn chance_is_nobodys_fault() {
    // One act of a thousand in each run, and each of them another one.
    let program = python(
        "import random\nopen(random.choice('abcdefghij') + random.choice('klmnopqrst') + random.choice('uvwxyzabcd'), 'w')\n",
    );
    let page = page(&program, &["--world", "ci", "--world", "in-40-days"]);
    assert_eq!(page["findings"], serde_json::json!([]), "{page:#}");
}

const OWN: &str = "[friday-13]\nabout = \"a Friday the 13th\"\ndate = \"2026-11-13T10:00:00Z\"\n\n\
                   [office]\nextends = \"friday-13\"\nhostname = \"office\"\nuser = \"kim\"\nenvironment = { TEAM = \"red\" }\n\
                   files = { \"~/todo.txt\" = \"one\\n\", \"/srv/flag\" = \"two\\n\" }\n";

#[test]
fn own_worlds_have_what_they_say() {
    let directory = scratch();
    std::fs::write(directory.path().join("worlds.toml"), OWN).expect("it can be written");
    std::fs::create_dir(directory.path().join("reports")).expect("it can be made");
    let script = "date -u +%F; hostname; echo $TEAM; cat ~/todo.txt /srv/flag; [ $(date -u +%F)$(hostname)$TEAM$(cat ~/todo.txt /srv/flag) = \
                  2026-11-13officeredonetwo ] && touch as-it-says; [ $(date -u +%F) = 2026-11-13 ] && touch that-day; true";
    let options = [
        "--worlds",
        "worlds.toml",
        "--json",
        "--report-dir",
        "reports",
    ];
    let output = answer(
        directory.path(),
        &options,
        &[
            "bash",
            "-c",
            &script.replace(
                "$(cat ~/todo.txt /srv/flag)",
                "$(cat ~/todo.txt /srv/flag | tr -d '\\n')",
            ),
        ],
    );
    let page: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let acts = |finding: usize, act: &str| {
        let acts = page["findings"][finding]["there_alone"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let found = acts.iter().find(|told| told["act"] == act);
        found.map(|told| told["worlds"].clone()).unwrap_or_default()
    };
    assert_eq!(
        acts(0, "wrote /workspace/that-day"),
        serde_json::json!(["friday-13", "office"]),
        "{page:#}"
    );
    assert_eq!(
        acts(1, "wrote /workspace/as-it-says"),
        serde_json::json!(["office"]),
        "{page:#}"
    );
    assert!(
        page["worlds"][1]["date"]
            .as_str()
            .is_some_and(|date| date.starts_with("2026-11-13 10:0")),
        "{page:#}"
    );
    for report in [
        "here",
        "here-again",
        "friday-13",
        "friday-13-again",
        "here-for-the-third-time",
        "office",
        "office-again",
    ] {
        let path = directory
            .path()
            .join("reports")
            .join(format!("{report}.json"));
        let text = std::fs::read(&path).unwrap_or_default();
        let stored: Value = serde_json::from_slice(&text).unwrap_or_default();
        assert_eq!(stored["schema"], "turnkey.report/v1", "{report}");
    }
}

#[test]
fn what_makes_no_world_is_told_with_its_place_and_nothing_runs() {
    let directory = scratch();
    for (text, words) in [
        ("[a]\ndate = \"tomorrow\"\n", "[a]"),
        ("[a]\ndate = \"+1\"\n", "such as \"+40d\""),
        ("[a]\nhostnam = \"x\"\n", "unknown field `hostnam`"),
        ("[a]\nextends = \"b\"\n", "no world of this file"),
        ("[a]\nhostname = \"-\"\n", "the world [a]"),
        ("[a]\nfiles = { \"/usr/bin/x\" = \"\" }\n", "/usr/bin/x"),
    ] {
        std::fs::write(directory.path().join("worlds.toml"), text).expect("it can be written");
        let output = answer(
            directory.path(),
            &["--worlds", "worlds.toml"],
            &["touch", "/workspace/ran"],
        );
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{text}: {told}");
        assert!(told.contains(words), "{text}: {told}");
        assert!(output.stdout.is_empty(), "{text}");
    }
    let output = answer(directory.path(), &["--world", "mars"], &["true"]);
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(
        told.contains("no world \"mars\"") && told.contains("in-40-days"),
        "{told}"
    );
    let listed = answer(directory.path(), &["--list"], &["true"]);
    std::fs::write(directory.path().join("worlds.toml"), &listed.stdout)
        .expect("it can be written");
    let again = answer(
        directory.path(),
        &["--list", "--worlds", "worlds.toml"],
        &["true"],
    );
    assert_eq!(listed.stdout, again.stdout, "the list is a file of worlds");
}

#[test]
fn who_has_no_privileges_is_told_that_nothing_would_be_seen() {
    let directory = scratch();
    open_to_all(directory.path());
    let mut turnkey = Command::new(turnkey_tests::binary_for_everybody(directory.path()));
    turnkey.args(["worlds", "--world", "ci", "--", "touch", "ran"]);
    turnkey
        .current_dir(directory.path())
        .uid(NOBODY)
        .gid(NOBODY);
    let output = turnkey.output().expect("turnkey can be started");
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(125), "{told}");
    assert!(told.contains("fix: run turnkey as root"), "{told}");
    // Worlds have no such flag: without the monitor each would be like any other.
    assert!(!told.contains("--best-effort"), "{told}");
    assert!(output.stdout.is_empty(), "nothing is concluded");
}
