//! `[filesystem]`, and the entries of its lists.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::declare::{KeyTable, ReadAs, by_kind, entry, key_table, push, put, same_keys};
use crate::flags;
use crate::keys::{ProfileKey, ValueForm, key, words};
use crate::model::{OwnPath, ProcView, RootMode, ToolchainMode, WorkdirMode, WorkdirPlace};
use crate::read::SectionReader;
use crate::values;

key_table! {
    ["filesystem"];
    /// `[filesystem]`.
    #[derive(Clone, Debug, PartialEq)]
    compared FilesystemPolicy and {
        /// The paths besides `/workspace` that lead to the workspace in the jail: see
        /// [`Policy::settle_workspace`](crate::Policy::settle_workspace).
        names: Vec<PathBuf> = Vec::new(),
        /// The contents of those [`Self::decoys`] that are files as any other: what a world of `turnkey worlds` has in them.
        planted: BTreeMap<PathBuf, String> = BTreeMap::new(),
    },
    read FilesystemKeys and {
        inherit: bool {
            form: Truth, read: values::truth, shown: "`true`",
            about: "`false`: entries of `read`, `write`, `scratch` and `decoys` in the profiles of `extends` do not apply",
        }
    };
    root: one Option<PathBuf> {
        form: Text, read: values::root, default: None, shown: "the host's",
        about: "a directory of the host that is the jail's root, read-only; inherited entries of `read` do not apply",
        wider: AsPart,
        flag: "root", value: "DIR", under: "Files",
        help: "Use this directory as the jail's root, read-only, instead of the host's system directories",
        is_path: true,
    }
    root_mode: one RootMode {
        form: Word(words::<RootMode>), read: values::word, default: RootMode::ReadOnly, shown: "`read-only`",
        about: "`overlay`: the jail's root and the directories of `read` can be written; the writes stay in memory, at most `limits.disk`, and are discarded",
        wider: Greater,
        flag: "root-mode", value: "MODE", under: "Files",
        help: "The jail's root and the directories of --read: read-only, or overlay: writable, and the writes are discarded",
    }
    toolchain: one ToolchainMode {
        form: Word(words::<ToolchainMode>), read: values::word, default: ToolchainMode::None, shown: "`none`",
        about: "`command`: the installation of a command that is found on the caller's `PATH` is visible, read-only\n`auto`: so are the venvs that are activated or in the working directory",
        wider: Greater,
        flag: "toolchain", value: "WHAT", under: "Files",
        help: "command: show the installation that the command belongs to, and put it on PATH; auto: those of venvs, too",
    }
    proc: one ProcView {
        form: Word(words::<ProcView>), read: values::word, default: ProcView::Common, shown: "`common`",
        about: "`common`: `/proc` without the files that are about the host alone\n`processes`: only the jail's own processes, without `cpuinfo`, `meminfo`, `stat`, `sys` and their like",
        wider: Later(&["processes", "common"]),
    }
    read: tables HostPath {
        form: Entries(GIVEN_PATH), read: readable, same: HostPath::place, shown: "`[]`",
        about: "host paths visible read-only, at the same place or another one",
        flag: "read", value: "PATH", under: "Files", help: "Make this path of the host visible, read-only",
        is_path: true,
        apply: |flag, into| push(&mut into.read, flag, flags::host_path),
    }
    write: tables HostPath {
        form: Entries(GIVEN_PATH), read: entry::<HostPathKeys, _>, same: HostPath::place, shown: "`[]`",
        about: "host paths visible and writable, at the same place or another one: the only way a run changes the host",
        flag: "write", value: "PATH", under: "Files", help: "Make this path of the host visible and writable",
        is_path: true,
        apply: |flag, into| push(&mut into.write, flag, flags::host_path),
    }
    scratch: tables ScratchMount {
        form: Entries("{ path = \"/tmp\", size = \"64M\" }"), read: entry::<ScratchKeys, _>, same: |entry| &entry.path, shown: "`[]`",
        about: "tmpfs mounts, which end with the run; one at `/tmp` implies another of its size at `/var/tmp`, unless the profile has an entry there or above it, or a `root`",
        flag: "scratch", value: "PATH=SIZE", under: "Files", help: "Mount a tmpfs of this size",
        apply: |flag, into| push(&mut into.scratch, flag, flags::scratch),
    }
    workdir: table WorkdirPolicy {
        form: Table, read: nested, shown: "",
        about: "how the caller's directory appears in the jail",
    }
    own_path: one OwnPath {
        form: Word(words::<OwnPath>), read: values::word, default: OwnPath::Known, shown: "`known`",
        about: "whether the path of the caller's directory on the host is a symlink to `/workspace` in the jail: `known`, when the command, the environment or a venv in it names that path; `always`; or `never`",
        wider: Later(&["never", "known", "always"]),
        flag: "own-path", value: "WHEN", under: "Files",
        help: "Make the working directory's path on the host a symlink to /workspace: known (where the program is told that path anyway), always or never",
    }
    decoys: list PathBuf {
        form: Texts, read: values::decoy, same: |path| path, shown: "`[]`",
        about: "jail paths where a worthless file is planted to be watched; `~` is `/workspace`; not below another given path",
    }
}

