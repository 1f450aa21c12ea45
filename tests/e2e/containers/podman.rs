//! Containers of podman, with no image and no network: its runtime is turnkey's, its hooks.d has turnkey's file, or turnkey comes
//! late. All that podman keeps is in a directory of the test's.

use std::path::Path;
use std::process::Command;

use turnkey_expectations::expected;
use turnkey_tests::{binary, eventually, scratch};

use super::{Container, found_and_killed, its_program_waits, late, of_the_end, tree};
use crate::attach::{OthersGroup, broken};

expected!(
    not_on[ORDINARY_6_12],
    "its disk has no podman; `podman` of tests/guest/ has the package's own files"
);

/// As the package has them.
const WRAPPER: &str = include_str!("../../../packaging/turnkey-runc");
const HOOK: &str = include_str!("../../../packaging/oci-hook.json");

/// Settings with a storage in the directory, limits that every root may set, and no daemon of the host's.
fn write_settings(place: &Path) {
    let directory = place.display();
    let storage = format!(
        "[storage]\ndriver = \"vfs\"\ngraphroot = \"{directory}/graph\"\nrunroot = \"{directory}/run\"\n"
    );
    let containers = format!(
        "[containers]\ndefault_ulimits = [\"nofile=1024:1024\", \"nproc=4096:4096\"]\nlog_driver = \"none\"\nnetns = \"none\"\n\
         [engine]\ncgroup_manager = \"cgroupfs\"\nevents_logger = \"none\"\nhooks_dir = [\"{directory}/hooks\"]\n\
         runtime = \"runc\"\ntmp_dir = \"{directory}/tmp\"\n"
    );
    for (name, text) in [(STORAGE, storage), (CONTAINERS, containers)] {
        std::fs::write(place.join(name), text).expect("a test can write");
    }
}

/// A program that starts podman, or asks it, with a storage in the directory in place of the host's.
pub fn with_storage(program: impl AsRef<std::ffi::OsStr>, place: &Path) -> Command {
    write_settings(place);
    let mut command = Command::new(program);
    command.env("CONTAINERS_STORAGE_CONF", place.join(STORAGE));
    command.env("CONTAINERS_CONF", place.join(CONTAINERS));
    command
}

const STORAGE: &str = "storage.conf";
const CONTAINERS: &str = "containers.conf";

/// Podman with a storage of its own; its containers go with it.
struct Podman {
    place: tempfile::TempDir,
    group: OthersGroup,
    name: String,
}

impl Podman {
    fn new(name: &str) -> Podman {
        let podman = Podman {
            place: scratch(),
            group: OthersGroup::new(),
            name: format!("{name}-{}", std::process::id()),
        };
        tree(podman.place.path());
        for directory in ["hooks", "reports"] {
            std::fs::create_dir(podman.path(directory)).expect("a test can make directories");
        }
        podman
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.place.path().join(name)
    }

    /// A program that finds podman's containers in this storage.
    fn own(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        with_storage(program, self.place.path())
    }

    /// A container whose program waits; `options` are of podman, and of its `run`.
    fn start(&self, of_podman: &[&str], of_run: &[&str]) -> Container {
        let mut command = self.own("podman");
        command.args(of_podman);
        command.args(["run", "--rm", "--interactive", "--name", &self.name]);
        command
            .args(["--cgroup-parent", self.group.name()])
            .args(of_run);
        command
            .arg("--rootfs")
            .arg(self.path("rootfs"))
            .arg("/program");
        Container::of(command)
    }

    /// Waits for the group of its only container, in which its program waits.
    fn waits(&self) {
        let mut groups = Vec::new();
        eventually("podman has made the container's group", || {
            let entries = std::fs::read_dir(self.group.path()).expect("it is there");
            groups = entries.flatten().map(|entry| entry.path()).collect();
            groups.retain(|path| path.is_dir());
            groups.len() == 1
        });
        its_program_waits(&groups[0]);
    }

