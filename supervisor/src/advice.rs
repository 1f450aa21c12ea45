//! Words for a run that did not start: the chain of causes on one line each, and the fix.

mod program;

use std::ffi::{OsStr, OsString};

use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit};
use turnkey_jailer::export::DestinationError;
use turnkey_jailer::layer::KeptLayer;
use turnkey_jailer::rootless::RootlessError;
use turnkey_jailer::{HostError, JailError};
use turnkey_monitor::{LookupError, OpenError, SharedError};
use turnkey_policy::Policy;
use turnkey_report::quote;

use crate::directory::RunDirectory;
use crate::files::UnwrittenOutput;
use crate::publish::PublishError;
use crate::required_layers::UnavailableLayers;
use crate::toolchain::{self, CallerPaths, ToolchainNeed};

/// The error with its causes, and what would help.
pub fn explain(error: &anyhow::Error) -> String {
    with_fix(chain(error), fix(error))
}

/// The error with its causes in one line, for a report whose run went on all the same.
pub fn in_one_line(error: &anyhow::Error) -> String {
    chain(error).replace("\n  because: ", ": ")
}

/// The error with its causes and what would help in one line, for a report whose program has run.
pub fn explained_in_one_line(error: &anyhow::Error) -> String {
    let text = in_one_line(error);
    fix(error).map_or_else(
        || text.clone(),
        |fix| format!("{text}; fix: {}", turnkey_report::visible(&fix)),
    )
}

/// Errors name paths and words of files, which can hold whatever their maker liked: each part comes out
/// visible, and breaks no line.
fn chain(error: &anyhow::Error) -> String {
    let mut said = error.to_string();
    let mut text = if error.is::<UnavailableLayers>() {
        in_its_lines(&said)
    } else {
        turnkey_report::visible(&said)
    };
    for cause in error.chain().skip(1) {
        let cause = cause.to_string();
        // A transparent error says the same as its cause.
        if cause != said {
            text = format!("{text}\n  because: {}", turnkey_report::visible(&cause));
        }
        said = cause;
    }
    text
}

/// A list, whose line breaks are turnkey's own: it names layers and switches of the kernel, and no file.
fn in_its_lines(list: &str) -> String {
    let lines: Vec<String> = list.lines().map(turnkey_report::visible).collect();
    lines.join("\n")
}

/// The same of a run that was asked for, and for whose program the host may have what the jail lacks.
pub fn explain_run(
    error: &anyhow::Error,
    policy: &Policy,
    command: &[OsString],
    (directory, layer): (&RunDirectory, Option<&KeptLayer>),
) -> String {
    let program = command.first().map_or(OsStr::new(""), |word| word);
    let jail = error.downcast_ref::<JailError>();
    let fix = match jail {
        Some(JailError::NotFound(_)) => Some(bring_in(policy, program, directory)),
        Some(JailError::ExecFailed {
            source: Errno::ENOENT,
            ..
        }) => {
            let of_script = || program::interpreter(policy, program, directory);
            let needed = needed(policy, program, directory);
            needed.or_else(of_script).or_else(|| fix(error))
        }
        Some(JailError::ExecFailed { .. }) => {
            needed(policy, program, directory).or_else(|| fix(error))
        }
        _ => fix(error).or_else(|| {
            let is_monitor = error.downcast_ref::<OpenError>().is_some();
            is_monitor.then(|| WITHOUT_THE_MONITOR.to_owned())
        }),
    };
    let layer = layer.filter(|layer| layer.holds_something());
    let fix = match (jail, layer) {
        (Some(jail), Some(layer)) if jail.is_of_the_tree() => Some(without_layer(layer)),
        (Some(jail), Some(layer)) if jail.is_of_the_program() => {
            fix.map(|fix| format!("{fix}; or {}", without_layer(layer)))
        }
        _ => fix,
    };
    with_fix(chain(error), fix)
}