/// An entry of `filesystem.read` or `filesystem.write`.
const GIVEN_PATH: &str = r#"{ path = "/usr", why = "libraries" }"#;

key_table! {
    ["filesystem.write"];
    /// A path of the host that the jail is given.
    #[derive(Clone, Debug, PartialEq, Eq)]
    entry HostPath and {
        /// True when directories in it may be listed, and not only what is in them opened by name. Always, where
        /// it may be written.
        list: bool = true,
    },
    read HostPathKeys;
    path: needed PathBuf {
        form: Text, read: values::absolute_path, shown: "",
        about: "absolute, without `.` or `..`",
    }
    at: one Option<PathBuf> {
        form: Text, read: values::place, default: None, shown: "the same",
        about: "its path in the jail, where that is another one",
    }
    optional: one bool {
        form: Truth, read: values::truth, default: false, shown: "`false`",
        about: "leave it out when the host has no such path, instead of failing the run",
    }
    why: one String {
        form: Text, read: values::text, default: String::new(), shown: "`\"\"`",
        about: "why the jail is given it",
    }
}

impl HostPath {
    /// The path in the jail.
    #[must_use]
    pub fn place(&self) -> &PathBuf {
        self.at.as_ref().unwrap_or(&self.path)
    }
}

pub(super) const WRITE: &[ProfileKey] = HostPathKeys::KEYS;

/// The keys of an entry of `read`: those of `write`, and one more.
pub(super) const READ: &[ProfileKey] = &{
    let [path, at, optional, why] = same_keys(WRITE, "filesystem.read");
    let list = key(
        "filesystem.read",
        "list",
        ValueForm::Truth,
        "`true`",
        "`false`: its files can be opened by name, but Landlock refuses to list its directories, except those of other entries of `read`, and to list the jail's root",
    );
    [path, at, optional, list, why]
};

fn readable(section: &mut SectionReader<'_, '_, '_>) -> Option<HostPath> {
    let list = section.value("list", values::truth);
    let list = list.is_none_or(|list| list.value);
    entry::<HostPathKeys, _>(section).map(|path| HostPath { list, ..path })
}

key_table! {
    ["filesystem.scratch"];
    /// A tmpfs.
    #[derive(Clone, Debug, PartialEq, Eq)]
    entry ScratchMount, read ScratchKeys;
    path: needed PathBuf {
        form: Text, read: values::absolute_path, shown: "",
        about: "absolute path in the jail",
    }
    /// In bytes.
    size: needed u64 {
        form: Size, read: values::memory, shown: "",
        about: "what it can hold; counts as memory of the jail",
    }
    why: one String {
        form: Text, read: values::text, default: String::new(), shown: "`\"\"`",
        about: "why the jail is given it",
    }
}

key_table! {
    ["filesystem.workdir"];
    /// `[filesystem.workdir]`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    compared WorkdirPolicy, read WorkdirKeys;
    mode: one WorkdirMode {
        form: Word(words::<WorkdirMode>), read: values::word, default: WorkdirMode::Overlay, shown: "`overlay`",
        about: "`overlay`: writable, and the writes are discarded\n`read-only`: not writable\n`none`: an empty scratch instead of the directory",
        wider: AsPart,
        flag: "workdir-mode", value: "MODE", under: "Files", help: "The workspace: overlay, read-only or none",
        apply: |flag, into| put(&mut into.mode, flag, values::word),
    }
    at: one WorkdirPlace {
        form: Word(words::<WorkdirPlace>), read: values::word, default: WorkdirPlace::Workspace, shown: "`workspace`",
        about: "its path in the jail: `/workspace`, or the path that it has on the host, with `/workspace` as a symlink to that",
        flag: "at-host-path", value: "", under: "Files",
        help: "Mount the workspace at the path that it has on the host, and make /workspace a symlink to it",
        apply: |flag, into| put(&mut into.at, flag, |_| Ok(WorkdirPlace::Host)),
    }
}

impl ReadAs for WorkdirPolicy {
    type Keys = WorkdirKeys;
}

fn nested<K: KeyTable>(section: &mut SectionReader<'_, '_, '_>, name: &str) -> K {
    let mut keys = K::default();
    section.section(name, |section| keys = K::read(section));
    keys
}
