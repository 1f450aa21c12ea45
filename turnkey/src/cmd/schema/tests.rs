//! The schema says what the reader does, and `docs/` holds what the schema says.

use serde_json::{Value, json};
use turnkey_policy::KEYS;
use turnkey_policy::keys::ValueForm;
use turnkey_policy::{Overrides, SHIPPED, load};

use super::{page, profile_schema};
use boon::{Compiler, SchemaIndex, Schemas};

const KEPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/profile.schema.json");

/// As a profile has it that says something about everything.
const WHOLE: &str = include_str!("whole.toml");

#[test]
fn the_kept_schema_is_up_to_date() {
    let made = String::from_utf8(page(&profile_schema::schema())).expect("JSON is text");
    if std::env::var_os("TURNKEY_WRITE_DOCS").is_some() {
        std::fs::write(KEPT, &made).expect("it can be written");
    }
    let kept = std::fs::read_to_string(KEPT).unwrap_or_default();
    assert!(
        made == kept,
        "docs/profile.schema.json is out of date; run this test with TURNKEY_WRITE_DOCS=1"
    );
}

/// Holds a schema in `docs/` against the model that it is made from.
#[track_caller]
fn is_that_of<Model: schemars::JsonSchema>(name: &str, kept: &str) {
    let settings = schemars::generate::SchemaSettings::draft2020_12().for_serialize();
    let schema = settings.into_generator().into_root_schema_for::<Model>();
    let made = String::from_utf8(page(schema.as_value())).expect("JSON is text");
    if std::env::var_os("TURNKEY_WRITE_DOCS").is_some() {
        let path = format!("{}/../docs/{name}.schema.json", env!("CARGO_MANIFEST_DIR"));
        std::fs::write(path, &made).expect("it can be written");
    }
    assert!(
        made == kept,
        "docs/{name}.schema.json is out of date; run this test with TURNKEY_WRITE_DOCS=1, and build again"
    );
}

#[test]
fn the_kept_schemas_of_gate_and_audit_are_those_of_their_models() {
    is_that_of::<crate::cmd::gate::result::GateResult>("gate", super::GATE);
    is_that_of::<crate::cmd::audit::AuditPage>("audit", super::AUDIT);
}

/// True when a schema accepts this value.
fn accepts(schema: &str, value: &Value) -> bool {
    let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
    let place = "turnkey:/schema.json";
    let schema = serde_json::from_str(schema).expect("JSON");
    compiler.add_resource(place, schema).unwrap();
    let index = compiler.compile(place, &mut schemas).unwrap();
    schemas.validate(value, index).is_ok()
}

#[test]
fn the_schemas_of_gate_and_audit_accept_what_is_written_and_nothing_else() {
    let finding = json!({"id": "x", "severity": "high", "what": "y", "line": 3});
    let gate = json!({
        "schema": "turnkey.gate/v1", "turnkey": "0.1.0", "finished_at": "2026-01-02T03:04:05Z", "verdict": "fail", "base": "a",
        "head": "b", "config": {"from": "a:turnkey.toml", "sha256": "0"}, "commits": 1, "model_commits": [], "files": ["x.py"],
        "checks": [{"name": "scan", "verdict": "skipped", "findings": [finding]}], "notes": [],
    });
    let probe = json!({"criterion": "outer-network", "does": "sends", "outcome": "open", "fact": "it came"});
    let audit = json!({
        "schema": "turnkey.audit/v1", "sandboxes": [{"sandbox": "env -i", "runs": 1, "findings": {"send": probe}}],
    });
    for (schema, page) in [(super::GATE, gate), (super::AUDIT, audit)] {
        assert!(accepts(schema, &page), "{page:#}");
        for wrong in ["schema", "more"] {
            let mut other = page.clone();
            other[wrong] = json!("turnkey.other/v1");
            assert!(!accepts(schema, &other), "{other:#}");
        }
    }
}

/// The schema of profiles, ready to be asked.
struct ProfileValidator {
    schemas: Schemas,
    index: SchemaIndex,
}

impl ProfileValidator {
    fn accepts(&self, profile: &Value) -> bool {
        self.schemas.validate(profile, self.index).is_ok()
    }
}

fn validator() -> ProfileValidator {
    let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
    let place = "turnkey:/profile.schema.json";
    compiler
        .add_resource(place, profile_schema::schema())
        .unwrap();
    let index = compiler.compile(place, &mut schemas).unwrap();
    ProfileValidator { schemas, index }
}

