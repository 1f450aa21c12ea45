//! Containers of others: what runc starts, early, late, by a hook and behind the wrapper.

mod crun;
mod podman;
mod profiles;

use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use turnkey_expectations::expected;
use turnkey_tests::{binary, eventually, finish, outside, scratch};

use crate::attach::{Attached, Others, OthersGroup, broken, is_whole};

/// A container's tree: a program that reads its shadow when it is told to, and nothing else but that.
fn tree(directory: &Path) {
    let root = directory.join("rootfs");
    std::fs::create_dir_all(root.join("etc")).expect("a test can make directories");
    std::fs::write(root.join("etc/shadow"), "root:x:::\n").expect("a test can write");
    const SOURCE: &str = "#include <fcntl.h>\n#include <stdio.h>\n#include <unistd.h>\n\
        int main(void) { char text[4]; if (read(0, text, 1) != 1) return 3;\n\
        int file = open(\"/etc/shadow\", O_RDONLY); return read(file, text, 4) == 4 ? 0 : 4; }\n";
    let (source, program) = (directory.join("program.c"), root.join("program"));
    std::fs::write(&source, SOURCE).expect("a test can write");
    let [source, program] = [source, program].map(|path| path.display().to_string());
    // There is nothing else in its tree.
    let (compiled, _) = outside("cc", &["-static", "-o", &program, &source]);
    assert!(compiled.success());
}

/// A container as runc makes it: its program, and the settings of its runtime.
fn bundle(directory: &Path, group: &str) {
    tree(directory);
    let made = Command::new("runc")
        .arg("spec")
        .current_dir(directory)
        .status();
    assert!(made.expect("runc is installed").success());
    change(directory, |settings| {
        settings["process"]["terminal"] = false.into();
        settings["process"]["args"] = serde_json::json!(["/program"]);
        settings["linux"]["cgroupsPath"] = group.into();
    });
}

/// Changes the settings of a bundle.
fn change(directory: &Path, change: impl FnOnce(&mut Value)) {
    let config = directory.join("config.json");
    let text = std::fs::read_to_string(&config).expect("runc wrote it");
    let mut settings: Value = serde_json::from_str(&text).expect("it is JSON");
    change(&mut settings);
    std::fs::write(&config, settings.to_string()).expect("a test can write");
}

/// Has the runtime call turnkey before the program starts.
fn add_hook(directory: &Path, reports: &Path) {
    add_hook_with(directory, reports, &[]);
}

/// The same, with what else the hook is told.
fn add_hook_with(directory: &Path, reports: &Path, options: &[&str]) {
    let reports = reports.display().to_string();
    let arguments = [&["turnkey", "oci-hook", "--reports", &reports][..], options];
    let hook = serde_json::json!({ "path": binary(), "args": arguments.concat() });
    change(directory, |settings| {
        settings["hooks"]["createRuntime"] = serde_json::json!([hook]);
    });
}

/// A container of runc in a group; `end` writes the byte that its program waits for.
struct Container {
    child: Child,
}

impl Container {
    fn start(directory: &Path, id: &str) -> Container {
        Container::by(Command::new("runc"), directory, id)
    }

    /// As what stands for runc makes it.
    fn by(mut command: Command, directory: &Path, id: &str) -> Container {
        command.args(["run", id]).current_dir(directory);
        Container::of(command)
    }

    /// As a whole command makes it.
    fn of(mut command: Command) -> Container {
        let child = command.stdin(Stdio::piped()).spawn();
        Container {
            child: child.expect("runc can be started"),
        }
    }

    fn end(mut self) -> i32 {
        let mut input = self.child.stdin.take().expect("it is a pipe");
        // It may be dead.
        let _ = input.write_all(b"x");
        drop(input);
        finish(self.child).status.code().unwrap_or(-1)
    }
}

/// The report that a watcher in the background has written at its end, and its text.
fn of_the_end(file: &Path) -> (Value, String) {
    let (mut report, mut text) = (Value::Null, String::new());
    eventually("the watcher has written its report", || {
        text = std::fs::read_to_string(file).unwrap_or_default();
        report = serde_json::from_str(&text).unwrap_or_default();
        !report.is_null() && report["status"] != "watching"
    });
    (report, text)
}

/// Returns when the program of the only container in the group is there.
fn its_program_waits(group: &Path) {
    eventually("its program waits", || {
        let procs = std::fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
        let runs = |pid: &str| {
            let exe = std::fs::read_link(format!("/proc/{pid}/exe"));
            exe.is_ok_and(|exe| exe.ends_with("program"))
        };
        procs.lines().any(runs)
    });
}

