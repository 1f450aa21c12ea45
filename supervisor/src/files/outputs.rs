//! The outputs of a run for its caller, found before it begins: by no trap that somebody planted, out of the
//! program's reach, and on no stream that the program writes to as well.

use std::path::{Path, PathBuf};

use anyhow::Context;
use nix::sys::stat::{FileStat, fstat};
use turnkey_jailer::export::{ExportDestination, ExportMode};
use turnkey_jailer::paths;
use turnkey_policy::{Policy, WorkdirMode};

use super::output::{CallerOutput, is_sink};
use crate::directory::RunDirectory;
use crate::sinks::{FoundSink, WebhookSecret};

/// The outputs that are asked for. Nothing is made yet.
#[derive(Debug, Default)]
pub struct RunOutputs {
    /// `--report`
    pub report: Option<CallerOutput>,
    /// `--events`
    pub events: Option<CallerOutput>,
    /// `--out` of `learn`
    pub profile: Option<CallerOutput>,
    /// `--export`
    pub export: Option<ExportDestination>,
    /// `--to`
    pub sinks: Vec<FoundSink>,
    /// Standard output is taken by one of these: what the program prints goes to standard error.
    pub takes_stdout: bool,
}

/// A file that the program would be able to change.
#[derive(Debug, thiserror::Error)]
#[error(
    "{what} {} lies in {}, which the jail may write: the program could change it; move it elsewhere",
    file.display(), write.display()
)]
pub struct ReachableOutput {
    what: &'static str,
    file: PathBuf,
    write: PathBuf,
}

/// A part of a receiver that the program would be able to use: a mount without the right to write stops no connect(2).
#[derive(Debug, thiserror::Error)]
#[error(
    "{what} {} lies in {}, which the jail may read: the program could tell or sign alerts of its own; move it elsewhere",
    file.display(), shown.display()
)]
pub struct ShownReceiver {
    what: &'static str,
    file: PathBuf,
    shown: PathBuf,
}

/// A variable that tells the program the secret of webhooks.
#[derive(Debug, thiserror::Error)]
#[error(
    "the variable {name}, which the jail is given, holds the secret of webhooks: the program could sign alerts of its own; \
     leave it out of --env and `env`, or sign with another secret: --webhook-secret-file FILE"
)]
pub struct ToldSecret {
    name: String,
}

/// An output in the directory of an export, which an export needs empty, or would replace.
#[derive(Debug, thiserror::Error)]
#[error(
    "{what} {} would lie in {}, to which the program's own files are exported; move it elsewhere",
    file.display(), export.display()
)]
pub struct OutputInExport {
    what: &'static str,
    file: PathBuf,
    export: PathBuf,
}

/// An output that would be mixed with another.
#[derive(Debug, thiserror::Error)]
#[error(
    "{what} would go where {with} goes, and nobody could tell which is which; name a file, or a descriptor of its \
     own, such as /dev/fd/3 with 3>FILE"
)]
pub struct MixedOutput {
    what: &'static str,
    with: &'static str,
}

