//! The abilities of this machine, asked before anything is compiled: whoever waits two minutes for a
//! build should know what it will show.

use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::thread::{CapabilitySet, capabilities};

/// The facts about the machine, each as it is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// As in `uname -r`.
    kernel: String,
    cpus: usize,
    /// In mebibytes.
    memory: u64,
    is_root: bool,
    /// Capabilities that the monitored jail needs and the caller lacks.
    lacks: CapabilitySet,
    /// True when root is root of a user namespace alone, as in rootless containers: an ordinary user of the host.
    in_user_namespace: bool,
    in_container: bool,
    groups: Groups,
    types: Types,
    /// True when `bpf` is in the kernel's list of security modules; `None` when the list cannot be read.
    has_bpf_lsm: Option<bool>,
}

/// The hierarchy of control groups of version 2, in which the monitor finds a jail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Groups {
    Writable,
    /// As in a container that may make no groups.
    ReadOnly,
    Missing,
}

/// The types of the kernel, without which no program of the monitor is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Types {
    There,
    /// /sys is not mounted, so nobody can say.
    NoSys,
    Missing,
}

/// The part of turnkey that a run can show here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shows {
    /// Jail and monitor: what is forbidden is seen, and killed.
    Everything,
    /// The jail, in a user namespace: no rule acts, and no verdict is "clean".
    JailAlone,
    /// No jail: its user would be root itself, without the rights to make it.
    Nothing,
}

/// Looks at everything; takes milliseconds and changes nothing.
#[must_use]
pub fn look() -> Machine {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let memory = rustix::system::sysinfo();
    // When the kernel does not tell, nothing is said to be missing.
    let effective = capabilities(None).map_or(NEEDED, |sets| sets.effective);
    Machine {
        kernel: rustix::system::uname()
            .release()
            .to_string_lossy()
            .into_owned(),
        cpus: std::thread::available_parallelism().map_or(1, usize::from),
        memory: (memory.totalram * u64::from(memory.mem_unit)) >> 20,
        is_root: rustix::process::geteuid().is_root(),
        lacks: NEEDED - effective,
        in_user_namespace: is_elsewhere("user", FIRST_USERS),
        in_container: is_elsewhere("pid", FIRST_PROCESSES),
        // What another mount hides is in the list all the same.
        groups: groups(&read("/proc/self/mounts"), |place| {
            Path::new(place).join("cgroup.procs").exists()
        }),
        types: types(),
        has_bpf_lsm: fs::read_to_string("/sys/kernel/security/lsm")
            .ok()
            .map(|modules| holds_bpf(&modules)),
    }
}

impl Machine {
    /// The part of turnkey that a run can show here.
    #[must_use]
    pub fn shows(&self) -> Shows {
        let is_hosts_root = self.is_root && !self.in_user_namespace;
        let watches = is_hosts_root
            && self.lacks.is_empty()
            && self.groups == Groups::Writable
            && self.types == Types::There;
        let makes_none = is_hosts_root && self.lacks.intersects(OF_EVERY_JAIL);
        if watches {
            Shows::Everything
        } else if makes_none {
            Shows::Nothing
        } else {
            Shows::JailAlone
        }
    }

    /// The caller, in words.
    fn caller(&self) -> String {
        let place = if self.in_container {
            ", in a container"
        } else {
            ""
        };
        if !self.is_root {
            return format!("an ordinary user{place}");
        }
        if self.in_user_namespace {
            return format!("root of a user namespace{place}, and no root of the host");
        }
        let lacks = self
            .lacks
            .iter_names()
            .map(|(name, _)| format!("CAP_{name}"));
        match lacks.collect::<Vec<_>>().as_slice() {
            [] => format!("root with all that is needed{place}"),
            lacks => format!("root without {}{place}", lacks.join(", ")),
        }
    }

    fn kernel_side(&self) -> String {
        let types = match self.types {
            Types::There => "BTF is there",
            Types::NoSys => "nothing is known of BTF, because /sys is not mounted",
            Types::Missing => "no BTF",
        };
        let groups = match self.groups {
            Groups::Writable => "control groups v2 are mounted",
            Groups::ReadOnly => "control groups v2 are mounted read-only",
            Groups::Missing => "no control groups v2 are mounted",
        };
        let lsm = match self.has_bpf_lsm {
            Some(true) => "BPF LSM acts (forbidden acts do not happen)",
            Some(false) => {
                "BPF LSM does not act (whoever does what is forbidden is killed after the call)"
            }
            None => "nothing is known of BPF LSM, because /sys/kernel/security cannot be read",
        };
        format!("{types}; {groups}; {lsm}")
    }

