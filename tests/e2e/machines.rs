//! Machines that cannot give all: what `--best-effort` makes of them, and whether the advice that a strict run gives
//! works when it is followed. Each machine is made by the test, of namespaces and mounts that nobody else sees.

mod chroots;
mod containers;

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use turnkey_tests::{Mount, Run, binary, compile, nothing_is_loaded, scratch};

/// A program in the jail says so.
const RAN: [&str; 2] = ["/bin/echo", "ran"];

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The layers that are not in force, or not whole, in the order of the report.
fn weaker(report: &Value) -> Vec<String> {
    let layers = report["enforcement"].as_array().into_iter().flatten();
    layers
        .filter(|layer| !layer["degraded"].is_null())
        .map(|layer| layer["layer"].as_str().unwrap_or_default().to_owned())
        .collect()
}

/// Everything that a run with `--best-effort` promises of a machine that lacks these layers.
#[track_caller]
fn expect_less(stdout: &[u8], told: &str, report: &Value, layers: &[&str]) {
    assert_eq!(String::from_utf8_lossy(stdout), "ran\n", "{told}");
    assert_eq!(report["verdict"], "inconclusive", "{told}");
    assert_eq!(report["is_safe"], false, "{told}");
    assert_eq!(weaker(report), layers, "{told}");
    assert!(
        told.contains("less is enforced than was asked for"),
        "{told}"
    );
    for layer in layers {
        assert!(told.contains(layer), "the terminal names {layer}: {told}");
    }
    let proved = report["enforcement"].as_array().into_iter().flatten();
    for layer in proved.filter(|layer| layer["degraded"].is_null()) {
        assert!(!layer["proof"].is_null(), "all the rest is proved: {layer}");
    }
}

#[test]
fn where_all_can_be_had_best_effort_is_all_of_it() {
    let ran = Run::new().option("--best-effort").run(&RAN);
    ran.expect_code(0);
    ran.expect(weaker(&ran.report).is_empty(), "nothing is missing");
    ran.expect(
        ran.at("/verdict") == "clean",
        "and so it is no reason for doubt",
    );
    let killed = Run::new().option("--best-effort").shell("cat /etc/shadow");
    killed.expect_code(121);
}

#[test]
fn an_ordinary_user_gets_the_jail_by_best_effort() {
    let ran = Run::new().by_nobody().option("--best-effort").run(&RAN);
    ran.expect_code(0);
    let layers = ["memory", "pids", "cpu", "monitor"];
    expect_less(ran.stdout.as_bytes(), &ran.stderr, &ran.report, &layers);
}

#[test]
fn a_kernel_that_does_not_describe_itself_costs_the_monitor_alone() {
    nothing_is_loaded();
    let _hidden = Mount::new(&["-t", "tmpfs", "none"], Path::new("/sys/kernel/btf"));
    let strict = Run::new().run(&RAN);
    strict.expect_code(125);
    strict.expect(strict.stdout.is_empty(), "nothing ran");
    for part in ["CONFIG_DEBUG_INFO_BTF", "--best-effort"] {
        strict.expect(strict.stderr.contains(part), part);
    }
    let ran = Run::new().option("--best-effort").run(&RAN);
    ran.expect_code(0);
    expect_less(
        ran.stdout.as_bytes(),
        &ran.stderr,
        &ran.report,
        &["monitor"],
    );
}

/// As by `lockdown=confidentiality`, or a filter around turnkey.
#[test]
fn a_kernel_that_refuses_ebpf_costs_the_monitor_alone() {
    nothing_is_loaded();
    let place = scratch();
    let filter = place.path().join("filter");
    compile(&filter, include_str!("../data/container-filter.c"));
    let under_the_filter = |run: &Run| {
        let inside = run.command(&RAN);
        let mut command = Command::new(&filter);
        command
            .arg("bpf")
            .arg(inside.get_program())
            .args(inside.get_args());
        let output = command.current_dir(run.path()).output();
        output.expect("it was compiled")
    };
    let strict = under_the_filter(&Run::new());
    assert_eq!(strict.status.code(), Some(125), "{}", said(&strict));
    assert!(said(&strict).contains("CAP_BPF"), "{}", said(&strict));
    let run = Run::new().option("--best-effort");
    let output = under_the_filter(&run);
    expect_less(&output.stdout, &said(&output), &run.report(), &["monitor"]);
}

/// As by a service with a private view of it, or a container's tool that hides it.
#[test]
fn control_groups_under_another_mount_are_mounted_again_by_the_command_that_is_named() {
    let hidden = |place: &str, script: &str| {
        let script = format!("mount -t tmpfs none {place}; {script}");
        Command::new("unshare")
            .args(["--mount", "--propagation", "private", "sh", "-ec", &script])
            .env("turnkey", binary())
            .current_dir(scratch().path())
            .output()
            .expect("unshare is part of every system")
    };
    let legacy = "/sys/fs/cgroup/memory";
    let places = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified", legacy];
    for place in places.into_iter().filter(|place| Path::new(place).is_dir()) {
        let strict = hidden(place, "$turnkey run -- echo ran");
        let told = said(&strict);
        assert_eq!(strict.status.code(), Some(125), "{told}");
        assert!(strict.stdout.is_empty(), "nothing ran");
        let named = told.split_once("as root, mount ");
        let named = named.and_then(|(_, rest)| rest.split_once(": ")?.1.lines().next());
        let named = named.unwrap_or_else(|| panic!("a command is named: {told}"));
        let command = named.split("; or do without").next().unwrap_or(named);
        let followed = hidden(place, &format!("{command}; $turnkey run -- echo ran"));
        let told = said(&followed);
        assert_eq!(followed.status.code(), Some(0), "{command}\n{told}");
        assert_eq!(String::from_utf8_lossy(&followed.stdout), "ran\n");
        assert!(told.contains("clean"), "{told}");
    }
}

/// The jail is what everything else is made in: without it nothing is enforced, and nothing runs.
#[test]
fn best_effort_makes_no_run_without_a_jail() {
    let run = Run::new().option("--best-effort");
    let inside = run.command(&RAN);
    let script = "echo 0 > /proc/sys/user/max_user_namespaces && exec \"$@\"";
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "sh", "-c", script, "sh"])
        .arg(inside.get_program())
        .args(inside.get_args())
        .current_dir(run.path())
        .output()
        .expect("unshare is part of every system");
    assert_eq!(output.status.code(), Some(125), "{}", said(&output));
    assert!(output.stdout.is_empty(), "nothing ran");
    assert!(
        said(&output).contains("user.max_user_namespaces is 0"),
        "{}",
        said(&output)
    );
}
