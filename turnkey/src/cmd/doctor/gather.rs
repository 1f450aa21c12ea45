//! Looks at this host: attempts where they leave nothing, files of the kernel elsewhere.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use turnkey_jailer::hierarchy::{CgroupHierarchies, Controller, HierarchyError};
use turnkey_jailer::userns::NamespaceSwitches;
use turnkey_jailer::{
    GroupNames, JailCgroups as MadeGroups, PlanError, landlock, privileges, rootless, trial,
};
use turnkey_monitor::{Available, Hooks, Monitor, Tier};
use turnkey_policy::{Overrides, Policy};

use super::facts::{CallerCapability, CgroupFacts, HostFacts, IdMapped, LandlockFacts, NoGroups};
use super::preemption::{self, Omission};
use turnkey_supervisor::advice;
use turnkey_supervisor::object;
use turnkey_supervisor::{RunDirectory, Strictness, plan};

/// The profile that a run without flags has.
const DEFAULT: &str = "untrusted";
/// The capabilities that the monitor needs besides: number, name and purpose.
const FOR_THE_MONITOR: [(u8, &str, &str); 3] = [
    (39, "CAP_BPF", "the monitor's eBPF programs"),
    (38, "CAP_PERFMON", "the monitor's tracepoints"),
    (12, "CAP_NET_ADMIN", "the monitor's network hooks"),
];
/// A harmless program that is everywhere.
const PROGRAM: &str = "/bin/true";
const SECURITY: &str = "/sys/kernel/security";

/// Gathers all facts about the host.
pub fn gather() -> anyhow::Result<HostFacts> {
    let no_files = |path: &str| Err(format!("{path} is no shipped profile"));
    let policy = turnkey_policy::load(DEFAULT, &no_files, &Overrides::default())?;
    // As a run does.
    rootless::leave_chroot();
    let hierarchies = CgroupHierarchies::probe().map_err(no_groups);
    let directory = working_directory(&policy);
    // The longest of all by far is to load the monitor: once, where nothing fails.
    let rehearsal = rehearse(&directory, false);
    let best_effort = match &rehearsal {
        Ok(_) => Ok(()),
        Err(_) => rehearse(&directory, true).map(drop),
    };
    let proved = rehearsal.as_ref().ok().and_then(proved);
    let kernel = nix::sys::utsname::uname()?;
    let release = kernel.release().to_string_lossy().into_owned();
    Ok(HostFacts {
        omission: omission(&release, &kernel.version().to_string_lossy()),
        kernel: release,
        user: nix::unistd::geteuid().as_raw(),
        capabilities: capabilities(),
        switches: NamespaceSwitches::read(),
        namespaces: trial::namespaces(),
        rights_inside: trial::rights_inside(),
        seccomp: trial::seccomp(),
        landlock: LandlockFacts {
            abi: landlock::abi(),
            errata: landlock::errata(),
            refuses: trial::landlock(),
        },
        overlay: trial::overlay(),
        id_mapped: IdMapped {
            outcome: trial::id_mapped(&directory),
            directory: directory.clone(),
        },
        btf: std::fs::metadata("/sys/kernel/btf/vmlinux")
            .map(|file| file.len())
            .map_err(|error| error.to_string()),
        security_modules: read(SECURITY, "lsm")
            .map(|text| text.trim().split(',').map(str::to_owned).collect()),
        lockdown: read(SECURITY, "lockdown").and_then(|text| chosen(&text)),
        tier: Available::here(),
        hooks: Hooks::here().map_err(|error| error.to_string()),
        shared: turnkey_monitor::shared::trusted().map_err(|error| error.to_string()),
        monitor: proved.map_or_else(|| monitor(&policy, hierarchies.as_ref().ok()), Ok),
        groups: hierarchies.map(groups),
        has_sysfs: Path::new("/sys/kernel").is_dir(),
        rehearsal: rehearsal.map(drop),
        best_effort,
    })
}

