//! An export into a directory that holds files.

use std::path::Path;

use turnkey_tests::{Ran, Run, scratch};

use super::listing;

/// The workspace is exported into itself, as far as it was changed.
fn in_place(options: &str, script: &str) -> (Ran, Vec<String>) {
    let run = Run::new().file("src/old", "old").file("kept", "before\n");
    let own = run.path().display().to_string();
    let options = format!("--export-into {own} --export-changes{options}");
    let ran = run.option(&options).shell(script);
    let found = listing(ran.directory.path());
    (ran, found)
}

fn kept(ran: &Ran) -> String {
    std::fs::read_to_string(ran.directory.path().join("kept")).unwrap_or_default()
}

#[test]
pub fn an_export_into_the_workspace_itself_is_all_or_nothing() {
    let (ran, found) = in_place("", "echo new > src/new; ln -s src link");
    ran.expect_code(0);
    let all = ["keptf", "linkl", "src/newf", "src/oldf", "srcd"];
    ran.expect(found == all, "beside what is there");

    const CHANGE: &str = "echo new > src/new; echo after > kept";
    let (ran, found) = in_place("", CHANGE);
    ran.expect_code(125);
    ran.expect(found == ["keptf", "src/oldf", "srcd"], "nothing of it");
    ran.expect(kept(&ran) == "before\n", "as it was");
    let told = ran.stderr.contains("\"kept\"") && ran.stderr.contains("--export-replace");
    ran.expect(told, "the name and the fix");

    let (ran, found) = in_place(" --export-replace", CHANGE);
    ran.expect_code(0);
    ran.expect(
        found == ["keptf", "src/newf", "src/oldf", "srcd"],
        "all of it",
    );
    ran.expect(kept(&ran) == "after\n", "replaced");
}

/// The program would write its own next profile, or evidence of its own.
#[test]
fn an_export_replaces_nothing_that_turnkey_reads_or_writes() {
    let place = scratch();
    let into = place.path().display().to_string();
    let profile = place.path().join("own.toml");
    let text = "schema = \"turnkey.profile/v1\"\nname = \"own\"\nextends = [\"untrusted\"]\n";
    std::fs::write(&profile, text).expect("a test can write its own directory");
    let refused = |options: &str| {
        let ran = Run::new()
            .option(&format!("--export-into {into} {options}"))
            .shell("true");
        ran.expect_code(125);
        ran.expect(ran.stderr.contains(&into), "the place");
    };
    refused(&format!("--export-replace --profile {}", profile.display()));
    refused(&format!("--events {into}/events.jsonl"));
    assert!(!Path::new(&into).join("events.jsonl").exists());
}
