//! `inherit = false`: a profile that starts its lists over.

use turnkey_policy::{Overrides, Policy, load};

const BELOW: &str = "schema = \"turnkey.profile/v1\"
name = \"below\"
syscalls.allow = [\"@basic\"]
[filesystem]
read = [{ path = \"/usr\" }]
scratch = [{ path = \"/tmp\", size = \"1M\" }]
decoys = [\"/etc/shadow\"]
[limits]
pids = 7
";

/// The policy of the profile below under these lines.
fn above(lines: &str) -> Policy {
    let head = "schema = \"turnkey.profile/v1\"\nname = \"above\"\nextends = [\"below.toml\"]\n";
    let above = format!("{head}{lines}");
    let read = |path: &str| match path {
        "above.toml" => Ok(above.clone()),
        "below.toml" => Ok(BELOW.to_owned()),
        _ => Err("no such file".to_owned()),
    };
    load("above.toml", &read, &Overrides::default())
        .unwrap_or_else(|error| panic!("{:?}", error.problems()))
}

fn read_of(policy: &Policy) -> Vec<&str> {
    let paths = policy.filesystem.read.iter();
    paths.filter_map(|entry| entry.path.to_str()).collect()
}

#[test]
fn a_profile_that_does_not_inherit_starts_its_lists_over() {
    let policy = above(
        "[filesystem]\ninherit = false\nread = [{ path = \"/lib\" }]\n\
         [syscalls]\ninherit = false\nallow = [\"@core\", \"@file-open\"]\n",
    );
    assert_eq!(read_of(&policy), ["/lib"]);
    assert!(policy.filesystem.scratch.is_empty() && policy.filesystem.decoys.is_empty());
    let allowed = &policy.syscalls.allow;
    assert!(
        !allowed.contains("ioctl"),
        "nothing of @basic but what is listed again"
    );
    assert!(allowed.contains("openat"));
    assert_eq!(policy.limits.pids, 7, "limits stay");
}

#[test]
fn whoever_says_nothing_or_true_inherits() {
    for lines in ["", "inherit = true\n"] {
        let policy = above(&format!(
            "[filesystem]\n{lines}read = [{{ path = \"/lib\" }}]\n[syscalls]\n{lines}allow = [\"flock\"]\n"
        ));
        assert_eq!(read_of(&policy), ["/usr", "/lib"]);
        assert!(policy.syscalls.allow.contains("ioctl") && policy.syscalls.allow.contains("flock"));
    }
}

#[test]
fn behaviours_and_accepted_findings_are_merged_key_by_key() {
    use turnkey_policy::{Behaviour, BehaviourResponse, EnforcementMode};

    let policy = above(
        "[behaviour]\nport-scan = \"kill\"\nevasion = \"off\"\n\
         [[accept]]\nfinding = \"behaviour:discovery\"\nwhy = \"a system report\"\nuntil = \"2027-12-31\"\n",
    );
    assert_eq!(
        policy.response(Behaviour::PortScan),
        BehaviourResponse::Kill
    );
    assert_eq!(policy.response(Behaviour::Evasion), BehaviourResponse::Off);
    assert_eq!(
        policy.response(Behaviour::Injection),
        BehaviourResponse::Log
    );
    assert_eq!(policy.accepted[0].finding, "behaviour:discovery");
    let observed = policy.with_mode(EnforcementMode::Observe);
    assert_eq!(
        observed.response(Behaviour::PortScan),
        BehaviourResponse::Log
    );
}
