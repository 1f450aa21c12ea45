//! Signals, and waiting for children. Nothing here is unsafe by itself: the one call that is
//! stands in the parent module.

use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

use nix::errno::Errno;

use super::{Result, Word, call, close_from, exit, fd, lend, word};

/// pidfd_send_signal(2).
pub fn signal(pidfd: BorrowedFd<'_>, number: i32) -> Result<()> {
    call(
        libc::SYS_pidfd_send_signal,
        [fd(pidfd), Word::from(number), 0, 0, 0, 0],
    )
    .map(drop)
}

/// kill(2) of a process, or of the group `-process`.
pub fn kill(process: libc::pid_t, number: i32) -> Result<()> {
    let arguments = [Word::from(process), Word::from(number), 0, 0, 0, 0];
    call(libc::SYS_kill, arguments).map(drop)
}

/// The signal that this thread gets when its parent ends, or 0: prctl(2) `PR_GET_PDEATHSIG`.
pub fn death_signal() -> Result<u64> {
    let mut number = 0_i32;
    let option = Word::from(libc::PR_GET_PDEATHSIG);
    let place = word((&raw mut number) as usize);
    call(libc::SYS_prctl, [option, place, 0, 0, 0, 0])?;
    Ok(u64::from(number.unsigned_abs()))
}

/// Blocks these signals and no others, for this thread: rt_sigprocmask(2).
pub fn block_only(signals: &[i32]) -> Result<()> {
    let set: u64 = signals.iter().map(|number| 1 << (number - 1)).sum();
    let set = word((&raw const set) as usize);
    let how = Word::from(libc::SIG_SETMASK);
    call(libc::SYS_rt_sigprocmask, [how, set, 0, 8, 0, 0]).map(drop)
}

/// Gives every signal its default effect: what the caller ignored or caught, the jail must not.
pub fn default_signals() -> Result<()> {
    // `struct kernel_sigaction`: handler SIG_DFL, no flags, no restorer, empty mask.
    let default: [u64; 4] = [0; 4];
    for number in 1..=64 {
        // These two have no other effect than their default, and the kernel answers EINVAL.
        if number == libc::SIGKILL || number == libc::SIGSTOP {
            continue;
        }
        let action = word(default.as_ptr() as usize);
        call(
            libc::SYS_rt_sigaction,
            [Word::from(number), action, 0, 8, 0, 0],
        )?;
    }
    Ok(())
}

/// In a vfork helper: gives up all descriptors but `kept`, which is none of the first three, and `waiting`, the reading end of a pipe;
/// waits until the other end is closed in every process.
pub fn wait_for_the_end(waiting: RawFd, kept: Option<RawFd>) {
    let stdin = lend(0);
    // A caller without standard streams may have got the number 0 for it.
    if waiting != stdin.as_raw_fd() && rustix::stdio::dup2_stdin(lend(waiting)).is_err() {
        exit(1);
    }
    let moved = kept.map(|kept| rustix::stdio::dup2_stdout(lend(kept)));
    let _ = close_from(if matches!(moved, Some(Ok(()))) { 2 } else { 1 });
    let mut byte = [0];
    while rustix::io::read(stdin, &mut byte) == Err(rustix::io::Errno::INTR) {}
}

/// A child that has ended.
#[derive(Clone, Copy, Debug)]
pub struct EndedChild {
    /// The process.
    pub pid: libc::pid_t,
    /// As wait(2) has it.
    pub status: i32,
    /// The use of the child and its own ended children.
    pub used: ChildUsage,
}

/// Some fields of getrusage(2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChildUsage {
    /// Blocks of 512 bytes read from devices.
    pub blocks_read: u64,
    /// Blocks of 512 bytes written to devices.
    pub blocks_written: u64,
    /// Times a task gave up its CPU or lost it.
    pub context_switches: u64,
}

/// wait4(2): waits for the child `pid` to end.
pub fn wait(pid: libc::pid_t) -> Result<EndedChild> {
    // Only a wait that need not wait answers with nobody.
    wait_with(pid, 0)?.ok_or(Errno::ECHILD)
}

/// wait4(2): takes note of any child that has ended, if one has.
pub fn ended() -> Result<Option<EndedChild>> {
    wait_with(-1, libc::WNOHANG)
}

fn wait_with(pid: libc::pid_t, options: i32) -> Result<Option<EndedChild>> {
    let mut status = 0_i32;
    // `struct rusage` as the kernel has it: two times of two words, and fourteen words.
    let mut usage = [0_i64; 18];
    let arguments = [
        Word::from(pid),
        word((&raw mut status) as usize),
        Word::from(options),
        word(usage.as_mut_ptr() as usize),
        0,
        0,
    ];
    loop {
        match call(libc::SYS_wait4, arguments) {
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno),
            Ok(0) => return Ok(None),
            Ok(pid) => {
                let pid = libc::pid_t::try_from(pid).unwrap_or(-1);
                let used = ChildUsage::read(&usage);
                return Ok(Some(EndedChild { pid, status, used }));
            }
        }
    }
}

impl ChildUsage {
    fn read(usage: &[i64; 18]) -> ChildUsage {
        let field = |index: usize| u64::try_from(usage[index]).unwrap_or(0);
        ChildUsage {
            blocks_read: field(11),
            blocks_written: field(12),
            context_switches: field(16) + field(17),
        }
    }
}
