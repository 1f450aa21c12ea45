//! The supervisor's side of a jail's life: `Plan` → `Prepared` → `Held` → `Running` → `Exit`.
//!
//! Runs as: the supervisor, outside the jail. Each state is a type; what it owns is cleared away
//! when it is dropped, in whatever state that happens.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::resource::Resource;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
use turnkey_policy::{Layer, Limits};

use crate::changes;
use crate::child::{self, Exec, Orders, Rule};
use crate::error::JailError;
use crate::filter::Filters;
use crate::groups::{GroupNames, Groups};
use crate::hierarchy::Controller;
use crate::idmap::{self, HostId};
use crate::keeper::Keeper;
use crate::landlock;
use crate::outcome::{ChangedFile, LayerReport, Status, Usage};
use crate::plan::{INSIDE_ID, Plan, c_string};
use crate::privileges;
use crate::proof::{Expectation, Sight};
use crate::sys::{self, Cloned};
use crate::tree::{self, OverlaySides};
use crate::wire::{Fact, Message, PACKET};

/// How long the child may take from one message to the next, before the run is given up.
const PATIENCE: Duration = Duration::from_secs(20);

/// Everything that can be made ready before there is a process.
#[derive(Debug)]
pub struct Prepared {
    orders: Orders,
    // The pointers of `orders.exec` lead into these.
    _strings: Vec<std::ffi::CString>,
    groups: Groups,
    // After the groups: the keeper looks after them until they are gone.
    keeper: Keeper,
    id: HostId,
    overlay: Option<OverlaySides>,
    reports: Vec<LayerReport>,
    expectation: Expectation,
    program: String,
    candidates: Vec<PathBuf>,
}

impl Plan {
    /// Makes everything ready. `streams` become the program's standard input, output and error.
    ///
    /// # Errors
    /// Any layer the policy requires and this host cannot give, and whatever the kernel refuses.
    pub fn prepare(&self, streams: [OwnedFd; 3]) -> Result<Prepared, JailError> {
        let missing = privileges::missing();
        if !missing.is_empty() {
            return Err(JailError::Privileges(missing));
        }
        let names = GroupNames::new(&self.host.hierarchies, &unique_name());
        let keeper = Keeper::start(&names).map_err(JailError::Keeper)?;
        let groups = Groups::create(names)?;
        let limits = &self.policy.limits;
        groups.limit(limits)?;
        let mut reports = self.group_reports(&groups)?;
        let landlock = self.landlock(&mut reports)?;
        let id = HostId::for_group(groups.id());
        let tree = tree::open(&self.tree, id)?;
        let filters = Filters::build(&self.policy.syscalls)?;
        let (exec, strings) = self.exec();
        let expectation = Expectation {
            own_namespaces: own_namespaces()?,
            landlock: landlock
                .is_some()
                .then(|| landlock::describe(self.host.landlock_abi)),
            syscalls: filters.allowed,
            rlimits: RLIMIT_NAMES
                .into_iter()
                .zip(rlimits(limits))
                .map(|(name, (_, value))| (name, value))
                .collect(),
        };
        let orders = Orders {
            start_memory: own_start_memory()?,
            hostname: c_string(self.policy.identity.hostname.as_ref()),
            loopback: self.has_loopback(),
            inside_id: INSIDE_ID,
            root_options: root_options(),
            tree: tree.steps,
            rules: if landlock.is_some() {
                self.rules()
            } else {
                Vec::new()
            },
            landlock,
            rlimits: rlimits(limits).to_vec(),
            last_capability: self.host.last_capability,
            filters,
            streams,
            exec,
        };
        Ok(Prepared {
            orders,
            _strings: strings,
            groups,
            keeper,
            id,
            overlay: tree.overlay,
            reports,
            expectation,
            program: self.arguments[0].to_string_lossy().into_owned(),
            candidates: self.candidates.clone(),
        })
    }

