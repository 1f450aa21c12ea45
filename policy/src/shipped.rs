//! The profiles that come with turnkey.

use std::sync::Arc;

use crate::error::SourceText;
use crate::read;

/// Names and texts, the default one first.
pub const SHIPPED: &[(&str, &str)] = &[
    ("untrusted", include_str!("../../profiles/untrusted.toml")),
    ("python", include_str!("../../profiles/python.toml")),
    ("node", include_str!("../../profiles/node.toml")),
    ("shell", include_str!("../../profiles/shell.toml")),
    ("compile", include_str!("../../profiles/compile.toml")),
    ("rust", include_str!("../../profiles/rust.toml")),
    ("java", include_str!("../../profiles/java.toml")),
    ("go", include_str!("../../profiles/go.toml")),
    ("strict", include_str!("../../profiles/strict.toml")),
    ("sealed", include_str!("../../profiles/sealed.toml")),
    ("judge", include_str!("../../profiles/judge.toml")),
    ("observe", include_str!("../../profiles/observe.toml")),
    ("container", include_str!("../../profiles/container.toml")),
    ("service", include_str!("../../profiles/service.toml")),
    ("runner", include_str!("../../profiles/runner.toml")),
];

/// The text of a shipped profile.
#[must_use]
pub fn shipped(name: &str) -> Option<&'static str> {
    SHIPPED
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, text)| *text)
}

/// True when a profile is meant as a file rather than by a shipped name. Names never lead to
/// files, so that no file in an untrusted working directory can pose as a shipped profile.
#[must_use]
pub fn is_file(profile: &str) -> bool {
    profile.contains('/') || profile.ends_with(".toml")
}

/// A shipped profile as a list shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShippedProfile {
    /// The name.
    pub name: &'static str,
    /// The profiles that it builds on, by name.
    pub extends: Vec<String>,
    /// One line for people.
    pub description: String,
}

/// Every shipped profile, the default one first.
#[must_use]
pub fn listed() -> Vec<ShippedProfile> {
    let list = |(name, text): &(&'static str, &str)| {
        let source = Arc::new(SourceText::new((*name).to_owned(), (*text).to_owned()));
        // That they are without problems is what tests are for.
        let profile = read::profile(&source, &mut Vec::new());
        let extends = profile.extends.into_iter().map(|base| base.value);
        ShippedProfile {
            name,
            extends: extends.collect(),
            description: profile
                .description
                .map(|text| text.value)
                .unwrap_or_default(),
        }
    };
    SHIPPED.iter().map(list).collect()
}
