//! The shipped profiles: they load, say why, and do not hit ordinary programs.

use std::path::Path;

use turnkey_policy::{
    Attempt, AttemptKind, OpenAccess, Overrides, Policy, RuleAction, SHIPPED, decide, load,
    syscalls,
};

/// Profiles that ordinary programs do not run under.
const FOR_ONE_PROGRAM: &[&str] = &["judge", "sealed", "strict"];

fn shipped(name: &str) -> Policy {
    let no_files = |path: &str| Err(format!("{path} was asked for"));
    load(name, &no_files, &Overrides::default())
        .unwrap_or_else(|error| panic!("{:?}", error.problems()))
}

fn every_policy() -> impl Iterator<Item = Policy> {
    SHIPPED.iter().map(|(name, _)| shipped(name))
}

/// The policies that a jail is made from.
fn every_jail() -> impl Iterator<Item = Policy> {
    every_policy().filter(|policy| !policy.makes_no_jail())
}

/// The rule and action that an attempt meets.
fn verdict(
    policy: &Policy,
    on: AttemptKind,
    path: Option<&str>,
    access: &[OpenAccess],
) -> Option<(String, RuleAction)> {
    let attempt = Attempt {
        path: path.map(str::as_bytes),
        access,
        ..Attempt::new(on)
    };
    decide(&policy.rules, &attempt)
        .map(|index| (policy.rules[index].id.clone(), policy.rules[index].action))
}

fn assert_kills(policy: &Policy, on: AttemptKind, path: &str, access: &[OpenAccess], rule: &str) {
    assert_eq!(
        verdict(policy, on, Some(path), access),
        Some((rule.to_owned(), RuleAction::Kill)),
        "{path}"
    );
}

#[test]
fn every_profile_carries_its_name_and_a_description() {
    for (name, _) in SHIPPED {
        let policy = shipped(name);
        assert_eq!(policy.name, *name);
        assert!(!policy.description.is_empty(), "{name}");
    }
    for listed in turnkey_policy::listed() {
        let policy = shipped(listed.name);
        assert_eq!(listed.description, policy.description);
        assert_eq!(
            listed.extends.is_empty(),
            ["untrusted", "container"].contains(&listed.name),
            "{}",
            listed.name
        );
    }
}

#[test]
fn everything_given_and_every_rule_says_why() {
    for policy in every_policy() {
        for entry in policy
            .filesystem
            .read
            .iter()
            .chain(&policy.filesystem.write)
        {
            assert!(
                !entry.why.is_empty(),
                "{}: {}",
                policy.name,
                entry.path.display()
            );
        }
        for rule in &policy.rules {
            assert!(
                !rule.why.is_empty()
                    && (rule.technique.is_some() || rule.action == RuleAction::Allow),
                "{}: {}",
                policy.name,
                rule.id
            );
        }
    }
}

#[test]
fn no_jail_writes_to_the_host_or_reaches_a_network() {
    for policy in every_jail() {
        assert!(policy.filesystem.write.is_empty(), "{}", policy.name);
        assert_eq!(
            policy.network.mode,
            turnkey_policy::NetworkMode::None,
            "{}",
            policy.name
        );
        assert_eq!(
            policy.enforcement.required.len(),
            turnkey_policy::Layer::ALL.len(),
            "{}",
            policy.name
        );
    }
}

#[test]
fn profiles_of_processes_that_others_started_ask_for_the_monitor_alone() {
    let attached = every_policy().filter(Policy::makes_no_jail);
    let names: Vec<String> = attached.map(|policy| policy.name).collect();
    assert_eq!(names, ["container", "service", "runner"]);
}

#[test]
fn what_holds_secrets_or_sockets_of_the_host_is_not_given() {
    let hidden = [
        "/root",
        "/home",
        "/run",
        "/var",
        "/sys",
        "/etc",
        "/etc/shadow",
        "/etc/ssl/private",
        "/etc/ssl",
    ];
    for policy in every_policy() {
        for entry in &policy.filesystem.read {
            assert!(
                !hidden
                    .iter()
                    .any(|hidden| Path::new(hidden).starts_with(&entry.path)),
                "{}",
                entry.path.display()
            );
        }
    }
}

