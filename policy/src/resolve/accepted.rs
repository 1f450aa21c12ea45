//! Findings that a profile accepts have to be ones that a report can have.

use crate::behaviour::Behaviour;
use crate::error::Problem;
use crate::names::NamedVariants as _;
use crate::profile::ParsedProfile;
use crate::values::nearest;

/// Turnkey's own findings that speak of the program. What speaks of the evidence is never
/// accepted: it would make a run clean that nobody saw whole.
const OWN: &[&str] = &["turnkey:sigsys", "turnkey:limit", "turnkey:disk"];

/// The prefix of the ids of behaviours.
const BEHAVIOUR: &str = "behaviour:";

/// Reports every accepted finding that no report can have.
pub(super) fn check(profile: &ParsedProfile, problems: &mut Vec<Problem>) {
    let rules: Vec<&str> = profile
        .rules
        .iter()
        .map(|rule| rule.value.rule.id.as_str())
        .collect();
    for accepted in &profile.accepted {
        let id = accepted.value.finding.as_str();
        let known = match id.strip_prefix(BEHAVIOUR) {
            Some(name) => Behaviour::from_name(name).is_some(),
            None => OWN.contains(&id) || rules.contains(&id),
        };
        if !known {
            problems.push(unknown(id, &rules).with_label(&accepted.at, "accepts nothing"));
        }
    }
}

fn unknown(id: &str, rules: &[&str]) -> Problem {
    if id == "turnkey:evidence" || id == "turnkey:killed" {
        return Problem::new(format!("{id:?} cannot be accepted"))
            .help("what was not seen cannot be known; `on_loss` says what lost evidence means");
    }
    let behaviours = Behaviour::ALL.iter().map(|one| one.name());
    let names: Vec<String> = behaviours
        .map(|name| format!("{BEHAVIOUR}{name}"))
        .collect();
    let all = names.iter().map(String::as_str);
    let all = all.chain(OWN.iter().copied()).chain(rules.iter().copied());
    let help = match nearest(id, all) {
        Some(near) => format!("did you mean {near:?}?"),
        None => "write the id of a rule, or of a finding of a report".to_owned(),
    };
    Problem::new(format!("no report has a finding {id:?}")).help(help)
}
