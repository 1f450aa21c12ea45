//! The program's process before it is the program: proves every layer, waits, executes.
//!
//! Runs as: the first child of the jail's init, under every layer. What it sees is what the
//! program will see.

use std::ffi::{CStr, CString};
use std::os::fd::BorrowedFd;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::Mode;

use crate::process::terminal;
use crate::process::wire::{
    ChildFact, ChildSender, ChildStep, FactPacket, ProcText, TEXT, errno_of, wait_for_a_byte,
};
use crate::sys;

/// The program, ready for execve(2).
#[derive(Debug)]
pub struct ExecSpec {
    /// The paths at which it may be; the first that can be executed is it.
    pub candidates: Vec<CString>,
    /// Pointers into strings that live beside them, ended by a null.
    pub arguments: Vec<*const libc::c_char>,
    /// The same.
    pub environment: Vec<*const libc::c_char>,
    /// The working directory.
    pub directory: CString,
    /// Parts of /proc that must be covered, or absent.
    pub masks: Vec<CString>,
    /// True when the standard streams are a terminal, which becomes that of the program's session.
    pub has_terminal: bool,
    /// True when the program will be followed from outside, because its clock is not the host's.
    pub is_followed: bool,
    /// True when the root takes writes, and none is tried.
    pub has_writable_root: bool,
}

/// Proves, waits for the release, executes. Never returns.
pub fn run(exec: &ExecSpec, control: BorrowedFd<'_>) -> ! {
    let sender = ChildSender(control);
    let (step, errno) = match prepare(exec, control, sender) {
        Err(failure) => failure,
        Ok(program) => {
            let errno = sys::execute(program, &exec.arguments, &exec.environment);
            sender.exec_failed(errno);
            sys::exit(127)
        }
    };
    sender.failed(step, 0, errno);
    sys::exit(1)
}

fn prepare<'a>(
    exec: &'a ExecSpec,
    control: BorrowedFd<'_>,
    sender: ChildSender<'_>,
) -> Result<&'a CStr, (ChildStep, Errno)> {
    let at = |step| move |errno| (step, errno);
    nix::unistd::setsid().map_err(at(ChildStep::Session))?;
    if exec.has_terminal {
        terminal::take_control().map_err(at(ChildStep::Session))?;
    }
    // The init has its children's end blocked; the program has nothing blocked.
    sys::block_only(&[]).map_err(at(ChildStep::Session))?;
    let mut facts = prove(exec, sender).map_err(at(ChildStep::Proof))?;
    nix::unistd::chdir(exec.directory.as_c_str()).map_err(at(ChildStep::WorkingDirectory))?;
    let program = find(exec);
    facts
        .add(
            ChildFact::Program,
            u64::try_from(program).unwrap_or(u64::MAX),
        )
        .and_then(|()| sender.facts(&facts))
        .map_err(at(ChildStep::Proof))?;
    if exec.is_followed {
        // Whoever made the jail without privileges may follow no process that hides its memory. Nobody else is inside yet, and what
        // comes next, execve(2), would show it anyway.
        sys::prctl(libc::PR_SET_DUMPABLE, 1).map_err(at(ChildStep::Proof))?;
    }
    sender.ready().map_err(at(ChildStep::Proof))?;
    wait_for_a_byte(control).map_err(at(ChildStep::Release))?;
    exec.candidates
        .get(program)
        .map(AsRef::as_ref)
        .ok_or((ChildStep::Release, Errno::ENOENT))
}

/// Hands out what is seen from here, and answers what is to be told together. What it must look like is the
/// supervisor's business.
fn prove(exec: &ExecSpec, sender: ChildSender<'_>) -> Result<FactPacket, Errno> {
    let mut facts = FactPacket::NONE;
    for (fact, path) in ChildFact::NAMESPACES {
        let namespace = nix::sys::stat::stat(path)?;
        facts.add(fact, namespace.st_ino)?;
    }
    for (text, path) in ProcText::ALL {
        hand_out(sender, text, path)?;
    }
    facts.add(ChildFact::UnknownSyscall, errno_of(sys::unknown_syscall()))?;
    facts.add(ChildFact::Unshare, errno_of(sys::unshare_user()))?;
    // By an open, which every profile allows: the smallest can neither make nor remove anything.
    let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_CLOEXEC;
    if !exec.has_writable_root {
        let made = nix::fcntl::open(c"/.turnkey-written", flags, Mode::S_IRUSR);
        facts.add(ChildFact::WriteToRoot, errno_of(made.map(drop)))?;
    }
    prove_masks(&exec.masks, &mut facts)?;
    Ok(facts)
}

/// Proves the masks: what is covered lies on another file system than /proc itself.
fn prove_masks(masks: &[CString], facts: &mut FactPacket) -> Result<(), Errno> {
    let procfs = nix::sys::stat::stat(c"/proc")?.st_dev;
    let (mut masked, mut unmasked) = (0, 0);
    for (number, path) in (1..).zip(masks) {
        match nix::sys::stat::lstat(path.as_c_str()) {
            Err(Errno::ENOENT) => {}
            Ok(stat) if stat.st_dev != procfs => masked += 1,
            _ => unmasked = number,
        }
    }
    facts.add(ChildFact::Masked, masked)?;
    facts.add(ChildFact::Unmasked, unmasked)
}

fn hand_out(sender: ChildSender<'_>, text: ProcText, path: &CStr) -> Result<(), Errno> {
    let file = nix::fcntl::open(path, OFlag::O_RDONLY | OFlag::O_CLOEXEC, Mode::empty())?;
    let mut piece = [0; TEXT];
    let mut filled = 0;
    loop {
        // A file of the kernel's hands out a page at a time.
        let length = nix::unistd::read(&file, &mut piece[filled..])?;
        filled += length;
        let is_full = filled == piece.len();
        if filled > 0 && (is_full || length == 0) {
            sender.text(text, &piece[..filled])?;
            filled = 0;
        }
        if length == 0 {
            return Ok(());
        }
    }
}

/// The first candidate that can be executed; or the one past the last; or, when there is one that
/// cannot be executed, one more than that.
fn find(exec: &ExecSpec) -> usize {
    use nix::unistd::{AccessFlags, access};
    let allows = |flags| move |path: &CString| access(path.as_c_str(), flags).is_ok();
    let none = exec.candidates.len();
    if let Some(found) = exec.candidates.iter().position(allows(AccessFlags::X_OK)) {
        return found;
    }
    if exec.candidates.iter().any(allows(AccessFlags::F_OK)) {
        none + 1
    } else {
        none
    }
}
