//! The words of a policy: the closed sets of values that keys, rules and reports speak in.

/// The mode in which rules are enforced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EnforcementMode {
    /// Rules kill and deny.
    Enforce,
    /// Rules that would kill or deny log instead. The jail itself stays as strict as ever.
    Observe,
}

impl EnforcementMode {
    /// The effect of a rule's action under this mode.
    #[must_use]
    pub fn apply(self, action: RuleAction) -> RuleAction {
        match self {
            Self::Enforce => action,
            Self::Observe => action.min(RuleAction::Log),
        }
    }
}

/// The cases in which the working directory's own path on the host leads to `/workspace` inside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OwnPath {
    /// A program is told the path anyway: in its command, in its environment, or by a Python venv of the directory.
    #[default]
    Known,
    /// In each run.
    Always,
    /// In none.
    Never,
}

/// The treatment of a command that is installed outside of what the jail shows: it may bring its installation
/// along.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ToolchainMode {
    /// The command is not found in the jail, and the error names what would bring it in.
    #[default]
    None,
    /// Exactly the directory it is installed in is visible, read-only.
    Command,
    /// So are the Pythons of venvs, activated or in the working directory, which the command may ask for.
    Auto,
}

/// The parts of procfs, proc(5), that a jail has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProcView {
    /// All but what speaks of the host alone, which is covered.
    #[default]
    Common,
    /// The jail's own processes, and nothing of the machine: the mount option `subset=pid`.
    Processes,
}

/// The treatment of writes to the jail's own tree: its root, and the directories of the host that it shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RootMode {
    /// Every write fails.
    #[default]
    ReadOnly,
    /// All writes land in memory and are thrown away.
    Overlay,
}

/// The form in which the caller's directory appears at `/workspace`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WorkdirMode {
    /// Writable; writes land in memory and are thrown away.
    #[default]
    Overlay,
    /// Read-only.
    ReadOnly,
    /// Not at all: `/workspace` is an empty scratch.
    None,
}

/// `[network]`, from least to most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum NetworkMode {
    /// A network namespace of its own in which nobody but the jail itself is reached; its loopback is up for what resolvers ask.
    #[default]
    None,
    /// A network namespace with its own loopback.
    Loopback,
    /// The same, in which turnkey answers for every address, and keeps what is sent. Nothing leaves.
    Sinkhole,
    /// The same, in which turnkey stands in for each host of a list, and passes on what is sent.
    Allow,
    /// The host's own network: no network namespace stands between.
    Host,
}

impl NetworkMode {
    /// True where a loopback of the jail's own leads to what listens in it.
    #[must_use]
    pub fn has_servers(self) -> bool {
        matches!(self, Self::Loopback | Self::Sinkhole | Self::Allow)
    }
}

/// The place of the caller's directory in the jail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WorkdirPlace {
    /// `/workspace`, wherever it lies on the host.
    #[default]
    Workspace,
    /// The path that it has on the host; `/workspace` is a symlink to it.
    Host,
}

/// The response to lost events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnLoss {
    /// The verdict is `inconclusive`, the exit code the command's.
    Mark,
    /// The verdict is `inconclusive` and the exit code 120.
    Fail,
    /// The jail is killed as soon as a loss is known.
    Kill,
}

/// The response of a run to a limit that the kernel holds by refusing more. Ordered by what it lets a program do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LimitResponse {
    /// The jail is killed.
    Kill,
    /// The program has to cope with the refusal, and the run goes on.
    Refuse,
}

/// Every layer a run stands on, as named in profiles and reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Layer {
    /// user_namespaces(7)
    UserNamespace,
    /// mount_namespaces(7)
    MountNamespace,
    /// pid_namespaces(7)
    PidNamespace,
    /// network_namespaces(7)
    NetworkNamespace,
    /// ipc_namespaces(7)
    IpcNamespace,
    /// uts_namespaces(7)
    UtsNamespace,
    /// cgroup_namespaces(7)
    CgroupNamespace,
    /// time_namespaces(7)
    TimeNamespace,
    /// The jail's own root, after pivot_root(2).
    Root,
    /// capabilities(7): every set empty, securebits locked.
    Capabilities,
    /// `PR_SET_NO_NEW_PRIVS`
    NoNewPrivileges,
    /// seccomp(2)
    Seccomp,
    /// landlock(7)
    Landlock,
    /// Memory and swap of the cgroup.
    Memory,
    /// Tasks of the cgroup.
    Pids,
    /// CPU share of the cgroup.
    Cpu,
    /// Bytes in a second of the cgroup; only where the policy limits them.
    Io,
    /// setrlimit(2)
    Rlimits,
    /// The eBPF programs.
    Monitor,
}

