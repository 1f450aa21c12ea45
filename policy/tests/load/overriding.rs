//! Flags of the command line over a profile.

use super::*;

#[test]
fn every_flag_mirrors_its_key() {
    let policy = overridden(&[
        ("memory", "1G"),
        ("swap", "1M"),
        ("cpu", "50%"),
        ("pids", "99"),
        ("wall", "1s"),
        ("cpu-time", "2s"),
        ("output", "3"),
        ("io-read", "1M"),
        ("io-write", "2M"),
        ("disk", "3M"),
        ("file-size", "4"),
        ("open-files", "55"),
        ("read", "/data"),
        ("write", "/out"),
        ("scratch", "/var/tmp=8M"),
        ("workdir-mode", "none"),
        ("network", "loopback"),
        ("env", "B"),
        ("env", "X=1=2"),
        ("user", "me"),
        ("hostname", "here"),
        ("mode", "observe"),
        ("on-loss", "fail"),
    ])
    .unwrap_or_else(|error| panic!("{error}"));
    let limits = &policy.limits;
    assert_eq!(
        (limits.memory, limits.swap, limits.cpu, limits.pids),
        (1 << 30, 1 << 20, 50, 99)
    );
    assert_eq!((limits.wall.as_secs(), limits.cpu_time.as_secs()), (1, 2));
    assert_eq!(
        (limits.output, limits.file_size, limits.open_files),
        (3, 4, 55)
    );
    assert_eq!(
        (limits.io_read, limits.io_write, limits.disk),
        (Some(1 << 20), Some(2 << 20), 3 << 20)
    );
    assert!(
        policy
            .filesystem
            .read
            .iter()
            .any(|entry| entry.path == Path::new("/data"))
    );
    assert_eq!(policy.filesystem.write[0].path, Path::new("/out"));
    assert_eq!(
        (
            policy.filesystem.scratch[0].path.to_str(),
            policy.filesystem.scratch[0].size
        ),
        (Some("/var/tmp"), 8 << 20)
    );
    assert_eq!(
        (policy.filesystem.workdir.mode, policy.network.mode),
        (WorkdirMode::None, NetworkMode::Loopback)
    );
    assert_eq!(policy.environment.pass, ["A", "B"]);
    assert_eq!(policy.environment.set["X"], "1=2");
    assert_eq!(
        (
            policy.identity.user.as_str(),
            policy.identity.hostname.as_str()
        ),
        ("me", "here")
    );
    assert_eq!(
        (policy.enforcement.mode, policy.enforcement.on_loss),
        (EnforcementMode::Observe, OnLoss::Fail)
    );
}

#[test]
fn a_variable_that_a_flag_hands_through_is_the_callers_whatever_the_profile_sets() {
    let passed = overridden(&[("env", "HOME")]).unwrap_or_else(|error| panic!("{error}"));
    assert!(passed.environment.pass.contains(&"HOME".to_owned()));
    assert_eq!(passed.environment.set.get("HOME"), None);
    let set = overridden(&[("env", "HOME"), ("env", "HOME=/tmp")]);
    let set = set.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(set.environment.set["HOME"], "/tmp", "the last word");
}

#[test]
fn a_wrong_flag_is_named() {
    assert_eq!(
        message(overridden(&[("memory", "12Q")])),
        r#"`--memory`: "12Q" is not a size"#
    );
    assert_eq!(
        message(overridden(&[("read", "data")])),
        r#"`--read`: "data" is not an absolute path"#
    );
    assert_eq!(
        message(overridden(&[("env", "=x")])),
        r#"`--env`: "" is not the name of an environment variable"#
    );
    assert_eq!(
        message(overridden(&[("scratch", "/tmp")])),
        r#"`--scratch`: "/tmp" has no size"#
    );
    assert_eq!(
        message(overridden(&[("network", "hosts")])),
        r#"`--network`: "hosts" is not known here"#
    );
}

#[test]
fn of_a_flag_that_is_not_repeated_the_last_text_counts() {
    let policy = overridden(&[("pids", "9"), ("pids", "8"), ("env", "B"), ("env", "C")]);
    let policy = policy.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(policy.limits.pids, 8);
    assert_eq!(policy.environment.pass, ["A", "B", "C"]);
    let unknown = Overrides::from_flags([("pid", "9")]).expect_err("there is no such flag");
    assert!(unknown.to_string().contains("\"pid\""), "{unknown}");
}