/// The advice for a tree in which what earlier runs have left stands where something else has to be.
fn without_layer(layer: &KeptLayer) -> String {
    format!(
        "what earlier runs have left in the layer may be in the way: run without it, or begin anew: {}",
        removal(layer)
    )
}

/// The command that removes a layer.
pub fn removal(layer: &KeptLayer) -> String {
    let path = layer.path();
    match path.file_name() {
        Some(name)
            if path
                .parent()
                .is_some_and(|above| above.ends_with("turnkey/layers")) =>
        {
            format!("turnkey layers remove {}", name.display())
        }
        _ => format!("rm -r {}", path.display()),
    }
}

fn fix(error: &anyhow::Error) -> Option<String> {
    if let Some(fix) = open_files(error, limit_of_files()) {
        return Some(fix);
    }
    let jail = error.downcast_ref::<JailError>().and_then(JailError::fix);
    let host = || error.downcast_ref::<HostError>().and_then(HostError::fix);
    let caller = || error.downcast_ref().and_then(RootlessError::fix);
    let export = || error.downcast_ref().and_then(DestinationError::fix);
    let publish = || error.downcast_ref().and_then(PublishError::fix);
    let unwritten = || error.downcast_ref().map(UnwrittenOutput::fix);
    let shared = || error.downcast_ref().and_then(SharedError::fix);
    let monitor = || error.downcast_ref().and_then(OpenError::fix);
    let lookup = || {
        let error = error.downcast_ref::<LookupError>();
        error.map(|error| error.fix().to_owned())
    };
    jail.or_else(host)
        .or_else(caller)
        .or_else(export)
        .or_else(publish)
        .or_else(lookup)
        .or_else(unwritten)
        .or_else(shared)
        .or_else(monitor)
}

/// Files and their like that a run opens by itself, and some to spare. The kernel's programs take the most.
const FILES_OF_A_RUN: u64 = 128;

/// The advice for a strict run beside the cause, which names its own fix.
const WITHOUT_THE_MONITOR: &str =
    "mend that; or go on without the monitor, which the report then says: --best-effort";

fn limit_of_files() -> u64 {
    getrlimit(Resource::RLIMIT_NOFILE).map_or(u64::MAX, |(soft, _)| soft)
}

/// The advice that turnkey may open too few files. Not every library tells what it failed of, so under a limit that
/// is too low for a whole run that is told of everything that has no better cause.
fn open_files(error: &anyhow::Error, limit: u64) -> Option<String> {
    let is_known = error.downcast_ref::<JailError>().is_some();
    let is_too_low = limit < FILES_OF_A_RUN && !is_known;
    (is_too_low || error.chain().any(is_for_want_of_files)).then(|| {
        format!(
            "turnkey may have {limit} open files (descriptors), and a run needs up to {FILES_OF_A_RUN}: \
             raise the limit with `ulimit -n 1024`, or start fewer at once"
        )
    })
}