    /// What the groups hold, per layer, or why the run cannot be.
    fn group_reports(&self, groups: &Groups) -> Result<Vec<LayerReport>, JailError> {
        let limits = &self.policy.limits;
        let layers = [
            (
                Layer::Memory,
                Controller::Memory,
                format!("{} bytes, swap {}", limits.memory, limits.swap),
            ),
            (
                Layer::Pids,
                Controller::Pids,
                format!("{} tasks", limits.pids),
            ),
            (
                Layer::Cpu,
                Controller::Cpu,
                format!("{} % of a processor", limits.cpu_percent),
            ),
        ];
        let mut reports = Vec::new();
        for (layer, controller, requested) in layers {
            let name = controller.name();
            if groups.missing().contains(&controller) {
                let reason = format!("the controller `{name}` is in no hierarchy of this host");
                reports.push(self.without(layer, &requested, reason)?);
                continue;
            }
            if layer == Layer::Memory && !groups.swap_is_bounded() {
                let reason = "this kernel does not account swap: boot with `swapaccount=1`, or turn swap off";
                reports.push(self.without(layer, &requested, reason.to_owned())?);
                continue;
            }
            let read_back = groups.limits_in_force(limits, controller);
            let proof: Vec<String> = read_back
                .iter()
                .map(|(file, value)| format!("{file} is {value}"))
                .collect();
            let effective = requested.clone();
            let proof = Some(proof.join("; "));
            reports.push(LayerReport {
                layer,
                requested,
                effective,
                proof,
                degraded: None,
            });
        }
        Ok(reports)
    }

    /// The report of a layer that cannot be had: an error, unless the policy does without.
    fn without(
        &self,
        layer: Layer,
        requested: &str,
        reason: String,
    ) -> Result<LayerReport, JailError> {
        if self.policy.enforcement.required.contains(&layer) {
            return Err(JailError::Layer { layer, reason });
        }
        let requested = requested.to_owned();
        Ok(LayerReport {
            layer,
            requested,
            effective: "nothing".into(),
            proof: None,
            degraded: Some(reason),
        })
    }

    fn landlock(&self, reports: &mut Vec<LayerReport>) -> Result<Option<OwnedFd>, JailError> {
        if self.host.landlock_abi > 0 {
            return Ok(Some(landlock::ruleset(self.host.landlock_abi)?));
        }
        let reason = "this kernel has no Landlock, or it is not in `lsm=`".to_owned();
        reports.push(self.without(Layer::Landlock, "file system", reason)?);
        Ok(None)
    }

    fn rules(&self) -> Vec<Rule> {
        let rule = |grant: &crate::plan::Grant| Rule {
            path: c_string(grant.path.as_os_str()),
            access: landlock::grant(grant.place, self.host.landlock_abi, grant.directory),
        };
        self.grants.iter().map(rule).collect()
    }

    fn exec(&self) -> (Exec, Vec<std::ffi::CString>) {
        let arguments: Vec<_> = self
            .arguments
            .iter()
            .map(|argument| c_string(argument))
            .collect();
        let environment: Vec<_> = self
            .environment
            .iter()
            .map(|variable| c_string(variable))
            .collect();
        let pointers = |strings: &[std::ffi::CString]| {
            strings
                .iter()
                .map(|string| string.as_ptr())
                .chain([std::ptr::null()])
                .collect()
        };
        let exec = Exec {
            candidates: self
                .candidates
                .iter()
                .map(|path| c_string(path.as_os_str()))
                .collect(),
            arguments: pointers(&arguments),
            environment: pointers(&environment),
            directory: c_string(self.directory.as_os_str()),
        };
        (exec, arguments.into_iter().chain(environment).collect())
    }
}

/// A name that no living group of this host has: the process, and a count within it, and the time
/// for other pid namespaces.
fn unique_name() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let nanoseconds = since_epoch.map_or(0, |elapsed| elapsed.subsec_nanos());
    format!("turnkey-{}-{count}-{nanoseconds:08x}", std::process::id())
}

/// Small: it holds empty directories, symlinks and a few short files.
fn root_options() -> Vec<(std::ffi::CString, std::ffi::CString)> {
    let options = [(c"size", c"1M"), (c"mode", c"0755")];
    options
        .iter()
        .map(|(name, value)| (name.to_owned().into(), value.to_owned().into()))
        .collect()
}

fn own_start_memory() -> Result<sys::StartMemory, JailError> {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let act = "find this process's own arguments in /proc/self/stat";
    sys::StartMemory::parse(&stat).ok_or(JailError::System {
        act,
        source: Errno::ENOTSUP,
    })
}

const RLIMIT_NAMES: [&str; 3] = ["Max open files", "Max file size", "Max core file size"];

/// A core size of 1 byte is the kernel's sign for "not even through a pipe", do_coredump() in
/// fs/coredump.c: a limit of 0 would still start the host's crash handler.
fn rlimits(limits: &Limits) -> [(Resource, u64); 3] {
    [
        (Resource::RLIMIT_NOFILE, u64::from(limits.open_files)),
        (Resource::RLIMIT_FSIZE, limits.file_size),
        (Resource::RLIMIT_CORE, 1),
    ]
}

