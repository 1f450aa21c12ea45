//! The socket of a service, and the directory that it lies in: of this service alone, as long as it lives.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::sys::stat::{Mode, SFlag, lstat};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, bind, getsockname, listen, socket_with, sockopt,
};
use turnkey_jailer::served;
use turnkey_supervisor::service::{LINE_TYPE, SOCKET};

use crate::output;

/// Connections that the kernel holds until they are accepted.
pub const BACKLOG: i32 = 128;

/// The socket.
pub struct ServiceSocket {
    /// Listens, and does not wait.
    pub socket: OwnedFd,
    pub claim: DirectoryClaim,
}

/// A directory that is of this service alone. Its end takes the socket's name away while nobody else can have bound another one.
pub struct DirectoryClaim {
    /// The socket's; `None` for one of systemd's, which stays.
    name: Option<PathBuf>,
    _lock: Flock<File>,
}

impl Drop for DirectoryClaim {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            let _ = nix::unistd::unlink(name);
        }
    }
}

impl ServiceSocket {
    /// The one in `directory`, for root and the members of the group: bound by systemd, or here.
    ///
    /// # Errors
    /// When another service is there, or the socket cannot be made.
    pub fn open(directory: &Path, group: &str) -> anyhow::Result<ServiceSocket> {
        let made = || {
            let place = directory.display();
            format!("the directory of the socket, {place}, cannot be used")
        };
        make_directory(directory).with_context(made)?;
        let lock = lock(directory)?;
        let path = directory.join(SOCKET);
        let (socket, is_own) = match passed(&path)? {
            Some(socket) => (socket, false),
            None => (bound(&path).with_context(made)?, true),
        };
        open_to(&path, group)?;
        listen(&socket, BACKLOG)?;
        let claim = DirectoryClaim {
            name: is_own.then_some(path),
            _lock: lock,
        };
        Ok(ServiceSocket { socket, claim })
    }
}

/// The socket that systemd has bound, sd_listen_fds(3), so that it stays while the service is started anew.
fn passed(path: &Path) -> anyhow::Result<Option<OwnedFd>> {
    let named = |name| std::env::var(name).unwrap_or_default();
    if named("LISTEN_PID") != std::process::id().to_string() {
        return Ok(None);
    }
    let count = named("LISTEN_FDS");
    ensure!(
        count == "1",
        "systemd passes {count} sockets, and a service has one: leave one `ListenSequentialPacket=` in its socket unit"
    );
    let socket = served::passed_socket().context("the socket that systemd passes is not there")?;
    let address = getsockname(&socket).ok();
    let address = address.and_then(|address| SocketAddrUnix::try_from(address).ok());
    let name = address.as_ref().and_then(SocketAddrUnix::path);
    let name = name.map(|name| PathBuf::from(name.to_string_lossy().into_owned()));
    let listens =
        sockopt::socket_type(&socket)? == LINE_TYPE && sockopt::socket_acceptconn(&socket)?;
    ensure!(
        listens && name.as_deref() == Some(path),
        "systemd passes another socket than {}: have its socket unit say ListenSequentialPacket={}",
        path.display(),
        path.display()
    );
    rustix::io::ioctl_fionbio(&socket, true)?;
    Ok(Some(socket))
}

/// A new socket, to which nobody connects before it is known who may.
fn bound(path: &Path) -> anyhow::Result<OwnedFd> {
    // Of a service that was killed: nobody else has the lock.
    match nix::unistd::unlink(path) {
        Ok(()) | Err(Errno::ENOENT) => {}
        Err(errno) => return Err(errno.into()),
    }
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, LINE_TYPE, flags, None)?;
    let before = nix::sys::stat::umask(Mode::from_bits_truncate(0o777));
    let bound = bind(&socket, &SocketAddrUnix::new(path)?);
    nix::sys::stat::umask(before);
    bound?;
    Ok(socket)
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
    let found = super::check::group(group)?.map(|group| group.gid);
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
