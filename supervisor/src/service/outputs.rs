//! Files of a caller's that its run writes to.

use std::fs::File;
use std::io::{self, Write};
use std::time::Duration;

use turnkey_jailer::ServedUser;

use crate::files::write_within;

/// A file that is written to by the rights of its user, so that room which is kept for root stays free.
#[derive(Debug)]
pub struct UserFile {
    file: File,
    user: Option<ServedUser>,
    /// The longest time that a reader may take; `None`: as long as it likes.
    patience: Option<Duration>,
}

impl UserFile {
    /// A file that is written to for `user`; without one, for this process itself.
    pub fn new(file: File, user: Option<ServedUser>) -> UserFile {
        UserFile {
            file,
            user,
            patience: None,
        }
    }

    /// The same, where a stream that nobody has read for so long is one that fails.
    pub fn within(self, patience: Duration) -> UserFile {
        UserFile {
            patience: Some(patience),
            ..self
        }
    }
}

impl Write for UserFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.user {
            None => match self.patience {
                Some(patience) => {
                    let written = write_within(&mut self.file, bytes, patience);
                    if written.is_err() {
                        // Once is enough.
                        self.patience = Some(Duration::ZERO);
                    }
                    written
                }
                None => self.file.write(bytes),
            },
            Some(user) => user.with_rights(|| self.file.write(bytes))?,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
