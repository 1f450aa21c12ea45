//! The one table of a profile's keys: what the reader accepts, what error messages suggest and
//! what the reference in `docs/profile.md` lists.

use crate::behaviour::Response;
use crate::model::{
    Access, Action, FileFlag, Layer, Mode, Network, On, OnLoss, Proc, SameFile, Severity,
    Toolchain, Workdir,
};
use crate::names::Named;

/// What is written after a key.
#[derive(Clone, Copy, Debug)]
pub enum Form {
    /// Any text.
    Text,
    /// Texts, or a single one without brackets.
    Texts,
    /// A table of texts.
    TextTable,
    /// `"256M"`
    Size,
    /// `"100%"`
    Percent,
    /// `"30s"`
    Duration,
    /// `50`
    Count,
    /// `[443, "8000-8010"]`
    Ports,
    /// `true` or `false`
    Truth,
    /// One of these words.
    Word(fn() -> Vec<&'static str>),
    /// Some of these words, or a single one without brackets.
    Words(fn() -> Vec<&'static str>),
    /// A list of tables, such as this one.
    Entries(&'static str),
    /// A table.
    Table,
    /// Tables, in double brackets.
    Tables,
}

/// One key of a profile.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// The table it stands in; empty for the top.
    pub table: &'static str,
    /// Its name.
    pub name: &'static str,
    /// What is written after it.
    pub form: Form,
    /// What holds when no merged profile says anything; empty when it must be given.
    pub default: &'static str,
    /// One line for people.
    pub about: &'static str,
}

/// An entry of `filesystem.read` or `filesystem.write`.
const GIVEN_PATH: &str = r#"{ path = "/usr", why = "libraries" }"#;

fn words<T: Named>() -> Vec<&'static str> {
    T::NAMES.iter().map(|(_, name)| *name).collect()
}

/// `"all"`, or layers.
fn layers_or_all() -> Vec<&'static str> {
    let mut all = vec!["all"];
    all.extend(words::<Layer>());
    all
}

const fn key(
    table: &'static str,
    name: &'static str,
    form: Form,
    default: &'static str,
    about: &'static str,
) -> Key {
    Key {
        table,
        name,
        form,
        default,
        about,
    }
}

