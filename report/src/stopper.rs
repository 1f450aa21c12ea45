//! Attribution of a failed attempt to the layer that kept it from having its effect.
//!
//! The kernel answers a syscall with a number and does not say who gave it. Most of the time the
//! policy and the number together leave one answer, because the kernel asks its layers in a
//! fixed order. For an open that order is: the tree (`ENOENT`), the file's permissions
//! (`EACCES`), the mount's read-only flag (`EROFS`), Landlock (`EACCES`). So `EACCES` comes from
//! Landlock only where the policy grants nothing: on what it grants for reading, a write that
//! the permissions let through has met the read-only mount before Landlock was asked.
//!
//! These are conclusions, and pure ones. What cannot be concluded is said to have failed, with
//! its errno, and is blamed on nobody.

mod calls;
pub mod late;
mod naming;
mod place;

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use turnkey_facts::{Address, NetworkAct};
use turnkey_policy::syscalls::arguments::{self, RefusalScope};
use turnkey_policy::{
    AllowedHost, AttemptKind, NetworkMode, Policy, SyscallPolicy, address, endpoint,
};

use super::model::Result;
use calls::calls;
use place::{Place, RootfsPlaces};

/// The port of name servers: domain of services(5).
pub const NAME_SERVER: u16 = 53;

/// A layer that kept an attempt from having its effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Stopper {
    /// The path is not in the jail's tree; whether the host has it is not said.
    MountNamespace,
    /// The path is there and read-only.
    Mounts,
    /// landlock(7): nothing grants it.
    Landlock,
    /// The owner and mode of the file, or the kernel's own checks, as outside any jail.
    FilePermissions,
    /// The eBPF program on the socket calls of the jail's control group.
    CgroupProgram,
    /// The network namespace has no way there.
    NetworkNamespace,
    /// The filter of syscalls.
    Seccomp,
    /// capabilities(7): there are none in the jail.
    Capabilities,
    /// user_namespaces(7): the jail's namespace knows one user and one group.
    UserNamespace,
    /// The monitor: its kill, before the program saw the result, or its refusal.
    Monitor,
}

impl Stopper {
    /// In a sentence after "stopped by".
    pub fn words(self) -> &'static str {
        match self {
            Self::MountNamespace => "the mount namespace: there is no such path in the jail",
            Self::Mounts => "the mounts: it is read-only in the jail",
            Self::Landlock => "Landlock: the profile does not grant it",
            Self::FilePermissions => "the permissions of the file",
            Self::CgroupProgram => "the network program of the control group",
            Self::NetworkNamespace => "the network namespace: there is no way to that address",
            Self::Seccomp => "seccomp: the profile does not allow that syscall",
            Self::Capabilities => "the missing capability: the jail has none",
            Self::UserNamespace => "the user namespace: the jail has no such user or group",
            Self::Monitor => "the monitor: it refused the act",
        }
    }
}

/// The result of an attempt, as far as policy and errno say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// The attempt had its effect.
    Allowed,
    /// A layer kept it from having one.
    Denied(Stopper),
    /// The attempt had its effect, and the monitor's kill came then: where the kernel is not asked before the act.
    Late,
    /// The attempt failed for a reason that is not the jail's.
    Failed,
    /// The end of the attempt was not seen.
    Unknown,
}

impl Outcome {
    /// The word for it.
    pub fn result(self) -> Result {
        match self {
            Self::Allowed | Self::Late => Result::Allowed,
            Self::Denied(_) => Result::Denied,
            Self::Failed => Result::Failed,
            Self::Unknown => Result::Unknown,
        }
    }

    /// The layer, if one denied.
    pub fn stopper(self) -> Option<Stopper> {
        match self {
            Self::Denied(stopper) => Some(stopper),
            Self::Late => Some(Stopper::Monitor),
            Self::Allowed | Self::Failed | Self::Unknown => None,
        }
    }
}

