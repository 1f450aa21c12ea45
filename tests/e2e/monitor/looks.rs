//! Who only asks about a file, and opens nothing; and what the shipped profiles say of looking around.

use turnkey_tests::Run;

use super::{events, rule, violations};

const SHELL: &str = "[ -f /root/notes ] || echo missing; [ -e secret ] && echo there; cd /; [ -r workspace/./secret ]; \
    test -d /etc; echo went on";

/// Looks at what the jail does not have, and at what it has.
fn looks(action: &str) -> Run {
    let path = "path = [\"/root/**\", \"/workspace/secret\"]";
    let run = Run::new().file("secret", "hidden\n");
    run.profile(&rule("look", "stat", action, path))
        .with_events()
}

#[test]
fn a_shell_that_asks_whether_a_file_is_there_is_told() {
    let ran = looks("log").shell(SHELL);
    ran.expect_code(0);
    ran.expect(
        ran.stdout == "missing\nthere\nwent on\n",
        "the control: it has its answers",
    );
    let told: Vec<_> = events(&ran, "look").collect();
    let is = |path: &str, errno: &str| {
        let fits = |event: &&&serde_json::Value| {
            event["path"] == path && event["errno"].as_str().unwrap_or_default() == errno
        };
        told.iter().filter(fits).count()
    };
    ran.expect(is("/root/notes", "ENOENT") == 1, "what is not there");
    ran.expect(is("/workspace/secret", "") == 2, "what is there, twice");
    ran.expect(told.len() == 3, "and nothing else");
    let missing = violations(&ran, "look").find(|one| one["path"] == "/root/notes");
    ran.expect(
        missing.is_some_and(|one| one["stopped_by"] == "mount-namespace" && one["on"] == "stat"),
        "it is a violation, with what stood in the way",
    );
    ran.expect(ran.stderr.contains("asking about"), "in words");
    ran.expect(ran.at("/events/complete") == true, "all of it");
}

#[test]
fn a_watch_is_a_look() {
    let program = "import ctypes, os\nlibc = ctypes.CDLL(None, use_errno=True)\nfd = libc.inotify_init()\n\
        print(libc.inotify_add_watch(fd, b'/root/.ssh', 2) == -1, libc.inotify_add_watch(fd, b'secret', 2) > 0)";
    let ran = looks("log").python(program);
    ran.expect(ran.stdout == "True True\n", "the control: the answers");
    let told: Vec<_> = violations(&ran, "look").map(|one| &one["path"]).collect();
    ran.expect(told == ["/root/.ssh", "/workspace/secret"], "each is told");
}

#[test]
fn a_look_that_kills_has_no_answer() {
    let ran = looks("kill").shell("echo before; [ -e secret ] && echo there; echo after");
    ran.expect_code(121);
    ran.expect(ran.stdout == "before\n", "it learns nothing");
    ran.expect(violations(&ran, "look").count() == 1, "and it is told");
}

#[test]
fn looks_that_no_rule_is_against_are_told_where_nothing_is_and_are_no_finding() {
    let rules = rule("other", "stat", "kill", "path = \"/nowhere/*\"");
    for rules in ["", &rules] {
        let ran = Run::new().file("secret", "").profile(rules).with_events();
        let ran = ran.shell(SHELL);
        ran.expect_code(0);
        let told: Vec<_> = events(&ran, "look").collect();
        ran.expect(
            told.iter().all(|look| {
                let is_in_vain = look["errno"] == "ENOENT" && look["rule"].is_null();
                is_in_vain && look["path"] == "/root/notes"
            }),
            "what is there is no event",
        );
        ran.expect(told.len() == 1, "and what is not is one");
        ran.expect(ran.at("/verdict") == "clean", "and no finding");
    }
}

/// A search over thousands of paths crowds nothing out.
#[test]
fn looks_in_vain_are_told_up_to_a_number() {
    let program = "import os\nfor number in range(1000): os.access(f'/nowhere/{number}', 0)";
    let ran = Run::new()
        .profile(&rule("other", "stat", "kill", "path = \"/elsewhere/*\""))
        .with_events()
        .python(program);
    ran.expect_code(0);
    let told = events(&ran, "look").filter(|look| look["errno"] == "ENOENT");
    ran.expect(told.count() == 256, "so many, and no more");
    ran.expect(ran.at("/events/complete") == true, "nothing is lost");
}

/// What the host keeps is not in the jail.
#[test]
fn wanting_what_the_host_keeps_is_a_finding() {
    let script = "[ -f /root/.bashrc ] || echo no home; cat /var/log/there.log 2> /dev/null || echo no log; \
        [ -e /etc/ssh/ssh_config ] || echo no settings";
    let ran = Run::new().shell(script);
    ran.expect_code(0);
    ran.expect(
        ran.stdout == "no home\nno log\nno settings\n",
        "the control: nothing of it is there",
    );
    let told: Vec<_> = violations(&ran, "host-files")
        .map(|one| &one["path"])
        .collect();
    ran.expect(
        told == ["/root/.bashrc", "/var/log/there.log"],
        "both are told, and what every ssh reads is not",
    );
    ran.expect(ran.at("/risk_score") == 60, "one finding");
    ran.expect(ran.at("/status") == "exited", "and nobody is killed");
}

#[test]
fn what_is_given_is_no_finding_of_a_rule_on_what_is_hidden() {
    let kept = tempfile::tempdir_in("/opt").expect("a test runs as root");
    std::fs::write(kept.path().join("inside"), "").expect("it can be written to");
    let kept = kept.path().display();
    let notice = format!("path = \"{kept}\"\nhidden = true\nyields = true");
    let notice = rule("mine", "open", "log", &notice);
    // The shell opens it by itself; ls would only ask.
    let hidden = Run::new()
        .profile(&notice)
        .shell(&format!("read name < {kept} || echo nothing"));
    hidden.expect(hidden.stdout == "nothing\n", "it is not there");
    hidden.expect(violations(&hidden, "mine").count() == 1, "and told");
    let run = Run::new().profile(&notice);
    let shown = run
        .option(&format!("--read {kept}"))
        .shell(&format!("ls {kept}"));
    shown.expect(shown.stdout == "inside\n", "it is given");
    shown.expect(
        violations(&shown, "mine").count() == 0,
        "and nothing is told",
    );
    shown.expect(shown.at("/verdict") == "clean", "of what it is for");
}
