//! The problems found, for people.

use std::io::{self, Write};

use miette::{Diagnostic, MietteHandlerOpts, ReportHandler};
use turnkey_policy::LoadError;
use turnkey_policy::lint::CheckedProfile;

use turnkey_report::escape;

/// Writes every finding and a line for each profile. Fails only when `out` does.
pub fn write(
    looked_at: &[(&str, Result<CheckedProfile, LoadError>)],
    out: &mut impl Write,
) -> io::Result<()> {
    for (name, outcome) in looked_at {
        let name = &escape(name.as_bytes());
        match outcome {
            Ok(checked) => findings(name, checked, out)?,
            Err(error) => {
                shown(error, out)?;
                writeln!(out, "{name}: cannot be used")?;
            }
        }
    }
    Ok(())
}

fn findings(name: &str, checked: &CheckedProfile, out: &mut impl Write) -> io::Result<()> {
    for finding in &checked.findings {
        shown(finding, out)?;
    }
    match checked.findings.len() {
        0 => writeln!(out, "{name}: nothing found"),
        1 => writeln!(out, "{name}: 1 finding"),
        count => writeln!(out, "{name}: {count} findings"),
    }
}

fn shown(diagnostic: &dyn Diagnostic, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "{:?}", DrawnDiagnostic(diagnostic))
}

/// As the errors of other commands are drawn, with colours where there is a terminal.
struct DrawnDiagnostic<'d>(&'d dyn Diagnostic);

impl std::fmt::Debug for DrawnDiagnostic<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        MietteHandlerOpts::new().build().debug(self.0, formatter)
    }
}

#[cfg(test)]
#[path = "text/property.rs"]
mod property;