fn is_for_want_of_files(cause: &(dyn std::error::Error + 'static)) -> bool {
    let io = cause.downcast_ref::<std::io::Error>();
    let number = io.and_then(std::io::Error::raw_os_error);
    number == Some(Errno::EMFILE as i32) || cause.downcast_ref() == Some(&Errno::EMFILE)
}

fn with_fix(text: String, fix: Option<String>) -> String {
    match fix {
        Some(fix) => format!("{text}\n  fix: {}", turnkey_report::visible(&fix)),
        None => text,
    }
}

fn bring_in(policy: &Policy, program: &OsStr, directory: &RunDirectory) -> String {
    if let Some(root) = &policy.filesystem.root {
        let root = root.display();
        return format!("the jail's root is {root}; install the program there, or give its path");
    }
    program::beside_the_workspace(program, directory)
        .or_else(|| needed(policy, program, directory))
        .unwrap_or_else(|| program::nowhere(policy, program))
}

/// A program that is on the caller's PATH and not in the jail, such as one of pyenv or nvm, needs
/// its whole installation inside.
fn needed(policy: &Policy, program: &OsStr, directory: &RunDirectory) -> Option<String> {
    let caller = CallerPaths::new(&directory.environment);
    match toolchain::find_required(policy, program, directory, &caller) {
        Ok(need) => need
            .filter(|need| !need.prefixes.is_empty())
            .as_ref()
            .map(flags),
        Err(too_much) => Some(too_much.to_string()),
    }
}

fn flags(need: &ToolchainNeed) -> String {
    let read = need.prefixes.iter();
    let read: Vec<String> = read
        .map(|prefix| format!("--read {}", quote(&prefix.display().to_string())))
        .collect();
    let (read, program) = (read.join(" "), need.program.display());
    format!(
        "on this host it is {program}; bring it in with `{read}` and name it by its full path, \
         or let turnkey do both with `--toolchain auto`"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_installation_is_named_as_a_flag() {
        let need = ToolchainNeed {
            program: "/srv/venv/bin/python".into(),
            prefixes: vec!["/srv/venv".into(), "/srv/python".into()],
            ..ToolchainNeed::default()
        };
        let text = flags(&need);
        assert!(
            text.contains("`--read /srv/venv --read /srv/python`"),
            "{text}"
        );
        assert!(text.contains("--toolchain auto"), "{text}");
    }

    #[test]
    fn a_path_in_an_error_cannot_steer_a_terminal() {
        let error = turnkey_jailer::PlanError::Missing("/srv/\x1b[2J\u{202e}\nx".into());
        let text = explain(&error.into());
        assert!(
            text.starts_with("/srv/\\x1b[2J\\u{202e}\\nx does not exist"),
            "{text}"
        );
    }

    #[test]
    fn what_a_report_holds_of_an_error_has_no_break() {
        let cause = anyhow::Error::from(Errno::EACCES);
        let text = explained_in_one_line(&cause.context("could not export into /srv/out"));
        assert!(
            text.starts_with("could not export into /srv/out: "),
            "{text}"
        );
        let group = explained_in_one_line(&JailError::Group(never_made()).into());
        assert!(!text.contains('\n') && !group.contains('\n'), "{group}");
    }

    #[test]
    fn a_list_of_layers_keeps_its_lines() {
        let error = UnavailableLayers::from_layers(vec![(
            turnkey_policy::Layer::Memory,
            "no group\x1b".to_owned(),
        )]);
        let text = explain(&error.into());
        assert!(
            text.contains(":\n  memory: no group\\x1b\n  fix: "),
            "{text:?}"
        );
    }

    #[test]
    fn too_few_open_files_are_told_of_whoever_hides_it() {
        let told = |error: anyhow::Error, limit| open_files(&error, limit).unwrap_or_default();
        let io = || anyhow::Error::from(std::io::Error::from(Errno::EMFILE));
        assert!(told(io().context("no pipes"), 1024).contains("ulimit -n"));
        assert!(told(anyhow::Error::from(Errno::EMFILE), 1024).contains("ulimit -n"));
        let hidden = || anyhow::Error::from(Errno::ENOENT).context("cannot be attached");
        assert!(told(hidden(), 50).contains("may have 50 open files"));
        assert_eq!(told(hidden(), 1024), "");
        let known = JailError::NotFound("no-such-program".to_owned());
        assert_eq!(told(known.into(), 50), "", "it has a cause of its own");
    }

    #[test]
    fn a_cause_is_not_said_twice() {
        let error = anyhow::Error::from(JailError::Group(never_made()));
        let text = explain(&error);
        assert_eq!(text.matches("could not").count(), 1, "{text}");
        assert!(text.contains("because: "), "{text}");
    }

    fn never_made() -> turnkey_jailer::GroupError {
        let hierarchies = turnkey_jailer::hierarchy::CgroupHierarchies::probe().unwrap();
        let names = turnkey_jailer::GroupNames::new(&hierarchies, "missing/group");
        turnkey_jailer::JailCgroups::create(names).unwrap_err()
    }
}
