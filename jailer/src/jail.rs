//! The supervisor's side of a jail's life: `Prepared` → `Confining` → `Held` → `Running` → `JailExit`.
//!
//! Runs as: the supervisor, outside the jail. Each state is a type; what it owns is cleared away
//! when it is dropped, in whatever state that happens.

use std::io::Write as _;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
use nix::sys::stat::Mode;

use crate::error::JailError;
use crate::groups;
use crate::groups::JailCgroups;
use crate::ids::idmap;
use crate::prepare::Prepared;
use crate::process::child::{self, ControlSockets};
use crate::process::identity::{self, FileIdentity};
use crate::process::init_handle::{HandedOut, InitHandle};
use crate::process::owner::{self, NamespaceOwner};
use crate::process::proof::ProofFacts;
use crate::process::second_clock::SecondClock;
use crate::process::terminal;
use crate::process::wire::{ChildFact, ChildMessage};
use crate::rootfs::changes;
use crate::rootfs::{OverlaySides, WrittenPlace};
use crate::shifted_clock::ShiftedClock;
use crate::shifted_clock::followed::FollowedProgram;
use crate::sys::{self, CloneSide};
use crate::tally::UsageTally;
use turnkey_facts::{ChangedFile, LayerReport, Limit, MetLimit, Status, Usage, Written};

impl Prepared {
    /// The groups, still empty, for a proof that whoever watches them is awake; `None` where this
    /// caller can have no group.
    pub fn cgroup(&self) -> Option<&JailCgroups> {
        self.tally.groups()
    }

    /// Starts the jail's first process and waits until the program's process has proved every
    /// layer from inside and stands before execve(2).
    ///
    /// The jail dies with the thread that calls this, prctl(2) `PR_SET_PDEATHSIG`: a runner with
    /// many threads starts its jails from one that stays until they have ended.
    pub fn spawn(self) -> Result<Held, JailError> {
        self.start()?.held()
    }

    /// The first half of [`Prepared::spawn`]: starts the jail's first process, which confines itself from here on. Its
    /// maker has time for something else until it asks for the [held](Confining::held) jail, which dies with the thread that calls this.
    pub fn start(self) -> Result<Confining, JailError> {
        self.start_with(Vec::new)
    }

    /// The same, with the content of the file whose content is [known late](crate::plan::RootfsStep::Late). It is asked for when there is
    /// a process of the jail, which has a copy of this one's memory as it was before: a secret that is made here is in none.
    pub fn start_with(mut self, late: impl FnOnce() -> Vec<u8>) -> Result<Confining, JailError> {
        let (control, their_control) = socket_pair()?;
        let (lifeline, their_lifeline) = socket_pair()?;
        let failed = |source| JailError::System {
            act: "act as the jail's user, who is to own its namespaces",
            source,
        };
        let owner = NamespaceOwner::become_user(self.id.user).map_err(failed)?;
        let cloned = sys::clone3(
            u64::from(self.namespaces.cast_unsigned()),
            self.tally.groups().map(JailCgroups::directory),
        );
        let back = match cloned {
            // It becomes another by its own steps, and unlocks nothing.
            Ok(CloneSide::Child) => {
                std::mem::forget(owner);
                Ok(())
            }
            _ => owner.map_or(Ok(()), NamespaceOwner::back),
        };
        let (pid, pidfd) = match cloned.map_err(JailError::namespaces)? {
            CloneSide::Child => {
                drop((control, lifeline));
                let lines = ControlSockets {
                    control: their_control.as_fd(),
                    lifeline: their_lifeline.as_fd(),
                };
                child::run(&self.orders, lines)
            }
            CloneSide::Parent { pid, pidfd } => (pid, pidfd),
        };
        drop((their_control, their_lifeline));
        let init = InitHandle {
            pid,
            pidfd,
            control,
            lifeline,
            ended: false,
        };
        back.map_err(failed)?;
        owner::prove(pid, self.id.user)?;
        idmap::write_maps(pid, self.orders.inside_id, self.id).map_err(|source| {
            JailError::System {
                act: "map the jail's user",
                source,
            }
        })?;
        let network = match self.is_entered {
            true => Some(network_of(pid)?),
            false => None,
        };
        if let Some(file) = self.late.take() {
            // It reads this when it has had its byte.
            let written = std::fs::File::from(file).write_all(&late());
            written.map_err(|error| JailError::System {
                act: "hand a file to the jail",
                source: Errno::from_raw(error.raw_os_error().unwrap_or(0)),
            })?;
        }
        init.send_byte()?;
        let written = self.overlay.as_ref().map(|sides| sides.upper.as_fd());
        let own_network = !self.expectation.shares_network;
        self.tally.begin((pid, own_network), written)?;
        Ok(Confining {
            init,
            network,
            prepared: self,
        })
    }
}

