//! A world: what differs in it from `here`. Read from TOML, a table for each.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use miette::Diagnostic;
use serde::{Deserialize, Serialize};
use turnkey_policy::{LoadError, NamedVariants, NetworkMode, Overrides, WORKSPACE};

/// The world that all others are compared with.
pub const HERE: &str = "here";
/// The worlds that turnkey has of its own.
pub const SHIPPED: &str = include_str!("shipped.toml");
/// Worlds that one extends at most, one above the other.
const MOST_ABOVE: usize = 8;

/// A world of a file. What it does not say is as in the one that it extends.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct World {
    /// One line for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    /// The world that this one builds on; `here` where it is not said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extends: Option<String>,
    /// The date, as [`super::date::ahead`] reads it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub date: Option<String>,
    /// True when the profile's wall clock does not end sleeps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patient: Option<bool>,
    /// As the flag `--hostname` takes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// As the flag `--user` takes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// As the flag `--network` takes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
    /// Variables besides those of the profile.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// Files besides those of the profile, by their path in the jail, with their contents.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, String>,
    /// Worthless files that are watched, by their path in the jail.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub decoys: Vec<String>,
}

/// A part of the surroundings in which worlds differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Dependence {
    /// Date and sleeps.
    #[serde(rename = "time-dependent")]
    Time,
    /// Identity, variables, files.
    #[serde(rename = "environment-dependent")]
    Environment,
    /// Network.
    #[serde(rename = "network-dependent")]
    Network,
}

impl Dependence {
    /// All of them, in the order in which they are told.
    pub const ALL: [Dependence; 3] = [
        Dependence::Time,
        Dependence::Environment,
        Dependence::Network,
    ];

    /// The id of the finding.
    pub fn id(self) -> &'static str {
        match self {
            Dependence::Time => "time-dependent",
            Dependence::Environment => "environment-dependent",
            Dependence::Network => "network-dependent",
        }
    }
}

impl World {
    /// The parts in which it differs from `here`.
    pub fn differs_in(&self) -> Vec<Dependence> {
        let is_other_time = self.date.is_some() || self.patient.is_some();
        let is_other_place = self.hostname.is_some()
            || self.user.is_some()
            || !self.environment.is_empty()
            || !self.files.is_empty()
            || !self.decoys.is_empty();
        let differs = [is_other_time, is_other_place, self.network.is_some()];
        let all = Dependence::ALL.into_iter().zip(differs);
        all.filter_map(|(part, differs)| differs.then_some(part))
            .collect()
    }

    /// The mode of its network, where it says one.
    pub fn network_mode(&self) -> Option<NetworkMode> {
        NetworkMode::from_name(self.network.as_deref()?)
    }

    /// The flags over the profile that it stands for, in order.
    pub fn flags(&self) -> Vec<(&'static str, String)> {
        let named = [
            ("hostname", &self.hostname),
            ("user", &self.user),
            ("network", &self.network),
        ];
        let named = named.into_iter();
        let named = named.filter_map(|(flag, text)| Some((flag, text.clone()?)));
        let variables = self.environment.iter();
        let variables = variables.map(|(name, value)| ("env", format!("{name}={value}")));
        named.chain(variables).collect()
    }

    /// The directory that `~` stands for.
    pub fn home(&self) -> &str {
        self.environment
            .get("HOME")
            .map_or(WORKSPACE, String::as_str)
    }

    /// A path of `files` or `decoys`, `~` spelled out.
    pub fn place(&self, text: &str) -> PathBuf {
        match text.strip_prefix("~/") {
            Some(rest) => Path::new(self.home()).join(rest),
            None => PathBuf::from(text),
        }
    }