/// Turnkey, attached to a container that runs. It asks podman, too, which makes itself a storage where it has none.
fn late(place: &Path, id: &str) -> Attached {
    let mut turnkey = podman::with_storage(binary(), place);
    Attached::by(&mut turnkey, &["--container", id], &[])
}

/// The watcher found the container's program, and killed it for its read.
#[track_caller]
fn found_and_killed(late: Attached) {
    let (code, report, said) = late.end();
    assert_eq!(
        (code, broken(&report)),
        (121, vec!["credential-file"]),
        "{said}"
    );
    assert_eq!(report["attached"]["found_count"], 1, "{said}");
}

#[test]
fn a_container_of_runc_is_killed_for_a_read_of_its_shadow_early_and_late() {
    let (directory, group) = (scratch(), OthersGroup::new());
    let id = format!("web-{}", std::process::id());
    bundle(directory.path(), &format!("{}/web", group.name));
    let control = Container::start(directory.path(), &id);
    assert_eq!(control.end(), 0, "the control: it reads");

    let early = Attached::to(&["--cgroup", &group.name], &[]);
    let container = Container::start(directory.path(), &id);
    assert_eq!(container.end(), 137, "killed before it had the content");
    let (code, report, said) = early.end();
    assert_eq!(code, 121, "{said}");
    // What the runtime does for its container is no behaviour of the container's.
    let findings = report["findings"].as_array().expect("a list").iter();
    let grave: Vec<_> = findings
        .filter(|finding| finding["score"] != 0)
        .map(|finding| &finding["id"])
        .collect();
    assert_eq!(grave, ["credential-file"], "{said}");

    let container = Container::start(directory.path(), &id);
    its_program_waits(&group.path.join("web"));
    let late = late(directory.path(), &id);
    assert_eq!(container.end(), 137);
    let (code, report, said) = late.end();
    assert_eq!(
        (code, report["attached"]["found_count"].as_u64()),
        (121, Some(1)),
        "{said}"
    );
    assert_eq!(named_by_both(&report), names(directory.path()), "{said}");
    assert!(
        said.contains(&format!("on host     {}", names(directory.path())[1])),
        "{said}"
    );
}

/// The file of a container's last violation, as the container names it and as the host does.
fn named_by_both(report: &Value) -> [String; 2] {
    let row = report["violations"]
        .as_array()
        .and_then(|rows| rows.last())
        .expect("one");
    ["path", "host_path"].map(|name| row[name].as_str().unwrap_or_default().to_owned())
}

/// The names that [`named_by_both`] finds for the container of such a bundle.
fn names(bundle: &Path) -> [String; 2] {
    let host = bundle
        .join("rootfs/etc/shadow")
        .canonicalize()
        .expect("it is there");
    ["/etc/shadow".to_owned(), host.display().to_string()]
}

expected!(
    a_runtime_that_executes_itself_in_the_group_is_not_its_program: not_on [ORDINARY_6_12],
    "strace holds the runtime up, which the guest does not have"
);
/// runc executes itself anew, and a busy host has put it into the group by then: where this one was busier with the rest, it is held
/// up for longer.
#[test]
fn a_runtime_that_executes_itself_in_the_group_is_not_its_program() {
    let was_in_group = [300, 3_000].into_iter().any(executes_itself_in_the_group);
    assert!(was_in_group, "it was never in the group by then");
}

/// Runs a container whose runtime is held up for so many milliseconds before it executes itself. False when it was not in the group yet.
fn executes_itself_in_the_group(held_up: u32) -> bool {
    let (directory, group) = (scratch(), OthersGroup::new());
    let id = format!("anew-{}-{held_up}", std::process::id());
    bundle(directory.path(), &format!("{}/web", group.name));
    let events = directory.path().join("events.jsonl");
    let options = ["--events", events.to_str().expect("a name")];
    let attached = Attached::to(&["--cgroup", &group.name], &options);
    let mut late = Command::new("strace");
    let trace = directory.path().join("trace");
    late.args(["-f", "-o"]).arg(&trace);
    late.args(["-e", "trace=execveat", "-e"]);
    late.arg(format!("inject=execveat:delay_enter={held_up}ms"));
    late.arg("runc");
    assert_eq!(Container::by(late, directory.path(), &id).end(), 137);
    let (code, report, said) = attached.end();
    let findings = report["findings"].as_array().expect("a list").iter();
    let grave = findings.filter(|finding| finding["score"] != 0);
    let grave: Vec<_> = grave.map(|finding| &finding["id"]).collect();
    assert_eq!(code, 121, "{said}");
    assert_eq!(grave, ["credential-file"], "{said}");
    let text = std::fs::read_to_string(events).expect("events are there");
    let init = |line: &str| line.contains("\"exec\"") && line.contains("[\"runc\",\"init\"]");
    text.lines().any(init)
}

