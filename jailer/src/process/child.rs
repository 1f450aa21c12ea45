//! The first process of the jail: confines itself step by step, then forks the program.
//!
//! Runs as: process 1 of the new pid namespace. It starts with every capability *inside* the new
//! user namespace and none on the host, and gives them up on the way. The order matters; each step
//! says why it stands where it stands. Nothing here allocates, locks or logs: the supervisor may
//! have had other threads when it forked.

use std::cell::Cell;
use std::ffi::CString;
use std::fs::File;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag};
use nix::sched::CloneFlags;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::stat::Mode;

use crate::error::JailError;
use crate::filter::SeccompFilters;
use crate::host::kernel;
use crate::ids::ceilings::{self, UcountCeiling};
use crate::landlock::HandledAccess;
use crate::landlock::probe::{self, LandlockProbes};
use crate::process::init;
use crate::process::listeners;
use crate::process::netlink::{self, NetlinkRequest};
use crate::process::program::{self, ExecSpec};
use crate::process::proof::RouteProbes;
use crate::process::rlimits::ResourceLimit;
use crate::process::root;
use crate::process::second_clock::SecondClock;
use crate::process::start_memory::StartMemory;
use crate::process::terminal::{self, ArrangedStreams, StandardStreams};
use crate::process::wire::{
    ChildFact, ChildSender, ChildStep, FactPacket, errno_of, wait_for_a_byte,
};
use crate::rootfs::{ReplayStep, WritableTree};
use crate::sys::{self, FilterInstruction, MountAttributes};

/// The descriptor of the child's end of the control socket, once the rest is closed.
pub const CONTROL: i32 = 3;
/// The descriptor on which the init hears of signals to pass on, and of its supervisor's end.
pub const LIFELINE: i32 = 4;
/// The descriptor on which the init hears of children that ended, signalfd(2).
pub const CHILDREN: i32 = 5;
/// The descriptor of the init's own clock, timerfd_create(2).
pub const CLOCK: i32 = 6;
/// The lowest descriptor of the standard streams until they are put in place.
const LOWEST_SPARE: i32 = 10;

/// A rule of Landlock, ready for the kernel.
#[derive(Debug)]
pub struct PreparedRule {
    /// Relative to the root.
    pub path: CString,
    /// Access bits.
    pub access: u64,
}

/// The spec of the child: all that it needs, made before it is.
#[derive(Debug)]
pub struct ChildSpec {
    /// The supervisor's command line and environment, as this process has inherited them.
    pub start_memory: StartMemory,
    /// For sethostname(2).
    pub hostname: CString,
    /// True when loopback comes up.
    pub loopback: bool,
    /// The requests that make addresses local.
    pub routes: Vec<NetlinkRequest>,
    /// The addresses on which sockets wait for the supervisor to accept connections.
    pub listeners: Vec<SocketAddr>,
    /// The addresses by which the routes are proved.
    pub route_probes: RouteProbes,
    /// The ceilings of its user namespace.
    pub ceilings: Vec<UcountCeiling>,
    /// User and group inside.
    pub inside_id: u32,
    /// True when the kernel lets the supplementary groups be dropped.
    pub drops_supplementary_gids: bool,
    /// Bytes that the root's own tmpfs may hold.
    pub root_options: Vec<(CString, CString)>,
    /// The file system of the jail, step by step.
    pub rootfs: Vec<ReplayStep>,
    /// The mounts of a tree that can be written; `None` for one that is read-only.
    pub tree: Option<WritableTree>,
    /// A directory on no mount of the jail's, with the file that proves Landlock, where the jail's own root is granted
    /// whole.
    pub uncovered: Option<OwnedFd>,
    /// Handles everything, allows nothing yet; `None` when the policy does without.
    pub landlock: Option<(OwnedFd, HandledAccess)>,
    /// The rules of Landlock.
    pub rules: Vec<PreparedRule>,
    /// The access to the file that is standard input, by its name as by the descriptor: `LANDLOCK_ACCESS_FS_*`.
    pub input_access: Option<u64>,
    /// The rights that the program withholds from new files, where that is not inherited.
    pub umask: Option<Mode>,
    /// Each soft and hard.
    pub rlimits: Vec<ResourceLimit>,
    /// The namespaces that this process makes by itself.
    pub unshare: i32,
    /// The highest capability of this kernel.
    pub last_capability: u8,
    /// The syscall filters.
    pub filters: SeccompFilters,
    /// The filter of a program whose clock is not the host's.
    pub clock_filter: Option<Vec<FilterInstruction>>,
    /// Standard input, output, error: theirs.
    pub streams: StandardStreams,
    /// The init's own clock, which the supervisor starts.
    pub clock: SecondClock,
    /// The `tasks` files of its groups of cgroup v1; it is born into the one of v2.
    pub cgroup_tasks: Vec<File>,
    /// The program.
    pub exec: ExecSpec,
}