/// Every key.
#[rustfmt::skip]
pub const KEYS: &[Key] = &[
    key("", "schema", Form::Text, "", "`turnkey.profile/v1`"),
    key("", "name", Form::Text, "", "the profile's name in reports"),
    key("", "description", Form::Text, "`\"\"`", "one line for people"),
    key("", "extends", Form::Texts, "`[]`", "profiles this one builds on, by name or by file"),
    key("", "filesystem", Form::Table, "", "what the jail's tree holds"),
    key("", "network", Form::Table, "", "what the jail may reach"),
    key("", "limits", Form::Table, "", "what the whole tree of processes may use"),
    key("", "identity", Form::Table, "", "who the program is inside"),
    key("", "env", Form::Table, "", "what the program finds in its environment"),
    key("", "syscalls", Form::Table, "", "which syscalls pass the filter"),
    key("", "enforcement", Form::Table, "", "what must hold, and what happens when it does not"),
    key("", "behaviour", Form::Table, "", "what courses of acts lead to: see [Behaviours](behaviours.md)"),
    key("", "accept", Form::Tables, "", "findings that are known and no reason for suspicion"),
    key("", "rule", Form::Tables, "", "what an attempt means"),

    key("filesystem", "inherit", Form::Truth, "`true`", "`false`: what the profiles below list under `read`, `write`, `scratch` and `decoys` falls away"),
    key("filesystem", "root", Form::Text, "the host's", "a directory of the host that is the jail's root, read-only; inherited `read` falls away"),
    key("filesystem", "toolchain", Form::Word(words::<Toolchain>), "`none`", "whether a command of the caller's `PATH` brings the directory it is installed in along, read-only"),
    key("filesystem", "proc", Form::Word(words::<Proc>), "`common`", "what of `/proc` is there: all but what speaks of the host alone, or nothing but the jail's own processes, so without `cpuinfo`, `meminfo`, `stat`, `sys` and their like"),
    key("filesystem", "read", Form::Entries(GIVEN_PATH), "`[]`", "host paths visible read-only at the same place"),
    key("filesystem", "write", Form::Entries(GIVEN_PATH), "`[]`", "host paths visible and writable at the same place: the only way a run changes the host"),
    key("filesystem", "scratch", Form::Entries("{ path = \"/tmp\", size = \"64M\" }"), "`[]`", "memory file systems, gone afterwards"),
    key("filesystem", "workdir", Form::Table, "", "how the caller's directory appears at `/workspace`"),
    key("filesystem", "decoys", Form::Texts, "`[]`", "jail paths where a worthless file is planted to be watched; `~` is `/workspace`; not below another given path"),
    key("filesystem.read", "path", Form::Text, "", "absolute, without `.` or `..`"),
    key("filesystem.read", "optional", Form::Truth, "`false`", "leave it out when the host has no such path, instead of failing the run"),
    key("filesystem.read", "list", Form::Truth, "`true`", "`false`: what it holds can be opened by name, and no directory in it can be listed unless another entry of `read` gives it; neither can the jail's root. Landlock sees to that"),
    key("filesystem.read", "why", Form::Text, "`\"\"`", "why the jail is given it"),
    key("filesystem.write", "path", Form::Text, "", "absolute, without `.` or `..`"),
    key("filesystem.write", "optional", Form::Truth, "`false`", "leave it out when the host has no such path, instead of failing the run"),
    key("filesystem.write", "why", Form::Text, "`\"\"`", "why the jail is given it"),
    key("filesystem.scratch", "path", Form::Text, "", "absolute path in the jail"),
    key("filesystem.scratch", "size", Form::Size, "", "what it can hold; counts as memory of the jail"),
    key("filesystem.scratch", "why", Form::Text, "`\"\"`", "why the jail is given it"),
    key("filesystem.workdir", "mode", Form::Word(words::<Workdir>), "`overlay`", "writable with the writes thrown away, read-only, or an empty scratch instead"),

    key("network", "mode", Form::Word(words::<Network>), "`none`", "a network namespace in which nobody is reached, one with its own loopback, that and the hosts of `allow`, or none: the host's own network"),
    key("network", "why", Form::Text, "`\"\"`", "why the program needs the mode `host`"),
    key("network", "allow", Form::Entries("{ to = \"example.org:443\", why = \"packages\" }"), "`[]`", "whom the program may talk to over TCP; means the mode `allow`: see [Network](#network)"),
    key("network.allow", "to", Form::Text, "", "`HOST:PORT`: a name, an address or a range such as `10.1.0.0/16`, version 6 in brackets; a port or a range such as `8000-8010`"),
    key("network.allow", "why", Form::Text, "`\"\"`", "why the program needs it"),

    key("limits", "memory", Form::Size, "`256M`", "memory of the tree, with page cache and scratch"),
    key("limits", "swap", Form::Size, "`0`", "swap of the tree"),
    key("limits", "cpu", Form::Percent, "`100%`", "share of one processor; `200%` is two processors"),
    key("limits", "pids", Form::Count, "`50`", "processes and threads at once"),
    key("limits", "wall", Form::Duration, "`30s`", "from the program's first instruction; while the machine is suspended, this clock stands"),
    key("limits", "cpu_time", Form::Duration, "`20s`", "user and system time of the tree"),
    key("limits", "output", Form::Size, "`1M`", "stdout and stderr together"),
    key("limits", "io_read", Form::Size, "no limit", "bytes that the tree reads in a second from each disk behind what it sees"),
    key("limits", "io_write", Form::Size, "no limit", "bytes that the tree writes in a second to each of these disks; with control groups v1, not what goes through the page cache"),
    key("limits", "disk", Form::Size, "`1G`", "what the thrown-away side of `/workspace` holds, and a file for every 4 KiB of it; it lies in memory and counts as such, too"),
    key("limits", "file_size", Form::Size, "`64M`", "per file"),
    key("limits", "open_files", Form::Count, "`256`", "per process"),
    key("limits", "export_size", Form::Size, "`256M`", "what `--export` writes to the host"),

    key("identity", "user", Form::Text, "`jail`", "user and group name inside"),
    key("identity", "hostname", Form::Text, "`jail`", "host name inside"),

    key("env", "pass", Form::Texts, "`[]`", "names handed through from the caller"),
    key("env", "set", Form::TextTable, "`{}`", "names with fixed values; wins over `pass`"),

    key("syscalls", "inherit", Form::Truth, "`true`", "`false`: what the profiles below allow falls away"),
    key("syscalls", "allow", Form::Texts, "", "groups such as `@basic`, or names of syscalls that stand in one"),

    key("enforcement", "required", Form::Words(layers_or_all), "`\"all\"`", "layers without which the run fails; the rest is reported when missing"),
    key("enforcement", "on_loss", Form::Word(words::<OnLoss>), "`mark`", "what lost events mean: the verdict is inconclusive, exit code 120 too, or the jail is killed"),
    key("enforcement", "mode", Form::Word(words::<Mode>), "`enforce`", "whether rules act, or every one that would only logs"),

    key("behaviour", "credential-access", Form::Word(words::<Response>), "`log`", "what it leads to that the program goes after secrets of several kinds, or takes a decoy"),
    key("behaviour", "discovery", Form::Word(words::<Response>), "`log`", "what it leads to that the program asks in a burst what machine, user and network it is on"),
    key("behaviour", "reverse-shell", Form::Word(words::<Response>), "`log`", "what it leads to that the program ties a shell to a connection, for somebody far away"),
    key("behaviour", "download-execute", Form::Word(words::<Response>), "`log`", "what it leads to that the program executes what came over the network"),
    key("behaviour", "fileless-execution", Form::Word(words::<Response>), "`log`", "what it leads to that the program executes what no directory names"),
    key("behaviour", "port-scan", Form::Word(words::<Response>), "`log`", "what it leads to that the program tries ports or hosts one after the other"),
    key("behaviour", "exfiltration", Form::Word(words::<Response>), "`log`", "what it leads to that the program reads a secret, then speaks to the network"),
    key("behaviour", "dns-tunnel", Form::Word(words::<Response>), "`log`", "what it leads to that the program carries data in the names that it asks for"),
    key("behaviour", "mass-change", Form::Word(words::<Response>), "`log`", "what it leads to that the program deletes, overwrites or renames files that it did not make, many and of many kinds"),
    key("behaviour", "persistence", Form::Word(words::<Response>), "`log`", "what it leads to that the program writes what would run later by itself"),
    key("behaviour", "privilege-escalation", Form::Word(words::<Response>), "`log`", "what it leads to that the program tries to become another user or to gain capabilities"),
    key("behaviour", "jail-escape", Form::Word(words::<Response>), "`log`", "what it leads to that the program reaches for what lies outside of every jail"),
    key("behaviour", "exhaustion", Form::Word(words::<Response>), "`log`", "what it leads to that the program takes all it can have of memory, processes or disk"),
    key("behaviour", "evasion", Form::Word(words::<Response>), "`log`", "what it leads to that the program removes itself, looks for a jail or a virtual machine, or waits until nobody looks"),
    key("behaviour", "process-killing", Form::Word(words::<Response>), "`log`", "what it leads to that the program ends processes that it did not start"),
    key("behaviour", "injection", Form::Word(words::<Response>), "`log`", "what it leads to that the program brings code into other programs"),
    key("behaviour", "system-change", Form::Word(words::<Response>), "`log`", "what it leads to that the program changes what belongs to the system, or to somebody's home"),
    key("behaviour", "file-discovery", Form::Word(words::<Response>), "`log`", "what it leads to that the program lists directories of the system, and does nothing with what is in them"),
    key("behaviour", "account-discovery", Form::Word(words::<Response>), "`log`", "what it leads to that the program reads the list of accounts itself, or a copy of it"),

    key("accept", "finding", Form::Text, "", "its id in a report: a rule's, `behaviour:…` or `turnkey:…`"),
    key("accept", "why", Form::Text, "", "why it is no reason for suspicion"),
    key("accept", "until", Form::Text, "", "the last day on which it is accepted, as `2027-12-31`, in UTC"),

    key("rule", "id", Form::Text, "", "unique; lower-case words joined by `-`"),
    key("rule", "on", Form::Words(words::<On>), "", "the kinds of attempt it speaks of"),
    key("rule", "path", Form::Texts, "every path", "patterns; only with kinds of attempt on a file"),
    key("rule", "access", Form::Words(words::<Access>), "both", "how the file is opened; only with `open`"),
    key("rule", "address", Form::Texts, "every address", "addresses and networks, such as `10.0.0.0/8`; only with `connect`, `bind` and `send`"),
    key("rule", "port", Form::Ports, "every port", "ports and ranges of them; only with `connect`, `bind` and `send`"),
    key("rule", "flags", Form::Words(words::<FileFlag>), "any file", "states of the file, any of which is meant; only with `open` and `exec`; `truncated` without `path`"),
    key("rule", "same_file", Form::Word(words::<SameFile>), "`no`", "whether `path` stands for the files that it names when the run begins, by whatever other name: for certain, or as far as it can be"),
    key("rule", "yields", Form::Truth, "`false`", "whether its patterns decide only where no pattern of another rule does; for broad allowances, which then shield nothing"),
    key("rule", "hidden", Form::Truth, "`false`", "whether its patterns match only what the profile does not show, by `read`, `write`, `scratch`, `toolchain` or a `root`; for notices about the host's own files, which then fall silent where a profile gives them"),
    key("rule", "present", Form::Truth, "`false`", "whether its patterns match, in the program's own home, only what is there when the run begins; for secrets, for which programs look at every start where nobody keeps any"),
    key("rule", "exe", Form::Texts, "every program", "patterns of the path of the program that acts, since its last execve; of a script, the interpreter: see [Who acts](#who-acts)"),
    key("rule", "script", Form::Texts, "every process", "patterns of the path by which the script that acts was started"),
    key("rule", "action", Form::Word(words::<Action>), "", "what to do"),
    key("rule", "severity", Form::Word(words::<Severity>), "`medium`", "for the verdict"),
    key("rule", "technique", Form::Text, "none", "MITRE ATT&CK technique, such as `T1003.008`"),
    key("rule", "why", Form::Text, "`\"\"`", "for people"),
    key("rule", "replaces", Form::Truth, "`false`", "take the place of the inherited rule of this id"),
];

