//! A container as engines make it by default, and the ones that turnkey's advice asks for.

use std::process::{Command, Output};

use serde_json::Value;
use turnkey_tests::{NOBODY, binary, compile, open_to_all, scratch};

use super::said;

/// The capabilities that Docker and Podman leave root by default.
const DEFAULT: &str = "-all,+chown,+dac_override,+fowner,+fsetid,+kill,+setgid,+setuid,+setpcap,+net_bind_service,\
                       +net_raw,+sys_chroot,+mknod,+audit_write,+setfcap";

/// In a pid namespace of its own, with its own /proc; the words say what of it is covered, and what is read-only.
const MAKE: &str = r#"
mount -t proc proc /proc
case $1 in *paths*)
    mount --bind /dev/null /proc/version
    mount --bind /proc/sys /proc/sys && mount -o remount,bind,ro /proc/sys ;;
esac
case $1 in *groups*)
    for place in $(awk '$5 ~ "^/sys/fs/cgroup" { print $5 }' /proc/self/mountinfo); do
        mount -o remount,bind,ro "$place"
    done ;;
esac
shift
exec "$@"
"#;

/// The options of an engine.
#[derive(Clone, Copy)]
struct Container {
    /// As by `--privileged`, where it is not.
    capabilities: bool,
    /// As by default, and not by `--security-opt seccomp=unconfined`.
    filter: bool,
    /// Parts of /proc are `paths` that are covered by default, and not by `--security-opt systempaths=unconfined`;
    /// control `groups` cannot be written unless by `--privileged`.
    covered: &'static str,
    /// As by `--user`.
    user: u32,
}

const BY_DEFAULT: Container = Container {
    capabilities: false,
    filter: true,
    covered: "paths groups",
    user: 0,
};

const PRIVILEGED: Container = Container {
    capabilities: true,
    filter: false,
    covered: "",
    user: 0,
};

/// As turnkey's advice for who is not to be root.
const FOR_A_USER: Container = Container {
    filter: false,
    covered: "groups",
    user: NOBODY,
    ..BY_DEFAULT
};

impl Container {
    /// Runs a script in it, with `$turnkey` for the command.
    fn run(self, script: &str) -> Output {
        let place = scratch();
        open_to_all(place.path());
        let filter = place.path().join("filter");
        compile(&filter, include_str!("../../data/container-filter.c"));
        let turnkey = place.path().join("turnkey");
        std::fs::copy(binary(), &turnkey).expect("a test can write its own directory");
        let work = place.path().join("work");
        std::fs::create_dir(&work).expect("a test can write its own directory");
        std::os::unix::fs::chown(&work, Some(self.user), Some(self.user)).expect("as root");
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "--pid", "--fork", "--ipc", "--uts"])
            .args([
                "--propagation",
                "private",
                "sh",
                "-ec",
                MAKE,
                "sh",
                self.covered,
            ])
            .env("turnkey", &turnkey)
            .current_dir(&work);
        if self.filter {
            command.arg(&filter).arg("container");
        }
        if !self.capabilities {
            let user = self.user.to_string();
            command.args(["setpriv", "--inh-caps", "-all", "--bounding-set", DEFAULT]);
            command.args(["--reuid", &user, "--regid", &user, "--clear-groups"]);
        }
        let output = command.args(["sh", "-c", script]).output();
        output.expect("unshare is part of every system")
    }
}

const STRICT: &str = "$turnkey run -- echo ran";
const BEST_EFFORT: &str = "$turnkey run --best-effort -- echo ran";
const UNMONITORED: &str = "$turnkey run --unmonitored -- echo ran";

#[test]
fn root_in_a_default_container_is_told_how_to_start_it_and_that_works() {
    for script in [STRICT, BEST_EFFORT, UNMONITORED] {
        let output = BY_DEFAULT.run(script);
        let told = said(&output);
        assert_eq!(output.status.code(), Some(125), "{script}: {told}");
        assert!(output.stdout.is_empty(), "nothing ran");
        assert!(
            told.contains("docker run --privileged --cgroupns=host"),
            "{told}"
        );
        assert!(
            !told.contains("setpriv"),
            "no user has namespaces here: {told}"
        );
    }
    let followed = PRIVILEGED.run(STRICT);
    assert_eq!(followed.stdout, b"ran\n", "{}", said(&followed));
    assert!(said(&followed).contains("clean"), "{}", said(&followed));
}

