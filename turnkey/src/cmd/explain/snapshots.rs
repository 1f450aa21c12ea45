//! The whole page for a host that does not exist, what other profiles change in it, and the shape of the object.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use serde_json::Value;
use similar::{ChangeTag, TextDiff};
use turnkey_jailer::hierarchy::{CgroupHierarchies, Controller, ControllerHome};
use turnkey_jailer::host::PathFact;
use turnkey_jailer::host::storage::HostStorage;
use turnkey_jailer::{HardLimits, Host, JailCommand, NamespaceIds, Plan};
use turnkey_policy::{HostPath, Overrides, Policy, SHIPPED};

use super::text;
use super::view::PlanView;

pub(super) fn policy(profile: &str) -> Policy {
    let no_files = |path: &str| Err(format!("{path}: no files here"));
    turnkey_policy::load(profile, &no_files, &Overrides::default()).expect("a shipped profile")
}

/// A host with a merged /usr, controllers on both versions, and little in /etc.
pub(super) fn host() -> Host {
    let symlink = |text: &str| PathFact::Symlink {
        text: format!("usr/{text}").into(),
        leads_to: Some(format!("/usr/{text}").into()),
    };
    let mut paths: BTreeMap<PathBuf, PathFact> = ["bin", "sbin", "lib", "lib64"]
        .into_iter()
        .flat_map(|name| {
            let target = PathBuf::from(format!("/usr/{name}"));
            [
                (PathBuf::from(format!("/{name}")), symlink(name)),
                (target, PathFact::Directory),
            ]
        })
        .collect();
    paths.insert("/usr".into(), PathFact::Directory);
    paths.insert("/etc/ld.so.cache".into(), PathFact::File);
    paths.insert("/etc/ssl/certs".into(), PathFact::Directory);
    let memory = ControllerHome::Legacy("/sys/fs/cgroup/memory".into());
    Host {
        paths,
        root: None,
        landlock_abi: 6,
        hierarchies: CgroupHierarchies::new(
            "/sys/fs/cgroup/unified".into(),
            vec![
                (Controller::Memory, memory),
                (Controller::Pids, ControllerHome::Unified),
                (Controller::Cpu, ControllerHome::Unified),
            ],
        ),
        storage: HostStorage::default(),
        addresses: Vec::new(),
        names: turnkey_jailer::host::NameResolution::default(),
        ids: NamespaceIds::All,
        hard_limits: HardLimits::default(),
        ceilings: Vec::new(),
        last_capability: 40,
        cpus: 8,
    }
}

pub(super) fn plan(policy: &Policy, host: &Host, arguments: &[&str]) -> Plan {
    let command = JailCommand {
        arguments: arguments.iter().map(OsString::from).collect(),
        environment: vec![
            ("LANG".into(), "C.UTF-8".into()),
            ("SECRET".into(), "x".into()),
        ],
        workdir: "/home/user/project".into(),
        ..JailCommand::default()
    };
    Plan::new(policy, host, command).expect("a plan for this host")
}

fn view(policy: &Policy, arguments: &[&str]) -> PlanView {
    PlanView::new(&plan(policy, &host(), arguments))
}

fn page(view: &PlanView) -> String {
    let mut page = Vec::new();
    text::write(view, &mut page).expect("memory takes it");
    String::from_utf8(page).expect("the page is text")
}

fn object(view: &PlanView) -> String {
    let object = turnkey_report::json::page(view).expect("it is JSON");
    String::from_utf8(object).expect("JSON is text")
}

#[test]
fn untrusted() {
    let mut view = view(&policy("untrusted"), &["python3", "script.py"]);
    // The digest changes with every comment of the profile.
    view.profile.sha256 = "(of the profile)".to_owned();
    insta::assert_snapshot!("untrusted", page(&view));
    let object: Value = serde_json::from_str(&object(&view)).expect("it is JSON");
    let mut keys = BTreeMap::new();
    first_values("", &object, &mut keys);
    let keys = keys.iter().map(|(key, value)| format!("{key}: {value}\n"));
    insta::assert_snapshot!("untrusted_json", keys.collect::<String>());
}

/// Every key of the object with the first value that it has; the page says all values.
fn first_values(key: &str, value: &Value, into: &mut BTreeMap<String, Value>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                first_values(&format!("{key}.{name}"), value, into);
            }
        }
        Value::Array(values) => {
            for value in values {
                first_values(&format!("{key}[]"), value, into);
            }
        }
        _ => drop(into.entry(key.to_owned()).or_insert_with(|| value.clone())),
    }
}

