//! Files as other tools have them, and the profiles that come of them.

use std::collections::BTreeSet;

use turnkey_policy::{Attempt, AttemptKind, OpenAccess, Overrides, Policy, decide, load};

use super::page::ProfilePage;
use super::{read, verify};

fn imported(text: &str) -> ProfilePage {
    read(text, "file.json", Some("/home/user"), true).expect("it can be imported")
}

fn policy(page: &ProfilePage) -> Policy {
    let profile = page.text();
    if let Err(failure) = verify(&profile) {
        panic!("{failure:?}\n{profile}");
    }
    let files = |_: &str| Ok(profile.clone());
    load("./imported.toml", &files, &Overrides::default()).expect("it was verified")
}

/// With every construct that engines resolve.
const SECCOMP: &str = r#"{
  "defaultAction": "SCMP_ACT_ERRNO",
  "defaultErrnoRet": 38,
  "archMap": [{ "architecture": "SCMP_ARCH_X86_64", "subArchitectures": ["SCMP_ARCH_X86"] }],
  "flags": ["SECCOMP_FILTER_FLAG_LOG"],
  "syscalls": [
    { "names": ["read", "write", "close", "openat", "stat64", "ptrace", "getrandom"], "action": "SCMP_ACT_ALLOW" },
    { "names": ["socket"], "action": "SCMP_ACT_ALLOW", "args": [{ "index": 0, "value": 1, "op": "SCMP_CMP_EQ" }] },
    { "names": ["futex"], "action": "SCMP_ACT_ALLOW", "args": [{ "index": 1, "value": 1, "op": "SCMP_CMP_EQ" }] },
    { "names": ["mount"], "action": "SCMP_ACT_ALLOW", "includes": { "caps": ["CAP_SYS_ADMIN"] } },
    { "names": ["arch_prctl"], "action": "SCMP_ACT_ALLOW", "includes": { "arches": ["amd64", "x32"] } },
    { "names": ["getpid"], "action": "SCMP_ACT_ALLOW", "includes": { "arches": ["arm64"] } },
    { "names": ["clone"], "action": "SCMP_ACT_ALLOW", "excludes": { "caps": ["CAP_SYS_ADMIN"], "arches": ["s390x"] } },
    { "names": ["getppid"], "action": "SCMP_ACT_ALLOW", "excludes": { "arches": ["amd64"] } },
    { "names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": 38 },
    { "names": ["reboot"], "action": "SCMP_ACT_KILL_PROCESS" },
    { "name": "getuid", "action": "SCMP_ACT_LOG" }
  ]
}"#;

#[test]
fn a_seccomp_profile_of_a_container_engine() {
    let page = imported(SECCOMP);
    insta::assert_snapshot!("seccomp", page.text());
    let allowed = policy(&page).syscalls.allow;
    for name in [
        "read",
        "getrandom",
        "socket",
        "arch_prctl",
        "clone",
        "getuid",
    ] {
        assert!(allowed.contains(name), "{name}");
    }
    for name in ["ptrace", "futex", "mount", "getpid", "getppid", "fork"] {
        assert!(!allowed.contains(name), "{name}");
    }
}

#[test]
fn a_list_of_what_is_refused_leaves_the_rest() {
    let text = r#"{ "defaultAction": "SCMP_ACT_ALLOW", "syscalls": [
        { "names": ["socket", "connect"], "action": "SCMP_ACT_ERRNO" } ] }"#;
    let page = imported(text);
    let allowed = policy(&page).syscalls.allow;
    let all: BTreeSet<&str> = turnkey_policy::syscalls::GROUPS
        .iter()
        .flat_map(|group| group.syscalls.iter().copied())
        .collect();
    let refused: Vec<&str> = all.difference(&allowed).copied().collect();
    assert_eq!(refused, ["connect", "socket"]);
}

