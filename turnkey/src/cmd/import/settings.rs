//! Settings of Anthropic's sandbox-runtime, as its `~/.srt-settings.json` has them.
//!
//! There everything can be read but what `denyRead` names, and nothing written or reached but what is
//! named. In a jail nothing is there but what the profile shows.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Context;
use serde::Deserialize;
use serde_json::Value;
use turnkey_policy::WORKSPACE;

use super::page::{ProfilePage, list};
use turnkey_policy::quoted;

#[derive(Debug, Deserialize)]
struct SrtSettings {
    #[serde(default)]
    network: SrtNetwork,
    #[serde(default)]
    filesystem: SrtFilesystem,
    #[serde(flatten)]
    rest: BTreeMap<String, Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct SrtNetwork {
    allowed_domains: Vec<String>,
    denied_domains: Vec<String>,
    allow_unix_sockets: Vec<String>,
    allow_all_unix_sockets: bool,
    allow_local_binding: bool,
    #[serde(flatten)]
    rest: BTreeMap<String, Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct SrtFilesystem {
    deny_read: Vec<String>,
    allow_read: Vec<String>,
    allow_write: Vec<String>,
    deny_write: Vec<String>,
    #[serde(flatten)]
    rest: BTreeMap<String, Value>,
}

/// Reads settings; `home` stands for `~` in them. `whole`: what lies below the places that the jail does not show is named as well, which
/// fills much of the kernel's table.
pub fn read(
    value: Value,
    file: &str,
    home: Option<&str>,
    whole: bool,
) -> anyhow::Result<ProfilePage> {
    let settings: SrtSettings = serde_json::from_value(value).context("these are no settings")?;
    let mut page = ProfilePage::new(format!("As {file} says, on top of untrusted"));
    write(&settings.filesystem, home, &mut page);
    network(&settings.network, &mut page);
    rules(&settings.filesystem, (home, whole), &mut page);
    reads(&settings.filesystem, &mut page);
    let unknown = [
        ("", &settings.rest),
        ("network.", &settings.network.rest),
        ("filesystem.", &settings.filesystem.rest),
    ];
    for (table, rest) in unknown {
        for key in rest.keys() {
            page.note(format!("`{table}{key}` has no counterpart in a profile"));
        }
    }
    Ok(page)
}

/// The place of a path of the settings.
#[derive(Debug, PartialEq, Eq)]
enum PathPlace {
    /// In the caller's directory, which is `/workspace` in a jail: the rest of the path.
    Workdir(String),
    /// On the host, at the same place inside.
    Host(String),
}

impl PathPlace {
    fn parse(path: &str, home: Option<&str>) -> Result<Self, String> {
        let absolute = match (path.strip_prefix('~'), home) {
            (Some(rest), Some(home)) if rest.is_empty() || rest.starts_with('/') => {
                format!("{}{rest}", home.trim_end_matches('/'))
            }
            (Some(_), _) => return Err(format!("{path:?}: it is not known whose home is meant")),
            (None, _) => path.to_owned(),
        };
        if absolute.split('/').any(|part| part == "..") {
            return Err(format!("{path:?} leads upwards: name the place itself"));
        }
        let parts = absolute
            .split('/')
            .filter(|part| !part.is_empty() && *part != ".");
        let plain: String = parts.map(|part| format!("/{part}")).collect();
        Ok(if absolute.starts_with('/') {
            Self::Host(plain)
        } else {
            Self::Workdir(plain)
        })
    }

    /// As the rules see it.
    fn inside(&self) -> String {
        match self {
            Self::Workdir(rest) => format!("{WORKSPACE}{rest}"),
            Self::Host(path) => path.clone(),
        }
    }
}

/// `allowWrite`: places of the host that the jail may change.
fn write(filesystem: &SrtFilesystem, home: Option<&str>, page: &mut ProfilePage) {
    let mut entries = String::new();
    for path in &filesystem.allow_write {
        match PathPlace::parse(path, home) {
            Err(why) => page.note(format!("allowWrite {why}")),
            Ok(PathPlace::Workdir(_)) => page.note(format!(
                "allowWrite {path:?}: what the program writes in its directory is kept apart and thrown away; bring it out with --export DIR, or give the directory itself with --write"
            )),
            Ok(PathPlace::Host(path)) if path.contains(WILDCARDS) => page.note(format!(
                "allowWrite {path:?} is a pattern: a jail is given single places"
            )),
            Ok(PathPlace::Host(place)) if ["", "/tmp", "/dev", "/proc", "/sys", "/etc"].contains(&place.as_str()) => {
                page.note(format!(
                    "allowWrite {path:?}: the jail has its own; of the host's nothing is given"
                ));
            }
            Ok(PathPlace::Host(place)) => entries.push_str(&format!(
                "    {{ path = {}, optional = true, why = \"allowWrite\" }},\n",
                quoted(&place)
            )),
        }
    }
    if !entries.is_empty() {
        page.section(&format!("[filesystem]\nwrite = [\n{entries}]"));
    }
}

/// Ports that a domain without one is carried over with.
const PORTS: [u16; 2] = [443, 80];

/// `allowedDomains`: each name, looked up once before the program starts.
fn network(network: &SrtNetwork, page: &mut ProfilePage) {
    let denied: BTreeSet<&String> = network.denied_domains.iter().collect();
    let mut entries = String::new();
    for domain in network
        .allowed_domains
        .iter()
        .filter(|domain| !denied.contains(domain))
    {
        if domain.contains('*') {
            page.note(format!(
                "allowedDomains {domain:?}: names are looked up before the program starts, so each has to be written out"
            ));
        } else if domain.split(':').next() == Some("localhost") {
            page.note(format!(
                "allowedDomains {domain:?}: the jail's localhost is its own, and not the host's"
            ));
        } else {
            entries.push_str(&endpoints(domain, page));
        }
    }
    if !entries.is_empty() {
        page.section(&format!(
            "[network]\nmode = \"allow\"\nallow = [\n{entries}]"
        ));
    } else if network.allow_local_binding {
        page.section("[network]\nmode = \"loopback\"");
    }
    if network.allow_all_unix_sockets || !network.allow_unix_sockets.is_empty() {
        page.note("allowUnixSockets: sockets of the host are not in a jail; its own work");
    }
}

/// A domain with its port, or with the ports of the web.
fn endpoints(domain: &str, page: &mut ProfilePage) -> String {
    let after = domain.rsplit_once(']').map_or(domain, |(_, after)| after);
    let has_port = after.contains(':');
    let written = if has_port {
        vec![domain.to_owned()]
    } else {
        page.note(format!(
            "allowedDomains {domain:?} means every port there, and these two here: {}, {}",
            PORTS[0], PORTS[1]
        ));
        PORTS
            .iter()
            .map(|port| format!("{domain}:{port}"))
            .collect()
    };
    let entry = |to: &String| format!("    {{ to = {}, why = \"allowedDomains\" }},\n", quoted(to));
    written.iter().map(entry).collect()
}

/// `denyRead`, `allowRead` and `denyWrite`.
fn rules(filesystem: &SrtFilesystem, (home, whole): (Option<&str>, bool), page: &mut ProfilePage) {
    let shown = match whole {
        true => vec!["/".to_owned()],
        false => shown(filesystem, home),
    };
    let mut rule = |id: &str, head: &str, paths: &[String]| {
        let patterns = patterns((id, paths), home, &shown, page);
        if !patterns.is_empty() {
            page.section(&format!(
                "[[rule]]\nid = \"imported-{id}\"\n{head}\npath = {}\nwhy = \"{id}\"",
                list(&patterns)
            ));
        }
    };
    let read = "on = \"open\"\naccess = \"read\"\naction = ";
    let write = "on = [\"open\", \"link\", \"rename\", \"unlink\", \"chmod\"]\naccess = \"write\"\naction = ";
    rule(
        "deny-read",
        &format!("{read}\"kill\"\nseverity = \"high\""),
        &filesystem.deny_read,
    );
    rule(
        "allow-read",
        &format!("{read}\"allow\""),
        &filesystem.allow_read,
    );
    rule(
        "deny-write",
        &format!("{write}\"kill\"\nseverity = \"high\""),
        &filesystem.deny_write,
    );
}

/// Each path, and what lies below it.
fn patterns(
    (id, paths): (&str, &[String]),
    home: Option<&str>,
    shown: &[String],
    page: &mut ProfilePage,
) -> BTreeSet<String> {
    let mut patterns = BTreeSet::new();
    for path in paths {
        match PathPlace::parse(path, home) {
            Err(why) => page.note(format!("{id} {why}")),
            Ok(place) => {
                let place = literal(&place.inside());
                if place.contains(WILDCARDS) {
                    page.note(format!(
                        "{id} {path:?} is a pattern, and is taken as one of turnkey's"
                    ));
                    patterns.insert(place);
                } else if place.is_empty() {
                    patterns.insert("/**".to_owned());
                } else if shown
                    .iter()
                    .any(|shown| Path::new(&place).starts_with(shown))
                {
                    patterns.insert(format!("{place}{{,/**}}"));
                } else {
                    page.note(format!(
                        "{id} {path:?}: the kernel's table has no room for what lies in it, of which the jail shows nothing: with `filesystem.read` or --read of it, or of what it is in, add the pattern {:?}",
                        format!("{place}{{,/**}}")
                    ));
                    patterns.insert(place);
                }
            }
        }
    }
    patterns
}

/// The places at which a jail on top of `untrusted` holds something.
const SHOWN: [&str; 8] = [
    WORKSPACE, "/usr", "/bin", "/sbin", "/lib", "/etc", "/tmp", "/var/tmp",
];

/// The same, with what it is given to write.
fn shown(filesystem: &SrtFilesystem, home: Option<&str>) -> Vec<String> {
    let given = filesystem.allow_write.iter();
    let given = given.filter_map(|path| PathPlace::parse(path, home).ok());
    let given = given.map(|place| literal(&place.inside()));
    SHOWN.map(str::to_owned).into_iter().chain(given).collect()
}

/// The wildcards that mean the same to both.
const WILDCARDS: [char; 2] = ['*', '?'];

/// Without a meaning for what has one in turnkey's patterns alone.
fn literal(path: &str) -> String {
    let special = |c: char| "[]{},\\".contains(c);
    let mut literal = String::with_capacity(path.len());
    for c in path.chars() {
        if special(c) {
            literal.push('\\');
        }
        literal.push(c);
    }
    literal
}

/// Notes the differences in what can be read, and what is different whatever the settings say.
fn reads(filesystem: &SrtFilesystem, page: &mut ProfilePage) {
    page.note(
        "everything that is not denied can be read there; here only the system's directories and the workspace are there: show more with `filesystem.read` or --read",
    );
    if !filesystem.deny_read.is_empty() || !filesystem.deny_write.is_empty() {
        page.note(
            "what denyRead and denyWrite name is refused there; here the program is killed for it, as every kernel can: where `turnkey doctor` finds BPF LSM, `action = \"deny\"` refuses",
        );
    }
    if !filesystem.allow_read.is_empty() && !filesystem.deny_read.is_empty() {
        page.note(
            "allowRead wins over denyRead there; here the pattern with more literal bytes decides: ask with `turnkey explain --path`",
        );
    }
}
