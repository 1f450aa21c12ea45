//! `docs/profile.md` says what the code says.
//!
//! The tables between the markers are made here. `TURNKEY_WRITE_DOCS=1` writes them anew.

use std::fmt::Write as _;

use turnkey_policy::lint::Lint;
use turnkey_policy::{AttemptKind, Layer, listed, syscalls};
use turnkey_policy::{KEYS, keys_in_table};

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/profile.md");

#[test]
fn the_reference_is_up_to_date() {
    let text = std::fs::read_to_string(PATH).expect("the reference exists");
    let parts = [
        ("shipped", shipped_profiles()),
        ("keys", every_key()),
        ("attempts", attempts()),
        ("lints", lints()),
        ("layers", layers()),
        ("groups", groups()),
        ("never", never_allowed()),
        ("arguments", arguments()),
    ];
    let made = parts.iter().fold(text.clone(), |text, (name, part)| {
        with_part(&text, name, part)
    });
    if std::env::var_os("TURNKEY_WRITE_DOCS").is_some() {
        std::fs::write(PATH, &made).expect("the reference can be written");
    }
    assert!(
        made == text,
        "docs/profile.md is out of date; run this test with TURNKEY_WRITE_DOCS=1"
    );
}

/// The text with the part between two markers replaced.
fn with_part(text: &str, name: &str, part: &str) -> String {
    let (begin, end) = (
        format!("<!-- {name} -->\n"),
        format!("<!-- end of {name} -->\n"),
    );
    let (before, rest) = text
        .split_once(&begin)
        .unwrap_or_else(|| panic!("{begin} is missing"));
    let (_, after) = rest
        .split_once(&end)
        .unwrap_or_else(|| panic!("{end} is missing"));
    format!("{before}{begin}{part}{end}{after}")
}

fn shipped_profiles() -> String {
    let mut table = String::from("| name | builds on | for |\n|---|---|---|\n");
    for profile in listed() {
        let name = |base: &String| format!("`{base}`");
        let extends: Vec<_> = profile.extends.iter().map(name).collect();
        let (extends, about) = (extends.join(", "), profile.description);
        let _ = writeln!(table, "| `{}` | {extends} | {about} |", profile.name);
    }
    table
}

fn every_key() -> String {
    let mut tables: Vec<&str> = KEYS.iter().map(|key| key.table).collect();
    tables.dedup();
    tables.into_iter().map(keys_of).collect()
}

fn keys_of(table: &str) -> String {
    let title = match table {
        "" => "At the top".to_owned(),
        "rule" | "accept" => format!("`[[{table}]]`"),
        entry @ ("filesystem.read" | "filesystem.write" | "filesystem.scratch"
        | "network.allow") => {
            format!("Entries of `{entry}`")
        }
        table => format!("`[{table}]`"),
    };
    let mut text =
        format!("### {title}\n\n| key | written as | default | meaning |\n|---|---|---|---|\n");
    for key in keys_in_table(table) {
        let default = if key.default.is_empty() {
            "–"
        } else {
            key.default
        };
        let _ = writeln!(
            text,
            "| `{}` | {} | {default} | {} |",
            key.name,
            key.form.describe(),
            // A cell of a table is one line.
            key.about.replace('\n', "<br>")
        );
    }
    text.push('\n');
    text
}

/// From the model's own words, which are its documentation.
fn attempts() -> String {
    let model = include_str!("../src/model.rs");
    let (_, body) = model
        .split_once("pub enum AttemptKind {")
        .expect("the enum exists");
    let (body, _) = body.split_once("\n}").expect("it ends");
    let mut about = String::new();
    let mut names = AttemptKind::ALL.iter();
    let mut table = String::from("| `on` | what |\n|---|---|\n");
    for line in body.lines().map(str::trim).filter(|line| !line.is_empty()) {
        match line.strip_prefix("/// ") {
            Some(more) => about = format!("{about} {more}"),
            None => {
                let name = names.next().expect("one name for each variant");
                let _ = writeln!(table, "| `{name}` |{} |", std::mem::take(&mut about));
            }
        }
    }
    table
}

fn layers() -> String {
    let names: Vec<String> = Layer::ALL
        .iter()
        .map(|layer| format!("`{layer}`"))
        .collect();
    format!("{}\n", names.join(", "))
}

fn lints() -> String {
    let mut table = String::from("| finding | what |\n|---|---|\n");
    for lint in Lint::ALL {
        let _ = writeln!(table, "| `{lint}` | {} |", lint.about());
    }
    table
}

fn groups() -> String {
    let mut table = String::from("| group | for | syscalls |\n|---|---|---|\n");
    for group in syscalls::GROUPS {
        let _ = writeln!(
            table,
            "| `{}` | {} | {} |",
            group.name,
            group.about,
            group.syscalls.join(" ")
        );
    }
    for union in syscalls::UNIONS {
        let _ = writeln!(
            table,
            "| `{}` | {} | those of {} |",
            union.name,
            union.about,
            union.groups.join(" and ")
        );
    }
    table
}

fn arguments() -> String {
    let mut table = String::from("| call | what is refused | with | why |\n|---|---|---|---|\n");
    for refusal in syscalls::arguments::REFUSALS {
        let only = match refusal.only {
            syscalls::arguments::RefusalScope::Every => "",
            syscalls::arguments::RefusalScope::WithoutSetId => {
                ", when `filesystem.write` names anything"
            }
            syscalls::arguments::RefusalScope::HostNetwork => ", in the network mode `host`",
        };
        let _ = writeln!(
            table,
            "| {} | {}{only} | `{}` | {} |",
            refusal.syscalls.join(" "),
            refusal.what,
            refusal.answer.name(),
            refusal.why
        );
    }
    table
}

fn never_allowed() -> String {
    let mut table = String::from("| calls | answered with | why |\n|---|---|---|\n");
    for never in syscalls::NEVER {
        let absent = |name: &&str| syscalls::ABSENT.contains(name);
        let answer = match never.syscalls.iter().filter(|name| absent(name)).count() {
            0 => "EPERM",
            count if count == never.syscalls.len() => "ENOSYS",
            _ => panic!(
                "some of {:?} are absent, and others are not",
                never.syscalls
            ),
        };
        let calls = never.syscalls.join(" ");
        let _ = writeln!(table, "| {calls} | `{answer}` | {} |", never.why);
    }
    table
}
