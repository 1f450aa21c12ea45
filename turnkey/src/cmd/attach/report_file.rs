//! The file of an attachment's report: one report of a watcher that lives never takes the place of another's.

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

/// The file that the report is asked for in, or one beside it where another watcher keeps that one.
pub struct ReportFile {
    path: PathBuf,
    /// `None`: no report is asked for.
    pub file: Option<OpenOutput>,
    /// The number in the name of the file beside it.
    number: u32,
    /// The time for which another watcher's end is waited for.
    patience: Duration,
}

impl ReportFile {
    /// Makes sure that the report can be written.
    pub fn open(
        report: Option<CallerOutput>,
        arguments: &AttachArguments,
    ) -> anyhow::Result<ReportFile> {
        let path = report.as_ref().map(|report| report.path().to_owned());
        Ok(ReportFile {
            path: path.unwrap_or_default(),
            file: report
                .map(|report| opened("a report", report))
                .transpose()?,
            number: arguments.target.pid.unwrap_or_else(std::process::id),
            // A runtime waits for this one, and two containers of one id may both live on.
            patience: match arguments.before_program {
                true => Duration::ZERO,
                false => ENDING,
            },
        })
    }

    /// Writes the report that is there until the end.
    pub fn begin(&mut self, report: &Report) -> anyhow::Result<()> {
        let Some(file) = &mut self.file else {
            return Ok(());
        };
        let mut text = Vec::new();
        turnkey_report::json::write(report, &mut text)?;
        let mut taken = || {
            let taken = file.write_meanwhile(&text);
            taken.context("could not write the report that says that the group is watched")
        };
        let begun = Instant::now();
        while !taken()? {
            if begun.elapsed() >= self.patience {
                return self.begin_beside(&text);
            }
            thread::sleep(AGAIN);
        }
        Ok(())
    }

    /// The same in a file beside it.
    fn begin_beside(&mut self, text: &[u8]) -> anyhow::Result<()> {
        let file = self.file.as_ref();
        let beside = file.map(|file| file.beside(self.number)).transpose()?;
        let (mut file, path) = beside.flatten().context("a stream is nobody else's")?;
        let (kept, own) = (self.path.display(), path.display());
        let taken = file.write_meanwhile(text);
        anyhow::ensure!(
            taken.with_context(|| format!("could not write {own}"))?,
            "{kept} and {own} are reports of other watchers that live: name another file with --report"
        );
        output::line(&format!(
            "{kept} is the report of another watcher that lives: the report of this one is {own}"
        ));
        self.file = Some(file);
        Ok(())
    }
}
