//! Flags that override keys of the profile, from the policy's own table of them.

use std::path::PathBuf;

use anyhow::Context;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, value_parser};
use turnkey_policy::keys::KeyFlag;
use turnkey_policy::{Overrides, Policy};
use turnkey_supervisor::files;

use crate::failure::Failure;

/// Flags over the profile.
#[derive(Debug)]
pub struct OverrideArguments {
    given: Vec<(&'static KeyFlag, FlagText)>,
}

#[derive(Debug)]
enum FlagText {
    Plain(String),
    Path(PathBuf),
}

impl OverrideArguments {
    /// The flags in the form the policy takes them: paths made absolute, because only here is the
    /// current directory known.
    pub fn resolve(&self) -> std::io::Result<Overrides> {
        let absolute = |(flag, text): &(&'static KeyFlag, FlagText)| {
            let text = match text {
                FlagText::Plain(text) => text.clone(),
                FlagText::Path(path) => std::path::absolute(path)?.to_string_lossy().into_owned(),
            };
            Ok((flag.name, text))
        };
        let flags: std::io::Result<Vec<_>> = self.given.iter().map(absolute).collect();
        Overrides::from_flags(flags?).map_err(std::io::Error::other)
    }

    /// The policy of a profile, and what the command line says over it.
    pub fn over(&self, profile: &str) -> Result<Policy, Failure> {
        let overrides = self
            .resolve()
            .context("could not tell the current directory")?;
        let mut policy = turnkey_policy::load(profile, &files::read_text, &overrides)
            .map_err(|error| Failure::Profile(Box::new(error)))?;
        // Whoever reads of them later may be elsewhere.
        for file in &mut policy.files {
            *file = std::path::absolute(&file).context("could not tell the current directory")?;
        }
        Ok(policy)
    }
}

impl Args for OverrideArguments {
    fn augment_args(command: Command) -> Command {
        command.args(turnkey_policy::flags().map(argument))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

fn argument(flag: &KeyFlag) -> Arg {
    let argument = Arg::new(flag.name)
        .long(flag.name)
        .value_name(flag.value)
        .help_heading(flag.heading)
        .help(flag.help)
        .action(if flag.repeated {
            ArgAction::Append
        } else {
            ArgAction::Set
        });
    if flag.value.is_empty() {
        argument.num_args(0).default_missing_value("true")
    } else if flag.is_path {
        argument.value_parser(value_parser!(PathBuf))
    } else {
        argument
    }
}

impl FromArgMatches for OverrideArguments {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = turnkey_policy::flags().flat_map(|flag| {
            let texts: Vec<FlagText> = if flag.is_path {
                let paths = matches.get_many::<PathBuf>(flag.name).into_iter().flatten();
                paths.cloned().map(FlagText::Path).collect()
            } else {
                let texts = matches.get_many::<String>(flag.name).into_iter().flatten();
                texts.cloned().map(FlagText::Plain).collect()
            };
            texts.into_iter().map(move |text| (flag, text))
        });
        Ok(Self {
            given: given.collect(),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
