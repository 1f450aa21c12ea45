//! Reports of who only asked about files, and of who wanted one that the jail does not show.

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

/// A kill comes before the kernel says that nothing is there, whatever the host has.
#[test]
fn a_key_that_the_jail_does_not_show_was_not_read() {
    let policy = policy();
    let told = |path: &str| {
        let mut story = Story::command(&["cat", path]);
        let wanted = fixture::open_failed(path, 0, 0);
        story.decided(2, wanted, CREDENTIALS, RuleAction::Kill);
        let command = arguments(&["cat", path]);
        let report = Report::build(ReportInputs {
            command: &command,
            ending: condemned(),
            ..inputs(&policy, &story)
        });
        let stored = json(&report).contains("\"not_shown\": true");
        let note = format!(
            "  note        nothing was read or written: the jail shows nothing at {path}\n"
        );
        assert_eq!(terminal(&report).contains(&note), stored, "{path}");
        stored
    };
    assert!(told("/root/.ssh/id_rsa"));
    assert!(told("/etc/gshadow"));
    // The jail shows these places, and a kill may come when a file of them is open.
    assert!(!told("/workspace/.ssh/id_rsa"));
    assert!(!told("/tmp/.ssh/id_rsa"));
}
