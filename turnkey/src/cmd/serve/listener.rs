//! The listener of a service: accepts callers, holds the slots and the queue, and hands each caller to a process of its own.
//!
//! A single thread, which opens nothing that a caller names, reads no request and waits for no single caller: what is sent is sent
//! without waiting, or not at all.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::stat::{Mode, SFlag, lstat};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, accept_with, bind, listen, socket_with, socketpair,
};
use turnkey_supervisor::service::{
    LINE_TYPE, Packet, PacketLine, PeerError, Refusal, RefusalCode, SOCKET, ServedPeer,
};

use super::config::ServeConfig;
use super::counters::ServiceCounters;
use super::log::{ServiceEvent, ServiceLog};
use super::queue::CallerQueue;
use crate::output;

/// Connections that the kernel holds until they are accepted.
const BACKLOG: i32 = 128;
/// The time in which runs end by themselves when the service is to end.
const FAREWELL: Duration = Duration::from_secs(5);
/// The time in which a process ends that was killed, unless the kernel holds it.
const KILLED: Duration = Duration::from_secs(2);

/// The signal that asks for the counters.
const ASKED: Signal = Signal::SIGUSR1;

/// The time for which the monitor's programs stay attached after the last run: until then the next one finds them so.
const KEPT_ATTACHED: Duration = Duration::from_secs(5);

/// The nice value of a process that stands ready.
const LEAST: i32 = 19;

/// A process that makes one run.
struct RunMaker {
    process: Child,
    /// Closed by its end.
    line: PacketLine,
    /// The user for whom it makes one, and since when; `None` while it stands ready.
    serves: Option<(u32, Instant)>,
    /// True when it keeps the monitor's programs attached from its start.
    keeps_attached: bool,
}

/// The service.
pub struct Listener<'c> {
    config: &'c ServeConfig,
    file: Option<&'c Path>,
    socket: OwnedFd,
    signals: SignalFd,
    makers: Vec<RunMaker>,
    waiting: CallerQueue<PacketLine>,
    counters: ServiceCounters,
    /// The time when a run began or ended last.
    last_run: Option<Instant>,
    /// Held as long as this service is the one of its directory.
    _lock: Flock<File>,
}

impl<'c> Listener<'c> {
    /// Listens in `directory`, for root and the members of the configured group.
    ///
    /// # Errors
    /// When another service is there, or the socket cannot be made.
    pub fn bind(
        directory: &Path,
        config: &'c ServeConfig,
        file: Option<&'c Path>,
    ) -> anyhow::Result<Self> {
        let place = directory.display();
        let made = || format!("the directory of the socket, {place}, cannot be used");
        make_directory(directory).with_context(made)?;
        let lock = lock(directory)?;
        let path = directory.join(SOCKET);
        // Of a service that was killed: nobody else has the lock.
        match nix::unistd::unlink(&path) {
            Ok(()) | Err(Errno::ENOENT) => {}
            Err(errno) => return Err(errno).with_context(made),
        }
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, LINE_TYPE, flags, None)?;
        // Nobody connects before it is known who may.
        let before = nix::sys::stat::umask(Mode::from_bits_truncate(0o777));
        let bound = bind(&socket, &SocketAddrUnix::new(&path)?);
        nix::sys::stat::umask(before);
        bound.with_context(made)?;
        open_to(&path, &config.group)?;
        listen(&socket, BACKLOG)?;
        let heeded: SigSet = [Signal::SIGTERM, Signal::SIGINT, ASKED]
            .into_iter()
            .collect();
        heeded.thread_block()?;
        let signals =
            SignalFd::with_flags(&heeded, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
        Ok(Listener {
            config,
            file,
            socket,
            signals,
            makers: Vec::new(),
            waiting: CallerQueue::new(config.queue),
            counters: ServiceCounters::default(),
            last_run: None,
            _lock: lock,
        })
    }

    /// Serves until a signal asks for the end.
    ///
    /// # Errors
    /// When the system cannot be waited for, or no process be made any more.
    pub fn serve(&mut self, log: &ServiceLog) -> anyhow::Result<()> {
        loop {
            self.stand_ready()?;
            if self.wait(self.patience(), log)? {
                return Ok(());
            }
            self.let_go();
            self.accept(log);
            self.admit()?;
        }
    }

