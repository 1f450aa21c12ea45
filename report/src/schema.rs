//! Reports against `docs/report.schema.json`.

use serde_json::{Value, json};

use crate::schema_validator::SchemaValidator;

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