    /// The only report that a hook's watcher has written.
    fn report(&self) -> (serde_json::Value, String) {
        let entries = std::fs::read_dir(self.path("reports")).expect("it is there");
        let reports: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
        let [report] = &reports[..] else {
            panic!("{reports:?}");
        };
        of_the_end(report)
    }
}

impl Drop for Podman {
    fn drop(&mut self) {
        let removed = self.own("podman").args(["rm", "--all", "--force"]).output();
        assert!(removed.is_ok_and(|output| output.status.success()) || std::thread::panicking());
    }
}

/// Checks that the container was killed for its read, and that the watcher was there before its program.
fn expect_killed(podman: &Podman, container: Container) {
    assert_eq!(container.end(), 137, "killed before it had the content");
    let (report, text) = podman.report();
    assert_eq!(report["status"], "killed_by_policy", "{text}");
    assert_eq!(broken(&report).last(), Some(&"credential-file"), "{text}");
    assert_eq!(report["attached"]["found_count"], 0, "from its beginning");
}

/// Checks that podman says that its runtime made none: 126, or 127 where the runtime speaks of something that is missing.
fn expect_not_started(container: Container) {
    let code = container.end();
    assert!([126, 127].contains(&code), "{code}");
}

#[test]
fn a_container_of_podman_is_killed_for_a_read_of_its_shadow_late() {
    let podman = Podman::new("late");
    assert_eq!(podman.start(&[], &[]).end(), 0, "the control: it reads");
    let container = podman.start(&[], &[]);
    podman.waits();
    let late = late(podman.place.path(), &podman.name);
    assert_eq!(container.end(), 137, "killed before it had the content");
    found_and_killed(late);
}

#[test]
fn podman_whose_runtime_is_turnkeys_makes_no_container_that_nobody_watches() {
    let podman = Podman::new("wrapped");
    assert_eq!(podman.start(&[], &[]).end(), 0, "the control: it reads");
    let wrapper = podman.path("turnkey-runc");
    let install = |reports: &Path| {
        let own = WRAPPER.replace("/usr/bin/turnkey", &binary().display().to_string());
        let own = own.replace("/var/log/turnkey", &reports.display().to_string());
        assert!(!own.contains("/var/log"), "{own}");
        std::fs::write(&wrapper, own).expect("a test can write");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&wrapper, mode).expect("it is ours");
    };
    let runtime = ["--runtime", wrapper.to_str().expect("UTF-8")];
    install(&podman.path("reports"));
    expect_killed(&podman, podman.start(&runtime, &[]));
    // A watcher that cannot be had: its report has no place.
    install(&podman.path("missing"));
    expect_not_started(podman.start(&runtime, &[]));
}

#[test]
fn podman_calls_turnkey_by_the_file_of_the_package_for_a_container_with_its_annotation() {
    let podman = Podman::new("hooked");
    let install = |reports: &Path| {
        let mut hook: serde_json::Value = serde_json::from_str(HOOK).expect("it is JSON");
        assert_eq!(hook["hook"]["path"], "/usr/bin/turnkey");
        hook["hook"]["path"] = binary().display().to_string().into();
        let words = hook["hook"]["args"].as_array_mut().expect("a list");
        words.extend(["--reports".into(), reports.display().to_string().into()]);
        let file = podman.path("hooks/turnkey.json");
        std::fs::write(file, hook.to_string()).expect("a test can write");
    };
    install(&podman.path("reports"));
    let control = podman.start(&[], &["--annotation", "dev.other.profile=container"]);
    assert_eq!(control.end(), 0, "the control: it is not asked for");
    let annotated = ["--annotation", "dev.turnkey.profile=container"];
    expect_killed(&podman, podman.start(&[], &annotated));
    install(&podman.path("missing"));
    expect_not_started(podman.start(&[], &annotated));
}
