//! The host's names of files that a watched process has named by its own tree, such as a container's: by the mounts of both.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use turnkey_facts::{Event, Kind, Task};
use turnkey_jailer::mountinfo::{self, MountinfoLine};
use turnkey_report::{escape, unescape};

/// Most mount namespaces, and most processes, that are remembered.
const MOST: usize = 4096;

/// The mount namespaces of watched processes, with the mounts in each as they were when one was last looked at: the process of an act
/// may have died of it.
pub struct HostNames {
    /// The inode of turnkey's own mount namespace.
    own: u64,
    /// By the inode of the namespace.
    tables: BTreeMap<u64, MountTable>,
    /// The namespaces of processes.
    namespaces: BTreeMap<u32, u64>,
    /// The root directory that a runtime is going to change to, as the host names it.
    root: Option<PathBuf>,
}

impl HostNames {
    /// Of no process yet; `None` where /proc tells no namespaces. `root` is the root directory that a runtime of the group is going to
    /// change to, as the host names it.
    pub fn new(root: Option<&Path>) -> Option<HostNames> {
        Some(HostNames {
            own: namespace_of("self")?,
            tables: BTreeMap::new(),
            namespaces: BTreeMap::new(),
            root: root.map(Path::to_owned),
        })
    }

    /// Takes in a process that is there already: of a mount namespace that is known nothing is read again.
    pub fn know(&mut self, pid: u32) {
        let is_known = namespace_of(pid).is_some_and(|it| self.tables.contains_key(&it));
        match is_known {
            true => drop(self.namespace(pid)),
            false => self.look_at(pid),
        }
    }

    /// Looks at a process as it is now.
    fn look_at(&mut self, pid: u32) {
        let Some(namespace) = self.namespace(pid).filter(|it| *it != self.own) else {
            return;
        };
        let has_room = self.tables.len() < MOST || self.tables.contains_key(&namespace);
        if let Some(table) = MountTable::of_process(pid).filter(|_| has_room) {
            let root = self.root.as_deref().filter(|root| table.has_place(root));
            let table = match root {
                // The runtime has not changed its root yet.
                Some(root) => table.below(root),
                None => table,
            };
            self.tables.insert(namespace, table);
        }
    }

    /// The mount namespace of a process, which is remembered.
    fn namespace(&mut self, pid: u32) -> Option<u64> {
        let namespace = namespace_of(pid)?;
        if self.namespaces.len() < MOST {
            self.namespaces.insert(pid, namespace);
        }
        Some(namespace)
    }

    /// Follows processes: a program that starts has its tree by then.
    pub fn note(&mut self, event: &Event) {
        match event.kind {
            Kind::Exec { .. } => self.look_at(event.task.pid),
            Kind::Exit { .. } => {
                self.namespaces.remove(&event.task.pid);
            }
            _ => {}
        }
    }

    /// The host's name of a file that a task has named by `path`, both escaped; `None` where it is the same, or is not known.
    pub fn find(&mut self, task: &Task, path: &str) -> Option<String> {
        let path = exact(path)?;
        self.look_at(task.pid);
        let known = |pid| self.namespaces.get(pid).copied();
        let namespace = known(&task.pid).or_else(|| known(&task.parent_pid))?;
        let table = self.tables.get(&namespace)?;
        table.other_name(&path, &MountTable::of_process("self")?)
    }
}

/// The path that was escaped, where it is absolute and each component is a name.
fn exact(path: &str) -> Option<PathBuf> {
    let path = PathBuf::from(OsString::from_vec(unescape(path)));
    let is_name = |part| matches!(part, Component::RootDir | Component::Normal(_));
    (path.is_absolute() && path.components().all(is_name)).then_some(path)
}

/// The inode of a process's mount namespace, namespaces(7).
fn namespace_of(process: impl std::fmt::Display) -> Option<u64> {
    let link = fs::metadata(format!("/proc/{process}/ns/mnt")).ok()?;
    Some(link.ino())
}

/// The mounts of a namespace, in the order of their numbers.
struct MountTable(Vec<MountinfoLine>);

/// A file by its file system: the number of the device, and the path from the root of the file system.
type FileOfSystem = ((u32, u32), PathBuf);

impl MountTable {
    /// By proc_pid_mountinfo(5).
    #[expect(clippy::disallowed_methods, reason = "of /proc")]
    fn of_process(process: impl std::fmt::Display) -> Option<MountTable> {
        let text = fs::read(format!("/proc/{process}/mountinfo")).ok()?;
        // The last one at a place covers those before it.
        Some(MountTable(mountinfo::lines(&text).collect()))
    }