#[test]
fn a_user_in_a_default_container_is_told_how_to_start_it_and_that_works() {
    let by_default = Container {
        user: NOBODY,
        ..BY_DEFAULT
    };
    let output = by_default.run(BEST_EFFORT);
    let told = said(&output);
    assert_eq!(output.status.code(), Some(125), "{told}");
    for option in ["--user", "seccomp=unconfined", "systempaths=unconfined"] {
        assert!(told.contains(option), "{option}: {told}");
    }
    let followed = FOR_A_USER.run(BEST_EFFORT);
    assert_eq!(followed.stdout, b"ran\n", "{}", said(&followed));
    // The covered /proc is named alone where it alone is in the way.
    let covered = Container {
        covered: "paths groups",
        ..FOR_A_USER
    };
    let told = said(&covered.run(BEST_EFFORT));
    assert!(told.contains("systempaths=unconfined"), "{told}");
    assert!(!told.contains("seccomp=unconfined"), "{told}");
}

#[test]
fn root_without_capabilities_is_told_to_be_a_user_where_that_works() {
    let root = Container {
        user: 0,
        ..FOR_A_USER
    };
    let told = said(&root.run(STRICT));
    let (_, command) = told
        .split_once("without the monitor: ")
        .unwrap_or_else(|| panic!("a command is named: {told}"));
    let script = command
        .trim()
        .replace("turnkey", "$turnkey")
        .replace('…', "-- echo ran");
    let followed = root.run(&script);
    assert_eq!(followed.stdout, b"ran\n", "{script}: {}", said(&followed));
    let covered = Container {
        covered: "paths groups",
        ..root
    };
    let told = said(&covered.run(STRICT));
    let names = |word: &str| told.contains(word);
    assert!(names("--privileged") && !names("setpriv"), "{told}");
}

/// The kernel's groups are there, and nobody may write them.
#[test]
fn groups_that_are_read_only_cost_what_they_hold() {
    let read_only = Container {
        covered: "groups",
        ..PRIVILEGED
    };
    let strict = read_only.run(STRICT);
    assert_eq!(strict.status.code(), Some(125), "{}", said(&strict));
    assert!(said(&strict).contains("--privileged"), "{}", said(&strict));
    let output = read_only.run(BEST_EFFORT);
    let told = said(&output);
    assert_eq!(output.stdout, b"ran\n", "{told}");
    assert!(told.contains("mounted read-only here"), "{told}");
    assert!(told.contains("inconclusive"), "{told}");
}

#[test]
fn doctor_in_a_default_container_says_what_runs_say_and_does_not_blame_the_kernel() {
    let output = BY_DEFAULT.run("$turnkey doctor --json");
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let object: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    let findings = object["findings"].as_array().expect("findings are a list");
    let finding = |check: &str| {
        let mut all = findings.iter();
        all.find(|finding| finding["check"] == check)
            .unwrap_or_else(|| panic!("no check is called {check}"))
    };
    let fix = |finding: &Value| finding["fix"].as_str().unwrap_or_default().to_owned();
    // The filter around it hides clone3(2), and with it nothing but namespaces.
    assert_eq!(finding("seccomp")["state"], "ok");
    assert_ne!(finding("landlock")["state"], "missing");
    for finding in findings {
        let fix = fix(finding);
        assert!(
            !fix.contains("run turnkey as root;"),
            "it is root: {finding}"
        );
        assert!(!fix.contains("--best-effort"), "that fails, too: {finding}");
    }
    for check in ["capabilities", "namespaces", "control-group", "monitor"] {
        let fix = fix(finding(check));
        assert!(fix.contains("docker run --privileged"), "{check}: {fix}");
    }
}
