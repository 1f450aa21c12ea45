//! The files that an attachment writes: none of a watcher that lives is replaced by another's.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use turnkey_report::Report;
use turnkey_supervisor::files::{CallerOutput, OpenOutput};

use crate::cli::AttachArguments;
use crate::cmd::run::opened;
use crate::output;

/// The longest time that a watcher may take to end, as that of a service which is being started anew.
const ENDING: Duration = Duration::from_secs(2);
const AGAIN: Duration = Duration::from_millis(10);

/// The content of a file, in words.
struct Content {
    name: &'static str,
    flag: &'static str,
}

const REPORT: Content = Content {
    name: "report",
    flag: "--report",
};
const EVENTS: Content = Content {
    name: "events",
    flag: "--events",
};

/// A file by the name that is asked for, or by one beside it where another watcher keeps that one.
struct WatcherFile {
    content: Content,
    path: PathBuf,
    file: OpenOutput,
    /// The number in the name of the file beside it.
    number: u32,
    /// The time for which another watcher's end is waited for.
    patience: Duration,
}

impl WatcherFile {
    /// Makes sure that it can be written.
    fn open(
        content: Content,
        output: CallerOutput,
        arguments: &AttachArguments,
    ) -> anyhow::Result<WatcherFile> {
        Ok(WatcherFile {
            path: output.path().to_owned(),
            file: opened(content.name, output)?,
            content,
            number: arguments.target.pid.unwrap_or_else(std::process::id),
            // A runtime waits for this one, and two containers of one id may both live on.
            patience: match arguments.before_program {
                true => Duration::ZERO,
                false => ENDING,
            },
        })
    }

    /// Gives it a name: `keep` answers `None` where another watcher keeps the name of the file that it is handed.
    fn keep<T>(
        &mut self,
        keep: impl Fn(&mut OpenOutput) -> io::Result<Option<T>>,
    ) -> anyhow::Result<T> {
        let begun = Instant::now();
        loop {
            let kept = keep(&mut self.file);
            let path = self.path.display();
            let failed = || format!("could not write {} to {path}", self.content.name);
            if let Some(kept) = kept.with_context(failed)? {
                return Ok(kept);
            }
            if begun.elapsed() >= self.patience {
                return self.keep_beside(keep);
            }
            thread::sleep(AGAIN);
        }
    }

    /// The same for the file beside it.
    fn keep_beside<T>(
        &mut self,
        keep: impl Fn(&mut OpenOutput) -> io::Result<Option<T>>,
    ) -> anyhow::Result<T> {
        let Content { name, flag } = self.content;
        let beside = self.file.beside(self.number)?;
        let (mut file, path) = beside.context("a stream is nobody else's")?;
        let (theirs, own) = (self.path.display(), path.display());
        let kept = keep(&mut file).with_context(|| format!("could not write {name} to {own}"))?;
        let kept = kept.with_context(|| {
            format!(
                "other watchers that live write {theirs} and {own}: name another file with {flag}"
            )
        })?;
        output::line(&format!(
            "{theirs} is written by another watcher that lives: the {name} of this one: {own}"
        ));
        self.file = file;
        Ok(kept)
    }
}

/// The file of the report, where one is asked for.
pub struct ReportFile(Option<WatcherFile>);

impl ReportFile {
    /// Makes sure that the report can be written.
    pub fn open(
        report: Option<CallerOutput>,
        arguments: &AttachArguments,
    ) -> anyhow::Result<ReportFile> {
        let open = |report| WatcherFile::open(REPORT, report, arguments);
        Ok(ReportFile(report.map(open).transpose()?))
    }

    /// Writes the report that is there until the end.
    pub fn begin(&mut self, report: &Report) -> anyhow::Result<()> {
        let Some(file) = &mut self.0 else {
            return Ok(());
        };
        let text = turnkey_report::json::page(report)?;
        file.keep(|file| Ok(file.write_meanwhile(&text)?.then_some(())))
    }

    /// The file for the report of the end.
    pub fn into_output(self) -> Option<OpenOutput> {
        self.0.map(|file| file.file)
    }
}

/// Begins the file of the events, which no other watcher replaces as long as it is open.
pub fn begin_events(events: CallerOutput, arguments: &AttachArguments) -> anyhow::Result<File> {
    let mut file = WatcherFile::open(EVENTS, events, arguments)?;
    file.keep(|file| file.start_unless_kept())
}