/// The keys of one table.
pub fn of(table: &str) -> impl Iterator<Item = &'static Key> {
    KEYS.iter().filter(move |key| key.table == table)
}

/// The key of this name in a table.
#[must_use]
pub fn find(table: &str, name: &str) -> Option<&'static Key> {
    of(table).find(|key| key.name == name)
}

impl Key {
    /// Whether every profile has to say it, wherever its table stands. What a run needs and a profile may
    /// inherit is not.
    #[must_use]
    pub fn is_required(&self) -> bool {
        let inherited = matches!(self.form, Form::Table | Form::Tables) || self.table == "syscalls";
        self.default.is_empty() && !inherited
    }

    /// With its table in front: `limits.memory`.
    #[must_use]
    pub fn path(&self) -> String {
        if self.table.is_empty() {
            self.name.to_owned()
        } else {
            format!("{}.{}", self.table, self.name)
        }
    }
}

impl Form {
    /// What is to be written, for people.
    #[must_use]
    pub fn describe(self) -> String {
        match self {
            Self::Text => "a text in quotes".to_owned(),
            Self::Texts => "a list of texts, such as [\"a\", \"b\"]".to_owned(),
            Self::TextTable => "a table of texts, such as { NAME = \"value\" }".to_owned(),
            Self::Size => "a size in quotes, such as \"256M\"".to_owned(),
            Self::Percent => "a percentage in quotes, such as \"100%\"".to_owned(),
            Self::Duration => "a duration in quotes, such as \"30s\"".to_owned(),
            Self::Count => "a whole number, such as 50".to_owned(),
            Self::Ports => {
                "a port, or a list of ports and ranges, such as [443, \"8000-8010\"]".to_owned()
            }
            Self::Truth => "true or false".to_owned(),
            Self::Word(words) => format!("one of {}", words().join(", ")),
            Self::Words(words) => format!("one or a list of {}", words().join(", ")),
            Self::Entries(one) => format!("a list of tables, such as [{one}]"),
            Self::Table => "a table".to_owned(),
            Self::Tables => "tables in double brackets, such as [[rule]]".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_is_a_key_of_the_one_above() {
        for key in KEYS.iter().filter(|key| !key.table.is_empty()) {
            let (above, name) = key.table.rsplit_once('.').unwrap_or(("", key.table));
            assert!(find(above, name).is_some(), "{}", key.table);
        }
    }

    #[test]
    fn no_key_stands_twice() {
        for key in KEYS {
            let same = of(key.table).filter(|other| other.name == key.name);
            assert_eq!(same.count(), 1, "{}", key.path());
        }
    }
}
