//! The configuration of a service, `serve.toml`: ceilings that no request exceeds.

use std::path::Path;
use std::sync::OnceLock;

use anyhow::{Context, ensure};
use serde::Deserialize;
use turnkey_policy::keys::KeyValue;
use turnkey_policy::quantity::format_size;
use turnkey_policy::{JailLimits, LoadedProfile, NetworkMode, Overrides, Policy, RootMode};
use turnkey_supervisor::files;
use turnkey_supervisor::service::RunClaim;

use super::config_file::require_own;

/// The file of the configuration where no other is named.
const USUAL: &str = "/etc/turnkey/serve.toml";

/// The configuration of a service. Every key has a default.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields, default)]
pub struct ServeConfig {
    /// The group whose members may connect, besides root: its name, or its number.
    pub group: String,
    /// Runs at once.
    pub max_running: usize,
    /// Runs of one user at once.
    pub max_running_per_user: usize,
    /// Callers that wait for a slot, or for what their user's runs have taken; one more is told to come back.
    pub queue: usize,
    /// Processes that stand ready before anybody asks.
    pub ready: usize,
    /// The names of shipped profiles that may be named; empty for all. A caller's own file is never taken.
    pub profiles: Vec<String>,
    /// The modes of the network that may be asked for.
    pub networks: Vec<String>,
    /// True when a caller may have its own files written to.
    pub write: bool,
    /// Ceilings of the limits, by their flags.
    pub limits: Ceilings,
    /// Ceilings of what all runs of one user take together.
    pub per_user: UserCeilings,
}

/// Ceilings of the sums over the runs of one user, each as the flag of `run` takes it.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields, default)]
pub struct UserCeilings {
    /// Memory and swap.
    pub memory: String,
    /// Processes and threads.
    pub pids: String,
    /// Writes that are thrown away: to /workspace, and to what is mounted as scratch.
    pub disk: String,
}

/// Ceilings, each as the flag of `run` takes it.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields, default)]
pub struct Ceilings {
    /// Memory of a jail.
    pub memory: String,
    /// Swap of a jail.
    pub swap: String,
    /// Processes and threads of a jail.
    pub pids: String,
    /// CPUs of a jail.
    pub cpu: String,
    /// Wall clock of a run.
    pub wall: String,
    /// CPU time of a run.
    pub cpu_time: String,
    /// Bytes on both outputs.
    pub output: String,
    /// Writes that are thrown away.
    pub disk: String,
}

impl Default for ServeConfig {
    fn default() -> Self {
        Self {
            group: "turnkey".to_owned(),
            max_running: 16,
            max_running_per_user: 8,
            queue: 64,
            ready: 2,
            profiles: Vec::new(),
            networks: ["none", "loopback"].map(str::to_owned).to_vec(),
            write: false,
            limits: Ceilings::default(),
            per_user: UserCeilings::default(),
        }
    }
}

impl Default for UserCeilings {
    fn default() -> Self {
        let text = str::to_owned;
        Self {
            memory: text("4G"),
            pids: text("1024"),
            disk: text("16G"),
        }
    }
}

impl UserCeilings {
    /// The keys with what they say.
    pub fn named(&self) -> [(&'static str, &str); 3] {
        [
            ("memory", &self.memory),
            ("pids", &self.pids),
            ("disk", &self.disk),
        ]
    }
}

impl Default for Ceilings {
    fn default() -> Self {
        let text = str::to_owned;
        Self {
            memory: text("2G"),
            swap: text("0"),
            pids: text("512"),
            cpu: text("200%"),
            wall: text("10m"),
            cpu_time: text("20m"),
            output: text("64M"),
            disk: text("2G"),
        }
    }
}

impl ServeConfig {
    /// Reads a configuration, or the usual one; the default without a file.
    ///
    /// # Errors
    /// When it cannot be read, or says what no service can do.
    pub fn load(file: Option<&Path>) -> anyhow::Result<ServeConfig> {
        let text = ServeConfig::text(file)?;
        ServeConfig::parse(file, text.as_deref())
    }

    /// The text of a configuration, or of the usual one; `None` without a file.
    ///
    /// # Errors
    /// When it cannot be read, or others than root may write it.
    pub fn text(file: Option<&Path>) -> anyhow::Result<Option<String>> {
        if file.is_none() && !Path::new(USUAL).exists() {
            return Ok(None);
        }
        let read = || {
            let file = chosen(file);
            require_own(file)?;
            files::read_text(&file.to_string_lossy()).map_err(anyhow::Error::msg)
        };
        read().with_context(|| unusable(file)).map(Some)
    }

