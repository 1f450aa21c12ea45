//! Contacts without a kernel.

use turnkey_policy::{Endpoint, Overrides, Rule};

use super::*;

fn policy(mode: NetworkMode) -> Policy {
    let none = |_: &str| Err(String::new());
    let policy = turnkey_policy::load("untrusted", &none, &Overrides::default());
    Policy {
        network: mode.into(),
        ..policy.expect("a shipped profile is right")
    }
}

fn made(count: u64, succeeded: bool) -> MadeBy {
    let by = UsedBy {
        programs: [("curl".to_owned(), count)].into(),
        succeeded,
        ..UsedBy::default()
    };
    MadeBy {
        by,
        names: BTreeSet::new(),
    }
}

fn contact(act: ContactKind, address: &str) -> ContactKey {
    let (datagrams, address) = match address.strip_prefix("udp ") {
        Some(address) => (true, address),
        None => (false, address),
    };
    ContactKey {
        act,
        datagrams,
        address: address.parse().unwrap(),
    }
}

fn contacts(list: &[(ContactKind, &str)]) -> RunContacts {
    let made = list
        .iter()
        .map(|(act, address)| (contact(*act, address), made(2, true)));
    let mut contacts = RunContacts::default();
    contacts.made.extend(made);
    contacts
}

fn hosts(talk: &NetworkDraft) -> Vec<&str> {
    let hosts = talk.hosts.iter();
    hosts.map(|line| line.pattern.as_str()).collect()
}

fn mode(talk: &NetworkDraft) -> Option<NetworkMode> {
    talk.mode.as_ref().map(|(mode, _)| *mode)
}

fn allowed(text: &str, addresses: &[&str]) -> AllowedHost {
    AllowedHost {
        to: Endpoint::parse(text).unwrap(),
        why: String::new(),
        addresses: addresses.iter().map(|text| text.parse().unwrap()).collect(),
    }
}

use ContactKind::{Connect, Send, Wait};

#[test]
fn a_public_address_is_allowed_with_its_port_and_its_reason() {
    let mut contacts = contacts(&[(Connect, "198.51.100.7:443"), (Connect, "[2001:db8::7]:80")]);
    let first = contacts.made.values_mut().next().unwrap();
    first.by.succeeded = false;
    first.names.insert("example.org".to_owned());
    let talk = talk(
        &contacts,
        &policy(NetworkMode::None),
        &ContactFacts::default(),
        false,
    );
    assert_eq!(hosts(&talk), ["198.51.100.7:443", "[2001:db8::7]:80"]);
    assert_eq!(mode(&talk), Some(NetworkMode::Allow));
    assert_eq!(
        talk.hosts[0].why,
        "curl twice, after asking for example.org, in vain: it was not allowed yet"
    );
    assert!(talk.left_out.is_empty());
}

#[test]
fn what_talks_to_itself_needs_loopback_alone() {
    for list in [
        &[(Connect, "127.0.0.1:80")][..],
        &[(Wait, "127.0.0.1:0")],
        &[(Wait, "[::1]:0")],
        &[(Send, "udp 127.0.0.1:9")],
    ] {
        let talk = talk(
            &contacts(list),
            &policy(NetworkMode::None),
            &ContactFacts::default(),
            false,
        );
        assert_eq!(mode(&talk), Some(NetworkMode::Loopback), "{list:?}");
        assert!(
            talk.hosts.is_empty() && talk.left_out.is_empty(),
            "{list:?}"
        );
    }
}

#[test]
fn who_talks_to_nobody_has_no_network_unless_it_is_added_to() {
    let nothing = contacts(&[]);
    let learn = |is_added_to| {
        let below = policy(NetworkMode::Loopback);
        talk(&nothing, &below, &ContactFacts::default(), is_added_to)
    };
    assert_eq!(mode(&learn(false)), Some(NetworkMode::None));
    assert_eq!(mode(&learn(true)), None);
}