impl ChildSpec {
    /// Names the place where a step failed that is taken at many, by what the child was ordered.
    pub fn with_place(&self, error: JailError) -> JailError {
        let JailError::Step { step, index, errno } = error else {
            return error;
        };
        let index_in = usize::try_from(index).unwrap_or(usize::MAX);
        let place = match step {
            ChildStep::Rootfs => self.rootfs.get(index_in).map(ReplayStep::place),
            ChildStep::LandlockRules => {
                let rule = self.rules.get(index_in);
                rule.map(|rule| rule.path.to_string_lossy().into_owned())
            }
            ChildStep::Routes => self.routes.get(index_in).map(|route| route.place.clone()),
            ChildStep::Listeners => self.listeners.get(index_in).map(ToString::to_string),
            _ => None,
        };
        match place {
            Some(place) => JailError::StepAt { step, place, errno },
            None => JailError::Step { step, index, errno },
        }
    }

    /// In words what it means when the kernel gives no procfs, mount_too_revealing() in
    /// fs/namespace.c.
    pub fn blame_proc(&self, error: JailError) -> JailError {
        if let JailError::Step {
            step: ChildStep::Ceilings,
            errno: Errno::EPERM,
            ..
        } = error
        {
            return JailError::CoveredProc(Errno::EPERM);
        }
        let JailError::Step {
            step: ChildStep::Rootfs,
            index,
            errno: Errno::EPERM,
        } = error
        else {
            return error;
        };
        let step = usize::try_from(index)
            .ok()
            .and_then(|index| self.rootfs.get(index));
        match step {
            Some(ReplayStep::Mount { kind, .. }) if kind.as_c_str() == c"proc" => {
                JailError::CoveredProc(Errno::EPERM)
            }
            _ => error,
        }
    }
}

/// The result of a step: nothing, or the place in it and the error.
pub type Outcome = Result<(), (u32, Errno)>;

fn whole(result: Result<(), Errno>) -> Outcome {
    result.map_err(|errno| (0, errno))
}

/// The child's ends of the sockets to its supervisor.
#[derive(Clone, Copy)]
pub struct ControlSockets<'a> {
    /// The socket for failures and facts, and for the sign to go on.
    pub control: BorrowedFd<'a>,
    /// For the init alone: signals to pass on.
    pub lifeline: BorrowedFd<'a>,
}

/// Confines this process and turns into the jail's init. Never returns.
pub fn run(orders: &ChildSpec, lines: ControlSockets<'_>) -> ! {
    let placed = Cell::new(false);
    let confined = confine(orders, lines, &placed);
    let control = if placed.get() {
        sys::lend(CONTROL)
    } else {
        lines.control
    };
    if let Err((step, (index, errno))) = confined {
        ChildSender(control).failed(step, index, errno);
        sys::exit(1);
    }
    let sender = ChildSender(control);
    match sys::fork() {
        Ok(None) => program::run(&orders.exec, control),
        Ok(Some(program)) => init::run(program, sender),
        Err(errno) => {
            sender.failed(ChildStep::Fork, 0, errno);
            sys::exit(1)
        }
    }
}

