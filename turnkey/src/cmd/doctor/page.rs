//! Findings for people and for programs.

use std::io::{self, Write};

use serde::Serialize;

use super::facts::HostFacts;
use super::findings::{CheckFinding, CheckState, whole};

/// The version of the shape.
const SCHEMA: &str = "turnkey.doctor/v1";

#[derive(Serialize)]
struct DoctorPage<'a> {
    schema: &'static str,
    kernel: &'a str,
    user: u32,
    /// The default profile can be enforced whole by this caller.
    whole: bool,
    findings: &'a [CheckFinding],
}

/// One object. Fails only when `out` does.
pub fn json(facts: &HostFacts, findings: &[CheckFinding], out: &mut impl Write) -> io::Result<()> {
    let page = DoctorPage {
        schema: SCHEMA,
        kernel: &facts.kernel,
        user: facts.user,
        whole: whole(findings),
        findings,
    };
    turnkey_report::json::write(&page, out)
}

/// A page. Fails only when `out` does.
pub fn text(facts: &HostFacts, findings: &[CheckFinding], out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "Linux {}, for user {}", facts.kernel, facts.user)?;
    for finding in findings {
        let (state, check) = (finding.state.name(), finding.check);
        writeln!(out, "  {state:<8} {check:<18} {}", shown(&finding.found))?;
        if finding.state == CheckState::Ok {
            continue;
        }
        line("needed for", finding.needed_for, out)?;
        line("looked at", finding.source, out)?;
        if let Some(fix) = &finding.fix {
            line("fix", fix, out)?;
        }
    }
    let conclusion = if whole(findings) {
        "The default profile can be enforced whole by this caller."
    } else {
        "The default profile cannot be enforced whole by this caller."
    };
    writeln!(out, "{conclusion}")
}

fn line(name: &str, value: &str, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "{:30}{name}: {}", "", shown(value))
}

/// Errors have several lines and may name paths: each line stands below the first, escaped.
fn shown(text: &str) -> String {
    let lines = text
        .lines()
        .map(|line| turnkey_report::escape(line.as_bytes()));
    lines.collect::<Vec<_>>().join(&format!("\n{:30}", ""))
}
