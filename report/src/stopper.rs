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
    /// The attempt failed for a reason that is not the jail's.
    Failed,
    /// The end of the attempt was not seen.
    Unknown,
}

impl Outcome {
    /// The word for it.
    pub fn result(self) -> Result {
        match self {
            Self::Allowed => Result::Allowed,
            Self::Denied(_) => Result::Denied,
            Self::Failed => Result::Failed,
            Self::Unknown => Result::Unknown,
        }
    }

    /// The layer, if one denied.
    pub fn stopper(self) -> Option<Stopper> {
        match self {
            Self::Denied(stopper) => Some(stopper),
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
mod tests {
    use super::super::fixture;
    use super::*;
    use Outcome::{Allowed, Denied, Failed};
    use turnkey_policy::ProcView;

    fn file(path: &str, errno: i32) -> Outcome {
        Attribution::new(&fixture::policy()).file(path.as_bytes(), errno)
    }

    #[test]
    fn what_is_not_in_the_tree_is_hidden() {
        for path in [
            "/root/.ssh/id_rsa",
            "/home",
            "/etc/sudoers",
            "/usrlocal",
            "/etc/../run/docker.sock",
        ] {
            assert_eq!(
                file(path, libc::ENOENT),
                Denied(Stopper::MountNamespace),
                "{path}"
            );
        }
        // Missing is missing where the jail has the place itself.
        for path in [
            "/usr/lib/nothing.so",
            "/workspace/new",
            "/proc/99/maps",
            "/tmp/x",
            "/etc",
            "relative",
            "",
        ] {
            assert_eq!(file(path, libc::ENOENT), Failed, "{path}");
        }
    }

    #[test]
    fn a_detour_through_a_process_root_is_no_other_place() {
        assert_eq!(
            file("/proc/self/root/root/.bashrc", libc::ENOENT),
            Denied(Stopper::MountNamespace)
        );
        assert_eq!(file("/proc/1/root//usr/./x", libc::ENOENT), Failed);
        assert_eq!(file("/proc/self/rooted", libc::ENOENT), Failed);
    }

    #[test]
    fn what_is_given_by_name_is_refused_by_landlock_and_what_is_given_within_it_is_not() {
        let mut policy = fixture::policy();
        let entry = |path: &str, list| turnkey_policy::HostPath {
            path: path.into(),
            at: None,
            optional: false,
            list,
            why: String::new(),
        };
        policy.filesystem.read = vec![entry("/opt/tool", false), entry("/opt/tool/lib", true)];
        let attribution = Attribution::new(&policy);
        let refused = |path: &str| attribution.file(path.as_bytes(), libc::EACCES);
        assert_eq!(refused("/opt/tool"), Denied(Stopper::Landlock));
        assert_eq!(refused("/opt/tool/bin"), Denied(Stopper::Landlock));
        assert_eq!(refused("/opt/tool/lib/x"), Denied(Stopper::FilePermissions));
        assert_eq!(attribution.file(b"/opt/tool/x", libc::ENOENT), Failed);
    }

    #[test]
    fn what_a_proc_of_processes_lacks_is_not_in_the_tree() {
        let mut policy = fixture::policy();
        policy.filesystem.proc = ProcView::Processes;
        let attribution = Attribution::new(&policy);
        let missing = |path: &str| attribution.file(path.as_bytes(), libc::ENOENT);
        for path in [
            "/proc/cpuinfo",
            "/proc/net/dev",
            "/proc/sys/kernel/x",
            "/proc/1x",
        ] {
            assert_eq!(missing(path), Denied(Stopper::MountNamespace), "{path}");
        }
        for path in [
            "/proc/self/x",
            "/proc/thread-self/x",
            "/proc/12/x",
            "/proc/",
            "/proc",
        ] {
            assert_eq!(missing(path), Failed, "{path}");
        }
    }

    #[test]
    fn refusals_are_landlocks_only_where_nothing_is_granted() {
        assert_eq!(file("/", libc::EACCES), Denied(Stopper::Landlock));
        assert_eq!(file("/etc", libc::EACCES), Denied(Stopper::Landlock));
        assert_eq!(file("/run/secret", libc::EACCES), Denied(Stopper::Landlock));
        // Of Landlock no file system call has any other errno.
        assert_eq!(
            file("/run/secret", libc::EPERM),
            Denied(Stopper::FilePermissions)
        );
        assert_eq!(
            file("/usr/bin/sudo", libc::EACCES),
            Denied(Stopper::FilePermissions)
        );
        assert_eq!(
            file("/workspace/secret", libc::EACCES),
            Denied(Stopper::FilePermissions)
        );
        assert_eq!(
            file("secret", libc::EACCES),
            Denied(Stopper::FilePermissions)
        );
    }

    #[test]
    fn read_only_is_the_mounts() {
        assert_eq!(file("/usr/bin/new", libc::EROFS), Denied(Stopper::Mounts));
        assert_eq!(file("new", libc::EROFS), Denied(Stopper::Mounts));
    }

    #[test]
    fn success_and_other_errors_blame_nobody() {
        assert_eq!(file("/usr/bin/env", 0), Allowed);
        for errno in [libc::EISDIR, libc::ELOOP, libc::EMFILE, libc::ENOTDIR] {
            assert_eq!(file("/run/x", errno), Failed, "{errno}");
        }
    }

    fn network(act: NetworkAct, address: &Address, errno: i32) -> Outcome {
        Attribution::new(&fixture::policy()).network(act, address, errno)
    }

    #[test]
    fn internet_addresses_meet_the_cgroup_program_first() {
        let address = Address::Inet("169.254.169.254:80".parse().unwrap());
        let connect = |errno| network(NetworkAct::Connect, &address, errno);
        assert_eq!(connect(libc::EPERM), Denied(Stopper::CgroupProgram));
        assert_eq!(
            connect(libc::ENETUNREACH),
            Denied(Stopper::NetworkNamespace)
        );
        assert_eq!(connect(libc::EINPROGRESS), Allowed);
        // To whom the socket is connected already is no matter of this address.
        assert_eq!(connect(libc::EISCONN), Failed);
        assert_eq!(connect(libc::EALREADY), Failed);
        assert_eq!(connect(libc::ECONNREFUSED), Failed);
        assert_eq!(
            network(NetworkAct::Bind, &address, libc::EADDRNOTAVAIL),
            Denied(Stopper::NetworkNamespace)
        );
        assert_eq!(
            network(NetworkAct::Bind, &address, libc::EACCES),
            Denied(Stopper::Capabilities)
        );
    }

    #[test]
    fn a_question_on_a_loopback_where_nobody_answers_leads_nowhere() {
        let none = fixture::policy();
        let own = Policy {
            network: NetworkMode::Loopback.into(),
            ..fixture::policy()
        };
        let answered = Policy {
            network: NetworkMode::Sinkhole.into(),
            ..fixture::policy()
        };
        let of = |policy: &Policy, act, address: &str, errno| {
            let address = Address::Inet(address.parse().unwrap());
            Attribution::new(policy).network(act, &address, errno)
        };
        for act in [NetworkAct::Connect, NetworkAct::Send] {
            for address in ["127.0.0.1:53", "[::1]:53", "0.0.0.0:53"] {
                let nowhere = Denied(Stopper::NetworkNamespace);
                assert_eq!(of(&none, act, address, 0), nowhere, "{address}");
                assert_eq!(of(&none, act, address, libc::ECONNREFUSED), nowhere);
                let refused = Denied(Stopper::CgroupProgram);
                assert_eq!(of(&none, act, address, libc::EPERM), refused);
                assert_eq!(of(&own, act, address, 0), nowhere, "{address}");
                assert_eq!(of(&answered, act, address, 0), Allowed, "{address}");
            }
            assert_eq!(of(&own, act, "127.0.0.1:54", 0), Allowed);
        }
        assert_eq!(of(&none, NetworkAct::Bind, "127.0.0.1:0", 0), Allowed);
    }

    #[test]
    fn an_address_that_is_not_allowed_has_no_way_whatever_the_rules_say() {
        let no_files = |_: &str| Err(String::new());
        let overrides =
            turnkey_policy::Overrides::from_flags([("allow", "192.0.2.0/25:443")]).unwrap();
        let policy = turnkey_policy::load("untrusted", &no_files, &overrides).unwrap();
        let connect = |address: &str| {
            let address = Address::Inet(address.parse().unwrap());
            Attribution::new(&policy).network(NetworkAct::Connect, &address, 0)
        };
        for address in ["192.0.2.7:443", "[::ffff:192.0.2.7]:443", "127.0.0.1:9"] {
            assert_eq!(connect(address), Allowed, "{address}");
        }
        for address in ["192.0.2.128:443", "192.0.2.7:80", "[2001:db8::7]:443"] {
            let denied = Denied(Stopper::NetworkNamespace);
            assert_eq!(connect(address), denied, "{address}");
        }
    }

    #[test]
    fn what_the_hosts_network_does_not_reach_is_stopped_by_nobody() {
        let policy = Policy {
            network: NetworkMode::Host.into(),
            ..super::super::fixture::policy()
        };
        let address = Address::Inet("192.0.2.7:80".parse().unwrap());
        let connect =
            |errno| Attribution::new(&policy).network(NetworkAct::Connect, &address, errno);
        assert_eq!(connect(libc::ENETUNREACH), Failed);
        assert_eq!(connect(libc::EPERM), Denied(Stopper::CgroupProgram));
    }

    #[test]
    fn unix_sockets_are_files_or_scoped() {
        let docker = Address::UnixPath(b"/run/docker.sock".to_vec());
        assert_eq!(
            network(NetworkAct::Connect, &docker, libc::ENOENT),
            Denied(Stopper::MountNamespace)
        );
        let inside = Address::UnixPath(b"/workspace/socket".to_vec());
        assert_eq!(
            network(NetworkAct::Connect, &inside, libc::ECONNREFUSED),
            Failed
        );
        assert_eq!(network(NetworkAct::Bind, &inside, 0), Allowed);
        let outside = Address::UnixPath(b"/etc/socket".to_vec());
        assert_eq!(
            network(NetworkAct::Connect, &outside, libc::EACCES),
            Denied(Stopper::FilePermissions)
        );
        assert_eq!(
            network(NetworkAct::Bind, &outside, libc::EACCES),
            Denied(Stopper::Landlock)
        );
        let hidden = Address::UnixAbstract(b"/tmp/.X11-unix/X0".to_vec());
        assert_eq!(
            network(NetworkAct::Connect, &hidden, libc::EPERM),
            Denied(Stopper::Landlock)
        );
    }

    #[test]
    fn the_filter_answers_before_anyone_else() {
        let mut policy = fixture::policy();
        policy.syscalls.allow.remove("connect");
        let address = Address::Inet("10.0.0.1:1".parse().unwrap());
        let outcome = Attribution::new(&policy).network(NetworkAct::Connect, &address, libc::EPERM);
        assert_eq!(outcome, Denied(Stopper::Seccomp));
    }

    #[test]
    fn a_refused_syscall_is_the_filters_unless_the_filter_allows_it() {
        let attribution = Attribution::new(&fixture::policy());
        let syscall =
            |name: &str, on, errno| attribution.syscall(Some(name), Some(on), [0; 3], errno);
        assert_eq!(
            syscall("ptrace", AttemptKind::Ptrace, libc::EPERM),
            Denied(Stopper::Seccomp)
        );
        assert_eq!(
            syscall("io_uring_setup", AttemptKind::IoUring, libc::ENOSYS),
            Denied(Stopper::Seccomp)
        );
        assert_eq!(
            attribution.syscall(None, Some(AttemptKind::Mount), [0; 3], libc::ENOSYS),
            Denied(Stopper::Seccomp)
        );
        assert_eq!(
            syscall("setuid", AttemptKind::Setuid, libc::EPERM),
            Denied(Stopper::Capabilities)
        );
        assert_eq!(syscall("setuid", AttemptKind::Setuid, 0), Allowed);
        assert_eq!(
            syscall("setuid", AttemptKind::Setuid, libc::EINVAL),
            Denied(Stopper::UserNamespace)
        );
    }

    #[test]
    fn the_filter_looks_at_arguments() {
        let attribution = Attribution::new(&fixture::policy());
        let syscall = |name: &str, args, errno| attribution.syscall(Some(name), None, args, errno);
        let namespace = [0x1000_0000, 0, 0];
        assert_eq!(
            syscall("clone", namespace, libc::EPERM),
            Denied(Stopper::Seccomp)
        );
        // AF_PACKET, a protocol of AF_NETLINK that is not NETLINK_ROUTE, and a raw internet socket.
        assert_eq!(
            syscall("socket", [17, 3, 0], libc::EAFNOSUPPORT),
            Denied(Stopper::Seccomp)
        );
        assert_eq!(
            syscall("socket", [16, 3, 4], libc::EPROTONOSUPPORT),
            Denied(Stopper::Seccomp)
        );
        // Not refused with this errno by the jail: the kernel has no such thing.
        assert_eq!(syscall("socket", [16, 3, 0], libc::EAFNOSUPPORT), Failed);
        assert_eq!(
            syscall("socket", [2, 3, 1], libc::EPERM),
            Denied(Stopper::CgroupProgram)
        );
        // TIOCSTI
        assert_eq!(
            syscall("ioctl", [0, 0x5412, 0], libc::EPERM),
            Denied(Stopper::Seccomp)
        );
    }
}
