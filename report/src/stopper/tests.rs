//! Conclusions from numbers and policies.

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
    let overrides = turnkey_policy::Overrides::from_flags([("allow", "192.0.2.0/25:443")]).unwrap();
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
    let connect = |errno| Attribution::new(&policy).network(NetworkAct::Connect, &address, errno);
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
    let syscall = |name: &str, on, errno| attribution.syscall(Some(name), Some(on), [0; 3], errno);
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
