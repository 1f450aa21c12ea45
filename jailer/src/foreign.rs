//! Sockets in which others queue descriptors of theirs: closed by the end of a process, and by nobody who has something else to do.
//!
//! With the last descriptor of a Unix socket go the descriptors that wait in its queue, and whoever closes it closes those. The last close
//! of a TCP socket that lingers, socket(7) `SO_LINGER`, with data that nobody reads, waits as long as its maker has said, in a call that
//! nothing but a signal ends. A process that ends does not wait: `PF_EXITING`, `inet_release()` in the kernel. So each such socket is kept
//! here when it is dropped, until a [process of its own](close_dropped) holds it, too, and ends as soon as this one has closed its own
//! descriptor. A program that is started meanwhile has copies until execve(2) closes them, and waits like anybody if they are the last:
//! [`spawn`] is for those who have such sockets.

use std::io;
use std::ops::Deref;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::process::{Signal, set_parent_process_death_signal};
use rustix::thread::{Timespec, futex};

use crate::sys::{self, VforkHelper};

/// Sockets that are kept at most before a process is made for them.
const KEPT: usize = 64;
/// Processes at a time, one for whatever was dropped. As many are there only if the kernel holds them in a close(2) that waits even then,
/// as that of a file whose changes a file system of somebody's does not take: fuse(4) with `FUSE_WRITEBACK_CACHE`.
const PROCESSES: usize = 64;
/// Sockets for which one more is made all the same: who goes on with such files has this process hold so many and no more.
const CROWD: usize = 1024;
/// Milliseconds in which one ends, so that it leaves nothing to be taken away later.
const END: u8 = 5;
/// The time after which a process ends, whatever its maker does.
const PATIENCE: Timespec = Timespec {
    tv_sec: 60,
    tv_nsec: 0,
};

static DROPPED: Mutex<DroppedSockets> = Mutex::new(DroppedSockets {
    sockets: Vec::new(),
    closers: Vec::new(),
});

struct DroppedSockets {
    sockets: Vec<Arc<dyn Send + Sync>>,
    closers: Vec<VforkHelper<Arc<AtomicU32>>>,
}

/// A socket whose other side is anybody. Dropped, it is closed by [`close_dropped`], or by the end of this process.
#[derive(Debug)]
pub struct ForeignSocket<T: Send + Sync + 'static>(Arc<T>);

impl<T: Send + Sync + 'static> From<T> for ForeignSocket<T> {
    fn from(socket: T) -> Self {
        ForeignSocket(Arc::new(socket))
    }
}

impl<T: Send + Sync + 'static> Deref for ForeignSocket<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: AsFd + Send + Sync + 'static> AsFd for ForeignSocket<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl<T: Send + Sync + 'static> Drop for ForeignSocket<T> {
    fn drop(&mut self) {
        let mut dropped = DROPPED.lock().unwrap_or_else(PoisonError::into_inner);
        if dropped.sockets.len() >= KEPT {
            dropped.close();
        }
        let socket = Arc::clone(&self.0);
        dropped.sockets.push(socket);
    }
}

/// Gives up descriptors of somebody else's that came here.
pub fn give_up(came: Vec<OwnedFd>) {
    came.into_iter().map(ForeignSocket::from).for_each(drop);
}

/// Closes the sockets that were dropped, and waits for none. A dropped one is still open when its owner has just dropped it, so call it
/// later: at the end of a step of a loop.
pub fn close_dropped() {
    let mut dropped = DROPPED.lock().unwrap_or_else(PoisonError::into_inner);
    dropped.close();
}

/// Has everything closed that was dropped, however many processes are held: what the end of this one would close, it would wait for.
pub fn leave() {
    let mut dropped = DROPPED.lock().unwrap_or_else(PoisonError::into_inner);
    if !dropped.sockets.is_empty() {
        dropped.have_closed();
    }
}

/// Starts a program, and returns when it has closed its copies of this process's descriptors: none of them is the last.
///
/// # Errors
/// Those of [`Command::spawn`].
pub fn spawn(command: &mut Command) -> io::Result<Child> {
    // No other thread closes any meanwhile.
    let _dropped = DROPPED.lock().unwrap_or_else(PoisonError::into_inner);
    // To set a group, its own, the library makes the process by fork(2) and waits for the end of a pipe, which execve(2) closes once it
    // has taken all that are to be closed out of the table. By vfork(2) it would go on before: the kernel's begin_new_exec() lets the
    // maker go first.
    command.gid(rustix::process::getegid().as_raw()).spawn()
}

impl DroppedSockets {
    fn close(&mut self) {
        self.closers.retain_mut(|closer| !closer.has_ended());
        let least = match self.closers.len() >= PROCESSES {
            true => CROWD,
            false => 1,
        };
        if self.sockets.len() >= least {
            self.have_closed();
        }
    }

