//! The listener of a service: accepts callers, holds the slots and the queue, and hands each caller to a process of its own.
//!
//! A single thread, which opens nothing that a caller names, reads no request and waits for no single caller: what is sent is sent
//! without waiting, or not at all.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use anyhow::Context;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::net::{SocketFlags, accept_with};
use turnkey_jailer::foreign::{self, ForeignSocket};
use turnkey_supervisor::service::{
    PASSED_ON, Packet, PacketLine, PeerError, RefusalCode, RunClaim, ServedPeer,
};

use super::config::{self, ServeConfig};
use super::counters::{EndOfCaller, ServiceCounters, UserUse};
use super::ending::EndingMakers;
use super::log::{ServiceEvent, ServiceLog, milliseconds, request_id};
use super::queue::{CallerQueue, QueuedCaller};
use super::remains::Remains;
use super::run_maker::{MakerWord, RunMaker, WaitingCaller};
use super::socket::{BACKLOG, DirectoryClaim, ServiceSocket};
use super::turned_away::{RefusedCaller, turn_away};

/// The time in which runs end by themselves when the service is to end.
const FAREWELL: Duration = Duration::from_secs(5);
/// The time in which a process ends that was killed, unless the kernel holds it.
const KILLED: Duration = Duration::from_secs(2);
/// The time to the next try where the host lacks something for a moment.
const LACKING: Duration = Duration::from_millis(10);

/// The signal that asks for the counters.
const ASKED: Signal = Signal::SIGUSR1;

/// The time for which the monitor's programs stay attached after the last run: until then the next one finds them so.
const KEPT_ATTACHED: Duration = Duration::from_secs(5);