/// The table of contents of a jail. `placed` becomes true when the control socket has its own
/// number.
fn confine(
    orders: &ChildSpec,
    lines: ControlSockets<'_>,
    placed: &Cell<bool>,
) -> Result<(), (ChildStep, (u32, Errno))> {
    let control = lines.control;
    let step = |step: ChildStep, outcome: Outcome| outcome.map_err(|failure| (step, failure));

    // First of all, so that nothing survives a supervisor that dies during the rest.
    step(ChildStep::DieWithSupervisor, whole(die_with_supervisor()))?;
    // What the supervisor was told, by arguments or environment, is not for those inside.
    orders.start_memory.forget();
    step(
        ChildStep::Start,
        whole(nix::sys::prctl::set_name(c"turnkey-init")),
    )?;
    step(ChildStep::Groups, enter_groups(&orders.cgroup_tasks))?;
    // Until the supervisor has written the id maps, this process is nobody.
    step(ChildStep::Start, whole(wait_for_a_byte(control)))?;
    step(ChildStep::Ceilings, ceilings::set(&orders.ceilings))?;
    step(ChildStep::Hostname, whole(set_hostname(orders)))?;
    step(
        ChildStep::Loopback,
        whole(if orders.loopback {
            sys::loopback_up()
        } else {
            Ok(())
        }),
    )?;
    // While this process has the capabilities of the network namespace's owner.
    step(ChildStep::Routes, netlink::make(&orders.routes))?;
    step(
        ChildStep::Listeners,
        listeners::hand_out(&orders.listeners, ChildSender(control)),
    )?;
    // Nothing changes the routes from here on, and later the filter may allow no socket.
    step(
        ChildStep::Listeners,
        whole(try_routes(orders.route_probes, ChildSender(control))),
    )?;
    // Before any file is made: a tmpfs refuses owners its namespace cannot name. The capabilities
    // stay, because the user left behind was not the namespace's root.
    step(ChildStep::Identity, whole(become_jail_user(orders)))?;
    // A change of user takes the death signal back.
    step(ChildStep::DieWithSupervisor, whole(die_with_supervisor()))?;
    // The tree is the same whatever the caller withholds from files of its own, which the program inherits.
    let withheld = nix::sys::stat::umask(Mode::empty());
    let root = make_root(orders).map_err(|errno| (ChildStep::Root, (0, errno)))?;
    step(
        ChildStep::Rootfs,
        match &orders.tree {
            None => root::build(&orders.rootfs, root.as_fd()),
            Some(tree) => root::build_writable(&orders.rootfs, root.as_fd(), tree),
        },
    )?;
    drop(root);
    step(ChildStep::Pivot, whole(pivot(orders.tree.is_some())))?;
    nix::sys::stat::umask(orders.umask.unwrap_or(withheld));
    // In the tree that the program will see, where its terminal has a name; before Landlock, so that no right is needed for it.
    let streams = terminal::arrange(&orders.streams, ChildSender(control));
    let streams = streams.map_err(|errno| (ChildStep::Terminal, (0, errno)))?;
    // After the pivot, so that the rules are on what the program will see.
    step(ChildStep::LandlockRules, allow(orders))?;
    step(
        ChildStep::CgroupNamespace,
        whole(make_cgroup_namespace(orders)),
    )?;
    // What needs capabilities ends here.
    step(
        ChildStep::Capabilities,
        drop_privileges(orders.last_capability),
    )?;
    // Landlock and seccomp demand it of the unprivileged, which this process is from now on.
    step(
        ChildStep::NoNewPrivileges,
        whole(sys::prctl(libc::PR_SET_NO_NEW_PRIVS, 1).map(drop)),
    )?;
    step(
        ChildStep::Landlock,
        whole(enforce_landlock(orders, ChildSender(control))),
    )?;
    step(
        ChildStep::Descriptors,
        whole(arrange_descriptors(orders, streams, lines, placed)),
    )?;
    // Not before the descriptors are few: the limit on their number may be smaller than what the
    // steps above needed.
    step(ChildStep::Rlimits, set_rlimits(orders))?;
    // Last, because it forbids most of the above.
    step(ChildStep::Seccomp, whole(install_filters(orders)))
}

fn die_with_supervisor() -> Result<(), Errno> {
    sys::prctl(
        libc::PR_SET_PDEATHSIG,
        u64::from(libc::SIGKILL.cast_unsigned()),
    )
    .map(drop)
}

/// By itself, as a single thread: whoever moves another process, or a whole one, waits until every CPU has
/// taken note, which is ten milliseconds; cgroup_procs_write_start() in kernel/cgroup/cgroup.c.
fn enter_groups(doors: &[File]) -> Outcome {
    for (index, door) in (0..).zip(doors) {
        nix::unistd::write(door, b"0").map_err(|errno| (index, errno))?;
    }
    Ok(())
}