    /// The configuration that a text in `file` means.
    ///
    /// # Errors
    /// When it says what no service can do.
    pub fn parse(file: Option<&Path>, text: Option<&str>) -> anyhow::Result<ServeConfig> {
        let Some(text) = text else {
            return Ok(ServeConfig::default());
        };
        let config: ServeConfig = toml::from_str(text).with_context(|| unusable(file))?;
        config.require_sense().with_context(|| unusable(file))?;
        Ok(config)
    }

    fn require_sense(&self) -> anyhow::Result<()> {
        ensure!(
            self.max_running > 0 && self.max_running_per_user > 0 && self.queue > 0,
            "`max_running`, `max_running_per_user` and `queue` are at least 1"
        );
        for mode in &self.networks {
            let known = NETWORKS.iter().any(|(name, _)| name == mode);
            let names: Vec<_> = NETWORKS.iter().map(|(name, _)| *name).collect();
            ensure!(
                known,
                "`networks` names {mode:?}; the modes are {}",
                names.join(", ")
            );
        }
        for name in &self.profiles {
            ensure!(
                turnkey_policy::shipped(name).is_some(),
                "`profiles` names {name:?}, which is not shipped; `turnkey profiles` lists those that are"
            );
        }
        self.ceilings()?;
        self.sums().map(drop)
    }

    /// The ceilings, as a policy has them.
    ///
    /// # Errors
    /// When one is no value of its flag.
    pub fn ceilings(&self) -> anyhow::Result<JailLimits> {
        limits_of("limits", self.limits.named())
    }

    /// The most that the runs of one user may claim together.
    ///
    /// # Errors
    /// When one is no value of its flag.
    pub fn sums(&self) -> anyhow::Result<RunClaim> {
        let limits = limits_of("per_user", self.per_user.named())?;
        Ok(RunClaim {
            memory: limits.memory,
            pids: limits.pids.into(),
            disk: limits.disk,
        })
    }

    /// Requires that a run fits beside no other of its user's.
    ///
    /// # Errors
    /// When not; the text is for the caller.
    pub fn require_ever(&self, claim: RunClaim, most: RunClaim) -> Result<(), String> {
        let Some(part) = claim.beyond(most) else {
            return Ok(());
        };
        let named = self.per_user.named();
        let given = named.iter().find(|(name, _)| *name == part.name);
        let given = given.map_or("", |(_, text)| text);
        Err(format!(
            "the service gives all runs of one user together less {} than this one asks for: {} at most, {}",
            words(part.name),
            given,
            flags_of(part.name)
        ))
    }

    /// Requires that a profile may be named.
    ///
    /// # Errors
    /// When not; the text is for the caller.
    pub fn require_profile(&self, name: &str) -> Result<(), String> {
        let listed = self.profiles.is_empty() || self.profiles.iter().any(|one| one == name);
        if turnkey_policy::is_file(name) || turnkey_policy::shipped(name).is_none() {
            return Err(format!(
                "the service takes no profile of a caller's: {name}"
            ));
        }
        match listed {
            true => Ok(()),
            false => Err(format!(
                "the service does not give the profile {name}, but {}",
                self.profiles.join(", ")
            )),
        }
    }