/// Kinds of attempt a rule can speak of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AttemptKind {
    /// open(2), openat(2), openat2(2), creat(2)
    Open,
    /// execve(2), execveat(2), except the start of the command itself
    Exec,
    /// connect(2) to an internet address; a Unix socket lies inside the jail and is none
    Connect,
    /// bind(2) of an internet address, and listen(2), which gives a socket without one a port: refused on the lsm tier, told on the
    /// other
    Bind,
    /// sendto(2), sendmsg(2), sendmmsg(2) with an internet address
    Send,
    /// ptrace(2), process_vm_readv(2), process_vm_writev(2), kcmp(2), pidfd_getfd(2); on the lsm tier also opening /proc/PID/mem and
    /// reading /proc/PID/syscall and /proc/PID/stack of another process, which the kernel takes for the same
    Ptrace,
    /// mount(2), umount2(2), pivot_root(2), chroot(2) and the new mount API
    Mount,
    /// setuid(2) and its relatives, capset(2), when the kernel refused them: make(1) and others
    /// set the user they are already, which succeeds and is no attempt
    Setuid,
    /// setns(2), and unshare(2) and clone(2) with a namespace flag
    Namespace,
    /// bpf(2), perf_event_open(2), userfaultfd(2)
    Bpf,
    /// init_module(2), finit_module(2), delete_module(2), kexec_load(2), kexec_file_load(2),
    /// reboot(2)
    Module,
    /// add_key(2), request_key(2), keyctl(2)
    Keyring,
    /// io_uring_setup(2), io_uring_enter(2), io_uring_register(2)
    IoUring,
    /// link(2), linkat(2): a rule's path is the file's or its new name's
    Link,
    /// rename(2) and its relatives: a rule's path is the old name or the new one
    Rename,
    /// unlink(2), unlinkat(2), rmdir(2)
    Unlink,
    /// chmod(2), chown(2) and their relatives
    Chmod,
    /// mmap(2), mprotect(2), pkey_mprotect(2), shmat(2) that make memory executable: with `path`, memory
    /// that holds such a file; without, memory that no file of the tree holds, as it is anonymous, a
    /// memory file, a deleted file, or may differ from its file
    Map,
    /// stat(2) and its relatives, access(2), readlink(2), statfs(2), chdir(2), getxattr(2), listxattr(2), and
    /// inotify_add_watch(2): calls that ask about a path and open nothing. A rule goes by the argument
    /// alone, and cannot deny
    Stat,
    /// utimensat(2), setxattr(2), removexattr(2), file_setattr(2) and their relatives: times and extended attributes, but for
    /// access control lists, which are a `chmod`. A rule cannot deny
    Attribute,
    /// mkdir(2), mkdirat(2): rules on `open` for writing decide as well
    Mkdir,
    /// rmdir(2), and unlinkat(2) of a directory: rules on `unlink` decide as well
    Rmdir,
    /// symlink(2), symlinkat(2), by the symlink's own name: rules on `open` for writing decide as well
    Symlink,
    /// mknod(2), mknodat(2), but for devices, which the filter refuses: rules on `open` for writing decide as well
    Mknod,
    /// truncate(2), which names a file and opens none: rules on `open` for writing decide as well; and ftruncate(2), by a descriptor
    Truncate,
    /// chown(2) and its relatives: rules on `chmod` decide as well
    Chown,
    /// utimensat(2) and its relatives: rules on `attribute` decide as well. A rule cannot deny
    Utimens,
    /// setxattr(2), removexattr(2) and their relatives, but for access control lists: rules on `attribute` decide as well. A rule
    /// cannot deny
    Xattr,
    /// kill(2), tkill(2), tgkill(2), rt_sigqueueinfo(2), rt_tgsigqueueinfo(2): a signal other than 0 to others than the calling
    /// process; pidfd_send_signal(2), whichever process its descriptor is of; none that fcntl(2) has the kernel send
    /// for a descriptor (`F_SETOWN`, `F_SETSIG`), or a terminal for a key. A rule cannot deny
    Kill,
}

