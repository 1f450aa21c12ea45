//! The caller's side: asks the service for a run, passes signals on, and takes the report.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::socket::{getsockopt, sockopt};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, connect, socket_with};

use super::SOCKET;
use super::line::{LINE_TYPE, PacketLine, Received};
use super::memory;
use super::packet::{MOST_BODY, MOST_ORDER, Packet, PacketError, Refusal, RefusalCode, RunOrder};
use super::relayed::CallerRelays;
use crate::signals::SignalSet;

/// Signals that a run is told of: those that ask for an end, those that are the program's own business, and those of the window.
pub const PASSED_ON: [Signal; 8] = [
    Signal::SIGINT,
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGWINCH,
    Signal::SIGCONT,
];
/// Signals of these that ask for an end: of a run that only waits nothing else becomes.
pub const ENDS: [Signal; 4] = [
    Signal::SIGINT,
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGQUIT,
];
/// The time in which the service answers a signal that asks for an end.
const ANSWERED: Duration = Duration::from_secs(5);
/// Bytes of a report at most.
const MOST_REPORT: u64 = 256 << 20;

/// The connection to the service, -1 without one.
static CONNECTION: AtomicI32 = AtomicI32::new(-1);

/// The connection of a run that the service makes for this process, while it does. A caller that ends for a failure of its own hangs up
/// there, and waits for the run's end, which gives its terminal back.
pub fn connection() -> Option<RawFd> {
    let connection = CONNECTION.load(Ordering::Relaxed);
    (connection >= 0).then_some(connection)
}

/// The end of a run that the service has made.
#[derive(Debug)]
pub struct ServedEnd {
    /// The exit code of `turnkey run`.
    pub code: u8,
    /// The report, JSON.
    pub report: Vec<u8>,
}

