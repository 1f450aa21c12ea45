//! The profiles that come with turnkey.

/// Names and texts, the default one first.
pub const SHIPPED: &[(&str, &str)] = &[
    ("untrusted", include_str!("../../profiles/untrusted.toml")),
    ("python", include_str!("../../profiles/python.toml")),
    ("shell", include_str!("../../profiles/shell.toml")),
    ("strict", include_str!("../../profiles/strict.toml")),
    ("judge", include_str!("../../profiles/judge.toml")),
];

/// The text of a shipped profile.
#[must_use]
pub fn shipped(name: &str) -> Option<&'static str> {
    SHIPPED
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, text)| *text)
}

/// Whether a profile is meant as a file rather than by a shipped name. Names never lead to
/// files, so that no file in an untrusted working directory can pose as a shipped profile.
#[must_use]
pub fn is_file(profile: &str) -> bool {
    profile.contains('/') || profile.ends_with(".toml")
}
