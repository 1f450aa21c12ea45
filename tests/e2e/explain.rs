//! What `turnkey explain` prints is what a run does.

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::Value;
use turnkey_expectations::expected;
use turnkey_tests::{Ran, Run, binary, in_the_guest};

expected!(
    not_on[ORDINARY_6_12],
    "a plan is made without asking the kernel"
);

fn explain(run: &Run, options: &[&str]) -> Value {
    let output = Command::new(binary())
        .current_dir(run.path())
        .args(["explain", "untrusted", "--json"])
        .args(options)
        .output()
        .expect("turnkey can be started");
    assert!(output.status.success(), "{output:?}");
    let plan: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    assert_eq!(plan["schema"], "turnkey.plan/v1");
    plan
}

/// proc_pid_mountinfo(5): mount point to options.
fn mounts(ran: &Ran) -> BTreeMap<String, Vec<String>> {
    let fields = |line: &str| {
        let mut fields = line.split(' ').skip(4);
        let (point, options) = (fields.next()?, fields.next()?);
        let options = options.split(',').map(str::to_owned).collect();
        Some((point.to_owned(), options))
    };
    ran.stdout.lines().filter_map(fields).collect()
}

fn words(value: &Value) -> Vec<String> {
    let list = value.as_array().cloned().unwrap_or_default();
    let words = list.iter().filter_map(Value::as_str);
    words.map(str::to_owned).collect()
}

/// Both ways: every planned mount is there, closed as planned, and no other is.
#[test]
fn the_mounts_of_a_run_are_those_of_its_plan() {
    let run = Run::new();
    let plan = explain(&run, &["--scratch", "/scratch=1M"]);
    let ran = run
        .option("--scratch /scratch=1M")
        .run(&["cat", "/proc/self/mountinfo"]);
    ran.expect_code(0);
    let mut seen = mounts(&ran);
    seen.remove("/").expect("the jail has a root");
    let steps = plan["tree"].as_array().expect("the plan has a tree");
    let planned = steps
        .iter()
        .filter(|step| !words(&step["attributes"]).is_empty());
    for step in planned {
        let path = step["path"].as_str().expect("a step has a place");
        let optional = step["step"] == "mask";
        let Some(options) = seen.remove(path) else {
            ran.expect(optional, &format!("{path} is mounted"));
            continue;
        };
        let attributes = words(&step["attributes"]);
        for attribute in ["ro", "nosuid", "nodev", "noexec"] {
            let wanted = attributes.iter().any(|word| word == attribute);
            let is = options.iter().any(|option| option == attribute);
            ran.expect(
                wanted == is,
                &format!("{path}: {attribute} is {is}, planned {wanted}"),
            );
        }
    }
    // What the host has mounted below /usr or another directory comes with that directory.
    seen.retain(|point, _| !steps.iter().any(|step| is_below(point, step)));
    ran.expect(
        seen.is_empty(),
        &format!("nothing else is mounted: {seen:?}"),
    );
}

fn is_below(point: &str, step: &Value) -> bool {
    let path = step["path"].as_str().unwrap_or_default();
    step["step"] == "read" && point.starts_with(&format!("{path}/"))
}

#[test]
fn the_layers_of_a_run_are_those_of_its_plan() {
    let run = Run::new();
    let options = ["--memory", "100M", "--pids", "20", "--open-files", "99"];
    let plan = explain(&run, &options);
    let ran = run.option(&options.join(" ")).run(&["true"]);
    ran.expect_code(0);
    let proof = |layer: &str| {
        let mut layers = ran.list("/enforcement").iter();
        let found = layers.find(|report| report["layer"] == layer);
        found.map_or(String::new(), |report| {
            format!("{} {}", report["effective"], report["proof"])
        })
    };
    for group in plan["groups"].as_array().expect("the plan has groups") {
        let (file, value) = (
            group["file"].as_str().unwrap(),
            group["value"].as_str().unwrap(),
        );
        let layer = group["controller"].as_str().unwrap();
        // Swap may have no account; then the host has none.
        let said = proof(layer);
        let holds = said.contains(&format!("{file} is {value}")) || file.contains("memsw");
        ran.expect(holds, &format!("{file} is {value} in {said}"));
    }
    for limit in plan["rlimits"].as_array().expect("the plan has limits") {
        let wanted = format!("{} {}", limit["name"].as_str().unwrap(), limit["value"]);
        ran.expect(proof("rlimits").contains(&wanted), &wanted);
    }
    let rules = words_count(&plan["landlock"]["rules"]);
    let said = proof("landlock");
    ran.expect(
        said.contains(&format!("; {rules} rules")),
        &format!("{rules} rules in {said}"),
    );
    let allowed = plan["syscalls"]["allowed"]
        .as_array()
        .expect("groups of calls");
    let allowed: usize = allowed
        .iter()
        .map(|group| words_count(&group["names"]))
        .sum();
    let wanted = format!("{allowed} syscalls allowed");
    ran.expect(proof("seccomp").contains(&wanted), &wanted);
}

