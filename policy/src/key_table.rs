//! The macro by which a table of scalar keys is declared once.

use std::time::Duration;

/// A flag of the command line that overrides a key.
#[derive(Clone, Copy, Debug)]
pub struct KeyFlag {
    /// The name, without the two dashes.
    pub name: &'static str,
    /// The placeholder of its value in the help.
    pub value: &'static str,
    /// The heading it stands under in the help.
    pub heading: &'static str,
    /// One line of help.
    pub help: &'static str,
    /// Any number of them can be given.
    pub repeated: bool,
    /// The value is a path of the host: it must be absolute, as nothing here knows the current directory.
    pub is_path: bool,
    /// The reader of its text.
    pub(crate) apply: crate::flags::Apply,
}

/// The value of a scalar key, to be compared and shown.
#[derive(Clone, Debug, PartialEq, PartialOrd)]
pub enum KeyValue {
    /// A size, a share or a count.
    Number(u64),
    /// A duration.
    Time(Duration),
    /// A text.
    Text(String),
    /// The absence of a limit, which is above every other value.
    Unlimited,
}

impl From<&u32> for KeyValue {
    fn from(value: &u32) -> Self {
        Self::Number((*value).into())
    }
}

impl From<&u64> for KeyValue {
    fn from(value: &u64) -> Self {
        Self::Number(*value)
    }
}

impl From<&Option<u64>> for KeyValue {
    fn from(value: &Option<u64>) -> Self {
        value.map_or(Self::Unlimited, Self::Number)
    }
}

impl From<&Duration> for KeyValue {
    fn from(value: &Duration) -> Self {
        Self::Time(*value)
    }
}

impl From<&String> for KeyValue {
    fn from(value: &String) -> Self {
        Self::Text(value.clone())
    }
}

/// Declares a table whose keys are all scalar. From one row for each key follow the struct of the policy, the keys as they
/// were read (with their places), merging and defaults, the entry in the table of keys with its documentation, and the flag.
macro_rules! key_table {
    (
        [$table:literal] in $slot:ident under $heading:literal;
        $(#[$meta:meta])*
        policy $Policy:ident, read $Parsed:ident;
        $($key:ident: $type:ty {
            form: $form:ident, read: $read:expr, default: $default:expr, shown: $shown:literal,
            about: $about:literal,
            flag: $flag:literal, value: $value:literal, help: $help:literal,
        })+
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $Policy {
            $(#[doc = $about] pub $key: $type,)+
        }

        impl Default for $Policy {
            fn default() -> Self {
                $Parsed::default().resolve()
            }
        }

        impl $Policy {
            /// Every key with its value, in the order of the table.
            #[must_use]
            pub fn values(&self) -> Vec<(&'static $crate::keys::ProfileKey, $crate::keys::KeyValue)> {
                let values = [$($crate::keys::KeyValue::from(&self.$key)),+];
                KEYS.iter().zip(values).collect()
            }
        }

        /// The table as it was read; a key that was not given is `None`.
        #[derive(Clone, Debug, Default)]
        pub(crate) struct $Parsed {
            $(pub(crate) $key: Option<$crate::error::Located<$type>>,)+
        }

        impl $Parsed {
            /// Reads the table.
            pub(crate) fn read(section: &mut $crate::read::SectionReader<'_, '_, '_>) -> Self {
                Self { $($key: section.value(stringify!($key), $read),)+ }
            }

            /// Lays another one over this, key by key.
            pub(crate) fn lay_over(&mut self, above: Self) {
                $(if above.$key.is_some() {
                    self.$key = above.$key;
                })+
            }

            /// Fills in the defaults.
            pub(crate) fn resolve(self) -> $Policy {
                $Policy { $($key: self.$key.map_or_else(|| $default, |given| given.value),)+ }
            }
        }

        /// The rows of the table of keys.
        pub(crate) const KEYS: &[$crate::keys::ProfileKey] = &[$(
            $crate::keys::key(
                $table,
                stringify!($key),
                $crate::keys::ValueForm::$form,
                $shown,
                $about,
            ),
        )+];

        /// The flags, for the command line.
        pub(crate) const FLAGS: &[$crate::keys::KeyFlag] = &[$(
            $crate::keys::KeyFlag {
                name: $flag,
                value: $value,
                heading: $heading,
                help: $help,
                repeated: false,
                is_path: false,
                apply: |flag, profile| $crate::flags::put(&mut profile.$slot.$key, flag, $read),
            },
        )+];
    };
}

pub(crate) use key_table;
