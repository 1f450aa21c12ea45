//! The allowances of one profile that another one does not have, key by key: a key of one value by what its declaration says is
//! wider, a list by its entries, rules by what they decide.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use turnkey_policy::keys::{KeyValue, ProfileKey, ValueForm};
use turnkey_policy::quantity::{format_duration, format_size};
use turnkey_policy::{
    AllowedHost, HostPath, NetworkMode, NetworkPolicy, Policy, ScratchMount, WorkdirMode,
};

use super::NewEntry;
use super::allowances::SideAllowances;
use super::rules::rules_beyond;
use turnkey_report::escape;

/// All that `above` allows and `below` does not.
pub fn new(below: &Policy, above: &Policy) -> BTreeSet<NewEntry> {
    let mut new = rules_beyond(&SideAllowances::of_profile(below), above);
    new.extend(scalars(below, above));
    new.extend(given_paths(below, above));
    new.extend(scratch(below, above));
    new.extend(tree(below, above));
    new.extend(hosts(&below.network, &above.network));
    new.extend(environment(below, above));
    new.extend(layers_and_calls(below, above));
    new.extend(findings(below, above));
    new
}

/// Keys of one value.
fn scalars(below: &Policy, above: &Policy) -> impl Iterator<Item = NewEntry> {
    let pairs = above.values().zip(below.values());
    let wider = pairs.filter(|((key, above), (_, below))| key.allows_more(above, below));
    wider.map(|((key, above), (_, below))| {
        let (above, below) = (written(key, &above), written(key, &below));
        let (kind, name, has) = match key.table {
            "limits" => ("limit", key.name.to_owned(), "gives"),
            "network" => ("address", key.path(), "has"),
            "identity" => ("identity", key.name.to_owned(), "has"),
            "behaviour" => ("behaviour", key.name.to_owned(), "has"),
            "enforcement" => ("rule", key.path(), "has"),
            _ => ("file", key.path(), "has"),
        };
        let name = match key.form {
            ValueForm::Percent => format!("{name} percent"),
            _ => name,
        };
        let (what, why) = (format!("{name} {above}"), format!("it {has} {below}"));
        NewEntry::of_key(kind, &what, &why, &key.path())
    })
}

fn written(key: &ProfileKey, value: &KeyValue) -> String {
    match value {
        KeyValue::Text(text) => escape(text.as_bytes()),
        KeyValue::Number(bytes) if matches!(key.form, ValueForm::Size) => format_size(*bytes),
        KeyValue::Number(number) => number.to_string(),
        KeyValue::Time(duration) => format_duration(*duration),
        KeyValue::Word(_, name) => (*name).to_owned(),
        KeyValue::Unlimited => "without limit".to_owned(),
    }
}

fn shown(path: &Path) -> String {
    escape(path.as_os_str().as_encoded_bytes())
}

/// The path of the host that an entry has at this place of the jail.
fn at_place(entry: &HostPath, place: &Path) -> Option<std::path::PathBuf> {
    let rest = place.strip_prefix(entry.place()).ok()?;
    Some(entry.path.join(rest))
}