#[test]
fn settings_of_sandbox_runtime() {
    let page = imported(
        r#"{
  "network": {
    "allowedDomains": ["api.example.org:443", "*.example.org", "example.net", "bad.example.net", "localhost:8080"],
    "deniedDomains": ["bad.example.net"],
    "allowUnixSockets": ["/var/run/docker.sock"],
    "allowLocalBinding": true,
    "httpProxyPort": 3128
  },
  "filesystem": {
    "denyRead": ["~/.ssh", "/srv/private/"],
    "allowWrite": [".", "src/", "/tmp", "/srv/results", "~/.npm", "../up", "~other/x"],
    "denyWrite": [".env", "config/production.json"]
  },
  "ignoreViolations": { "*": ["/usr/bin"] }
}"#,
    );
    insta::assert_snapshot!("settings", page.text());
    let policy = policy(&page);
    let attempt = |path: &'static str, access: &'static [OpenAccess]| Attempt {
        path: Some(path.as_bytes()),
        access,
        ..Attempt::new(AttemptKind::Open)
    };
    let decided = |path, access| {
        let rule = decide(&policy.rules, &attempt(path, access));
        rule.map(|index| policy.rules[index].id.clone())
            .unwrap_or_default()
    };
    for path in ["/srv/private", "/srv/private/deep/file"] {
        let rule = decided(path, &[OpenAccess::Read]);
        assert_eq!(rule, "imported-deny-read", "{path}");
    }
    assert_eq!(decided("/srv/privates", &[OpenAccess::Read]), "");
    assert_eq!(
        decided("/workspace/.env", &[OpenAccess::Write]),
        "imported-deny-write"
    );
    assert_eq!(decided("/workspace/.env", &[OpenAccess::Read]), "");
    let written: Vec<_> = policy
        .filesystem
        .write
        .iter()
        .map(|place| place.path.clone())
        .collect();
    assert_eq!(
        written,
        ["/srv/results", "/home/user/.npm"].map(std::path::PathBuf::from)
    );
}

#[test]
fn what_a_file_holds_cannot_leave_its_text() {
    let page = imported(
        "{ \"filesystem\": { \"denyRead\": [\"/a\\\"]\\n[limits]\\nmemory = \\\"1T\\\"\"] }, \"x\\ny = 1\": 1 }",
    );
    let mine = policy(&page);
    let untrusted = load(
        "untrusted",
        &|_: &str| Err(String::new()),
        &Overrides::default(),
    );
    assert_eq!(mine.limits, untrusted.expect("it is shipped").limits);
}

#[test]
fn what_is_neither_is_refused() {
    let told: String = [
        "not json",
        "{}",
        "[]",
        r#"{ "defaultAction": "ALLOW" }"#,
        r#"{ "defaultAction": "SCMP_ACT_ERRNO", "syscalls": [{ "names": "read" }] }"#,
        r#"{ "filesystem": { "denyRead": "~/.ssh" } }"#,
    ]
    .iter()
    .map(|text| match read(text, "file.json", None, true) {
        Ok(page) => panic!("{text}: {page:?}"),
        Err(error) => format!("{text}\n    {error:#}\n"),
    })
    .collect();
    insta::assert_snapshot!("refused", told);
}

/// So many directories do not fit with all that is below them: what is not carried over is said, with what is to be done about it.
#[test]
fn what_lies_below_more_directories_than_fit_is_left_out_in_words() {
    let letters = |number: usize| format!("{:x}", number * 7_919 + 104_729).repeat(3);
    let places: Vec<String> = (0..90)
        .map(|at| format!("\"/srv/{}/{}\"", letters(at), letters(at + 90)))
        .collect();
    let text = format!(
        r#"{{"network": {{"allowedDomains": []}}, "filesystem": {{"denyRead": [{}]}}}}"#,
        places.join(", ")
    );
    let read = |whole| read(&text, "file.json", None, whole).expect("it can be imported");
    assert!(verify(&read(true).text()).is_err(), "the control");
    let page = read(false);
    assert!(verify(&page.text()).is_ok());
    let said = page
        .notes()
        .iter()
        .filter(|note| note.contains("no room for what lies in it"));
    assert_eq!(said.count(), 90);
}
