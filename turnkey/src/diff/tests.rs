//! Without a kernel: reports and profiles held against each other.

use serde_json::json;
use turnkey_policy::Overrides;

use super::*;

fn profile(text: &str) -> Subject {
    let head = "schema = \"turnkey.profile/v1\"\nname = \"mine\"\nextends = [\"untrusted\"]\n";
    let read = |_: &str| Ok(format!("{head}{text}"));
    let policy = turnkey_policy::load("./mine.toml", &read, &Overrides::default());
    Subject::Profile(Box::new(policy.unwrap_or_else(|error| panic!("{error}"))))
}

fn report(files: &[(&str, &str)], addresses: &[(&str, &str)]) -> Subject {
    let files: Vec<_> = files
        .iter()
        .map(|(access, path)| json!({"path": path, "access": [access], "count": 2, "result": "allowed"}))
        .collect();
    let addresses: Vec<_> = addresses
        .iter()
        .map(|(act, address)| json!({"act": act, "address": address, "count": 1, "result": "denied"}))
        .collect();
    let report = json!({
        "schema": "turnkey.report/v1",
        "processes": [],
        "file_operations": files,
        "network_attempts": addresses,
        "syscalls": ["read", "socket"],
    });
    Subject::Report(Doings::read(&report).expect("a report"))
}

fn told(a: &Subject, b: &Subject) -> Vec<String> {
    let new = new(a, b).into_iter();
    new.map(|New { kind, what, why }| format!("{kind}: {what}: {why}"))
        .collect()
}

#[test]
fn a_report_is_held_against_a_profile() {
    let a = profile("[syscalls]\ninherit = false\nallow = [\"@core\", \"@file-open\"]\n");
    let b = report(
        &[
            ("read", "/usr/lib/x"),
            ("read", "/etc/shadow"),
            ("read", "/srv/data"),
            ("write", "/workspace/out"),
            ("write", "/usr/lib/x"),
        ],
        &[("connect", "1.2.3.4:443")],
    );
    let expected = [
        "address: connect 1.2.3.4:443 (once): it has no network",
        "file: read /etc/shadow (2 times): rule `credential-file` would kill it",
        "file: read /srv/data (2 times): its tree does not hold it",
        "file: wrote /usr/lib/x (2 times): nothing can be written there",
        "syscall: socket(2): its filter refuses it",
    ];
    assert_eq!(told(&a, &b), expected);
}

#[test]
fn reports_are_compared_by_what_names_stand_for() {
    let a = report(
        &[
            ("read", "/workspace/a.csv"),
            ("write", "/tmp/tmpab12cd34"),
            ("read", "/usr/lib/python3.13/os.py"),
        ],
        &[("connect", "127.0.0.1:40001")],
    );
    let same = report(
        &[
            ("read", "/workspace/b.csv"),
            ("write", "/tmp/tmpzz98yx76"),
            ("read", "/usr/lib/python3.14/json.py"),
        ],
        &[("connect", "127.0.0.1:40002")],
    );
    assert_eq!(told(&a, &same), [""; 0]);
    let other = report(
        &[
            ("read", "/workspace/secrets/b.csv"),
            ("execute", "/usr/bin/id"),
        ],
        &[("connect", "127.0.0.1:80")],
    );
    let expected = [
        "address: connect 127.0.0.1:80 (once): not done before",
        "file: read /workspace/secrets/b.csv (2 times): not done before",
        "program: ran /usr/bin/id (2 times): not done before",
    ];
    assert_eq!(told(&a, &other), expected);
}

#[test]
fn profiles_are_compared_key_by_key_and_rule_by_rule() {
    let a = profile("");
    assert_eq!(told(&a, &a), [""; 0]);
    let b = profile(
        "[filesystem]\nread = [{ path = \"/srv/data\", why = \"data\" }]\n[limits]\nmemory = \"1G\"\n[network]\nmode = \"loopback\"\n\
         [env]\npass = [\"TOKEN\"]\n\
         [[rule]]\nid = \"mine\"\non = \"open\"\naccess = \"read\"\npath = \"/workspace/.netrc\"\naction = \"allow\"\nwhy = \"mine\"\n",
    );
    let expected = [
        "address: the jail's own loopback: it has no network",
        "environment: TOKEN: it does not hand it in",
        "file: read /workspace/.netrc, such as /workspace/.netrc: rule `stored-credential` would kill it",
        "file: see /srv/data of the host: its tree does not hold it",
        "limit: memory 1G: it gives 256M",
    ];
    assert_eq!(told(&a, &b), expected);
    assert_eq!(told(&b, &a), [""; 0]);
}

#[test]
fn what_was_escaped_comes_back() {
    for bytes in [
        &b"/a b"[..],
        b"/a\\b\n\x01",
        b"/\xff\xfe",
        "/\u{202e}x".as_bytes(),
    ] {
        assert_eq!(
            crate::report::unescape(&crate::report::escape(bytes)),
            bytes
        );
    }
}
