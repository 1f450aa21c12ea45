//! Without a kernel: reports and profiles held against each other.

use serde_json::json;
use turnkey_policy::Overrides;

use super::*;

mod keys;

fn profile(text: &str) -> DiffSubject {
    let head = "schema = \"turnkey.profile/v1\"\nname = \"mine\"\nextends = [\"untrusted\"]\n";
    let read = |_: &str| Ok(format!("{head}{text}"));
    let policy = turnkey_policy::load("./mine.toml", &read, &Overrides::default());
    DiffSubject::Profile(Box::new(policy.unwrap_or_else(|error| panic!("{error}"))))
}

fn report(files: &[(&str, &str)], addresses: &[(&str, &str)]) -> DiffSubject {
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
    DiffSubject::Report(RunUses::read(&report).expect("a report"))
}

fn told(a: &DiffSubject, b: &DiffSubject) -> Vec<String> {
    let new = new(a, b).into_iter();
    new.map(
        |NewEntry {
             kind, what, why, ..
         }| format!("{kind}: {what}: {why}"),
    )
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
        "address: connect 1.2.3.4:443 (tried in vain, once): it has no network",
        "file: read /etc/shadow (2 times): rule `credential-file` would kill it",
        "file: read /srv/data (2 times): its tree does not hold it",
        "file: wrote /usr/lib/x (2 times): nothing can be written there",
        "syscall: socket(2): its filter refuses it",
    ];
    assert_eq!(told(&a, &b), expected);
}

/// A report with one file that these programs read.
fn read_by(programs: &serde_json::Value, more: bool) -> DiffSubject {
    let report = json!({
        "schema": "turnkey.report/v1",
        "processes": [],
        "file_operations": [{
            "path": "/workspace/.git-credentials", "access": ["read"], "count": 3, "result": "allowed",
            "programs": programs, "more_programs": more,
        }],
        "network_attempts": [],
    });
    DiffSubject::Report(RunUses::read(&report).expect("a report"))
}

#[test]
fn rules_are_asked_about_the_program_that_did_it() {
    let profile = profile(
        "[[rule]]\nid = \"its-own\"\non = \"open\"\npath = \"/workspace/.git-credentials\"\naction = \"allow\"\nwhy = \"its own\"\n\
         exe = \"/usr/bin/git\"\nscript = \"/workspace/sync\"\n",
    );
    let program = |exe: &str, script: &str| json!({"exe": exe, "script": script});
    let owner = program("/usr/bin/git", "/workspace/sync");
    let told = |programs: &[&serde_json::Value], more| {
        let new = told(&profile, &read_by(&json!(programs), more));
        let told = new.into_iter().next();
        told.map(|new| new.split_once("(3 times").expect("a count").1.to_owned())
    };
    assert_eq!(told(&[&owner], false), None);
    let against = |by: &str| Some(format!("{by}): rule `stored-credential` would kill it"));
    let other = json!({"exe": "/usr/bin/cat"});
    assert_eq!(told(&[&owner, &other], false), against(", by cat"));
    // Of somebody unknown the strictest counts, and so where a script by that name is nobody can say.
    assert_eq!(told(&[&owner], true), against(""));
    let somewhere = program("/usr/bin/git", "./sync");
    assert_eq!(told(&[&somewhere], false), against(", by sync"));
    let many: Vec<_> = ["a", "b", "c", "d"].map(|exe| json!({"exe": exe})).into();
    let many: Vec<&serde_json::Value> = many.iter().collect();
    assert_eq!(told(&many, false), against(", by a, b, c and 1 more"));
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
        "address: connect 127.0.0.1:80 (tried in vain, once): not done before",
        "file: read /workspace/secrets/b.csv (2 times): not done before",
        "program: ran /usr/bin/id (2 times): not done before",
    ];
    assert_eq!(told(&a, &other), expected);
}

/// A report with such rows of file operations and violations.
fn acts(files: &serde_json::Value, violations: &serde_json::Value) -> DiffSubject {
    let report = json!({
        "schema": "turnkey.report/v1",
        "processes": [],
        "file_operations": files,
        "network_attempts": [],
        "violations": violations,
    });
    DiffSubject::Report(RunUses::read(&report).expect("a report"))
}

