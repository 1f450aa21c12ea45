//! The one table of a profile's keys: what the reader accepts, what error messages suggest and
//! what the reference in `docs/profile.md` lists.

pub use crate::key_table::{KeyFlag, KeyValue};
use crate::model::{
    AttemptKind, EnforcementMode, FileFlag, Layer, NetworkMode, OnLoss, OpenAccess, ProcView,
    RuleAction, SameFile, Severity, ToolchainMode, WorkdirMode,
};
use crate::names::NamedVariants;
use crate::{behaviour, identity, limits};

/// The form of the value that is written after a key.
#[derive(Clone, Copy, Debug)]
pub enum ValueForm {
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
pub struct ProfileKey {
    /// The table it stands in; empty for the top.
    pub table: &'static str,
    /// The name.
    pub name: &'static str,
    /// The form of its value.
    pub form: ValueForm,
    /// The default, for when no merged profile says anything; empty when the key must be given.
    pub default: &'static str,
    /// One line for people.
    pub about: &'static str,
}

/// An entry of `filesystem.read` or `filesystem.write`.
const GIVEN_PATH: &str = r#"{ path = "/usr", why = "libraries" }"#;

pub(crate) fn words<T: NamedVariants>() -> Vec<&'static str> {
    T::NAMES.iter().map(|(_, name)| *name).collect()
}

/// `"all"`, or layers.
fn layers_or_all() -> Vec<&'static str> {
    let mut all = vec!["all"];
    all.extend(words::<Layer>());
    all
}

pub(crate) const fn key(
    table: &'static str,
    name: &'static str,
    form: ValueForm,
    default: &'static str,
    about: &'static str,
) -> ProfileKey {
    ProfileKey {
        table,
        name,
        form,
        default,
        about,
    }
}

/// Every key: those of the tables of scalars stand in files of their own.
pub const KEYS: &[ProfileKey] = &joined::<
    {
        BEFORE.len()
            + limits::KEYS.len()
            + identity::KEYS.len()
            + AFTER.len()
            + behaviour::KEYS.len()
            + LAST.len()
    },
>(&[
    BEFORE,
    limits::KEYS,
    identity::KEYS,
    AFTER,
    behaviour::KEYS,
    LAST,
]);

const fn joined<const COUNT: usize>(parts: &[&[ProfileKey]]) -> [ProfileKey; COUNT] {
    let mut all = [parts[0][0]; COUNT];
    let (mut next, mut part) = (0, 0);
    while part < parts.len() {
        let mut index = 0;
        while index < parts[part].len() {
            all[next] = parts[part][index];
            next += 1;
            index += 1;
        }
        part += 1;
    }
    all
}

