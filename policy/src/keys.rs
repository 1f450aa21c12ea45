//! A key of a profile: what it is called, the form and the default of its value, its flag and its line in the reference.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::names::NamedVariants;

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
    /// The values of it that allow a program more than others.
    pub wider: WiderValue,
    /// The flag of the command line that overrides it.
    pub flag: Option<KeyFlag>,
}

/// The values of a key that allow a program more than others, for `turnkey diff`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WiderValue {
    /// The greater one: a larger number, a longer time, a later word of the set.
    Greater,
    /// The later one of these words, all of the set, which stands in another order.
    Later(&'static [&'static str]),
    /// Any other one: none can be said to allow more.
    Other,
    /// None by itself: it is compared as a part of what it stands for, or for nobody but people.
    AsPart,
}

impl WiderValue {
    /// Of a key that says nothing else: a new one is told when in doubt.
    const fn of_form(form: ValueForm) -> Self {
        match form {
            ValueForm::Size | ValueForm::Percent | ValueForm::Duration | ValueForm::Count => {
                Self::Greater
            }
            _ => Self::Other,
        }
    }
}

/// A flag of the command line that overrides a key.
#[derive(Clone, Copy, Debug)]
pub struct KeyFlag {
    /// The name, without the two dashes.
    pub name: &'static str,
    /// The placeholder of its value in the help; empty for a switch, which has none.
    pub value: &'static str,
    /// The heading it stands under in the help.
    pub heading: &'static str,
    /// One line of help.
    pub help: &'static str,
    /// Any number of them can be given.
    pub repeated: bool,
    /// The value is a path of the host: it must be absolute, as nothing here knows the current directory.
    pub is_path: bool,
}

/// The value of a scalar key, to be compared and shown.
#[derive(Clone, Debug, PartialEq, PartialOrd)]
pub enum KeyValue {
    /// Any text.
    Text(String),
    /// A size, a share or a count.
    Number(u64),
    /// A duration.
    Time(Duration),
    /// A word of a closed set, behind its place in the order of the set.
    Word(usize, &'static str),
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

impl From<&String> for KeyValue {
    fn from(value: &String) -> Self {
        Self::Text(value.clone())
    }
}

impl From<&Option<PathBuf>> for KeyValue {
    fn from(value: &Option<PathBuf>) -> Self {
        let path = value.as_deref().unwrap_or(Path::new(""));
        Self::Text(path.to_string_lossy().into_owned())
    }
}

impl From<&Duration> for KeyValue {
    fn from(value: &Duration) -> Self {
        Self::Time(*value)
    }
}

impl<T: NamedVariants> From<&T> for KeyValue {
    fn from(value: &T) -> Self {
        let mut words = T::NAMES.iter().enumerate();
        let found = words.find(|(_, (word, _))| word == value);
        found.map_or(Self::Unlimited, |(place, (_, name))| {
            Self::Word(place, name)
        })
    }
}

pub(crate) fn words<T: NamedVariants>() -> Vec<&'static str> {
    T::NAMES.iter().map(|(_, name)| *name).collect()
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
        wider: WiderValue::of_form(form),
        flag: None,
    }
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

    /// True when `above` allows a program more than `below` does.
    #[must_use]
    pub fn allows_more(&self, above: &KeyValue, below: &KeyValue) -> bool {
        match self.wider {
            WiderValue::Greater => above > below,
            WiderValue::Later(order) => rank(order, above) > rank(order, below),
            WiderValue::Other => above != below,
            WiderValue::AsPart => false,
        }
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

fn rank(order: &[&str], value: &KeyValue) -> Option<usize> {
    let KeyValue::Word(_, name) = value else {
        return None;
    };
    order.iter().position(|word| word == name)
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