#[test]
fn acts_of_every_kind_are_new() {
    let row = |access: &str, path: &str, errno: Option<&str>| {
        let result = if errno.is_some() { "failed" } else { "allowed" };
        json!({"path": path, "access": [access], "count": 1, "result": result, "errno": errno})
    };
    let none = json!([]);
    let b = acts(
        &json!([
            row("unlink", "/workspace/data.txt", None),
            row("unlink", "/etc/passwd", Some("EROFS")),
            row("rename", "/workspace/a", None),
            row("link", "/workspace/b", None),
            row("chmod", "/workspace/c", None),
            row("attribute", "/workspace/d", None),
            row("execute", "memfd:made", None),
        ]),
        &json!([
            {"on": "ptrace", "syscall": "ptrace", "count": 2, "result": "denied", "errno": "EPERM"},
            {"on": "map", "path": "memfd:made", "count": 1, "result": "allowed", "errno": null},
            // A row of its own already.
            {"on": "open", "path": "/workspace/data.txt", "count": 1, "result": "allowed", "errno": null},
        ]),
    );
    let before = "not done before";
    let expected = [
        format!("file: changed the mode or owner of /workspace/c (once): {before}"),
        format!("file: changed times or attributes of /workspace/d (once): {before}"),
        format!("file: deleted /etc/passwd (tried in vain, once): {before}"),
        format!("file: deleted /workspace/data.txt (once): {before}"),
        format!("file: gave another name to /workspace/b (once): {before}"),
        format!("file: renamed /workspace/a (once): {before}"),
        format!("program: ran memfd:made (once): {before}"),
        format!("syscall: map memfd:made (once): {before}"),
        format!("syscall: ptrace ptrace (tried in vain, 2 times): {before}"),
    ];
    assert_eq!(told(&acts(&none, &none), &b), expected);
    assert_eq!(told(&b, &b), [""; 0]);
    let kills = |rule: &str| format!("rule `{rule}` would kill it");
    let expected = [
        format!(
            "file: deleted /etc/passwd (tried in vain, once): {}",
            kills("account-change")
        ),
        format!("program: ran memfd:made (once): {}", kills("memory-exec")),
        format!(
            "syscall: ptrace ptrace (tried in vain, 2 times): {}",
            kills("process-injection")
        ),
    ];
    assert_eq!(told(&profile(""), &b), expected);
}

#[test]
fn a_name_that_is_looked_up_and_one_that_is_given_are_new() {
    let asks = |name: &str| {
        let report = json!({
            "schema": "turnkey.report/v1",
            "processes": [],
            "file_operations": [{"path": "/workspace/f1", "access": ["rename"], "count": 1, "result": "allowed"}],
            "network_attempts": [
                {"act": "send", "address": "127.0.0.1:53", "name": name, "count": 2, "result": "denied"},
            ],
            "violations": [
                {"on": "open", "access": ["write"], "path": "/workspace/.bashrc", "count": 1, "result": "allowed"},
            ],
        });
        DiffSubject::Report(RunUses::read(&report).expect("a report"))
    };
    let expected = ["address: look up evil.example (tried in vain, 2 times): not done before"];
    assert_eq!(told(&asks("example.org"), &asks("evil.example")), expected);
    let against = told(&profile(""), &asks("example.org"));
    let start = "file: wrote /workspace/.bashrc (once): rule `shell-startup` would kill it";
    assert!(against.iter().any(|one| one == start), "{against:?}");
}

#[test]
fn a_file_that_was_not_there_is_held_against_nobody() {
    let of = |errno: &str| {
        let row = json!({
            "path": "/workspace/.aws/credentials", "access": ["read"], "count": 1, "result": "failed", "errno": errno,
        });
        told(&profile(""), &acts(&json!([row]), &json!([])))
    };
    assert_eq!(of("ENOENT"), [""; 0]);
    let kept = "file: read /workspace/.aws/credentials (tried in vain, once): rule `stored-credential` would kill it";
    assert_eq!(of("EACCES"), [kept]);
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
        "address: network.mode loopback: it has none",
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
            turnkey_report::unescape(&turnkey_report::escape(bytes)),
            bytes
        );
    }
}

#[test]
fn a_version_at_another_place_does_what_it_did_there() {
    let before = [
        ("read", "/workspace/r2.31.0/requests/api.py"),
        ("read", "/workspace/r2.31.0/requests/certs.pem"),
        ("write", "/opt/old/cache/index"),
        ("write", "/opt/old/cache/data"),
    ];
    let after = [
        ("read", "/workspace/r2.32.3/requests/api.py"),
        ("read", "/workspace/r2.32.3/requests/certs.pem"),
        ("read", "/srv/data"),
        ("write", "/opt/new/cache/index"),
        ("write", "/opt/new/cache/data"),
        ("read", "/workspace/.netrc"),
    ];
    let b = report(&after, &[]);
    assert_eq!(
        told(&report(&before, &[]), &b).len(),
        6,
        "every path is another one"
    );
    let mapped = |maps: &[&str]| {
        let mut a = report(&before, &[]);
        let maps: Vec<_> = maps.iter().map(|map| map.parse().expect("a map")).collect();
        a.map(&b, &maps).expect("both are reports");
        told(&a, &b)
    };
    let expected = [
        "file: read /srv/data (2 times): not done before",
        "file: read /workspace/.netrc (2 times): not done before",
    ];
    assert_eq!(mapped(&["auto"]), expected);
    let given = ["r2.31.0=r2.32.3", "/opt/old=/opt/new"];
    assert_eq!(mapped(&given), expected);
    let mut a = profile("");
    assert!(a.map(&b, &[MapArgument::Auto]).is_err());
    assert!(a.map(&b, &[]).is_ok());
}