    /// The part that can be shown; and where that is not everything, the one thing to change first.
    fn outlook(&self) -> String {
        match self.shows() {
            Shows::Everything => "jail and monitor, all of it".to_owned(),
            Shows::JailAlone => format!(
                "at most the jail without the monitor; for all of it, {}",
                self.fix()
            ),
            Shows::Nothing => format!("nothing, since root makes no jail here; {}", self.fix()),
        }
    }

    /// The one thing to change first.
    pub fn fix(&self) -> &'static str {
        // Whoever becomes root in there gains nothing by it.
        if self.in_user_namespace {
            return "run this as root of the host, outside of the user namespace";
        }
        if !self.is_root && self.in_container {
            return "run this as root, in a container with all capabilities (docker run --privileged --cgroupns=host)";
        }
        if !self.is_root {
            return "run this as root";
        }
        let may_make_groups = self.groups != Groups::ReadOnly;
        if self.in_container && (!self.lacks.is_empty() || !may_make_groups) {
            return "give the container all capabilities (docker run --privileged --cgroupns=host)";
        }
        if !self.lacks.is_empty() {
            return "run this as root with all capabilities";
        }
        match self.types {
            Types::There if !may_make_groups => "remount the control groups read-write",
            Types::NoSys => "mount -t sysfs sysfs /sys",
            Types::Missing => "boot a kernel built with CONFIG_DEBUG_INFO_BTF",
            Types::There => "mount control groups, by the command that `turnkey run` names",
        }
    }
}

/// Three lines.
impl fmt::Display for Machine {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gibibytes = self.memory / 1024;
        writeln!(
            formatter,
            "machine: Linux {}, {} CPUs, {gibibytes} GiB of memory; you are {}",
            self.kernel,
            self.cpus,
            self.caller(),
        )?;
        writeln!(formatter, "kernel:  {}", self.kernel_side())?;
        write!(formatter, "shows:   {}", self.outlook())
    }
}

/// Capabilities without which root can make no jail at all.
const OF_EVERY_JAIL: CapabilitySet = CapabilitySet::SETGID
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::SYS_ADMIN);

/// The capabilities that the jail and the monitor of root cannot do without.
const NEEDED: CapabilitySet = OF_EVERY_JAIL
    .union(CapabilitySet::NET_ADMIN)
    .union(CapabilitySet::PERFMON)
    .union(CapabilitySet::BPF);

/// The best of what /proc/self/mounts lists.
fn groups(mounts: &str, is_there: impl Fn(&str) -> bool) -> Groups {
    let mut found = Groups::Missing;
    for line in mounts.lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        if let [_, place, "cgroup2", options, ..] = fields[..]
            && is_there(place)
        {
            if !options.split(',').any(|option| option == "ro") {
                return Groups::Writable;
            }
            found = Groups::ReadOnly;
        }
    }
    found
}

fn types() -> Types {
    if Path::new("/sys/kernel/btf/vmlinux").exists() {
        Types::There
    } else if Path::new("/sys/kernel").exists() {
        Types::Missing
    } else {
        Types::NoSys
    }
}

/// True when the list of security modules, names between commas, holds `bpf`.
fn holds_bpf(modules: &str) -> bool {
    modules.trim().split(',').any(|name| name == "bpf")
}

/// The kernel's own number for the first namespace of processes. Marks such as /.dockerenv stay in images that
/// became machines.
const FIRST_PROCESSES: u64 = 0xEFFF_FFFC;

/// The kernel's own number for the first namespace of users.
const FIRST_USERS: u64 = 0xEFFF_FFFD;

