//! Flags of the command line that override keys of the profile; each is declared with its key.

use crate::keys::KeyFlag;
use crate::tables::KEYS;

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

/// Every flag, in the order in which the help lists them.
pub fn flags() -> impl Iterator<Item = &'static KeyFlag> {
    KEYS.iter().filter_map(|key| key.flag.as_ref())
}
