//! `[[rule]]`: what an attempt means.

use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use super::declare::{by_kind, key_table};
use crate::address::{Ports, Subnet};
use crate::glob::Glob;
use crate::keys::words;
use crate::model::{AttemptKind, FileFlag, OpenAccess, RuleAction, SameFile, Severity};
use crate::values;

key_table! {
    ["rule"];
    /// `[[rule]]`: what an attempt means.
    #[derive(Clone, Debug, PartialEq, Eq, Hash)]
    policy Rule and {
        /// The paths where its patterns match nothing: of a rule on hidden ones what is shown all the same, of one on what is present
        /// what the home lacks. See [`Policy::settle_shown`](crate::Policy::settle_shown) and
        /// [`Policy::settle_home`](crate::Policy::settle_home).
        silent: Option<Glob> = None,
        /// The paths, of those where it is silent, of which it speaks all the same.
        spoken: Option<Glob> = None,
        /// Of a rule on what is present: directories in which nothing that such rules speak of is when the run begins, at whatever depth,
        /// so that no pattern matches anything in them. See [`Policy::settle_home`](crate::Policy::settle_home).
        lacking: Vec<LackingPlace> = Vec::new(),
        /// The paths in such a directory of which it speaks all the same: those of the program's homes, where they would be run. See
        /// [`Policy::settle_workspace_of_no_home`](crate::Policy::settle_workspace_of_no_home).
        at_home: Option<Glob> = None,
        /// True for a rule of turnkey's own that no profile can have: a look that it speaks of is told where it found nothing, a few
        /// hundred times at most, and is no violation.
        advice: bool = false,
    },
    read RuleKeys and {
        replaces: bool {
            form: Truth, read: values::truth, shown: "`false`",
            about: "take the place of the inherited rule of this id",
        }
    };
    id: one String {
        form: Text, read: values::rule_id, default: String::new(), shown: "",
        about: "unique; lower-case words joined by `-`",
    }
    on: words AttemptKind {
        form: Words(words::<AttemptKind>), read: values::word, shown: "",
        about: "the kinds of attempt that it decides on",
    }
    /// Empty means every path, but for [`AttemptKind::Map`].
    path: list Glob {
        form: Texts, read: values::pattern, shown: "every path",
        about: "patterns; only with kinds of attempt on a file",
    }
    /// Never empty for `open`.
    access: words OpenAccess {
        form: Words(words::<OpenAccess>), read: values::word, shown: "both",
        about: "how the file is opened; only with `open`",
    }
    address: list Subnet {
        form: Texts, read: values::subnet, shown: "every address",
        about: "addresses and networks, such as `10.0.0.0/8`; only with `connect`, `bind` and `send`",
    }
    port: list Ports {
        form: Ports, read: values::ports, shown: "every port",
        about: "ports and ranges of them; only with `connect`, `bind` and `send`",
    }
    flags: words FileFlag {
        form: Words(words::<FileFlag>), read: values::word, shown: "any file",
        about: "states of the file, any of which matches; only with `open` and `exec`; `truncated` without `path`",
    }
    same_file: one SameFile {
        form: Word(words::<SameFile>), read: values::word, default: SameFile::No, shown: "`no`",
        about: "`required`: `path` means the files (device and inode) that it names when the run begins, under every other name; a path that does not exist, or lies below a writable overlay, fails the run\n`optional`: the same as far as the kernel can identify the file",
    }
    yields: one bool {
        form: Truth, read: values::truth, default: false, shown: "`false`",
        about: "whether its patterns decide only where no pattern of another rule does; for broad allowances, so that they override no other pattern",
    }
    hidden: one bool {
        form: Truth, read: values::truth, default: false, shown: "`false`",
        about: "whether its patterns match only what the profile does not show, by `read`, `write`, `scratch`, `toolchain` or a `root`; for rules about the host's own files, which so do not apply to files that a profile shows. With `address`, whether the rule applies in the network mode `none` alone",
    }
    present: one bool {
        form: Truth, read: values::truth, default: false, shown: "`false`",
        about: "whether its patterns ignore paths that do not exist when the run begins: in an empty `scratch` and, unless the rule is on writing alone, in the program's home; for secrets, whose paths programs probe at every start, and for files that are executed later, which a `scratch` never holds: see [Which rule decides](#which-rule-decides)",
    }
    /// Matched against [`ActorPaths::exe`](crate::ActorPaths::exe).
    exe: list Glob {
        form: Texts, read: values::pattern, shown: "every program",
        about: "patterns of the path of the program that acts, since its last execve; of a script, the interpreter: see [Who acts](#who-acts)",
    }
    /// Matched against [`ActorPaths::script`](crate::ActorPaths::script). Empty means every process, also one that runs none.
    script: list Glob {
        form: Texts, read: values::pattern, shown: "every process",
        about: "patterns of the path by which the script that acts was started",
    }
    action: one RuleAction {
        form: Word(words::<RuleAction>), read: values::word, default: RuleAction::Log, shown: "",
        about: "what to do",
    }
    severity: one Severity {
        form: Word(words::<Severity>), read: values::word, default: Severity::Medium, shown: "`medium`",
        about: "for the verdict",
    }
    technique: one Option<String> {
        form: Text, read: values::technique, default: None, shown: "none",
        about: "MITRE ATT&CK technique, such as `T1003.008`",
    }
    why: one String {
        form: Text, read: values::text, default: String::new(), shown: "`\"\"`",
        about: "for people",
    }
}

/// A directory that nothing gets to but what the program makes there, and in which nothing is that a rule on what is present speaks of.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LackingPlace {
    /// The path in the jail.
    pub path: PathBuf,
    /// True when symlinks are in it, which may lead elsewhere.
    pub linked: bool,
}

impl Rule {
    /// True when the rule is on writes alone, as those on files that are executed later: such a file in the home outlives the run and
    /// is executed there.
    #[must_use]
    pub fn is_on_writing_alone(&self) -> bool {
        self.access.iter().eq([&OpenAccess::Write])
    }

    /// True when the rule does not apply to this path: the profile shows it, or it did not exist when the run began, in a place that
    /// holds nothing but what the program makes.
    #[must_use]
    pub fn is_silent(&self, path: &[u8]) -> bool {
        let is_below = |place: &LackingPlace| {
            let rest = path.strip_prefix(place.path.as_os_str().as_bytes());
            rest.is_some_and(|rest| rest.starts_with(b"/"))
        };
        let matches = |glob: &Option<Glob>| glob.iter().any(|glob| glob.matches(path));
        let is_lacking = || self.lacking.iter().any(is_below) && !matches(&self.at_home);
        matches(&self.silent) && !matches(&self.spoken) || is_lacking()
    }

    /// A rule that means every attempt of these kinds, whatever it is on.
    #[must_use]
    pub fn new(
        id: impl Into<String>,
        on: impl IntoIterator<Item = AttemptKind>,
        action: RuleAction,
    ) -> Self {
        let rule = Self {
            id: id.into(),
            on: on.into_iter().collect(),
            action,
            ..Self::default()
        };
        rule.with_access()
    }

    /// The rule, for opens of every kind when it does not say for which.
    pub(crate) fn with_access(mut self) -> Self {
        if self.access.is_empty() && self.on.contains(&AttemptKind::Open) {
            self.access = OpenAccess::ALL.iter().copied().collect();
        }
        self
    }
}
