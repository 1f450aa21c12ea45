//! Seccomp profiles as container engines have them: the `linux.seccomp` of the OCI runtime specification,
//! with the conditions on capabilities, architectures and kernels that engines resolve before.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, bail};
use serde::Deserialize;
use serde_json::Value;
use turnkey_policy::syscalls::{self, ABSENT, ESSENTIAL, GROUPS, SyscallGroup, arguments};

use super::page::ProfilePage;
use turnkey_policy::quoted;

const ALLOW: &str = "SCMP_ACT_ALLOW";
/// Allowed as well, and told to the kernel's log.
const LOG: &str = "SCMP_ACT_LOG";
const ERRNO: &str = "SCMP_ACT_ERRNO";
const EPERM: u64 = 1;
const ENOSYS: u64 = 38;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct OciSeccomp {
    default_action: String,
    default_errno_ret: Option<u64>,
    #[serde(default)]
    syscalls: Vec<OciEntry>,
    /// The architectures that the file speaks of: turnkey has one, and refuses the others.
    #[serde(rename = "archMap")]
    _arch_map: Option<Value>,
    #[serde(rename = "architectures")]
    _architectures: Option<Value>,
    #[serde(flatten)]
    rest: BTreeMap<String, Value>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct OciEntry {
    #[serde(default)]
    names: Vec<String>,
    /// As old files have it.
    name: Option<String>,
    action: String,
    errno_ret: Option<u64>,
    args: Option<Vec<Value>>,
    includes: Option<OciConditions>,
    excludes: Option<OciConditions>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OciConditions {
    caps: Vec<String>,
    arches: Vec<String>,
}

impl OciConditions {
    fn names_this_cpu(&self) -> bool {
        let names = ["amd64", "x86_64"];
        self.arches
            .iter()
            .any(|arch| names.contains(&arch.as_str()))
    }
}

impl OciEntry {
    /// True when the entry speaks of a program on this CPU without any capability, which is
    /// what a jail holds. Every kernel that turnkey runs on is newer than those that such files ask
    /// for.
    fn applies(&self) -> bool {
        let wanted = |conditions: &OciConditions| {
            conditions.caps.is_empty()
                && (conditions.arches.is_empty() || conditions.names_this_cpu())
        };
        let excluded = self
            .excludes
            .as_ref()
            .is_some_and(OciConditions::names_this_cpu);
        self.includes.as_ref().is_none_or(wanted) && !excluded
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().chain(&self.name).map(String::as_str)
    }

    fn is_conditional(&self) -> bool {
        self.args.as_ref().is_some_and(|args| !args.is_empty())
    }
}

/// The file's answers to calls, as far as it speaks of this CPU.
#[derive(Debug, Default)]
struct CallVerdicts {
    allowed: BTreeSet<String>,
    /// Allowed with some arguments.
    conditional: BTreeSet<String>,
    refused: BTreeSet<String>,
    /// Refused otherwise than with EPERM.
    otherwise: BTreeMap<String, BTreeSet<String>>,
}

/// Reads a file that has a `defaultAction`.
pub fn read(value: Value, file: &str) -> anyhow::Result<ProfilePage> {
    let seccomp: OciSeccomp = serde_json::from_value(value).context("it is no seccomp profile")?;
    let mut said = said(&seccomp)?;
    if is_allowed(&seccomp.default_action)? {
        let known = syscalls::known().map(str::to_owned);
        let unnamed = known.filter(|name| !said.refused.contains(name));
        let unnamed: Vec<String> = unnamed
            .filter(|name| !said.conditional.contains(name))
            .collect();
        said.allowed.extend(unnamed);
    }
    // Of two entries about one call the stricter is meant: turnkey does not guess.
    said.allowed = &said.allowed - &said.refused;
    said.conditional = &(&said.conditional - &said.allowed) - &said.refused;
    let mut page = ProfilePage::new(format!(
        "The system calls of {file}, and untrusted in everything else"
    ));
    let allowed = carried(said, &mut page);
    page.section(&section(&allowed));
    answers(&seccomp, &mut page);
    for key in seccomp.rest.keys() {
        page.note(format!("the key {key:?} is not known to turnkey"));
    }
    Ok(page)
}

fn is_allowed(action: &str) -> anyhow::Result<bool> {
    match action {
        ALLOW | LOG => Ok(true),
        action if action.starts_with("SCMP_ACT_") => Ok(false),
        other => bail!("{other:?} is no action: they begin with SCMP_ACT_"),
    }
}

fn said(seccomp: &OciSeccomp) -> anyhow::Result<CallVerdicts> {
    let mut said = CallVerdicts::default();
    for entry in seccomp.syscalls.iter().filter(|entry| entry.applies()) {
        let allowed = is_allowed(&entry.action)?;
        let names = entry.names().map(str::to_owned);
        match (allowed, entry.is_conditional()) {
            (true, false) => said.allowed.extend(names),
            // A call that is refused with some arguments is allowed with the others.
            (_, true) => said.conditional.extend(names),
            (false, false) => said.refused.extend(names),
        }
        let answer = answer(&entry.action, entry.errno_ret);
        if !allowed && answer != errno(EPERM) {
            let absent = |name: &str| answer == errno(ENOSYS) && ABSENT.contains(&name);
            let names = entry
                .names()
                .filter(|name| !absent(name))
                .map(str::to_owned);
            let names: Vec<String> = names.collect();
            said.otherwise.entry(answer).or_default().extend(names);
        }
    }
    Ok(said)
}

fn errno(number: u64) -> String {
    format!("{ERRNO} {number}")
}

fn answer(action: &str, number: Option<u64>) -> String {
    if action == ERRNO {
        return errno(number.unwrap_or(EPERM));
    }
    action.to_owned()
}

/// The calls that the profile may allow; what cannot be carried over is noted.
fn carried(said: CallVerdicts, page: &mut ProfilePage) -> BTreeSet<&'static str> {
    let known: BTreeSet<&str> = syscalls::known().collect();
    let named: BTreeSet<&str> = said
        .allowed
        .iter()
        .chain(&said.conditional)
        .map(String::as_str)
        .collect();
    let mut allowed = BTreeSet::new();
    let (mut strict, mut open, mut never, mut foreign) = (vec![], vec![], vec![], vec![]);
    for name in named {
        let conditional = said.conditional.contains(name);
        match syscalls::allowable(name) {
            None if known.contains(name) => never.push(name),
            None => foreign.push(name),
            Some(name) if conditional && !has_conditions(name) => open.push(name),
            Some(name) => {
                allowed.insert(name);
                if conditional {
                    strict.push(name);
                }
            }
        }
    }
    let missing: Vec<&str> = ESSENTIAL
        .iter()
        .copied()
        .filter(|name| !allowed.contains(name))
        .collect();
    allowed.extend(&missing);
    note(
        page,
        &strict,
        "allowed, with turnkey's own conditions on their arguments instead of the file's",
    );
    note(
        page,
        &open,
        "refused, as the file allows them with some arguments only and a profile cannot say which",
    );
    note(
        page,
        &never,
        "refused: no profile of turnkey can allow what would reach past the jail",
    );
    note(
        page,
        &missing,
        "allowed, because the jail's own init needs them",
    );
    note(
        page,
        &foreign,
        "no calls of this CPU, whose other tables are closed altogether",
    );
    for (answer, names) in said.otherwise {
        let names: Vec<&str> = names
            .iter()
            .map(String::as_str)
            .filter(|name| known.contains(name))
            .collect();
        note(
            page,
            &names,
            &format!("answered by turnkey's own table, not with {answer}"),
        );
    }
    allowed
}

fn has_conditions(name: &str) -> bool {
    arguments::REFUSALS
        .iter()
        .any(|refusal| refusal.syscalls.contains(&name))
}

fn note(page: &mut ProfilePage, names: &[&str], what: &str) {
    if !names.is_empty() {
        page.note(format!("{what}: {}", names.join(", ")));
    }
}

/// Notes a difference in the answer to calls that the file does not name.
fn answers(seccomp: &OciSeccomp, page: &mut ProfilePage) {
    let default = answer(&seccomp.default_action, seccomp.default_errno_ret);
    let allowed = [ALLOW, LOG].contains(&seccomp.default_action.as_str());
    if !allowed && default != errno(EPERM) {
        page.note(format!(
            "calls that the file does not name are answered with EPERM, and those that this kernel's table does not have with ENOSYS, not with {default}"
        ));
    }
}

/// Whole groups by their name, the rest by their own.
fn section(allowed: &BTreeSet<&'static str>) -> String {
    let mut lines = String::from("[syscalls]\ninherit = false\nallow = [\n");
    let (whole, part): (Vec<&SyscallGroup>, Vec<&SyscallGroup>) = GROUPS
        .iter()
        .partition(|group| group.syscalls.iter().all(|name| allowed.contains(name)));
    for group in whole {
        lines.push_str(&format!("    {}, # {}\n", quoted(group.name), group.about));
    }
    for group in part {
        let names: Vec<String> = group
            .syscalls
            .iter()
            .filter(|name| allowed.contains(*name))
            .map(|name| quoted(name))
            .collect();
        if !names.is_empty() {
            lines.push_str(&format!("    # of {}\n", group.name));
        }
        for names in names.chunks(6) {
            lines.push_str(&format!("    {},\n", names.join(", ")));
        }
    }
    lines.push(']');
    lines
}
