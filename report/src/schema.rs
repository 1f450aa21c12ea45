//! The schema of reports, derived from their model, and reports held against it.

use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

use crate::model::Report;
use crate::schema_validator::SchemaValidator;

const KEPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/report.schema.json");

#[test]
fn the_kept_schema_is_that_of_the_model() {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let schema = settings.into_generator().into_root_schema_for::<Report>();
    let made = String::from_utf8(crate::json::page(&schema).unwrap()).unwrap();
    if std::env::var_os("TURNKEY_WRITE_DOCS").is_some() {
        std::fs::write(KEPT, &made).unwrap();
    }
    assert!(
        made == crate::SCHEMA,
        "docs/report.schema.json is out of date; run this test with TURNKEY_WRITE_DOCS=1, and build again"
    );
}

/// Panics with everything that is wrong.
pub fn assert_valid(report: &Value) {
    let wrong = SchemaValidator::of_reports().wrong(report);
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn what_is_no_report_is_found_out() {
    let validator = SchemaValidator::of_reports();
    let missing = validator.wrong(&json!({}));
    assert!(missing.contains("'verdict'"), "{missing}");
    let unknown = validator.wrong(&json!({"verdict": "fine", "colour": 1, "risk_score": 101}));
    for part in ["/verdict", "'colour'", "100"] {
        assert!(unknown.contains(part), "{part}: {unknown}");
    }
}