impl RunOutputs {
    /// Finds where the report, the events and an export go. By the caller as they are: in a user namespace,
    /// strangers cannot be told from root.
    pub fn find(
        report: Option<&Path>,
        events: Option<&Path>,
        export: Option<(&Path, ExportMode)>,
    ) -> anyhow::Result<RunOutputs> {
        let find = |what: &'static str, path: Option<&Path>| {
            let found = path.map(CallerOutput::find).transpose();
            found.with_context(|| {
                let path = path.unwrap_or(Path::new("-")).display();
                format!("could not write {what} to {path}")
            })
        };
        let export = export.map(|(path, mode)| ExportDestination::check(path, mode));
        let export = export.transpose();
        RunOutputs {
            report: find("a report", report)?,
            events: find("events", events)?,
            export: export.context("nothing could be exported")?,
            ..RunOutputs::default()
        }
        .settled()
    }

    /// With a learned profile as well.
    pub fn and_profile(self, profile: Option<CallerOutput>) -> anyhow::Result<RunOutputs> {
        RunOutputs { profile, ..self }.settled()
    }

    /// With receivers of alerts as well.
    pub fn and_sinks(self, sinks: Vec<FoundSink>) -> anyhow::Result<RunOutputs> {
        RunOutputs { sinks, ..self }.settled()
    }

    fn named(&self) -> impl Iterator<Item = (&'static str, &CallerOutput)> {
        let report = self.report.iter().map(|output| ("the report", output));
        let events = self
            .events
            .iter()
            .map(|output| ("the file of --events", output));
        let profile = self
            .profile
            .iter()
            .map(|output| ("the learned profile", output));
        let sinks = self.sinks.iter().filter_map(FoundSink::output);
        let sinks = sinks.map(|output| ("the file of --to", output));
        report.chain(events).chain(profile).chain(sinks)
    }

    /// No two on one stream, none on one of the program's: it could write a whole report of its own there.
    fn settled(mut self) -> anyhow::Result<RunOutputs> {
        self.require_none_in_export()?;
        let [stdout, stderr] = [1, 2].map(standard_stream);
        let mut takes_stdout = false;
        let mut taken: Vec<(&'static str, FileStat)> = Vec::new();
        let mut places: Vec<(&'static str, &Path)> = Vec::new();
        for (what, output) in self.named() {
            if let Some(place) = output.place() {
                // One that is not there yet has no status to tell it by.
                if let Some((with, _)) = places.iter().find(|(_, other)| *other == place) {
                    return Err(MixedOutput { what, with }.into());
                }
                places.push((what, place));
            }
            let Some(stat) = output.stat()?.filter(|stat| !is_sink(stat)) else {
                continue;
            };
            let shared = |with| MixedOutput { what, with };
            let is = |other: &Option<FileStat>| other.is_some_and(|other| same(&stat, &other));
            anyhow::ensure!(!is(&stderr), shared("the program's standard error"));
            if is(&stdout) {
                // A file that is replaced would leave the program's output to nobody.
                let is_file = output.place().is_some();
                anyhow::ensure!(!is_file, shared("the program's standard output"));
                takes_stdout = true;
            }
            if let Some((with, _)) = taken.iter().find(|(_, other)| same(&stat, other)) {
                return Err(shared(with).into());
            }
            taken.push((what, stat));
        }
        self.takes_stdout = takes_stdout;
        Ok(self)
    }

    fn require_none_in_export(&self) -> Result<(), OutputInExport> {
        let Some(export) = self.export.as_ref().map(ExportDestination::place) else {
            return Ok(());
        };
        let is_in = |output: &CallerOutput| output.place().is_some_and(|at| at.starts_with(export));
        match self.named().find(|(_, output)| is_in(output)) {
            None => Ok(()),
            Some((what, output)) => Err(OutputInExport {
                what,
                file: output.path().to_owned(),
                export: export.to_owned(),
            }),
        }
    }

    /// Makes sure that a program cannot write its own next profile, nor the evidence against it, and that no output is written over what
    /// is read.
    pub fn require_unreachable(&self, policy: &Policy) -> anyhow::Result<()> {
        self.require_beside_inputs(policy)?;
        self.require_out_of_reach(policy)?;
        Ok(())
    }

    /// Makes sure that no output is written over a profile or the secret of webhooks.
    pub fn require_beside_inputs(&self, policy: &Policy) -> anyhow::Result<()> {
        let profiles = policy.files.iter().map(|file| ("the profile", &**file));
        let secrets = self.sinks.iter().filter_map(FoundSink::secret);
        let secrets = secrets.filter_map(WebhookSecret::file);
        let secrets = secrets.map(|file| ("the secret of webhooks", file));
        let inputs: Vec<(&'static str, &Path)> = profiles.chain(secrets).collect();
        // Only a learned profile may be one that it goes on from.
        let is_learned = |output: &CallerOutput| {
            let learned = self.profile.as_ref();
            learned.is_some_and(|learned| std::ptr::eq(learned, output))
        };
        for (_, output) in self.named().filter(|(_, output)| !is_learned(output)) {
            output.require_none_of(&inputs)?;
        }
        Ok(())
    }

    fn require_out_of_reach(&self, policy: &Policy) -> Result<(), ReachableOutput> {
        let profiles = policy.files.iter().map(|file| {
            let place = paths::canonical(file).unwrap_or_else(|_| file.clone());
            ("the profile", file.as_path(), place)
        });
        let outputs = self
            .named()
            .filter_map(|(what, output)| Some((what, output.path(), output.place()?.to_owned())));
        let export = self.export.iter().map(ExportDestination::place);
        let export = export.map(|place| ("the directory of --export", place, place.to_owned()));
        let replaced = self.export.iter().filter(|export| {
            let is_replaced = ExportMode::Into { replaces: true };
            export.mode() == is_replaced
        });
        for (what, file, place) in profiles.clone() {
            let mut replaced = replaced.clone().map(ExportDestination::place);
            if let Some(write) = replaced.find(|export| place.starts_with(export)) {
                return Err(ReachableOutput {
                    what,
                    file: file.to_owned(),
                    write: write.to_owned(),
                });
            }
        }
        let writes = policy.filesystem.write.iter().map(|write| &write.path);
        let writes: Vec<_> = writes
            .map(|write| {
                (
                    write,
                    paths::canonical(write).unwrap_or_else(|_| write.clone()),
                )
            })
            .collect();
        for (what, file, place) in profiles.chain(outputs).chain(export) {
            if let Some((write, _)) = writes.iter().find(|(_, write)| place.starts_with(write)) {
                return Err(ReachableOutput {
                    what,
                    file: file.to_owned(),
                    write: (*write).clone(),
                });
            }
        }
        Ok(())
    }
}

impl RunOutputs {
    /// Makes sure that no program makes alerts up: of receivers, it is shown neither a socket nor the secret.
    pub fn require_apart(&self, policy: &Policy, directory: &RunDirectory) -> anyhow::Result<()> {
        if self.sinks.is_empty() {
            // Every place that is shown would be looked up for nothing.
            return Ok(());
        }
        let shown = shown(policy, directory);
        let sockets = self.sinks.iter().filter_map(FoundSink::socket);
        let sockets = sockets.map(|path| ("the socket of --to", path));
        let secrets = self.sinks.iter().filter_map(FoundSink::secret);
        let files = secrets.clone().filter_map(WebhookSecret::file);
        let files = files.map(|path| ("the secret of webhooks", path));
        for (what, file) in sockets.chain(files) {
            if let Some((shown, _)) = shown.iter().find(|(_, place)| file.starts_with(place)) {
                let (file, shown) = (file.to_owned(), shown.clone());
                return Err(ShownReceiver { what, file, shown }.into());
            }
        }
        for (name, value) in told(policy) {
            if secrets.clone().any(|secret| secret.is_in(&value)) {
                return Err(ToldSecret { name }.into());
            }
        }
        Ok(())
    }
}

/// The places of the host that a jail is shown, by the names that were given, and without any symlink.
fn shown(policy: &Policy, directory: &RunDirectory) -> Vec<(PathBuf, PathBuf)> {
    let filesystem = &policy.filesystem;
    let given = filesystem.read.iter().chain(&filesystem.write);
    let given = given.map(|given| given.path.clone());
    let has_workdir = filesystem.workdir.mode != WorkdirMode::None;
    let workdir = has_workdir.then(|| directory.named().to_owned());
    let all = given.chain(filesystem.root.clone()).chain(workdir);
    all.chain(directory.layer.clone())
        .map(|path| {
            let place = paths::canonical(&path).unwrap_or_else(|_| path.clone());
            (path, place)
        })
        .collect()
}

/// The variables that a jail is given.
fn told(policy: &Policy) -> Vec<(String, Vec<u8>)> {
    let environment = &policy.environment;
    let set = environment.set.iter();
    let set = set.map(|(name, value)| (name.clone(), value.clone().into_bytes()));
    let passed = std::env::vars_os().filter_map(|(name, value)| {
        let name = name.into_string().ok()?;
        let is_passed = environment.pass.contains(&name) && !environment.set.contains_key(&name);
        is_passed.then(|| (name, value.into_encoded_bytes()))
    });
    set.chain(passed).collect()
}

/// The status of the caller's standard output or error; `None` when it is closed.
fn standard_stream(number: i32) -> Option<FileStat> {
    let stat = match number {
        1 => fstat(std::io::stdout()),
        _ => fstat(std::io::stderr()),
    };
    stat.ok().filter(|stat| !is_sink(stat))
}

/// One file, pipe or terminal: which of its terminals a process is told to be at does not show.
fn same(one: &FileStat, other: &FileStat) -> bool {
    let is_device = |stat: &FileStat| stat.st_mode & nix::libc::S_IFMT == nix::libc::S_IFCHR;
    let is_same = (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino);
    is_same || is_device(one) && is_device(other)
}