/// Conclusions from the policy on the layer that stopped an attempt.
#[derive(Clone, Debug)]
pub struct Attribution {
    /// Layers of turnkey's stand around what is watched. Around processes that others started stand those of others, of which
    /// nothing is known.
    has_layers: bool,
    tree: RootfsPlaces,
    syscalls: SyscallPolicy,
    /// The hosts that the network namespace leads to, under the mode `allow`.
    allowed: Option<Vec<AllowedHost>>,
    /// There is no network namespace between.
    shares_network: bool,
    /// The network namespace has nothing but a loopback on which nobody answers.
    has_nobody: bool,
    /// The jail has a network of its own, in which nobody answers questions about names.
    answers_no_question: bool,
}

impl Attribution {
    /// Keeps what it needs of the policy.
    pub fn new(policy: &Policy) -> Self {
        Self {
            has_layers: !policy.makes_no_jail(),
            tree: RootfsPlaces::from_policy(&policy.filesystem),
            syscalls: policy.syscalls.clone(),
            allowed: (policy.network.mode == NetworkMode::Allow)
                .then(|| policy.network.allow.clone()),
            shares_network: policy.network.mode == NetworkMode::Host,
            has_nobody: policy.network.mode == NetworkMode::None,
            answers_no_question: matches!(
                policy.network.mode,
                NetworkMode::None | NetworkMode::Loopback | NetworkMode::Allow
            ),
        }
    }

    /// True when the jail has the host's own network, in which rules alone stand in the way.
    pub fn shares_network(&self) -> bool {
        self.shares_network
    }

    /// An open or an exec of `path` that the kernel answered with `errno` (0 for success).
    pub fn file(&self, path: &[u8], errno: i32) -> Outcome {
        let place = self.tree.place(path);
        // A directory of what is known by name, which is why a profile says so, or a file that its permissions close, which is rare.
        let granted = matches!(place, Place::Granted | Place::Relative);
        match errno {
            0 => Outcome::Allowed,
            _ if !self.has_layers => Outcome::Failed,
            libc::EROFS => Outcome::Denied(Stopper::Mounts),
            libc::ENOENT if place == Place::Outside => Outcome::Denied(Stopper::MountNamespace),
            // Of the host's a jail has nothing there; its own directories have names that are not listed.
            libc::EACCES if path.starts_with(b"/sys") => Outcome::Denied(Stopper::MountNamespace),
            libc::EACCES if !granted => Outcome::Denied(Stopper::Landlock),
            libc::EACCES | libc::EPERM => Outcome::Denied(Stopper::FilePermissions),
            _ => Outcome::Failed,
        }
    }

    /// A connect, bind or send that the kernel answered with `errno`.
    pub fn network(&self, act: NetworkAct, address: &Address, errno: i32) -> Outcome {
        match (address, errno) {
            // The program of the control group told of it before the kernel looked for a route.
            (Address::Inet(peer), 0) if self.leads_nowhere(act, *peer) => {
                Outcome::Denied(Stopper::NetworkNamespace)
            }
            // It let a connect or a question pass, and there is nobody to answer it.
            (Address::Inet(peer), 0 | libc::ECONNREFUSED)
                if self.asks_nobody((act, errno), *peer) =>
            {
                Outcome::Denied(Stopper::NetworkNamespace)
            }
            (_, 0 | libc::EINPROGRESS) => Outcome::Allowed,
            (_, libc::EPERM | libc::ENOSYS) if self.has_layers && !self.allows_any(calls(act)) => {
                Outcome::Denied(Stopper::Seccomp)
            }
            (Address::UnixPath(_) | Address::UnixAbstract(_), _) if !self.has_layers => {
                Outcome::Failed
            }
            (Address::UnixPath(path), _) => self.unix_socket(act, path, errno),
            (Address::UnixAbstract(_), libc::EPERM) => Outcome::Denied(Stopper::Landlock),
            (Address::Inet(_), libc::EPERM) if act == NetworkAct::Listen => {
                Outcome::Denied(Stopper::Monitor)
            }
            (Address::Inet(_), libc::EPERM) => Outcome::Denied(Stopper::CgroupProgram),
            _ if !self.has_layers => Outcome::Failed,
            (Address::Inet(_), libc::EACCES) if act == NetworkAct::Bind => {
                Outcome::Denied(Stopper::Capabilities)
            }
            (
                Address::Inet(_),
                libc::ENETUNREACH | libc::EHOSTUNREACH | libc::EADDRNOTAVAIL | libc::ENETDOWN,
            ) if !self.shares_network => Outcome::Denied(Stopper::NetworkNamespace),
            _ => Outcome::Failed,
        }
    }

