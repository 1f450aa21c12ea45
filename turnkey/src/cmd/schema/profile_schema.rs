//! The schema of profiles, from the one table of keys.

use serde_json::{Map, Value, json};
use turnkey_policy::keys::{ProfileKey, ValueForm};
use turnkey_policy::keys_in_table;
use turnkey_policy::{SCHEMA, syscalls};

/// The forms of sizes, shares and durations: `turnkey_policy::quantity`.
const SIZE: &str = "^[0-9]+[KMGT]?$";
const PERCENT: &str = "^[0-9]+%$";
const PORTS: &str = "^[0-9]+(-[0-9]+)?$";
const DURATION: &str = "^[0-9]+(ms|s|m|h)$";

/// The JSON Schema, draft 2020-12, of a profile.
pub fn schema() -> Value {
    let mut schema = Map::new();
    let draft = "https://json-schema.org/draft/2020-12/schema";
    schema.insert("$schema".to_owned(), draft.into());
    schema.insert("title".to_owned(), SCHEMA.into());
    schema.insert(
        "description".to_owned(),
        "A profile of turnkey: what a jailed program finds, may use and must not try.".into(),
    );
    schema.extend(table(""));
    schema.into()
}

/// A table with its keys. What is not listed is an error, to turnkey as to an editor.
fn table(name: &str) -> Map<String, Value> {
    let properties: Map<String, Value> = keys_in_table(name)
        .map(|key| (key.name.to_owned(), property(key)))
        .collect();
    let required: Vec<&str> = keys_in_table(name)
        .filter(|key| key.is_required())
        .map(|key| key.name)
        .collect();
    let mut table = Map::new();
    table.insert("type".to_owned(), "object".into());
    table.insert("additionalProperties".to_owned(), false.into());
    table.insert("properties".to_owned(), properties.into());
    table.insert("required".to_owned(), required.into());
    table
}

/// A key: what is written after it, and what it means.
fn property(key: &ProfileKey) -> Value {
    let mut property = written(key);
    let default = match key.default {
        "" => String::new(),
        default => format!(" Default: {default}."),
    };
    if let Value::Object(property) = &mut property {
        let about = format!("{}.{default}", key.about);
        property.insert("description".to_owned(), about.into());
    }
    property
}

fn written(key: &ProfileKey) -> Value {
    let path = key.path();
    match key.form {
        ValueForm::Text if path == "schema" => json!({ "const": SCHEMA }),
        ValueForm::Text => json!({ "type": "string" }),
        ValueForm::Texts if path == "syscalls.allow" => {
            one_or_list(&json!({ "enum": allowable() }))
        }
        ValueForm::Texts => one_or_list(&json!({ "type": "string" })),
        ValueForm::TextTable => {
            json!({ "type": "object", "additionalProperties": { "type": "string" } })
        }
        ValueForm::Size => json!({ "type": "string", "pattern": SIZE }),
        ValueForm::Percent => json!({ "type": "string", "pattern": PERCENT }),
        ValueForm::Duration => json!({ "type": "string", "pattern": DURATION }),
        ValueForm::Count => json!({ "type": "integer", "minimum": 0 }),
        ValueForm::Ports => one_or_list(&json!({ "anyOf": [
            { "type": "integer", "minimum": 1, "maximum": u16::MAX },
            { "type": "string", "pattern": PORTS },
        ] })),
        ValueForm::Truth => json!({ "type": "boolean" }),
        ValueForm::Word(words) => json!({ "enum": words() }),
        ValueForm::Words(words) => one_or_list(&json!({ "enum": words() })),
        ValueForm::Entries(_) | ValueForm::Tables => {
            json!({ "type": "array", "items": table(&path) })
        }
        ValueForm::Table => table(&path).into(),
    }
}

/// A list, or a single value without brackets.
fn one_or_list(one: &Value) -> Value {
    json!({ "anyOf": [one, { "type": "array", "items": one }] })
}

/// Groups first: they are what people mean to write.
fn allowable() -> Vec<&'static str> {
    let groups = syscalls::GROUPS.iter().map(|group| group.name);
    let unions = syscalls::UNIONS.iter().map(|union| union.name);
    let mut names: Vec<&str> = syscalls::GROUPS
        .iter()
        .flat_map(|group| group.syscalls.iter().copied())
        .collect();
    names.sort_unstable();
    groups.chain(unions).chain(names).collect()
}
