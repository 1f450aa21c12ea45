//! A host that systemd runs, and the package of turnkey on it: what dpkg, systemd and turnkey make of one another.

mod served;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use turnkey_expectations::expected;
use turnkey_tests::{eventually, scratch};

expected!(on[PACKAGED_6_12]);

/// The package, where `cargo xtask vm` puts it.
const PACKAGE: &str = "/opt/turnkey/turnkey.deb";

/// The unit that the package brings.
const MONITOR: &str = "turnkey-monitor.service";

/// The directory in which the administrator of a host writes units.
const UNITS: &str = "/etc/systemd/system";

/// The drop-in that the package has as an example.
const DROP_IN: &str = "/usr/share/doc/turnkey/examples/attach.conf";

/// Runs a command and shows it.
pub fn run(words: &[&str]) -> Output {
    let output = Command::new(words[0]).args(&words[1..]).output();
    let output = output.unwrap_or_else(|error| panic!("{words:?}: {error}"));
    println!(
        "$ {}\n{}{}",
        words.join(" "),
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

/// Runs a command that has to succeed; its output.
pub fn ok(words: &[&str]) -> String {
    let output = run(words);
    assert!(output.status.success(), "{words:?}: {}", output.status);
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// A property of a unit.
pub fn property(unit: &str, name: &str) -> String {
    ok(&["systemctl", "show", "--value", "--property", name, unit])
}

/// The package, installed, until the test ends.
pub struct Installed;

impl Installed {
    /// From the package's file.
    pub fn new() -> Installed {
        // dpkg insists on a database.
        fs::create_dir_all("/var/lib/dpkg/updates").unwrap();
        fs::create_dir_all("/var/lib/dpkg/info").unwrap();
        fs::File::options()
            .create(true)
            .append(true)
            .open("/var/lib/dpkg/status")
            .unwrap();
        ok(&["dpkg", "--install", PACKAGE]);
        Installed
    }
}

impl Drop for Installed {
    fn drop(&mut self) {
        run(&["dpkg", "--purge", "turnkey"]);
    }
}

/// A service of the administrator's, until the test ends.
struct Service {
    name: &'static str,
    out: tempfile::TempDir,
}

impl Service {
    /// With a shell's script as its whole program, whose `$OUT` is a directory.
    fn new(name: &'static str, script: &str) -> Service {
        let service = Service {
            name,
            out: scratch(),
        };
        let unit = format!(
            "[Service]\nType=exec\nEnvironment=OUT={}\nExecStart=/bin/sh -c '{script}'\n",
            service.out.path().display()
        );
        fs::write(service.unit(), unit).unwrap();
        ok(&["systemctl", "daemon-reload"]);
        service
    }

    fn unit(&self) -> PathBuf {
        Path::new(UNITS).join(self.name)
    }

    fn folder_of_drop_ins(&self) -> PathBuf {
        Path::new(UNITS).join(format!("{}.d", self.name))
    }

    fn add_drop_in(&self, text: &str) {
        let folder = self.folder_of_drop_ins();
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("turnkey.conf"), text).unwrap();
        ok(&["systemctl", "daemon-reload"]);
    }

    fn start(&self) -> bool {
        run(&["systemctl", "start", self.name]).status.success()
    }

    fn wait_for_its_end(&self) {
        eventually("the service has ended", || {
            ["inactive", "failed"].contains(&property(self.name, "ActiveState").as_str())
        });
    }

    /// The output of the program, by the name of the file; `None` when it did not come so far.
    fn wrote(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.out.path().join(name)).ok()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        run(&["systemctl", "stop", self.name]);
        let _ = fs::remove_dir_all(self.folder_of_drop_ins());
        let _ = fs::remove_file(self.unit());
        run(&["systemctl", "reset-failed", self.name]);
        run(&["systemctl", "daemon-reload"]);
    }
}

/// A report, as soon as it is there as a whole.
pub fn report(path: &Path) -> Value {
    let mut report = Value::Null;
    eventually("a report is written", || {
        let text = fs::read_to_string(path).unwrap_or_default();
        report = serde_json::from_str(&text).unwrap_or_default();
        !report.is_null()
    });
    println!("{report}");
    report
}

/// Every file of the disk but dpkg's own and the tests'.
fn files() -> BTreeSet<String> {
    let listed = ok(&[
        "find",
        "/",
        "-xdev",
        "(",
        "-path",
        "/var/lib/dpkg",
        "-o",
        "-path",
        "/var/log/dpkg.log",
        "-o",
        "-path",
        "/tmp",
        "-o",
        "-path",
        "/var/tmp",
        ")",
        "-prune",
        "-o",
        "-print",
    ]);
    listed.lines().map(str::to_owned).collect()
}

/// The places that hold programs in the kernel: pins, and the group that they keep.
fn loaded() -> Vec<PathBuf> {
    let names = |folder: &str| {
        let entries = fs::read_dir(folder).unwrap();
        entries.map(|entry| entry.unwrap().path())
    };
    let groups = names("/sys/fs/cgroup").filter(|it| it.to_string_lossy().contains("/turnkey."));
    // The kernel's own.
    let pins = names("/sys/fs/bpf").filter(|it| it.extension().is_none_or(|it| it != "debug"));
    pins.chain(groups).collect()
}

#[test]
fn the_unit_comes_off_stays_as_it_is_left_and_goes_with_the_package() {
    let before = files();
    let installed = Installed::new();
    assert_eq!(property(MONITOR, "UnitFileState"), "disabled");
    assert_eq!(property(MONITOR, "ActiveState"), "inactive");
    assert_eq!(loaded(), [] as [PathBuf; 0]);

    ok(&["systemctl", "enable", "--now", MONITOR]);
    assert_eq!(property(MONITOR, "ActiveState"), "active");
    ok(&["turnkey", "monitor", "status"]);
    assert_ne!(loaded(), [] as [PathBuf; 0]);
    let first = property(MONITOR, "InvocationID");

    ok(&["dpkg", "--install", PACKAGE]);
    assert_eq!(property(MONITOR, "UnitFileState"), "enabled");
    assert_eq!(property(MONITOR, "ActiveState"), "active");
    assert_ne!(property(MONITOR, "InvocationID"), first, "it was restarted");
    ok(&["turnkey", "monitor", "status"]);

    ok(&["dpkg", "--remove", "turnkey"]);
    assert_eq!(loaded(), [] as [PathBuf; 0]);
    assert_eq!(property(MONITOR, "ActiveState"), "inactive");
    ok(&["dpkg", "--purge", "turnkey"]);
    assert_eq!(property(MONITOR, "LoadState"), "not-found");
    let after = files();
    let left: Vec<_> = after.difference(&before).collect();
    assert_eq!(left, [] as [&String; 0]);
    drop(installed);
}

/// A script that reads the password hashes when it is told to, and says what it got and that it lives.
const READS: &str =
    "until test -e $OUT/go; do sleep 0.1; done; cat /etc/shadow > $OUT/read; echo yes > $OUT/lived";

#[test]
fn a_running_unit_is_killed_for_a_read_of_shadow() {
    let _installed = Installed::new();
    let service = Service::new("reads.service", READS);
    let go = service.out.path().join("go");
    assert!(service.start());
    fs::write(&go, "").unwrap();
    service.wait_for_its_end();
    assert_eq!(
        service.wrote("lived").as_deref(),
        Some("yes\n"),
        "the control"
    );
    assert!(service.wrote("read").is_some_and(|it| it.contains("root:")));
    for name in ["go", "read", "lived"] {
        fs::remove_file(service.out.path().join(name)).unwrap();
    }

    assert!(service.start());
    let told = service.out.path().join("report.json");
    let path = told.display().to_string();
    ok(&[
        "turnkey",
        "attach",
        "--unit",
        service.name,
        "--detach",
        "--report",
        &path,
    ]);
    fs::write(&go, "").unwrap();
    service.wait_for_its_end();
    assert_eq!(property(service.name, "Result"), "signal");
    assert_eq!(service.wrote("lived"), None);
    assert_eq!(service.wrote("read").unwrap_or_default(), "");
    let report = report(&told);
    assert_eq!(report["status"], "killed_by_policy");
    assert_eq!(report["violations"][0]["rule"], "credential-file");
    assert_eq!(report["attached"]["group"], "/system.slice/reads.service");
    assert_eq!(
        report["attached"]["found_count"], 2,
        "the shell and its sleep"
    );
}

/// An act that the profile `service` kills for, as the first thing that the program does.
const READS_THE_DISK: &str = "exec dd if=/dev/vda of=$OUT/read bs=512 count=1";

#[test]
fn the_drop_in_watches_a_service_from_its_first_instruction_on() {
    let _installed = Installed::new();
    let drop_in = fs::read_to_string(DROP_IN).expect("the package has an example");
    let told = |name: &str| PathBuf::from(format!("/var/log/turnkey/{name}.json"));

    let service = Service::new("disk.service", READS_THE_DISK);
    assert!(service.start());
    service.wait_for_its_end();
    let read = fs::read(service.out.path().join("read")).expect("the control");
    assert_eq!(read.len(), 512);
    fs::remove_file(service.out.path().join("read")).unwrap();

    service.add_drop_in(&drop_in);
    service.start();
    service.wait_for_its_end();
    assert_eq!(property(service.name, "Result"), "signal");
    let read = fs::read(service.out.path().join("read")).unwrap_or_default();
    assert_eq!(read, b"");
    let killed = report(&told(service.name));
    assert_eq!(killed["violations"][0]["rule"], "raw-device");
    assert_eq!(killed["attached"]["found_count"], 0);

    // One that does nothing of the kind, to its end; again after that.
    let service = Service::new("harmless.service", "echo yes > $OUT/lived");
    service.add_drop_in(&drop_in);
    for _ in 0..2 {
        assert!(service.start());
        service.wait_for_its_end();
        assert_eq!(property(service.name, "Result"), "success");
        assert_eq!(service.wrote("lived").as_deref(), Some("yes\n"));
        let report = report(&told(service.name));
        assert_eq!(report["verdict"], "clean");
        assert_eq!(report["events"]["complete"], true);
        fs::remove_file(told(service.name)).unwrap();
    }
}

/// A script that lives until it is told to do what the profile `service` kills for.
const READS_THE_DISK_LATER: &str =
    "until test -e $OUT/go; do sleep 0.1; done; exec dd if=/dev/vda of=$OUT/read bs=512 count=1";

/// The process ids of those that watch a unit, without their guards.
fn watchers(unit: &str) -> Vec<u32> {
    let watches = format!("attach --unit {unit} --detached");
    let found = run(&["pgrep", "--full", "--", &watches]).stdout;
    let found = String::from_utf8_lossy(&found);
    found.lines().map(|pid| pid.parse().unwrap()).collect()
}

/// The only watcher of a unit, as soon as those before have ended.
fn only_watcher(unit: &str) -> u32 {
    let mut found = Vec::new();
    eventually("one watches", || {
        found = watchers(unit);
        found.len() == 1
    });
    found[0]
}

/// The reports that were written about a unit.
fn reports_about(unit: &str) -> Vec<String> {
    let names = fs::read_dir("/var/log/turnkey").unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.contains(unit)).collect()
}

