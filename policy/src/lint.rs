//! Lints: parts of a profile that are valid and most likely not meant, or dangerous and unexplained.
//!
//! Every question about patterns is answered exactly, as a question about sets of paths, and by the
//! order in which rules decide ([`mod@crate::decide`]); nothing is guessed from how they look.

mod acceptances;
mod actors;
mod allows;
mod enforcement;
mod fate;
mod field;
mod hosts;
mod language;
mod metadata;
mod peers;
mod places;
mod universe;

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};

use miette::{Diagnostic, LabeledSpan, Severity, SourceCode};

use crate::decide::Candidate;
use crate::error::TextSpan;
use crate::error::{LoadError, Problem};
use crate::load::LoadedProfile;
use crate::overrides::Overrides;
use crate::policy::Policy;
use crate::profile::{ParsedProfile, RulePlaces};
use field::ComparableRules;

/// The lints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lint {
    /// A dangerous allowance without a reason.
    AllowWithoutReason,
    /// A rule, or one of its patterns, that no attempt can ever meet.
    NeverMatches,
    /// A rule that lets programs pass in whose place the jail can put another.
    ActorWritable,
    /// A rule, or one of its patterns, before which another one always decides.
    Shadowed,
    /// A place that the jail can write to on the host holds a profile.
    OwnProfileWritable,
    /// An address at which clouds hand out credentials is allowed.
    MetadataAllowed,
    /// A layer whose absence does not end the run.
    LayerNotRequired,
    /// A finding is accepted no longer, or soon no longer.
    AcceptanceEnds,
    /// The rules are too many, or too entangled, to be compared all.
    NotCompared,
}

/// One thing that a person should look at.
///
/// It implements [`miette::Diagnostic`], as errors do.
#[derive(Debug)]
pub struct LintFinding {
    lint: Lint,
    why: String,
    problem: Problem,
}

/// A profile that can be used, and what was found in it.
#[derive(Debug)]
pub struct CheckedProfile {
    /// The policy that the profile becomes.
    pub policy: Policy,
    /// The findings, in the order of the lints.
    pub findings: Vec<LintFinding>,
}

/// Loads a profile as [`crate::load()`] does, and looks for what is most likely not meant.
///
/// `known_as` answers with every absolute path by which a file or directory is known: as it was
/// named, and with symlinks followed. It need not exist. `today` is the day in UTC, by which accepted
/// findings are judged.
///
/// # Errors
/// When the profile cannot be used at all.
pub fn check(
    profile: &str,
    read_file: &dyn Fn(&str) -> Result<String, String>,
    known_as: &dyn Fn(&Path) -> Vec<PathBuf>,
    today: time::Date,
) -> Result<CheckedProfile, LoadError> {
    let gathered = LoadedProfile::read(profile, read_file).merged(&Overrides::default())?;
    let merged = gathered.profile.clone();
    let policy = gathered.resolve()?;
    let field = ComparableRules::new(&policy.rules);
    let mut findings = allows::places(&merged);
    let mut given_up = BTreeSet::new();
    for (found, without) in [allows::rules(&merged, &field), fate::rules(&merged, &field)] {
        findings.extend(found);
        given_up.extend(without);
    }
    findings.extend(actors::writable(&merged, &policy));
    findings.extend(actors::impossible(&merged));
    findings.extend(not_compared(&merged, &given_up));
    findings.extend(places::own_profile(&merged, &policy.files, known_as));
    findings.extend(hosts::shared(&merged));
    findings.extend(hosts::allowed(&merged));
    findings.extend(metadata::reached(&merged, &policy.rules));
    findings.extend(enforcement::layers(&merged, &policy));
    findings.extend(acceptances::ending(&merged, today));
    findings.sort_by_key(|finding| finding.lint);
    Ok(CheckedProfile { policy, findings })
}

