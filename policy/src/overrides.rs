//! Flags of the command line that override keys of the profile: those of scalar tables stand there, all others here, once.

use crate::flags::{self, Apply, GivenText, push, put};
use crate::identity::{self, IdentityOverrides};
use crate::keys::KeyFlag;
use crate::limits::{self, LimitOverrides};
use crate::values;

/// The text of a flag that is given once, or the texts of one that can be repeated.
trait FlagTexts {
    const REPEATED: bool;

    fn add(&mut self, text: String);
    fn texts(&self) -> impl Iterator<Item = &str>;
}

impl FlagTexts for Option<String> {
    const REPEATED: bool = false;

    fn add(&mut self, text: String) {
        *self = Some(text);
    }

    fn texts(&self) -> impl Iterator<Item = &str> {
        self.as_deref().into_iter()
    }
}

impl FlagTexts for Vec<String> {
    const REPEATED: bool = true;

    fn add(&mut self, text: String) {
        self.push(text);
    }

    fn texts(&self) -> impl Iterator<Item = &str> {
        self.iter().map(String::as_str)
    }
}

macro_rules! overrides {
    ($($field:ident: $texts:ty {
        keys: $keys:literal, flag: $flag:literal, value: $value:literal, path: $is_path:literal,
        under: $heading:literal, help: $help:literal, apply: $apply:expr,
    })+) => {
        /// The overrides of the command line. Every text has the form of the profile's key.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Overrides {
            /// The flags of `[limits]`.
            pub limits: LimitOverrides,
            /// The flags of `[identity]`.
            pub identity: IdentityOverrides,
            $(#[doc = concat!("`--", $flag, " ", $value, "`: ", $keys)]
            pub $field: $texts,)+
        }

        const FLAGS: &[KeyFlag] = &[$(KeyFlag {
            name: $flag,
            value: $value,
            heading: $heading,
            help: $help,
            repeated: <$texts as FlagTexts>::REPEATED,
            is_path: $is_path,
        },)+];

        impl Overrides {
            /// Sets a flag by its [name](KeyFlag::name), or adds to it when it can be repeated. Gives the text back when
            /// there is no such flag.
            ///
            /// # Errors
            /// The text, when there is no flag of this name.
            pub fn set(&mut self, flag: &str, text: String) -> Result<(), String> {
                match flag {
                    $($flag => self.$field.add(text),)+
                    _ => {
                        let text = match self.limits.set(flag, text) {
                            Ok(()) => return Ok(()),
                            Err(text) => text,
                        };
                        return self.identity.set(flag, text);
                    }
                }
                Ok(())
            }

            /// Every flag that was given, with what reads it.
            pub(crate) fn given(&self) -> Vec<GivenText<'_>> {
                let mut given = self.limits.given();
                given.extend(self.identity.given());
                $({
                    let apply: Apply = $apply;
                    let texts = self.$field.texts();
                    given.extend(texts.map(|text| GivenText { name: $flag, apply, text }));
                })+
                given
            }
        }
    };
}

overrides! {
    mode: Option<String> {
        keys: "`enforcement.mode`", flag: "mode", value: "MODE", path: false,
        under: "Policy", help: "enforce: rules act; observe: rules only log",
        apply: |flag, into| put(&mut into.mode, flag, values::word),
    }
    root: Option<String> {
        keys: "`filesystem.root`", flag: "root", value: "DIR", path: true,
        under: "Files", help: "Use this directory as the jail's root, read-only, instead of the host's system directories",
        apply: |flag, into| put(&mut into.root, flag, values::root),
    }
    toolchain: Option<String> {
        keys: "`filesystem.toolchain`", flag: "toolchain", value: "WHAT", path: false,
        under: "Files",
        help: "auto: show the installation that the command belongs to, and put it on PATH",
        apply: |flag, into| put(&mut into.toolchain, flag, values::word),
    }
    read: Vec<String> {
        keys: "`filesystem.read`", flag: "read", value: "PATH", path: true,
        under: "Files", help: "Make this path of the host visible, read-only",
        apply: |flag, into| push(&mut into.read, flag, flags::host_path),
    }
    write: Vec<String> {
        keys: "`filesystem.write`", flag: "write", value: "PATH", path: true,
        under: "Files", help: "Make this path of the host visible and writable",
        apply: |flag, into| push(&mut into.write, flag, flags::host_path),
    }
    scratch: Vec<String> {
        keys: "`filesystem.scratch`", flag: "scratch", value: "PATH=SIZE", path: false,
        under: "Files", help: "Mount a tmpfs of this size",
        apply: |flag, into| push(&mut into.scratch, flag, values::scratch),
    }
    workdir_mode: Option<String> {
        keys: "`filesystem.workdir.mode`", flag: "workdir-mode", value: "MODE", path: false,
        under: "Files", help: "The workspace: overlay, read-only or none",
        apply: |flag, into| put(&mut into.workdir, flag, values::word),
    }
    network: Option<String> {
        keys: "`network.mode`", flag: "network", value: "MODE", path: false,
        under: "Network", help: "none, loopback, allow or host",
        apply: |flag, into| put(&mut into.network, flag, values::word),
    }
    allow: Vec<String> {
        keys: "`network.allow`, and the mode `allow`", flag: "allow", value: "HOST:PORT", path: false,
        under: "Network", help: "Allow TCP to this host and port, such as example.org:443; implies --network allow",
        apply: flags::allow,
    }
    env: Vec<String> {
        keys: "`env.pass`, or `env.set` with a value", flag: "env", value: "NAME[=VALUE]", path: false,
        under: "Inside the jail", help: "Pass this variable of the caller, or set it",
        apply: flags::environment,
    }
    on_loss: Option<String> {
        keys: "`enforcement.on_loss`", flag: "on-loss", value: "WHAT", path: false,
        under: "Policy", help: "On lost evidence: mark, fail or kill",
        apply: |flag, into| put(&mut into.on_loss, flag, values::word),
    }
}

/// Every flag, in the order in which the help lists them.
pub fn flags() -> impl Iterator<Item = &'static KeyFlag> {
    limits::FLAGS.iter().chain(FLAGS).chain(identity::FLAGS)
}