    /// Requires that a policy is within what is given.
    ///
    /// # Errors
    /// When not; the text is for the caller.
    pub fn require_within(&self, policy: &Policy, ceilings: &JailLimits) -> Result<(), String> {
        let mode = NETWORKS
            .iter()
            .find(|(_, mode)| *mode == policy.network.mode);
        let mode = mode.map_or("", |(name, _)| name);
        if !self.networks.iter().any(|one| one == mode) {
            let given = self.networks.join(", ");
            return Err(format!(
                "the service does not give the network mode {mode}, but {given}"
            ));
        }
        let filesystem = &policy.filesystem;
        if !filesystem.write.is_empty() && !self.write {
            return Err("the service lets no run write to its caller's files".to_owned());
        }
        if filesystem.root.is_some() || filesystem.root_mode != RootMode::ReadOnly {
            return Err(
                "the service gives no root of the caller's, and none that can be written"
                    .to_owned(),
            );
        }
        if !policy.network.publish.is_empty() {
            return Err("the service publishes no ports".to_owned());
        }
        for ((key, asked), (_, most)) in policy.limits.values().zip(ceilings.values()) {
            if Ceilings::NAMES.contains(&key.name) && exceeds(&asked, &most) {
                return Err(format!(
                    "the service gives less than the {} that is asked for: --{} {} at most",
                    key.name,
                    flag(key.name),
                    self.limits.text(key.name)
                ));
            }
        }
        Ok(())
    }
}

/// The modes of networks, by their names.
const NETWORKS: [(&str, NetworkMode); 5] = [
    ("none", NetworkMode::None),
    ("loopback", NetworkMode::Loopback),
    ("sinkhole", NetworkMode::Sinkhole),
    ("allow", NetworkMode::Allow),
    ("host", NetworkMode::Host),
];

impl Ceilings {
    /// The keys of `[limits]` that have a ceiling.
    const NAMES: [&'static str; 8] = [
        "memory", "swap", "pids", "cpu", "wall", "cpu_time", "output", "disk",
    ];

    fn text(&self, name: &str) -> &str {
        match name {
            "memory" => &self.memory,
            "swap" => &self.swap,
            "pids" => &self.pids,
            "cpu" => &self.cpu,
            "wall" => &self.wall,
            "cpu_time" => &self.cpu_time,
            "output" => &self.output,
            _ => &self.disk,
        }
    }

    /// The keys with what they say.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, &str)> {
        Self::NAMES.into_iter().map(|name| (name, self.text(name)))
    }
}

fn chosen(file: Option<&Path>) -> &Path {
    file.unwrap_or(Path::new(USUAL))
}

fn unusable(file: Option<&Path>) -> String {
    let file = chosen(file).display();
    format!("the configuration {file} cannot be used")
}

/// Limits that a table of the configuration has.
fn limits_of<'t>(
    table: &str,
    named: impl IntoIterator<Item = (&'static str, &'t str)>,
) -> anyhow::Result<JailLimits> {
    let flags: Vec<_> = named
        .into_iter()
        .map(|(name, text)| (flag(name), text))
        .collect();
    let flags = flags.iter().map(|(flag, text)| (flag.as_str(), *text));
    let overrides =
        Overrides::from_flags(flags).with_context(|| format!("`[{table}]` has an unknown key"))?;
    let loaded = LoadedProfile::clone(untrusted()).under(&overrides);
    // Its own rendering shows a command line, which there is none of.
    let policy = loaded.map_err(|error| anyhow::anyhow!("`[{table}]` is wrong: {error}"))?;
    Ok(policy.limits)
}

/// The profile of a request that names none, read once: whoever gets ready asks for it three times.
pub fn untrusted() -> &'static LoadedProfile {
    static READ: OnceLock<LoadedProfile> = OnceLock::new();
    READ.get_or_init(|| shipped("untrusted"))
}

/// Reads a shipped profile. No file is, whoever names one.
pub fn shipped(profile: &str) -> LoadedProfile {
    LoadedProfile::read(profile, &|path| Err(path.to_owned()))
}

/// A part of a claim in words.
pub fn words(part: &str) -> &'static str {
    match part {
        "memory" => "memory",
        "pids" => "processes and threads",
        _ => "room for writes that are thrown away",
    }
}

/// The value of a part of a claim, as its flag takes it.
pub fn shown(part: &str, value: u64) -> String {
    match part {
        "pids" => value.to_string(),
        _ => format_size(value),
    }
}

/// The flags that make it smaller.
fn flags_of(part: &str) -> &'static str {
    match part {
        "memory" => "--memory and --swap",
        "pids" => "--pids",
        _ => "--disk and --scratch",
    }
}

/// The flag of a key of limits.
fn flag(key: &str) -> String {
    key.replace('_', "-")
}