impl AttemptKind {
    /// True when such an attempt is on a file that rules can name by its path.
    #[must_use]
    pub const fn has_path(self) -> bool {
        matches!(
            self,
            Self::Open
                | Self::Exec
                | Self::Link
                | Self::Rename
                | Self::Unlink
                | Self::Chmod
                | Self::Map
                | Self::Stat
                | Self::Attribute
                | Self::Mkdir
                | Self::Rmdir
                | Self::Symlink
                | Self::Mknod
                | Self::Truncate
                | Self::Chown
                | Self::Utimens
                | Self::Xattr
        )
    }
}

impl AttemptKind {
    /// The kind that such an attempt is as well, whose rules decide besides: the stronger action stands.
    #[must_use]
    pub const fn counts_as(self) -> Self {
        match self {
            Self::Mkdir | Self::Symlink | Self::Mknod | Self::Truncate => Self::Open,
            Self::Rmdir => Self::Unlink,
            Self::Chown => Self::Chmod,
            Self::Utimens | Self::Xattr => Self::Attribute,
            other => other,
        }
    }
}

impl AttemptKind {
    /// True when a rule on such an attempt knows the path alone: the kernel's programs look at it when it is over, and at
    /// no object. Nothing can deny it, and `same_file` does not speak of it.
    #[must_use]
    pub const fn is_by_argument(self) -> bool {
        matches!(
            self,
            Self::Stat | Self::Attribute | Self::Utimens | Self::Xattr
        )
    }
}

impl AttemptKind {
    /// True when such an attempt is on an internet address that rules can name.
    #[must_use]
    pub const fn has_address(self) -> bool {
        matches!(self, Self::Connect | Self::Bind | Self::Send)
    }
}

impl AttemptKind {
    /// True when the state of the file is known at such an attempt.
    #[must_use]
    pub const fn has_flags(self) -> bool {
        matches!(self, Self::Open | Self::Exec)
    }
}

/// The ways to open a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OpenAccess {
    /// `O_RDONLY` or `O_RDWR`
    Read,
    /// `O_WRONLY`, `O_RDWR`, `O_TRUNC` or `O_CREAT`
    Write,
}

/// The states of a file that a rule can ask for besides its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileFlag {
    /// Made by memfd_create(2): it never had a name in any directory.
    Memfd,
    /// No directory has a name of it any more, or none ever had (`O_TMPFILE`). A memory file is none.
    Deleted,
    /// The kernel's programs could not tell its path: it is longer than 4095 bytes, or leads out of the
    /// tree. Such a file has no other state, and no pattern matches it.
    Truncated,
}

/// The meaning of a rule's paths: names, or the files behind them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SameFile {
    /// For names alone.
    #[default]
    No,
    /// For the files, as device and inode, that they name in the jail when the run begins, by
    /// whatever other name they are reached. A path that leads nowhere, or to a file that cannot be
    /// followed for certain, then fails the run.
    Required,
    /// As before, as far as it can be: a path that leads nowhere is a name alone.
    Optional,
}

/// The action of a rule. The order is the order of strength on a tie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RuleAction {
    /// Lets the attempt pass; shields it from less specific rules.
    Allow,
    /// A violation in the report, nothing else.
    Log,
    /// The act fails with EPERM and is a violation in the report.
    Deny,
    /// The whole jail dies.
    Kill,
}

/// The severity of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Worth knowing.
    Info,
    /// Unusual.
    Low,
    /// Suspicious.
    Medium,
    /// An attack, if meant.
    High,
    /// An attack.
    Critical,
}
