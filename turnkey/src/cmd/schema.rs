//! `turnkey schema`: the JSON Schema of what turnkey reads and writes, for editors and programs.
//!
//! That of profiles is made from the tables that the reader itself uses, so that what an editor accepts
//! is what a run accepts, as far as JSON Schema can say it.

mod profile_schema;

use anyhow::Context;
use serde_json::Value;

use crate::cli::{SchemaArguments, SchemaOf};
use crate::failure::Failure;
use crate::output;
use turnkey_report::json;

/// The schema of what a command of `scan --with` answers, as `docs/` holds it.
pub const SCAN_FINDINGS: &str = include_str!("../../../docs/scan-findings.schema.json");

/// The schema of results of the gate, made from their model by a test.
const GATE: &str = include_str!("../../../docs/gate.schema.json");
/// The schema of pages of audit, made from their model by a test.
const AUDIT: &str = include_str!("../../../docs/audit.schema.json");

/// Prints one schema to standard output.
pub fn schema(arguments: &SchemaArguments) -> Result<u8, Failure> {
    let page = match arguments.of {
        SchemaOf::Profile => page(&profile_schema::schema()),
        SchemaOf::Report => turnkey_report::SCHEMA.as_bytes().to_vec(),
        SchemaOf::ScanFindings => SCAN_FINDINGS.as_bytes().to_vec(),
        SchemaOf::Gate => GATE.as_bytes().to_vec(),
        SchemaOf::Audit => AUDIT.as_bytes().to_vec(),
    };
    output::page(&page).context("could not write the schema")?;
    Ok(0)
}

/// As it is printed, and kept in `docs/`.
fn page(schema: &Value) -> Vec<u8> {
    // A schema is JSON already.
    json::page(schema).unwrap_or_default()
}

#[cfg(test)]
#[path = "schema/tests.rs"]
mod tests;
