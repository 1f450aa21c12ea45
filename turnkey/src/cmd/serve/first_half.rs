//! The half of a run that is made before anybody asks for it: whatever the configuration alone decides.
//!
//! Of a request nothing is known here, and no part of a jail is made. What is made may go unused.

use std::path::Path;

use turnkey_policy::{JailLimits, LoadError, LoadedProfile, Overrides, Policy};
use turnkey_supervisor::service::RunClaim;

use super::config::{self, ServeConfig};

/// The profile of a request that names none.
const USUAL: &str = "untrusted";

/// The half.
pub struct FirstHalf {
    /// The configuration that it is of.
    pub config: ServeConfig,
    /// The ceilings of the configuration.
    pub ceilings: JailLimits,
    /// The most that the runs of one user may claim together.
    pub sums: RunClaim,
    /// The profile that is most likely asked for.
    pub profile: LikelyProfile,
    /// The text of the configuration.
    text: Option<String>,
}

impl FirstHalf {
    /// Makes it, of the configuration in `file`, or the usual one.
    ///
    /// # Errors
    /// When that cannot be used.
    pub fn make(file: Option<&Path>) -> anyhow::Result<FirstHalf> {
        let text = ServeConfig::text(file)?;
        let config = ServeConfig::parse(file, text.as_deref())?;
        let name = config.profiles.first().map_or(USUAL, String::as_str);
        Ok(FirstHalf {
            ceilings: config.ceilings()?,
            sums: config.sums()?,
            profile: LikelyProfile::read(name),
            config,
            text,
        })
    }

    /// True as long as the configuration in `file` is the one that it is made of.
    pub fn is_current(&self, file: Option<&Path>) -> bool {
        ServeConfig::text(file).is_ok_and(|text| text == self.text)
    }
}

/// A shipped profile that is read, whichever is asked for.
pub struct LikelyProfile {
    name: String,
    loaded: LoadedProfile,
}

impl LikelyProfile {
    fn read(name: &str) -> LikelyProfile {
        LikelyProfile {
            name: name.to_owned(),
            loaded: match name {
                USUAL => config::untrusted().clone(),
                _ => config::shipped(name),
            },
        }
    }

    /// The policy of a profile, which is a shipped one, and of what the request says over it.
    ///
    /// # Errors
    /// When the flags are wrong.
    pub fn policy(self, profile: &str, overrides: &Overrides) -> Result<Policy, LoadError> {
        let loaded = match self.name == profile {
            true => self.loaded,
            false => config::shipped(profile),
        };
        loaded.under(overrides)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(profile: &str, flags: &[(&str, &str)]) -> Policy {
        let overrides = Overrides::from_flags(flags.iter().copied()).unwrap();
        let likely = LikelyProfile::read("python");
        likely.policy(profile, &overrides).unwrap()
    }

    #[test]
    fn a_profile_that_was_read_before_means_what_it_means_otherwise() {
        for profile in ["python", "untrusted", "sealed"] {
            for flags in [&[][..], &[("memory", "99M"), ("network", "loopback")]] {
                let overrides = Overrides::from_flags(flags.iter().copied()).unwrap();
                let no_files = |path: &str| Err(path.to_owned());
                let otherwise = turnkey_policy::load(profile, &no_files, &overrides).unwrap();
                assert_eq!(policy(profile, flags), otherwise, "{profile}");
            }
        }
        assert_ne!(
            policy("python", &[]),
            policy("untrusted", &[]),
            "the control"
        );
    }

    #[test]
    fn a_configuration_that_was_changed_since_is_told() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("serve.toml");
        let make = || FirstHalf::make(Some(&file)).unwrap();
        std::fs::write(&file, "queue = 3\n").unwrap();
        let half = make();
        assert!(half.is_current(Some(&file)) && half.config.queue == 3);
        std::fs::write(&file, "queue = 4\n").unwrap();
        assert!(!half.is_current(Some(&file)));
        let half = make();
        assert!(half.is_current(Some(&file)) && half.config.queue == 4);
        std::fs::remove_file(&file).unwrap();
        assert!(!half.is_current(Some(&file)));
        assert!(FirstHalf::make(Some(&file)).is_err());
    }
}
