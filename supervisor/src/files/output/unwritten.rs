//! A file that could not be written once the run was over.

use std::fmt;
use std::io;
use std::path::PathBuf;

use nix::errno::Errno;

/// The file, or the stream.
#[derive(Debug, thiserror::Error)]
pub struct UnwrittenOutput {
    pub(super) what: &'static str,
    /// The path of a file.
    pub(super) place: Option<PathBuf>,
    pub(super) source: io::Error,
}

impl fmt::Display for UnwrittenOutput {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "could not write {}", self.what)?;
        match &self.place {
            Some(place) => write!(formatter, " to {}", place.display()),
            None => Ok(()),
        }
    }
}

impl UnwrittenOutput {
    /// The way to have it the next time.
    pub fn fix(&self) -> String {
        let number = self.source.raw_os_error().map(Errno::from_raw);
        let fix = match (number, &self.place) {
            (Some(Errno::ENOENT), Some(_)) => {
                "its directory was removed during the run: name a file in one that stays until the end"
            }
            (Some(Errno::ENOSPC | Errno::EDQUOT), Some(_)) => {
                "make room there, or name a file on another file system"
            }
            (_, Some(_)) => "name a file in another directory",
            (_, None) => "name a file instead",
        };
        format!("{fix}, and run again: this one's is lost")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(place: Option<&str>, errno: Errno) -> UnwrittenOutput {
        UnwrittenOutput {
            what: "the report",
            place: place.map(PathBuf::from),
            source: errno.into(),
        }
    }

    #[test]
    fn what_could_not_be_written_is_named_with_the_way_to_have_it() {
        let removed = of(Some("/srv/out/report.json"), Errno::ENOENT);
        assert_eq!(
            removed.to_string(),
            "could not write the report to /srv/out/report.json"
        );
        assert!(removed.fix().contains("was removed during the run"));
        let full = of(Some("/srv/report.json"), Errno::ENOSPC);
        assert!(full.fix().contains("make room there"), "{}", full.fix());
        let stream = of(None, Errno::EPIPE);
        assert_eq!(stream.to_string(), "could not write the report");
        assert!(stream.fix().starts_with("name a file instead"));
    }
}
