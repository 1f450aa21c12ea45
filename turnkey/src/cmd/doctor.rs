//! `turnkey doctor`: what this host can enforce for this caller, and the fix for what it cannot.
//!
//! ```text
//! this host ─gather→ Facts ─findings→ [Finding] ─page→ text or JSON, exit status
//! ```
//!
//! Facts are tried out where that leaves nothing behind, and read where it would. Between facts and
//! page everything is pure.

mod facts;
mod findings;
mod gather;
mod page;
mod preemption;

use anyhow::Context;

use crate::cli::DoctorArguments;
use crate::failure::Failure;
use crate::output;

pub use findings::{CheckFinding, CheckState};

/// The exit status when the default profile cannot be enforced whole by this caller.
const NOT_WHOLE: u8 = 1;

/// The checks of this host, for this caller.
pub fn look() -> anyhow::Result<Vec<CheckFinding>> {
    Ok(findings::findings(&gather::gather()?))
}

/// Looks at the host and prints what there is to say.
pub fn doctor(arguments: &DoctorArguments) -> Result<u8, Failure> {
    let facts = gather::gather()?;
    let findings = findings::findings(&facts);
    let mut page = Vec::new();
    if arguments.json {
        page::json(&facts, &findings, &mut page)?;
    } else {
        page::text(&facts, &findings, &mut page)?;
    }
    output::page(&page).context("could not write what was found")?;
    Ok(if findings::whole(&findings) {
        0
    } else {
        NOT_WHOLE
    })
}

#[cfg(test)]
#[path = "doctor/tests.rs"]
mod tests;