/// The keys before those of the tables of scalars.
#[rustfmt::skip]
const BEFORE: &[ProfileKey] = &[
    key("", "schema", ValueForm::Text, "", "`turnkey.profile/v1`"),
    key("", "name", ValueForm::Text, "", "the profile's name in reports"),
    key("", "description", ValueForm::Text, "`\"\"`", "one line for people"),
    key("", "extends", ValueForm::Texts, "`[]`", "profiles this one builds on, by name or by file"),
    key("", "filesystem", ValueForm::Table, "", "what the jail's tree holds"),
    key("", "network", ValueForm::Table, "", "what the jail may reach"),
    key("", "limits", ValueForm::Table, "", "what the whole tree of processes may use"),
    key("", "identity", ValueForm::Table, "", "who the program is inside"),
    key("", "env", ValueForm::Table, "", "what the program finds in its environment"),
    key("", "syscalls", ValueForm::Table, "", "which syscalls pass the filter"),
    key("", "enforcement", ValueForm::Table, "", "what must hold, and what happens when it does not"),
    key("", "behaviour", ValueForm::Table, "", "what courses of acts lead to: see [Behaviours](behaviours.md)"),
    key("", "accept", ValueForm::Tables, "", "findings that are known and no reason for suspicion"),
    key("", "rule", ValueForm::Tables, "", "what an attempt means"),

    key("filesystem", "inherit", ValueForm::Truth, "`true`", "`false`: what the profiles below list under `read`, `write`, `scratch` and `decoys` falls away"),
    key("filesystem", "root", ValueForm::Text, "the host's", "a directory of the host that is the jail's root, read-only; inherited `read` falls away"),
    key("filesystem", "toolchain", ValueForm::Word(words::<ToolchainMode>), "`none`", "whether a command of the caller's `PATH` brings the directory it is installed in along, read-only"),
    key("filesystem", "proc", ValueForm::Word(words::<ProcView>), "`common`", "what of `/proc` is there: all but what speaks of the host alone, or nothing but the jail's own processes, so without `cpuinfo`, `meminfo`, `stat`, `sys` and their like"),
    key("filesystem", "read", ValueForm::Entries(GIVEN_PATH), "`[]`", "host paths visible read-only at the same place"),
    key("filesystem", "write", ValueForm::Entries(GIVEN_PATH), "`[]`", "host paths visible and writable at the same place: the only way a run changes the host"),
    key("filesystem", "scratch", ValueForm::Entries("{ path = \"/tmp\", size = \"64M\" }"), "`[]`", "memory file systems, gone afterwards"),
    key("filesystem", "workdir", ValueForm::Table, "", "how the caller's directory appears at `/workspace`"),
    key("filesystem", "decoys", ValueForm::Texts, "`[]`", "jail paths where a worthless file is planted to be watched; `~` is `/workspace`; not below another given path"),
    key("filesystem.read", "path", ValueForm::Text, "", "absolute, without `.` or `..`"),
    key("filesystem.read", "optional", ValueForm::Truth, "`false`", "leave it out when the host has no such path, instead of failing the run"),
    key("filesystem.read", "list", ValueForm::Truth, "`true`", "`false`: what it holds can be opened by name, and no directory in it can be listed unless another entry of `read` gives it; neither can the jail's root. Landlock sees to that"),
    key("filesystem.read", "why", ValueForm::Text, "`\"\"`", "why the jail is given it"),
    key("filesystem.write", "path", ValueForm::Text, "", "absolute, without `.` or `..`"),
    key("filesystem.write", "optional", ValueForm::Truth, "`false`", "leave it out when the host has no such path, instead of failing the run"),
    key("filesystem.write", "why", ValueForm::Text, "`\"\"`", "why the jail is given it"),
    key("filesystem.scratch", "path", ValueForm::Text, "", "absolute path in the jail"),
    key("filesystem.scratch", "size", ValueForm::Size, "", "what it can hold; counts as memory of the jail"),
    key("filesystem.scratch", "why", ValueForm::Text, "`\"\"`", "why the jail is given it"),
    key("filesystem.workdir", "mode", ValueForm::Word(words::<WorkdirMode>), "`overlay`", "writable with the writes thrown away, read-only, or an empty scratch instead"),

    key("network", "mode", ValueForm::Word(words::<NetworkMode>), "`none`", "a network namespace in which nobody is reached, one with its own loopback, that and the hosts of `allow`, or none: the host's own network"),
    key("network", "why", ValueForm::Text, "`\"\"`", "why the program needs the mode `host`"),
    key("network", "allow", ValueForm::Entries("{ to = \"example.org:443\", why = \"packages\" }"), "`[]`", "whom the program may talk to over TCP; means the mode `allow`: see [Network](#network)"),
    key("network.allow", "to", ValueForm::Text, "", "`HOST:PORT`: a name, an address or a range such as `10.1.0.0/16`, version 6 in brackets; a port or a range such as `8000-8010`"),
    key("network.allow", "why", ValueForm::Text, "`\"\"`", "why the program needs it"),
];

/// The keys after those of the tables of scalars.
#[rustfmt::skip]
const AFTER: &[ProfileKey] = &[
    key("env", "pass", ValueForm::Texts, "`[]`", "names handed through from the caller"),
    key("env", "set", ValueForm::TextTable, "`{}`", "names with fixed values; wins over `pass`"),

    key("syscalls", "inherit", ValueForm::Truth, "`true`", "`false`: what the profiles below allow falls away"),
    key("syscalls", "allow", ValueForm::Texts, "", "groups such as `@basic`, or names of syscalls that stand in one"),

    key("enforcement", "required", ValueForm::Words(layers_or_all), "`\"all\"`", "layers without which the run fails; the rest is reported when missing"),
    key("enforcement", "on_loss", ValueForm::Word(words::<OnLoss>), "`mark`", "what lost events mean: the verdict is inconclusive, exit code 120 too, or the jail is killed"),
    key("enforcement", "mode", ValueForm::Word(words::<EnforcementMode>), "`enforce`", "whether rules act, or every one that would only logs"),


];

