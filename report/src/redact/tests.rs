use proptest::prelude::*;

use super::*;

/// One credential of each kind, put together here so that nobody who looks for real ones finds them.
fn credentials() -> Vec<(&'static str, String)> {
    let x = |count: usize| "a1B2c3D4e5".repeat(count.div_ceil(10))[..count].to_owned();
    vec![
        ("aws-access-key", format!("AKIA{}", "ABCDEFGH23456723")),
        ("aws-access-key", format!("ASIA{}", "QWERTYUIOPASDFGH")),
        ("github-token", format!("ghp_{}", x(36))),
        ("github-token", format!("ghs_{}", x(36))),
        ("github-token", format!("github_pat_{}_{}", x(22), x(59))),
        ("gitlab-token", format!("glpat-{}", x(20))),
        ("slack-token", format!("xoxb-{}-{}", "123456789012", x(24))),
        ("slack-token", format!("xapp-1-{}-{}", "A0123456789", x(40))),
        ("anthropic-key", format!("sk-ant-api03-{}", x(90))),
        ("openai-key", format!("sk-proj-{}", x(60))),
        ("openai-key", format!("sk-{}", x(48))),
        ("google-key", format!("AIza{}", x(35))),
        ("google-key", format!("ya29.{}", x(60))),
        ("jwt", format!("eyJ{}.eyJ{}.{}", x(20), x(30), x(43))),
        (
            "private-key",
            format!(
                "-----BEGIN OPENSSH PRIVATE KEY-----\\n{}\\n-----END OPENSSH PRIVATE KEY-----",
                x(70)
            ),
        ),
    ]
}

#[test]
fn every_table_compiles() {
    assert_eq!(ALL.each.len(), SHAPES.len() + 3);
    assert_eq!(ALL.any.len(), ALL.each.len());
    assert!(ALL.flag.is_match("--token") && !ALL.flag.is_match(""));
}

#[test]
fn every_kind_is_told_by_its_name() {
    for (kind, credential) in credentials() {
        for (before, after) in [
            ("", ""),
            ("--header=x-key:", ""),
            ("'", "'"),
            ("https://h/?k=", "&n=1"),
            ("/tmp/", "/x"),
        ] {
            let redacted = text(&format!("{before}{credential}{after}")).into_owned();
            assert_eq!(redacted, format!("{before}[redacted: {kind}]{after}"));
        }
    }
}

#[test]
fn a_secret_is_known_by_its_name() {
    let pairs = [
        ("password=hunter2", "password=[redacted: secret]"),
        (
            "PGPASSWORD=hunter2 psql",
            "PGPASSWORD=[redacted: secret] psql",
        ),
        (
            "DB_PASSWORD=hunter2 psql",
            "DB_PASSWORD=[redacted: secret] psql",
        ),
        (
            "export AWS_SECRET_ACCESS_KEY='a b'; x",
            "export AWS_SECRET_ACCESS_KEY=[redacted: secret]; x",
        ),
        ("--api-key=abc", "--api-key=[redacted: secret]"),
        (
            "tool --token abc --out x",
            "tool --token [redacted: secret] --out x",
        ),
        (
            "https://h/?access_token=abc&x=1",
            "https://h/?access_token=[redacted: secret]&x=1",
        ),
        (
            "{\"password\": \"hunter2\", \"n\": 1}",
            "{\"password\": [redacted: secret], \"n\": 1}",
        ),
        (
            "https://bob:hunter2@host/x",
            "https://bob:[redacted: url-password]@host/x",
        ),
        (
            "postgres://:hunter2@host",
            "postgres://:[redacted: url-password]@host",
        ),
        (
            "Authorization: Bearer abc.def",
            "Authorization: Bearer [redacted: authorization]",
        ),
        (
            "authorization: Basic Ym9iOmh1bnRlcjI=",
            "authorization: Basic [redacted: authorization]",
        ),
    ];
    for (whole, expected) in pairs {
        assert!(may_have_any(whole), "{whole}");
        assert_eq!(text(whole), expected);
        // Once is enough.
        assert_eq!(text(expected), expected);
    }
}

