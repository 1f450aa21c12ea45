//! A decision as a page for people.

use std::io::{self, Write};

use super::decision::{AskedAttempt, ExplainedDecision};
use super::rules::RuleDefinition;
use super::tree::TreeRow;

/// Writes the whole page. Fails only when `out` does.
pub fn write(decision: &ExplainedDecision, out: &mut impl Write) -> io::Result<()> {
    head(decision, out)?;
    for asked in &decision.asked {
        candidates(decision, asked, out)?;
    }
    match &decision.decides {
        Some(rule) => decides(rule, out)?,
        None => writeln!(out, "\nNo rule speaks of it, so none stops it.")?,
    }
    for rule in &decision.silent {
        writeln!(
            out,
            "  the rule {rule} says nothing of it: no such file is there when the run begins, and nobody's but the program's own can be later"
        )?;
    }
    if let Some(rule) = &decision.same_file {
        writeln!(
            out,
            "  the rule {rule} means the file that has this path when the run begins, by whatever name"
        )?;
    }
    match &decision.tree {
        Some(row) => place(row, out),
        None if decision.is_in_the_tree() => {
            writeln!(out, "\nIn the jail's tree: nothing is there")
        }
        None => Ok(()),
    }
}

fn head(decision: &ExplainedDecision, out: &mut impl Write) -> io::Result<()> {
    let path = decision.path.as_ref().or(decision.address.as_ref());
    let path = path.map(|path| format!(" {path}")).unwrap_or_default();
    let flag = decision.flag;
    let flag = flag.map(|flag| format!(" ({flag})")).unwrap_or_default();
    let by = |what: &str, name: &Option<String>| {
        let name = name.as_ref();
        name.map(|name| format!(", {what} {name}"))
            .unwrap_or_default()
    };
    let actor = by("by", &decision.exe) + &by("in the script", &decision.script);
    let (on, profile, mode) = (decision.on, &decision.profile, decision.mode);
    writeln!(
        out,
        "{on}{path}{flag}{actor} under the profile {profile} ({mode})"
    )
}

fn candidates(
    decision: &ExplainedDecision,
    asked: &AskedAttempt,
    out: &mut impl Write,
) -> io::Result<()> {
    let on = asked.on.unwrap_or(decision.on);
    let what = match (asked.access, &asked.address) {
        (Some(access), _) => format!("{on} to {access}"),
        (None, Some(address)) => format!("{on} {address}"),
        (None, None) => on.to_owned(),
    };
    if asked.matching.is_empty() {
        return writeln!(out, "\n{what}: no rule matches");
    }
    let how = if decision.is_about_nobody(asked) {
        "who acts is not known (--exe), so of those that name actors and the first that names none the strongest decides"
    } else {
        "the first that matches decides"
    };
    writeln!(out, "\n{what}: {how}")?;
    for (number, matching) in (1..).zip(&asked.matching) {
        let ranked = &matching.candidate;
        let pattern = ranked.means();
        let line = format!(
            "{number:>4}  {:<5} {pattern:<44} {}",
            ranked.action, ranked.rule
        );
        writeln!(out, "{}", line.trim_end())?;
        if let Some(after) = &matching.after {
            writeln!(out, "      after {}: {}", number - 1, after.words)?;
        }
    }
    Ok(())
}

fn decides(rule: &RuleDefinition, out: &mut impl Write) -> io::Result<()> {
    let technique = rule.technique.as_ref();
    let technique = technique
        .map(|name| format!(", {name}"))
        .unwrap_or_default();
    let written = rule
        .written
        .map(|written| format!(" instead of {written}"))
        .unwrap_or_default();
    writeln!(
        out,
        "\nDecides: {}{written}, by the rule {} ({}{technique})",
        rule.action, rule.id, rule.severity
    )?;
    if rule.why.is_empty() {
        return Ok(());
    }
    writeln!(out, "  {}", rule.why)
}

/// Writes the row of the jail's tree at the path: what rules let through has to be there as well.
fn place(row: &TreeRow, out: &mut impl Write) -> io::Result<()> {
    let source = row.source.as_ref();
    let source = match source {
        Some(source) if row.step == "symlink" => format!(" -> {source}"),
        Some(source) if *source != row.path => format!(" from {source}"),
        _ => String::new(),
    };
    let why = row.why.as_ref().map(|why| format!(" — {why}"));
    writeln!(
        out,
        "\nIn the jail's tree: {} {}{source}{}",
        row.step,
        row.path,
        why.unwrap_or_default()
    )?;
    if row.step == "symlink" {
        writeln!(
            out,
            "  the kernel follows links before the rules are asked: ask for the path that it leads to"
        )?;
    }
    Ok(())
}