/// The keys after that.
#[rustfmt::skip]
const LAST: &[ProfileKey] = &[
    key("accept", "finding", ValueForm::Text, "", "its id in a report: a rule's, `behaviour:…` or `turnkey:…`"),
    key("accept", "why", ValueForm::Text, "", "why it is no reason for suspicion"),
    key("accept", "until", ValueForm::Text, "", "the last day on which it is accepted, as `2027-12-31`, in UTC"),

    key("rule", "id", ValueForm::Text, "", "unique; lower-case words joined by `-`"),
    key("rule", "on", ValueForm::Words(words::<AttemptKind>), "", "the kinds of attempt it speaks of"),
    key("rule", "path", ValueForm::Texts, "every path", "patterns; only with kinds of attempt on a file"),
    key("rule", "access", ValueForm::Words(words::<OpenAccess>), "both", "how the file is opened; only with `open`"),
    key("rule", "address", ValueForm::Texts, "every address", "addresses and networks, such as `10.0.0.0/8`; only with `connect`, `bind` and `send`"),
    key("rule", "port", ValueForm::Ports, "every port", "ports and ranges of them; only with `connect`, `bind` and `send`"),
    key("rule", "flags", ValueForm::Words(words::<FileFlag>), "any file", "states of the file, any of which is meant; only with `open` and `exec`; `truncated` without `path`"),
    key("rule", "same_file", ValueForm::Word(words::<SameFile>), "`no`", "whether `path` stands for the files that it names when the run begins, by whatever other name: for certain, or as far as it can be"),
    key("rule", "yields", ValueForm::Truth, "`false`", "whether its patterns decide only where no pattern of another rule does; for broad allowances, which then shield nothing"),
    key("rule", "hidden", ValueForm::Truth, "`false`", "whether its patterns match only what the profile does not show, by `read`, `write`, `scratch`, `toolchain` or a `root`; for notices about the host's own files, which then fall silent where a profile gives them"),
    key("rule", "present", ValueForm::Truth, "`false`", "whether its patterns match, in the program's own home, only what is there when the run begins; for secrets, for which programs look at every start where nobody keeps any"),
    key("rule", "exe", ValueForm::Texts, "every program", "patterns of the path of the program that acts, since its last execve; of a script, the interpreter: see [Who acts](#who-acts)"),
    key("rule", "script", ValueForm::Texts, "every process", "patterns of the path by which the script that acts was started"),
    key("rule", "action", ValueForm::Word(words::<RuleAction>), "", "what to do"),
    key("rule", "severity", ValueForm::Word(words::<Severity>), "`medium`", "for the verdict"),
    key("rule", "technique", ValueForm::Text, "none", "MITRE ATT&CK technique, such as `T1003.008`"),
    key("rule", "why", ValueForm::Text, "`\"\"`", "for people"),
    key("rule", "replaces", ValueForm::Truth, "`false`", "take the place of the inherited rule of this id"),
];

/// The keys of one table.
pub fn in_table(table: &str) -> impl Iterator<Item = &'static ProfileKey> {
    KEYS.iter().filter(move |key| key.table == table)
}

/// The key of this name in a table.
#[must_use]
pub fn find(table: &str, name: &str) -> Option<&'static ProfileKey> {
    in_table(table).find(|key| key.name == name)
}

impl ProfileKey {
    /// True for a key that every profile has to say, wherever its table stands. What a run needs and a profile may
    /// inherit is not.
    #[must_use]
    pub fn is_required(&self) -> bool {
        let inherited =
            matches!(self.form, ValueForm::Table | ValueForm::Tables) || self.table == "syscalls";
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

impl ValueForm {
    /// Describes the form, for people.
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
            let same = in_table(key.table).filter(|other| other.name == key.name);
            assert_eq!(same.count(), 1, "{}", key.path());
        }
    }
}