fn parsed(text: &str) -> Value {
    toml::from_str(text).expect("TOML")
}

/// The error of a profile in the reader's eyes; empty when it can be used.
fn read(profile: &Value) -> String {
    let text = toml::to_string(profile).expect("a profile can be written");
    let files = |path: &str| match path {
        "./whole.toml" => Ok(text.clone()),
        _ => Err("no such file".to_owned()),
    };
    match load("./whole.toml", &files, &Overrides::default()) {
        Ok(_) => String::new(),
        Err(error) => error
            .problems()
            .iter()
            .map(|problem| format!("{}\n", problem.message()))
            .collect(),
    }
}

#[test]
fn shipped_profiles_are_valid() {
    let validator = validator();
    for (name, text) in SHIPPED {
        assert!(validator.accepts(&parsed(text)), "{name}");
    }
}

/// The tables of a name in the profile: one for a section, some for entries of a list.
fn tables<'p>(profile: &'p mut Value, name: &str) -> Vec<&'p mut serde_json::Map<String, Value>> {
    let steps = name.split('.').filter(|step| !step.is_empty());
    let mut found = vec![profile];
    for step in steps {
        found = found
            .into_iter()
            .filter_map(|value| value.get_mut(step))
            .flat_map(|value| match value {
                Value::Array(values) => values.iter_mut().collect(),
                other => vec![other],
            })
            .collect();
    }
    found.into_iter().filter_map(Value::as_object_mut).collect()
}

#[test]
fn the_whole_profile_says_something_about_every_key() {
    let mut whole = parsed(WHOLE);
    assert_eq!(read(&whole), "");
    assert!(validator().accepts(&whole));
    for key in KEYS {
        let said = tables(&mut whole, key.table)
            .iter()
            .any(|table| table.contains_key(key.name));
        assert!(said, "whole.toml says nothing about {}", key.path());
    }
}

/// Reader and schema have to agree about a change of one key in every table that has it.
fn assert_agree(
    validator: &ProfileValidator,
    key: &turnkey_policy::keys::ProfileKey,
    value: Option<&Value>,
) -> bool {
    let mut profile = parsed(WHOLE);
    for table in tables(&mut profile, key.table) {
        match value {
            Some(value) => drop(table.insert(key.name.to_owned(), value.clone())),
            None => drop(table.remove(key.name)),
        }
    }
    let (problems, accepted) = (read(&profile), validator.accepts(&profile));
    assert_eq!(
        problems.is_empty(),
        accepted,
        "{} = {value:?}: {problems}",
        key.path()
    );
    accepted
}

#[test]
fn a_missing_key_is_wrong_to_both_or_to_neither() {
    let validator = validator();
    let optional = KEYS
        .iter()
        .filter(|key| assert_agree(&validator, key, None))
        .count();
    assert!(optional > 0 && optional < KEYS.len(), "{optional}");
}

#[test]
fn a_value_of_another_type_is_wrong_to_both() {
    let validator = validator();
    let values = [json!(1.5), json!([[1]]), json!({ "no": { "such": "key" } })];
    for key in KEYS {
        for value in &values {
            assert!(
                !assert_agree(&validator, key, Some(value)),
                "{}",
                key.path()
            );
        }
    }
}

#[test]
fn a_word_that_is_not_known_is_wrong_to_both() {
    let validator = validator();
    let words = KEYS.iter().filter(|key| {
        let quantity = matches!(
            key.form,
            ValueForm::Size | ValueForm::Percent | ValueForm::Duration
        );
        quantity || matches!(key.form, ValueForm::Word(_) | ValueForm::Words(_))
    });
    let also = KEYS
        .iter()
        .filter(|key| ["schema", "syscalls.allow"].contains(&key.path().as_str()));
    for key in words.chain(also) {
        assert!(
            !assert_agree(&validator, key, Some(&json!("wrong"))),
            "{}",
            key.path()
        );
    }
}

#[test]
fn a_key_that_is_not_known_is_wrong_to_both() {
    let validator = validator();
    let mut names: Vec<&str> = KEYS.iter().map(|key| key.table).collect();
    names.dedup();
    for name in names {
        let mut profile = parsed(WHOLE);
        for table in tables(&mut profile, name) {
            table.insert("whatever".to_owned(), json!("x"));
        }
        assert!(!validator.accepts(&profile), "{name}");
        assert!(
            read(&profile).contains("there is no key `whatever`"),
            "{name}"
        );
    }
}
