//! `turnkey doctor` on this host, and what its user is told when a run cannot be.

use std::process::{Command, Output};

use serde_json::Value;
use turnkey_tests::{binary, binary_for_everybody, open_to_all, outside, scratch, traces};

/// As the user `nobody`, who has no privileges.
fn unprivileged(arguments: &[&str]) -> Command {
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
        .args(arguments)
        .current_dir("/tmp");
    command
}

fn output(command: &mut Command) -> Output {
    command.output().expect("a program of the host")
}

fn object(output: &Output) -> Value {
    let object: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    assert_eq!(object["schema"], "turnkey.doctor/v1");
    object
}

fn finding<'a>(object: &'a Value, check: &str) -> &'a Value {
    let findings = object["findings"].as_array().expect("findings are a list");
    let found = findings.iter().find(|finding| finding["check"] == check);
    found.unwrap_or_else(|| panic!("no check is called {check}"))
}

fn text(output: &Output) -> String {
    let both = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8_lossy(&both).into_owned()
}

/// Every end-to-end test shows that runs of the default profile work here, so a doctor that says
/// no would be wrong.
#[test]
fn doctor_finds_this_host_whole_and_leaves_nothing() {
    let directory = scratch();
    let mut command = Command::new(binary());
    let output = output(
        command
            .args(["doctor", "--json"])
            .current_dir(directory.path()),
    );
    let object = object(&output);
    assert_eq!(output.status.code(), Some(0), "{object:#}");
    assert_eq!(object["whole"], true);
    assert_eq!(finding(&object, "monitor")["state"], "ok");
    assert_eq!(finding(&object, "default-profile")["state"], "ok");
    let left: Vec<String> = traces()
        .into_iter()
        .filter(|trace| trace.contains("turnkey-doctor-"))
        .collect();
    assert_eq!(left, Vec::<String>::new());
    let files = std::fs::read_dir(directory.path()).unwrap().count();
    assert_eq!(files, 0, "nothing is left in the working directory");
}

#[test]
fn doctor_tells_a_user_without_privileges_what_is_missing() {
    let place = scratch();
    open_to_all(place.path());
    let binary = binary_for_everybody(place.path());
    let told = output(&mut unprivileged(&[
        binary.to_str().unwrap(),
        "doctor",
        "--json",
    ]));
    let object = object(&told);
    assert_eq!(told.status.code(), Some(1), "{object:#}");
    let capabilities = finding(&object, "capabilities");
    for name in ["CAP_SYS_ADMIN", "CAP_BPF", "CAP_PERFMON"] {
        assert!(
            capabilities["found"].as_str().unwrap().contains(name),
            "{capabilities}"
        );
    }
    assert!(
        capabilities["fix"]
            .as_str()
            .unwrap()
            .contains("--best-effort")
    );
    assert_eq!(finding(&object, "monitor")["state"], "missing");
    assert_eq!(finding(&object, "best-effort")["state"], "ok", "{object:#}");
}

/// Where user namespaces are switched off, a run ends with the switch's name and never goes on
/// with less. The switch belongs to each user namespace, so that of a child can be turned.
#[test]
fn j60_switched_off_namespaces_are_named_and_nothing_weaker_runs() {
    const SWITCH: &str = "/proc/sys/user/max_user_namespaces";
    let before = std::fs::read_to_string(SWITCH).unwrap();
    let place = scratch();
    open_to_all(place.path());
    let turnkey = binary_for_everybody(place.path());
    let inside = |switch: &str| {
        let script = format!("{switch} unshare -U true && echo made; exec \"$@\"");
        let run = ["run", "--unmonitored", "--", "/bin/echo", "ran"];
        let mut command = unprivileged(&["unshare", "-Ur", "sh", "-c", &script, "sh"]);
        output(command.arg(&turnkey).args(run))
    };
    let control = inside("");
    assert!(
        text(&control).contains("made"),
        "a namespace can be made in a namespace: {}",
        text(&control)
    );

    let off = inside(&format!("echo 0 > {SWITCH};"));
    let told = text(&off);
    assert!(!told.contains("made"), "the switch is off: {told}");
    assert_eq!(off.status.code(), Some(125), "{told}");
    assert!(told.contains("user.max_user_namespaces is 0"), "{told}");
    assert!(
        told.contains("sysctl -w user.max_user_namespaces="),
        "{told}"
    );
    assert_eq!(String::from_utf8_lossy(&off.stdout), "", "nothing ran");

    assert_eq!(
        std::fs::read_to_string(SWITCH).unwrap(),
        before,
        "the host's switch is as before"
    );
    assert!(outside("unshare", &["-U", "true"]).0.success());
}
