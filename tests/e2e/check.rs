//! What `turnkey check` answers, without privileges and without a jail.

use std::process::{Command, Output};

use serde_json::Value;
use turnkey_tests::{Run, binary};

const HEADER: &str = "schema = \"turnkey.profile/v1\"\nname = \"mine\"\nextends = \"untrusted\"\n";

fn check(run: &Run, arguments: &[&str]) -> Output {
    Command::new(binary())
        .current_dir(run.path())
        .arg("check")
        .args(arguments)
        .output()
        .expect("turnkey can be started")
}

fn profile(run: &Run, name: &str, text: &str) {
    let text = format!("{HEADER}{text}");
    std::fs::write(run.path().join(name), text).expect("the profile can be written");
}

#[test]
fn shipped_profiles_have_no_findings() {
    let run = Run::new();
    let listed = Command::new(binary()).args(["profiles", "--json"]).output();
    let listed: Value = serde_json::from_slice(&listed.expect("it answers").stdout).expect("JSON");
    let profiles = listed["profiles"].as_array().expect("a list");
    let names: Vec<_> = profiles
        .iter()
        .filter_map(|profile| profile["name"].as_str())
        .collect();
    assert!(names.len() == 15 && names[0] == "untrusted", "{names:?}");
    let output = check(&run, &names);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    // Who errs in the name is told all of them.
    let output = check(&run, &["no-such-profile"]);
    assert_eq!(output.status.code(), Some(125), "{output:?}");
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(names.iter().all(|name| told.contains(name)), "{told}");
}

/// The writable place is named by a symlink, and holds the profile all the same.
#[test]
fn a_finding_is_told_with_its_place() {
    let run = Run::new();
    std::fs::create_dir(run.path().join("real")).expect("a new directory");
    let link = run.path().join("link");
    std::os::unix::fs::symlink("real", &link).expect("a new link");
    let write = format!("[filesystem]\nwrite = [{{ path = {link:?}, why = \"results\" }}]\n");
    profile(&run, "real/mine.toml", &write);
    let output = check(&run, &["--json", "real/mine.toml"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let page: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    assert_eq!(page["schema"], "turnkey.check/v1");
    let finding = &page["profiles"][0]["findings"][0];
    assert_eq!(finding["lint"], "own-profile-writable", "{page}");
    assert_eq!(finding["places"][0]["file"], "real/mine.toml");
    assert_eq!(finding["places"][0]["line"], 5);
}

/// By the calendar of the machine: a day long ago is over, one of another millennium is not.
#[test]
fn an_acceptance_that_is_over_is_told() {
    let run = Run::new();
    for (name, until, code) in [("old", "2020-02-02", 1), ("new", "2999-12-31", 0)] {
        let accept = format!(
            "[[accept]]\nfinding = \"behaviour:evasion\"\nwhy = \"it sleeps\"\nuntil = \"{until}\"\n"
        );
        let name = format!("{name}.toml");
        profile(&run, &name, &accept);
        let output = check(&run, &["--json", &name]);
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        let told = String::from_utf8_lossy(&output.stdout).contains("acceptance-ends");
        assert_eq!(told, code == 1, "{output:?}");
    }
}

/// One that cannot be used does not keep the others from being looked at.
#[test]
fn what_cannot_be_used_is_told_with_all_that_is_wrong() {
    let run = Run::new();
    profile(
        &run,
        "wrong.toml",
        "[limits]\nmemroy = \"1G\"\npids = \"50\"\n",
    );
    let output = check(&run, &["--json", "wrong.toml", "untrusted"]);
    assert_eq!(output.status.code(), Some(125), "{output:?}");
    let page: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    assert_eq!(page["profiles"][0]["usable"], false);
    assert_eq!(
        page["profiles"][0]["findings"].as_array().map(Vec::len),
        Some(2)
    );
    assert_eq!(page["profiles"][1]["usable"], true);
}

/// Rules that the kernel's table cannot hold are refused here as by a run, in the same sentence.
#[test]
fn what_the_kernels_table_cannot_hold_is_told_as_a_run_tells_it() {
    let run = Run::new();
    let one_program = |number: usize| {
        format!(
            "[[rule]]\nid = \"r{number}\"\non = [\"open\"]\npath = [\"/data/{number}/**\"]\nexe = [\"/usr/bin/p{number}\"]\naction = \"log\"\nseverity = \"low\"\nwhy = \"x\"\n"
        )
    };
    let rules = |count| (0..count).map(one_program).collect::<String>();
    profile(&run, "some.toml", &rules(4));
    profile(&run, "many.toml", &rules(40));
    let page = check(&run, &["--json", "some.toml", "many.toml"]);
    assert_eq!(page.status.code(), Some(125), "{page:?}");
    let page: Value = serde_json::from_slice(&page.stdout).expect("it is JSON");
    assert_eq!(page["profiles"][0]["usable"], true, "{page}");
    assert_eq!(page["profiles"][1]["usable"], false, "{page}");
    let told = page["profiles"][1]["findings"][0]["what"].as_str();
    let told = told.expect("a sentence").to_owned();
    let refused = Command::new(binary())
        .current_dir(run.path())
        .args(["run", "--profile", "./many.toml", "--", "/bin/true"])
        .output()
        .expect("turnkey can be started");
    let by_run = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(by_run.contains(&told), "{told}: {by_run}");
    assert_eq!(refused.status.code(), Some(125), "{by_run}");
}