/// Of these rules it takes too long to tell; of all others it was told.
fn not_compared(profile: &ParsedProfile, given_up: &BTreeSet<usize>) -> Option<LintFinding> {
    const NAMED: usize = 3;
    if given_up.is_empty() {
        return None;
    }
    let ids = given_up.iter().take(NAMED);
    let ids = ids.map(|index| format!("{:?}", profile.rules[*index].value.rule.id));
    let mut message = format!(
        "it takes too long to compare {} of {} rules with all others: {}",
        given_up.len(),
        profile.rules.len(),
        ids.collect::<Vec<_>>().join(", ")
    );
    if given_up.len() > NAMED {
        message += &format!(" and {} more", given_up.len() - NAMED);
    }
    Some(LintFinding {
        lint: Lint::NotCompared,
        why: "a rule that never decides, or an allow that opens a hole, may be among them".to_owned(),
        problem: Problem::new(message)
            .help("join rules that differ in nothing but their path, and write fewer `**` in the middle of patterns"),
    })
}

impl Lint {
    /// Every lint, in order.
    pub const ALL: &'static [Self] = &[
        Self::AllowWithoutReason,
        Self::NeverMatches,
        Self::ActorWritable,
        Self::Shadowed,
        Self::OwnProfileWritable,
        Self::MetadataAllowed,
        Self::LayerNotRequired,
        Self::AcceptanceEnds,
        Self::NotCompared,
    ];

    /// The name that programs see.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::AllowWithoutReason => "allow-without-reason",
            Self::NeverMatches => "never-matches",
            Self::ActorWritable => "actor-writable",
            Self::Shadowed => "shadowed",
            Self::OwnProfileWritable => "own-profile-writable",
            Self::MetadataAllowed => "metadata-allowed",
            Self::LayerNotRequired => "layer-not-required",
            Self::AcceptanceEnds => "acceptance-ends",
            Self::NotCompared => "not-compared",
        }
    }

    /// One line for people.
    #[must_use]
    pub const fn about(self) -> &'static str {
        match self {
            Self::AllowWithoutReason => {
                "something dangerous is allowed without `why`: a `write` place, a `read` place that holds secrets or sockets of the host, a host to talk to, the host's own network, or a rule that lets pass what another rule would deny or kill"
            }
            Self::NeverMatches => "a rule, or one of its patterns, that no attempt can ever meet",
            Self::ActorWritable => {
                "a rule that lets programs or scripts pass by a pattern that meets a place where the jail can write, or a program in memory"
            }
            Self::Shadowed => "a rule, or one of its patterns, before which others always decide",
            Self::OwnProfileWritable => {
                "a `write` place that holds the profile's own file, or that of one it builds on"
            }
            Self::MetadataAllowed => {
                "a rule that allows an address at which clouds hand out credentials, unless it names that address alone and has a `why`"
            }
            Self::LayerNotRequired => "a layer that `enforcement.required` leaves out",
            Self::AcceptanceEnds => {
                "an entry of `accept` whose `until` is over, or comes within 14 days"
            }
            Self::NotCompared => {
                "the rules are too many, or their patterns too entangled, to compare each with all others"
            }
        }
    }
}

impl fmt::Display for Lint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

impl LintFinding {
    /// The lint that found it.
    #[must_use]
    pub fn lint(&self) -> Lint {
        self.lint
    }

    /// The reason why the finding matters.
    #[must_use]
    pub fn why(&self) -> &str {
        &self.why
    }

    /// The finding as a problem: its text, its place and its fix.
    #[must_use]
    pub fn problem(&self) -> &Problem {
        &self.problem
    }
}

impl fmt::Display for LintFinding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.problem.fmt(formatter)
    }
}

impl std::error::Error for LintFinding {}

impl Diagnostic for LintFinding {
    fn code<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        Some(Box::new(self.lint))
    }

    fn severity(&self) -> Option<Severity> {
        Some(Severity::Warning)
    }

    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        let fix = self.problem.fix().unwrap_or_default();
        Some(Box::new(format!("{fix}\nbecause {}", self.why)))
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.problem.source_code()
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        self.problem.labels()
    }

    fn related<'a>(&'a self) -> Option<Box<dyn Iterator<Item = &'a dyn Diagnostic> + 'a>> {
        self.problem.related()
    }
}

impl RulePlaces {
    /// The place of what a candidate is about; `None` for one that is about everything.
    pub(crate) fn span_of(&self, candidate: Candidate) -> Option<&TextSpan> {
        let path = candidate.pattern.map(|index| &self.path[index]);
        let address = candidate.address.map(|index| &self.address[index]);
        let port = candidate.port.map(|index| &self.port[index]);
        path.or(address).or(port)
    }
}