/// A jail whose first process confines itself.
// The order of the fields is the order of the end: processes, then groups.
#[derive(Debug)]
pub struct Confining {
    init: InitHandle,
    network: Option<OwnedFd>,
    prepared: Prepared,
}

impl Confining {
    /// Waits until the program's process has proved every layer from inside and stands before execve(2).
    pub fn held(self) -> Result<Held, JailError> {
        // Whatever fails, the process goes before the groups: what is named last is dropped first.
        let Confining {
            prepared,
            init,
            network,
        } = self;
        let (sight, handed_out) = init
            .watch_confinement()
            .map_err(|error| prepared.orders.blame_proc(error))
            .map_err(|error| prepared.orders.with_place(error.blame_the_host()))?;
        let mut reports = sight.verify(&prepared.expectation)?;
        reports.extend(prepared.reports);
        if let Some(groups) = prepared.tally.groups() {
            let limits = &prepared.group_limits;
            let proved = groups::proof::prove(groups, limits, init.pid, &mut reports);
            // Who failed in the meantime is in no group's list; what was said then is the reason.
            proved.map_err(|error| init.failure().unwrap_or_else(|| error.into()))?;
        }
        reports.sort_by_key(|report| report.layer);
        require_program(&sight, &prepared.candidates, &prepared.program)?;
        let HandedOut {
            listeners,
            terminal,
        } = handed_out;
        terminal::prove(&prepared.orders.streams, terminal.as_ref())?;
        let listeners: Vec<TcpListener> = listeners.into_iter().map(TcpListener::from).collect();
        if listeners.len() != prepared.orders.listeners.len() {
            let came = listeners.len();
            return Err(JailError::Unexpected(format!("{came} listeners")));
        }
        Ok(Held {
            init,
            clock: prepared.orders.clock,
            shifted: prepared.shifted,
            answerer: None,
            listeners,
            network,
            terminal,
            tally: prepared.tally,
            overlay: prepared.overlay,
            places: prepared.places,
            reports,
        })
    }
}

/// The network namespace that a jail's first process was born in. While that process waits for its user it can be looked into.
fn network_of(init: libc::pid_t) -> Result<OwnedFd, JailError> {
    let path = format!("/proc/{init}/ns/net");
    nix::fcntl::open(
        path.as_str(),
        OFlag::O_RDONLY | OFlag::O_CLOEXEC,
        Mode::empty(),
    )
    .map_err(|source| JailError::System {
        act: "open the jail's network namespace",
        source,
    })
}

fn socket_pair() -> Result<(OwnedFd, OwnedFd), JailError> {
    let made = socketpair(
        AddressFamily::Unix,
        SockType::SeqPacket,
        None,
        SockFlag::SOCK_CLOEXEC,
    );
    made.map_err(|source| JailError::System {
        act: "make the control socket",
        source,
    })
}

/// The program was looked for from inside, before anything of it ran.
fn require_program(
    sight: &ProofFacts,
    candidates: &[PathBuf],
    program: &str,
) -> Result<(), JailError> {
    let found = sight
        .get(ChildFact::Program)
        .and_then(|index| usize::try_from(index).ok());
    match found {
        Some(index) if index < candidates.len() => Ok(()),
        Some(index) if index > candidates.len() => {
            Err(JailError::NotExecutable(program.to_owned()))
        }
        _ => Err(JailError::NotFound(program.to_owned())),
    }
}