fn own_namespaces() -> Result<BTreeMap<Fact, u64>, JailError> {
    let inode =
        |(fact, path): (Fact, &std::ffi::CStr)| Ok((fact, nix::sys::stat::stat(path)?.st_ino));
    let seen: Result<_, Errno> = Fact::NAMESPACES.into_iter().map(inode).collect();
    seen.map_err(|source| JailError::System {
        act: "look at the namespaces in /proc/self/ns",
        source,
    })
}

fn namespaces() -> u64 {
    // The cgroup namespace is made by the child, once it is in all its groups.
    let flags = libc::CLONE_NEWUSER
        | libc::CLONE_NEWNS
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWNET
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWUTS
        | libc::CLONE_NEWTIME;
    u64::from(flags.cast_unsigned())
}

impl Prepared {
    /// The groups, still empty, for a proof that whoever watches them is awake.
    pub fn cgroup(&self) -> &Groups {
        &self.groups
    }

    /// Starts the jail's first process and waits until the program's process has proved every
    /// layer from inside and stands before execve(2).
    pub fn spawn(self) -> Result<Held, JailError> {
        let (ours, theirs) = socketpair(
            AddressFamily::Unix,
            SockType::SeqPacket,
            None,
            SockFlag::SOCK_CLOEXEC,
        )
        .map_err(|source| JailError::System {
            act: "make the control socket",
            source,
        })?;
        let cloned = sys::clone3(namespaces(), Some(self.groups.directory()));
        let (pid, pidfd) = match cloned.map_err(JailError::Clone)? {
            Cloned::Child => {
                drop(ours);
                child::run(&self.orders, theirs.as_fd())
            }
            Cloned::Parent { pid, pidfd } => (pid, pidfd),
        };
        drop(theirs);
        let init = Init {
            pid,
            pidfd,
            control: ours,
        };
        idmap::write_maps(pid, self.id).map_err(|source| JailError::System {
            act: "map the jail's user",
            source,
        })?;
        self.groups.join_legacy(pid)?;
        init.send_byte()?;
        let sight = init.watch_confinement()?;
        let mut reports = sight.verify(&self.expectation)?;
        reports.extend(self.reports);
        reports.sort_by_key(|report| report.layer);
        require_program(&sight, &self.candidates, &self.program)?;
        Ok(Held {
            init,
            groups: self.groups,
            keeper: self.keeper,
            overlay: self.overlay,
            reports,
        })
    }
}

/// The program was looked for from inside, before anything of it ran.
fn require_program(sight: &Sight, candidates: &[PathBuf], program: &str) -> Result<(), JailError> {
    let found = sight
        .get(Fact::Program)
        .and_then(|index| usize::try_from(index).ok());
    match found {
        Some(index) if index < candidates.len() => Ok(()),
        Some(index) if index > candidates.len() => {
            Err(JailError::NotExecutable(program.to_owned()))
        }
        _ => Err(JailError::NotFound(program.to_owned())),
    }
}

/// The jail's process 1, from outside. Dropping it kills it, and with it the jail.
#[derive(Debug)]
struct Init {
    pid: libc::pid_t,
    pidfd: OwnedFd,
    control: OwnedFd,
}

impl Init {
    fn send_byte(&self) -> Result<(), JailError> {
        let sent = nix::sys::socket::send(
            std::os::fd::AsRawFd::as_raw_fd(&self.control),
            b"g",
            nix::sys::socket::MsgFlags::MSG_NOSIGNAL,
        );
        sent.map(drop).map_err(|source| JailError::System {
            act: "talk to the jail's first process",
            source,
        })
    }

    /// Reads messages until the child is ready; a failure is told by its step.
    fn watch_confinement(&self) -> Result<Sight, JailError> {
        let mut sight = Sight::default();
        loop {
            self.wait_for_message()?;
            match self.receive()? {
                Some(Message::Fact(fact, value)) => sight.fact(fact, value),
                Some(Message::Text(text, piece)) => sight.text(text, &piece),
                Some(Message::Ready) => return Ok(sight),
                Some(Message::Failed { step, index, errno }) => {
                    return Err(JailError::Step { step, index, errno });
                }
                Some(other) => return Err(JailError::Unexpected(format!("{other:?}"))),
                None => return Err(JailError::Died),
            }
        }
    }

    fn wait_for_message(&self) -> Result<(), JailError> {
        let deadline = Instant::now() + PATIENCE;
        let timeout = PollTimeout::try_from(PATIENCE).unwrap_or(PollTimeout::MAX);
        loop {
            let mut waiting = [PollFd::new(self.control.as_fd(), PollFlags::POLLIN)];
            match poll(&mut waiting, timeout) {
                Ok(0) => return Err(JailError::Stalled(PATIENCE)),
                Ok(_) => return Ok(()),
                Err(Errno::EINTR) if Instant::now() < deadline => {}
                Err(source) => {
                    return Err(JailError::System {
                        act: "wait for the jail's first process",
                        source,
                    });
                }
            }
        }
    }

