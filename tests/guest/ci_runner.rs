//! A self-hosted CI runner by the units that the package has as examples: its jobs are recorded, and nothing of them is stopped.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::Value;
use turnkey_expectations::expected;
use turnkey_tests::{eventually, outside};

use super::packaged::{Installed, ok, property, report, run};

expected!(on[PACKAGED_6_12]);

const EXAMPLES: &str = "/usr/share/doc/turnkey/examples";
const UNIT: &str = "ci-runner.service";
const UNITS: &str = "/etc/systemd/system";
const REPORTS: &str = "/var/log/turnkey";

/// The place of the runner, as the example says.
const PLACE: &str = "/opt/ci-runner";

/// A runner: it waits for one job, runs it, says how it ended, and ends.
const RUNNER: &str = "#!/bin/sh\n\
    until job=$(ls jobs | head -n 1) && test -n \"$job\"; do sleep 0.2; done\n\
    mv \"jobs/$job\" \"work/$job\"\ncd work\nsh \"./$job\"; echo $? > \"../done/$job\"\n";

/// A program of the job's in memory alone: `container` kills for it.
const BUILD: &str =
    "cp /bin/echo /dev/shm/tool && /dev/shm/tool built > artifact; rm /dev/shm/tool; exit 3\n";
/// Password hashes, which everybody may read in the guest.
const THEFT: &str = "cat /etc/shadow > stolen\n";

/// The runner, until the test ends.
struct CiRunner {
    _installed: Installed,
}

impl CiRunner {
    /// Of the guest's user, with the drop-in as the package has it, and changed.
    fn start(change: impl Fn(String) -> String) -> CiRunner {
        let runner = CiRunner {
            _installed: Installed::new(),
        };
        for folder in ["jobs", "work", "done"] {
            fs::create_dir_all(Path::new(PLACE).join(folder)).unwrap();
        }
        let program = Path::new(PLACE).join("run.sh");
        fs::write(&program, RUNNER).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        ok(&["chown", "-R", "1000:1000", PLACE]);
        let example = |name: &str| fs::read_to_string(Path::new(EXAMPLES).join(name)).unwrap();
        let unit = example(UNIT).replace("User=ci-runner", "User=user");
        fs::write(Path::new(UNITS).join(UNIT), unit).unwrap();
        let drop_ins = Path::new(UNITS).join(format!("{UNIT}.d"));
        fs::create_dir_all(&drop_ins).unwrap();
        fs::write(
            drop_ins.join("turnkey.conf"),
            change(example("ci-runner.conf")),
        )
        .unwrap();
        ok(&["systemctl", "daemon-reload"]);
        ok(&["systemctl", "start", UNIT]);
        runner
    }

    /// The runner's next start, as soon as it waits for a job: its invocation.
    fn waits(&self) -> String {
        eventually("the runner has been started", || {
            property(UNIT, "ActiveState") == "active"
        });
        property(UNIT, "InvocationID")
    }

    /// Runs a job; the report of the start that took it, when the watcher has ended, and the report's file.
    fn run(&self, name: &str, script: &str) -> (Value, String) {
        let invocation = self.waits();
        let written = Path::new(PLACE).join(name);
        fs::write(&written, script).unwrap();
        fs::rename(written, Path::new(PLACE).join("jobs").join(name)).unwrap();
        let told = format!("{REPORTS}/{UNIT}-{invocation}.json");
        eventually("the job's report is whole", || {
            report(Path::new(&told))["status"] != "watching"
        });
        (report(Path::new(&told)), told)
    }
}

impl Drop for CiRunner {
    fn drop(&mut self) {
        run(&["systemctl", "stop", UNIT]);
        let _ = fs::remove_dir_all(Path::new(UNITS).join(format!("{UNIT}.d")));
        let _ = fs::remove_file(Path::new(UNITS).join(UNIT));
        run(&["systemctl", "daemon-reload"]);
        let _ = fs::remove_dir_all(PLACE);
    }
}

/// The text that a job has written, in its work or about its end.
fn wrote(file: &str) -> Option<String> {
    fs::read_to_string(Path::new(PLACE).join(file)).ok()
}

/// The rows of a rule, and the command lines of who broke it.
fn by(report: &Value, rule: &str) -> Vec<String> {
    let rows = report["violations"].as_array().unwrap().iter();
    let rows = rows.filter(|row| row["rule"] == rule);
    rows.map(|row| row["process"]["argv"].to_string()).collect()
}

#[test]
fn jobs_of_a_ci_runner_are_recorded_each_and_nothing_is_stopped() {
    let runner = CiRunner::start(|drop_in| drop_in);
    let (build, _) = runner.run("build", BUILD);
    assert_eq!(
        wrote("work/artifact").as_deref(),
        Some("built\n"),
        "it was not stopped"
    );
    assert_eq!(wrote("done/build").as_deref(), Some("3\n"), "nor killed");
    assert_eq!(build["status"], "ended");
    assert_eq!(
        build["attached"]["found_count"], 0,
        "from its first instruction on"
    );
    assert_eq!(build["profile"]["name"], "runner");
    let rows = build["violations"].as_array().unwrap();
    assert!(rows.iter().all(|row| row["action"] == "log"), "{rows:?}");
    assert_eq!(by(&build, "memory-exec"), [r#"["/dev/shm/tool","built"]"#]);
    assert!(by(&build, "credential-file").is_empty());
    let started = build["processes"].as_array().unwrap().iter();
    assert!(
        started
            .map(|process| &process["argv"])
            .any(|argv| argv[0] == "cp"),
        "what it did"
    );

    // The next job is in the next report, and not in the first.
    let (theft, file) = runner.run("theft", THEFT);
    assert!(
        wrote("work/stolen").is_some_and(|read| read.contains("root:")),
        "nor is that stopped"
    );
    assert_ne!(theft["id"], build["id"]);
    assert_eq!(by(&theft, "credential-file"), [r#"["cat","/etc/shadow"]"#]);
    assert!(by(&theft, "memory-exec").is_empty());
    let (_, said) = outside("turnkey", &["report", &file]);
    assert!(
        said.contains("cat /etc/shadow") && said.contains("attached to"),
        "{said}"
    );
}

/// The control: rules that kill stop the same job.
#[test]
fn under_container_a_job_of_a_ci_runner_is_stopped() {
    let runner = CiRunner::start(|drop_in| {
        let kills = drop_in.replace("--profile runner --mode observe", "--profile container");
        assert_ne!(kills, drop_in);
        kills
    });
    let (build, _) = runner.run("build", BUILD);
    assert_eq!(build["status"], "killed_by_policy");
    assert_eq!(by(&build, "memory-exec").len(), 1);
    assert_eq!(wrote("work/artifact").unwrap_or_default(), "");
    assert_eq!(wrote("done/build"), None);
}
