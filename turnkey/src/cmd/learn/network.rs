//! From whom a run talked to, to whom a profile lets it talk: what is plain is allowed, and what could
//! lead to more than was meant is left to a person.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use turnkey_policy::{
    AllowedHost, Attempt, AttemptKind, Endpoint, NetworkMode, Policy, Rule, RuleAction,
    SpecialAddress, address, decide, endpoint,
};

use super::contacts::{ContactKey, ContactKind, MadeBy, NAME_SERVER, RunContacts};
use super::draft::{AllowedPattern, LeftOut, against};
use super::seen::UsedBy;
use turnkey_facts::Passage;
use turnkey_report::errno_name;

/// More hosts than these are no list that anybody reads.
const MOST: usize = 64;

/// The network that a run has talked through.
#[derive(Debug, Default)]
pub struct ContactFacts {
    /// The hosts that were allowed, each name with what it led to.
    pub allowed: Vec<AllowedHost>,
    /// The allowed hosts that were given as flags, as they are written.
    pub flags: BTreeSet<String>,
    /// The host's own addresses.
    pub own: Vec<IpAddr>,
    /// The addresses of names that the program had asked for itself, in the host's network.
    pub names: BTreeMap<String, Vec<IpAddr>>,
    /// The traffic that turnkey has passed on.
    pub passages: Vec<Passage>,
    /// The mode was given as a flag, or follows from one.
    pub is_mode_given: bool,
}

/// The contents of `[network]` to be written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkDraft {
    /// The mode and why it is this one; `None` where the profile below has it already.
    pub mode: Option<(NetworkMode, String)>,
    /// Hosts to be allowed.
    pub hosts: Vec<AllowedPattern>,
    /// For a person.
    pub left_out: BTreeSet<LeftOut>,
    /// Worth a word.
    pub notes: BTreeSet<String>,
}

/// The fate of a contact.
enum ContactFate {
    /// The jail's own loopback is enough.
    ToItself,
    /// The host is to be on the list.
    Host(String),
    /// The profile below has it on its list.
    SaidAlready,
    /// A person decides.
    Decide(String),
}

/// The network section of a profile; one that is added to never allows less than before.
pub fn talk(
    contacts: &RunContacts,
    policy: &Policy,
    around: &ContactFacts,
    is_added_to: bool,
) -> NetworkDraft {
    let mut talk = NetworkDraft::default();
    let mut hosts: BTreeMap<String, MadeBy> = BTreeMap::new();
    let mut to_itself = UsedBy::default();
    let mut needed = NetworkMode::None;
    for (contact, made) in &contacts.made {
        match fate((contact, made), contacts, policy, around) {
            ContactFate::ToItself => {
                needed = needed.max(NetworkMode::Loopback);
                to_itself.join(&made.by);
            }
            ContactFate::SaidAlready => needed = NetworkMode::Allow,
            ContactFate::Host(host) => {
                let known = hosts.entry(host).or_default();
                known.by.join(&made.by);
                known.names.extend(made.names.iter().cloned());
            }
            ContactFate::Decide(why) => {
                let words = format!("{} ({}): {why}", in_words(contact), made.by.words());
                talk.left_out.insert(LeftOut {
                    words,
                    pattern: None,
                });
            }
        }
        if contact.act == ContactKind::Wait && contact.address.ip().is_unspecified() {
            talk.notes.insert(format!(
                "{} ({}): every address, which is nobody else's in a jail, and everybody's outside of one",
                in_words(contact),
                made.by.words()
            ));
        }
    }
    leave_out_a_crowd(&mut hosts, &mut talk);
    if !hosts.is_empty() {
        needed = NetworkMode::Allow;
    }
    let lines = hosts.iter().map(|(host, made)| AllowedPattern {
        pattern: host.clone(),
        why: why(host, made, around),
    });
    talk.hosts = lines.collect();
    name_the_rest(contacts, around, &hosts, &mut talk);
    // What is to be learned in the host's network is how to do without it.
    let is_wide_to_learn = around.is_mode_given && policy.network.mode == NetworkMode::Host;
    let lowest = match is_added_to && !is_wide_to_learn {
        true => policy.network.mode,
        false => needed,
    };
    let mode = needed.max(lowest);
    let is_said = is_added_to && mode == NetworkMode::None;
    if !is_said
        && (mode != policy.network.mode || around.is_mode_given && mode != NetworkMode::None)
    {
        let words = match mode {
            NetworkMode::None => "nobody was talked to".to_owned(),
            NetworkMode::Loopback => format!("{} on its own loopback", to_itself.words()),
            _ => "the hosts below, and nobody else".to_owned(),
        };
        talk.mode = Some((mode, words));
    }
    talk
}

