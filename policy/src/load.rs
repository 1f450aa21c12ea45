//! A profile, those it builds on, and the flags over them, to one [`Policy`].

use std::path::{Path, PathBuf};
use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::error::{LoadError, Located, Problem, SourceText, TextSpan};
use crate::overrides::Overrides;
use crate::policy::Policy;
use crate::profile::ParsedProfile;
use crate::shipped::{self, SHIPPED};
use crate::values::nearest;
use crate::{flags, read, resolve};

/// Deeper, profiles that build on each other are a mistake.
const DEEPEST: usize = 16;
/// More profiles in one policy are a mistake too.
const MOST: usize = 64;

/// Loads a profile by shipped name or by file, with all it builds on and the overrides on top.
///
/// A name with a `/` or ending in `.toml` is a file, and `read_file` is asked for its text;
/// where a profile builds on a file, that is relative to its own place. Any other name is a
/// [shipped](crate::shipped) one. What `read_file` answers as an error becomes part of ours.
///
/// # Errors
/// When anything is wrong with the texts or the overrides; the error holds all of it.
pub fn load(
    profile: &str,
    read_file: &dyn Fn(&str) -> Result<String, String>,
    overrides: &Overrides,
) -> Result<Policy, LoadError> {
    LoadedProfile::read(profile, read_file).under(overrides)
}

/// A profile with all it builds on, as it was read: the same whatever flags are laid over it, so that who knows its name before the
/// flags has it read by then.
#[derive(Clone, Debug)]
pub struct LoadedProfile {
    loaded: Vec<LoadedText>,
    problems: Vec<Problem>,
}

impl LoadedProfile {
    /// Reads what [`load`] reads. What is wrong with the texts is told with what is wrong with the flags.
    pub fn read(
        profile: &str,
        read_file: &dyn Fn(&str) -> Result<String, String>,
    ) -> LoadedProfile {
        let mut loader = ProfileLoader {
            read_file,
            open: Vec::new(),
            loaded: Vec::new(),
            problems: Vec::new(),
        };
        loader.add(profile, None);
        LoadedProfile {
            loaded: loader.loaded,
            problems: loader.problems,
        }
    }

    /// The policy under these overrides.
    ///
    /// # Errors
    /// Those of [`load`].
    pub fn under(self, overrides: &Overrides) -> Result<Policy, LoadError> {
        self.merged(overrides)?.resolve()
    }

    /// All of them and the overrides as one.
    pub(crate) fn merged(self, overrides: &Overrides) -> Result<MergedProfiles, LoadError> {
        let LoadedProfile {
            loaded,
            mut problems,
        } = self;
        let (command_line, flags) = flags::given(overrides);
        let above = flags::profile(flags, &mut problems);
        fail_on(problems)?;

        let mut problems = Vec::new();
        let sha256 = digest(
            loaded
                .iter()
                .map(|loaded| &*loaded.source)
                .chain([&*command_line]),
        );
        let files = loaded.iter().map(|loaded| loaded.name.as_str());
        let files = files
            .filter(|name| shipped::is_file(name))
            .map(PathBuf::from)
            .collect();
        let mut merged = ParsedProfile::default();
        for layer in loaded
            .into_iter()
            .map(|loaded| loaded.profile)
            .chain([above])
        {
            merged.lay_over(layer, &mut problems);
        }
        Ok(MergedProfiles {
            profile: merged,
            sha256,
            files,
            problems,
        })
    }
}

/// Several profiles merged into one, before it is checked as a whole.
pub(crate) struct MergedProfiles {
    pub(crate) profile: ParsedProfile,
    sha256: String,
    files: Vec<PathBuf>,
    problems: Vec<Problem>,
}

impl MergedProfiles {
    /// The policy that it means.
    pub(crate) fn resolve(self) -> Result<Policy, LoadError> {
        let mut problems = self.problems;
        let policy = resolve::policy(self.profile, self.sha256, &mut problems);
        fail_on(problems)?;
        let mut policy = Policy {
            files: self.files,
            ..policy
        };
        policy.settle_shown();
        Ok(policy)
    }
}

fn fail_on(problems: Vec<Problem>) -> Result<(), LoadError> {
    LoadError::from_problems(problems).map_or(Ok(()), Err)
}