    /// Ends the runs, with a moment for each to end by itself.
    pub fn end(mut self, log: &ServiceLog) {
        self.waiting.retain(|_| false);
        for maker in &self.makers {
            let pid = nix::unistd::Pid::from_raw(maker.process.id().cast_signed());
            let _ = nix::sys::signal::kill(pid, Signal::SIGTERM);
        }
        let deadline = Instant::now() + FAREWELL;
        while !self.makers.is_empty() && Instant::now() < deadline {
            let left = deadline.saturating_duration_since(Instant::now());
            let left = PollTimeout::try_from(left).unwrap_or(PollTimeout::ZERO);
            if self.wait(left, log).is_err() {
                break;
            }
        }
        for maker in &mut self.makers {
            let _ = maker.process.kill();
        }
        let deadline = Instant::now() + KILLED;
        let is_over =
            |maker: &mut RunMaker| maker.process.try_wait().is_ok_and(|end| end.is_some());
        while !self.makers.is_empty() && Instant::now() < deadline {
            self.makers.retain_mut(|maker| !is_over(maker));
            std::thread::sleep(Duration::from_millis(5));
        }
        // In a call of a file system that answers nobody: dead once that call ends, and nothing waits for it.
        for maker in &self.makers {
            log.tell(ServiceEvent::Stuck {
                process: maker.process.id(),
            });
        }
    }

    /// Waits until something has happened, and forgets who is gone. True when the service is to end.
    fn wait(&mut self, most: PollTimeout, log: &ServiceLog) -> anyhow::Result<bool> {
        let makers = self.makers.iter().map(|maker| maker.line.as_fd());
        let mut waited: Vec<PollFd<'_>> = [self.socket.as_fd(), self.signals.as_fd()]
            .into_iter()
            .chain(makers)
            .map(|line| PollFd::new(line, PollFlags::POLLIN))
            .collect();
        let first_waiting = waited.len();
        // That one has hung up is told without being asked for.
        let quiet = |line| PollFd::new(line, PollFlags::empty());
        waited.extend(self.waiting.iter().map(AsFd::as_fd).map(quiet));
        match poll(&mut waited, most) {
            Err(Errno::EINTR) => return Ok(false),
            polled => polled.context("could not wait for callers")?,
        };
        let has: Vec<bool> = waited
            .iter()
            .map(|line| line.any().unwrap_or(true))
            .collect();
        drop(waited);
        let mut gone = has[2..first_waiting].iter();
        self.makers.retain_mut(|maker| {
            let is_over = *gone.next().unwrap_or(&false);
            // It has closed its line with its last act.
            if is_over && let (Ok(status), Some((_, since))) = (maker.process.wait(), maker.serves)
            {
                self.counters.ended(status, since.elapsed());
                self.last_run = Some(Instant::now());
            }
            !is_over
        });
        let mut hung_up = has[first_waiting..].iter();
        self.waiting.retain(|_| !*hung_up.next().unwrap_or(&false));
        let mut is_to_end = false;
        while let Some(signal) = self.signals.read_signal()? {
            match i32::try_from(signal.ssi_signo) {
                Ok(number) if number == ASKED as i32 => self.tell_counters(log),
                _ => is_to_end = true,
            }
        }
        Ok(is_to_end)
    }

    fn tell_counters(&self, log: &ServiceLog) {
        log.tell(ServiceEvent::Counted {
            running: self.running(None),
            waiting: self.waiting.len(),
            counters: &self.counters,
        });
    }

    /// True as long as the monitor stays attached for runs that follow.
    fn follows_a_run(&self) -> bool {
        let lately = self
            .last_run
            .is_some_and(|run| run.elapsed() < KEPT_ATTACHED);
        lately || self.running(None) > 0
    }

    /// The time to wait for something to happen.
    fn patience(&self) -> PollTimeout {
        let keeps = self.makers.iter().any(|maker| maker.keeps_attached);
        let last_run = self.last_run.filter(|_| keeps && self.running(None) == 0);
        last_run.map_or(PollTimeout::NONE, |run| {
            let left = KEPT_ATTACHED.saturating_sub(run.elapsed());
            PollTimeout::try_from(left + Duration::from_millis(1)).unwrap_or(PollTimeout::NONE)
        })
    }

