//! Files that turnkey reads and writes for its caller: by no way that somebody else can turn, and whole or not at all.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::libc::PIPE_BUF;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

mod input;
mod output;
mod outputs;
mod text;

pub use input::{open, read, read_below};
pub use output::{AppendedOutput, CallerOutput, OpenOutput, UnwrittenOutput, note_absent};
pub use outputs::RunOutputs;
pub use text::{read as read_text, text};

/// Writes to a stream as much as does not block, once there is room: `PIPE_BUF` of pipe(7).
///
/// # Errors
/// `TimedOut` when there is no room for so long, and as write(2).
pub fn write_within(
    file: &mut (impl Write + AsFd),
    bytes: &[u8],
    patience: Duration,
) -> io::Result<usize> {
    let until = Instant::now() + patience;
    loop {
        let rest = until.saturating_duration_since(Instant::now());
        let rest = PollTimeout::try_from(rest).unwrap_or(PollTimeout::MAX);
        match poll(&mut [PollFd::new(file.as_fd(), PollFlags::POLLOUT)], rest) {
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
            Ok(0) => {
                let waited = format!("nobody has read for {} s", patience.as_secs());
                return Err(io::Error::new(io::ErrorKind::TimedOut, waited));
            }
            Ok(_) => return file.write(&bytes[..bytes.len().min(PIPE_BUF)]),
        }
    }
}
