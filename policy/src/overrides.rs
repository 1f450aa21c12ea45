//! Flags of the command line that override keys of the profile: those of scalar tables stand there, all others here, once.

use crate::flags::{self, push, put};
use crate::keys::KeyFlag;
use crate::{identity, limits, values};

/// The overrides of the command line: flags of [`flags`], each with a text in the form of the profile's key.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    given: Vec<(&'static KeyFlag, String)>,
}

/// A name that is no flag of [`flags`].
#[derive(Debug, thiserror::Error)]
#[error("no flag over a profile is called {0:?}")]
pub struct UnknownFlag(String);

impl Overrides {
    /// Takes flags by their [names](KeyFlag::name). Of one that cannot be [repeated](KeyFlag::repeated) the last text counts.
    ///
    /// # Errors
    /// When there is no flag of such a name.
    pub fn from_flags<'n, T: Into<String>>(
        flags: impl IntoIterator<Item = (&'n str, T)>,
    ) -> Result<Self, UnknownFlag> {
        let mut given: Vec<(&KeyFlag, String)> = Vec::new();
        for (name, text) in flags {
            let flag = self::flags().find(|flag| flag.name == name);
            let flag = flag.ok_or_else(|| UnknownFlag(name.to_owned()))?;
            given.retain(|(other, _)| flag.repeated || other.name != flag.name);
            given.push((flag, text.into()));
        }
        Ok(Self { given })
    }

    /// The texts of one flag, in their order: none when it was not given.
    pub fn texts(&self, flag: &str) -> impl Iterator<Item = &str> {
        let given = self.given.iter();
        given.filter_map(move |(other, text)| (other.name == flag).then_some(text.as_str()))
    }

    /// Every flag that was given with its text, in the order in which the help lists them: the same flags are one digest.
    pub(crate) fn given(&self) -> impl Iterator<Item = (&'static KeyFlag, &str)> {
        flags().flat_map(|flag| self.texts(flag.name).map(move |text| (flag, text)))
    }
}

const FLAGS: &[KeyFlag] = &[
    KeyFlag {
        name: "mode",
        value: "MODE",
        heading: "Policy",
        help: "enforce: rules act; observe: rules only log",
        repeated: false,
        is_path: false,
        apply: |flag, into| put(&mut into.mode, flag, values::word),
    },
    KeyFlag {
        name: "root",
        value: "DIR",
        heading: "Files",
        help: "Use this directory as the jail's root, read-only, instead of the host's system directories",
        repeated: false,
        is_path: true,
        apply: |flag, into| put(&mut into.root, flag, values::root),
    },
    KeyFlag {
        name: "toolchain",
        value: "WHAT",
        heading: "Files",
        help: "auto: show the installation that the command belongs to, and put it on PATH",
        repeated: false,
        is_path: false,
        apply: |flag, into| put(&mut into.toolchain, flag, values::word),
    },
    KeyFlag {
        name: "read",
        value: "PATH",
        heading: "Files",
        help: "Make this path of the host visible, read-only",
        repeated: true,
        is_path: true,
        apply: |flag, into| push(&mut into.read, flag, flags::host_path),
    },
    KeyFlag {
        name: "write",
        value: "PATH",
        heading: "Files",
        help: "Make this path of the host visible and writable",
        repeated: true,
        is_path: true,
        apply: |flag, into| push(&mut into.write, flag, flags::host_path),
    },
    KeyFlag {
        name: "scratch",
        value: "PATH=SIZE",
        heading: "Files",
        help: "Mount a tmpfs of this size",
        repeated: true,
        is_path: false,
        apply: |flag, into| push(&mut into.scratch, flag, values::scratch),
    },
    KeyFlag {
        name: "workdir-mode",
        value: "MODE",
        heading: "Files",
        help: "The workspace: overlay, read-only or none",
        repeated: false,
        is_path: false,
        apply: |flag, into| put(&mut into.workdir, flag, values::word),
    },
    KeyFlag {
        name: "network",
        value: "MODE",
        heading: "Network",
        help: "none, loopback, allow or host",
        repeated: false,
        is_path: false,
        apply: |flag, into| put(&mut into.network, flag, values::word),
    },
    KeyFlag {
        name: "allow",
        value: "HOST:PORT",
        heading: "Network",
        help: "Allow TCP to this host and port, such as example.org:443; implies --network allow",
        repeated: true,
        is_path: false,
        apply: flags::allow,
    },
    KeyFlag {
        name: "env",
        value: "NAME[=VALUE]",
        heading: "Inside the jail",
        help: "Pass this variable of the caller, or set it",
        repeated: true,
        is_path: false,
        apply: flags::environment,
    },
    KeyFlag {
        name: "on-loss",
        value: "WHAT",
        heading: "Policy",
        help: "On lost evidence: mark, fail or kill",
        repeated: false,
        is_path: false,
        apply: |flag, into| put(&mut into.on_loss, flag, values::word),
    },
];

/// Every flag, in the order in which the help lists them.
pub fn flags() -> impl Iterator<Item = &'static KeyFlag> {
    limits::FLAGS.iter().chain(FLAGS).chain(identity::FLAGS)
}
