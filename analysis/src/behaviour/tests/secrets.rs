//! Secrets that the program's home lacks: who asks for them decides.

use turnkey_policy::{Behaviour, Policy};

use super::super::fixture::{Story, policy};
use super::P;

/// The story's profile, with a home that holds nothing.
fn empty_home() -> Policy {
    let mut policy = policy("");
    policy.settle_home(&policy.homes(None), &|_| false);
    policy
}

#[test]
fn who_asks_decides_on_a_secret_that_the_home_lacks() {
    let asks = |exe: &str, secret: &str| {
        let mut story = Story::under(&empty_home());
        story.exec(P, exe, &["x"]).wants(P, secret, 0);
        story
            .found()
            .iter()
            .any(|(one, _)| *one == Behaviour::CredentialAccess)
    };
    // Settings of its own.
    for (exe, secret) in [
        ("/usr/bin/docker", "/workspace/.docker/config.json"),
        ("/usr/bin/kubectl", "/workspace/.kube/config"),
        ("/usr/bin/curl", "/workspace/.netrc"),
        ("/usr/bin/python3.11", "/workspace/.netrc"),
        ("/usr/bin/python3.11", "/workspace/.aws/credentials"),
        ("/usr/bin/ssh", "/workspace/.ssh/id_rsa"),
        (
            "/usr/lib/git-core/git-credential-store",
            "/workspace/.git-credentials",
        ),
    ] {
        assert!(!asks(exe, secret), "{exe} {secret}");
    }
    // A secret of somebody else's.
    for (exe, secret) in [
        ("/usr/bin/cat", "/workspace/.docker/config.json"),
        ("/usr/bin/cp", "/workspace/.aws/credentials"),
        ("/usr/bin/base64", "/workspace/.ssh/id_rsa"),
        ("/usr/bin/python3.11", "/workspace/.ssh/id_ed25519"),
        ("/usr/bin/perl", "/workspace/.gnupg/secring.gpg"),
        (
            "/usr/bin/node",
            "/workspace/.config/chromium/Default/Cookies",
        ),
    ] {
        assert!(asks(exe, secret), "{exe} {secret}");
    }
    // What is there is a matter of the rules.
    let mut story = Story::new();
    story
        .exec(P, "/usr/bin/cat", &["cat"])
        .reads(P, "/workspace/.netrc");
    assert_eq!(story.found(), []);
    // The run made it.
    let mut story = Story::under(&empty_home());
    story
        .exec(P, "/usr/bin/cat", &["cat"])
        .writes(P, "/workspace/.netrc");
    story.reads(P, "/workspace/.netrc");
    assert_eq!(story.found(), []);
}
