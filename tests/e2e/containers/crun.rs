//! The same containers as crun makes them. It refuses every host on which control groups of version 2 stand beside those of
//! version 1 ("hybrid"): guests have version 2 alone.

use std::process::Command;

use turnkey_expectations::expected;
use turnkey_tests::{measured, scratch};

use super::{
    Container, add_hook, bundle, found_and_killed, its_program_waits, late, of_the_end, wrapper,
};
use crate::attach::{OthersGroup, broken};

expected!(on[ORDINARY_6_12]);

/// The status of crun when it makes no container, such as for a hook that fails.
const NOT_MADE: i32 = 255;

/// A bundle that its program was seen to read the shadow of, without turnkey; `None` where crun makes no container at all.
fn read_without_turnkey(id: &str) -> Option<(tempfile::TempDir, OthersGroup)> {
    let (directory, group) = (scratch(), OthersGroup::new());
    bundle(directory.path(), &format!("{}/web", group.name()));
    let command = [
        "run",
        "--bundle",
        &directory.path().display().to_string(),
        id,
    ]
    .map(str::to_owned);
    if crate::attach::is_hybrid() {
        let refused = Command::new("crun").args(command).output();
        let refused = refused.expect("crun is installed");
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(said.contains("hybrid mode not supported"), "{said}");
        measured("crun makes no container under hybrid control groups: a guest shows it");
        return None;
    }
    let control = Container::by(Command::new("crun"), directory.path(), id);
    assert_eq!(control.end(), 0, "the control: it reads");
    Some((directory, group))
}

#[test]
fn a_container_of_crun_is_killed_for_a_read_of_its_shadow_by_a_hook_and_late() {
    let id = format!("crun-{}", std::process::id());
    let Some((directory, group)) = read_without_turnkey(&id) else {
        return;
    };
    let container = Container::by(Command::new("crun"), directory.path(), &id);
    its_program_waits(&group.path().join("web"));
    let late = late(directory.path(), &id);
    assert_eq!(container.end(), 137, "killed before it had the content");
    found_and_killed(late);

    add_hook(directory.path(), directory.path());
    let container = Container::by(Command::new("crun"), directory.path(), &id);
    assert_eq!(container.end(), 137, "killed before it had the content");
    let (report, text) = of_the_end(&directory.path().join(format!("{id}.json")));
    assert_eq!(broken(&report).last(), Some(&"credential-file"), "{text}");
    assert_eq!(report["attached"]["found_count"], 0, "from its beginning");

    // A watcher that cannot be had: its report has no place.
    add_hook(directory.path(), &directory.path().join("missing"));
    let container = Container::by(Command::new("crun"), directory.path(), &id);
    assert_eq!(container.end(), NOT_MADE);
}

#[test]
fn behind_the_wrapper_crun_makes_no_container_that_nobody_watches() {
    let id = format!("crun-wrapped-{}", std::process::id());
    let Some((directory, _group)) = read_without_turnkey(&id) else {
        return;
    };
    let reports = directory.path().display().to_string();
    let crun = |reports: &str| wrapper(&["--runtime", "crun", "--reports", reports]);
    let container = Container::by(crun(&reports), directory.path(), &id);
    assert_eq!(container.end(), 137, "killed before it had the content");
    let (report, text) = of_the_end(&directory.path().join(format!("{id}.json")));
    assert_eq!(broken(&report).last(), Some(&"credential-file"), "{text}");
    assert_eq!(report["attached"]["found_count"], 0, "from its beginning");
    let nowhere = format!("{reports}/missing");
    let unwatched = Container::by(crun(&nowhere), directory.path(), &id);
    assert_eq!(unwatched.end(), NOT_MADE);
}