#[test]
fn secrets_are_guarded_wherever_they_lie() {
    let policy = shipped("untrusted");
    let secrets = [
        ("/etc/shadow", "credential-file"),
        ("/etc/gshadow-", "credential-file"),
        ("/workspace/.ssh/id_ed25519", "private-key"),
        ("/home/someone/.ssh/id_rsa", "private-key"),
        ("/root/.gnupg/private-keys-v1.d/0123.key", "private-key"),
        ("/workspace/.aws/credentials", "stored-credential"),
        (
            "/home/a/.config/gcloud/legacy_credentials/me/adc.json",
            "stored-credential",
        ),
        (
            "/run/secrets/kubernetes.io/serviceaccount/token",
            "stored-credential",
        ),
        (
            "/home/a/.mozilla/firefox/x.default/logins.json",
            "browser-store",
        ),
        (
            "/home/a/.config/google-chrome/Default/Login Data",
            "browser-store",
        ),
        ("/etc/sudoers", "privilege-configuration"),
        ("/etc/sudoers.d/a", "privilege-configuration"),
    ];
    for (path, rule) in secrets {
        assert_kills(&policy, AttemptKind::Open, path, &[OpenAccess::Read], rule);
    }
}

#[test]
fn ways_to_stay_are_guarded_against_writing_alone() {
    let policy = shipped("untrusted");
    let ways = [
        ("/etc/passwd", "account-change"),
        ("/workspace/.bashrc", "shell-startup"),
        ("/workspace/.profile", "shell-startup"),
        ("/etc/profile.d/x.sh", "shell-startup"),
        ("/workspace/.ssh/authorized_keys", "authorized-keys"),
        ("/etc/cron.d/job", "scheduled-job"),
        ("/var/spool/cron/crontabs/root", "scheduled-job"),
        ("/etc/systemd/system/x.service", "service-start"),
        ("/etc/init.d/x", "service-start"),
        ("/etc/ld.so.preload", "preload"),
        ("/proc/sys/kernel/core_pattern", "kernel-setting"),
        ("/proc/sysrq-trigger", "kernel-setting"),
    ];
    for (path, rule) in ways {
        assert_kills(&policy, AttemptKind::Open, path, &[OpenAccess::Write], rule);
        let reading = verdict(&policy, AttemptKind::Open, Some(path), &[OpenAccess::Read]);
        let is_the_hosts = path.starts_with("/etc/cron.d/");
        let notice = is_the_hosts.then_some(("host-files".to_owned(), RuleAction::Log));
        assert_eq!(reading, notice, "{path}");
    }
}

#[test]
fn what_the_host_keeps_is_told_and_what_programs_look_for_is_not() {
    let policy = shipped("untrusted");
    let reading = |path| verdict(&policy, AttemptKind::Open, Some(path), &[OpenAccess::Read]);
    let notices = [
        ("/root/.bashrc", "host-files"),
        ("/home/ada/.psql_history", "host-files"),
        ("/home/ada/.zsh_history", "host-files"),
        ("/var/log/dpkg.log", "host-files"),
        ("/var/lib/pam/auth", "host-files"),
        ("/etc/security/limits.conf", "host-files"),
        ("/root", "host-directory"),
        ("/home/ada", "host-directory"),
        ("/var/log", "host-directory"),
        ("/etc/ssh", "host-directory"),
        ("/proc/cmdline", "host-kernel"),
        ("/sys/kernel/vmcoreinfo", "host-kernel"),
    ];
    for (path, rule) in notices {
        assert_eq!(
            reading(path),
            Some((rule.to_owned(), RuleAction::Log)),
            "{path}"
        );
    }
    let at_every_start = [
        "/",
        "/etc",
        "/etc/ssh/ssh_config",
        "/etc/wgetrc",
        "/etc/apache2/mime.types",
        "/etc/mysql/my.cnf",
        "/var/mail/ada",
        "/etc/gitconfig",
        "/etc/pip.conf",
        "/etc/os-release",
        "/etc/passwd",
        "/proc/meminfo",
        "/proc/self/maps",
        "/sys/kernel/mm/transparent_hugepage/hpage_pmd_size",
        "/home/ada/work/.venv/pyvenv.cfg",
        "/root/.local/lib/python3.11/site-packages",
        "/workspace/.config/pip/pip.conf",
        "/workspace/.bashrc",
    ];
    for path in at_every_start {
        assert_eq!(reading(path), None, "{path}");
    }
    // A private key is more than a notice.
    assert_kills(
        &policy,
        AttemptKind::Open,
        "/root/.ssh/id_rsa",
        &[OpenAccess::Read],
        "private-key",
    );
}

