use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::json;

/// Reports as golden tests keep them, without the head that insta writes.
fn golden() -> Vec<(String, String)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/snapshots");
    let files = std::fs::read_dir(folder).unwrap().flatten();
    let reports = files.filter_map(|file| {
        let text = std::fs::read_to_string(file.path()).unwrap();
        let body = text.splitn(3, "---\n").nth(2).unwrap().to_owned();
        let name = file.file_name().to_string_lossy().into_owned();
        name.contains("__golden__")
            .then(|| (name, format!("{}\n", body.trim_end())))
    });
    reports.collect()
}

fn written(report: &Report) -> String {
    String::from_utf8(json::page(report).unwrap()).unwrap()
}

fn clean() -> Value {
    let golden = golden();
    let clean = golden.iter().find(|(name, _)| name.contains("a_clean_run"));
    serde_json::from_str(&clean.unwrap().1).unwrap()
}

fn read(value: &Value) -> Result<Stored, Unreadable> {
    Stored::read(value.to_string().as_bytes())
}

fn refusal(value: &Value) -> String {
    read(value).expect_err("it is refused").to_string()
}

#[test]
fn golden_reports_are_read_and_written_again_byte_for_byte() {
    let golden = golden();
    assert!(golden.len() >= 5, "{}", golden.len());
    for (name, text) in golden {
        let stored =
            Stored::read(text.as_bytes()).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(written(&stored.report), text, "{name}");
        assert_eq!(stored.left_out(), None, "{name}");
    }
}

#[test]
fn what_is_wrong_is_told_with_its_place_and_the_fix() {
    let text = written(&read(&clean()).unwrap().report);
    let broken = text.replacen("\"read\"", "\"raed\"", 1);
    let told = Stored::read(broken.as_bytes()).unwrap_err().to_string();
    let line = 1 + text[..text.find("\"read\"").unwrap()].matches('\n').count();
    assert!(
        told.starts_with("file_operations[1].access[0]: unknown variant `raed`"),
        "{told}"
    );
    assert!(told.contains(&format!(" at line {line} column ")), "{told}");
    assert!(told.contains("fix: "), "{told}");
}

#[test]
fn words_of_the_policy_are_held_against_its_tables() {
    let mut value = clean();
    value["enforcement"][0]["layer"] = json!("moat");
    let told = refusal(&value);
    assert!(
        told.starts_with(
            "enforcement[0].layer: unknown word \"moat\", expected one of user-namespace,"
        ),
        "{told}"
    );
}

#[test]
fn another_schema_a_missing_key_and_a_wrong_type_are_named() {
    let mut value = clean();
    value["schema"] = json!("turnkey.report/v2");
    assert!(refusal(&value).starts_with("schema: unknown variant `turnkey.report/v2`"));
    let mut value = clean();
    value.as_object_mut().unwrap().remove("verdict");
    assert!(refusal(&value).contains("missing field `verdict`"));
    let mut value = clean();
    value["processes"][0]["pid"] = json!("two");
    assert!(refusal(&value).starts_with("processes[0].pid: invalid type"));
    for nothing in ["", "[]", "null", "{", "\u{feff}{}", "turnkey"] {
        assert!(Stored::read(nothing.as_bytes()).is_err(), "{nothing:?}");
    }
    let twice = written(&read(&clean()).unwrap().report).repeat(2);
    let told = Stored::read(twice.as_bytes()).unwrap_err().to_string();
    assert!(told.contains("trailing characters"), "{told}");
}

#[test]
fn keys_of_a_later_version_are_left_out_and_told() {
    let mut value = clean();
    let plain = written(&read(&value).unwrap().report);
    value["weather"] = json!({"wind": [1, 2]});
    value["usage"]["joules"] = json!(3);
    let stored = read(&value).unwrap();
    assert_eq!(written(&stored.report), plain);
    let told = stored.left_out().unwrap();
    assert!(
        told.contains("usage.joules") && told.contains("weather"),
        "{told}"
    );
    for number in 0..20 {
        value[format!("later{number}")] = json!(number);
    }
    let told = read(&value).unwrap().left_out().unwrap();
    assert!(told.ends_with(" and 17 more"), "{told}");
}

