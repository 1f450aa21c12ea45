//! The descriptors of a request: what each may be, and what its caller must have been able to do with it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::socket::{getsockopt, sockopt};
use nix::sys::stat::{FileStat, SFlag, fstat};
use nix::unistd::isatty;
use rustix::fs::{AtFlags, StatxFlags, statx};
use rustix::net::sockopt::{socket_acceptconn, socket_domain, socket_type};
use rustix::net::{AddressFamily, SocketAddrUnix, getpeername};
use turnkey_jailer::served;

use super::SOCKET;
use super::line::LINE_TYPE;

/// The descriptors of a run, each looked at.
#[derive(Debug)]
pub struct CallerDescriptors {
    /// Standard input, output and error.
    pub streams: [OwnedFd; 3],
    /// The caller's current directory.
    pub directory: OwnedFd,
    /// Takes every event.
    pub events: Option<OwnedFd>,
    /// The connection to who writes the files of an export.
    pub export: Option<OwnedFd>,
}

/// The descriptors that a request has besides those of every run, in this order.
#[derive(Clone, Copy, Debug, Default)]
pub struct WantedDescriptors {
    /// True when the program has a terminal of its own, so that standard input may be the caller's.
    pub terminal: bool,
    /// True with a descriptor that takes the events.
    pub events: bool,
    /// True with the connection of an export.
    pub export: bool,
}

/// A descriptor that a run is not given.
#[derive(Debug, thiserror::Error)]
#[error("{name} {reason}")]
pub struct RefusedDescriptor {
    name: &'static str,
    reason: String,
}

/// The names of descriptors, in their order.
const NAMES: [&str; 6] = [
    "standard input",
    "standard output",
    "standard error",
    "the current directory",
    "the file of events",
    "the connection of an export",
];