/// Paths of the host that are given, each at its place in the jail.
fn given_paths(below: &Policy, above: &Policy) -> Vec<NewEntry> {
    let (below, above) = (&below.filesystem, &above.filesystem);
    let mut new = Vec::new();
    let all: Vec<&HostPath> = below.read.iter().chain(&below.write).collect();
    let writable: Vec<&HostPath> = below.write.iter().collect();
    let has = |entries: &[&HostPath], path: &HostPath, listed: bool| {
        entries.iter().any(|entry| {
            at_place(entry, path.place()).is_some_and(|there| there == path.path)
                && (entry.list || !listed)
        })
    };
    let optional = |entries: &[HostPath], path: &HostPath| {
        let same = entries.iter().find(|entry| entry.path == path.path);
        path.optional && same.is_some_and(|entry| !entry.optional)
    };
    let sides = [
        (&above.read, &below.read, &all, "see", "filesystem.read"),
        (
            &above.write,
            &below.write,
            &writable,
            "write",
            "filesystem.write",
        ),
    ];
    for (entries, same, covering, does, key) in sides {
        for path in entries {
            let host = shown(&path.path);
            let place = match &path.at {
                Some(place) => format!(" at {}", shown(place)),
                None => String::new(),
            };
            let mut add = |what: String, why| new.push(NewEntry::of_key("file", &what, why, key));
            if !has(covering, path, false) {
                let why = match does {
                    "see" => "its tree does not hold it",
                    _ => "nothing can be written there",
                };
                add(format!("{does} {host} of the host{place}"), why);
            } else if path.list && !has(covering, path, true) {
                add(
                    format!("list {host} of the host{place}"),
                    "it lists nothing there",
                );
            }
            if optional(same, path) {
                add(
                    format!("a run without {host} of the host"),
                    "it requires that",
                );
            }
        }
    }
    new
}

/// Memory file systems.
fn scratch(below: &Policy, above: &Policy) -> Vec<NewEntry> {
    let (below, above) = (&below.filesystem, &above.filesystem);
    let new = above.scratch.iter().filter_map(|mount| {
        let place = shown(&mount.path);
        let is_in = |given: &Path| mount.path.starts_with(given);
        let larger = |own: &&ScratchMount| own.size < mount.size;
        let own = below.scratch.iter().filter(|own| is_in(&own.path));
        let (kind, what, why) = match own.max_by_key(|own| own.path.as_os_str().len()) {
            Some(own) => {
                let own = Some(own).filter(larger)?;
                let what = format!("scratch {place} {}", format_size(mount.size));
                ("limit", what, format!("it gives {}", format_size(own.size)))
            }
            None if below.write.iter().any(|own| is_in(own.place())) => return None,
            None => {
                let what = format!("write {place}, in memory");
                ("file", what, "nothing can be written there".to_owned())
            }
        };
        Some(NewEntry::of_key(kind, &what, &why, "filesystem.scratch"))
    });
    new.collect()
}

/// The root, the workspace, and what is planted to be watched.
fn tree(below: &Policy, above: &Policy) -> Vec<NewEntry> {
    let (below, above) = (&below.filesystem, &above.filesystem);
    let mut new = Vec::new();
    let mut add = |what: &str, why, key| new.push(NewEntry::of_key("file", what, why, key));
    if let Some(root) = above.root.as_ref().filter(|_| above.root != below.root) {
        let what = format!("see {} as its root", shown(root));
        add(&what, "it has another root", "filesystem.root");
    }
    let key = "filesystem.workdir.mode";
    match (below.workdir.mode, above.workdir.mode) {
        (WorkdirMode::ReadOnly, WorkdirMode::Overlay | WorkdirMode::None) => {
            add("write /workspace", "nothing can be written there", key);
        }
        (WorkdirMode::None, WorkdirMode::Overlay | WorkdirMode::ReadOnly) => {
            add("see the caller's directory", "its /workspace is empty", key);
        }
        _ => {}
    }
    let decoys = below.decoys.iter();
    for decoy in decoys.filter(|decoy| !above.decoys.contains(decoy)) {
        let what = format!("a run without the decoy {}", shown(decoy));
        add(&what, "it plants that", "filesystem.decoys");
    }
    new
}