/// The texts, each behind its length so that no two lists of texts are alike.
fn digest<'a>(sources: impl Iterator<Item = &'a SourceText>) -> String {
    let mut hash = Sha256::new();
    for source in sources {
        hash.update((source.text.len() as u64).to_le_bytes());
        hash.update(source.text.as_bytes());
    }
    hash.finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// Collects a profile and all it builds on, each once, the one built on first.
struct ProfileLoader<'l> {
    read_file: &'l dyn Fn(&str) -> Result<String, String>,
    /// Names of the profiles being read: from the one asked for down to the current one.
    open: Vec<String>,
    loaded: Vec<LoadedText>,
    problems: Vec<Problem>,
}

#[derive(Clone, Debug)]
struct LoadedText {
    name: String,
    source: Arc<SourceText>,
    profile: ParsedProfile,
}

impl ProfileLoader<'_> {
    /// Adds a profile that `origin` builds on, or the one that was asked for.
    fn add(&mut self, name: &str, origin: Option<&TextSpan>) {
        if self.loaded.iter().any(|loaded| loaded.name == name) {
            return;
        }
        if let Some(problem) = self.refusal(name) {
            self.problems.push(with_extends_label(problem, origin));
            return;
        }
        match self.read_text(name) {
            Ok(text) => self.add_text(name, text),
            Err(problem) => self.problems.push(with_extends_label(problem, origin)),
        }
    }

    fn add_text(&mut self, name: &str, text: String) {
        let source = Arc::new(SourceText::new(name.to_owned(), text));
        let profile = read::profile(&source, &mut self.problems);
        self.open.push(name.to_owned());
        for base in &profile.extends {
            self.add_base(name, base);
        }
        self.open.pop();
        self.loaded.push(LoadedText {
            name: name.to_owned(),
            source,
            profile,
        });
    }

    fn add_base(&mut self, name: &str, base: &Located<String>) {
        self.add(&relative_to(name, &base.value), Some(&base.at));
    }

    /// The refusal to follow a name, when following would never end, or not soon enough.
    fn refusal(&self, name: &str) -> Option<Problem> {
        if let Some(start) = self.open.iter().position(|open| open == name) {
            let circle = self.open[start..].join(" → ");
            return Some(
                Problem::new(format!("the profile builds on itself: {circle} → {name}"))
                    .help("remove one of the `extends` in this circle"),
            );
        }
        if self.open.len() >= DEEPEST || self.loaded.len() >= MOST {
            let message = format!("more than {MOST} profiles, or {DEEPEST} on top of each other");
            return Some(Problem::new(message).help("write fewer and larger profiles"));
        }
        None
    }

    fn read_text(&self, name: &str) -> Result<String, Problem> {
        if shipped::is_file(name) {
            return (self.read_file)(name).map_err(|error| {
                Problem::new(format!("the profile {name} cannot be read: {error}"))
                    .help("check the file's name and that it may be read")
            });
        }
        shipped::shipped(name)
            .map(str::to_owned)
            .ok_or_else(|| unknown_profile(name))
    }
}

fn with_extends_label(problem: Problem, origin: Option<&TextSpan>) -> Problem {
    match origin {
        Some(at) => problem.with_label(at, "built on here"),
        None => problem,
    }
}

fn unknown_profile(name: &str) -> Problem {
    let names: Vec<&str> = SHIPPED.iter().map(|(name, _)| *name).collect();
    let meant = nearest(name, names.iter().copied());
    let meant = meant.map_or_else(String::new, |meant| format!("did you mean {meant}? "));
    let shipped = names.join(", ");
    Problem::new(format!("there is no profile called {name:?}")).help(format!(
        "{meant}turnkey comes with {shipped}; a file is named with its folder, as in ./{name}, or \
         with .toml at the end"
    ))
}

/// The path of a base that a profile names: a file is looked for beside the one that names it.
fn relative_to(name: &str, base: &str) -> String {
    match Path::new(name).parent() {
        Some(folder) if shipped::is_file(name) && shipped::is_file(base) => {
            folder.join(base).to_string_lossy().into_owned()
        }
        _ => base.to_owned(),
    }
}
