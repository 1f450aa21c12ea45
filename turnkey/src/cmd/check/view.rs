//! The problems found, for programs.

use serde::Serialize;
use turnkey_policy::lint::{CheckedProfile, LintFinding};
use turnkey_policy::{LoadError, Problem, ProfilePlace};

/// The page on all profiles that were looked at.
#[derive(Debug, Serialize)]
pub struct CheckPage {
    pub schema: &'static str,
    pub profiles: Vec<ProfileProblems>,
}

/// One profile, as it was named.
#[derive(Debug, Serialize)]
pub struct ProfileProblems {
    pub profile: String,
    /// True when a run could use the profile.
    pub usable: bool,
    pub findings: Vec<FoundProblem>,
}

/// One thing that was found.
#[derive(Debug, Serialize)]
pub struct FoundProblem {
    /// `error`: the profile cannot be used; `warning`: it can.
    pub severity: &'static str,
    /// The lint; `null` for errors.
    pub lint: Option<&'static str>,
    pub what: String,
    /// The reason why it matters; `null` for errors.
    pub why: Option<String>,
    pub fix: Option<String>,
    /// The place where it is in front.
    pub places: Vec<TextLocation>,
}

/// A piece of a profile's text.
#[derive(Debug, Serialize)]
pub struct TextLocation {
    pub file: String,
    /// From 1; columns count characters.
    pub line: usize,
    pub column: usize,
    pub end_line: usize,
    pub end_column: usize,
    /// In bytes of the file.
    pub offset: usize,
    pub length: usize,
    pub text: String,
    pub label: String,
}

impl CheckPage {
    pub fn new(profiles: impl Iterator<Item = ProfileProblems>) -> Self {
        Self {
            schema: "turnkey.check/v1",
            profiles: profiles.collect(),
        }
    }
}

impl ProfileProblems {
    pub fn new(name: &str, outcome: &Result<CheckedProfile, LoadError>) -> Self {
        let findings = match outcome {
            Ok(checked) => checked.findings.iter().map(FoundProblem::warning).collect(),
            Err(error) => error.problems().iter().map(FoundProblem::error).collect(),
        };
        Self {
            profile: name.to_owned(),
            usable: outcome.is_ok(),
            findings,
        }
    }
}

impl FoundProblem {
    fn error(problem: &Problem) -> Self {
        Self {
            severity: "error",
            lint: None,
            what: problem.message().to_owned(),
            why: None,
            fix: problem.fix().map(str::to_owned),
            places: problem
                .places()
                .into_iter()
                .map(TextLocation::from)
                .collect(),
        }
    }

    fn warning(finding: &LintFinding) -> Self {
        Self {
            severity: "warning",
            lint: Some(finding.lint().name()),
            why: Some(finding.why().to_owned()),
            ..Self::error(finding.problem())
        }
    }
}

impl From<ProfilePlace> for TextLocation {
    fn from(place: ProfilePlace) -> Self {
        Self {
            file: place.file,
            line: place.line,
            column: place.column,
            end_line: place.end_line,
            end_column: place.end_column,
            offset: place.offset,
            length: place.text.len(),
            text: place.text,
            label: place.label,
        }
    }
}
