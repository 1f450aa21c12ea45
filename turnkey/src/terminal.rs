//! Whether the program of a run gets a terminal, and by which of this process's streams.

use std::io::{self, IsTerminal, stderr, stdin, stdout};
use std::os::fd::{AsFd, BorrowedFd};

use turnkey_supervisor::Terminal;

use crate::cli::TerminalArguments;

/// The caller's ends of the program's terminal, where it is to have one. With standard output taken by a report it shows on
/// standard error, and only where that was asked for.
pub fn wanted(arguments: TerminalArguments, stdout_is_taken: bool) -> io::Result<Option<Terminal>> {
    let by_itself = || !stdout_is_taken && is_interactive();
    if !arguments.chosen().unwrap_or_else(by_itself) {
        return Ok(None);
    }
    match stdout_is_taken {
        true => Terminal::with_output(stderr()),
        false => Terminal::with_output(stdout()),
    }
    .map(Some)
}

/// True when somebody sits at all three streams, and this process is not a job in the background, which must leave the
/// terminal alone.
pub fn is_interactive() -> bool {
    let all = stdin().is_terminal() && stdout().is_terminal() && stderr().is_terminal();
    all && is_ours(stdin().as_fd())
}

/// True when no other job has this terminal at the moment.
pub fn is_ours(terminal: BorrowedFd<'_>) -> bool {
    rustix::termios::tcgetpgrp(terminal)
        .map_or(true, |foreground| foreground == rustix::process::getpgrp())
}
