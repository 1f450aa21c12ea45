//! Flags of the command line over a profile.

use super::*;

#[test]
fn every_flag_mirrors_its_key() {
    let policy = overridden(|flags| {
        flags.limits.memory = some("1G");
        flags.limits.swap = some("1M");
        flags.limits.cpu = some("50%");
        flags.limits.pids = some("99");
        flags.limits.wall = some("1s");
        flags.limits.cpu_time = some("2s");
        flags.limits.output = some("3");
        flags.limits.io_read = some("1M");
        flags.limits.io_write = some("2M");
        flags.limits.disk = some("3M");
        flags.limits.file_size = some("4");
        flags.limits.open_files = some("55");
        flags.read = vec!["/data".to_owned()];
        flags.write = vec!["/out".to_owned()];
        flags.scratch = vec!["/var/tmp=8M".to_owned()];
        flags.workdir_mode = some("none");
        flags.network = some("loopback");
        flags.env = vec!["B".to_owned(), "X=1=2".to_owned()];
        flags.identity.user = some("me");
        flags.identity.hostname = some("here");
        flags.mode = some("observe");
        flags.on_loss = some("fail");
    })
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
        (policy.filesystem.workdir, policy.network),
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
        (policy.mode, policy.enforcement.on_loss),
        (EnforcementMode::Observe, OnLoss::Fail)
    );
}

#[test]
fn a_wrong_flag_is_named() {
    assert_eq!(
        message(overridden(|flags| flags.limits.memory = some("12Q"))),
        r#"`--memory`: "12Q" is not a size"#
    );
    assert_eq!(
        message(overridden(|flags| flags.read = vec!["data".to_owned()])),
        r#"`--read`: "data" is not an absolute path"#
    );
    assert_eq!(
        message(overridden(|flags| flags.env = vec!["=x".to_owned()])),
        r#"`--env`: "" is not the name of an environment variable"#
    );
    assert_eq!(
        message(overridden(|flags| flags.scratch = vec!["/tmp".to_owned()])),
        r#"`--scratch`: "/tmp" has no size"#
    );
    assert_eq!(
        message(overridden(|flags| flags.network = some("hosts"))),
        r#"`--network`: "hosts" is not known here"#
    );
}
