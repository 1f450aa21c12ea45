//! The gate's config: `schema = "turnkey.gate-config/v1"`.

use anyhow::{Context, ensure};
use serde::Deserialize;

use super::overrides::OverrideText;
use super::pattern::Pattern;

/// The value of `schema`.
const SCHEMA: &str = "turnkey.gate-config/v1";
/// A config to begin with, each key explained.
pub const INIT: &str = include_str!("init.toml");

/// The signs of what is model-written, and the checks of it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GateConfig {
    schema: String,
    /// One that matches is enough.
    #[serde(default)]
    pub model: Vec<ModelRule>,
    /// The static look.
    pub scan: Option<ScanConfig>,
    /// Commands that must succeed.
    #[serde(default)]
    pub tests: Vec<CommandConfig>,
    /// Commands that must do nothing new.
    #[serde(default)]
    pub behaviour: Vec<CommandConfig>,
    /// The findings that somebody answers for.
    #[serde(default, rename = "override")]
    pub overrides: Vec<OverrideText>,
}

/// A sign that a commit, or a file, is model-written: one of its keys is there.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelRule {
    /// The name of a trailer.
    pub trailer: Option<String>,
    /// The value of that trailer.
    pub value: Option<Pattern>,
    /// `NAME <ADDRESS>` of author or committer.
    pub author: Option<Pattern>,
    /// The whole message.
    pub message: Option<Pattern>,
    /// The path of a changed file.
    pub path: Option<Pattern>,
}

/// The static look at changed files.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScanConfig {
    /// Files of this score and above fail, from 1 to 100.
    #[serde(deserialize_with = "score")]
    pub fail_at: u32,
}

/// A command that is run in the jail.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommandConfig {
    /// For people, and for overrides.
    pub name: String,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// A shipped profile, or a path in the base commit.
    #[serde(default = "untrusted")]
    pub profile: String,
    /// The verdict that fails, and all that are worse.
    #[serde(default)]
    pub fail_on: FailOn,
    /// Also when nothing is model-written.
    #[serde(default)]
    pub always: bool,
    /// New acts that are accepted, of a check of behaviour.
    #[serde(default)]
    pub allow_new: usize,
}

/// The mildest verdict that fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FailOn {
    /// Unusual acts.
    #[default]
    Suspicious,
    /// Attempts that the profile calls an attack.
    Violated,
}

fn untrusted() -> String {
    "untrusted".to_owned()
}

fn score<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    let score = u32::deserialize(deserializer)?;
    match score {
        1..=100 => Ok(score),
        _ => Err(serde::de::Error::custom("a score is from 1 to 100")),
    }
}

impl GateConfig {
    /// Reads a config.
    ///
    /// # Errors
    /// With the place, where it is invalid or would let everything pass.
    pub fn read(text: &str) -> anyhow::Result<GateConfig> {
        let config: GateConfig = toml::from_str(text)?;
        ensure!(
            config.schema == SCHEMA,
            "its schema is {:?}, and not {SCHEMA:?}",
            config.schema
        );
        ensure!(
            !config.model.is_empty(),
            "it has no [[model]], so that nothing would be checked: `turnkey gate --init` prints some; author = \"*\" is everything"
        );
        for (index, rule) in config.model.iter().enumerate() {
            rule.check()
                .with_context(|| format!("its [[model]] {}", index + 1))?;
        }
        let checks = config.tests.len() + config.behaviour.len();
        ensure!(
            config.scan.is_some() || checks > 0,
            "it has neither [scan] nor [[tests]] nor [[behaviour]], so that nothing would be checked"
        );
        for check in config.tests.iter().chain(&config.behaviour) {
            ensure!(
                !check.command.is_empty(),
                "the command of {:?} is empty",
                check.name
            );
        }
        for list in [&config.tests, &config.behaviour] {
            let names: std::collections::BTreeSet<_> = list.iter().map(|it| &it.name).collect();
            ensure!(
                names.len() == list.len(),
                "two checks of a kind have the same name"
            );
        }
        Ok(config)
    }
}

impl ModelRule {
    fn check(&self) -> anyhow::Result<()> {
        let keys = [
            self.trailer.is_some(),
            self.author.is_some(),
            self.message.is_some(),
            self.path.is_some(),
        ];
        ensure!(
            keys.iter().filter(|key| **key).count() == 1,
            "has not one of trailer, author, message and path: write one rule for each"
        );
        ensure!(
            self.trailer.is_some() == self.value.is_some(),
            "`trailer` and `value` go together; value = \"*\" is any"
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_config_is_valid_and_so_is_all_that_it_shows() {
        let config = GateConfig::read(INIT).unwrap();
        assert!(config.tests.is_empty() && config.overrides.is_empty());
        // A line with a key or a table is one character behind the mark; a sentence begins upper-case, or has no such form.
        let is_shown = |line: &str| line.starts_with("[[") || line.contains(" = ");
        let all: Vec<&str> = INIT
            .lines()
            .map(|line| {
                line.strip_prefix("# ")
                    .filter(|line| is_shown(line))
                    .unwrap_or(line)
            })
            .filter(|line| !line.contains("author = \"*\""))
            .collect();
        let config = GateConfig::read(&all.join("\n")).unwrap();
        assert_eq!(
            (
                config.tests.len(),
                config.behaviour.len(),
                config.overrides.len()
            ),
            (1, 1, 1)
        );
    }

    #[test]
    fn what_would_check_nothing_is_refused() {
        let head = "schema = \"turnkey.gate-config/v1\"\n";
        let model = "[[model]]\nauthor = \"*\"\n";
        let scan = "[scan]\nfail_at = 50\n";
        let read = |text: &str| GateConfig::read(text).map_err(|error| format!("{error:#}"));
        assert!(read(&format!("{head}{scan}{model}")).is_ok());
        for (text, told) in [
            (format!("{head}{scan}"), "no [[model]]"),
            (format!("{head}{model}"), "neither [scan]"),
            (format!("schema = \"x\"\n{scan}{model}"), "its schema is"),
            (
                format!("{head}{scan}{model}message = \"x\"\n"),
                "[[model]] 1",
            ),
            (
                format!("{head}{scan}[[model]]\ntrailer = \"x\"\n"),
                "go together",
            ),
            (
                format!("{head}{model}[scan]\nfail_at = 0\n"),
                "from 1 to 100",
            ),
            (
                format!("{head}{model}[scan]\nfail_at = \"high\"\n"),
                "invalid type",
            ),
            (format!("{head}{scan}{model}[sacn]\n"), "unknown field"),
            (
                format!("{head}{model}[[tests]]\nname = \"a\"\ncommand = []\n"),
                "is empty",
            ),
        ] {
            let error = read(&text).unwrap_err();
            assert!(error.contains(told), "{text}: {error}");
        }
    }
}