/// True when this process is in another namespace of that kind than the host's first process.
fn is_elsewhere(kind: &str, first: u64) -> bool {
    fs::metadata(format!("/proc/self/ns/{kind}")).is_ok_and(|namespace| namespace.ino() != first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole() -> Machine {
        Machine {
            kernel: "6.12.0".to_owned(),
            cpus: 2,
            memory: 4096,
            is_root: true,
            lacks: CapabilitySet::empty(),
            in_user_namespace: false,
            in_container: false,
            groups: Groups::Writable,
            types: Types::There,
            has_bpf_lsm: Some(true),
        }
    }

    #[test]
    fn it_is_said_in_three_lines() {
        let text = whole().to_string();
        assert_eq!(text.lines().count(), 3, "{text}");
        assert!(text.contains("2 CPUs, 4 GiB"), "{text}");
        assert!(text.ends_with("all of it"), "{text}");
    }

    #[test]
    fn each_thing_that_lacks_is_named_with_its_own_fix() {
        let lacking = |change: fn(&mut Machine)| {
            let mut machine = whole();
            change(&mut machine);
            assert_eq!(machine.shows(), Shows::JailAlone);
            machine.to_string()
        };
        assert!(lacking(|it| it.is_root = false).contains("run this as root"));
        let container = lacking(|it| {
            it.in_container = true;
            it.lacks = CapabilitySet::BPF;
        });
        assert!(
            container.contains("root without CAP_BPF, in a container"),
            "{container}"
        );
        assert!(container.contains("--privileged"), "{container}");
        assert!(lacking(|it| it.groups = Groups::Missing).contains("mount control groups"));
        let read_only = lacking(|it| it.groups = Groups::ReadOnly);
        assert!(read_only.contains("groups read-write"), "{read_only}");
        let read_only_in_a_container = lacking(|it| {
            it.groups = Groups::ReadOnly;
            it.in_container = true;
        });
        for part in ["mounted read-only", "docker run --privileged"] {
            assert!(read_only_in_a_container.contains(part), "{part}");
        }
        let user_in_a_container = lacking(|it| {
            it.is_root = false;
            it.in_container = true;
        });
        assert!(
            user_in_a_container.contains("--privileged"),
            "{user_in_a_container}"
        );
        let user_in_a_namespace = lacking(|it| {
            it.is_root = false;
            it.in_user_namespace = true;
        });
        assert!(user_in_a_namespace.contains("outside of the user namespace"));
        let rootless = lacking(|it| it.in_user_namespace = true);
        assert!(rootless.contains("root of a user namespace, and no root of the host"));
        assert!(rootless.contains("outside of the user namespace"));
        assert!(lacking(|it| it.types = Types::Missing).contains("CONFIG_DEBUG_INFO_BTF"));
        assert!(lacking(|it| it.types = Types::NoSys).contains("mount -t sysfs"));
    }

    #[test]
    fn root_that_can_make_no_jail_is_told_so_at_once() {
        let mut machine = whole();
        machine.in_container = true;
        machine.lacks = CapabilitySet::SYS_ADMIN;
        assert_eq!(machine.shows(), Shows::Nothing);
        let text = machine.to_string();
        assert!(text.contains("shows:   nothing, "), "{text}");
        assert!(text.contains("--privileged"), "{text}");
        // An ordinary user's jail is made in a user namespace, with the rights of there.
        machine.is_root = false;
        assert_eq!(machine.shows(), Shows::JailAlone);
    }

    #[test]
    fn a_kernel_without_bpf_lsm_shows_everything_too() {
        let mut machine = whole();
        for (has_bpf_lsm, told) in [
            (Some(false), "killed after the call"),
            (None, "nothing is known of BPF LSM"),
        ] {
            machine.has_bpf_lsm = has_bpf_lsm;
            assert_eq!(machine.shows(), Shows::Everything);
            assert!(machine.to_string().contains(told), "{machine}");
        }
    }

    #[test]
    fn this_machine_is_read() {
        let machine = look();
        assert!(machine.memory > 64 && machine.cpus > 0, "{machine:?}");
        assert!(machine.kernel.contains('.'), "{machine:?}");
        // As of docker: CAP_NET_ADMIN, CAP_SYS_ADMIN and what came later are not among them.
        let docker = CapabilitySet::from_bits_retain(0xa804_25fb);
        let names: Vec<&str> = (NEEDED - docker)
            .iter_names()
            .map(|(name, _)| name)
            .collect();
        assert_eq!(names, ["NET_ADMIN", "SYS_ADMIN", "PERFMON", "BPF"]);
    }

    #[test]
    fn a_hybrid_host_has_version_2() {
        let hybrid = "cgroup /sys/fs/cgroup/pids cgroup rw 0 0\n\
                      none /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        let there = |place: &str| place == "/sys/fs/cgroup/unified";
        assert_eq!(groups(hybrid, there), Groups::Writable);
        assert_eq!(
            groups(hybrid, |_| false),
            Groups::Missing,
            "something hides it"
        );
        let other = "cgroup /sys/fs/cgroup/unified cgroup rw 0 0\n";
        assert_eq!(groups(other, there), Groups::Missing);
        let read_only = "cgroup /sys/fs/cgroup/unified cgroup2 ro,nosuid 0 0\n";
        assert_eq!(groups(read_only, there), Groups::ReadOnly);
        let both = format!("{read_only}{hybrid}");
        assert_eq!(
            groups(&both, there),
            Groups::Writable,
            "one of them is enough"
        );
        assert!(holds_bpf("lockdown,capability,landlock,bpf\n"));
        assert!(!holds_bpf("lockdown,capability,bpfx\n") && !holds_bpf(""));
    }
}