#[test]
fn a_value_stands_behind_its_flag() {
    let redacted = |words: &[&str]| {
        let mut words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        arguments(&mut words);
        words.join(" ")
    };
    assert_eq!(
        redacted(&["x", "--token", "abc", "y"]),
        "x --token [redacted: secret] y"
    );
    assert_eq!(
        redacted(&["x", "--db-password", "a b"]),
        "x --db-password [redacted: secret]"
    );
    assert_eq!(
        redacted(&["x", "--token", "--verbose"]),
        "x --token --verbose"
    );
    assert_eq!(
        redacted(&["x", "--tokenizer", "bert"]),
        "x --tokenizer bert"
    );
    assert_eq!(
        redacted(&["/usr/bin/curl", "-u", "bob:hunter2"]),
        "/usr/bin/curl -u [redacted: password]"
    );
    assert_eq!(
        redacted(&["curl", "--user=bob:hunter2", "-ubob:hunter2"]),
        "curl --user=[redacted: password] -u[redacted: password]"
    );
    assert_eq!(
        redacted(&["timeout", "5", "/usr/bin/curl", "-sSu", "bob:hunter2"]),
        "timeout 5 /usr/bin/curl -sSu [redacted: password]"
    );
    assert_eq!(
        redacted(&["sh", "-c", "curl \"http://x/?a=1&b=2;c\" -u bob:hunter2"]),
        "sh -c curl \"http://x/?a=1&b=2;c\" -u [redacted: password]"
    );
    assert_eq!(
        redacted(&[
            "sh",
            "-c",
            "cd x; curl -s -u 'bob:hunter2' u | docker -u 1000:1000"
        ]),
        "sh -c cd x; curl -s -u '[redacted: password]' u | docker -u 1000:1000"
    );
    assert_eq!(
        redacted(&[
            "sh",
            "-c",
            "curl --user=bob:hunter2 http://a:1; date -u a:b"
        ]),
        "sh -c curl --user=[redacted: password] http://a:1; date -u a:b"
    );
    assert_eq!(
        redacted(&["docker", "-u", "1000:1000"]),
        "docker -u 1000:1000"
    );
    assert_eq!(
        redacted(&["x", "-H", "Authorization: token abc"]),
        "x -H Authorization: token [redacted: authorization]"
    );
}

#[test]
fn what_turnkey_tells_of_itself_needs_no_matchers() {
    for whole in [
        "turnkey:evidence",
        "turnkey: violated -- by turnkey",
        "MONKEY=1",
        "--unmonitored",
        "lib-tokenizer: 3",
    ] {
        assert!(!may_have_any(whole), "{whole}");
    }
}

#[test]
fn every_name_of_a_secret_may_have_a_value_and_is_redacted() {
    for name in NAMES {
        let whole = [
            format!("X{name}=abc"),
            format!("{{'x{name}' : 'abc'}}"),
            format!("x --a{name} abc"),
        ];
        for whole in whole {
            assert!(may_have_any(&whole), "{whole}");
            assert!(text(&whole).contains("[redacted: secret]"), "{whole}");
        }
        assert!(may_be_flag(&format!("--a{name}")), "{name}");
    }
}

#[test]
fn near_misses_stay() {
    for whole in [
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "da39a3ee5e6b4b0d3255bfef95601890afd80709",
        "0198c5a0-7e1f-7abc-8def-0123456789ab",
        "/usr/lib/python3/dist-packages/sklearn/token.py",
        "sk-learn-model-that-has-a-long-name-of-many-words",
        "--tokenizer=bert",
        "max_tokens=5",
        "PWD=/workspace",
        "OLDPWD=/",
        "password=",
        "password=$PASSWORD",
        "token==other",
        "if token=='x'",
        "ghp_short",
        "AKIA_IS_NOT_A_KEY",
        "xoxb-",
        "glpat-short",
        "eyJhbGciOiJIUzI1NiJ9",
        "AIzaShort",
        "https://host/path@2x.png",
        "ssh://git@host/repository",
        "http://[::1]:80/",
        "user@host:path",
        "-----BEGIN CERTIFICATE-----",
        "-----BEGIN PUBLIC KEY-----",
        "/home/you/.ssh/id_ed25519",
        "/etc/ssl/private/key.pem",
        "secret-sauce.txt",
        "/run/secrets/kubernetes.io/token",
        "print(6*7)",
        "x-authorization-y",
        "203.0.113.7:443",
        "unix:/run/user/1000/bus",
    ] {
        assert_eq!(text(whole), whole);
    }
}

