//! Reports against `docs/report.schema.json`.
//!
//! The checker knows the keywords that the schema uses and refuses every other, so nothing in
//! the schema is silently left unchecked.

use serde_json::Value;

const SCHEMA: &str = include_str!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../docs/report.schema.json"
));

/// Keywords that say nothing about a value.
const REMARKS: &[&str] = &["$schema", "$id", "$defs", "title", "description"];

fn schema() -> Value {
    serde_json::from_str(SCHEMA).expect("the schema is JSON")
}

/// Panics with everything that is wrong.
pub fn assert_valid(report: &Value) {
    let root = schema();
    let mut wrong = Vec::new();
    check(&root, &root, report, "report", &mut wrong);
    assert!(wrong.is_empty(), "{wrong:#?}");
}

fn check(root: &Value, schema: &Value, value: &Value, at: &str, wrong: &mut Vec<String>) {
    for (keyword, rule) in schema.as_object().expect("a schema is an object") {
        let holds = match keyword.as_str() {
            "$ref" => {
                check(root, referred(root, rule), value, at, wrong);
                true
            }
            "type" => has_type(rule, value),
            "enum" => rule.as_array().is_some_and(|words| words.contains(value)),
            "const" => rule == value,
            "minimum" => value
                .as_f64()
                .is_none_or(|number| Some(number) >= rule.as_f64()),
            "maximum" => value
                .as_f64()
                .is_none_or(|number| Some(number) <= rule.as_f64()),
            "pattern" => has_pattern(rule, value),
            "required" => has_keys(rule, value, at, wrong),
            "properties" => {
                check_properties(root, schema, value, at, wrong);
                true
            }
            "items" => {
                for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                    check(root, rule, item, &format!("{at}[{index}]"), wrong);
                }
                true
            }
            // Looked at together with `properties`.
            "additionalProperties" => true,
            remark if REMARKS.contains(&remark) => true,
            unknown => panic!("the checker does not know {unknown}"),
        };
        if !holds {
            wrong.push(format!("{at}: {value} is not {keyword} {rule}"));
        }
    }
}

fn referred<'schema>(root: &'schema Value, rule: &Value) -> &'schema Value {
    let pointer = rule
        .as_str()
        .and_then(|rule| rule.strip_prefix('#'))
        .expect("a reference into this file");
    root.pointer(pointer).expect("a definition that exists")
}

fn has_type(rule: &Value, value: &Value) -> bool {
    let is = |name: &Value| match name.as_str() {
        Some("integer") => value.is_u64() || value.is_i64(),
        Some("number") => value.is_number(),
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("array") => value.is_array(),
        Some("object") => value.is_object(),
        Some("null") => value.is_null(),
        _ => panic!("the checker does not know the type {name}"),
    };
    rule.as_array()
        .map_or_else(|| is(rule), |names| names.iter().any(is))
}

/// The two patterns of the schema, by hand.
fn has_pattern(rule: &Value, value: &Value) -> bool {
    let Some(text) = value.as_str() else {
        return true;
    };
    match rule.as_str() {
        Some("^[0-9a-f]{64}$") => {
            text.len() == 64 && text.bytes().all(|byte| b"0123456789abcdef".contains(&byte))
        }
        Some("^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{6}Z$") => {
            let shape: String = text
                .chars()
                .map(|c| if c.is_ascii_digit() { '0' } else { c })
                .collect();
            shape == "0000-00-00T00:00:00.000000Z"
        }
        _ => panic!("the checker does not know the pattern {rule}"),
    }
}

fn has_keys(rule: &Value, value: &Value, at: &str, wrong: &mut Vec<String>) -> bool {
    for key in rule
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
    {
        if value
            .as_object()
            .is_some_and(|object| !object.contains_key(key))
        {
            wrong.push(format!("{at}: {key} is missing"));
        }
    }
    true
}

fn check_properties(
    root: &Value,
    schema: &Value,
    value: &Value,
    at: &str,
    wrong: &mut Vec<String>,
) {
    let properties = &schema["properties"];
    for (key, value) in value.as_object().into_iter().flatten() {
        let at = format!("{at}.{key}");
        match (properties.get(key), &schema["additionalProperties"]) {
            (Some(schema), _) => check(root, schema, value, &at, wrong),
            (None, Value::Bool(false)) => wrong.push(format!("{at} is not in the schema")),
            (None, Value::Null) => {}
            (None, schema) => check(root, schema, value, &at, wrong),
        }
    }
}

#[test]
fn what_is_no_report_is_found_out() {
    let root = schema();
    let wrong = |value: Value| {
        let mut wrong = Vec::new();
        check(&root, &root, &value, "report", &mut wrong);
        wrong
    };
    let missing = wrong(serde_json::json!({}));
    assert!(
        missing.contains(&"report: verdict is missing".to_owned()),
        "{missing:?}"
    );
    let unknown = wrong(serde_json::json!({"verdict": "fine", "colour": 1, "risk_score": 101}));
    assert!(
        unknown
            .iter()
            .any(|line| line.starts_with("report.verdict: ")),
        "{unknown:?}"
    );
    assert!(
        unknown.contains(&"report.colour is not in the schema".to_owned()),
        "{unknown:?}"
    );
    assert!(
        unknown.iter().any(|line| line.contains("maximum")),
        "{unknown:?}"
    );
}