fn exceeds(asked: &KeyValue, most: &KeyValue) -> bool {
    match (asked, most) {
        (KeyValue::Number(asked), KeyValue::Number(most)) => asked > most,
        (KeyValue::Time(asked), KeyValue::Time(most)) => asked > most,
        (KeyValue::Unlimited, most) => *most != KeyValue::Unlimited,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(flags: &[(&str, &str)]) -> Policy {
        let no_files = |path: &str| Err(path.to_owned());
        let overrides = Overrides::from_flags(flags.iter().copied()).unwrap();
        turnkey_policy::load("untrusted", &no_files, &overrides).unwrap()
    }

    fn refused(config: &ServeConfig, flags: &[(&str, &str)]) -> String {
        let ceilings = config.ceilings().unwrap();
        let answer = config.require_within(&policy(flags), &ceilings);
        answer.err().unwrap_or_default()
    }

    #[test]
    fn every_ceiling_is_held() {
        let config = ServeConfig::default();
        assert_eq!(refused(&config, &[]), "");
        for (flag, within, beyond) in [
            ("memory", "2G", "2049M"),
            ("swap", "0", "1M"),
            ("pids", "512", "513"),
            ("cpu", "200%", "201%"),
            ("wall", "10m", "601s"),
            ("cpu-time", "20m", "1201s"),
            ("output", "64M", "65M"),
            ("disk", "2G", "2049M"),
        ] {
            assert_eq!(refused(&config, &[(flag, within)]), "", "{flag}");
            let answer = refused(&config, &[(flag, beyond)]);
            assert!(
                answer.contains(&format!("--{flag} {within} at most")),
                "{answer}"
            );
        }
    }

    #[test]
    fn what_can_never_fit_is_told_with_the_flags_that_change_it() {
        let config = ServeConfig::default();
        let most = config.sums().unwrap();
        assert_eq!(config.require_ever(most, most), Ok(()));
        let claims = [
            (
                (1, 0, 0),
                "less memory than this one asks for: 4G at most, --memory and --swap",
            ),
            ((0, 1, 0), "1024 at most, --pids"),
            ((0, 0, 1), "16G at most, --disk and --scratch"),
        ];
        for ((memory, pids, disk), words) in claims {
            let more = RunClaim { memory, pids, disk };
            let answer = config.require_ever(most.and(more), most).unwrap_err();
            assert!(answer.contains(words), "{answer}");
        }
    }

    #[test]
    fn networks_writing_roots_and_ports_are_given_where_it_says_so() {
        let config = ServeConfig::default();
        assert_eq!(refused(&config, &[("network", "loopback")]), "");
        assert!(refused(&config, &[("network", "host")]).contains("none, loopback"));
        assert!(refused(&config, &[("allow", "192.0.2.1:80")]).contains("mode allow"));
        assert!(refused(&config, &[("publish", "80")]).contains("no ports"));
        assert!(refused(&config, &[("root-mode", "overlay")]).contains("no root"));
        assert!(refused(&config, &[("root", "/srv")]).contains("no root"));
        let write = [("write", "/srv")];
        assert!(refused(&config, &write).contains("no run write"));
        let generous = ServeConfig {
            write: true,
            ..ServeConfig::default()
        };
        assert_eq!(refused(&generous, &write), "", "the control");
    }

    #[test]
    fn profiles_are_shipped_ones_and_those_that_are_listed() {
        let mut config = ServeConfig::default();
        assert_eq!(config.require_profile("python"), Ok(()));
        for own in ["./python", "/etc/x.toml", "x.toml", "none-such"] {
            assert!(config.require_profile(own).is_err(), "{own}");
        }
        config.profiles = vec!["sealed".to_owned()];
        assert!(
            config
                .require_profile("python")
                .unwrap_err()
                .ends_with("but sealed")
        );
    }

    #[test]
    fn a_file_says_what_it_can() {
        let load = |text: &str| {
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), text).unwrap();
            ServeConfig::load(Some(file.path())).map_err(|error| format!("{error:#}"))
        };
        let loaded = load("max_running = 3\nwrite = true\n[limits]\nmemory = \"1G\"\n").unwrap();
        assert_eq!((loaded.max_running, loaded.write), (3, true));
        assert_eq!(loaded.limits.memory, "1G");
        assert_eq!(loaded.limits.wall, Ceilings::default().wall);
        for (text, word) in [
            ("max_runing = 3", "max_runing"),
            ("max_running = 0", "at least 1"),
            ("queue = 0", "at least 1"),
            (
                "networks = [\"internet\"]",
                "none, loopback, sinkhole, allow, host",
            ),
            ("profiles = [\"pythn\"]", "not shipped"),
            ("[limits]\nmemory = \"much\"", "limits"),
            ("[per_user]\npids = \"1\"", "per_user"),
            ("[per_user]\nwall = \"1s\"", "wall"),
        ] {
            let error = load(text).unwrap_err();
            assert!(error.contains(word), "{text}: {error}");
        }
    }
}