#[test]
fn a_text_that_steers_a_terminal_is_escaped_wherever_it_stands() {
    let mut value = clean();
    let evil = "\x1b[2J\u{202e}\nturnkey: clean\u{9b}1A";
    value["command"][0] = json!(evil);
    value["files_changed"][0]["path"] = json!(evil);
    value["processes"][0]["argv"][1] = json!(evil);
    value["events"]["seen"][evil] = json!(1);
    let stored = read(&value).unwrap();
    let report = &stored.report;
    let expected = "\\x1b[2J\\u{202e}\\nturnkey: clean\\u{9b}1A";
    assert_eq!(report.command[0], expected);
    assert_eq!(report.files_changed[0].path, expected);
    assert_eq!(report.processes[0].argv[1], expected);
    assert_eq!(report.events.seen[expected], 1);
    // The output of the program stays what it was.
    assert_eq!(
        report.stdout.as_ref().unwrap().text.as_deref(),
        Some("42\n")
    );
}

#[test]
fn what_the_parser_repeats_of_the_file_steers_nothing() {
    let mut value = clean();
    value["verdict"] = json!(format!("\x1b[2J{}", "x".repeat(1 << 20)));
    let told = refusal(&value);
    assert!(told.chars().all(is_printable), "{told:?}");
    assert!(told.len() < 1000, "{}", told.len());
    let mut value = clean();
    value["\x1b]0;owned\x07"] = json!(1);
    let told = read(&value).unwrap().left_out().unwrap();
    assert!(told.chars().all(is_printable), "{told:?}");
}

#[test]
fn depth_and_size_are_bounded() {
    let mut text = written(&read(&clean()).unwrap().report);
    text.truncate(text.trim_end().len() - 1);
    // Ten megabytes of brackets under a key that nobody knows, and under one that is known.
    for key in ["deep", "command"] {
        let deep = format!("{text},\"{key}\":{}", "[".repeat(10 << 20));
        assert!(Stored::read(deep.as_bytes()).is_err());
    }
    let nested = format!(
        "{text},\"deep\":{}1{}}}",
        "[".repeat(1 << 20),
        "]".repeat(1 << 20)
    );
    let stored = Stored::read(nested.as_bytes()).unwrap();
    assert!(stored.left_out().unwrap().contains("deep"));
    let large = vec![b' '; LARGEST + 1];
    assert_eq!(Stored::read(&large), Err(Unreadable::TooLarge));
}

#[test]
fn no_list_is_longer_than_any_run_makes_it() {
    let mut value = clean();
    let row = value["processes"][0].clone();
    value["processes"] = vec![row; MOST_ROWS + 1].into();
    let told = refusal(&value);
    assert!(told.starts_with("processes: 16385 rows, "), "{told}");
}

/// Any JSON, not too deep.
fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(any::<String>(), inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Every place in a report, as JSON pointers.
fn places(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    match value {
        Value::Array(list) => {
            (0..list.len()).for_each(|index| places(&list[index], &format!("{at}/{index}"), found))
        }
        Value::Object(map) => map
            .iter()
            .for_each(|(key, value)| places(value, &format!("{at}/{key}"), found)),
        _ => {}
    }
}

proptest! {
    #[test]
    fn a_report_with_anything_in_any_place_is_read_or_refused(
        which in any::<prop::sample::Index>(),
        instead in any_value(),
    ) {
        let mut value = clean();
        let mut found = Vec::new();
        places(&value, "", &mut found);
        *value.pointer_mut(which.get::<String>(&found)).unwrap() = instead;
        match read(&value) {
            Ok(stored) => {
                // What was read is written, and that is read as the same.
                let again = Stored::read(written(&stored.report).as_bytes()).unwrap();
                prop_assert_eq!(again.report, stored.report);
            }
            Err(error) => prop_assert!(error.to_string().chars().all(is_printable), "{error}"),
        }
    }

    #[test]
    fn bytes_that_are_no_report_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(Stored::read(&bytes).is_err());
    }
}