#[test]
fn a_program_in_memory_is_killed_and_one_on_disk_runs() {
    let policy = shipped("untrusted");
    for path in ["memfd:", "memfd:payload", "memfd:a/b", "/dev/shm/x"] {
        assert_kills(&policy, AttemptKind::Exec, path, &[], "memory-exec");
    }
    for path in ["/usr/bin/python3.11", "/workspace/a.out", "/tmp/x"] {
        assert_eq!(
            verdict(&policy, AttemptKind::Exec, Some(path), &[]),
            None,
            "{path}"
        );
    }
}

#[test]
fn each_kind_of_attempt_has_its_answer() {
    let policy = shipped("untrusted");
    let expected = [
        (AttemptKind::Connect, Some(RuleAction::Deny)),
        (AttemptKind::Send, Some(RuleAction::Deny)),
        // Libraries bind to see whether the machine knows IPv6; nothing can arrive.
        (AttemptKind::Bind, None),
        (AttemptKind::Ptrace, Some(RuleAction::Kill)),
        (AttemptKind::Mount, Some(RuleAction::Kill)),
        (AttemptKind::Setuid, Some(RuleAction::Log)),
        (AttemptKind::Namespace, Some(RuleAction::Deny)),
        (AttemptKind::Bpf, Some(RuleAction::Kill)),
        (AttemptKind::Module, Some(RuleAction::Kill)),
        (AttemptKind::Keyring, Some(RuleAction::Deny)),
        // Node probes it at start.
        (AttemptKind::IoUring, None),
    ];
    for (on, action) in expected {
        assert_eq!(
            verdict(&policy, on, None, &[]).map(|(_, action)| action),
            action,
            "{on}"
        );
    }
}

/// Paths that strace saw python3, bash, coreutils, gcc, make, perl, git and node open.
#[test]
fn ordinary_programs_meet_no_rule() {
    let read = [
        "/etc/group",
        "/etc/inputrc",
        "/etc/ld.so.cache",
        "/etc/ld.so.preload",
        "/etc/localtime",
        "/etc/manpath.config",
        "/etc/nsswitch.conf",
        "/etc/passwd",
        "/etc/selinux/config",
        "/etc/ssl/openssl.cnf",
        "/etc/terminfo/d/dumb",
        "/usr/lib/ssl/openssl.cnf",
        "/proc/self/maps",
        "/proc/cpuinfo",
        "/proc/sys/kernel/pid_max",
        "/proc/sys/vm/overcommit_memory",
        "/sys/devices/system/cpu/online",
        "/workspace/.gitconfig",
        "/workspace/.npmrc",
        "/workspace/.profile",
        "/workspace/.bashrc",
        "/workspace/.ssh/known_hosts",
        "/workspace/.aws/config",
    ];
    let written = [
        "/dev/null",
        "/dev/tty",
        "/dev/shm/sem.mp-x",
        "/tmp/cc1.o",
        "/workspace/a.out",
        "/workspace/x.db-wal",
        "/workspace/.bash_history",
        "/workspace/.git/hooks/pre-commit",
        "/proc/self/oom_score_adj",
        "/proc/self/comm",
    ];
    for policy in every_policy().filter(|policy| !FOR_ONE_PROGRAM.contains(&&*policy.name)) {
        for path in read {
            assert_eq!(
                verdict(&policy, AttemptKind::Open, Some(path), &[OpenAccess::Read]),
                None,
                "{}: {path}",
                policy.name
            );
        }
        for path in written {
            assert_eq!(
                verdict(&policy, AttemptKind::Open, Some(path), OpenAccess::ALL),
                None,
                "{}: {path}",
                policy.name
            );
        }
    }
}