/// Makes the cgroup namespace, whose root is the groups that this process is in.
fn make_cgroup_namespace(orders: &ChildSpec) -> Result<(), Errno> {
    nix::sched::unshare(CloneFlags::from_bits_retain(orders.unshare))
}

fn set_hostname(orders: &ChildSpec) -> Result<(), Errno> {
    use std::os::unix::ffi::OsStrExt;
    nix::unistd::sethostname(std::ffi::OsStr::from_bytes(orders.hostname.as_bytes()))
}

fn try_routes(tried: RouteProbes, sender: ChildSender<'_>) -> Result<(), Errno> {
    let tried = [
        (ChildFact::DeniedProbe, tried.denied_probe),
        (ChildFact::AllowedProbe, tried.allowed_probe),
    ];
    // Most networks have neither, and a packet wakes the supervisor.
    if tried.iter().all(|(_, address)| address.is_none()) {
        return Ok(());
    }
    let mut facts = FactPacket::NONE;
    for (fact, address) in tried {
        if let Some(address) = address {
            facts.add(fact, errno_of(listeners::route_to(address)))?;
        }
    }
    sender.facts(&facts)
}

fn become_jail_user(orders: &ChildSpec) -> Result<(), Errno> {
    if orders.drops_supplementary_gids {
        sys::leave_groups()?;
    }
    sys::become_group(orders.inside_id)?;
    sys::become_user(orders.inside_id)?;
    // The memory of this process is a copy of the supervisor's: nobody inside may look at it.
    sys::prctl(libc::PR_SET_DUMPABLE, 0).map(drop)
}

/// An empty tmpfs over the root directory, as the working directory of this process; not its root
/// yet.
fn make_root(orders: &ChildSpec) -> Result<OwnedFd, Errno> {
    let old = nix::fcntl::open(c"/", OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty())?;
    // Nothing that happens here may reach the host's mount namespace, nor the other way.
    let private = MountAttributes {
        propagation: libc::MS_PRIVATE,
        ..MountAttributes::default()
    };
    sys::mount_setattr(old.as_fd(), true, &private)?;
    let attributes = kernel::MOUNT_ATTR_NOSUID | kernel::MOUNT_ATTR_NODEV;
    let root = sys::new_mount(c"tmpfs", &orders.root_options, attributes)?;
    sys::attach(root.as_fd(), old.as_fd())?;
    nix::unistd::fchdir(&root)?;
    Ok(root)
}

/// pivot_root(2) with both arguments the same, as its manual page shows: the old root ends up on
/// top of the new one and is taken away. Then the new root is closed for writing, unless it `is_writable`.
fn pivot(is_writable: bool) -> Result<(), Errno> {
    nix::unistd::pivot_root(c".", c".")?;
    nix::mount::umount2(c".", nix::mount::MntFlags::MNT_DETACH)?;
    if is_writable {
        // The stage, which lay on top of the old root, was the first to go.
        nix::mount::umount2(c".", nix::mount::MntFlags::MNT_DETACH)?;
        return nix::unistd::chdir(c"/");
    }
    nix::unistd::chdir(c"/")?;
    let root = nix::fcntl::open(c"/", OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty())?;
    let attributes = MountAttributes {
        set: kernel::MOUNT_ATTR_RDONLY,
        ..MountAttributes::default()
    };
    sys::mount_setattr(root.as_fd(), false, &attributes)
}

fn allow(orders: &ChildSpec) -> Outcome {
    let Some((ruleset, _)) = &orders.landlock else {
        return Ok(());
    };
    for (index, rule) in (0..).zip(&orders.rules) {
        let place = nix::fcntl::openat(
            AT_FDCWD,
            rule.path.as_c_str(),
            OFlag::O_PATH | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW,
            Mode::empty(),
        );
        place
            .and_then(|place| sys::landlock_allow(ruleset.as_fd(), rule.access, place.as_fd()))
            .map_err(|errno| (index, errno))?;
    }
    match (orders.input_access, &orders.streams) {
        (Some(access), StandardStreams::Given([input, ..])) => {
            match sys::landlock_allow(ruleset.as_fd(), access, input.as_fd()) {
                // A file in memory alone is in no tree, landlock_add_rule(2): no rule is needed for it.
                Err(Errno::EBADFD) | Ok(()) => Ok(()),
                Err(errno) => Err((u32::try_from(orders.rules.len()).unwrap_or(u32::MAX), errno)),
            }
        }
        _ => Ok(()),
    }
}