/// A jail whose program is one execve(2) away.
// The order of the fields is the order of the end: processes, then groups.
#[derive(Debug)]
pub struct Held {
    init: InitHandle,
    clock: SecondClock,
    shifted: Option<ShiftedClock>,
    answerer: Option<libc::pid_t>,
    tally: UsageTally,
    overlay: Option<OverlaySides>,
    places: Vec<WrittenPlace>,
    reports: Vec<LayerReport>,
    listeners: Vec<TcpListener>,
    network: Option<OwnedFd>,
    terminal: Option<OwnedFd>,
}

impl Held {
    /// The outer end of the program's terminal, pty(7), of a jail that was prepared with [`StandardStreams::Terminal`]: what is
    /// written here is typed there. Whoever drops it hangs up.
    ///
    /// [`StandardStreams::Terminal`]: crate::StandardStreams::Terminal
    pub fn take_terminal(&mut self) -> Option<OwnedFd> {
        self.terminal.take()
    }

    /// The sockets that wait in the jail's network for what the policy allows, under
    /// [`NetworkMode::Allow`](turnkey_policy::NetworkMode::Allow); they do not block. Where a connection was to go is
    /// its local address here, getsockname(2): the caller holds it against
    /// [`allows`](turnkey_policy::endpoint::allows) once more and passes on what is sent. Whoever drops them refuses all connections.
    pub fn take_listeners(&mut self) -> Vec<TcpListener> {
        std::mem::take(&mut self.listeners)
    }

    /// The jail's network namespace, network_namespaces(7), where the policy publishes ports of it, and under
    /// [`NetworkMode::Sinkhole`](turnkey_policy::NetworkMode::Sinkhole), whose every address is local in it and answered by nobody yet.
    pub fn take_network(&mut self) -> Option<OwnedFd> {
        self.network.take()
    }

    /// The groups, for the monitor; `None` where this caller can have no group.
    pub fn cgroup(&self) -> Option<&JailCgroups> {
        self.tally.groups()
    }

    /// The layers that hold, each with its proof.
    pub fn enforcement(&self) -> &[LayerReport] {
        &self.reports
    }

    /// The file that `path` leads to inside, links followed; `None` when nothing is there.
    ///
    /// # Errors
    /// When it cannot be looked for, or lies where files have no identity: a file system that numbers
    /// the files of several devices each by themselves, as btrfs does those of subvolumes.
    pub fn identify(&self, path: &[u8]) -> Result<Option<FileIdentity>, JailError> {
        identity::file_identity(self.init.pid, path)
    }

    /// Has a [clock of the jail's own](ShiftedClock) wait for this thread of the caller's: as long as it works on an answer to the
    /// program, gettid(2), no time goes by inside.
    pub fn answered_by(&mut self, thread: libc::pid_t) {
        self.answerer = Some(thread);
    }

    /// Lets the program start.
    pub fn release(self) -> Result<Running, JailError> {
        self.clock.start().map_err(|source| JailError::System {
            act: "start the clock of the jail's first process",
            source,
        })?;
        let shifted = self.shifted;
        let followed =
            shifted.map(|clock| FollowedProgram::start(clock, self.answerer, self.init.pid));
        let followed = followed.transpose()?;
        self.init.send_byte()?;
        Ok(Running {
            init: self.init,
            followed,
            tally: self.tally,
            overlay: self.overlay,
            places: self.places,
            reports: self.reports,
            started: Instant::now(),
            status: Status::Unknown,
        })
    }
}

/// A jail whose program runs.
#[derive(Debug)]
pub struct Running {
    init: InitHandle,
    followed: Option<FollowedProgram>,
    tally: UsageTally,
    overlay: Option<OverlaySides>,
    places: Vec<WrittenPlace>,
    reports: Vec<LayerReport>,
    started: Instant,
    status: Status,
}

/// News from inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JailNews {
    /// The program could not be executed after all.
    ExecFailed(Errno),
    /// The program ended; its status is known now.
    Ended,
    /// The wall clock ran out, and the jail's first process ends the jail by itself, because its supervisor has not:
    /// somebody had stopped it.
    OutOfTime,
    /// The jail's first process is gone, and with it everything inside.
    Gone,
}

