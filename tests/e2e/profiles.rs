//! The shipped profiles: real programs that must pass under each, and real programs that must be
//! stopped.

use turnkey_expectations::expected;

expected!(on[PROGRAMS_6_12]);

mod compile;
mod go;
mod harm;
mod java;
mod judge;
mod node;
mod observe;
mod python;
mod rust;
mod sealed;
mod shell;

use turnkey_tests::{Ran, Run};

/// A run under a shipped profile.
fn under(profile: &str) -> Run {
    Run::new().option(&format!("--profile {profile}"))
}

/// The program did its work, and nothing was found wrong with it.
#[track_caller]
fn passed(ran: &Ran, printed: &str) {
    ran.expect_code(0);
    ran.expect(ran.stdout == printed, "what it prints outside");
    ran.expect(ran.at("/verdict") == "clean", "clean");
    ran.expect(ran.violations().is_empty(), "no rule spoke");
}

/// The jail died for what a rule forbids, and the rule is named.
#[track_caller]
fn killed_by(ran: &Ran, rule: &str) {
    ran.expect_code(121);
    told(ran, rule);
}

/// A violation of this rule is in the report.
#[track_caller]
fn told(ran: &Ran, rule: &str) {
    ran.expect(ran.at("/verdict") == "violated", "violated");
    let mut violations = ran.violations().iter();
    ran.expect(
        violations.any(|violation| violation["rule"] == rule),
        &format!("by the rule {rule}"),
    );
}

/// An attempt on this path, refused, is in the report.
#[track_caller]
fn refused(ran: &Ran, path: &str) {
    let mut attempts = ran.list("/file_operations").iter();
    let is_it =
        |attempt: &serde_json::Value| attempt["path"] == path && attempt["result"] == "denied";
    ran.expect(attempts.any(is_it), &format!("{path}, denied, is told"));
}