fn no_groups(error: HierarchyError) -> NoGroups {
    let cause = match &error {
        HierarchyError::NoUnified(_) => "no cgroup v2 hierarchy can be reached here".to_owned(),
        HierarchyError::Proc { path, source } => format!("{path} cannot be read: {source}"),
    };
    let fix = match error {
        HierarchyError::NoUnified(fix) => format!("as root, mount one: {fix}"),
        HierarchyError::Proc { .. } => "mount procfs: mount -t proc proc /proc".to_owned(),
    };
    NoGroups { cause, fix }
}

fn omission(release: &str, version: &str) -> Omission {
    let choice = read("/sys/kernel/debug/sched", "preempt");
    let command_line = read("/proc", "cmdline").unwrap_or_default();
    let symbols = read("/proc", "kallsyms").unwrap_or_default();
    let kernel = preemption::KernelBuild {
        release,
        version,
        choice: choice.as_deref(),
        command_line: &command_line,
        symbols: &symbols,
    };
    kernel.omission()
}

/// The working directory of the rehearsal: the current one, unless no run may be started there.
fn working_directory(policy: &Policy) -> PathBuf {
    let program = [OsString::from(PROGRAM)];
    match plan(
        policy,
        Strictness::Whole,
        &program,
        &RunDirectory::default(),
    ) {
        Err(error) if is_system(&error) => std::env::temp_dir(),
        _ => std::env::current_dir().unwrap_or_else(|_| std::env::temp_dir()),
    }
}

fn is_system(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(PlanError::SystemWorkdir(_)))
}

#[expect(
    clippy::disallowed_methods,
    reason = "of /proc, /sys and the kernel's switches"
)]
fn read(directory: &str, name: &str) -> Option<String> {
    std::fs::read_to_string(Path::new(directory).join(name)).ok()
}

/// `none [integrity] confidentiality`
fn chosen(text: &str) -> Option<String> {
    let start = text.find('[')? + 1;
    let end = start + text.get(start..)?.find(']')?;
    text.get(start..end).map(str::to_owned)
}

fn capabilities() -> Vec<CallerCapability> {
    let status = read("/proc/self", "status").unwrap_or_default();
    let mask = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|text| u64::from_str_radix(text.trim(), 16).ok())
        .unwrap_or(0);
    let holds = |number: u8| mask >> number & 1 == 1;
    let capability = |(number, name, purpose)| CallerCapability {
        name,
        purpose,
        held: holds(number),
    };
    // CAP_SYS_ADMIN stands for the newer ones that were split off it.
    let monitor = FOR_THE_MONITOR
        .iter()
        .map(|(number, name, purpose)| CallerCapability {
            name: (*name).to_owned(),
            purpose,
            held: holds(*number) || *number > 32 && holds(21),
        });
    privileges::needed()
        .map(capability)
        .chain(monitor)
        .collect()
}

/// Makes groups as a run would, has a process born in them, and removes them.
fn groups(hierarchies: CgroupHierarchies) -> CgroupFacts {
    let made = MadeGroups::create(GroupNames::new(&hierarchies, &group_name("trial")));
    let swap_is_bounded = made.as_ref().is_ok_and(MadeGroups::swap_is_bounded);
    let made = made
        .map_err(|error| advice::explain(&error.into()))
        .and_then(|groups| {
            let born = trial::born_in(groups.directory());
            born.map_err(|errno| format!("no process can be born in it: {errno}"))?;
            groups
                .remove()
                .map_err(|error| advice::explain(&error.into()))
        });
    // Nothing is made for a limit that not every run has.
    let io = CgroupHierarchies::probe_for(&[Controller::Io]);
    let home = |controller| {
        let found = match (controller, &io) {
            (Controller::Io, Ok(io)) => io,
            _ => &hierarchies,
        };
        (controller, found.home(controller).clone())
    };
    CgroupFacts {
        controllers: Controller::ALL.map(home).to_vec(),
        unified: hierarchies.unified.clone(),
        lacks: hierarchies.lacks().map(str::to_owned),
        made,
        swap_is_bounded,
    }
}

fn group_name(of: &str) -> String {
    format!("turnkey-doctor-{of}-{}", std::process::id())
}

