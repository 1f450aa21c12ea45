//! Files of a caller's that its run writes to.

use std::fs::File;
use std::io::{self, Write};

use turnkey_jailer::ServedUser;

/// A file that is written to by the rights of its user, so that room which is kept for root stays free.
#[derive(Debug)]
pub struct UserFile {
    file: File,
    user: Option<ServedUser>,
}

impl UserFile {
    /// A file that is written to for `user`; without one, for this process itself.
    pub fn new(file: File, user: Option<ServedUser>) -> UserFile {
        UserFile { file, user }
    }
}

impl Write for UserFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.user {
            None => self.file.write(bytes),
            Some(user) => user.with_rights(|| self.file.write(bytes))?,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
