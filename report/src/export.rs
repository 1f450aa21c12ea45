//! The result of `--export`, for the report and for people.

use std::io::{self, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};
use turnkey_facts::export::{ClearedBits, Exported, SPECIAL_BITS, Scope, Skipped as LeftBehind};

use super::text::{escape, quote};
use super::units::{counted, size};

/// The most files left behind that are named on the terminal.
const NAMED: usize = 5;

/// The files of the workspace that were brought out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct Export {
    /// The directory that the files were written to.
    pub directory: String,
    /// `everything` or `changes`.
    pub scope: Extent,
    /// Files written.
    pub files: u64,
    /// Bytes in them, without the holes of sparse files.
    pub bytes: u64,
    /// Symlinks written, as they are.
    #[serde(default)]
    pub symlinks: u64,
    /// The symlinks among them that lead out of the directory, in the order in which they were met.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub leading_out: Vec<LeadingOut>,
    /// The files and directories that had bits of set-user-ID, set-group-ID or the sticky bit, which are never brought out, in the
    /// order in which they were written.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub without_bits: Vec<WithoutBits>,
    /// True when no file, directory or symlink stayed behind; pipes, sockets and devices cannot
    /// be asked for.
    pub complete: bool,
    /// The reason why there is no export at all; absent otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The entries that stayed behind, with reasons, in the order in which they were met.
    pub skipped: Vec<Skipped>,
    /// Number of entries that stayed behind beyond the listed ones.
    pub omitted: u64,
}

/// The part of the workspace that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Extent {
    /// Every file.
    Everything,
    /// The files that the run added or modified.
    Changes,
}

/// A symlink that leads out of the export.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct LeadingOut {
    /// Relative to the workspace.
    pub path: String,
    /// The path that it leads to.
    pub to: String,
}

/// A file or directory that came out without bits of its mode.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct WithoutBits {
    /// Relative to the workspace.
    pub path: String,
    /// The ones of `set-user-ID`, `set-group-ID` and `sticky` that it had.
    pub bits: Vec<String>,
}

/// An entry of the workspace that stayed behind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct Skipped {
    /// Relative to the workspace.
    pub path: String,
    /// The reason, as the end of a sentence that begins with "it".
    pub reason: String,
}

impl Export {
    /// From what came of it, or why nothing did.
    pub fn new(directory: &Path, scope: Scope, outcome: Result<Exported, String>) -> Export {
        let (exported, error) = match outcome {
            Ok(exported) => (exported, None),
            Err(error) => (Exported::default(), Some(error)),
        };
        Export {
            directory: escape(std::os::unix::ffi::OsStrExt::as_bytes(
                directory.as_os_str(),
            )),
            scope: match scope {
                Scope::Everything => Extent::Everything,
                Scope::Changes => Extent::Changes,
            },
            files: exported.files,
            bytes: exported.bytes,
            symlinks: exported.symlinks,
            leading_out: exported.leading_out.iter().map(leading_out).collect(),
            without_bits: exported.without_bits.iter().map(without_bits).collect(),
            complete: error.is_none() && !exported.lost,
            error: error.map(|error| escape(error.as_bytes())),
            skipped: exported.skipped.iter().map(skipped).collect(),
            omitted: exported.omitted,
        }
    }

    /// One line on what was brought out, one on what was not. An export with a gap is told even to
    /// those who want to hear nothing.
    pub fn tell(&self, quiet: bool, out: &mut impl Write) -> io::Result<()> {
        let directory = quote(&self.directory);
        if let Some(error) = &self.error {
            return writeln!(out, "turnkey: nothing was exported to {directory}: {error}");
        }
        if !quiet || !self.complete {
            let files = counted(self.files, "file", "files");
            let bytes = size(self.bytes);
            writeln!(out, "turnkey: exported {files}, {bytes}, to {directory}")?;
        }
        if !quiet {
            self.tell_of_what_leads_out(out)?;
        }
        self.tell_of_lost_bits(out)?;
        self.tell_of_what_is_missing(out)
    }

