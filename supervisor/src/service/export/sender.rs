//! The side of who makes the run: reads its files and sends them.

use std::ffi::{CStr, OsStr};
use std::fs::File;
use std::os::unix::fs::FileExt;

use nix::errno::Errno;
use turnkey_facts::export::{ExportBounds, Exported, Scope};
use turnkey_jailer::export::{ExportMode, ExportSink, FileEnd, FileId, FileStamp};
use turnkey_jailer::{JailExit, ServedUser};

use super::ExportLine;
use super::record::{ExportAnswer, ExportRecord, MOST_DATA};
use crate::advice;

const LOST: &str = "its caller took no more of it";

/// Has the caller write what a run has left; the caller's own files are read by the rights of `reader`.
///
/// # Errors
/// The reason why nothing is exported, in a line that shows as it is.
pub fn export_to_caller(
    line: &ExportLine,
    exit: &JailExit,
    (mode, scope, bounds): (ExportMode, Scope, ExportBounds),
    reader: Option<ServedUser>,
) -> Result<Exported, String> {
    let mut sink = CallerSink {
        line,
        is_lost: false,
    };
    let places = match sink.ask(&ExportRecord::Open) {
        ExportAnswer::Opened(places) => places,
        answer => return Err(refused(answer)),
    };
    let exported = exit.export_to((&mut sink, places), (scope, bounds), reader);
    let exported =
        exported.map_err(|error| advice::explained_in_one_line(&anyhow::Error::from(error)))?;
    match sink.ask(&ExportRecord::Close(exported.lost)) {
        ExportAnswer::Done if exported.lost && mode != ExportMode::New => {
            Ok(exported.put_nowhere())
        }
        ExportAnswer::Done => Ok(exported),
        answer => Err(refused(answer)),
    }
}

/// The words of a caller are shown as text, whatever they are.
fn refused(answer: ExportAnswer) -> String {
    match answer {
        ExportAnswer::Refused(text) => turnkey_report::visible(&text),
        _ => LOST.to_owned(),
    }
}

/// The caller's process, as the place that is written to.
struct CallerSink<'l> {
    line: &'l ExportLine,
    /// True once the connection was of no use: whoever breaks it off is asked nothing more.
    is_lost: bool,
}

impl CallerSink<'_> {
    fn ask(&mut self, record: &ExportRecord) -> ExportAnswer {
        let lost = ExportAnswer::Failed(Errno::EPIPE);
        if self.is_lost {
            return lost;
        }
        let sent = self.line.send(&record.encode());
        let came = sent.and_then(|()| self.line.receive()).ok().flatten();
        let answer = came.and_then(|bytes| ExportAnswer::decode(&bytes));
        self.is_lost = answer.is_none();
        answer.unwrap_or(lost)
    }

    fn do_it(&mut self, record: &ExportRecord) -> Result<(), Errno> {
        match self.ask(record) {
            ExportAnswer::Done => Ok(()),
            ExportAnswer::Failed(errno) => Err(errno),
            _ => Err(self.lost()),
        }
    }

    /// The error of an answer to something else.
    fn lost(&mut self) -> Errno {
        self.is_lost = true;
        Errno::EPROTO
    }
}

impl ExportSink for CallerSink<'_> {
    fn enter(&mut self, name: &CStr) -> Result<(), Errno> {
        self.do_it(&ExportRecord::Enter(name.into()))
    }

    fn leave(&mut self, name: &CStr, stamp: FileStamp, stays_empty: bool) -> Result<(), Errno> {
        self.do_it(&ExportRecord::Leave(name.into(), stamp, stays_empty))
    }

    fn begin(&mut self, name: &CStr) -> Result<(), Errno> {
        self.do_it(&ExportRecord::Begin(name.into()))
    }

    fn copy(&mut self, source: &mut File, at: u64, length: u64) -> Result<u64, Errno> {
        let mut copied = 0;
        while copied < length {
            let left = usize::try_from(length - copied).unwrap_or(MOST_DATA);
            let mut data = vec![0; left.min(MOST_DATA)];
            let read = source.read_at(&mut data, at + copied);
            let read =
                read.map_err(|error| error.raw_os_error().map_or(Errno::EIO, Errno::from_raw))?;
            // Shorter than it was: its owner cuts it.
            if read == 0 {
                break;
            }
            data.truncate(read);
            self.do_it(&ExportRecord::Data(at + copied, data))?;
            copied += read as u64;
        }
        Ok(copied)
    }

    fn end(&mut self, end: FileEnd) -> Result<(), Errno> {
        self.do_it(&ExportRecord::End(end))
    }

    fn remove(&mut self, name: &CStr) {
        let _ = self.do_it(&ExportRecord::Remove(name.into()));
    }

    fn link(&mut self, original: FileId, name: &CStr) -> Result<bool, Errno> {
        match self.ask(&ExportRecord::Link(original, name.into())) {
            ExportAnswer::Done => Ok(true),
            ExportAnswer::Unknown => Ok(false),
            ExportAnswer::Failed(errno) => Err(errno),
            _ => Err(self.lost()),
        }
    }

    fn symlink(&mut self, name: &CStr, text: &OsStr, changed: (i64, i64)) -> Result<(), Errno> {
        self.do_it(&ExportRecord::Symlink(name.into(), text.into(), changed))
    }
}
