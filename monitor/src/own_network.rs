//! The network namespace that this process is in, as programs of the kernel name it.

use nix::sys::socket::{AddressFamily, SockFlag, SockType, getsockopt, socket};
use nix::{getsockopt_impl, libc, sockopt_impl};

sockopt_impl!(
    /// `SO_NETNS_COOKIE` of socket(7): the namespace that a socket is of.
    NetworkCookie,
    GetOnly,
    libc::SOL_SOCKET,
    libc::SO_NETNS_COOKIE,
    u64
);

/// The cookie of the network namespace of the calling thread; `None` where no socket can be had to ask. A cookie is
/// never 0, and never given to another namespace.
pub(crate) fn cookie() -> Option<u64> {
    let asked = socket(
        AddressFamily::Unix,
        SockType::Datagram,
        SockFlag::SOCK_CLOEXEC,
        None,
    );
    getsockopt(&asked.ok()?, NetworkCookie).ok()
}