    /// True when the network namespace has no way to an address: neither an allowed one, nor its own.
    fn leads_nowhere(&self, act: NetworkAct, peer: SocketAddr) -> bool {
        let goes_out = matches!(act, NetworkAct::Connect | NetworkAct::Send);
        let address = peer.ip().to_canonical();
        let ours = address.is_loopback() || address.is_unspecified();
        let missing =
            |allowed: &Vec<AllowedHost>| !endpoint::allows(allowed, &[], address, peer.port());
        goes_out && !ours && self.allowed.as_ref().is_some_and(missing)
    }

    /// True when it is a question to a name server that the jail would have to be itself, or found no server of the jail's own.
    fn asks_nobody(&self, (act, errno): (NetworkAct, i32), peer: SocketAddr) -> bool {
        let asks = matches!(act, NetworkAct::Connect | NetworkAct::Send);
        let is_question = asks && peer.port() == NAME_SERVER;
        let found_none = act == NetworkAct::Connect && errno != 0;
        (self.answers_no_question && is_question || self.has_nobody && found_none)
            && address::is_own(peer.ip())
    }

    /// Binding makes a file. Connecting needs write permission on it, and Landlock is not asked.
    fn unix_socket(&self, act: NetworkAct, path: &[u8], errno: i32) -> Outcome {
        match errno {
            libc::EACCES | libc::EPERM if act != NetworkAct::Bind => {
                Outcome::Denied(Stopper::FilePermissions)
            }
            errno => self.file(path, errno),
        }
    }

    /// A syscall of the watch-list that the kernel answered with `errno`.
    ///
    /// The filter knows arguments, too. Kinds of internet sockets that it lets through are the
    /// control group's business.
    pub fn syscall(
        &self,
        name: Option<&str>,
        on: Option<AttemptKind>,
        args: [u64; 3],
        errno: i32,
    ) -> Outcome {
        let passes = name.is_some_and(|name| self.allows_any(&[name]));
        let filtered = name.and_then(|name| self.refusal(name, args, errno));
        match (errno, name) {
            (0, _) => Outcome::Allowed,
            (_, _) if !self.has_layers => Outcome::Failed,
            (_, _) if filtered.is_some() => Outcome::Denied(Stopper::Seccomp),
            (libc::EPERM, Some("socket")) if passes => Outcome::Denied(Stopper::CgroupProgram),
            (libc::EPERM | libc::EACCES | libc::ENOSYS, _) if !passes => {
                Outcome::Denied(Stopper::Seccomp)
            }
            (libc::EPERM | libc::EACCES, _) => Outcome::Denied(Stopper::Capabilities),
            (libc::EINVAL, _) if on == Some(AttemptKind::Setuid) => {
                Outcome::Denied(Stopper::UserNamespace)
            }
            _ => Outcome::Failed,
        }
    }

    /// The jails in which `errno` is the filter's answer to these first arguments of a syscall that it
    /// lets through otherwise; `None` when it is not.
    pub fn for_arguments(&self, name: &str, args: [u64; 3], errno: i32) -> Option<RefusalScope> {
        self.refusal(name, args, errno)
            .filter(|_| self.has_layers && self.allows_any(&[name]))
    }

    fn refusal(
        &self,
        name: &str,
        [first, second, third]: [u64; 3],
        errno: i32,
    ) -> Option<RefusalScope> {
        // A send is told of as a refused call for its flags alone, and without them.
        let (third, fourth) = match name {
            "sendmsg" => (arguments::MSG_OOB.into(), 0),
            "sendto" | "sendmmsg" => (third, arguments::MSG_OOB.into()),
            _ => (third, 0),
        };
        let arguments = [first, second, third, fourth, 0, 0];
        let refusal = arguments::refusal(&self.syscalls, name, &arguments)?;
        (i32::from(refusal.answer.number()) == errno).then_some(refusal.only)
    }

    fn allows_any(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.syscalls.allow.contains(name))
    }
}

#[cfg(test)]
mod tests;