impl CallerDescriptors {
    /// Looks at what came with a request of this user's.
    ///
    /// # Errors
    /// When one is of another kind than it must be, or is not open for what is to be done with it.
    pub fn check(
        came: Vec<OwnedFd>,
        wanted: WantedDescriptors,
        user: u32,
    ) -> Result<CallerDescriptors, RefusedDescriptor> {
        let refused = |name, reason: &str| RefusedDescriptor {
            name,
            reason: reason.to_owned(),
        };
        let all = 4 + usize::from(wanted.events) + usize::from(wanted.export);
        if came.len() != all {
            let count = "has not one descriptor more for each of --events and --export";
            return Err(refused("the request", count));
        }
        let mut came = came.into_iter();
        let mut next = || came.next();
        let (Some(input), Some(output), Some(error), Some(directory)) =
            (next(), next(), next(), next())
        else {
            return Err(refused("the request", "has too few descriptors"));
        };
        let events = wanted.events.then(&mut next).flatten();
        let export = wanted.export.then(&mut next).flatten();
        let uses = [
            (&input, StreamUse::Reading),
            (&output, StreamUse::Writing),
            (&error, StreamUse::Writing),
        ];
        for (name, (stream, what)) in NAMES.iter().zip(uses) {
            require_stream(stream.as_fd(), what).map_err(|reason| refused(name, reason))?;
        }
        if !wanted.terminal && isatty(&input).unwrap_or(false) {
            return Err(refused(NAMES[0], NO_TERMINAL));
        }
        require_directory(directory.as_fd()).map_err(|reason| refused(NAMES[3], reason))?;
        if let Some(events) = &events {
            require_stream(events.as_fd(), StreamUse::Writing)
                .map_err(|reason| refused(NAMES[4], reason))?;
        }
        if let Some(export) = &export {
            require_connection(export.as_fd(), user).map_err(|reason| refused(NAMES[5], reason))?;
        }
        Ok(CallerDescriptors {
            streams: [input, output, error],
            directory,
            events,
            export,
        })
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum StreamUse {
    Reading,
    Writing,
}

const NO_CONNECTION: &str = "is no connection of packets, socketpair(2) of SOCK_SEQPACKET";
const UNKNOWN: &str = "cannot be looked at";
const NO_STREAM: &str = "is neither a pipe, a file, a terminal nor /dev/null";
/// The reason against sockets: what is written comes from who writes, as far as its other side asks: `SCM_CREDENTIALS`, unix(7).
const NO_SOCKET: &str =
    "is a socket, whose other side would hear root; pass what goes there through a pipe";
const NO_TERMINAL: &str = "is a terminal, whose shell cannot keep the service from reading what is meant for another job; pass what is typed through a pipe";
const NO_MEMORY: &str =
    "is memory, which would count as the service's; pass what goes there through a pipe";
const NO_OWN_MOUNT: &str = "is on a mount that the service does not have; pass its content through a pipe, or name a directory of this host";
const NO_STORAGE: &str = "is on a file system that holds no files, or whose server can hold everybody up; pass its content through a pipe";

fn require_stream(stream: BorrowedFd<'_>, what: StreamUse) -> Result<(), &'static str> {
    let flags = fcntl(stream, FcntlArg::F_GETFL).map_err(|_| UNKNOWN)?;
    let flags = OFlag::from_bits_retain(flags);
    if flags.contains(OFlag::O_PATH) {
        return Err("is a name and nothing that is open");
    }
    let can = match flags & OFlag::O_ACCMODE {
        OFlag::O_RDWR => true,
        OFlag::O_RDONLY => what == StreamUse::Reading,
        OFlag::O_WRONLY => what == StreamUse::Writing,
        // The third mode of open(2), which gives neither.
        _ => false,
    };
    if !can {
        return Err(match what {
            StreamUse::Reading => "is not open for reading",
            StreamUse::Writing => "is not open for writing",
        });
    }
    // As the kernel has it: a file system that the caller has mounted need not answer.
    let asked = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let known = statx(stream, c"", asked, StatxFlags::TYPE).map_err(|_| UNKNOWN)?;
    let device = (known.stx_rdev_major, known.stx_rdev_minor);
    match SFlag::from_bits_truncate(known.stx_mode.into()) & SFlag::S_IFMT {
        SFlag::S_IFIFO => Ok(()),
        SFlag::S_IFREG if is_memory(stream) => match what {
            StreamUse::Reading => Ok(()),
            StreamUse::Writing => Err(NO_MEMORY),
        },
        SFlag::S_IFREG => {
            require_own_mount(stream)?;
            require_storage(stream)
        }
        SFlag::S_IFSOCK => Err(NO_SOCKET),
        SFlag::S_IFCHR if device == (1, 3) => Ok(()),
        SFlag::S_IFCHR if isatty(stream).unwrap_or(false) => Ok(()),
        _ => Err(NO_STREAM),
    }
}

/// True for memory, memfd_create(2), and for a file in a file system that is memory, tmpfs(5): what is written there counts as that of who
/// writes. No file system is asked.
pub fn is_memory(stream: BorrowedFd<'_>) -> bool {
    fcntl(stream, FcntlArg::F_GET_SEALS).is_ok()
}

/// Refuses what lies on a mount that the service does not have: of the caller's own namespace, or of the kernel's.
fn require_own_mount(opened: BorrowedFd<'_>) -> Result<(), &'static str> {
    match served::is_on_own_mount(opened) {
        Ok(true) => Ok(()),
        Ok(false) => Err(NO_OWN_MOUNT),
        Err(_) => Err(UNKNOWN),
    }
}

fn require_directory(directory: BorrowedFd<'_>) -> Result<(), &'static str> {
    require_own_mount(directory)?;
    let stat = fstat(directory).map_err(|_| UNKNOWN)?;
    match kind(&stat) {
        SFlag::S_IFDIR => require_storage(directory),
        _ => Err("is no directory"),
    }
}

/// Refuses file systems that ask for the rights of who reads or writes, which here is the service.
fn require_storage(opened: BorrowedFd<'_>) -> Result<(), &'static str> {
    match served::require_storage(opened) {
        Ok(()) => Ok(()),
        Err(Errno::EXDEV) => Err(NO_STORAGE),
        Err(_) => Err(UNKNOWN),
    }
}

/// A connection of packets to a process of the caller's: somebody else at its other side would hear root, as with a [stream](NO_SOCKET).
fn require_connection(socket: BorrowedFd<'_>, user: u32) -> Result<(), &'static str> {
    if socket_type(socket) != Ok(LINE_TYPE) {
        return Err(NO_CONNECTION);
    }
    require_other_socket(socket)?;
    // Who has made the pair, or who listened, or who connected: unix(7).
    let other = getsockopt(&socket, sockopt::PeerCredentials).map_err(|_| UNKNOWN)?;
    match other.uid() == user {
        true => Ok(()),
        false => Err("is a connection to another user's process"),
    }
}

/// A Unix socket that does not lead to the service itself.
fn require_other_socket(socket: BorrowedFd<'_>) -> Result<(), &'static str> {
    if socket_domain(socket).map_err(|_| UNKNOWN)? != AddressFamily::UNIX {
        return Err(NO_CONNECTION);
    }
    if socket_acceptconn(socket).map_err(|_| UNKNOWN)? {
        return Err("is a socket that listens");
    }
    let peer = getpeername(socket).ok().flatten();
    let peer = peer.and_then(|peer| SocketAddrUnix::try_from(peer).ok());
    let leads_here = peer.is_some_and(|peer| {
        let path = peer.path_bytes().unwrap_or_default();
        path.ends_with(SOCKET.as_bytes())
    });
    match leads_here {
        true => Err("is a connection to the service"),
        false => Ok(()),
    }
}

fn kind(stat: &FileStat) -> SFlag {
    SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT
}

#[cfg(test)]
mod tests {
    use super::*;
    use turnkey_expectations::expected;

    expected!(what_lies_on_a_mount_of_another_namespace_is_refused: as_root, "mount in a namespace of its own");

    use nix::mount::{MsFlags, mount};
    use nix::sched::{CloneFlags, unshare};
    use nix::sys::stat::Mode;
    use std::fs::File;
    use std::os::unix::net::{UnixListener, UnixStream};

    fn opened(path: &str, flags: OFlag) -> OwnedFd {
        nix::fcntl::open(path, flags, Mode::empty()).unwrap()
    }

    fn own() -> u32 {
        nix::unistd::getuid().as_raw()
    }

    fn reading(stream: impl AsFd) -> Result<(), &'static str> {
        require_stream(stream.as_fd(), StreamUse::Reading)
    }

    fn writing(stream: impl AsFd) -> Result<(), &'static str> {
        require_stream(stream.as_fd(), StreamUse::Writing)
    }

    #[test]
    fn a_stream_is_open_for_what_is_done_with_it() {
        let place = tempfile::NamedTempFile::new().unwrap();
        let read = File::open(place.path()).unwrap();
        assert_eq!(reading(&read), Ok(()));
        assert_eq!(writing(&read), Err("is not open for writing"));
        assert_eq!(reading(&place), Ok(()), "it is open for both");
        let (out, into) = std::io::pipe().unwrap();
        assert_eq!((reading(&out), writing(&into)), (Ok(()), Ok(())));
        assert!(reading(&into).is_err() && writing(&out).is_err());
        let neither = opened("/dev/null", OFlag::O_ACCMODE);
        assert!(reading(&neither).is_err() && writing(&neither).is_err());
        let null = opened("/dev/null", OFlag::O_RDONLY);
        assert_eq!((reading(&null), writing(&null).is_err()), (Ok(()), true));
        let pair = nix::pty::openpty(None, None).unwrap();
        assert_eq!(
            (reading(&pair.slave), writing(&pair.slave)),
            (Ok(()), Ok(()))
        );
    }

    #[test]
    fn a_name_a_directory_a_device_and_the_kernel_s_files_are_no_streams() {
        let name = opened("/etc/passwd", OFlag::O_PATH);
        assert!(reading(&name).unwrap_err().contains("a name"));
        for path in ["/", "/dev/zero"] {
            assert_eq!(
                reading(opened(path, OFlag::O_RDONLY)),
                Err(NO_STREAM),
                "{path}"
            );
        }
        for path in ["/proc/self/stat", "/sys/kernel/uevent_seqnum"] {
            assert_eq!(
                reading(opened(path, OFlag::O_RDONLY)),
                Err(NO_STORAGE),
                "{path}"
            );
        }
        let event = nix::sys::eventfd::EventFd::new().unwrap();
        assert!(reading(&event).is_err());
    }

    #[test]
    fn a_stream_is_no_socket_and_no_memory_is_written_to() {
        let (one, _other) = UnixStream::pair().unwrap();
        assert_eq!(
            (reading(&one), writing(&one)),
            (Err(NO_SOCKET), Err(NO_SOCKET))
        );
        let internet = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        assert_eq!(reading(&internet), Err(NO_SOCKET));
        let memory = nix::sys::memfd::memfd_create(c"test", nix::sys::memfd::MFdFlags::MFD_CLOEXEC);
        let memory = memory.unwrap();
        assert_eq!(
            (reading(&memory), writing(&memory)),
            (Ok(()), Err(NO_MEMORY))
        );
    }

    #[test]
    fn a_file_in_memory_is_memory_by_whatever_name() {
        let file = tempfile::NamedTempFile::new_in("/dev/shm").unwrap();
        assert_eq!((reading(&file), writing(&file)), (Ok(()), Err(NO_MEMORY)));
    }

    /// A file system of the caller's own is not asked, and may be one that does not answer.
    #[test]
    fn what_lies_on_a_mount_of_another_namespace_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let opened = std::thread::scope(|scope| {
            let of_its_own = || {
                let flags = CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_FS;
                unshare(flags).unwrap();
                let none: Option<&str> = None;
                let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
                mount(none, "/", none, private, none).unwrap();
                let here = place.path();
                mount(Some("none"), here, Some("ramfs"), MsFlags::empty(), none).unwrap();
                std::fs::write(here.join("file"), "x").unwrap();
                let directory = OFlag::O_PATH | OFlag::O_DIRECTORY;
                [("", directory), ("file", OFlag::O_RDONLY)]
                    .map(|(name, flags)| opened(&here.join(name).to_string_lossy(), flags))
            };
            scope.spawn(of_its_own).join().unwrap()
        });
        let [directory, file] = opened;
        assert_eq!(require_directory(directory.as_fd()), Err(NO_OWN_MOUNT));
        assert_eq!(reading(file), Err(NO_OWN_MOUNT));
        let same = opened_here(place.path());
        assert_eq!(require_directory(same.as_fd()), Ok(()), "the control");
    }

    fn opened_here(place: &std::path::Path) -> OwnedFd {
        opened(&place.to_string_lossy(), OFlag::O_PATH | OFlag::O_DIRECTORY)
    }

    #[test]
    fn a_connection_is_unix_and_not_the_service_s() {
        let place = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(place.path().join(SOCKET)).unwrap();
        assert!(
            require_other_socket(listener.as_fd())
                .unwrap_err()
                .contains("listens")
        );
        let to_it = UnixStream::connect(place.path().join(SOCKET)).unwrap();
        assert!(
            require_other_socket(to_it.as_fd())
                .unwrap_err()
                .contains("the service")
        );
        let internet = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        assert_eq!(require_other_socket(internet.as_fd()), Err(NO_CONNECTION));
    }

    #[test]
    fn a_request_has_every_descriptor_in_its_place() {
        let null = || opened("/dev/null", OFlag::O_RDWR);
        let root = || opened("/", OFlag::O_PATH);
        let with = |events, export| WantedDescriptors {
            terminal: false,
            events,
            export,
        };
        let checked = |came, wanted| CallerDescriptors::check(came, wanted, own());
        let refused = |came, wanted| checked(came, wanted).unwrap_err().to_string();
        let none = WantedDescriptors::default();
        let usual = || vec![null(), null(), null(), root()];
        let more = |last| usual().into_iter().chain([last]).collect();
        assert!(checked(usual(), none).is_ok());
        assert!(refused(vec![null(), null(), null()], none).contains("one descriptor more"));
        assert!(refused(usual(), with(true, false)).contains("one descriptor more"));
        assert!(refused(more(null()), none).contains("one descriptor more"));
        assert!(refused(vec![null(), null(), root(), null()], none).starts_with("standard error"));
        assert!(refused(vec![null(), null(), null(), null()], none).contains("no directory"));
        let typed = nix::pty::openpty(None, None).unwrap();
        let at_a_terminal = || vec![typed.slave.try_clone().unwrap(), null(), null(), root()];
        assert!(refused(at_a_terminal(), none).contains("is a terminal"));
        let own = WantedDescriptors {
            terminal: true,
            ..none
        };
        assert!(checked(at_a_terminal(), own).is_ok());
        let bad = more(root());
        assert!(refused(bad, with(true, false)).starts_with("the file of events"));
        let kernel = opened("/proc/self", OFlag::O_PATH);
        let bad = vec![null(), null(), null(), kernel];
        assert!(refused(bad, none).contains("holds no files"));
    }

    #[test]
    fn an_export_goes_over_a_connection_of_packets() {
        use rustix::net::{SocketFlags, SocketType, socketpair};
        let pair = |kind| {
            let flags = SocketFlags::CLOEXEC;
            socketpair(AddressFamily::UNIX, kind, flags, None).unwrap()
        };
        let packets = pair(LINE_TYPE);
        assert_eq!(require_connection(packets.0.as_fd(), own()), Ok(()));
        let foreign = require_connection(packets.0.as_fd(), own() + 1);
        assert_eq!(foreign, Err("is a connection to another user's process"));
        let stream = pair(SocketType::STREAM);
        let (pipe, _other) = std::io::pipe().unwrap();
        let file = opened("/dev/null", OFlag::O_RDWR);
        for other in [stream.0.as_fd(), pipe.as_fd(), file.as_fd()] {
            assert!(require_connection(other, own()).is_err());
        }
    }
}