fn words_count(value: &Value) -> usize {
    value.as_array().map_or(0, Vec::len)
}

/// The control run is every other test: root makes groups, mounts and processes for a run.
#[test]
fn explaining_needs_no_root_and_makes_nothing() {
    let output = Command::new("setpriv")
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
        .arg(binary())
        .args(["explain", "python", "--", "anything"])
        .current_dir("/usr")
        .output()
        .expect("setpriv is part of util-linux");
    let page = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    assert!(page.contains("profile python"), "{page}");
    assert!(page.contains("/usr/bin/anything"), "{page}");
}

/// What is asked, and the program that does it.
const ATTEMPTS: [(&[&str], &[&str]); 4] = [
    (
        &["--path", "/etc/shadow", "--access", "read"],
        &["cat", "/etc/shadow"],
    ),
    (
        &["--path", "~/.bashrc", "--access", "write"],
        &["sh", "-c", "echo x > ~/.bashrc"],
    ),
    (
        &[
            "--on",
            "rename",
            "--path",
            "/workspace/.ssh/authorized_keys",
        ],
        &[
            "sh",
            "-c",
            "mkdir .ssh; echo x > keys; mv keys .ssh/authorized_keys",
        ],
    ),
    (
        &["--on", "exec", "--path", "/dev/shm/tool"],
        &["sh", "-c", "cp /bin/true /dev/shm/tool; /dev/shm/tool"],
    ),
];

#[test]
fn the_rule_that_explain_names_is_the_one_that_decides() {
    for (question, command) in ATTEMPTS {
        let output = Command::new(binary())
            .args(["explain", "untrusted", "--json"])
            .args(question)
            .output()
            .expect("turnkey can be started");
        let decision: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
        let rule = &decision["decides"];
        let ran = Run::new().run(command);
        let acted = ran.violations().last();
        let acted = acted.unwrap_or_else(|| panic!("{command:?}: {}", ran.report));
        assert_eq!(acted["rule"], rule["id"], "{command:?}");
        assert_eq!(acted["action"], rule["action"], "{command:?}");
    }
}

expected!(
    explain_is_where_a_run_is: on[BY_DAY]
);

/// The notice of a run on a host of systemd's that gives it no scope, which is asked for before there is a plan, is that of `explain`.
/// Here systemd is not there to be asked: its directory says that it runs the host, sd_booted(3), and nobody answers.
#[test]
fn explain_is_where_a_run_is() {
    const MARK: &str = "without systemd's knowledge";
    let booted =
        "mkdir -p /run && mount -t tmpfs none /run && mkdir -p /run/systemd/system && exec \"$@\"";
    let told = |arguments: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", booted, "sh"]);
        command.arg(binary()).args(arguments);
        let output = command.current_dir(Run::new().path()).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{told}");
        let line = told.lines().find(|line| line.contains(MARK));
        line.map(str::to_owned)
    };
    let by_run = told(&["run", "--", "/bin/true"]);
    // With controllers of version 1, groups are made beside systemd's.
    let has_to_ask = in_the_guest();
    assert!(by_run.is_some() || !has_to_ask, "a scope is asked for");
    assert_eq!(told(&["explain", "untrusted"]), by_run);
}
