//! One process as /proc shows it to its supervisor: proc_pid_stat(5), proc_pid_status(5).
#![expect(clippy::disallowed_methods, reason = "of /proc, which nobody turns")]

use std::fs;

/// The figures of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessSample {
    /// In the supervisor's pid namespace.
    pub pid: libc::pid_t,
    /// Since boot, in ticks: with the pid it names the process for good.
    pub started: u64,
    /// User and system ticks of its own.
    pub own: (u64, u64),
    /// Of the children it has waited for.
    pub waited: (u64, u64),
    /// Threads.
    pub tasks: u64,
    /// The memory of the process, pages that others hold as well included.
    pub memory: ProcessMemory,
}

/// Bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessMemory {
    /// Anonymous memory and swap.
    pub own: u64,
    /// Shared memory, and files of a tmpfs that are mapped.
    pub shared: u64,
}

impl ProcessMemory {
    /// Both together.
    pub fn plus(self, other: ProcessMemory) -> ProcessMemory {
        ProcessMemory {
            own: self.own.saturating_add(other.own),
            shared: self.shared.saturating_add(other.shared),
        }
    }

    /// The sum.
    pub fn sum(self) -> u64 {
        self.own.saturating_add(self.shared)
    }
}

/// From three lines in kilobytes: anonymous, swap, shared.
fn memory(text: &str, keys: [&str; 3]) -> ProcessMemory {
    let [anonymous, swap, shared] = keys.map(|key| value(text, key).saturating_mul(1024));
    ProcessMemory {
        own: anonymous.saturating_add(swap),
        shared,
    }
}

/// The process `pid`; `None` when it is gone.
pub fn process(pid: libc::pid_t) -> Option<ProcessSample> {
    // The memory first: it goes with the process's last moment, before the process itself.
    let status = read(pid, "status")?;
    parse(pid, &read(pid, "stat")?, &status)
}

/// Bytes that wait in the netlink(7) sockets of the network namespace of the process `pid`; 0 when it is gone.
pub fn unread_of_netlink(pid: libc::pid_t) -> u64 {
    sum_of_unread(&read(pid, "net/netlink").unwrap_or_default())
}

/// The sum of the column `Rmem`.
fn sum_of_unread(table: &str) -> u64 {
    let sizes = table.lines().skip(1).filter_map(|line| {
        let size = line.split_whitespace().nth(4)?;
        size.parse::<u64>().ok()
    });
    sizes.fold(0, u64::saturating_add)
}

/// A process names itself, with any bytes: a name that is no text must not hide it.
fn read(pid: libc::pid_t, file: &str) -> Option<String> {
    let bytes = fs::read(format!("/proc/{pid}/{file}")).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn parse(pid: libc::pid_t, stat: &str, status: &str) -> Option<ProcessSample> {
    // The name in parentheses may hold anything; field 3 is the first behind it.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    Some(ProcessSample {
        pid,
        started: field(22)?,
        own: (field(14)?, field(15)?),
        waited: (field(16)?, field(17)?),
        tasks: field(20)?,
        memory: memory(status, ["RssAnon", "VmSwap", "RssShmem"]),
    })
}

/// The part of its memory that is this process's own, where pages of several are divided among
/// them: what it has in all when the kernel does not let us look, `None` when it is gone.
pub fn share(process: &ProcessSample) -> Option<ProcessMemory> {
    match fs::read(format!("/proc/{}/smaps_rollup", process.pid)) {
        Ok(text) => Some(memory(
            &String::from_utf8_lossy(&text),
            ["Pss_Anon", "SwapPss", "Pss_Shmem"],
        )),
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => Some(process.memory),
        Err(_) => None,
    }
}

/// `Key:   123 kB`; 0 where the key is not, as for a process that has ended.
fn value(text: &str, key: &str) -> u64 {
    let number = text.lines().find_map(|line| {
        let rest = line.strip_prefix(key)?.strip_prefix(':')?;
        rest.split_whitespace().next()?.parse().ok()
    });
    number.unwrap_or(0)
}

/// The children of `pid`, which has so many threads: each has children of its own.
pub fn children(pid: libc::pid_t, threads: u64) -> Vec<libc::pid_t> {
    let read =
        |list: std::io::Result<String>| list.map_or_else(|_| Vec::new(), |list| numbers(&list));
    if threads <= 1 {
        return read(fs::read_to_string(format!(
            "/proc/{pid}/task/{pid}/children"
        )));
    }
    let threads = fs::read_dir(format!("/proc/{pid}/task"));
    let threads = threads.into_iter().flatten().flatten();
    threads
        .flat_map(|thread| read(fs::read_to_string(thread.path().join("children"))))
        .collect()
}

fn numbers(list: &str) -> Vec<libc::pid_t> {
    list.split_whitespace()
        .filter_map(|number| number.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hostile_name_moves_no_field() {
        let stat = "7 (a) R 1 2) S 1 7 7 0 -1 4194304 5 6 0 0 11 12 13 14 20 0 3 0 999 1 2";
        let status = "Name:\tRssAnon: 9 kB\nRssAnon:\t     100 kB\nRssFile:\t 50 kB\nRssShmem:\t       4 kB\n";
        let process = parse(7, stat, status).unwrap();
        assert_eq!((process.own, process.waited), ((11, 12), (13, 14)));
        assert_eq!((process.tasks, process.started), (3, 999));
        assert_eq!(
            process.memory,
            ProcessMemory {
                own: 100 * 1024,
                shared: 4 * 1024
            }
        );
    }

    #[test]
    fn what_waits_in_netlink_sockets_is_their_sum() {
        let socket = |unread: &str| {
            format!(
                "00000000caa4af6d 0   7 00000000 {unread}        16        0     2        0        4\n"
            )
        };
        let head = "sk               Eth Pid        Groups   Rmem     Wmem     Dump  Locks    Drops    Inode\n";
        let table = [head, &socket("8192"), &socket("0"), &socket("4294967296")].concat();
        assert_eq!(sum_of_unread(&table), (1 << 32) + 8192);
        assert_eq!(sum_of_unread(""), 0);
    }

    #[test]
    fn a_name_that_is_no_text_hides_nothing() {
        let script = r"printf '\377)' > /proc/self/comm; exec 0<&1; sleep 60 & echo; wait";
        let mut command = std::process::Command::new("sh");
        let command = command
            .args(["-c", script])
            .stdout(std::process::Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut said = [0];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut said).unwrap();
        let pid = libc::pid_t::try_from(child.id()).unwrap();
        let (comm, seen) = (fs::read(format!("/proc/{pid}/comm")).unwrap(), process(pid));
        for child in children(pid, 1) {
            let _ = std::process::Command::new("kill")
                .arg(child.to_string())
                .status();
        }
        child.wait().unwrap();
        assert!(
            String::from_utf8(comm).is_err(),
            "the control: its name is no text"
        );
        assert!(seen.unwrap().memory.own > 0);
    }

    #[test]
    fn a_child_is_found_and_counted() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let pid = libc::pid_t::try_from(child.id()).unwrap();
        let own = libc::pid_t::try_from(std::process::id()).unwrap();
        let found = children(own, 2).contains(&pid);
        let seen = process(pid);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(found);
        assert_eq!(seen.unwrap().tasks, 1);
        assert_eq!(process(pid), None);
    }
}