#[test]
fn a_runtime_calls_turnkey_before_the_program_starts_and_starts_nothing_without() {
    let (directory, group) = (scratch(), OthersGroup::new());
    let id = format!("hooked-{}", std::process::id());
    bundle(directory.path(), &format!("{}/web", group.name));
    add_hook(directory.path(), directory.path());
    let container = Container::start(directory.path(), &id);
    assert_eq!(container.end(), 137, "killed before it had the content");
    let report = directory.path().join(format!("{id}.json"));
    let (report, text) = of_the_end(&report);
    assert_eq!(report["status"], "killed_by_policy", "{text}");
    assert_eq!(broken(&report).last(), Some(&"credential-file"), "{text}");
    assert_eq!(named_by_both(&report), names(directory.path()), "{text}");
    assert_eq!(
        report["attached"]["found_count"], 0,
        "its program had not started"
    );

    // A watcher that cannot be had: its report has no place.
    add_hook(directory.path(), &directory.path().join("missing"));
    let container = Container::start(directory.path(), &id);
    assert_eq!(container.end(), 1, "the program is not started");
}

/// What `runc exec` starts in a container comes from outside of its group, and has no instruction in it that nobody watches.
#[test]
fn what_is_executed_in_a_watched_container_is_watched_from_its_first_call_on() {
    let (directory, group) = (scratch(), OthersGroup::new());
    let id = format!("exec-{}", std::process::id());
    bundle(directory.path(), &format!("{}/web", group.name));
    let executed = || {
        let mut command = Command::new("runc");
        command.args(["exec", &id, "/program"]);
        Container::of(command).end()
    };
    let container = Container::start(directory.path(), &id);
    its_program_waits(&group.path.join("web"));
    assert_eq!(executed(), 0, "the control: it reads");
    assert_eq!(container.end(), 0);

    add_hook(directory.path(), directory.path());
    let container = Container::start(directory.path(), &id);
    its_program_waits(&group.path.join("web"));
    assert_eq!(executed(), 137, "killed before it had the content");
    assert_eq!(container.end(), 137, "and the container with it");
    let (report, text) = of_the_end(&directory.path().join(format!("{id}.json")));
    assert_eq!(report["status"], "killed_by_policy", "{text}");
    assert_eq!(broken(&report).last(), Some(&"credential-file"), "{text}");
}

#[test]
fn a_container_that_is_made_anew_is_watched_under_the_attachment_to_the_group_above() {
    let (directory, group) = (scratch(), OthersGroup::new());
    let id = format!("again-{}", std::process::id());
    bundle(directory.path(), &format!("{}/web", group.name));
    // The engine itself, which is there before, between and after.
    let engine = Others::start(&group.below("engine"));
    let attached = Attached::to(&["--cgroup", &group.name], &["--mode", "observe"]);
    for _ in 0..3 {
        let container = Container::start(directory.path(), &id);
        assert_eq!(container.end(), 0, "it reads its shadow");
        eventually("the container's group is removed", || {
            !group.path.join("web").exists()
        });
    }
    assert_eq!(engine.end(), None);
    let (code, report, said) = attached.end();
    assert_eq!(
        (code, report["status"].as_str()),
        (0, Some("ended")),
        "{said}"
    );
    assert!(is_whole(&report), "{said}");
    let row = |row: &&Value| row["rule"] == "credential-file" && row["path"] == "/etc/shadow";
    let rows = report["violations"].as_array().expect("a list").iter();
    let counts: Vec<_> = rows
        .filter(row)
        .filter_map(|row| row["count"].as_u64())
        .collect();
    assert_eq!(
        counts.iter().sum::<u64>(),
        3,
        "one read of each: {}",
        report["violations"]
    );
}

/// Starts two containers of one id, and checks that each is watched and has a report of its own. Ids are unique below one
/// `--root` of a runtime; there may be several.
fn two_of_one_id(between: impl Fn(&Path)) {
    let (place, group) = (scratch(), OthersGroup::new());
    let id = format!("twice-{}", std::process::id());
    let directories = ["one", "other"].map(|name| {
        let directory = place.path().join(name);
        bundle(&directory, &format!("{}/{name}", group.name));
        add_hook(&directory, place.path());
        directory
    });
    let report = place.path().join(format!("{id}.json"));
    let containers = directories.map(|directory| {
        let mut runc = Command::new("runc");
        runc.arg("--root").arg(directory.join("root"));
        let container = Container::by(runc, &directory, &id);
        between(&report);
        container
    });
    let mut reports = Vec::new();
    eventually("two watchers watch", || {
        let entries = std::fs::read_dir(place.path())
            .expect("it is there")
            .flatten();
        reports = entries.map(|entry| entry.path()).collect();
        reports.retain(|path| path.extension().is_some_and(|end| end == "json") && begins(path));
        reports.len() == 2
    });
    assert!(reports.contains(&report), "{reports:?}");
    assert_eq!(containers.map(Container::end), [137, 137]);
    let mut groups: Vec<_> = reports
        .iter()
        .map(|file| {
            let (report, text) = of_the_end(file);
            assert_eq!(report["status"], "killed_by_policy", "{text}");
            report["attached"]["group"].clone()
        })
        .collect();
    groups.sort_by_key(Value::to_string);
    let expected = ["one", "other"].map(|name| Value::from(format!("{}/{name}", group.name)));
    assert_eq!(groups, expected);
}

