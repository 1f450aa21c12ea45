//! A workspace of several names: the table and the reference say the same of a file under each.

use turnkey_monitor::{Known, Tier, compile};
use turnkey_policy::{Attempt, AttemptKind, OpenAccess, Rule, RuleAction, decide};

use super::{BOTH, policy, rule, shipped};

const OWN: &str = "/home/ada/p";

fn ruled() -> Vec<Rule> {
    let about = |id, paths: &[&str]| rule(id, AttemptKind::Open, paths, BOTH, RuleAction::Kill);
    vec![
        about("by-the-workspace", &["/workspace/secret*"]),
        about("by-the-own-path", &["/home/ada/p/keys/**", "/home/ada/p"]),
        about("by-a-pattern", &["/home/*/p/token", "/{workspace,srv}/two"]),
        about("by-the-end", &["**/.env"]),
        about("by-what-begins-so", &["/workspacefoo", "/home/ada/pp"]),
        about("by-halves", &["/home/ada/*.rc"]),
    ]
}

#[test]
fn a_file_is_judged_alike_under_each_name_of_the_workspace() {
    let mut policy = policy(ruled());
    policy.filesystem.names.push(OWN.into());
    policy.settle_workspace();
    let compiled = compile(&policy, Tier::Lsm).expect("it fits");
    let decided = |path: &str| {
        let attempt = Attempt {
            path: Some(path.as_bytes()),
            access: &[OpenAccess::Read],
            ..Attempt::new(AttemptKind::Open)
        };
        let reference = decide(&policy.rules, &attempt).map(|index| policy.rules[index].id.clone());
        let table = compiled
            .to(None)
            .open(Known::at(path.as_bytes()), &[OpenAccess::Read]);
        let table = table.map(|(index, _)| policy.rules[index].id.clone());
        assert_eq!(table, reference, "{path}");
        reference
    };
    for (rest, rule) in [
        ("/secret", Some("by-the-workspace")),
        ("/secret/a", None),
        ("/keys/a/b", Some("by-the-own-path")),
        ("", Some("by-the-own-path")),
        ("/token", Some("by-a-pattern")),
        ("/two", Some("by-a-pattern")),
        ("/a/.env", Some("by-the-end")),
        ("/a", None),
        ("/", None),
    ] {
        for name in ["/workspace", OWN] {
            assert_eq!(
                decided(&format!("{name}{rest}")).as_deref(),
                rule,
                "{name}{rest}"
            );
        }
    }
    for (path, rule) in [
        ("/workspacefoo", Some("by-what-begins-so")),
        ("/home/ada/pp", Some("by-what-begins-so")),
        ("/workspacep", None),
        ("/home/ada/pfoo", None),
        ("/workspace.rc", None),
        ("/home/ada/p.rc", Some("by-halves")),
        ("/home/eve/p/secret", None),
        ("/home/eve/p/token", Some("by-a-pattern")),
    ] {
        assert_eq!(decided(path).as_deref(), rule, "{path}");
    }
}

/// The names cost states: each shipped profile has room for long ones.
#[test]
fn every_shipped_profile_fits_with_a_workspace_at_a_long_path() {
    let own = format!("/home/somebody/{}project", "a-directory/".repeat(16));
    for (name, _) in turnkey_policy::SHIPPED {
        let mut policy = shipped(name);
        policy.filesystem.names = vec![own.clone().into(), "/home/somebody/symlink".into()];
        policy.settle_workspace();
        compile(&policy, Tier::Lsm).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}