/// The lines by which the page of a profile differs from that of `untrusted` in the same mode, below the headings they stand under.
fn changes(profile: &str) -> String {
    let mode = policy(profile).enforcement.mode;
    let [base, page] = ["untrusted", profile].map(|profile| {
        let mut view = view(&policy(profile).with_mode(mode), &["./run"]);
        view.profile.sha256 = String::new();
        let lines: Vec<String> = page(&view).lines().map(without_number).collect();
        lines.join("\n") + "\n"
    });
    let (mut changes, mut heading, mut shown) = (String::new(), "", "");
    for change in TextDiff::from_lines(&base, &page).iter_all_changes() {
        let line = change.value();
        if !line.starts_with(' ') && line != "\n" {
            heading = line;
        }
        if change.tag() == ChangeTag::Equal {
            continue;
        }
        if heading != shown && heading != line {
            changes.push_str(&format!("@ {heading}"));
        }
        shown = heading;
        changes.push_str(&format!("{}{change}", change.tag()));
    }
    changes
}

/// A step without its number, which changes with each step before it.
fn without_number(line: &str) -> String {
    let step = line.trim_start().split_once("  ");
    match step.filter(|(number, _)| number.parse::<u32>().is_ok()) {
        Some((_, step)) => format!("  {step}"),
        None => line.to_owned(),
    }
}

#[test]
fn what_other_profiles_change() {
    let others = SHIPPED.iter().filter(|(name, _)| *name != "untrusted");
    for (profile, _) in others.filter(|(name, _)| !policy(name).makes_no_jail()) {
        insta::assert_snapshot!(*profile, changes(profile));
    }
}

#[test]
fn hosts_that_are_allowed() {
    let mut policy = policy("untrusted");
    let allowed = |to: &str, addresses: &[&str]| {
        let overrides = Overrides::from_flags([("allow", to)]).expect("a flag");
        let no_files = |_: &str| Err(String::new());
        let entry = turnkey_policy::load("untrusted", &no_files, &overrides);
        let entry = entry.expect("it is right").network.allow.remove(0);
        turnkey_policy::AllowedHost {
            addresses: addresses.iter().map(|it| it.parse().unwrap()).collect(),
            why: "packages".to_owned(),
            ..entry
        }
    };
    policy.network.mode = turnkey_policy::NetworkMode::Allow;
    policy.network.allow = vec![
        allowed("example.org:443", &["192.0.2.7", "2001:db8::7"]),
        allowed("169.254.0.0/15:80-81", &[]),
    ];
    let view = view(&policy, &["./run"]);
    let page = page(&view);
    let (_, page) = page.split_once("Namespaces").expect("there are some");
    let (page, _) = page.split_once("\nIdentity").expect("and then that");
    insta::assert_snapshot!("hosts", page);
    let network = serde_json::to_string_pretty(&view.network).expect("it is JSON");
    insta::assert_snapshot!("hosts_json", network);
}

#[test]
fn the_hosts_network() {
    let mut policy = policy("untrusted");
    policy.network.mode = turnkey_policy::NetworkMode::Host;
    turnkey_supervisor::names::resolve(&mut policy).expect("nothing is asked for");
    let view = view(&policy, &["./run"]);
    let page = page(&view);
    let (_, page) = page.split_once("Namespaces").expect("there are some");
    let (page, _) = page.split_once("\nIdentity").expect("and then that");
    insta::assert_snapshot!("the_hosts_network", page);
}

#[test]
fn hostile_names_cannot_steer_a_terminal() {
    let mut policy = policy("untrusted");
    let hostile = OsString::from_vec(b"/srv/\x1b[2J\xff\n".to_vec());
    policy.filesystem.read = vec![HostPath {
        path: PathBuf::from(&hostile),
        at: None,
        optional: true,
        list: true,
        why: "\u{202e}because\x07".to_owned(),
    }];
    let mut host = host();
    host.paths.insert(hostile.into(), PathFact::Directory);
    let command = JailCommand {
        arguments: vec!["a\x1b]0;title\x07".into()],
        environment: Vec::new(),
        workdir: "/home/user/\u{9b}2J".into(),
        ..JailCommand::default()
    };
    let view = PlanView::new(&Plan::new(&policy, &host, command).unwrap());
    for text in [page(&view), object(&view)] {
        let control = text
            .chars()
            .find(|c| c.is_control() && *c != '\n' || *c == '\u{202e}');
        assert_eq!(control, None);
        assert!(text.contains("x1b[2J"), "the path is shown");
    }
}
