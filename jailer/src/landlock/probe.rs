//! Acts that only Landlock can refuse, tried before and after it is enforced.
//!
//! Runs as: the jail's first process, which may not allocate. The signal scope cannot be shown: the
//! jail's own pid namespace holds nobody to signal who is outside of the scope.

use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, SockaddrIn, UnixAddr, bind, connect, getsockname,
    listen, socket,
};
use nix::sys::stat::Mode;

use super::HandledAccess;
use crate::process::wire::{ChildFact, ChildSender, FactPacket, errno_of};

/// Facts of one round: the open, the connect, the bind.
pub type Round = [ChildFact; 3];
/// The round before.
pub const BEFORE: Round = [
    ChildFact::OpenBeforeLandlock,
    ChildFact::ConnectBeforeLandlock,
    ChildFact::BindBeforeLandlock,
];
/// The round afterwards.
pub const AFTER: Round = [
    ChildFact::OpenAfterLandlock,
    ChildFact::ConnectAfterLandlock,
    ChildFact::BindAfterLandlock,
];

/// The objects that the probes need, made before Landlock is enforced and so outside of its scope.
pub struct LandlockProbes<'a> {
    /// The directory of a file that no rule covers; `None` for the jail's root.
    uncovered: Option<BorrowedFd<'a>>,
    listener: Option<(OwnedFd, UnixAddr)>,
    tcp: bool,
}

impl<'a> LandlockProbes<'a> {
    /// For what the ruleset handles.
    pub fn open(
        handled: HandledAccess,
        uncovered: Option<BorrowedFd<'a>>,
    ) -> Result<LandlockProbes<'a>, Errno> {
        let listener = (handled.scopes != 0).then(abstract_listener).transpose()?;
        let tcp = handled.tcp;
        Ok(LandlockProbes {
            uncovered,
            listener,
            tcp,
        })
    }

    /// Tries everything and hands out what came of it.
    pub fn send_facts(
        &self,
        sender: ChildSender<'_>,
        [opened, connected, bound]: Round,
    ) -> Result<(), Errno> {
        let mut facts = FactPacket::NONE;
        facts.add(opened, errno_of(self.open_uncovered()))?;
        if let Some((_, address)) = &self.listener {
            facts.add(connected, errno_of(reach(address)))?;
        }
        if self.tcp {
            facts.add(bound, errno_of(bind_tcp()))?;
        }
        sender.facts(&facts)
    }

    /// A file that no rule covers: [`crate::plan::PROBE`], or the one of that name in a directory that is on no mount of the jail's.
    fn open_uncovered(&self) -> Result<(), Errno> {
        let flags = OFlag::O_RDONLY | OFlag::O_CLOEXEC;
        match self.uncovered {
            None => nix::fcntl::open(c"/.turnkey-probe", flags, Mode::empty()).map(drop),
            Some(apart) => {
                nix::fcntl::openat(apart, c".turnkey-probe", flags, Mode::empty()).map(drop)
            }
        }
    }
}

fn stream(family: AddressFamily) -> Result<OwnedFd, Errno> {
    socket(family, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)
}

/// Under a name that the kernel chooses.
fn abstract_listener() -> Result<(OwnedFd, UnixAddr), Errno> {
    let listener = stream(AddressFamily::Unix)?;
    bind(listener.as_raw_fd(), &UnixAddr::new_unnamed())?;
    listen(&listener, Backlog::new(1)?)?;
    let address = getsockname(listener.as_raw_fd())?;
    Ok((listener, address))
}

fn reach(address: &UnixAddr) -> Result<(), Errno> {
    connect(stream(AddressFamily::Unix)?.as_raw_fd(), address)
}

/// Any free port of any address: possible even where there is no network.
fn bind_tcp() -> Result<(), Errno> {
    let any = SockaddrIn::new(0, 0, 0, 0, 0);
    bind(stream(AddressFamily::Inet)?.as_raw_fd(), &any)
}
