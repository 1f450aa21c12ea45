//! Paths that a program looked for in vain, and the host has: the most common reason why a
//! harmless program fails in a jail, and one that no layer reports as a refusal.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::LazyLock;

use turnkey_analysis::behaviour::SECRETS;
use turnkey_facts::Event;
use turnkey_policy::{AttemptKind, Glob, Policy, Rule, RuleAction, Severity};
use turnkey_report::{FileAccess, Report, Status, Stopper, of_what_is_nowhere, of_what_is_there};

use crate::directory::RunDirectory;
use crate::toolchain::{self, CallerPaths};

/// Paths named at most.
const MOST: usize = 5;
/// Paths to be made that are named at most.
const MOST_TO_BE_MADE: usize = 256;
/// Paths that are to be shown, and are looked for on the host, at most.
const MOST_LOOKED_FOR: usize = 1024;
/// Trees that programs probe all the time and do without.
const PROBED: [&str; 6] = ["/proc", "/sys", "/dev", "/run", "/selinux", "/etc/selinux"];

/// Trees in which nothing can be put: they are the jail's own.
const OWN_TREES: [&str; 3] = ["/workspace", "/proc", "/dev"];

/// Places of secrets: nobody is told to show those to a program.
static SECRET: LazyLock<Vec<Glob>> = LazyLock::new(|| {
    let patterns = SECRETS.iter().flat_map(|(_, patterns)| *patterns);
    patterns
        .filter_map(|pattern| Glob::parse(pattern).ok())
        .collect()
});

/// Places that are the jail's own, or that every program asks about and nobody misses.
const OWN: [&str; 8] = [
    "/workspace",
    "/proc",
    "/sys",
    "/dev",
    "/run",
    "/var/run",
    "/etc/ld.so.preload",
    "/node_modules",
];

/// Shown places of which the kernel tells what is not there all the same: the directory that has the programs, and that no PATH lacks, as what is
/// in another one is looked for here, too; and where a home has what applications keep, as who looks for that first opens nothing.
const SPOKEN: &str = "{/usr/bin/*,/workspace/.*,/workspace/.{config,local/share}/**}";

/// Has the kernel tell of calls that only ask about a path which the profile does not show: stat(2), access(2) and their
/// relatives are no events otherwise. Programs ask about thousands of paths that are not there, beside those that are, as
/// on `PATH` and where modules are imported from: the directories of these are shown, and nothing is told of them, but for a few
/// ([`SPOKEN`]): a shell looks for a command by stat(2), and starts nothing that is not there. Nor is
/// anything told where no rule is about such calls, and the kernel does not look at them at all.
pub fn ask(policy: &mut Policy) {
    let mut rules = policy.rules.iter();
    let (true, Ok(path), Ok(spoken)) = (
        rules.any(|rule| rule.on.contains(&AttemptKind::Stat)),
        Glob::parse("/?**"),
        Glob::parse(SPOKEN),
    ) else {
        return;
    };
    let rule = Rule {
        path: vec![path],
        spoken: Some(spoken),
        hidden: true,
        yields: true,
        advice: true,
        severity: Severity::Info,
        ..Rule::new("asked-in-vain", [AttemptKind::Stat], RuleAction::Log)
    };
    policy.rules.push(rule);
    policy.settle_unlike_host(policy.rules.len() - 1, &OWN);
}

/// The place among the rules of the one that [`ask`] adds. It is no rule of the profile, and nothing is told of it.
#[derive(Clone, Copy, Debug)]
pub struct AdvisoryRule(Option<usize>);

impl AdvisoryRule {
    /// The one of a policy.
    pub fn from_policy(policy: &Policy) -> AdvisoryRule {
        AdvisoryRule(policy.rules.iter().position(|rule| rule.advice))
    }