    /// Has others stand ready in the place of those who keep the monitor attached, when runs do not follow one another any more.
    fn let_go(&mut self) {
        if self.follows_a_run() {
            return;
        }
        self.makers.retain_mut(|maker| {
            if maker.keeps_attached {
                let _ = maker.process.kill();
                let _ = maker.process.wait();
            }
            !maker.keeps_attached
        });
    }

    /// Takes those who have connected into the queue, or turns them away. Of a flood no more than the kernel held at once, so that those
    /// who wait have their turn.
    fn accept(&mut self, log: &ServiceLog) {
        for _ in 0..BACKLOG {
            let Ok(connection) = accept_with(&self.socket, SocketFlags::CLOEXEC) else {
                return;
            };
            let line = PacketLine::from(connection);
            match ServedPeer::of(&line) {
                Ok(peer) => {
                    let user = peer.user.user;
                    if let Some(loser) = self.waiting.push(user, line) {
                        self.counters.refused(RefusalCode::Busy);
                        turn_away(&loser, None, (RefusalCode::Busy, self.busy()), log);
                    }
                }
                Err(PeerError::Gone) => {}
                Err(error) => {
                    self.counters.refused(RefusalCode::Forbidden);
                    let refusal = (RefusalCode::Forbidden, error.to_string());
                    turn_away(&line, error.user(), refusal, log);
                }
            }
        }
    }

    fn busy(&self) -> String {
        let (running, waiting) = (self.running(None), self.waiting.len());
        format!("it is busy: {running} run, and {waiting} wait")
    }

    /// Hands those to a process for whom there is a slot.
    fn admit(&mut self) -> anyhow::Result<()> {
        while self.running(None) < self.config.max_running {
            let makers = &self.makers;
            let running = |user| count(makers, Some(user));
            let most = self.config.max_running_per_user;
            let Some((user, line)) = self.waiting.next(running, most) else {
                return Ok(());
            };
            self.hand_over(user, &line)?;
        }
        Ok(())
    }

    fn hand_over(&mut self, user: u32, caller: &PacketLine) -> anyhow::Result<()> {
        let is_ready = |maker: &RunMaker| maker.serves.is_none();
        let place = match self.makers.iter().position(is_ready) {
            Some(place) => place,
            None => {
                self.makers.push(self.start()?);
                self.makers.len() - 1
            }
        };
        self.last_run = Some(Instant::now());
        let maker = &mut self.makers[place];
        maker.serves = Some((user, Instant::now()));
        // One that has died since takes nothing: the caller sees the connection end.
        let _ = maker.line.send(&Packet::Caller, &[caller.as_fd()], false);
        Ok(())
    }

    /// The runs of a user, or of all.
    fn running(&self, user: Option<u32>) -> usize {
        count(&self.makers, user)
    }

    /// Has as many processes ready as configured, as far as there are slots.
    fn stand_ready(&mut self) -> anyhow::Result<()> {
        let ready = self.config.ready.min(self.config.max_running);
        let is_ready = |maker: &&RunMaker| maker.serves.is_none();
        while self.makers.iter().filter(is_ready).count() < ready
            && self.makers.len() < self.config.max_running
        {
            self.makers.push(self.start()?);
        }
        Ok(())
    }

    fn start(&self) -> anyhow::Result<RunMaker> {
        let (own, its) = socketpair(AddressFamily::UNIX, LINE_TYPE, SocketFlags::CLOEXEC, None)?;
        let mut command = Command::new("/proc/self/exe");
        command.arg("serve-run");
        command.args(["--service", &std::process::id().to_string()]);
        if let Some(file) = self.file {
            command.arg("--config").arg(file);
        }
        let keeps_attached = self.follows_a_run();
        if keeps_attached {
            command.arg("--after-a-run");
        }
        // Of whoever has started the service nothing reaches a run.
        command.env_clear().current_dir("/").stdin(Stdio::from(its));
        let process =
            spawn_in_the_background(&mut command).context("could not start a process for a run")?;
        Ok(RunMaker {
            process,
            line: own.into(),
            serves: None,
            keeps_attached,
        })
    }
}

