//! The caller's side: writes the files, in its own process and by its own rights.

use std::io;
use std::thread::JoinHandle;

use nix::sys::signal::{SigSet, SigmaskHow};
use turnkey_facts::export::Exported;
use turnkey_jailer::export::{DirectorySink, ExportDestination, ExportSink, ExportedPlaces};

use super::ExportLine;
use super::record::{ExportAnswer, ExportRecord};
use crate::advice;

/// A thread that writes what comes, to the end of the connection. It takes no signal.
#[derive(Debug)]
pub struct ExportReceiver(JoinHandle<bool>);

impl ExportReceiver {
    /// Starts one.
    ///
    /// # Errors
    /// When there is no thread for it.
    pub fn start(line: ExportLine, destination: ExportDestination) -> io::Result<ExportReceiver> {
        let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
        let thread = std::thread::Builder::new().spawn(move || {
            // Without an answer the other side knows that nobody is there.
            write(&line, &destination).unwrap_or(false)
        });
        before.thread_set_mask()?;
        thread.map(ExportReceiver)
    }

    /// Waits for its end: that of the connection, of which this process must not have the other end any more. True when there was an
    /// export, and all of it was written.
    pub fn finish(self) -> bool {
        self.0.join().unwrap_or(false)
    }
}

fn answer(line: &ExportLine, answer: &ExportAnswer) -> io::Result<()> {
    line.send(&answer.encode())
}

fn next(line: &ExportLine) -> Option<ExportRecord> {
    ExportRecord::decode(&line.receive().ok()??)
}

/// Writes an export, once it begins. True when all of it was written.
pub(super) fn write(line: &ExportLine, destination: &ExportDestination) -> io::Result<bool> {
    let Some(ExportRecord::Open) = next(line) else {
        return Ok(false);
    };
    let filled = destination.fill(|to, places| fill(line, &mut DirectorySink::new(to), places));
    let is_whole = filled.as_ref().is_ok_and(|exported| !exported.lost);
    answer(
        line,
        &match filled {
            Ok(_) => ExportAnswer::Done,
            Err(error) => ExportAnswer::Refused(advice::explained_in_one_line(&error.into())),
        },
    )?;
    Ok(is_whole)
}

/// Does what is asked for up to the end of the export. One that breaks off has lost something.
fn fill(line: &ExportLine, sink: &mut DirectorySink<'_>, places: ExportedPlaces) -> Exported {
    let of = |lost| Exported {
        lost,
        ..Exported::default()
    };
    let mut told = ExportAnswer::Opened(places);
    loop {
        if answer(line, &told).is_err() {
            return of(true);
        }
        told = match next(line) {
            Some(ExportRecord::Close(has_lost)) => return of(has_lost),
            Some(record) => done(sink, record),
            None => return of(true),
        };
    }
}

fn done(sink: &mut DirectorySink<'_>, record: ExportRecord) -> ExportAnswer {
    let done = match record {
        ExportRecord::Enter(name) => sink.enter(&name),
        ExportRecord::Leave(name, stamp, stays_empty) => sink.leave(&name, stamp, stays_empty),
        ExportRecord::Begin(name) => sink.begin(&name),
        ExportRecord::Data(at, data) => sink.write(at, &data),
        ExportRecord::End(end) => sink.end(end),
        ExportRecord::Symlink(name, text, changed) => sink.symlink(&name, &text, changed),
        ExportRecord::Remove(name) => {
            sink.remove(&name);
            Ok(())
        }
        ExportRecord::Link(original, name) => match sink.link(original, &name) {
            Ok(false) => return ExportAnswer::Unknown,
            linked => linked.map(drop),
        },
        // It has begun, and this is not its end.
        ExportRecord::Open | ExportRecord::Close(_) => Err(nix::errno::Errno::EPROTO),
    };
    match done {
        Ok(()) => ExportAnswer::Done,
        Err(errno) => ExportAnswer::Failed(errno),
    }
}