/// True when the file is a report with what was found at the beginning.
fn begins(report: &Path) -> bool {
    let text = std::fs::read_to_string(report).unwrap_or_default();
    text.contains("\"found_count\"")
}

#[test]
fn two_living_containers_of_one_id_have_a_report_each() {
    two_of_one_id(|report| eventually("its watcher watches", || begins(report)));
}

/// Neither watcher finds the report of the other when it begins.
#[test]
fn two_containers_of_one_id_that_start_in_one_moment_have_a_report_each() {
    two_of_one_id(|_| ());
}

/// The command that stands where an engine expects a runtime.
fn wrapper(arguments: &[&str]) -> Command {
    let mut command = Command::new(binary());
    command.arg("oci-runtime").args(arguments).arg("--");
    command
}

#[test]
fn behind_the_wrapper_a_runtime_makes_no_container_that_nobody_watches() {
    let (directory, group) = (scratch(), OthersGroup::new());
    let id = format!("wrapped-{}", std::process::id());
    bundle(directory.path(), &format!("{}/web", group.name));
    let reports = directory.path().display().to_string();
    // A watcher that cannot be had: first, as the hook stays in the bundle.
    let nowhere = format!("{reports}/missing");
    let unwatched = Container::by(wrapper(&["--reports", &nowhere]), directory.path(), &id);
    assert_eq!(unwatched.end(), 1, "the program is not started");

    change(directory.path(), |settings| {
        let without = settings.to_string().replace(&nowhere, &reports);
        *settings = serde_json::from_str(&without).expect("it is JSON");
    });
    let container = Container::by(wrapper(&["--reports", &reports]), directory.path(), &id);
    assert_eq!(container.end(), 137, "killed before it had the content");
    let report = directory.path().join(format!("{id}.json"));
    let (report, text) = of_the_end(&report);
    assert_eq!(broken(&report).last(), Some(&"credential-file"), "{text}");
    assert_eq!(
        report["attached"]["found_count"], 0,
        "from its beginning: {text}"
    );
}

#[test]
fn every_other_command_of_a_runtime_is_as_without_the_wrapper() {
    for words in [
        &["--version"][..],
        &["state", "no-such-container"],
        &["features"],
        &["spec", "--help"],
    ] {
        let plain = Command::new("runc")
            .args(words)
            .output()
            .expect("runc is installed");
        let wrapped = wrapper(&[])
            .args(words)
            .output()
            .expect("turnkey can be started");
        assert_eq!(wrapped.status.code(), plain.status.code(), "{words:?}");
        assert_eq!(wrapped.stdout, plain.stdout, "{words:?}");
    }
    let refused = wrapper(&[]).args(["create", "--bun=/x", "web"]).output();
    let refused = refused.expect("turnkey can be started");
    assert_eq!(refused.status.code(), Some(125));
    assert!(
        String::from_utf8_lossy(&refused.stderr).contains("`--bun=/x` is not known to turnkey")
    );
}

/// What a runtime does to start a program that is not there is no act of the container's.
#[test]
fn a_container_whose_program_is_not_there_tries_no_escape() {
    let (directory, group) = (scratch(), OthersGroup::new());
    let id = format!("absent-{}", std::process::id());
    bundle(directory.path(), &format!("{}/web", group.name));
    add_hook(directory.path(), directory.path());
    change(directory.path(), |settings| {
        settings["process"]["args"] = serde_json::json!(["/absent"]);
    });
    let container = Container::start(directory.path(), &id);
    assert_ne!(container.end(), 0, "it is not started");
    let (report, text) = of_the_end(&directory.path().join(format!("{id}.json")));
    assert_eq!(report["risk_score"], 0, "{text}");
    let found = |id: &str| text.contains(&format!("\"id\": \"{id}\""));
    assert!(found("mount") && !found("behaviour:jail-escape"), "{text}");
}