#[test]
fn a_service_that_is_started_anew_is_watched_anew() {
    let _installed = Installed::new();
    let drop_in = fs::read_to_string(DROP_IN).expect("the package has an example");
    let without = drop_in.replace("--required ", "");
    assert_ne!(drop_in, without, "the drop-in has --required");
    for (name, drop_in, required) in [
        ("required.service", drop_in, true),
        ("let-live.service", without, false),
    ] {
        let service = Service::new(name, READS_THE_DISK_LATER);
        service.add_drop_in(&drop_in);
        let told = PathBuf::from(format!("/var/log/turnkey/{name}.json"));
        assert!(service.start());
        let mut before = (only_watcher(name), report(&told));
        for restart in ["the first", "the second"] {
            ok(&["systemctl", "restart", name]);
            let now = (only_watcher(name), report(&told));
            assert_ne!(now.0, before.0, "{restart}: another watches");
            assert_ne!(now.1["id"], before.1["id"], "{restart}: it has a report");
            assert_eq!(now.1["status"], "watching", "{restart}");
            let is_required = now.1["attached"]["required"].as_bool().unwrap_or(false);
            assert_eq!(is_required, required);
            assert_eq!(now.1["attached"]["found_count"], 0, "{restart}: in time");
            assert_eq!(reports_about(name).len(), 1, "{restart}: in its own place");
            before = now;
        }

        // One whose watcher was killed is started anew as any other is.
        ok(&["kill", "-KILL", &before.0.to_string()]);
        match required {
            true => service.wait_for_its_end(),
            false => assert_eq!(property(name, "ActiveState"), "active"),
        }
        ok(&["systemctl", "restart", name]);
        let last = (only_watcher(name), report(&told));
        assert_ne!(last.1["id"], before.1["id"]);
        assert_eq!(last.1["status"], "watching");

        fs::write(service.out.path().join("go"), "").unwrap();
        service.wait_for_its_end();
        assert_eq!(property(name, "Result"), "signal");
        let read = fs::read(service.out.path().join("read")).unwrap_or_default();
        assert_eq!(read, b"", "its rules act");
        eventually("its watcher has ended", || watchers(name).is_empty());
        let killed = report(&told);
        assert_eq!(killed["id"], last.1["id"]);
        assert_eq!(killed["violations"][0]["rule"], "raw-device");
        assert_eq!(reports_about(name).len(), 1);
    }
}

#[test]
fn a_service_that_cannot_be_watched_is_not_started() {
    let _installed = Installed::new();
    let drop_in = fs::read_to_string(DROP_IN).expect("the package has an example");
    let service = Service::new("unwatched.service", "echo yes > $OUT/lived");
    // A profile of jails, which asks for more than an attachment gives.
    service.add_drop_in(&drop_in.replace("--profile service", "--profile python"));
    assert!(!service.start());
    assert_eq!(service.wrote("lived"), None);
    assert_eq!(property(service.name, "Result"), "exit-code");
    // Without the scope turnkey is in the group that it is to watch, and says what to do.
    service.add_drop_in(&drop_in.replace("/usr/bin/systemd-run --scope --quiet --collect ", ""));
    assert!(!service.start());
    assert_eq!(service.wrote("lived"), None);
    let journal = ok(&["journalctl", "--no-pager", "--unit", service.name]);
    assert!(journal.contains("systemd-run --scope"), "{journal}");
}