/// The reason why the service has made no run, or not told of its end.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// There is no service.
    #[error(
        "no service can be reached at {0}; start one with `turnkey serve` as root, or run without it: --local"
    )]
    Absent(String, #[source] io::Error),
    /// The socket is not for this user.
    #[error(
        "this user may not use the service at {0}; as root, add it to the socket's group, or run without it: --local"
    )]
    Closed(String),
    /// The service said no.
    #[error("the service refuses the run: {}{}", .0.message, fix(.0))]
    Refused(Refusal),
    /// A signal came before the run had begun; there will be none.
    #[error("{0} came before the run had begun, so that there is none")]
    Withdrawn(Signal),
    /// A signal that asks for an end, which the service has not answered.
    #[error("the service does not answer; {0} ends the wait for it, and the run, if there is one")]
    Unanswered(Signal),
    /// The listener there makes no runs for others.
    #[error(
        "at {0} listens user {1}, who is told nothing: a service of this host is root's; take TURNKEY_SOCKET_DIR out of the environment, or run without it: --local"
    )]
    Foreign(String, u32),
    /// The number of the listener's user does not exist in the caller's user namespace.
    #[error(
        "whose the service at {0} is cannot be seen from a user namespace of its own, and it is told nothing; run turnkey outside of that, or without the service: --local"
    )]
    Unseen(String),
    /// The connection ended.
    #[error(
        "the service, or its process for this run, has ended, and the run with it; nothing is known of what it did"
    )]
    Lost,
    /// The answer is none.
    #[error("the service's answer is none")]
    Answer(#[source] PacketError),
    /// The system.
    #[error("could not talk to the service")]
    System(#[from] io::Error),
}

impl From<Errno> for ServiceError {
    fn from(errno: Errno) -> ServiceError {
        ServiceError::System(errno.into())
    }
}

fn fix(refusal: &Refusal) -> String {
    match refusal.fix.is_empty() {
        true => String::new(),
        false => format!("; {}", refusal.fix),
    }
}

/// Asks the service in `directory` for a run and waits for its end. `descriptors` are the three streams, the current directory
/// and, where it is asked for, what takes the events. Signals to this process are passed on from here on: it has no other thread.
/// Standard input that is a terminal is read here, so that job control holds for it, unless the program `has_terminal` of its own.
/// `waits` is told each reason for which the run waits; one that is asked to end meanwhile is withdrawn.
///
/// # Errors
/// When there is no such run, or nothing is known of it any more.
pub fn run(
    directory: &Path,
    order: RunOrder,
    descriptors: &[BorrowedFd<'_>],
    has_terminal: bool,
    mut waits: impl FnMut(&str),
) -> Result<ServedEnd, ServiceError> {
    let line = reach(directory)?;
    let signals = listen()?;
    let relays = CallerRelays::start(descriptors, has_terminal)?;
    CONNECTION.store(line.as_fd().as_raw_fd(), Ordering::Relaxed);
    let instead = relays.instead(descriptors);
    let ended = asked(&line, &signals, order, &instead, &mut waits);
    CONNECTION.store(-1, Ordering::Relaxed);
    // A run that has not ended goes on writing.
    if ended.is_ok() {
        relays.finish();
    }
    ended
}

fn asked(
    line: &PacketLine,
    signals: &SignalFd,
    order: RunOrder,
    descriptors: &[BorrowedFd<'_>],
    waits: &mut impl FnMut(&str),
) -> Result<ServedEnd, ServiceError> {
    match ask(line, order, descriptors) {
        // Who is turned away at the door finds the answer there.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        sent => sent?,
    }
    let mut passed = PassedSignals::default();
    loop {
        let (answered, signalled) = wait(line, signals, passed.patience())?;
        if answered {
            let came = line.receive(None)?;
            if let Some(Ok((Packet::Waits(reason), _))) = &came {
                passed.answered(!reason.is_empty())?;
                if !reason.is_empty() {
                    waits(reason);
                }
                continue;
            }
            passed.require_not_withdrawn(&came)?;
            return take(came);
        }
        passed.require_answer()?;
        if signalled && let Some(signal) = signals.read_signal()? {
            let known = PASSED_ON
                .into_iter()
                .find(|known| *known as u32 == signal.ssi_signo);
            known.map_or(Ok(()), |signal| passed.pass(signal))?;
            // An answer may be on its way, which says more than that nobody takes this.
            let _ = line.send(&Packet::Signal(signal.ssi_signo), &[], false);
        }
    }
}

/// Waits for the service and for signals; which of them have something.
fn wait(
    line: &PacketLine,
    signals: &SignalFd,
    patience: PollTimeout,
) -> Result<(bool, bool), Errno> {
    let mut waited = [
        PollFd::new(line.as_fd(), PollFlags::POLLIN),
        PollFd::new(signals.as_fd(), PollFlags::POLLIN),
    ];
    match poll(&mut waited, patience) {
        Err(Errno::EINTR) => return Ok((false, false)),
        waited => waited?,
    };
    let has = |waited: &PollFd<'_>| waited.any().unwrap_or(true);
    Ok((has(&waited[0]), has(&waited[1])))
}

/// Signals that were passed on, and what came of them.
#[derive(Debug, Default)]
struct PassedSignals {
    /// True while the run waits.
    is_waiting: bool,
    last: Option<Signal>,
    /// The first that asks for an end and has no answer, and its time.
    unanswered: Option<(Signal, Instant)>,
}

impl PassedSignals {
    /// Takes note of one that is about to be passed on.
    fn pass(&mut self, signal: Signal) -> Result<(), ServiceError> {
        if ENDS.contains(&signal) {
            if self.is_waiting {
                return Err(ServiceError::Withdrawn(signal));
            }
            if self.unanswered.is_some() {
                return Err(ServiceError::Unanswered(signal));
            }
            self.unanswered = Some((signal, Instant::now()));
        }
        if ![Signal::SIGWINCH, Signal::SIGCONT].contains(&signal) {
            self.last = Some(signal);
        }
        Ok(())
    }

    /// Takes note of the service's word that the run waits, or that it does no more and heeds the signals.
    fn answered(&mut self, is_waiting: bool) -> Result<(), ServiceError> {
        self.is_waiting = is_waiting;
        match self.unanswered.take() {
            Some((signal, _)) if is_waiting => Err(ServiceError::Withdrawn(signal)),
            _ => Ok(()),
        }
    }

    /// The time that is left for an answer.
    fn patience(&self) -> PollTimeout {
        let left = |since: Instant| ANSWERED.saturating_sub(since.elapsed());
        // A part of a millisecond that is cut off would be waited for in turns of none.
        let left = |since| PollTimeout::try_from(left(since) + Duration::from_millis(1));
        let unanswered = self.unanswered.map(|(_, since)| left(since));
        unanswered.map_or(PollTimeout::NONE, |left| left.unwrap_or(PollTimeout::ZERO))
    }

    fn require_answer(&self) -> Result<(), ServiceError> {
        match self.unanswered {
            Some((signal, since)) if since.elapsed() >= ANSWERED => {
                Err(ServiceError::Unanswered(signal))
            }
            _ => Ok(()),
        }
    }

    /// A run that a signal has ended before it began.
    fn require_not_withdrawn(&self, came: &Option<Received>) -> Result<(), ServiceError> {
        match (came, self.last) {
            (Some(Ok((Packet::Refused(refusal), _))), Some(signal))
                if refusal.code == RefusalCode::Withdrawn =>
            {
                Err(ServiceError::Withdrawn(signal))
            }
            _ => Ok(()),
        }
    }
}

/// Sends the words, in a packet of their own or in memory beside one.
fn ask(line: &PacketLine, order: RunOrder, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let words = order.encode();
    if words.len() <= MOST_BODY {
        return line.send(&Packet::Run(order), descriptors, true);
    }
    if words.len() > MOST_ORDER {
        return Err(io::Error::other(PacketError::TooLarge));
    }
    let memory = memory::sealed(&words)?;
    let with_memory = [descriptors, &[memory.as_fd()]].concat();
    line.send(&Packet::LongRun, &with_memory, true)
}

fn reach(directory: &Path) -> Result<PacketLine, ServiceError> {
    let path = directory.join(SOCKET);
    let named = path.display().to_string();
    let address = SocketAddrUnix::new(&path).map_err(io::Error::from)?;
    let socket = socket_with(AddressFamily::UNIX, LINE_TYPE, SocketFlags::CLOEXEC, None)
        .map_err(io::Error::from)?;
    match connect(&socket, &address) {
        Ok(()) => require_root(&socket, named).map(|()| socket.into()),
        Err(rustix::io::Errno::ACCESS) => Err(ServiceError::Closed(named)),
        Err(errno) => Err(ServiceError::Absent(named, errno.into())),
    }
}

/// Requires that whoever listens is root's, before it is told anything: anybody can name a directory.
fn require_root(socket: &OwnedFd, named: String) -> Result<(), ServiceError> {
    // Who called listen(2), unix(7).
    match getsockopt(socket, sockopt::PeerCredentials)?.uid() {
        0 => Ok(()),
        _ if !sees_every_user()? => Err(ServiceError::Unseen(named)),
        user => Err(ServiceError::Foreign(named, user)),
    }
}

/// True in the first user namespace, and in one that maps every number: user_namespaces(7).
#[expect(clippy::disallowed_methods, reason = "of /proc")]
fn sees_every_user() -> io::Result<bool> {
    let map = std::fs::read_to_string("/proc/self/uid_map")?;
    Ok(map.split_whitespace().eq(["0", "0", "4294967295"]))
}

/// Listens to what is passed on. What the caller has this process ignore stays ignored, as with nohup(1): that is no word for the run.
fn listen() -> io::Result<SignalFd> {
    let ignored = SignalSet::ignored()?;
    let heeded = |signal: &Signal| !ignored.has(*signal as i32);
    let signals: SigSet = PASSED_ON.into_iter().filter(heeded).collect();
    signals.thread_block()?;
    Ok(SignalFd::with_flags(&signals, SfdFlags::SFD_CLOEXEC)?)
}

fn take(came: Option<Received>) -> Result<ServedEnd, ServiceError> {
    let (packet, descriptors) = came
        .ok_or(ServiceError::Lost)?
        .map_err(ServiceError::Answer)?;
    match packet {
        Packet::Refused(refusal) => Err(ServiceError::Refused(refusal)),
        Packet::Ended(code) => {
            let code = u8::try_from(code).map_err(|_| ServiceError::Answer(PacketError::Body))?;
            let report = descriptors.into_iter().next();
            let report = report.ok_or(ServiceError::Answer(PacketError::Length))?;
            Ok(ServedEnd {
                code,
                report: read(report)?,
            })
        }
        _ => Err(ServiceError::Answer(PacketError::Body)),
    }
}

/// Reads memory from its beginning, wherever its writer has stopped.
fn read(memory: OwnedFd) -> io::Result<Vec<u8>> {
    let memory = File::from(memory);
    let length = memory.metadata()?.len();
    if length > MOST_REPORT {
        let told = format!("the report is larger than {} MiB", MOST_REPORT >> 20);
        return Err(io::Error::other(told));
    }
    let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
    memory.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::memfd::{MFdFlags, memfd_create};

    fn memory(length: u64) -> OwnedFd {
        let memory = File::from(memfd_create(c"test", MFdFlags::MFD_CLOEXEC).unwrap());
        memory.set_len(length).unwrap();
        memory.into()
    }

    #[test]
    fn a_signal_that_asks_for_an_end_is_answered_or_ends_its_caller() {
        let unanswered = |passed: &PassedSignals| {
            let required = passed.require_answer();
            matches!(required, Err(ServiceError::Unanswered(Signal::SIGINT)))
        };
        let mut passed = PassedSignals::default();
        assert_eq!(passed.patience(), PollTimeout::NONE);
        for signal in [Signal::SIGUSR1, Signal::SIGWINCH, Signal::SIGINT] {
            passed.pass(signal).unwrap();
        }
        assert!(passed.patience() > PollTimeout::ZERO && !unanswered(&passed));
        let mut late = PassedSignals {
            unanswered: Some((Signal::SIGINT, Instant::now() - ANSWERED)),
            ..PassedSignals::default()
        };
        assert!(unanswered(&late));
        late.answered(false).unwrap();
        assert!(!unanswered(&late), "it is heard");
        let second = passed.pass(Signal::SIGTERM);
        assert!(matches!(
            second,
            Err(ServiceError::Unanswered(Signal::SIGTERM))
        ));
        let waits = passed.answered(true);
        assert!(matches!(
            waits,
            Err(ServiceError::Withdrawn(Signal::SIGINT))
        ));
        let next = passed.pass(Signal::SIGHUP);
        assert!(matches!(next, Err(ServiceError::Withdrawn(Signal::SIGHUP))));
    }

    #[test]
    fn a_report_that_is_too_large_is_an_error_and_no_part_of_one() {
        assert_eq!(read(memory(70)).unwrap(), [0; 70]);
        let error = read(memory(MOST_REPORT + 1)).unwrap_err();
        assert!(error.to_string().contains("larger than"), "{error}");
    }
}
