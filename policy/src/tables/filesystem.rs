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
    ["filesystem"] of filesystem;
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
            about: "`false`: what the profiles below list under `read`, `write`, `scratch` and `decoys` falls away",
        }
    };
    root: one Option<PathBuf> {
        form: Text, read: values::root, default: None, shown: "the host's",
        about: "a directory of the host that is the jail's root, read-only; inherited `read` falls away",
        wider: AsPart,
        flag: "root", value: "DIR", under: "Files",
        help: "Use this directory as the jail's root, read-only, instead of the host's system directories",
        is_path: true,
    }
    root_mode: one RootMode {
        form: Word(words::<RootMode>), read: values::word, default: RootMode::ReadOnly, shown: "`read-only`",
        about: "whether the jail's root and the directories of `read` can be written: not at all, or with the writes thrown away, at most `limits.disk` of them",
        wider: Greater,
        flag: "root-mode", value: "MODE", under: "Files",
        help: "The jail's root and the directories that it shows: read-only, or overlay: written, and the writes thrown away",
    }
    toolchain: one ToolchainMode {
        form: Word(words::<ToolchainMode>), read: values::word, default: ToolchainMode::None, shown: "`none`",
        about: "whether a command of the caller's `PATH` brings the directory it is installed in along, read-only; with `auto`, so do the venvs that are activated or in the working directory",
        wider: Greater,
        flag: "toolchain", value: "WHAT", under: "Files",
        help: "command: show the installation that the command belongs to, and put it on PATH; auto: those of venvs, too",
    }
    proc: one ProcView {
        form: Word(words::<ProcView>), read: values::word, default: ProcView::Common, shown: "`common`",
        about: "what of `/proc` is there: all but what speaks of the host alone, or nothing but the jail's own processes, so without `cpuinfo`, `meminfo`, `stat`, `sys` and their like",
        wider: Later(&["processes", "common"]),
    }
    read: tables HostPath {
        form: Entries(GIVEN_PATH), read: readable, same: HostPath::place, shown: "`[]`",
        about: "host paths visible read-only, at the same place or another one",
        flag: "read", value: "PATH", under: "Files", help: "Make this path of the host visible, read-only",
        is_path: true,
        apply: |flag, into| push(&mut into.filesystem.read, flag, flags::host_path),
    }
    write: tables HostPath {
        form: Entries(GIVEN_PATH), read: entry::<HostPathKeys, _>, same: HostPath::place, shown: "`[]`",
        about: "host paths visible and writable, at the same place or another one: the only way a run changes the host",
        flag: "write", value: "PATH", under: "Files", help: "Make this path of the host visible and writable",
        is_path: true,
        apply: |flag, into| push(&mut into.filesystem.write, flag, flags::host_path),
    }
    scratch: tables ScratchMount {
        form: Entries("{ path = \"/tmp\", size = \"64M\" }"), read: entry::<ScratchKeys, _>, same: |entry| &entry.path, shown: "`[]`",
        about: "memory file systems, gone afterwards; one at `/tmp` has another of its size at `/var/tmp`, unless the profile gives that place or one above it, or has a `root`",
        flag: "scratch", value: "PATH=SIZE", under: "Files", help: "Mount a tmpfs of this size",
        apply: |flag, into| push(&mut into.filesystem.scratch, flag, flags::scratch),
    }
    workdir: table WorkdirPolicy {
        form: Table, read: nested, shown: "",
        about: "how the caller's directory appears in the jail",
    }
    own_path: one OwnPath {
        form: Word(words::<OwnPath>), read: values::word, default: OwnPath::Known, shown: "`known`",
        about: "whether the caller's directory is at its own path, too, by a symlink to `/workspace`: when the command, the environment or a venv in it names that path; always; or never",
        wider: Later(&["never", "known", "always"]),
        flag: "own-path", value: "WHEN", under: "Files",
        help: "Whether the path of the working directory leads to /workspace: known, always or never",
    }
    decoys: list PathBuf {
        form: Texts, read: values::decoy, same: |path| path, shown: "`[]`",
        about: "jail paths where a worthless file is planted to be watched; `~` is `/workspace`; not below another given path",
    }
}

/// An entry of `filesystem.read` or `filesystem.write`.
const GIVEN_PATH: &str = r#"{ path = "/usr", why = "libraries" }"#;

key_table! {
    ["filesystem.write"] of filesystem;
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
        "`false`: what it holds can be opened by name, and no directory in it can be listed unless another entry of `read` gives it; neither can the jail's root. Landlock sees to that",
    );
    [path, at, optional, list, why]
};

fn readable(section: &mut SectionReader<'_, '_, '_>) -> Option<HostPath> {
    let list = section.value("list", values::truth);
    let list = list.is_none_or(|list| list.value);
    entry::<HostPathKeys, _>(section).map(|path| HostPath { list, ..path })
}

key_table! {
    ["filesystem.scratch"] of filesystem;
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
    ["filesystem.workdir"] of filesystem;
    /// `[filesystem.workdir]`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    compared WorkdirPolicy, read WorkdirKeys;
    mode: one WorkdirMode {
        form: Word(words::<WorkdirMode>), read: values::word, default: WorkdirMode::Overlay, shown: "`overlay`",
        about: "writable with the writes thrown away, read-only, or an empty scratch instead",
        wider: AsPart,
        flag: "workdir-mode", value: "MODE", under: "Files", help: "The workspace: overlay, read-only or none",
        apply: |flag, into| put(&mut into.filesystem.workdir.mode, flag, values::word),
    }
    at: one WorkdirPlace {
        form: Word(words::<WorkdirPlace>), read: values::word, default: WorkdirPlace::Workspace, shown: "`workspace`",
        about: "its path in the jail: `/workspace`, or the path that it has on the host, to which `/workspace` then leads",
        flag: "at-host-path", value: "", under: "Files",
        help: "The workspace stands at its own path of the host, and /workspace leads to it",
        apply: |flag, into| put(&mut into.filesystem.workdir.at, flag, |_| Ok(WorkdirPlace::Host)),
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