    fn over(mut self, below: World) -> World {
        let mut environment = below.environment;
        environment.append(&mut self.environment);
        let mut files = below.files;
        files.append(&mut self.files);
        let mut decoys = below.decoys;
        decoys.append(&mut self.decoys);
        World {
            about: self.about,
            extends: None,
            date: self.date.or(below.date),
            patient: self.patient.or(below.patient),
            hostname: self.hostname.or(below.hostname),
            user: self.user.or(below.user),
            network: self.network.or(below.network),
            environment,
            files,
            decoys,
        }
    }

    fn require_sense(&self) -> anyhow::Result<()> {
        let paths = self.files.keys().map(|path| ("files", path));
        for (key, text) in paths.chain(self.decoys.iter().map(|path| ("decoys", path))) {
            let path = self.place(text);
            let is_plain =
                path.is_absolute() && !path.components().any(|part| part.as_os_str() == "..");
            ensure!(
                is_plain && path.file_name().is_some() && !text.ends_with('/'),
                "`{key}` names {text:?}: write the absolute path of a file in the jail, or one that begins with ~/"
            );
        }
        if let Some(named) = &self.network {
            let names: Vec<_> = NetworkMode::NAMES.iter().map(|(_, name)| *name).collect();
            ensure!(
                self.network_mode().is_some(),
                "`network` is {named:?}: write one of {}",
                names.join(", ")
            );
        }

        if let Some(name) = self.environment.keys().find(|name| name.contains('=')) {
            bail!("`environment` sets {name:?}: write a name without `=`");
        }
        let no_files = |path: &str| Err(path.to_owned());
        let flags = Overrides::from_flags(self.flags())?;
        // Its own rendering shows a command line, which there is none of.
        turnkey_policy::load("untrusted", &no_files, &flags)
            .map(drop)
            .map_err(|error| anyhow::anyhow!(in_words(&error)))
    }
}

/// The problems, each with its fix.
fn in_words(error: &LoadError) -> String {
    let problems = error.problems().iter().map(|problem| {
        let help = problem.help().map(|help| format!(": {help}"));
        format!("{problem}{}", help.unwrap_or_default())
    });
    problems.collect::<Vec<_>>().join("; ")
}

/// A mistake of TOML, or in a world, with its line; TOML's own rendering is a drawing of several lines.
fn in_one_line(text: &str, error: &toml::de::Error) -> anyhow::Error {
    let at = error.span().map_or(0, |span| span.start);
    let before = text.get(..at).unwrap_or(text);
    let line = 1 + before.matches('\n').count();
    let message = error.message().replace('\n', ", ");
    anyhow::anyhow!("line {line}: {message}")
}

/// The worlds of a text, in its order, each whole: with what it extends, from the text or the shipped ones.
///
/// # Errors
/// When the text is no file of worlds, or a world makes no sense.
pub fn read(text: &str) -> anyhow::Result<Vec<(String, World)>> {
    let worlds: BTreeMap<String, World> =
        toml::from_str(text).map_err(|error| in_one_line(text, &error))?;
    let order: toml_edit::Document<String> = text.to_owned().parse()?;
    let names: Vec<String> = order.iter().map(|(name, _)| name.to_owned()).collect();
    let shipped: BTreeMap<String, World> = toml::from_str(SHIPPED)?;
    let find = |name: &str| worlds.get(name).or_else(|| shipped.get(name)).cloned();
    let mut read = Vec::new();
    for name in names {
        let named = || format!("the world [{name}]");
        require_name(&name)?;
        let world = whole(&name, &find).with_context(named)?;
        world.require_sense().with_context(named)?;
        read.push((name, world));
    }
    Ok(read)
}

/// A world with all that it extends.
fn whole(name: &str, find: &dyn Fn(&str) -> Option<World>) -> anyhow::Result<World> {
    let mut world = find(name).unwrap_or_default();
    for _ in 0..MOST_ABOVE {
        let Some(above) = world.extends.take().filter(|above| above != HERE) else {
            return Ok(world);
        };
        let Some(below) = find(&above) else {
            bail!(
                "it extends {above:?}, which is no world of this file and none that `turnkey worlds --list` prints"
            );
        };
        let next = below.extends.clone();
        world = world.over(below);
        world.extends = next;
    }
    bail!("it extends too many others, or in the end itself: take an `extends` out")
}

