//! The annotation `dev.turnkey.profile`: a container chooses among the profiles that its hook leaves it. What the hook's own options say
//! of its watcher.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use turnkey_tests::{finish, scratch};

use super::{add_hook_with, bundle, change, of_the_end, wrapper};
use crate::attach::OthersGroup;

const ANNOTATION: &str = "dev.turnkey.profile";

/// The hook's own profile kills for a read of the shadow, and the one that it leaves to a container tells of it.
const CHOICE: [&str; 4] = ["--profile", "container", "--choice", "runner"];

/// Runs the bundle to its end, with that annotation or none; its program reads its shadow at once.
fn run(mut runtime: Command, bundle: &Path, (id, profile): (&str, Option<&str>)) -> Output {
    change(bundle, |settings| {
        settings["annotations"] = match profile {
            Some(profile) => serde_json::json!({ ANNOTATION: profile }),
            None => serde_json::json!({}),
        };
    });
    let input = bundle.join("input");
    std::fs::write(&input, "x").expect("a test can write");
    let input = std::fs::File::open(input).expect("it is there");
    let command = runtime.args(["run", id]).current_dir(bundle).stdin(input);
    let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    finish(command.spawn().expect("the runtime can be started"))
}

/// Holds the choices of containers of one bundle against what came of them.
fn expect_choices(bundle: &Path, id: &str, runtime: impl Fn() -> Command) {
    let file = bundle.join(format!("{id}.json"));
    let row = |report: &Value| {
        let rows = report["violations"].as_array().cloned().unwrap_or_default();
        rows.into_iter()
            .find(|row| row["rule"] == "credential-file")
    };
    for (profile, code, action, name) in [
        (None, 137, "kill", "container"),
        (Some("runner"), 0, "log", "runner"),
    ] {
        let ran = run(runtime(), bundle, (id, profile));
        let said = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(ran.status.code(), Some(code), "{profile:?}: {said}");
        let (report, text) = of_the_end(&file);
        let row = row(&report).unwrap_or_else(|| panic!("{profile:?}: {text}"));
        assert_eq!(row["action"], action, "{profile:?}");
        assert_eq!(report["profile"]["name"], name, "{profile:?}");
        std::fs::remove_file(&file).expect("it was read");
    }
    // Shipped and not left to it, of no name, and a file that turnkey would read as root.
    for profile in ["service", "no-such-profile", "/etc/shadow"] {
        let ran = run(runtime(), bundle, (id, Some(profile)));
        let said = String::from_utf8_lossy(&ran.stderr);
        // Its program ends with another status, whatever becomes of it.
        assert_eq!(ran.status.code(), Some(1), "{profile:?}: {said}");
        assert!(
            said.contains("dev.turnkey.profile asks for a profile"),
            "{profile:?}: {said}"
        );
        assert!(!file.exists(), "{profile:?}: nobody watched it");
    }
}

#[test]
fn an_annotation_chooses_among_the_profiles_that_the_hook_leaves_and_no_other() {
    let (directory, group) = (scratch(), OthersGroup::new());
    let id = format!("chooses-{}", std::process::id());
    bundle(directory.path(), &format!("{}/web", group.name()));
    add_hook_with(directory.path(), directory.path(), &CHOICE);
    expect_choices(directory.path(), &id, || Command::new("runc"));
}

#[test]
fn an_annotation_chooses_behind_the_wrapper_too() {
    let (directory, group) = (scratch(), OthersGroup::new());
    let id = format!("chooses-wrapped-{}", std::process::id());
    bundle(directory.path(), &format!("{}/web", group.name()));
    let reports = directory.path().display().to_string();
    expect_choices(directory.path(), &id, || {
        wrapper(&[&CHOICE[..], &["--reports", &reports]].concat())
    });
}

/// A container whose read the profile kills for: its hook has the rules log alone, and tells a receiver.
fn expect_told(bundle: &Path, id: &str, runtime: Command) {
    let ran = run(runtime, bundle, (id, None));
    let said = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(0), "it read its shadow: {said}");
    let (report, text) = of_the_end(&bundle.join(format!("{id}.json")));
    let logged = report
        .pointer("/violations/0/action")
        .and_then(Value::as_str);
    assert_eq!(logged, Some("log"), "{text}");
    let alerts = std::fs::read_to_string(bundle.join("alerts")).expect("a receiver has it");
    let rules: Vec<_> = alerts
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|alert| alert["finding"]["id"] == "credential-file")
        .collect();
    assert_eq!(rules.len(), 1, "{alerts}");
}

#[test]
fn the_mode_and_the_receivers_of_a_hook_are_its_watchers() {
    let (directory, group) = (scratch(), OthersGroup::new());
    let id = format!("told-{}", std::process::id());
    bundle(directory.path(), &format!("{}/web", group.name()));
    let to = format!("file:{}", directory.path().join("alerts").display());
    let options = ["--mode", "observe", "--to", &to];
    let reports = directory.path().display().to_string();
    let wrapped = wrapper(&[&options[..], &["--reports", &reports]].concat());
    expect_told(directory.path(), &id, wrapped);
    std::fs::remove_file(directory.path().join("alerts")).expect("it is there");
    change(directory.path(), |settings| {
        settings["hooks"] = serde_json::json!({})
    });
    add_hook_with(directory.path(), directory.path(), &options);
    expect_told(
        directory.path(),
        &format!("{id}-hook"),
        Command::new("runc"),
    );
}
