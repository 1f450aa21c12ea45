//! `turnkey schema`: the JSON Schema of what turnkey reads and writes, for editors and programs.
//!
//! That of profiles is made from the tables that the reader itself uses, so that what an editor accepts
//! is what a run accepts, as far as JSON Schema can say it.

#[cfg(test)]
pub mod judge;
mod profile;

use anyhow::Context;
use serde_json::Value;

use crate::cli::{SchemaArguments, SchemaOf};
use crate::report::json;
use crate::run::Failure;
use crate::tell;

/// That of reports, which is written by hand.
pub const REPORT: &str = include_str!("../../docs/report.schema.json");

/// Prints one schema to standard output.
pub fn schema(arguments: &SchemaArguments) -> Result<u8, Failure> {
    let page = match arguments.of {
        SchemaOf::Profile => page(&profile::schema()),
        SchemaOf::Report => REPORT.as_bytes().to_vec(),
    };
    tell::page(&page).context("could not write the schema")?;
    Ok(0)
}

/// As it is printed, and kept in `docs/`.
fn page(schema: &Value) -> Vec<u8> {
    let mut page = Vec::new();
    // Writing to memory cannot fail.
    let _ = json::write(schema, &mut page);
    page
}

#[cfg(test)]
#[path = "schema/tests.rs"]
mod tests;