    /// The next message; `None` when the last process that could send one is gone.
    fn receive(&self) -> Result<Option<Message>, JailError> {
        let mut packet = [0; PACKET];
        loop {
            match nix::unistd::read(&self.control, &mut packet) {
                Ok(0) | Err(Errno::ECONNRESET) => return Ok(None),
                Ok(length) => {
                    let message = Message::decode(&packet[..length]);
                    return message
                        .map(Some)
                        .ok_or_else(|| JailError::Unexpected(format!("{length} bytes")));
                }
                Err(Errno::EINTR) => {}
                Err(source) => {
                    return Err(JailError::System {
                        act: "hear the jail's first process",
                        source,
                    });
                }
            }
        }
    }
}

impl Drop for Init {
    fn drop(&mut self) {
        // ESRCH when it is gone already, which is as good.
        let _ = sys::signal(self.pidfd.as_fd(), libc::SIGKILL);
        while nix::sys::wait::waitpid(nix::unistd::Pid::from_raw(self.pid), None)
            == Err(Errno::EINTR)
        {}
    }
}

/// A jail whose program is one execve(2) away.
// The order of the fields is the order of the end: processes, groups, keeper.
#[derive(Debug)]
pub struct Held {
    init: Init,
    groups: Groups,
    keeper: Keeper,
    overlay: Option<OverlaySides>,
    reports: Vec<LayerReport>,
}

impl Held {
    /// The v2 group, for the monitor.
    pub fn cgroup(&self) -> &Groups {
        &self.groups
    }

    /// What holds, with its proof.
    pub fn enforcement(&self) -> &[LayerReport] {
        &self.reports
    }

    /// Lets the program start.
    pub fn release(self) -> Result<Running, JailError> {
        self.init.send_byte()?;
        Ok(Running {
            init: self.init,
            groups: self.groups,
            keeper: self.keeper,
            overlay: self.overlay,
            reports: self.reports,
            started: Instant::now(),
            status: Status::Unknown,
        })
    }
}

/// A jail whose program runs.
#[derive(Debug)]
pub struct Running {
    init: Init,
    groups: Groups,
    keeper: Keeper,
    overlay: Option<OverlaySides>,
    reports: Vec<LayerReport>,
    started: Instant,
    status: Status,
}

/// News from inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// The program could not be executed after all.
    ExecFailed(Errno),
    /// The program ended; its status is known now.
    Ended,
    /// The jail's first process is gone, and with it everything inside.
    Gone,
}

/// Everything there is to know afterwards.
#[derive(Debug)]
pub struct Exit {
    /// How the program ended.
    pub status: Status,
    /// What the tree used.
    pub usage: Usage,
    /// What differs from the caller's directory.
    pub changed: Vec<ChangedFile>,
    /// What held, with its proof.
    pub enforcement: Vec<LayerReport>,
}

impl Running {
    /// Readable when [`Running::news`] has something to say.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.init.control.as_fd()
    }

    /// The next news. Blocks unless [`Running::descriptor`] is readable.
    pub fn news(&mut self) -> Result<News, JailError> {
        Ok(match self.init.receive()? {
            Some(Message::Exited(status)) => {
                self.status = program_status(status);
                News::Ended
            }
            Some(Message::ExecFailed(errno)) => News::ExecFailed(errno),
            Some(other) => return Err(JailError::Unexpected(format!("{other:?}"))),
            None => News::Gone,
        })
    }

    /// The groups, for limits and usage.
    pub fn groups(&self) -> &Groups {
        &self.groups
    }

    /// Since the release.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Kills every process of the jail at once.
    pub fn kill(&self) -> Result<(), JailError> {
        Ok(self.groups.kill()?)
    }

    /// Ends what is left, reads what it used and changed, and removes every trace.
    pub fn finish(self) -> Result<Exit, JailError> {
        let wall = self.started.elapsed();
        self.groups.kill()?;
        drop(self.init);
        let usage = self.groups.usage(wall);
        let changed = self
            .overlay
            .as_ref()
            .map(changes::collect)
            .unwrap_or_default();
        self.groups.remove()?;
        drop(self.keeper);
        Ok(Exit {
            status: self.status,
            usage,
            changed,
            enforcement: self.reports,
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