    /// The event without that rule; `None` for one that has nothing to do with it.
    pub fn told(self, event: &Event) -> Option<Event> {
        let decision = event.decision?;
        (Some(decision.rule) == self.0).then(|| Event {
            decision: None,
            ..event.clone()
        })
    }
}

/// Notes it in the report of a program that failed by itself. One that succeeded needed nothing, and one that was
/// ended did not fail for that.
pub fn note(report: &mut Report, policy: &Policy, directory: &RunDirectory) {
    let absent = to_be_made(report);
    // A root of the caller's own is no host to look at.
    let is_the_hosts = policy.filesystem.root.is_none();
    let mut looks = 0;
    let mut for_this_host = |advice: &str, path: Option<&str>| {
        let advice = of_what_is_there(advice, &absent);
        let path =
            path.filter(|path| is_the_hosts && advice.starts_with("--read ") && is_plain(path));
        let Some(path) = path.filter(|_| looks < MOST_LOOKED_FOR) else {
            return advice;
        };
        looks += 1;
        let found = Path::new(path)
            .symlink_metadata()
            .map_err(|error| error.kind());
        match found.is_err_and(|kind| kind == ErrorKind::NotFound) {
            true => of_what_is_nowhere(&advice, path),
            false => advice,
        }
    };
    for violation in &mut report.violations {
        violation.advice = for_this_host(&violation.advice, violation.path.as_deref());
    }
    for row in &mut report.file_operations {
        if let Some(advice) = &mut row.advice {
            *advice = for_this_host(advice, row.path.as_deref());
        }
    }
    if has_failed_by_itself(report) {
        let missing = missing(report, policy);
        report.on_host = whole(&missing, &wanted_to_run(report), policy, directory);
        report.on_host_to_write = to_write(report, policy);
    }
}

/// True for a program that ended by itself, and not well.
pub fn has_failed_by_itself(report: &Report) -> bool {
    matches!(report.status, Status::Exited | Status::Signaled) && report.exit_code != Some(0)
}

/// Directories in which a file was to be written, and that the host has and the jail has not, each once.
fn to_write(report: &Report, policy: &Policy) -> Vec<String> {
    let mut places: Vec<String> = Vec::new();
    let rows = report.file_operations.iter().filter(|row| {
        row.errno.as_deref() == Some("ENOENT")
            && row.rule.is_none()
            && row.access.contains(&FileAccess::Write)
    });
    let parents = rows.filter_map(|row| Path::new(row.path.as_deref()?).parent());
    for parent in parents {
        let Some(name) = parent.to_str().filter(|name| is_plain(name)) else {
            continue;
        };
        let is_jails = OWN_TREES.iter().any(|tree| parent.starts_with(tree))
            || policy.filesystem.root.is_some()
            || policy.filesystem.gives(parent)
            || policy.filesystem.leads_to_given(parent);
        if places.len() < MOST
            && !is_jails
            && !places.iter().any(|known| known == name)
            && parent.is_dir()
        {
            places.push(name.to_owned());
        }
    }
    places
}

/// Paths that a layer kept from being written, and that are to be made in a directory of the host, each once.
fn to_be_made(report: &Report) -> Vec<String> {
    let refused = report.file_operations.iter().filter(|row| {
        matches!(row.stopped_by, Some(Stopper::Mounts | Stopper::Landlock))
            && row.access.contains(&FileAccess::Write)
    });
    let absent = refused
        .filter_map(|row| row.path.clone())
        .filter(|path| path.starts_with('/') && !path.contains('\\'))
        .filter(|path| {
            let path = Path::new(path);
            path.symlink_metadata().is_err() && path.parent().is_some_and(Path::is_dir)
        });
    let absent: BTreeSet<String> = absent.take(MOST_TO_BE_MADE).collect();
    absent.into_iter().collect()
}

/// True for a path that is as it was, without an escape, and needs no quotes.
fn is_plain(path: &str) -> bool {
    path.starts_with('/') && !path.contains(['\\', ' ', '\'', '"'])
}

