//! Tests of the advice about paths that name nothing the next time, and of those that no advice opens.

use super::super::fixture;
use super::super::stopper::Outcome;
use super::*;

fn act(path: &str, on: AttemptKind, access: FileAccess, outcome: Outcome) -> ReportedAct {
    ReportedAct {
        on: Some(on),
        object: Object::File {
            path: Some(path.to_owned()),
            truncated: false,
            access: vec![access],
            raw: None,
            to: None,
            memory: Vec::new(),
        },
        outcome,
        errno: 0,
        for_arguments: None,
    }
}

fn rule(pattern: &str) -> Rule {
    Rule {
        path: vec![Glob::parse(pattern).unwrap()],
        access: [OpenAccess::Read, OpenAccess::Write].into(),
        ..fixture::policy().rules[fixture::CREDENTIALS].clone()
    }
}

fn proposed(pattern: &str, path: &str, access: FileAccess) -> String {
    let outcome = Outcome::Denied(Stopper::Monitor);
    let advice = for_rule_alone(
        "untrusted",
        &rule(pattern),
        &act(path, AttemptKind::Open, access, outcome),
    );
    let mut lines = advice.lines();
    let line = lines.find(|line| line.starts_with("path = "));
    line.unwrap_or_default().to_owned()
}

#[test]
fn the_name_of_a_file_for_a_while_is_proposed_as_a_pattern() {
    let path = "/workspace/.git/objects/3f/tmp_obj_AbC123";
    assert_eq!(
        proposed("/workspace/.git/**", path, FileAccess::Write),
        r#"path = ["/workspace/.git/objects/*/tmp_obj_*"]"#
    );
    // Whoever reads it knows its name.
    let exact = format!(r#"path = ["{path}"]"#);
    assert_eq!(
        proposed("/workspace/.git/**", path, FileAccess::Read),
        exact
    );
    // The pattern would not win against such a rule.
    assert_eq!(
        proposed(
            "/workspace/.git/objects/*/tmp_obj_A*",
            path,
            FileAccess::Write
        ),
        exact
    );
    assert_eq!(
        proposed(
            "/workspace/.git/**",
            "/workspace/.git/config",
            FileAccess::Write
        ),
        r#"path = ["/workspace/.git/config"]"#
    );
}

#[test]
fn the_working_directory_itself_is_removed_in_no_mode() {
    let advice = |path: &str, access: FileAccess| {
        let object = act(
            path,
            AttemptKind::Unlink,
            access,
            Outcome::Denied(Stopper::Mounts),
        )
        .object;
        for_layer(Stopper::Mounts, &object, None).unwrap_or_default()
    };
    for access in [FileAccess::Unlink, FileAccess::Rename] {
        let told = advice("/workspace", access);
        assert!(
            told.starts_with("no profile can allow it: it is a mount point"),
            "{told}"
        );
    }
    for (path, access) in [
        ("/workspace/a", FileAccess::Unlink),
        ("/workspace/a", FileAccess::Write),
        ("/workspace", FileAccess::Attribute),
    ] {
        assert_eq!(advice(path, access), "--workdir-mode overlay", "{path}");
    }
}

/// `/lib` is a link, and the kernel asks the rule about both names.
#[test]
fn a_name_below_a_link_of_the_root_is_allowed_with_the_one_that_it_leads_to() {
    let unit = "/lib/systemd/system/x.service";
    let both = proposed("/{,usr/}lib/systemd/system/**", unit, FileAccess::Write);
    assert_eq!(both, format!("path = [\"{unit}\", \"/usr{unit}\"]"));
    // A rule about the one name alone is asked about no other.
    let one = proposed("/lib/systemd/system/**", unit, FileAccess::Write);
    assert_eq!(one, format!("path = [\"{unit}\"]"));
}

#[test]
fn what_a_jail_has_of_its_own_is_changed_where_the_tree_is_its_own() {
    let advice = |path: &str, stopped_by: Stopper, access: FileAccess| {
        let object = act(path, AttemptKind::Open, access, Outcome::Denied(stopped_by)).object;
        for_layer(stopped_by, &object, None).unwrap_or_default()
    };
    let change = advice("/etc/hosts", Stopper::Mounts, FileAccess::Write);
    assert_eq!(change, WRITABLE_ROOT);
    let read = advice("/etc/hosts", Stopper::MountNamespace, FileAccess::Read);
    assert!(read.starts_with("no profile can allow it"), "{read}");
    let turnkeys = advice("/.turnkey-empty", Stopper::Landlock, FileAccess::Read);
    assert!(
        turnkeys.starts_with("no profile can allow it: turnkey"),
        "{turnkeys}"
    );
}

/// The name of a file is the program's own choice.
#[test]
fn whatever_a_file_is_called_that_file_alone_is_proposed() {
    let printable = (b'!'..=b'~').map(char::from);
    for c in printable.filter(|c| !"/\\".contains(*c)) {
        for name in [format!("x{c}y"), format!("{c}x{c}"), format!("[{c}")] {
            let path = format!("/workspace/secret/{name}");
            let line = proposed("/workspace/secret/**", &path, FileAccess::Read);
            let table: toml::Table = line.parse().unwrap();
            let pattern = table["path"][0].as_str().unwrap();
            let pattern = Glob::parse(pattern).unwrap();
            assert!(pattern.matches(path.as_bytes()), "{line}");
            assert!(!pattern.matches(b"/workspace/secret/key"), "{line}");
        }
    }
}

#[test]
fn what_is_of_a_process_is_proposed_for_whatever_number_it_has() {
    let of = |pattern, path| proposed(pattern, path, FileAccess::Read);
    let any = r#"path = ["/proc/*/net/tcp"]"#;
    assert_eq!(of("/proc/*/net/**", "/proc/2/net/tcp"), any);
    let fixed = r#"path = ["/proc/sys/kernel/core_pattern"]"#;
    assert_eq!(of("/proc/sys/**", "/proc/sys/kernel/core_pattern"), fixed);
}

/// A directory of everybody's is given to no program that nobody trusts.
#[test]
fn a_change_of_the_system_or_of_all_homes_is_one_that_is_thrown_away() {
    let advice = |path: &str, access: FileAccess| {
        let denied = Outcome::Denied(Stopper::Mounts);
        let object = act(path, AttemptKind::Unlink, access, denied).object;
        for_layer(Stopper::Mounts, &object, None).unwrap_or_default()
    };
    for path in [
        "/var/log",
        "/var/lib/x/y",
        "/opt/x",
        "/root/x",
        "/home/u",
        "/data/d",
    ] {
        assert_eq!(advice(path, FileAccess::Unlink), WRITABLE_ROOT, "{path}");
    }
    assert_eq!(
        advice("/home/u/notes", FileAccess::Write),
        "--write /home/u/notes"
    );
    let absent = |path: &str| of_what_is_there(&format!("--write {path}"), &[path.to_owned()]);
    assert_eq!(absent("/data/new"), WRITABLE_ROOT);
    assert_eq!(absent("/data/d/new"), "--write /data/d");
}

#[test]
fn the_credentials_of_a_machine_in_a_cloud_are_named_with_their_address() {
    let object = Object::Address {
        address: "169.254.169.254:80".to_owned(),
        socket: Some(SocketType::Stream),
        name: None,
    };
    let advice = for_layer(Stopper::NetworkNamespace, &object, None).unwrap();
    assert!(advice.contains("credentials of this machine"), "{advice}");
}
