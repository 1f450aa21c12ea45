//! Words of the policy in a report: written and read by their one name.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serializer};
use turnkey_policy::NamedVariants;

/// Writes the name.
pub fn serialize<T: std::fmt::Display, S: Serializer>(
    word: &T,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_str(word)
}

/// Reads the name, or lists those that there are.
pub fn deserialize<'de, T: NamedVariants, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    let name = String::deserialize(deserializer)?;
    T::from_name(&name).ok_or_else(|| {
        let names: Vec<&str> = T::NAMES.iter().map(|(_, name)| *name).collect();
        D::Error::custom(format!(
            "unknown word {name:?}, expected one of {}",
            names.join(", ")
        ))
    })
}

/// A word that a report may not have: the key is left out then.
pub mod optional {
    use serde::{Deserializer, Serializer};
    use turnkey_policy::NamedVariants;

    /// Writes the name; of `None` nobody asks.
    pub fn serialize<T: std::fmt::Display, S: Serializer>(
        word: &Option<T>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match word {
            Some(word) => super::serialize(word, serializer),
            None => serializer.serialize_none(),
        }
    }

    /// Reads the name, which is there.
    pub fn deserialize<'de, T: NamedVariants, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<T>, D::Error> {
        super::deserialize(deserializer).map(Some)
    }
}

/// The schema of a word: one of those that there are.
#[cfg(test)]
pub fn schema<T: NamedVariants>(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    let names: Vec<&str> = T::NAMES.iter().map(|(_, name)| *name).collect();
    schemars::json_schema!({ "enum": names })
}
