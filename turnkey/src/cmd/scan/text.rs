//! The findings for people.

use std::io::{self, Write};

use turnkey_report::formats::attack;
use turnkey_report::visible;
use turnkey_scan::Finding;

use super::plugin::{self, PluginWord};
use super::{Scanned, ScannedScript};

/// Imports that are named; the rest is counted.
const IMPORTS: usize = 12;

/// The page: gravest scripts first, those without findings in one line.
pub(super) fn write(scanned: &Scanned, out: &mut impl Write, colour: bool) -> io::Result<()> {
    let mut scripts: Vec<&ScannedScript> = scanned.scripts.iter().collect();
    scripts.sort_by_key(|script| std::cmp::Reverse(script.score()));
    let is_one = scripts.len() == 1;
    let (found, quiet): (Vec<_>, Vec<_>) = scripts
        .into_iter()
        .partition(|script| is_one || script.score() > 0 || !script.others.is_empty());
    for script in &found {
        write_script(script, out, colour)?;
    }
    if !quiet.is_empty() {
        let other = if found.is_empty() { "" } else { "other " };
        let scripts = if quiet.len() == 1 {
            "script"
        } else {
            "scripts"
        };
        let many = quiet.len();
        writeln!(out, "nothing was found in {many} {other}{scripts}")?;
    }
    if found.is_empty() && quiet.is_empty() {
        writeln!(out, "no Python or shell script is there")?;
    }
    for (what, count) in &scanned.left_out {
        writeln!(out, "not looked at: {what}: {count}")?;
    }
    Ok(())
}

/// One script, with what was found in it.
pub fn write_script(script: &ScannedScript, out: &mut impl Write, colour: bool) -> io::Result<()> {
    let scan = &script.scan;
    let language = scan.language.map_or("", turnkey_scan::Language::name);
    let score = painted(&format!("score {} of 100", scan.score), scan.score, colour);
    writeln!(out, "{} ({language}): {score}", script.path)?;
    for finding in &scan.findings {
        write_finding(finding, out, colour)?;
    }
    if scan.findings.is_empty() {
        writeln!(
            out,
            "  nothing was found; that is no proof that there is nothing"
        )?;
    }
    if scan.left_out > 0 {
        writeln!(out, "  and {} more of the same kinds", scan.left_out)?;
    }
    if !scan.imports.is_empty() {
        let names: Vec<String> = scan
            .imports
            .iter()
            .take(IMPORTS)
            .map(|import| visible(&import.module))
            .collect();
        let more = scan.imports.len().saturating_sub(IMPORTS);
        let more = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        writeln!(out, "  imports {}{more}", names.join(", "))?;
    }
    for path in &scan.needs.refused {
        writeln!(out, "  no profile gives it {}", visible(path))?;
    }
    for word in &script.others {
        write_word(word, out)?;
    }
    if let Some(command) = &script.command {
        writeln!(out, "  to run it in a jail: {command}")?;
    }
    Ok(())
}

/// The word of another scanner.
fn write_word(word: &PluginWord, out: &mut impl Write) -> io::Result<()> {
    let by = visible(&plugin::shown(&word.by));
    if let Some(why) = &word.failed {
        return writeln!(out, "  {by} gave no answer: {}", visible(why));
    }
    writeln!(out, "  {by} says: score {} of 100", word.score)?;
    for finding in &word.findings {
        let place = format!("{}:{}", finding.line, finding.column.unwrap_or(1));
        let (says, rule) = (visible(&finding.says), visible(&finding.rule));
        writeln!(out, "    {place:<8} {says} [{rule}]")?;
    }
    Ok(())
}

fn write_finding(finding: &Finding, out: &mut impl Write, colour: bool) -> io::Result<()> {
    let place = format!("{}:{}", finding.line, finding.column);
    let says = visible(&finding.says);
    let rule = painted(finding.rule, finding.weight, colour);
    write!(out, "  {place:<8} {says} [{rule}")?;
    if let Some(technique) = finding.technique {
        write!(out, ", {technique} {}", attack::name(technique))?;
    }
    writeln!(out, "]")
}

fn painted(words: &str, weight: u32, colour: bool) -> String {
    let code = match weight {
        _ if !colour => return words.to_owned(),
        0..30 => return words.to_owned(),
        30..60 => 33,
        _ => 31,
    };
    format!("\x1b[{code}m{words}\x1b[0m")
}
