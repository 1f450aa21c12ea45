//! Hosts that a program may talk to, by key and by flag.

use turnkey_policy::{NetworkMode, Overrides, load};

#[test]
fn hosts_are_allowed_by_key_and_by_flag_alike() {
    let base = r#"
        schema = "turnkey.profile/v1"
        name = "base"
        extends = ["untrusted"]
        [network]
        allow = [{ to = "example.org:443", why = "packages" }, { to = "10.1.0.0/16:80" }]
    "#;
    let mine = r#"
        schema = "turnkey.profile/v1"
        name = "mine"
        extends = ["./base.toml"]
        [network]
        allow = [{ to = "10.1.0.0/16:80", why = "mirrors" }, { to = "[::1]:443" }]
    "#;
    let files = |path: &str| match path {
        path if path.ends_with("base.toml") => Ok(base.to_owned()),
        _ => Ok(mine.to_owned()),
    };
    let list = |overrides: &Overrides| {
        let policy = load("./mine.toml", &files, overrides).unwrap();
        assert_eq!(policy.network.mode, NetworkMode::Allow);
        let entry = |entry: &turnkey_policy::AllowedHost| format!("{} {}", entry.to, entry.why);
        policy.network.allow.iter().map(entry).collect::<Vec<_>>()
    };
    let inherited = [
        "example.org:443 packages",
        "10.1.0.0/16:80 mirrors",
        "[::1]:443 ",
    ];
    assert_eq!(list(&Overrides::default()), inherited);
    let flagged = Overrides::from_flags([("allow", "192.0.2.7:1-9")]).unwrap();
    let [first, second, third] = inherited;
    let last = "192.0.2.7:1-9 asked for on the command line";
    assert_eq!(list(&flagged), [first, second, third, last]);
    let off = Overrides::from_flags([("network", "none")]).unwrap();
    let policy = load("./mine.toml", &files, &off).unwrap();
    assert_eq!(
        policy.network.mode,
        NetworkMode::None,
        "a flag takes it all back"
    );
    let both = Overrides::from_flags([("network", "none"), ("allow", "192.0.2.7:1-9")]).unwrap();
    let error = load("./mine.toml", &files, &both).unwrap_err();
    assert!(error.to_string().contains("allows no hosts"), "{error}");
}