#[test]
fn what_could_lead_further_is_left_to_a_person() {
    let around = ContactFacts {
        own: vec!["203.0.113.9".parse().unwrap()],
        ..ContactFacts::default()
    };
    for (act, address, reason) in [
        (Connect, "169.254.169.254:80", "metadata"),
        (Connect, "169.254.1.1:80", "link-local"),
        (Connect, "10.1.2.3:80", "private"),
        (Connect, "192.168.0.1:80", "private"),
        (Connect, "100.64.0.1:80", "private"),
        (Connect, "[fd00::1]:80", "private"),
        (Connect, "203.0.113.9:80", "this host"),
        (Connect, "198.51.100.7:53", "name server"),
        (Connect, "udp 127.0.0.53:53", "name server"),
        (Connect, "224.0.0.1:80", "multicast"),
        (Connect, "255.255.255.255:80", "limited broadcast"),
        (Send, "udp 198.51.100.7:9", "TCP alone"),
        (Wait, "0.0.0.0:80", "whoever comes"),
        (Wait, "198.51.100.7:80", "no jail has"),
    ] {
        let contacts = contacts(&[(act, address)]);
        let talk = talk(&contacts, &policy(NetworkMode::None), &around, false);
        assert_eq!((mode(&talk), hosts(&talk)), (None, vec![]), "{address}");
        let words = &talk.left_out.first().expect(address).words;
        assert!(words.contains(reason), "{words}");
    }
}

#[test]
fn a_rule_on_an_address_is_not_learned_away() {
    let mut below = policy(NetworkMode::None);
    let mut rule = Rule::new("not-there", [AttemptKind::Connect], RuleAction::Deny);
    rule.address = vec![turnkey_policy::Subnet::one("198.51.100.7".parse().unwrap())];
    below.rules.push(rule);
    let mut contacts = contacts(&[(Connect, "198.51.100.7:443")]);
    contacts.made.values_mut().next().unwrap().by.rule = Some(below.rules.len() - 1);
    let talk = talk(&contacts, &below, &ContactFacts::default(), false);
    assert!(talk.hosts.is_empty());
    assert!(talk.left_out.first().unwrap().words.contains("`not-there`"));
}

#[test]
fn a_flag_that_was_used_is_kept_by_its_name() {
    let around = ContactFacts {
        allowed: vec![
            allowed("example.org:443", &["10.1.2.3"]),
            allowed("10.1.0.0/16:1-1024", &[]),
            allowed("example.com:443", &["198.51.100.8"]),
        ],
        flags: ["example.org:443", "example.com:443"]
            .map(str::to_owned)
            .into(),
        passages: vec![Passage {
            to: "10.1.2.3:443".parse().unwrap(),
            connections: 1,
            sent: 0,
            received: 0,
            failures: [(libc::ECONNREFUSED, 1)].into(),
            refused: 0,
            first_ns: 0,
            last_ns: 0,
        }],
        is_mode_given: true,
        ..ContactFacts::default()
    };
    let contacts = contacts(&[(Connect, "10.1.2.3:443"), (Connect, "10.1.2.3:80")]);
    let talk = talk(&contacts, &policy(NetworkMode::Allow), &around, false);
    assert_eq!(
        hosts(&talk),
        ["example.org:443"],
        "the range is in the profile below"
    );
    assert_eq!(talk.hosts[0].why, "curl twice, 1 in vain: ECONNREFUSED");
    assert_eq!(mode(&talk), Some(NetworkMode::Allow));
    assert!(talk.notes.first().unwrap().contains("example.com:443"));
}

#[test]
fn a_name_that_led_nowhere_is_told() {
    let mut contacts = contacts(&[]);
    contacts
        .asked
        .insert("example.org".to_owned(), made(2, false).by);
    let talk = talk(
        &contacts,
        &policy(NetworkMode::None),
        &ContactFacts::default(),
        false,
    );
    let words = &talk.left_out.first().unwrap().words;
    assert!(words.contains("{ to = \"example.org:PORT\""), "{words}");
}

#[test]
fn too_many_hosts_are_no_list() {
    let addresses: Vec<String> = (0..=MOST)
        .map(|last| format!("198.51.100.{last}:80"))
        .collect();
    let list: Vec<_> = addresses
        .iter()
        .map(|address| (Connect, address.as_str()))
        .collect();
    let talk = talk(
        &contacts(&list),
        &policy(NetworkMode::None),
        &ContactFacts::default(),
        false,
    );
    assert!(talk.hosts.is_empty());
    assert_eq!(talk.left_out.len(), MOST + 1);
}

#[test]
fn a_profile_that_would_stop_a_contact_is_found_out() {
    let contacts = contacts(&[(Connect, "198.51.100.7:443"), (Wait, "127.0.0.1:80")]);
    let below = policy(NetworkMode::None);
    let stopped = |policy: &Policy| stopped_by(policy, &contacts, &below, &ContactFacts::default());
    assert_eq!(stopped(&below).len(), 2);
    let mut learned = policy(NetworkMode::Allow);
    assert_eq!(stopped(&learned), ["connect to 198.51.100.7:443"]);
    learned.network.allow = vec![allowed("198.51.100.7:443", &[])];
    assert_eq!(stopped(&learned), [""; 0]);
}