/// A world's name becomes the name of a file.
fn require_name(name: &str) -> anyhow::Result<()> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    ensure!(
        !name.is_empty() && name.len() <= 64 && name.bytes().all(plain),
        "{name:?} is no name of a world: write at most 64 of a-z, A-Z, 0-9, - and _"
    );
    ensure!(
        name != HERE && !name.ends_with("-again") && !AGAIN.contains(&name),
        "`{name}` is what runs of turnkey's own are called: give this world another name"
    );
    Ok(())
}

/// The second and the third run of `here`.
pub const AGAIN: [&str; 2] = ["here-again", "here-for-the-third-time"];

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        format!("{:#}", read(text).expect_err(text))
    }

    #[test]
    fn a_mistake_of_toml_is_told_in_one_line_with_its_place() {
        for (text, place) in [
            ("[a]\nhostname = \n", "line 2: "),
            (
                "[a]\n\npatience = true\n",
                "line 3: unknown field `patience`",
            ),
            ("[a]\nfiles = { \"/proc/x\" }\n", "line 2: "),
            ("[a]\ndate = 5\n", "line 2: "),
            ("a = 1\n", "line 1: "),
        ] {
            let told = refused(text);
            assert!(told.starts_with(place), "{text:?}: {told}");
            assert!(!told.contains('\n'), "{text:?}: {told}");
        }
    }

    #[test]
    fn shipped_worlds_are_read_by_the_same_reader() {
        let worlds = read(SHIPPED).unwrap();
        assert_eq!(worlds.len(), 14);
        for (name, world) in &worlds {
            assert_eq!(world.differs_in().len(), 1, "{name}");
            assert!(world.about.is_some(), "{name}");
        }
        assert_eq!(worlds[0].0, "in-40-days", "the order of the file stays");
    }

    #[test]
    fn a_world_has_what_it_extends() {
        let worlds = read(
            "[mine]\nextends = \"office\"\ndate = \"+1d\"\nenvironment = { A = \"2\" }\n\
             [office]\nextends = \"ci\"\nuser = \"kim\"\nenvironment = { A = \"1\", B = \"1\" }\n",
        );
        let (_, mine) = worlds.unwrap().remove(0);
        assert_eq!(mine.user.as_deref(), Some("kim"));
        let value = |name: &str| mine.environment.get(name).map(String::as_str);
        assert_eq!(
            (value("A"), value("B"), value("CI")),
            (Some("2"), Some("1"), Some("true"))
        );
        let parts = [Dependence::Time, Dependence::Environment];
        assert_eq!(mine.differs_in(), parts);
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_its_place() {
        for (text, words) in [
            ("[a]\ndat = \"+1d\"", "unknown field `dat`"),
            ("[a]\ndate = 3", "line 2"),
            ("[a", "line 1"),
            ("[a]\nextends = \"b\"", "[a]: it extends \"b\""),
            (
                "[a]\nextends = \"b\"\n[b]\nextends = \"a\"",
                "in the end itself",
            ),
            ("[here]\ndate = \"+1d\"", "another name"),
            ("[ci-again]\n", "another name"),
            ("[\"a/b\"]\n", "no name of a world"),
            ("[a]\nfiles = { \"x\" = \"\" }", "[a]: `files` names \"x\""),
            ("[a]\ndecoys = [\"/x/../y\"]", "[a]: `decoys` names"),
            ("[a]\nnetwork = \"internet\"", "none"),
            ("[a]\nhostname = \"-\"", "[a]: "),
            ("[a]\nenvironment = { \"A=B\" = \"\" }", "[a]: "),
            ("[a]\nuser = \"nobody\"", "choose another"),
        ] {
            let error = refused(text);
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