fn fate(
    (contact, made): (&ContactKey, &MadeBy),
    contacts: &RunContacts,
    policy: &Policy,
    around: &ContactFacts,
) -> ContactFate {
    let (address, port) = (contact.address.ip(), contact.address.port());
    let rule = made.by.rule.and_then(|rule| policy.rules.get(rule));
    let names_peers = |rule: &&Rule| !rule.address.is_empty() || !rule.port.is_empty();
    // A notice about a network that is not given is silent once it is.
    let rule = rule.filter(|rule| names_peers(rule) && !rule.hidden);
    if let Some(rule) = rule.filter(|rule| rule.action >= RuleAction::Deny) {
        return ContactFate::Decide(against(rule));
    }
    if contact.act == ContactKind::Wait {
        return waits(contact, policy);
    }
    if !contact.datagrams && endpoint::allows(&around.allowed, &around.own, address, port) {
        let means = |entry: &&AllowedHost| {
            entry.to.ports.contains(port) && entry.nets().any(|net| net.contains(address))
        };
        // The narrowest says most about what was meant.
        let widest = |entry: &&AllowedHost| entry.nets().map(|net| net.length()).max();
        let entries = around.allowed.iter().filter(means);
        let entry = entries.max_by_key(widest).map(|entry| entry.to.to_string());
        return match entry.filter(|entry| around.flags.contains(entry)) {
            Some(entry) => ContactFate::Host(entry),
            None => ContactFate::SaidAlready,
        };
    }
    if port == NAME_SERVER {
        return ContactFate::Decide(
            "a name server; a host that is allowed by its name is known in the jail without one"
                .to_owned(),
        );
    }
    if address::is_own(address) {
        return talks_home(contact, policy, contacts);
    }
    if contact.datagrams {
        return ContactFate::Decide("to others a jail talks over TCP alone".to_owned());
    }
    match what_is_near(address, &around.own) {
        Some(what) => ContactFate::Decide(format!(
            "{what}; who means it writes {{ to = \"{}\", why = \"…\" }}",
            contact.address
        )),
        None => ContactFate::Host(by_name(contact, made, around)),
    }
}

/// The name that led there, where it is known: a program that asks for it finds it in the jail then.
fn by_name(contact: &ContactKey, made: &MadeBy, around: &ContactFacts) -> String {
    let (address, port) = (contact.address.ip(), contact.address.port());
    let leads_there = |name: &&String| {
        let found = around.names.get(*name);
        found.is_some_and(|found| found.contains(&address))
    };
    let mut names = made.names.iter().filter(leads_there);
    let entry = names.find_map(|name| Endpoint::parse(&format!("{name}:{port}")));
    entry.map_or_else(|| contact.address.to_string(), |entry| entry.to_string())
}

/// In the host's network the loopback is everybody's: only who waits there itself talks to itself.
fn talks_home(contact: &ContactKey, policy: &Policy, contacts: &RunContacts) -> ContactFate {
    let port = contact.address.port();
    let waits = |other: &&ContactKey| {
        let address = other.address.ip();
        // The kernel has chosen a port, which no event tells.
        let may_be_it = other.address.port() == port || other.address.port() == 0;
        other.act == ContactKind::Wait && may_be_it && address::is_own(address)
    };
    if policy.network.mode != NetworkMode::Host || contacts.made.keys().any(|other| waits(&other)) {
        return ContactFate::ToItself;
    }
    ContactFate::Decide(format!(
        "a service of this host; who means it writes {{ to = \"{}\", why = \"…\" }}",
        contact.address
    ))
}

fn waits(contact: &ContactKey, policy: &Policy) -> ContactFate {
    match contact.address.ip() {
        address if address.is_loopback() => ContactFate::ToItself,
        // Whoever has given the jail a loopback has decided.
        address
            if address.is_unspecified()
                && matches!(policy.network.mode, NetworkMode::Loopback | NetworkMode::Allow) =>
        {
            ContactFate::ToItself
        }
        address if address.is_unspecified() => ContactFate::Decide(
            "it waits for whoever comes, which is nobody outside of the jail; who means it writes mode = \"loopback\""
                .to_owned(),
        ),
        _ => ContactFate::Decide("no jail has that address".to_owned()),
    }
}

/// The reason why an address is nobody that a profile should name without a person's word.
fn what_is_near(address: IpAddr, own: &[IpAddr]) -> Option<&'static str> {
    if let Some(special) = SpecialAddress::from_address(address) {
        return Some(special.name());
    }
    if own.contains(&address) {
        return Some("an address of this host");
    }
    let is_private = match address {
        IpAddr::V4(four) => {
            let [first, second, ..] = four.octets();
            // Behind a carrier's translation, RFC 6598.
            four.is_private() || first == 100 && second & 0xc0 == 64
        }
        IpAddr::V6(six) => six.is_unique_local(),
    };
    is_private.then_some("a private address, which elsewhere is somebody else's")
}