/// The facts of a finished jail.
#[derive(Debug)]
pub struct JailExit {
    /// The program's exit status.
    pub status: Status,
    /// The use of the process tree.
    pub usage: Usage,
    /// The limits that the kernel held by refusing more, also those that ended the run.
    pub met: Vec<MetLimit>,
    /// The files that differ from the caller's directory, by their paths in it, and those of the rest of the tree that differ, by
    /// their whole paths; sorted, at most 10 000.
    pub changed: Vec<ChangedFile>,
    /// The number of files that differ beyond those of [`JailExit::changed`]. What lies in a directory below 64 others
    /// counts as one.
    pub changed_unlisted: u64,
    /// The fill of the side of the workspace that takes the writes; `None` without one.
    pub written: Option<Written>,
    /// The layers that held, each with its proof.
    pub enforcement: Vec<LayerReport>,
    /// For [`JailExit::export`].
    pub(crate) overlay: Option<OverlaySides>,
    /// For [`JailExit::keep`].
    pub(crate) places: Vec<WrittenPlace>,
}

impl Running {
    /// Readable when [`Running::news`] has something to say.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.init.control.as_fd()
    }

    /// The next news. Blocks unless [`Running::descriptor`] is readable.
    pub fn news(&mut self) -> Result<JailNews, JailError> {
        Ok(match self.init.receive()? {
            Some(ChildMessage::Exited(status)) => {
                self.status = program_status(status);
                JailNews::Ended
            }
            Some(ChildMessage::OutOfTime) => JailNews::OutOfTime,
            Some(ChildMessage::ExecFailed(errno)) => JailNews::ExecFailed(errno),
            // Between the release and execve(2).
            Some(ChildMessage::Failed { step, index, errno }) => {
                return Err(JailError::Step { step, index, errno });
            }
            Some(other) => return Err(JailError::Unexpected(format!("{other:?}"))),
            None => JailNews::Gone,
        })
    }

    /// The groups; `None` where this caller can have no group.
    pub fn groups(&self) -> Option<&JailCgroups> {
        self.tally.groups()
    }

    /// The limit that has been passed and ends the run, if any: what the kernel counted, and what a look at the
    /// jail's processes finds where it counts nothing. Ask every few hundredths of a second, or less often
    /// while it [is still](Running::is_still), and [`Running::kill`] then.
    pub fn exceeded(&mut self) -> Option<Limit> {
        let is_over = self.followed.as_ref().is_some_and(FollowedProgram::is_over);
        let exceeded = self.tally.exceeded(self.started.elapsed());
        exceeded.or(is_over.then_some(Limit::Wall))
    }

    /// True when nothing of the jail has run between the last two looks for a passed limit, and the
    /// kernel itself holds it to its limits: the next look may wait.
    pub fn is_still(&self) -> bool {
        self.tally.is_still()
    }

    /// Since the release.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Passes a signal on to the program and the processes of its group, as if it had come from
    /// inside.
    pub fn pass_on(&self, signal: u8) -> Result<(), JailError> {
        self.init.pass_on(signal)
    }

    /// Kills every process of the jail at once.
    pub fn kill(&self) -> Result<(), JailError> {
        self.tally.kill(&self.init)
    }

    /// Ends what is left, reads what it used and changed, and removes every trace.
    pub fn finish(mut self) -> Result<JailExit, JailError> {
        let wall = self.started.elapsed();
        self.tally.kill(&self.init)?;
        let used = self.init.end();
        if let Some(mut followed) = self.followed.take() {
            followed.finish();
        }
        let met = self.tally.met(wall);
        let usage = self.tally.usage(wall, used);
        let changes = changes::collect(self.overlay.as_ref(), &self.places);
        let written = self.overlay.as_ref().and_then(OverlaySides::written);
        self.tally.remove()?;
        Ok(JailExit {
            status: self.status,
            usage,
            met,
            changed: changes.files,
            changed_unlisted: changes.omitted,
            written,
            enforcement: self.reports,
            overlay: self.overlay,
            places: self.places,
        })
    }
}

fn program_status(status: i32) -> Status {
    let signal = status & 0x7f;
    if signal == 0 {
        Status::Exited(u8::try_from((status >> 8) & 0xff).unwrap_or(u8::MAX))
    } else {
        Status::Signaled(signal)
    }
}