#[test]
fn strict_kills_every_later_program_and_reads_of_accounts() {
    let policy = shipped("strict");
    assert_kills(&policy, AttemptKind::Exec, "/usr/bin/dash", &[], "no-exec");
    assert_kills(&policy, AttemptKind::Exec, "memfd:x", &[], "memory-exec");
    assert_kills(
        &policy,
        AttemptKind::Open,
        "/etc/passwd",
        &[OpenAccess::Read],
        "account-database",
    );
    assert_kills(
        &policy,
        AttemptKind::Open,
        "/etc/group",
        &[OpenAccess::Read],
        "account-database",
    );
    assert_kills(
        &policy,
        AttemptKind::Open,
        "/etc/passwd",
        &[OpenAccess::Write],
        "account-change",
    );
    assert_kills(
        &policy,
        AttemptKind::Open,
        "/etc/shadow",
        &[OpenAccess::Read],
        "credential-file",
    );
    assert_eq!(
        verdict(
            &policy,
            AttemptKind::Open,
            Some("/usr/lib/x.so"),
            &[OpenAccess::Read]
        ),
        None
    );
    assert_eq!(
        verdict(&policy, AttemptKind::Bind, None, &[]),
        Some(("network-bind".to_owned(), RuleAction::Deny))
    );
}

/// The syscalls that strace saw in static programs in C, C++, Rust and Go that read a file, sorted, slept, caught a
/// fault and started threads.
#[test]
fn judge_allows_what_static_programs_call_and_little_else() {
    let policy = shipped("judge");
    let called = "arch_prctl brk clock_nanosleep clone close epoll_create1 epoll_ctl epoll_pwait execve exit \
        exit_group fcntl fstat futex getpid getrandom getrlimit gettid lseek madvise mmap mprotect mremap \
        munmap nanosleep newfstatat openat pipe2 poll prlimit64 read readlink rseq rt_sigaction \
        rt_sigprocmask rt_sigreturn sched_getaffinity sched_yield set_robust_list set_tid_address \
        sigaltstack statx tgkill write";
    for syscall in called.split_whitespace() {
        assert!(policy.syscalls.allow.contains(syscall), "{syscall}");
    }
    let no_use = "connect execveat fork inotify_init ioctl memfd_create mkdir ptrace rename socket unlink vfork";
    for syscall in no_use.split_whitespace() {
        assert!(!policy.syscalls.allow.contains(syscall), "{syscall}");
    }
    assert!(
        policy.syscalls.allow.len() <= 100,
        "a small set stays small"
    );
    assert!(policy.filesystem.read.is_empty() && policy.filesystem.scratch.is_empty());
    assert_kills(&policy, AttemptKind::Exec, "/workspace/a", &[], "no-exec");
}

/// The syscalls that strace saw in the same programs, without what is refused on purpose.
#[test]
fn ordinary_programs_find_their_syscalls() {
    let called = "accept4 access arch_prctl bind brk capget chdir chmod clock_nanosleep clone close \
        close_range connect copy_file_range creat dup dup2 epoll_create1 epoll_ctl epoll_pwait epoll_wait \
        eventfd2 execve exit exit_group faccessat2 fadvise64 fallocate fchdir fchmod fchmodat fchown \
        fchownat fcntl fdatasync fgetxattr flistxattr flock fsetxattr fstat fstatfs fsync ftruncate \
        futex getcwd getdents64 getegid geteuid getgid getgroups getpeername getpgid \
        getpgrp getpid getppid getpriority getrandom getrusage getsid getsockname getsockopt gettid \
        getuid getxattr inotify_add_watch inotify_init1 inotify_rm_watch ioctl kill lgetxattr link \
        listen listxattr lseek madvise memfd_create mkdir mkdirat mknodat mmap mprotect mremap munmap \
        newfstatat openat pidfd_open pipe2 pkey_alloc poll prctl pread64 preadv2 prlimit64 pselect6 \
        pwrite64 read readlink recvfrom recvmsg rename renameat2 rmdir rseq rt_sigaction \
        rt_sigprocmask rt_sigreturn rt_sigsuspend rt_sigtimedwait sched_getaffinity sched_yield \
        sendfile sendto set_robust_list set_tid_address setitimer setpgid setpriority setresgid \
        setresuid setsid shutdown sigaltstack socket socketpair stat statfs statx symlink symlinkat \
        sysinfo timer_create timer_settime times truncate umask uname unlink unlinkat utimensat vfork \
        wait4 write";
    for policy in every_jail().filter(|policy| policy.name != "judge") {
        for syscall in called.split_whitespace() {
            assert!(
                policy.syscalls.allow.contains(syscall),
                "{}: {syscall}",
                policy.name
            );
        }
        // Programs fall back from what is absent; the other one is called by man(1), which goes on without.
        for refused in syscalls::ABSENT.iter().chain(&["seccomp"]) {
            assert!(
                !policy.syscalls.allow.contains(refused),
                "{}: {refused}",
                policy.name
            );
        }
    }
}
