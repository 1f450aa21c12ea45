//! `turnkey serve --check`: what configuration and host give together.

use std::path::Path;
use std::process::Command;

use turnkey_tests::{Mount, binary};

/// The exit code of the check, its page, and what it says besides.
fn checked() -> (Option<i32>, String, String) {
    let output = Command::new(binary()).args(["serve", "--check"]).output();
    let output = output.expect("turnkey can be started");
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    (
        output.status.code(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

#[test]
fn a_host_without_btf_is_told_that_it_can_make_no_run_and_what_helps() {
    let (code, page, _) = checked();
    assert_eq!(code, Some(0), "the control: {page}");
    assert!(
        page.ends_with("# Every layer of a run is there.\n"),
        "{page}"
    );
    assert!(page.contains(" monitor-tier: "), "{page}");
    let _hidden = Mount::new(&["-t", "tmpfs", "none"], Path::new("/sys/kernel/btf"));
    let (code, page, told) = checked();
    assert_eq!(code, Some(125), "{page}");
    let missing = page.split_once("# missing btf: ").expect("it is named").1;
    assert!(missing.contains("#     fix: "), "{missing}");
    assert!(
        told.contains("could make no run here, for lack of: btf"),
        "{told}"
    );
}
