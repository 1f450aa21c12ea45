//! The attacks on the monitor, one file for each theme: an evasion that works where no rule acts is
//! without effect where one does, and is told.
//!
//! What a rule forbids may have happened before its author is dead: that is the honest difference
//! between the monitor's tiers. So what is asserted is that nothing came of it.

mod actors;
mod addresses;
mod aims;
mod calls;
mod descriptors;
mod evidence;
mod exec;
mod identity;
mod kills;
mod kinds;
mod looks;
mod map;
mod names;
mod network;
mod paths;
mod questions;
mod races;
mod symlinks;
mod trust;
mod wide;

use serde_json::Value;
use turnkey_tests::{Ran, Run};

/// A rule of a profile; `more` is further lines of it.
fn rule(id: &str, on: &str, action: &str, more: &str) -> String {
    format!(
        "[[rule]]\nid = \"{id}\"\non = \"{on}\"\naction = \"{action}\"\nseverity = \"high\"\nwhy = \"a test\"\n{more}\n"
    )
}

/// A rule that kills for reading or writing a path.
fn guard(path: &str) -> String {
    rule("guard", "open", "kill", &format!("path = \"{path}\""))
}

/// Programs by name, and death for every other.
fn only(programs: &[&str]) -> String {
    let listed = rule("listed", "exec", "allow", &format!("path = {programs:?}"));
    listed + &rule("unlisted", "exec", "kill", "")
}

/// The violations of a rule.
fn violations<'a>(ran: &'a Ran, rule: &'a str) -> impl Iterator<Item = &'a Value> {
    let all = ran.violations().iter();
    all.filter(move |violation| violation["rule"] == rule)
}

/// How often a path was opened or executed with this result, by the report.
fn times(ran: &Ran, path: &str, result: &str) -> u64 {
    let rows = ran.list("/file_operations").iter();
    let rows = rows.filter(|row| row["path"] == path && row["result"] == result);
    rows.filter_map(|row| row["count"].as_u64()).sum()
}

/// The events of a kind.
fn events<'a>(ran: &'a Ran, kind: &'a str) -> impl Iterator<Item = &'a Value> {
    ran.events.iter().filter(move |event| event["kind"] == kind)
}

/// An attack that a rule kills for.
struct Attack<'a> {
    /// A new jail for it.
    jail: &'a dyn Fn() -> Run,
    program: &'a [&'a str],
    /// What it prints when it works.
    mark: &'a str,
    rule: &'a str,
    /// How the report may call what it was aimed at: who kills on entry knows the argument alone.
    paths: &'a [&'a str],
}

impl Attack<'_> {
    /// It works where rules are only logged, and is told; where they act, it is told and without
    /// effect.
    #[track_caller]
    fn is_survived(&self) {
        self.works_and_is_told();
        self.is_killed();
    }

    #[track_caller]
    fn works_and_is_told(&self) -> Ran {
        let ran = (self.jail)().option("--mode observe").run(self.program);
        let works = ran.stdout.contains(self.mark);
        ran.expect(works, "the control: where no rule acts it works");
        ran.expect(self.is_told(&ran, "log"), "the control is told, too");
        ran
    }

    #[track_caller]
    fn is_killed(&self) -> Ran {
        let ran = (self.jail)().run(self.program);
        ran.expect_code(121);
        ran.expect(!ran.stdout.contains(self.mark), "without effect");
        ran.expect(self.is_told(&ran, "kill"), "and it is told");
        ran
    }

    fn is_told(&self, ran: &Ran, action: &str) -> bool {
        violations(ran, self.rule).any(|violation| {
            let path = violation["path"].as_str().unwrap_or_default();
            self.paths.contains(&path) && violation["action"] == action
        })
    }
}