#[test]
fn captured_output_stays_and_everything_else_goes() {
    let golden = crate::formats::golden("shadow_read_under_enforce", |value| {
        let token = credentials()[2].1.clone();
        value["command"] = serde_json::json!(["tool", "--password", "hunter2", token]);
        value["violations"][0]["path"] = token.clone().into();
        value["violations"][0]["process"]["argv"][0] = token.clone().into();
        value["file_operations"][0]["path"] = format!("/tmp/{token}").into();
        value["stdout"] = serde_json::json!({"text": token, "bytes": 40, "truncated": false});
    });
    let before = serde_json::to_value(&golden).unwrap();
    let redacted = report(Report {
        exit: 121,
        ..golden.clone()
    })
    .unwrap();
    let after = serde_json::to_value(&redacted).unwrap();
    assert_eq!(
        redacted.command,
        [
            "tool",
            "--password",
            "[redacted: secret]",
            "[redacted: github-token]"
        ]
    );
    assert_eq!(
        redacted.file_operations[0].path.as_deref(),
        Some("/tmp/[redacted: github-token]")
    );
    assert_eq!(redacted.stdout, golden.stdout);
    assert_eq!(redacted.exit_code(), 121);
    assert_eq!(
        after.to_string().matches("ghp_").count(),
        1,
        "the captured one"
    );
    for decided in [
        "verdict",
        "risk_score",
        "findings",
        "status",
        "events",
        "omitted",
        "is_safe",
    ] {
        assert_eq!(after[decided], before[decided], "{decided}");
    }
    assert_eq!(redacted.violations[0].rule, golden.violations[0].rule);
}

proptest! {
    #[test]
    fn a_credential_never_survives(
        which in any::<prop::sample::Index>(),
        before in "[ -~]{0,20}",
        after in "[ -~]{0,20}",
    ) {
        let all = credentials();
        let (_, credential) = which.get(all.as_slice());
        // A letter or digit that touches it makes it another word.
        let redacted = text(&format!("{before} {credential} {after}")).into_owned();
        prop_assert!(!redacted.contains(credential.as_str()), "{redacted}");
    }

    #[test]
    fn what_has_a_credential_may_have_one(
        which in any::<prop::sample::Index>(),
        cut in any::<(prop::sample::Index, prop::sample::Index)>(),
        other in "[ -~]{0,6}",
        upper in any::<bool>(),
    ) {
        let named = ["X_PASSWORD=abc", "'api_key' : 'abc'", "t --Access-Key abc", "a://b:c@d", "Authorization: basic abc"];
        let named = named.into_iter().map(|text| ("", text.to_owned()));
        let all: Vec<_> = credentials().into_iter().chain(named).collect();
        let mut whole = which.get(&all).1.clone();
        let (one, two) = (cut.0.index(whole.len()), cut.1.index(whole.len()));
        whole.replace_range(one.min(two)..one.max(two), &other);
        if upper {
            whole = whole.to_ascii_uppercase();
        }
        prop_assert!(may_have_any(&whole) || !ALL.any.is_match(&whole), "{whole}");
    }

    #[test]
    fn hashes_and_ids_and_paths_stay(
        hash in "[0-9a-f]{32}|[0-9a-f]{40}|[0-9a-f]{64}",
        id in "[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}",
        path in "(/[a-z0-9._-]{1,12}){1,6}",
        address in "[0-9]{1,3}(\\.[0-9]{1,3}){3}:[0-9]{1,5}",
    ) {
        for whole in [&hash, &id, &path, &address] {
            prop_assert_eq!(text(whole), whole.as_str());
        }
    }

    #[test]
    fn redacting_twice_is_redacting_once(whole in ".{0,200}") {
        let once = text(&whole).into_owned();
        prop_assert_eq!(text(&once).into_owned(), once);
    }

    #[test]
    fn nothing_that_was_printable_stops_to_be(words in proptest::collection::vec("[ -~]{0,40}", 0..6)) {
        let mut redacted = words.clone();
        arguments(&mut redacted);
        prop_assert_eq!(redacted.len(), words.len());
        prop_assert!(redacted.iter().all(|word| word.chars().all(turnkey_policy::visible::is_printable)));
    }
}
