//! `turnkey explain`: the plan of a run, printed instead of carried out; or which of its rules decides on
//! an attempt, and why.
//!
//! Everything shown is read out of what a run itself uses: plan, policy, the tables behind
//! the filters. Nothing here is a list of its own, and nothing is made or changed but the place of this process, which is a run's.

mod answer;
mod decision;
mod landlock;
mod question;
mod rules;
mod syscalls;
mod text;
mod tree;
mod view;

use std::ffi::OsString;

use anyhow::Context;
use turnkey_jailer::Plan;
use turnkey_jailer::rootless::RootlessError;
use turnkey_policy::Policy;

use crate::cli::ExplainArguments;
use crate::failure::Failure;
use crate::output;
use decision::ExplainedDecision;
use question::ExplainQuestion;
use turnkey_supervisor::{SettledPolicy, advice, enter, plan};
use view::PlanView;

/// Stands for a command that was not given.
const COMMAND: &str = "COMMAND";

/// A plan holds the rules of its policy, whether they are asked or not.
const NOBODY_WATCHES: &str = "nobody watches such a run: its rules are not asked";

/// Prints the plan, or the answer to the question, to standard output.
pub fn explain(arguments: &ExplainArguments) -> Result<u8, Failure> {
    let question = ExplainQuestion::new(&arguments.question)?;
    // A caller without privileges is shown the run of such a caller. Where even that is out of
    // reach, what is shown is the run of one who has them, and this is said.
    let entered = enter();
    let policy = arguments.overrides.over(&arguments.profile)?;
    if let Some(question) = &question
        && policy.makes_no_jail()
    {
        return answer_without_jail(&policy, question, arguments.json);
    }
    let mut command = arguments.command.clone();
    let directory = arguments.directory.chosen()?;
    let strictness = arguments.strictness.chosen();
    let settled = SettledPolicy::new(policy, &command, &directory, strictness)?;
    let (settled, names) = settled.apart_from_names();
    names?;
    if command.is_empty() {
        command.push(OsString::from(COMMAND));
    }
    let plan = plan(settled.policy(), strictness, &command, &directory)?;
    // Nothing is told of those.
    let plan = Plan {
        policy: plan.policy.without_advice(),
        ..plan
    };
    let view = PlanView::new(&plan);
    let page = match question {
        Some(question) => {
            let decision = ExplainedDecision::new(&plan.policy, &question, Some(view.tree));
            output::rendered(&decision, arguments.json, answer::write)
        }
        None => output::rendered(&view, arguments.json, text::write),
    };
    page.and_then(|page| output::page(&page))
        .context("could not write the plan")?;
    if !plan.is_watched {
        output::lines(NOBODY_WATCHES);
    }
    if let Some(notice) = entered.notice() {
        output::lines(&notice);
    }
    if let Err(error) = entered.privileges() {
        output::lines(&not_this_caller(error));
    }
    Ok(0)
}

/// Answers a question about the rules of `turnkey attach`, which makes no jail.
fn answer_without_jail(
    policy: &Policy,
    question: &ExplainQuestion,
    json: bool,
) -> Result<u8, Failure> {
    let decision = ExplainedDecision::new(policy, question, None);
    output::rendered(&decision, json, answer::write)
        .and_then(|page| output::page(&page))
        .context("could not write the answer")?;
    Ok(0)
}

fn not_this_caller(error: RootlessError) -> String {
    let reason = advice::explain(&error.into());
    format!(
        "this is the plan of a caller with privileges; a run by this caller would not start: {reason}"
    )
}

#[cfg(test)]
#[path = "explain/snapshots.rs"]
mod snapshots;

#[cfg(test)]
#[path = "explain/questions.rs"]
mod questions;