    fn have_closed(&mut self) {
        let is_closed = Arc::new(AtomicU32::new(0));
        // Without a process for it they wait for the next time.
        let Ok(mut closer) = sys::start_helper(0, end_after, Arc::clone(&is_closed)) else {
            return;
        };
        // The others' owners are in the middle of dropping theirs, in other threads, which would be the last.
        let is_dropped = |socket: &mut Arc<dyn Send + Sync>| Arc::strong_count(socket) == 1;
        self.sockets.extract_if(.., is_dropped).for_each(drop);
        is_closed.store(1, Ordering::Release);
        let _ = futex::wake(&is_closed, futex::Flags::empty(), 1);
        // As a rule it takes less than one.
        if !closer.ended_within(END) {
            self.closers.push(closer);
        }
    }
}

/// Holds copies of all descriptors of its maker, until that has closed its own; then its end closes them.
fn end_after(is_closed: &Arc<AtomicU32>) -> ! {
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    while is_closed.load(Ordering::Acquire) == 0 {
        let waited = futex::wait(is_closed, futex::Flags::empty(), 0, Some(&PATIENCE));
        if waited == Err(rustix::io::Errno::TIMEDOUT) {
            break;
        }
    }
    sys::exit(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{IoSlice, Write};
    use std::mem::MaybeUninit;
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;
    use std::sync::atomic::AtomicBool;
    use std::time::{Duration, Instant};

    use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
    use nix::unistd::Pid;
    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg, sockopt};
    use rustix::process::setpriority_process;

    /// A socket in whose queue one waits that lingers, and the other side of that.
    fn queued(seconds: u64) -> (OwnedFd, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (kept, _) = listener.accept().unwrap();
        sender.set_nonblocking(true).unwrap();
        while sender.write(&[0; 1 << 16]).is_ok() {}
        sockopt::set_socket_linger(&sender, Some(Duration::from_secs(seconds))).unwrap();
        let (own, other) = UnixStream::pair().unwrap();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut beside = SendAncillaryBuffer::new(&mut space);
        let rights = [sender.as_fd()];
        assert!(beside.push(SendAncillaryMessage::ScmRights(&rights)));
        sendmsg(
            &other,
            &[IoSlice::new(b"x")],
            &mut beside,
            SendFlags::empty(),
        )
        .unwrap();
        (own.into(), kept)
    }

    /// True when one of ten programs waits for what lingers: each has to wait for the CPU when it is started, and meanwhile a socket is
    /// dropped that was there before.
    fn keeps_one(spawn: impl Fn(&mut Command) -> io::Result<Child> + Sync) -> bool {
        let thread = Pid::from_raw(0);
        let everywhere = sched_getaffinity(thread).unwrap();
        let mut one = CpuSet::new();
        one.set(
            (0..CpuSet::count())
                .find(|cpu| everywhere.is_set(*cpu) == Ok(true))
                .unwrap(),
        )
        .unwrap();
        let is_over = AtomicBool::new(false);
        let is_kept = || {
            let (own, _kept) = queued(1);
            let own = ForeignSocket::from(own);
            let began = Instant::now();
            // By a thread of its own: only root gets back what it has given up.
            let start = || {
                sched_setaffinity(thread, &one).unwrap();
                setpriority_process(None, 19).unwrap();
                spawn(&mut Command::new("true")).unwrap()
            };
            let started = std::thread::scope(|scope| scope.spawn(start).join());
            let mut program = started.unwrap();
            drop(own);
            close_dropped();
            program.wait().unwrap();
            began.elapsed() > Duration::from_millis(900)
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                sched_setaffinity(thread, &one).unwrap();
                while !is_over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
            let one = (0..10).any(|_| is_kept());
            is_over.store(true, Ordering::Relaxed);
            one
        })
    }

    #[test]
    fn a_program_that_is_started_meanwhile_waits_for_none() {
        assert!(keeps_one(Command::spawn), "the control");
        assert!(!keeps_one(super::spawn));
    }

    #[test]
    fn an_owner_that_is_still_dropping_its_socket_is_not_the_last() {
        let (own, mut kept) = queued(1);
        let own = ForeignSocket::from(own);
        // Another thread closes between the two steps of a drop.
        let second_step = Arc::clone(&own.0);
        drop(own);
        close_dropped();
        let began = Instant::now();
        drop(second_step);
        close_dropped();
        std::io::copy(&mut kept, &mut std::io::sink()).unwrap();
        assert!(began.elapsed() < Duration::from_millis(900));
    }

    #[test]
    fn what_lingers_in_a_queue_keeps_nobody_who_drops_it() {
        let (own, _kept) = queued(1);
        let began = Instant::now();
        drop(own);
        let took = began.elapsed();
        assert!(took > Duration::from_millis(900), "the control: {took:?}");
        let (own, mut kept) = queued(60);
        let began = Instant::now();
        drop(ForeignSocket::from(own));
        close_dropped();
        // It is closed, too: what was sent ends.
        kept.set_nonblocking(false).unwrap();
        std::io::copy(&mut kept, &mut std::io::sink()).unwrap();
        assert!(began.elapsed() < Duration::from_millis(900));
    }
}
