//! The runner that the documentation has people copy, with the real kernel.

use turnkey_expectations::expected;

expected!(as_root, "watch a jail of root's");

#[path = "../examples/embed.rs"]
mod embed;

use std::ffi::OsString;

fn words(words: &[&str]) -> Vec<OsString> {
    words.iter().map(OsString::from).collect()
}

#[test]
fn an_embedder_has_the_jail_the_monitor_and_the_report() {
    // The only test of this binary that enters: a process goes to its place once.
    let entered = turnkey_supervisor::enter();
    let outcome = embed::tool_call(words(&["/bin/cat", "/etc/shadow"]), entered).unwrap();
    let rules = outcome.report.violations.iter();
    let rules: Vec<&str> = rules.map(|violation| violation.rule.as_str()).collect();
    assert_eq!(rules, ["credential-file"]);
    assert_eq!(outcome.report.exit_code(), 121, "killed by a rule");
    assert!(outcome.events > 0, "the monitor has told of what it did");
    let output = String::from_utf8_lossy(&outcome.output);
    assert!(!output.contains("root:"), "{output}");
}
