//! A report of who only asked about files.

use super::*;

#[test]
fn a_look_is_told_in_words_and_fits_the_schema() {
    let mut policy = policy();
    policy.rules[CREDENTIALS].on.insert(AttemptKind::Stat);
    let mut story = Story::command(&["sh", "look.sh"]);
    let look = |path: &str, errno| turnkey_facts::Kind::Change {
        on: AttemptKind::Stat,
        object: raw(path),
        new: None,
        resolved: false,
        call: turnkey_facts::NamingCall::default(),
        errno,
    };
    story.decided(2, look("/root/.netrc", 2), CREDENTIALS, RuleAction::Log);
    story.decided(2, look("/etc/shadow", 0), CREDENTIALS, RuleAction::Log);
    let report = Report::build(inputs(&policy, &story));
    let written = serde_json::to_value(&report).unwrap();
    schema::assert_valid(&written);
    let told = written["violations"].as_array().unwrap();
    let parts = |one: &serde_json::Value| {
        ["on", "path", "stopped_by"].map(|key| one[key].as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(parts(&told[0]), ["stat", "/root/.netrc", "mount-namespace"]);
    assert_eq!(parts(&told[1]), ["stat", "/etc/shadow", ""]);
    assert_eq!(written["events"]["seen"]["look"], 2);
    let terminal = terminal(&report);
    assert!(terminal.contains("asking about /root/.netrc"), "{terminal}");
}