/// True for the path of a secret.
fn is_secret(path: &str) -> bool {
    SECRET.iter().any(|glob| glob.matches(path.as_bytes()))
}

/// The path that shows what a program looked for in vain at another one, which the host has; `None` where nothing can or should show it.
///
/// One that is shown already leads by a symlink to where nothing is shown. Of that place the whole directory is proposed: a program whose
/// settings are elsewhere has more than one there.
fn to_show(path: &str, policy: &Policy) -> Option<String> {
    let too_much = |path: &Path| turnkey_policy::is_too_much_to_show(path);
    let real = turnkey_jailer::paths::canonical(Path::new(path)).ok()?;
    let text = real.to_str().filter(|text| is_plain(text))?;
    if turnkey_policy::is_reserved(&real) || is_secret(text) {
        return None;
    }
    let files = &policy.filesystem;
    if !files.shows(Path::new(path)) || files.shows(&real) {
        // A program that looks whether it is there may do without, and one that lists it means something in it.
        return (!too_much(Path::new(path))).then(|| path.to_owned());
    }
    let directory = real.parent().filter(|parent| !too_much(parent));
    let place = directory.unwrap_or(&real);
    (!too_much(place)).then(|| place.display().to_string())
}

/// The paths that were to be executed.
fn wanted_to_run(report: &Report) -> BTreeSet<&str> {
    let rows = report.file_operations.iter();
    let runs = rows.filter(|row| row.access.contains(&FileAccess::Execute));
    runs.filter_map(|row| row.path.as_deref()).collect()
}

/// The same paths, each once, with what a program needs in the place of one that was to be executed: of a venv the symlink alone leads
/// nowhere.
fn whole(
    missing: &[String],
    executed: &BTreeSet<&str>,
    policy: &Policy,
    directory: &RunDirectory,
) -> Vec<String> {
    let caller = CallerPaths::new(&directory.environment);
    let mut paths: Vec<String> = Vec::new();
    for path in missing {
        if !executed.contains(&path[..]) {
            if !paths.contains(path) {
                paths.push(path.clone());
            }
            continue;
        }
        let need = toolchain::find_required(policy, OsStr::new(path), directory, &caller);
        let prefixes = need.ok().flatten().map(|need| need.prefixes);
        let needed: Option<Vec<String>> = prefixes
            .into_iter()
            .flatten()
            .map(|prefix| prefix.to_str().map(str::to_owned))
            .collect();
        let needed = needed.filter(|all| !all.is_empty() && all.iter().all(|one| is_plain(one)));
        for one in needed.unwrap_or_else(|| vec![path.clone()]) {
            if !paths.contains(&one) {
                paths.push(one);
            }
        }
    }
    paths
}

/// The first few paths, in the order they were tried.
fn missing(report: &Report, policy: &Policy) -> Vec<String> {
    // Below a scratch, such as /tmp, nothing of the host shows either, though the place is granted.
    let hidden = report
        .file_operations
        .iter()
        .filter(|tried| tried.errno.as_deref() == Some("ENOENT"));
    // What had to be escaped is not the path itself any more, and no program's usual business.
    let plain = |path: &&str| is_plain(path);
    let wanted = |path: &&str| !PROBED.iter().any(|tree| Path::new(path).starts_with(tree));
    // A rule that is against it has its own block, and its own advice.
    let ruled = |path: &str| {
        let mut violations = report.violations.iter();
        violations.any(|violation| violation.path.as_deref() == Some(path))
    };
    let mut paths: Vec<String> = Vec::new();
    for path in hidden
        .filter_map(|tried| tried.path.as_deref())
        .filter(plain)
        .filter(wanted)
        .filter(|path| !ruled(path) && !is_secret(path))
    {
        if paths.len() == MOST {
            break;
        }
        let shown = to_show(path, policy).filter(|shown| !paths.contains(shown));
        paths.extend(shown);
    }
    paths
}