/// The service.
pub struct Listener<'c> {
    config: &'c ServeConfig,
    file: Option<&'c Path>,
    socket: OwnedFd,
    signals: SignalFd,
    /// The most that the runs of one user claim together.
    most: RunClaim,
    makers: Vec<RunMaker>,
    /// Processes that have closed their lines, and end.
    ending: EndingMakers,
    /// Of makers that were killed.
    remains: Remains,
    waiting: CallerQueue<WaitingCaller>,
    /// The number of the next request.
    next: u64,
    counters: ServiceCounters,
    /// The time when a run began or ended last.
    last_run: Option<Instant>,
    /// Held as long as this service is the one of its directory.
    _claim: DirectoryClaim,
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
        let ServiceSocket { socket, claim } = ServiceSocket::open(directory, &config.group)?;
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
            most: config.sums()?,
            next: 1,
            makers: Vec::new(),
            ending: EndingMakers::default(),
            remains: Remains::default(),
            waiting: CallerQueue::new(config.queue),
            counters: ServiceCounters::default(),
            last_run: None,
            _claim: claim,
        })
    }

    /// Serves until a signal asks for the end.
    ///
    /// # Errors
    /// When the system cannot be waited for.
    pub fn serve(&mut self, log: &ServiceLog) -> anyhow::Result<()> {
        loop {
            self.stand_ready();
            if self.wait(self.patience(log), log)? {
                return Ok(());
            }
            self.remains.clear();
            self.let_go();
            self.accept(log);
            self.admit(log);
            self.tell_who_waits(log);
            log.tell_left_out(false);
            foreign::close_dropped();
        }
    }

    /// Ends the runs, with a moment for each to end by itself.
    pub fn end(mut self, log: &ServiceLog) {
        log.tell_left_out(true);
        self.waiting.retain(|_| false);
        for maker in &self.makers {
            let pid = nix::unistd::Pid::from_raw(maker.id().cast_signed());
            let _ = nix::sys::signal::kill(pid, Signal::SIGTERM);
        }
        let deadline = Instant::now() + FAREWELL;
        while !(self.makers.is_empty() && self.ending.is_empty()) && Instant::now() < deadline {
            let left = deadline.saturating_duration_since(Instant::now());
            let left = PollTimeout::try_from(left).unwrap_or(PollTimeout::ZERO);
            if self.wait(left, log).is_err() {
                break;
            }
        }
        self.makers.append(&mut self.ending.take());
        self.makers.iter_mut().for_each(RunMaker::kill);
        let deadline = Instant::now() + KILLED;
        while (!self.makers.is_empty() || self.remains.rest().is_some())
            && Instant::now() < deadline
        {
            self.makers.retain_mut(|maker| {
                let is_over = maker.ended().is_some();
                if is_over && maker.run().is_some() {
                    self.remains.add(maker.id());
                }
                !is_over
            });
            self.remains.clear();
            std::thread::sleep(Duration::from_millis(5));
        }
        // In a call of a file system that answers nobody: dead once that call ends, and nothing waits for it.
        for maker in &self.makers {
            log.tell(ServiceEvent::Stuck {
                process: maker.id(),
            });
        }
    }

    /// Waits until something has happened, and forgets who is gone. True when the service is to end.
    fn wait(&mut self, most: PollTimeout, log: &ServiceLog) -> anyhow::Result<bool> {
        let makers = self.makers.iter().map(AsFd::as_fd);
        let mut waited: Vec<PollFd<'_>> = [self.socket.as_fd(), self.signals.as_fd()]
            .into_iter()
            .chain(makers)
            .map(|line| PollFd::new(line, PollFlags::POLLIN))
            .collect();
        let first_waiting = waited.len();
        // That one has hung up is told without being asked for.
        for place in self.waiting.iter() {
            waited.push(PollFd::new(place.caller.line.as_fd(), PollFlags::empty()));
        }
        let most = self.ending.rest().map_or(most, |rest| {
            let rest = PollTimeout::try_from(rest).unwrap_or(PollTimeout::ZERO);
            match most == PollTimeout::NONE {
                true => rest,
                false => most.min(rest),
            }
        });
        match poll(&mut waited, most) {
            Err(Errno::EINTR) => return Ok(false),
            // Of this moment alone.
            Err(Errno::ENOMEM | Errno::EAGAIN) => {
                std::thread::sleep(LACKING);
                return Ok(false);
            }
            polled => polled.context("could not wait for callers")?,
        };
        let has: Vec<bool> = waited
            .iter()
            .map(|line| line.any().unwrap_or(true))
            .collect();
        drop(waited);
        self.forget(&has[first_waiting..], log);
        self.hear(&has[2..first_waiting], log);
        let mut is_to_end = false;
        while let Some(signal) = self.signals.read_signal()? {
            match i32::try_from(signal.ssi_signo) {
                Ok(number) if number == ASKED as i32 => self.tell_counters(log),
                _ => is_to_end = true,
            }
        }
        Ok(is_to_end)
    }

    /// Hears the processes that have said something, those first that have ended: what they had is there for the others.
    fn hear(&mut self, has_spoken: &[bool], log: &ServiceLog) {
        let mut has_spoken = has_spoken.iter();
        let mut claims = Vec::new();
        let mut heard = self
            .makers
            .extract_if(.., |maker| match *has_spoken.next().unwrap_or(&false) {
                false => false,
                true => match maker.hear() {
                    MakerWord::Claims(claim) => {
                        claims.push((maker.id(), claim));
                        false
                    }
                    MakerWord::Ends => true,
                },
            })
            .collect();
        self.ending.add(&mut heard);
        for (maker, status) in self.ending.ended() {
            self.note_end(&maker, status, log);
        }
        for (process, claim) in claims {
            self.judge(process, claim, log);
        }
    }

    /// Takes note of a process that has ended, if it was given a caller.
    fn note_end(&mut self, maker: &RunMaker, status: ExitStatus, log: &ServiceLog) {
        let Some(run) = maker.run() else {
            return;
        };
        if self.counters.ended(status, run.since.elapsed()) == EndOfCaller::WithoutRun {
            log.count(run.user, run.has_lines);
        }
        self.last_run = Some(Instant::now());
        if let Some(signal) = status.signal() {
            self.remains.add(maker.id());
            log.tell(ServiceEvent::GivenUp {
                request: &request_id(std::process::id(), run.number),
                user: run.user,
                signal,
                reason: reason_of(signal),
                milliseconds: milliseconds(run.since),
            });
        }
    }

    /// Gives a run what it claims, or has its caller wait: where its user's other runs have too much of that, or one waits that came before.
    fn judge(&mut self, process: u32, claim: RunClaim, log: &ServiceLog) {
        let mut makers = self.makers.iter();
        let run = makers
            .find(|maker| maker.id() == process)
            .and_then(RunMaker::run);
        let Some((user, number)) = run.map(|run| (run.user, run.number)) else {
            return;
        };
        let taken = claimed(&self.makers, user, number);
        let fits = taken.and(claim).beyond(self.most).is_none();
        let passes = fits && !self.waiting.has_before(user, number);
        let mut makers = self.makers.iter_mut();
        let Some(maker) = makers.find(|maker| maker.id() == process) else {
            return;
        };
        if passes {
            maker.grant(claim);
        } else if let Some(mut caller) = maker.take_back() {
            if claim.beyond(self.most).is_some() {
                return self.refuse_for_ever(&caller, log);
            }
            caller.caller.claim = claim;
            caller.caller.is_told.set(false);
            self.have_wait(caller, log);
        }
    }

    fn forget_who_hung_up(&mut self, log: &ServiceLog) {
        let lines = self.waiting.iter().map(|place| place.caller.line.as_fd());
        // That is told without being asked for.
        let mut lines: Vec<PollFd<'_>> = lines
            .map(|line| PollFd::new(line, PollFlags::empty()))
            .collect();
        let polled = poll(&mut lines, PollTimeout::ZERO);
        let hung_up: Vec<bool> = lines
            .iter()
            .map(|line| polled.is_ok() && line.any().unwrap_or(true))
            .collect();
        self.forget(&hung_up, log);
    }

    /// Forgets of those who wait the ones that have hung up, in their order.
    fn forget(&mut self, hung_up: &[bool], log: &ServiceLog) {
        let mut hung_up = hung_up.iter();
        let counters = &mut self.counters;
        self.waiting.retain(|place| {
            let is_gone = *hung_up.next().unwrap_or(&false);
            if is_gone {
                counters.gone();
                log.tell_gone(place.number);
            }
            !is_gone
        });
    }

    /// Turns a caller away whose run will never fit: only who made it has read sums that are larger than those of this service's start.
    fn refuse_for_ever(&mut self, caller: &QueuedCaller<WaitingCaller>, log: &ServiceLog) {
        self.counters.refused(RefusalCode::Forbidden);
        let message =
            "it asks for more than `[per_user]` gave when the service was started; start that anew";
        let refusal = (RefusalCode::Forbidden, message.to_owned());
        let who = RefusedCaller::from(caller);
        turn_away(&caller.caller.line, &who, refusal, log);
    }

    /// Has a caller wait, in its place, which nobody takes from it who has hung up since.
    fn have_wait(&mut self, caller: QueuedCaller<WaitingCaller>, log: &ServiceLog) {
        if self.waiting.is_full() {
            self.forget_who_hung_up(log);
        }
        if let Some(loser) = self.waiting.push(caller) {
            self.counters.refused(RefusalCode::Busy);
            let who = RefusedCaller::from(&loser);
            let refusal = (RefusalCode::Busy, self.busy());
            turn_away(&loser.caller.line, &who, refusal, log);
        }
    }

    /// Tells those who wait, and have not been told, that they do.
    fn tell_who_waits(&self, log: &ServiceLog) {
        for place in self
            .waiting
            .iter()
            .filter(|place| !place.caller.is_told.get())
        {
            place.caller.is_told.set(true);
            let reason = self.reason(place);
            log.tell(ServiceEvent::Waits {
                request: &request_id(std::process::id(), place.number),
                user: place.user,
                caller: place.caller.process,
                reason: &reason,
            });
            let _ = place.caller.line.send(&Packet::Waits(reason), &[], false);
        }
    }

    /// The reason why a caller waits.
    fn reason(&self, place: &QueuedCaller<WaitingCaller>) -> String {
        let (of_user, most) = (
            self.running(Some(place.user)),
            self.config.max_running_per_user,
        );
        if of_user >= most {
            return format!(
                "{of_user} runs of its user take place, and more than {most} at once are given to none"
            );
        }
        let taken = claimed(&self.makers, place.user, place.number);
        let claim = place.caller.claim;
        if let Some(part) = taken.and(claim).beyond(self.most) {
            let of = |parts: RunClaim| parts.part(part.name);
            let shown = |value| config::shown(part.name, value);
            return format!(
                "the other runs of its user have {} of {} {}, and it asks for {}",
                shown(of(taken)),
                shown(of(self.most)),
                config::words(part.name),
                shown(of(claim)),
            );
        }
        if self.waiting.has_before(place.user, place.number) {
            return "another run of its user waits, and came before".to_owned();
        }
        format!("all slots are taken: {} run", self.running(None))
    }

    fn tell_counters(&self, log: &ServiceLog) {
        log.tell(ServiceEvent::Counted {
            running: self.running(None),
            waiting: self.waiting.len(),
            users: &self.uses(),
            counters: &self.counters,
        });
    }

    /// The use that each user makes who runs something or waits.
    fn uses(&self) -> BTreeMap<u32, UserUse> {
        let mut uses = BTreeMap::<u32, UserUse>::new();
        for place in self.waiting.iter() {
            uses.entry(place.user).or_default().waiting += 1;
        }
        for run in self.makers.iter().filter_map(RunMaker::run) {
            uses.entry(run.user).or_default().add(run.claim);
        }
        uses
    }

    /// True as long as the monitor stays attached for runs that follow.
    fn follows_a_run(&self) -> bool {
        let lately = self
            .last_run
            .is_some_and(|run| run.elapsed() < KEPT_ATTACHED);
        lately || self.running(None) > 0
    }

    /// The time to wait for something to happen.
    fn patience(&self, log: &ServiceLog) -> PollTimeout {
        let keeps = self.makers.iter().any(|maker| maker.keeps_attached);
        let last_run = self.last_run.filter(|_| keeps && self.running(None) == 0);
        let attached = last_run.map(|run| {
            let left = KEPT_ATTACHED.saturating_sub(run.elapsed());
            left + Duration::from_millis(1)
        });
        let told = log.rest().map(|rest| rest + Duration::from_millis(1));
        let least = attached.into_iter().chain(self.remains.rest());
        let least = least.chain(told).min();
        least.map_or(PollTimeout::NONE, |least| {
            PollTimeout::try_from(least).unwrap_or(PollTimeout::NONE)
        })
    }

    /// Has others stand ready in the place of those who keep the monitor attached, when runs do not follow one another any more.
    fn let_go(&mut self) {
        if self.follows_a_run() {
            return;
        }
        self.makers.retain_mut(|maker| {
            if maker.keeps_attached {
                maker.end();
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
            let line = PacketLine::from(ForeignSocket::from(connection));
            let number = self.next;
            self.next += 1;
            match ServedPeer::from_socket(&line) {
                Ok(peer) => {
                    let caller = WaitingCaller {
                        line,
                        process: peer.pid,
                        claim: RunClaim::default(),
                        is_told: Cell::new(false),
                    };
                    let user = peer.user.user;
                    let caller = QueuedCaller {
                        user,
                        number,
                        caller,
                    };
                    self.have_wait(caller, log);
                }
                Err(PeerError::Gone) => {
                    self.counters.gone();
                    log.tell_gone(number);
                }
                Err(error) => {
                    self.counters.refused(RefusalCode::Forbidden);
                    let who = RefusedCaller {
                        request: number,
                        user: error.user(),
                        caller: None,
                    };
                    let refusal = (RefusalCode::Forbidden, error.to_string());
                    turn_away(&line, &who, refusal, log);
                }
            }
        }
    }

    fn busy(&self) -> String {
        let (running, waiting) = (self.running(None), self.waiting.len());
        format!("it is busy: {running} run, and {waiting} wait")
    }

    /// Hands those to a process for whom there is a slot, and room for what they have claimed.
    fn admit(&mut self, log: &ServiceLog) {
        while self.running(None) < self.config.max_running {
            let (makers, most) = (&self.makers, self.most);
            let most_running = self.config.max_running_per_user;
            let next = self.waiting.next(|place| {
                let taken = claimed(makers, place.user, place.number);
                let fits = taken.and(place.caller.claim).beyond(most).is_none();
                let running = count(makers, Some(place.user));
                (fits && running < most_running).then_some(running)
            });
            match next {
                Some(caller) => self.hand_over(caller, log),
                None => return,
            }
        }
    }

    fn hand_over(&mut self, caller: QueuedCaller<WaitingCaller>, log: &ServiceLog) {
        let place = match self.makers.iter().position(RunMaker::is_ready) {
            Some(place) => place,
            None => match self.start() {
                Ok(maker) => {
                    self.makers.push(maker);
                    self.makers.len() - 1
                }
                Err(error) => return self.refuse_for_now(&caller, &error, log),
            },
        };
        self.last_run = Some(Instant::now());
        if caller.caller.is_told.get() {
            let goes_on = Packet::Waits(String::new());
            let _ = caller.caller.line.send(&goes_on, &[], false);
        }
        let has_lines = log.has_room(caller.user);
        self.makers[place].give(caller, has_lines);
    }

    /// Turns a caller away for whom the host has no process now; the others stay.
    fn refuse_for_now(
        &mut self,
        caller: &QueuedCaller<WaitingCaller>,
        error: &anyhow::Error,
        log: &ServiceLog,
    ) {
        self.counters.refused(RefusalCode::Busy);
        let who = RefusedCaller::from(caller);
        let refusal = (RefusalCode::Busy, format!("{error:#}"));
        turn_away(&caller.caller.line, &who, refusal, log);
    }

    /// The runs of a user, or of all.
    fn running(&self, user: Option<u32>) -> usize {
        count(&self.makers, user)
    }

    /// Has as many processes ready as configured, as far as there are slots, and the host has processes.
    fn stand_ready(&mut self) {
        let ready = self.config.ready.min(self.config.max_running);
        while self.makers.iter().filter(|maker| maker.is_ready()).count() < ready
            && self.makers.len() < self.config.max_running
        {
            match self.start() {
                Ok(maker) => self.makers.push(maker),
                // One is started for the next caller.
                Err(_) => return,
            }
        }
    }

    fn start(&self) -> anyhow::Result<RunMaker> {
        RunMaker::start(self.file, self.follows_a_run())
    }
}

fn count(makers: &[RunMaker], user: Option<u32>) -> usize {
    let runs = makers.iter().filter_map(RunMaker::run);
    runs.filter(|run| user.is_none_or(|user| user == run.user))
        .count()
}

/// The sum of what the runs of a user have claimed, but for one of them. Nothing keeps an account beside the runs, so whatever ends one leaves no claim.
fn claimed(makers: &[RunMaker], user: u32, without: u64) -> RunClaim {
    let runs = makers.iter().filter_map(RunMaker::run);
    let others = runs.filter(|run| run.user == user && run.number != without);
    others.fold(RunClaim::default(), |sum, run| sum.and(run.claim))
}

/// The reason why a process was ended that makes a run.
fn reason_of(signal: i32) -> &'static str {
    match Signal::try_from(signal) {
        Ok(Signal::SIGALRM) => {
            "it took too long to prepare, or nobody took its output: see docs/service.md"
        }
        Ok(Signal::SIGTERM) => {
            "its caller hung up or passed SIGTERM on, or the service ended, before it had begun"
        }
        Ok(signal) if PASSED_ON.contains(&signal) => {
            "its caller passed this signal on before the run had begun"
        }
        Ok(Signal::SIGKILL) => {
            "somebody killed its process, or the host had no memory: see the kernel's log"
        }
        _ => "its process failed",
    }
}