    /// True when something is mounted at this very place.
    fn has_place(&self, place: &Path) -> bool {
        self.0.iter().any(|line| line.place == place)
    }

    /// The mounts at `root` and below, as seen from there.
    fn below(self, root: &Path) -> MountTable {
        let lines = self.0.into_iter().filter_map(|mut line| {
            let below = line.place.strip_prefix(root).ok()?;
            line.place = Path::new("/").join(below);
            Some(line)
        });
        MountTable(lines.collect())
    }

    /// The mount that holds a path: the longest place, and of mounts at one place the last.
    fn holder(&self, path: &Path) -> Option<&MountinfoLine> {
        let holders = self.0.iter().filter(|line| path.starts_with(&line.place));
        holders.max_by_key(|line| line.place.as_os_str().len())
    }

    /// The name of a file of this table by another table, escaped; `None` where it is the same.
    fn other_name(&self, path: &Path, other: &MountTable) -> Option<String> {
        let found = other.name_of(self.locate(path)?)?;
        (found != path).then(|| escape(found.as_os_str().as_bytes()))
    }

    fn locate(&self, path: &Path) -> Option<FileOfSystem> {
        let mount = self.holder(path)?;
        let rest = path.strip_prefix(&mount.place).ok()?;
        Some((mount.device, mount.root.join(rest)))
    }

    /// The shortest path at which such a file is seen.
    fn name_of(&self, (device, file): FileOfSystem) -> Option<PathBuf> {
        let names = self.0.iter().filter_map(|line| {
            let rest = file.strip_prefix(&line.root).ok()?;
            let name = line.place.join(rest);
            let is_seen = line.device == device && self.holder(&name) == Some(line);
            is_seen.then_some(name)
        });
        names.min_by_key(|name| name.as_os_str().len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str) -> MountTable {
        MountTable(mountinfo::lines(text.as_bytes()).collect())
    }

    const HOST: &str = "\
20 1 254:1 / / rw - ext4 /dev/vda1 rw
21 20 0:50 / /var/lib/containers/merged rw - overlay overlay rw
22 20 0:60 / /srv rw - tmpfs none rw
23 22 0:61 / /srv/covered rw - tmpfs none rw
";

    #[test]
    fn a_file_has_the_name_by_which_the_host_sees_it() {
        let container = table(
            "31 30 0:50 / / rw - overlay overlay rw\n32 31 254:1 /var/data /data rw - ext4 /dev/vda1 rw\n\
             33 31 0:70 / /proc rw - proc proc rw\n34 31 0:60 /covered /hidden rw - tmpfs none rw\n",
        );
        let name = |path: &str| {
            let found = container.locate(Path::new(path))?;
            table(HOST).name_of(found)
        };
        let expected = Some(PathBuf::from("/var/lib/containers/merged/etc/shadow"));
        assert_eq!(name("/etc/shadow"), expected);
        assert_eq!(name("/data/x"), Some(PathBuf::from("/var/data/x")));
        assert_eq!(name("/proc/1"), None, "it is the container's own");
        assert_eq!(
            name("/hidden/x"),
            None,
            "another mount covers it on the host"
        );
    }

    /// An event has a path escaped, and the report wants the other one so.
    #[test]
    fn a_name_with_a_backslash_is_escaped_once() {
        let container = table("31 30 0:50 / / rw - overlay overlay rw\n");
        let other = |of: &MountTable, name: &str| {
            let path = exact(&escape(name.as_bytes())).unwrap();
            of.other_name(&path, &table(HOST))
        };
        let expected = escape(br"/var/lib/containers/merged/a\b");
        assert_eq!(other(&container, r"/a\b"), Some(expected));
        let same = table("31 30 0:60 / /srv rw - tmpfs none rw\n");
        assert_eq!(other(&same, r"/srv/a\b"), None, "it is the same");
        assert_eq!(exact("/a/../b"), None);
        assert_eq!(exact("a"), None);
    }

    #[test]
    fn a_tree_that_is_made_ready_is_seen_from_its_root() {
        let ready = table(
            "41 40 254:1 / / rw - ext4 /dev/vda1 rw\n42 41 254:1 /b/rootfs /b/rootfs rw - ext4 /dev/vda1 rw\n",
        );
        assert!(ready.has_place(Path::new("/b/rootfs")));
        let ready = ready.below(Path::new("/b/rootfs"));
        let found = ready.locate(Path::new("/etc/shadow")).unwrap();
        assert_eq!(found, ((254, 1), PathBuf::from("/b/rootfs/etc/shadow")));
        assert_eq!(
            table(HOST).name_of(found),
            Some(PathBuf::from("/b/rootfs/etc/shadow"))
        );
    }
}