/// Hosts that the jail reaches, and ports by which it is reached.
fn hosts(below: &NetworkPolicy, above: &NetworkPolicy) -> Vec<NewEntry> {
    let allows = |host: &&AllowedHost| match below.mode {
        NetworkMode::Host => true,
        NetworkMode::Allow => below.allow.iter().any(|own| own.to.covers(&host.to)),
        NetworkMode::None | NetworkMode::Loopback | NetworkMode::Sinkhole => false,
    };
    let hosts = above.allow.iter();
    let hosts = hosts.filter(|host| above.mode == NetworkMode::Allow && !allows(host));
    let hosts = hosts.map(|host| {
        let what = format!("connect {}", escape(host.to.to_string().as_bytes()));
        let why = "it is none of the hosts that are allowed";
        NewEntry::of_key("address", &what, why, "network.allow")
    });
    let ports = above.publish.iter();
    let ports = ports.filter(|port| !below.publish.contains(port));
    let ports = ports.map(|port| {
        let what = format!("localhost:{} leads to port {}", port.host, port.inside);
        NewEntry::of_key(
            "address",
            &what,
            "it publishes no such port",
            "network.publish",
        )
    });
    hosts.chain(ports).collect()
}

/// Variables, each with its value: `None` for the caller's.
fn environment(below: &Policy, above: &Policy) -> Vec<NewEntry> {
    fn variables(policy: &Policy) -> BTreeMap<&str, Option<&str>> {
        let passed = policy.environment.pass.iter();
        let mut all: BTreeMap<&str, Option<&str>> =
            passed.map(|name| (name.as_str(), None)).collect();
        let set = policy.environment.set.iter();
        all.extend(set.map(|(name, value)| (name.as_str(), Some(value.as_str()))));
        all
    }
    let below = variables(below);
    let above = variables(above).into_iter();
    let new = above.filter(|(name, value)| below.get(name) != Some(value));
    new.map(|(name, value)| {
        let why = match below.get(name) {
            None => "it does not hand it in".to_owned(),
            Some(None) => "it hands in the caller's".to_owned(),
            Some(Some(other)) => format!("it sets {}", escape(other.as_bytes())),
        };
        let name = escape(name.as_bytes());
        let (what, key) = match value {
            None => (name, "env.pass"),
            Some(value) => (format!("{name}={}", escape(value.as_bytes())), "env.set"),
        };
        NewEntry::of_key("environment", &what, &why, key)
    })
    .collect()
}

fn layers_and_calls(below: &Policy, above: &Policy) -> Vec<NewEntry> {
    let calls = above.syscalls.allow.difference(&below.syscalls.allow);
    let calls = calls.map(|name| {
        let (what, why) = (format!("{name}(2)"), "its filter refuses it");
        NewEntry::of_key("syscall", &what, why, "syscalls.allow")
    });
    let required = &below.enforcement.required;
    let layers = required.difference(&above.enforcement.required);
    let layers = layers.map(|layer| {
        let what = format!("a run without {layer}");
        NewEntry::of_key("layer", &what, "it requires that", "enforcement.required")
    });
    calls.chain(layers).collect()
}

/// Findings that are accepted, and imports that are none.
fn findings(below: &Policy, above: &Policy) -> Vec<NewEntry> {
    let accepted = above.accepted.iter().filter_map(|accepted| {
        let own = below.accepted.iter();
        let own = own.into_iter().find(|own| own.finding == accepted.finding);
        let why = match own {
            None => "it does not accept that".to_owned(),
            Some(own) if own.until < accepted.until => format!("it does until {}", own.until),
            Some(_) => return None,
        };
        let id = escape(accepted.finding.as_bytes());
        let what = format!("accept {id} until {}", accepted.until);
        Some(NewEntry::of_key("finding", &what, &why, "accept"))
    });
    let (own, imports) = (&below.scan.allowed_imports, &above.scan.allowed_imports);
    let new = |what: String| {
        let why = "it allows some others alone";
        NewEntry::of_key("finding", &what, why, "scan.allowed_imports")
    };
    let every =
        (imports.is_empty() && !own.is_empty()).then(|| new("import any module".to_owned()));
    let more = imports.difference(own).filter(|_| !own.is_empty());
    let more = more.map(|module| new(format!("import {}", escape(module.as_bytes()))));
    accepted.chain(every).chain(more).collect()
}
