//! Root in a bare chroot(2), as somebody makes one to try a distribution: its own /proc, and nothing else mounted.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use turnkey_tests::{binary, outside, scratch};

use super::{expect_less, said};
use crate::rootless::FORKS;

/// The content of the chroot, made by root in a mount namespace of its own; then a script that finds turnkey in its PATH.
/// `/bpf` has the programs that may be loaded for all, which saves time and is nothing that turnkey looks at.
const MAKE: &str = r#"
mount -t tmpfs none "$1" && cd "$1"
mkdir -p usr etc proc sys dev tmp run home/work opt bpf
for link in bin lib lib64 sbin; do [ ! -e "/$link" ] || ln -s "usr/$link" "$link"; done
mount --bind /usr usr && mount --bind /etc etc && mount -t proc proc proc && mount --bind /dev dev
mount --bind /sys/fs/bpf bpf
touch opt/turnkey && mount --bind "$2" opt/turnkey
exec chroot "$1" /bin/sh -c "cd /home/work; PATH=\$PATH:/opt; $3"
"#;

fn in_a_chroot(script: &str) -> Output {
    let place = scratch();
    let command = [
        "--mount",
        "--propagation",
        "private",
        "sh",
        "-ec",
        MAKE,
        "sh",
    ];
    Command::new("unshare")
        .args(command)
        .arg(place.path())
        .arg(binary())
        .arg(script)
        .output()
        .expect("unshare is part of every system")
}

/// The command that a strict run names.
fn advice(told: &str) -> &str {
    let named = told.split_once("as root, mount one: ");
    let named = named.and_then(|(_, rest)| rest.split_once("; or do without"));
    named
        .unwrap_or_else(|| panic!("a command is named: {told}"))
        .0
}

/// The words that the program has printed, and the report behind them.
fn parts(output: &Output) -> (String, Value) {
    let text = String::from_utf8_lossy(&output.stdout);
    let (printed, report) = text.split_at(text.find('{').unwrap_or(text.len()));
    let report = serde_json::from_str(report).unwrap_or_default();
    (printed.to_owned(), report)
}

#[test]
fn the_command_that_a_strict_run_names_makes_it_whole() {
    let strict = in_a_chroot("turnkey run -- true");
    let told = said(&strict);
    assert_eq!(strict.status.code(), Some(125), "{told}");
    assert!(told.contains("--best-effort"), "{told}");
    let command = advice(&told);
    let loaded = "mount --bind /bpf /sys/fs/bpf";
    let script =
        format!("{{ {command}; }} && {loaded} && turnkey run -- true && turnkey doctor >/dev/null");
    let followed = in_a_chroot(&script);
    let told = said(&followed);
    assert_eq!(followed.status.code(), Some(0), "{command}\n{told}");
    assert!(told.contains("clean"), "{told}");
}

/// Root does not get less than an ordinary user.
#[test]
fn what_there_is_holds_without_control_groups_and_sysfs() {
    let layers = ["memory", "pids", "cpu", "monitor"];
    for option in ["--best-effort", "--unmonitored"] {
        let run =
            format!("turnkey run {option} --report /tmp/report -- echo ran && cat /tmp/report");
        let output = in_a_chroot(&run);
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        let (printed, report) = parts(&output);
        expect_less(printed.as_bytes(), &said(&output), &report, &layers);
    }
}

/// Nobody watches connections there, so Landlock refuses them.
#[test]
fn a_monitor_that_could_know_no_jail_is_not_loaded() {
    let run = "turnkey run --best-effort --report /tmp/report -- echo ran && cat /tmp/report";
    let output = in_a_chroot(&format!("mount -t sysfs sysfs /sys && {run}"));
    let (printed, report) = parts(&output);
    let layers = ["memory", "pids", "cpu", "monitor"];
    expect_less(printed.as_bytes(), &said(&output), &report, &layers);
    let layer = |name: &str| {
        let mut all = report["enforcement"].as_array().into_iter().flatten();
        all.find(|layer| layer["layer"] == name)
            .map(ToString::to_string)
            .unwrap_or_default()
    };
    assert!(layer("monitor").contains("control group"), "{report}");
    let landlock = layer("landlock");
    assert!(
        landlock.is_empty() || landlock.contains("TCP"),
        "{landlock}"
    );
}

/// Limits are looked after where no group counts.
#[test]
fn a_fork_bomb_is_bounded_and_ended_without_control_groups() {
    let run = format!("turnkey run --best-effort --pids 10 -- python3 -c '{FORKS}'");
    let output = in_a_chroot(&run);
    assert_eq!(output.status.code(), Some(122), "{}", said(&output));
    assert!(said(&output).contains("of 10 at once"), "{}", said(&output));
}

/// The kernel gives nobody a user namespace in a chroot; so the place becomes the root of a namespace of mounts, and
/// shows nothing more than before.
#[test]
fn nothing_outside_of_the_chroot_is_reached_from_it() {
    let marked = scratch();
    let mark = marked.path().join("outside");
    std::fs::write(&mark, "").unwrap();
    let (control, _) = outside("ls", &[&mark.display().to_string()]);
    assert!(control.success(), "the control: it is there outside");
    let control = in_a_chroot("unshare --user true");
    assert!(
        !control.status.success(),
        "the control: no namespace in a chroot"
    );
    let mark = mark.display();
    let output = in_a_chroot(&format!(
        "turnkey run --best-effort --read {mark} -- true; echo $?; turnkey run --best-effort -- pwd; pwd"
    ));
    let told = said(&output);
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "125\n/workspace\n/home/work\n",
        "{told}"
    );
    assert!(
        told.contains("there is no such path on this host"),
        "{told}"
    );
    assert!(!Path::new("/home/work").exists(), "nor is it made outside");
}