/// Loads the monitor and lets its canary die, in a group of its own.
fn monitor(policy: &Policy, hierarchies: Option<&CgroupHierarchies>) -> Result<String, String> {
    let explain = |error: anyhow::Error| advice::in_one_line(&error);
    let tier = Available::here().tier;
    let rules = turnkey_monitor::compile(policy, tier).map_err(|error| explain(error.into()))?;
    let mut monitor = Monitor::open(object(), rules).map_err(|error| explain(error.into()))?;
    let hierarchies = hierarchies.ok_or("it is loaded, and there is no group to watch")?;
    let names = GroupNames::new(hierarchies, &group_name("canary"));
    let groups = MadeGroups::create(names).map_err(|error| explain(error.into()))?;
    let proof = monitor.canary(groups.directory(), groups.id());
    let proof = proof.map_err(|error| explain(error.into()))?;
    Ok(match monitor.hooks().lack(tier) {
        Some(lack) if tier == Tier::Tracepoint => format!("{}; {lack}", proof.0),
        _ => proof.0,
    })
}

/// The proof that the monitor of a run has given, by the run's report.
fn proved(report: &Value) -> Option<String> {
    let layers = report["enforcement"].as_array()?;
    let monitor = layers.iter().find(|layer| layer["layer"] == "monitor")?;
    let (proof, effective) = (monitor["proof"].as_str()?, monitor["effective"].as_str()?);
    Some(match effective.rsplit_once("; ") {
        Some((_, lack)) if Available::here().tier == Tier::Tracepoint => format!("{proof}; {lack}"),
        _ => proof.to_owned(),
    })
}

/// A run of the default profile, whole: nothing else says so surely that it can be enforced. The answer is its report.
fn rehearse(directory: &Path, best_effort: bool) -> Result<Value, String> {
    let mut command = Command::new("/proc/self/exe");
    command.args(["run", "--profile", DEFAULT, "--quiet", "--report", "-"]);
    // Who asks what a host can do has not asked to change it.
    command.arg("--leave-nothing");
    command.arg("--workdir").arg(directory);
    if best_effort {
        command.arg("--best-effort");
    }
    let output = command
        .args(["--", PROGRAM])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| error.to_string())?;
    let report = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
    let counts = judge(&report, output.status.success(), best_effort);
    counts.map(|()| report).ok_or_else(|| {
        let told = String::from_utf8_lossy(&output.stderr);
        let told = told.trim().trim_start_matches("turnkey: ");
        match told {
            "" => format!("it ended with {}", output.status),
            told => told.to_owned(),
        }
    })
}

/// With less than all a run is never called clean; with all it must be.
fn judge(report: &Value, succeeded: bool, best_effort: bool) -> Option<()> {
    let clean = report["verdict"] == "clean";
    (succeeded && report["status"] == "exited" && (clean || best_effort)).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chosen_word_of_lockdown_stands_in_brackets() {
        assert_eq!(
            chosen("none [integrity] confidentiality\n").as_deref(),
            Some("integrity")
        );
        assert_eq!(chosen("none integrity"), None);
        assert_eq!(chosen("]["), None);
    }

    #[test]
    fn a_run_tells_what_its_monitor_has_proved() {
        let layer = |name: &str, effective: &str, proof: Value| {
            serde_json::json!({"enforcement": [
                {"layer": "pids", "effective": "50; many", "proof": "pids.max is 50"},
                {"layer": name, "effective": effective, "proof": proof},
            ]})
        };
        let report = layer("monitor", "tracepoint", "the canary died".into());
        assert_eq!(proved(&report).as_deref(), Some("the canary died"));
        let unproved = layer("monitor", "nothing", Value::Null);
        assert_eq!(proved(&unproved), None);
        assert_eq!(proved(&layer("cpu", "1", "it holds".into())), None);
    }

    #[test]
    fn only_a_clean_run_of_the_whole_profile_counts() {
        let report = |verdict: &str| serde_json::json!({"status": "exited", "verdict": verdict});
        assert!(judge(&report("clean"), true, false).is_some());
        assert!(judge(&report("inconclusive"), true, false).is_none());
        assert!(judge(&report("inconclusive"), true, true).is_some());
        assert!(judge(&report("clean"), false, false).is_none());
        assert!(judge(&Value::Null, true, false).is_none());
    }
}