    fn tell_of_lost_bits(&self, out: &mut impl Write) -> io::Result<()> {
        let words = |one: &WithoutBits| format!("{} ({})", quote(&one.path), one.bits.join(", "));
        match first_few(&self.without_bits, words) {
            Some(few) => writeln!(out, "turnkey: exported without bits of their mode: {few}"),
            None => Ok(()),
        }
    }

    fn tell_of_what_leads_out(&self, out: &mut impl Write) -> io::Result<()> {
        let words = |link: &LeadingOut| format!("{} -> {}", quote(&link.path), quote(&link.to));
        match first_few(&self.leading_out, words) {
            Some(few) => writeln!(out, "turnkey: symlinks that lead out of it: {few}"),
            None => Ok(()),
        }
    }

    fn tell_of_what_is_missing(&self, out: &mut impl Write) -> io::Result<()> {
        if self.skipped.is_empty() {
            return Ok(());
        }
        let what = if self.complete {
            "left out"
        } else {
            "NOT COMPLETE"
        };
        let named = self.skipped.iter().take(NAMED);
        let named: Vec<String> = named
            .map(|skipped| format!("{} {}", quote(&skipped.path), skipped.reason))
            .collect();
        let listed = u64::try_from(self.skipped.len()).unwrap_or(u64::MAX);
        let more = listed.saturating_sub(named.len() as u64) + self.omitted;
        let more = if more > 0 {
            format!("; and {more} more, see the report")
        } else {
            String::new()
        };
        writeln!(out, "turnkey: {what}: {}{more}", named.join("; "))
    }
}

/// The first of a list in words, with the number of the others; `None` of an empty one.
fn first_few<T>(all: &[T], words: impl Fn(&T) -> String) -> Option<String> {
    let named: Vec<String> = all.iter().take(NAMED).map(words).collect();
    let more = match all.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!("; and {more} more, see the report"),
    };
    (!named.is_empty()).then(|| named.join("; ") + &more)
}

fn without_bits(cleared: &ClearedBits) -> WithoutBits {
    let had = SPECIAL_BITS
        .iter()
        .filter(|(bit, _)| cleared.bits & bit != 0);
    WithoutBits {
        path: escape(&cleared.path),
        bits: had.map(|(_, name)| (*name).to_owned()).collect(),
    }
}

fn leading_out(link: &turnkey_facts::export::LeadingOut) -> LeadingOut {
    LeadingOut {
        path: escape(&link.path),
        to: escape(&link.text),
    }
}

fn skipped(left: &LeftBehind) -> Skipped {
    Skipped {
        path: escape(&left.path),
        reason: left.reason.in_words(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use turnkey_facts::export::Reason;

    fn told(exported: Exported, quiet: bool) -> String {
        let mut out = Vec::new();
        let export = Export::new(Path::new("out"), Scope::Changes, Ok(exported));
        export.tell(quiet, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn left(path: &[u8], reason: Reason) -> Exported {
        Exported {
            files: 2,
            bytes: 2048,
            skipped: vec![LeftBehind {
                path: path.to_vec(),
                reason,
            }],
            lost: reason == Reason::Size,
            ..Exported::default()
        }
    }

    #[test]
    fn a_gap_is_told_even_to_the_quiet() {
        let pipe = left(b"pipe", Reason::Pipe);
        for quiet in [true, false] {
            assert!(told(pipe.clone(), quiet).contains("left out: pipe is a pipe"));
        }
        assert_eq!(told(Exported::default(), true), "");
        assert!(told(left(b"big", Reason::Size), true).contains("NOT COMPLETE: big would pass"));
    }

    #[test]
    fn a_hostile_name_steers_nothing() {
        let text = told(left(b"a\x1b[2J\nturnkey: clean", Reason::Name), false);
        assert!(!text.contains('\x1b'), "{text:?}");
        assert_eq!(text.lines().count(), 2, "{text:?}");
    }

    #[test]
    fn what_failed_as_a_whole_is_not_complete() {
        let export = Export::new(Path::new("out"), Scope::Everything, Err("full".into()));
        assert!(!export.complete);
        let mut out = Vec::new();
        export.tell(true, &mut out).unwrap();
        assert!(!out.is_empty());
    }
}
