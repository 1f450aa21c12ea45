//! From facts to findings: what each check came to, and the fix. Pure.

mod groups;
mod kernel;
mod monitor;

use serde::Serialize;

use super::facts::HostFacts;

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckState {
    /// All that is needed.
    Ok,
    /// Less than the kernel could give; the default profile holds all the same.
    Limited,
    /// The default profile cannot be enforced whole.
    Missing,
}

impl CheckState {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            CheckState::Ok => "ok",
            CheckState::Limited => "limited",
            CheckState::Missing => "missing",
        }
    }
}

/// One check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CheckFinding {
    /// Names the check.
    pub check: &'static str,
    /// The use that turnkey makes of it.
    pub needed_for: &'static str,
    /// The result of the check.
    pub state: CheckState,
    /// The observation, in words.
    pub found: String,
    /// The file it was read from, or the system call that was tried.
    pub source: &'static str,
    /// The advice on what to do; always there unless the state is ok.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

/// A check that has yet to come to something.
#[derive(Clone, Copy)]
struct OpenCheck {
    name: &'static str,
    needed_for: &'static str,
    source: &'static str,
}

impl OpenCheck {
    fn ok(self, found: impl Into<String>) -> CheckFinding {
        self.finding(CheckState::Ok, found.into(), None)
    }

    fn limited(self, found: impl Into<String>, fix: impl Into<String>) -> CheckFinding {
        self.finding(CheckState::Limited, found.into(), Some(fix.into()))
    }

    fn missing(self, found: impl Into<String>, fix: impl Into<String>) -> CheckFinding {
        self.finding(CheckState::Missing, found.into(), Some(fix.into()))
    }

    fn finding(self, state: CheckState, found: String, fix: Option<String>) -> CheckFinding {
        CheckFinding {
            check: self.name,
            needed_for: self.needed_for,
            state,
            found,
            source: self.source,
            fix,
        }
    }
}

/// Every check, in the order in which a run would meet its subject.
pub fn findings(facts: &HostFacts) -> Vec<CheckFinding> {
    let mut findings = vec![
        kernel::capabilities(facts),
        kernel::namespaces(facts),
        kernel::overlay(facts),
        kernel::id_mapped(facts),
        kernel::seccomp(facts),
        kernel::landlock(facts),
    ];
    findings.extend(groups::findings(facts));
    findings.extend(monitor::findings(facts));
    findings.extend(rehearsal(facts));
    findings
}

/// True when the default profile can be enforced whole.
pub fn whole(findings: &[CheckFinding]) -> bool {
    findings
        .iter()
        .all(|finding| finding.state != CheckState::Missing)
}

/// The proof of all the rest; and what still works where it fails.
fn rehearsal(facts: &HostFacts) -> Vec<CheckFinding> {
    let check = OpenCheck {
        name: "default-profile",
        needed_for: "everything: a harmless program was run under the profile `untrusted`",
        source: "turnkey run",
    };
    let Err(error) = &facts.rehearsal else {
        return vec![check.ok("it ran, every layer proved, and was found clean")];
    };
    let failed = check.missing(
        error.as_str(),
        "mend what is missing above, or what the message names",
    );
    let check = OpenCheck {
        name: "best-effort",
        needed_for: "what this host can give, where it cannot give all",
        source: "turnkey run --best-effort",
    };
    let without = match &facts.best_effort {
        Ok(()) => check.ok(
            "`turnkey run --best-effort` works for this caller; its report says what is missing",
        ),
        Err(error) => check.limited(error.as_str(), "mend what is missing above"),
    };
    vec![failed, without]
}
