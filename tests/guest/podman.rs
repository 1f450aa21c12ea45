//! Podman on a host that has the package: by the wrapper and by the file for hooks as they are installed, early and late. Control groups are
//! of version 2 alone and systemd's, and podman's own choice of a runtime is crun.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use turnkey_expectations::expected;
use turnkey_tests::{eventually, finish, outside, scratch};

use super::packaged::{Installed, ok, report};

expected!(on[PACKAGED_6_12]);

/// The directory of reports that the package's files name.
const REPORTS: &str = "/var/log/turnkey";

/// Waits for a byte, and reads the shadow.
const PROGRAM: &str = "#include <fcntl.h>\n#include <unistd.h>\n\
    int main(void) { char text[4]; if (read(0, text, 1) != 1) return 3;\n\
    int file = open(\"/etc/shadow\", O_RDONLY); return read(file, text, 4) == 4 ? 0 : 4; }\n";

/// The tree of containers, with nothing but a program and a shadow.
fn tree(place: &Path) -> PathBuf {
    let root = place.join("rootfs");
    std::fs::create_dir_all(root.join("etc")).unwrap();
    std::fs::write(root.join("etc/shadow"), "root:x:::\n").unwrap();
    let source = place.join("program.c");
    std::fs::write(&source, PROGRAM).unwrap();
    let [source, program] = [source, root.join("program")].map(|path| path.display().to_string());
    assert!(
        outside("cc", &["-static", "-o", &program, &source])
            .0
            .success()
    );
    root
}

/// A container whose program waits, with podman's words before and behind `run`.
fn start(root: &Path, (of_podman, of_run): (&[&str], &[&str])) -> Child {
    let mut podman = Command::new("podman");
    podman.args(of_podman);
    podman.args([
        "run",
        "--rm",
        "--interactive",
        "--name",
        "web",
        "--network",
        "none",
    ]);
    podman.args(["--log-driver", "none"]).args(of_run);
    podman.arg("--rootfs").arg(root).arg("/program");
    podman.stdin(Stdio::piped()).spawn().unwrap()
}

/// Has its program read; podman's exit status.
fn end(mut podman: Child) -> Option<i32> {
    let mut input = podman.stdin.take().unwrap();
    // It may be dead.
    let _ = input.write_all(b"x");
    drop(input);
    finish(podman).status.code()
}

/// The report about the last container, as its watcher leaves it, which nobody finds again.
fn last_report() -> Value {
    let mut files = Vec::new();
    eventually("there is one report", || {
        let entries = std::fs::read_dir(REPORTS).into_iter().flatten().flatten();
        files = entries.map(|entry| entry.path()).collect();
        files.len() == 1
    });
    eventually("its watcher has ended", || {
        report(&files[0])["status"] != "watching"
    });
    let last = report(&files[0]);
    std::fs::remove_file(&files[0]).unwrap();
    last
}

fn expect_killed(report: &Value, found: u64) {
    assert_eq!(report["status"], "killed_by_policy");
    let rows = report["violations"].as_array().unwrap();
    assert!(rows.iter().any(|row| row["rule"] == "credential-file"));
    assert_eq!(report["attached"]["found_count"], found);
}

#[test]
fn a_container_of_podman_is_killed_for_a_read_of_its_shadow_by_what_the_package_installs() {
    let (_installed, place) = (Installed::new(), scratch());
    let root = tree(place.path());
    let runtime = ok(&[
        "podman",
        "info",
        "--format",
        "{{.Host.OCIRuntime.Name}} {{.Host.CgroupManager}}",
    ]);
    assert_eq!(runtime, "crun systemd");
    let control = start(&root, (&[], &[]));
    assert_eq!(end(control), Some(0), "the control: it reads");

    let annotated = ["--annotation", "dev.turnkey.profile=container"];
    assert_eq!(end(start(&root, (&[], &annotated))), Some(137));
    expect_killed(&last_report(), 0);

    let wrapper = ["--runtime", "/usr/bin/turnkey-runc"];
    assert_eq!(end(start(&root, (&wrapper, &[]))), Some(137));
    expect_killed(&last_report(), 0);

    let container = start(&root, (&[], &[]));
    eventually("podman says that it runs", || {
        outside("podman", &["ps", "--format", "{{.Names}}"])
            .1
            .contains("web")
    });
    let late = place.path().join("late.json").display().to_string();
    ok(&[
        "turnkey",
        "attach",
        "--container",
        "web",
        "--detach",
        "--report",
        &late,
    ]);
    assert_eq!(end(container), Some(137));
    eventually("its watcher has ended", || {
        report(Path::new(&late))["status"] != "watching"
    });
    expect_killed(&report(Path::new(&late)), 1);
    eventually("podman has none left", || {
        outside("podman", &["ps", "--all", "--quiet"]).1.is_empty()
    });
}