fn set_rlimits(orders: &ChildSpec) -> Outcome {
    for (index, limit) in (0..).zip(&orders.rlimits) {
        nix::sys::resource::setrlimit(limit.resource, limit.value, limit.value)
            .map_err(|errno| (index, errno))?;
    }
    Ok(())
}

/// Every capability set becomes empty and cannot be filled again, not even by executing a file
/// that carries capabilities or belongs to root.
fn drop_privileges(last_capability: u8) -> Outcome {
    for capability in 0..=last_capability {
        let dropped = sys::prctl(libc::PR_CAPBSET_DROP, u64::from(capability));
        dropped.map_err(|errno| (u32::from(capability), errno))?;
    }
    whole(sys::clear_ambient())?;
    whole(sys::prctl(libc::PR_SET_SECUREBITS, kernel::SECUREBITS_LOCKED).map(drop))?;
    whole(sys::drop_capabilities())
}

/// Tries the same acts before and after: by the same process, with nothing but Landlock in between.
fn enforce_landlock(orders: &ChildSpec, sender: ChildSender<'_>) -> Result<(), Errno> {
    let Some((ruleset, handled)) = &orders.landlock else {
        return Ok(());
    };
    let probes = LandlockProbes::open(*handled, orders.uncovered.as_ref().map(AsFd::as_fd))?;
    probes.send_facts(sender, probe::BEFORE)?;
    sys::landlock_restrict(ruleset.as_fd())?;
    probes.send_facts(sender, probe::AFTER)
}

/// Streams on 0, 1 and 2, what the init needs on 3 to 6, and nothing else: what the caller had
/// open, wherever it came from, ends here.
fn arrange_descriptors(
    orders: &ChildSpec,
    streams: ArrangedStreams<'_>,
    lines: ControlSockets<'_>,
    placed: &Cell<bool>,
) -> Result<(), Errno> {
    // The dispositions and the mask of the caller are not the program's.
    sys::default_signals()?;
    // Out of the way first: one may sit on a number that another one must get.
    let above = |descriptor: BorrowedFd<'_>| sys::duplicate_above(descriptor, LOWEST_SPARE);
    let (control, lifeline) = (above(lines.control)?, above(lines.lifeline)?);
    let (children, clock) = (ended_children()?, above(orders.clock.as_fd())?);
    let [input, output, error] = streams.each();
    let (input, output, error) = (above(input)?, above(output)?, above(error)?);
    sys::duplicate_onto(control.as_fd(), CONTROL, true)?;
    placed.set(true);
    sys::duplicate_onto(input.as_fd(), 0, false)?;
    sys::duplicate_onto(output.as_fd(), 1, false)?;
    sys::duplicate_onto(error.as_fd(), 2, false)?;
    sys::duplicate_onto(lifeline.as_fd(), LIFELINE, true)?;
    sys::duplicate_onto(children.as_fd(), CHILDREN, true)?;
    sys::duplicate_onto(clock.as_fd(), CLOCK, true)?;
    sys::close_from(CLOCK.cast_unsigned() + 1)?;
    // They are closed already; closing them again at the end of this scope would only err.
    std::mem::forget([control, lifeline, children, clock, input, output, error]);
    std::mem::forget(streams);
    Ok(())
}

/// Readable when a child has ended. The signal itself waits until then.
fn ended_children() -> Result<OwnedFd, Errno> {
    sys::block_only(&[libc::SIGCHLD])?;
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGCHLD);
    let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
    let ended = SignalFd::with_flags(&signals, flags)?;
    sys::duplicate_above(ended.as_fd(), LOWEST_SPARE)
}

fn install_filters(orders: &ChildSpec) -> Result<(), Errno> {
    let filters = &orders.filters;
    // The refusing one first: installing the others is a syscall it must let through.
    sys::install_filter(&filters.refuse)?;
    if let Some(clock) = &orders.clock_filter {
        sys::install_filter(clock)?;
    }
    sys::install_filter(&filters.allow)
}