/// The words on who talked to a host, how often, and with what success.
fn why(host: &str, made: &MadeBy, around: &ContactFacts) -> String {
    let mut words = made.by.words();
    if !made.names.is_empty() {
        let names: Vec<_> = made.names.iter().map(String::as_str).collect();
        words += &format!(", after asking for {}", names.join(" and "));
    }
    let entry = around
        .allowed
        .iter()
        .find(|entry| entry.to.to_string() == host);
    let is_it = |passage: &&Passage| match entry {
        Some(entry) => {
            let (address, port) = (passage.to.ip(), passage.to.port());
            entry.to.ports.contains(port) && entry.nets().any(|net| net.contains(address))
        }
        None => passage.to.to_string() == host,
    };
    let mut failed: BTreeMap<i32, u64> = BTreeMap::new();
    for passage in around.passages.iter().filter(is_it) {
        for (errno, count) in &passage.failures {
            *failed.entry(*errno).or_default() += count;
        }
    }
    for (errno, count) in failed {
        let name = errno_name(errno).unwrap_or_else(|| "unknown".to_owned());
        words += &format!(", {count} in vain: {name}");
    }
    if !made.by.succeeded {
        words += ", in vain: it was not allowed yet";
    }
    words
}

fn leave_out_a_crowd(hosts: &mut BTreeMap<String, MadeBy>, talk: &mut NetworkDraft) {
    if hosts.len() <= MOST {
        return;
    }
    for (host, made) in std::mem::take(hosts) {
        let words = format!(
            "connect to {host} ({}): one of more hosts than a list should name; a range may be what is meant",
            made.by.words()
        );
        talk.left_out.insert(LeftOut {
            words,
            pattern: None,
        });
    }
}

/// Flags that nobody needed, and names that led to no contact.
fn name_the_rest(
    contacts: &RunContacts,
    around: &ContactFacts,
    hosts: &BTreeMap<String, MadeBy>,
    talk: &mut NetworkDraft,
) {
    for flag in around
        .flags
        .iter()
        .filter(|flag| !hosts.contains_key(*flag))
    {
        let words = format!("allow {flag} (a flag): nobody talked to it when this was learned");
        talk.notes.insert(words);
    }
    let is_led_by = |name: &str| contacts.made.values().any(|made| made.names.contains(name));
    for (name, by) in contacts.asked.iter().filter(|(name, _)| !is_led_by(name)) {
        let words = format!(
            "ask for {name} ({}): nobody answered; who means that host writes {{ to = \"{name}:PORT\", why = \"…\" }}",
            by.words()
        );
        talk.left_out.insert(LeftOut {
            words,
            pattern: None,
        });
    }
}

fn in_words(contact: &ContactKey) -> String {
    let act = match contact.act {
        ContactKind::Connect => "connect to",
        ContactKind::Send => "send to",
        ContactKind::Wait => "wait at",
    };
    let over = if contact.datagrams { " over UDP" } else { "" };
    format!("{act} {}{over}", contact.address)
}

/// The contacts that a policy would stop although they are to be allowed, in words.
pub fn stopped_by(
    policy: &Policy,
    contacts: &RunContacts,
    below: &Policy,
    around: &ContactFacts,
) -> Vec<String> {
    let mut allow = policy.network.allow.clone();
    for entry in &mut allow {
        let known = around.allowed.iter().find(|known| known.to == entry.to);
        entry.addresses = known
            .map(|known| known.addresses.clone())
            .unwrap_or_default();
    }
    let mut rules = policy.rules.clone();
    if policy.network.mode == NetworkMode::Allow {
        rules.extend(endpoint::rules(&allow, &around.own, &policy.rules));
    }
    let is_stopped = |contact: &ContactKey, fate: &ContactFate| {
        let needed = match fate {
            ContactFate::ToItself => NetworkMode::Loopback,
            ContactFate::Host(_) | ContactFate::SaidAlready => NetworkMode::Allow,
            ContactFate::Decide(_) => return false,
        };
        let is_own = address::is_own(contact.address.ip());
        let on = match contact.act {
            ContactKind::Connect => AttemptKind::Connect,
            ContactKind::Send => AttemptKind::Send,
            ContactKind::Wait => AttemptKind::Bind,
        };
        let attempt = Attempt {
            address: Some(contact.address),
            to_itself: is_own && contact.act != ContactKind::Wait,
            ..Attempt::new(on)
        };
        let rule = decide(&rules, &attempt).map(|rule| &rules[rule]);
        policy.network.mode < needed || rule.is_some_and(|rule| rule.action >= RuleAction::Deny)
    };
    let stopped = contacts.made.iter().filter(|(contact, made)| {
        let fate = fate((contact, made), contacts, below, around);
        is_stopped(contact, &fate)
    });
    stopped.map(|(contact, _)| in_words(contact)).collect()
}