/// Starts a process at the lowest priority, which it keeps until it is given a caller: whoever gets ready keeps no run waiting.
fn spawn_in_the_background(command: &mut Command) -> std::io::Result<Child> {
    let own = rustix::process::getpriority_process(None)?;
    command.args(["--nice", &own.to_string()]);
    rustix::process::setpriority_process(None, LEAST)?;
    let spawned = command.spawn();
    rustix::process::setpriority_process(None, own)?;
    spawned
}

fn count(makers: &[RunMaker], user: Option<u32>) -> usize {
    let counts = |maker: &&RunMaker| {
        maker
            .serves
            .is_some_and(|(own, _)| user.is_none_or(|user| user == own))
    };
    makers.iter().filter(counts).count()
}

fn turn_away(
    line: &PacketLine,
    user: Option<u32>,
    (code, message): (RefusalCode, String),
    log: &ServiceLog,
) {
    log.tell(ServiceEvent::Refused {
        user,
        code: code as u32,
        reason: &message,
    });
    let fix = match code {
        RefusalCode::Busy => "come back later, or run without it: --local",
        _ => "run without it: --local",
    };
    let fix = fix.to_owned();
    let refusal = Refusal { code, message, fix };
    // Who does not take it at once does without.
    let _ = line.send(&Packet::Refused(refusal), &[], false);
}

fn make_directory(directory: &Path) -> Result<(), Errno> {
    let mode = Mode::S_IRWXU | Mode::S_IRGRP | Mode::S_IXGRP | Mode::S_IROTH | Mode::S_IXOTH;
    match nix::unistd::mkdir(directory, mode) {
        Ok(()) | Err(Errno::EEXIST) => {}
        Err(errno) => return Err(errno),
    }
    let stat = lstat(directory)?;
    let is_directory = SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT == SFlag::S_IFDIR;
    let others = Mode::S_IWGRP | Mode::S_IWOTH;
    let is_shared = Mode::from_bits_truncate(stat.st_mode).intersects(others);
    // Whoever can write there can put another socket in the place of this one.
    match (is_directory, is_shared || stat.st_uid != 0) {
        (false, _) => Err(Errno::ENOTDIR),
        (true, true) => Err(Errno::EPERM),
        (true, false) => Ok(()),
    }
}

fn lock(directory: &Path) -> anyhow::Result<Flock<File>> {
    let path = directory.join("turnkey.lock");
    let flags = nix::fcntl::OFlag::O_CREAT
        | nix::fcntl::OFlag::O_RDWR
        | nix::fcntl::OFlag::O_NOFOLLOW
        | nix::fcntl::OFlag::O_CLOEXEC;
    let mode = Mode::S_IRUSR | Mode::S_IWUSR;
    let file = nix::fcntl::open(&path, flags, mode)
        .with_context(|| format!("{} cannot be opened", path.display()))?;
    Flock::lock(File::from(file), FlockArg::LockExclusiveNonblock).map_err(|(_, errno)| match errno
    {
        Errno::EAGAIN => anyhow::anyhow!(
            "another service listens in {}; end it, or name another directory with --socket-dir",
            directory.display()
        ),
        errno => errno.into(),
    })
}

/// Root's, and the group's to connect to.
fn open_to(path: &Path, group: &str) -> anyhow::Result<()> {
    let number = group.parse().ok().map(nix::unistd::Gid::from_raw);
    let named = nix::unistd::Group::from_name(group)?.map(|group| group.gid);
    let found = named.or(number);
    if found.is_none() {
        output::line(&format!(
            "there is no group {group}, so only root can connect: `groupadd {group}`, and `usermod -aG {group} USER` for each who may"
        ));
    }
    let group = found.unwrap_or(nix::unistd::Gid::from_raw(0));
    let root = nix::unistd::Uid::from_raw(0);
    nix::unistd::chown(path, Some(root), Some(group))?;
    let mode = Mode::from_bits_truncate(0o660);
    let at = nix::fcntl::AT_FDCWD;
    let follow = nix::sys::stat::FchmodatFlags::FollowSymlink;
    nix::sys::stat::fchmodat(at, path, mode, follow)?;
    Ok(())
}
