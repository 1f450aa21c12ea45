//! The reference evaluator: which rule decides on an attempt.
//!
//! The monitor compiles the same order into the kernel's maps; its tests compare against this.
//!
//! # The order
//!
//! A *candidate* is a rule without paths, or one path pattern of a rule; where attempts have an
//! address, one address of a rule with one of its ranges of ports. Among the candidates
//! that match an attempt, the first in this order decides:
//!
//! 1. one of a rule with flags before one of a rule without, which speaks of every file;
//! 2. any pattern before a rule without paths, which speaks of every path;
//! 3. a pattern of a rule that does not yield before one of a rule that does ([`Rule::yields`]);
//! 4. a pattern without wildcards (an exact path) before one with wildcards;
//! 5. a pattern with more literal bytes before one with fewer ([`Glob::specificity`]);
//! 6. a longer prefix of an address before a shorter one, and any before a rule without addresses;
//! 7. a narrower range of ports before a wider one, and any before a rule without ports;
//! 8. a rule with `script` before one without, and of two the one whose least specific pattern for
//!    scripts is the more specific; then likewise by `exe`;
//! 9. the stronger action: kill, deny, log, allow;
//! 10. the earlier rule in [`crate::Policy::rules`].
//!
//! An address of IPv6 that holds one of IPv4 is that one. An attempt on an unspecified address is
//! several in one: on that address, and on what the kernel may take it for
//! ([`crate::address::meant`]). Each is decided by itself and the stronger action stands. What a
//! jail with a loopback of its own connects or sends to there is no attempt to get out: only rules
//! with addresses or ports speak of it.
//!
//! An open for reading and writing is two attempts in one. Each access is decided by itself and
//! the stronger action stands (the earlier rule, when both are as strong), so that a rule which
//! allows writing a file never shields a rule that forbids reading it.
//!
//! An act with a kind of its own among others, such as mkdir(2), is an attempt of both ([`AttemptKind::counts_as`]): each
//! is decided by itself and the stronger action stands.
//!
//! An act on a name is what it brings about, too. Who links or renames a file takes it out from under the rules
//! about its name: each of reading, writing, executing and mapping it by this name is an attempt in it. Who unlinks
//! it changes what is found by the name: that is an attempt to write. Each is decided by itself, as are the rules
//! on such acts, and the strongest action stands, the earlier rule on a tie. What a new name says of being written
//! to is asked of the new name. (The kernel also knows what such an act leaves as it was: for the file itself that
//! is so where both names are answered alike, and then it passes.)
//!
//! A rule with [`SameFile`] speaks of its files by any name. Of those that speak of an attempt's
//! file so, the one with the strongest action decides, the earlier on a tie; and it stands when its
//! action is stronger than that of the rule that decides by path. So no rule about a name shields a
//! file that is known by itself. Whoever opens such a file for writing, links, renames or unlinks it or changes its mode
//! can leave it another file than it was, of which no rule knows (an overlay copies it): of all these, the
//! rules on reading, writing, executing and mapping it speak as well.
//!
//! A file of which the kernel could not tell the path ([`FileFlag::Truncated`]) is taken for the worst
//! there is: of all rules on such an attempt, whatever their paths, that with the strongest action
//! decides, and one that allows never does. A rule with that flag speaks of just these files, and
//! decides before.
//!
//! A rule with `exe` or `script` speaks of what such programs do ([`crate::ActorPaths`]), and of an exec by who
//! asks for it. Where it is not known who acts, each such rule may be meant or not: of all the answers
//! that this leaves, that with the strongest action stands.
//!
//! A pattern of a rule on hidden paths ([`Rule::hidden`]) matches nothing that the profile shows, and one of a rule on what
//! is present ([`Rule::present`]) nothing that the program's home lacks when the run begins.
//!
//! Memory made executable ([`AttemptKind::Map`]) is asked about by the path of the file that it holds, where only
//! rules with paths match, and, when no file of the tree holds it, without a path, where only rules
//! without paths do. When both are asked, the stronger action stands.

use std::cmp::Reverse;
use std::net::SocketAddr;

use crate::actor::{ActorPaths, narrowness};
use crate::address::{self, Ports, Subnet};
use crate::glob::Glob;
use crate::model::{AttemptKind, FileFlag, OpenAccess, Rule, RuleAction, SameFile};

/// One attempt of a program: its kind and its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt<'a> {
    /// The kind of attempt.
    pub on: AttemptKind,
    /// The absolute path in the jail, for kinds that have one. Without one, only rules without
    /// paths match.
    pub path: Option<&'a [u8]>,
    /// The accesses that an `open` asks for; ignored for other kinds. Without any (`O_PATH`) no rule matches.
    pub access: &'a [OpenAccess],
    /// The address, for kinds that have one. Without one, only rules without addresses and ports
    /// match.
    pub address: Option<SocketAddr>,
    /// True when the address is the jail's own loopback, which it has been given.
    pub to_itself: bool,
    /// The state of the file; `None` when only its path is known.
    pub flag: Option<FileFlag>,
    /// Paths that named this very file when the run began.
    pub was: &'a [&'a [u8]],
    /// The program that makes it; `None` when that is not known.
    pub actor: Option<ActorPaths<'a>>,
}

impl Attempt<'_> {
    /// An attempt of which only its kind is known.
    #[must_use]
    pub const fn new(on: AttemptKind) -> Self {
        Self {
            on,
            path: None,
            access: &[],
            address: None,
            to_itself: false,
            flag: None,
            was: &[],
            actor: None,
        }
    }
}

/// A rule, one path pattern of a rule, or one address with one range of ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Candidate {
    /// Index into the rules.
    pub rule: usize,
    /// Index into [`Rule::path`]; `None` for a rule that speaks of every path.
    pub pattern: Option<usize>,
    /// Index into [`Rule::address`]; `None` for a rule that speaks of every address.
    pub address: Option<usize>,
    /// Index into [`Rule::port`]; `None` for a rule that speaks of every port.
    pub port: Option<usize>,
}

impl Candidate {
    /// A rule as a whole.
    #[must_use]
    pub const fn whole_rule(rule: usize) -> Self {
        Self {
            rule,
            pattern: None,
            address: None,
            port: None,
        }
    }

    /// The addresses. `None` means all.
    ///
    /// # Panics
    /// When the candidate was made from other rules.
    #[must_use]
    pub fn subnet(self, rules: &[Rule]) -> Option<Subnet> {
        self.address.map(|index| rules[self.rule].address[index])
    }

    /// The ports. `None` means all.
    ///
    /// # Panics
    /// When the candidate was made from other rules.
    #[must_use]
    pub fn ports(self, rules: &[Rule]) -> Option<Ports> {
        self.port.map(|index| rules[self.rule].port[index])
    }

    /// True when the candidate is about some addresses or ports alone.
    #[must_use]
    pub const fn names_peer(self) -> bool {
        self.address.is_some() || self.port.is_some()
    }

    /// True when the candidate covers every attempt of the rule's kinds, also those of which no path and no
    /// address is known.
    #[must_use]
    pub const fn is_whole(self) -> bool {
        self.pattern.is_none() && !self.names_peer()
    }

    /// True when the candidate covers an attempt on this address and port.
    fn reaches(self, rules: &[Rule], peer: Option<SocketAddr>) -> bool {
        let (subnet, ports) = (self.subnet(rules), self.ports(rules));
        peer.map_or(!self.names_peer(), |peer| {
            subnet.is_none_or(|subnet| subnet.contains(peer.ip()))
                && ports.is_none_or(|ports| ports.contains(peer.port()))
        })
    }

    /// True when the candidate covers a file in this state.
    ///
    /// # Panics
    /// When the candidate was made from other rules.
    #[must_use]
    pub fn means(self, rules: &[Rule], flag: Option<FileFlag>) -> bool {
        let flags = &rules[self.rule].flags;
        flags.is_empty() || flag.is_some_and(|flag| flags.contains(&flag))
    }

    /// The pattern itself. `None` means every path.
    ///
    /// # Panics
    /// When the candidate was made from other rules.
    #[must_use]
    pub fn glob(self, rules: &[Rule]) -> Option<&Glob> {
        self.pattern.map(|index| &rules[self.rule].path[index])
    }
}

/// The index of the rule that decides on an attempt, if any does.
#[must_use]
pub fn decide(rules: &[Rule], attempt: &Attempt<'_>) -> Option<usize> {
    if let Some(peer) = attempt.address.filter(|_| attempt.on.has_address()) {
        return decide_peer(rules, attempt, peer);
    }
    let with = [*attempt].into_iter().chain(brought_about(attempt));
    let decided =
        with.filter_map(|one| strongest(rules, &one, |access| first_match(rules, &one, access)));
    let by_path = decided.max_by_key(|rule| (rules[*rule].action, Reverse(*rule)));
    let by_file = decide_same_file(rules, attempt);
    let action = |rule: Option<usize>| rule.map(|rule| rules[rule].action);
    if action(by_file) > action(by_path) {
        by_file
    } else {
        by_path
    }
}

/// The further attempts that an act on a name amounts to, by its path: each is decided by itself.
#[must_use]
pub fn brought_about<'a>(attempt: &Attempt<'a>) -> Vec<Attempt<'a>> {
    match attempt.on {
        AttemptKind::Link | AttemptKind::Rename => uses(attempt),
        AttemptKind::Unlink => vec![opening(attempt, &[OpenAccess::Write])],
        AttemptKind::Rmdir => vec![wider(attempt), opening(attempt, &[OpenAccess::Write])],
        own if own.counts_as() == AttemptKind::Open && own != AttemptKind::Open => {
            vec![opening(attempt, &[OpenAccess::Write])]
        }
        own if own.counts_as() != own => vec![wider(attempt)],
        _ => Vec::new(),
    }
}

/// The same as an attempt of the kind that it counts as.
fn wider<'a>(attempt: &Attempt<'a>) -> Attempt<'a> {
    Attempt {
        on: attempt.on.counts_as(),
        ..*attempt
    }
}

/// Every use of a file that is known by its path or by itself.
fn uses<'a>(attempt: &Attempt<'a>) -> Vec<Attempt<'a>> {
    let of = |on| Attempt {
        on,
        access: if on == AttemptKind::Open {
            OpenAccess::ALL
        } else {
            &[]
        },
        ..opening(attempt, OpenAccess::ALL)
    };
    let mut uses = vec![of(AttemptKind::Open), of(AttemptKind::Exec)];
    // Without a path it would be memory that holds no file.
    if attempt.path.is_some() || !attempt.was.is_empty() {
        uses.push(of(AttemptKind::Map));
    }
    uses
}

/// Opening what another attempt is about by its name, so that it has one.
fn opening<'a>(attempt: &Attempt<'a>, access: &'a [OpenAccess]) -> Attempt<'a> {
    Attempt {
        on: AttemptKind::Open,
        access,
        flag: attempt.flag.filter(|flag| *flag != FileFlag::Deleted),
        ..*attempt
    }
}

/// Each of the addresses that are meant by itself, and the stronger action of these.
fn decide_peer(rules: &[Rule], attempt: &Attempt<'_>, peer: SocketAddr) -> Option<usize> {
    let on_address = |address| Attempt {
        address: Some(SocketAddr::new(address, peer.port())),
        ..*attempt
    };
    let meant = address::meant(attempt.on, peer.ip()).into_iter();
    let decided = meant.filter_map(|address| first_match(rules, &on_address(address), None));
    decided.max_by_key(|rule| (rules[*rule].action, Reverse(*rule)))
}

/// The index of the rule that decides on an attempt because of which file it is, whatever its path.
#[must_use]
pub fn decide_same_file(rules: &[Rule], attempt: &Attempt<'_>) -> Option<usize> {
    let meaning = |rule: &&usize| means_file(&rules[**rule], attempt.was);
    let with = [*attempt].into_iter().chain(lost(attempt));
    let speaking = with.flat_map(|one| {
        let speaks = move |index: &usize| speaks(&rules[*index], &one);
        (0..rules.len()).filter(speaks)
    });
    let speaking: Vec<usize> = speaking.collect();
    let decided = speaking.iter().filter(meaning).copied();
    decided.max_by_key(|rule| (rules[*rule].action, Reverse(*rule)))
}

/// The attempts that no rule decides any more when such an attempt makes the file another one.
fn lost<'a>(attempt: &Attempt<'a>) -> Vec<Attempt<'a>> {
    match attempt.on.counts_as() {
        AttemptKind::Link | AttemptKind::Rename | AttemptKind::Unlink | AttemptKind::Chmod => {
            uses(attempt)
        }
        AttemptKind::Open if attempt.access.contains(&OpenAccess::Write) => uses(attempt),
        _ => Vec::new(),
    }
}

/// True when a rule is about such attempts, for an open with any of its accesses.
fn speaks(rule: &Rule, attempt: &Attempt<'_>) -> bool {
    match attempt.on {
        AttemptKind::Open => attempt
            .access
            .iter()
            .any(|access| speaks_of(rule, AttemptKind::Open, Some(*access))),
        on => speaks_of(rule, on, None),
    }
}

fn means_file(rule: &Rule, was: &[&[u8]]) -> bool {
    rule.same_file != SameFile::No
        && rule
            .path
            .iter()
            .any(|glob| was.iter().any(|path| glob.matches(path)))
}

/// The answer for the kind of attempt; for an open, the strongest of those for each access.
fn strongest(
    rules: &[Rule],
    attempt: &Attempt<'_>,
    decide: impl Fn(Option<OpenAccess>) -> Option<usize>,
) -> Option<usize> {
    if attempt.on != AttemptKind::Open {
        return decide(None);
    }
    let decided = attempt.access.iter();
    let decided = decided.filter_map(|access| decide(Some(*access)));
    decided.max_by_key(|rule| (rules[*rule].action, Reverse(*rule)))
}

/// Every candidate for a kind of attempt, the one that decides first in front.
///
/// `access` matters for `open` alone: ask once for each access, and combine the answers as
/// described for the [module](mod@crate::decide).
#[must_use]
pub fn precedence(rules: &[Rule], on: AttemptKind, access: Option<OpenAccess>) -> Vec<Candidate> {
    ordered(rules, |rule| speaks_of(rule, on, access))
}

fn speaks_of(rule: &Rule, on: AttemptKind, access: Option<OpenAccess>) -> bool {
    rule.on.contains(&on)
        && (on != AttemptKind::Open || access.is_some_and(|access| rule.access.contains(&access)))
}

/// Every candidate for a kind of attempt that has an address, whichever it is, in one order: that of
/// [`precedence`] for each.
#[must_use]
pub fn peer_precedence(rules: &[Rule]) -> Vec<Candidate> {
    let speaking = |rule: &Rule| rule.on.iter().any(|on| on.has_address());
    ordered(rules, speaking)
}

fn ordered(rules: &[Rule], speaks: impl Fn(&Rule) -> bool) -> Vec<Candidate> {
    let speaking = rules.iter().enumerate().filter(|(_, rule)| speaks(rule));
    let mut ordered: Vec<Candidate> = speaking
        .flat_map(|(index, rule)| candidates(index, rule))
        .collect();
    ordered.sort_by_key(|candidate| rank(rules, *candidate));
    ordered
}

/// Every candidate of a rule, in the order in which it is written. A rule has paths, or addresses and
/// ports, or neither.
pub(crate) fn candidates(index: usize, rule: &Rule) -> Vec<Candidate> {
    let whole = Candidate::whole_rule(index);
    let each = |pattern| Candidate {
        pattern: Some(pattern),
        ..whole
    };
    if !rule.path.is_empty() {
        return (0..rule.path.len()).map(each).collect();
    }
    let ports = indexes(&rule.port);
    let of_address = |address| {
        ports.iter().map(move |port| Candidate {
            address,
            port: *port,
            ..whole
        })
    };
    let addresses = indexes(&rule.address).into_iter();
    addresses.flat_map(of_address).collect()
}

/// Each of them; `None` where there are none.
fn indexes<T>(of: &[T]) -> Vec<Option<usize>> {
    match of.len() {
        0 => vec![None],
        count => (0..count).map(Some).collect(),
    }
}

/// Sorts ascending: the strongest candidate has the least rank.
fn rank(rules: &[Rule], candidate: Candidate) -> impl Ord + use<> {
    // `None < Some(_)`: a rule without paths is the least specific, and so on.
    let specificity = candidate.glob(rules).map(Glob::specificity);
    let prefix = candidate.subnet(rules).map(Subnet::length);
    let width = candidate.ports(rules).map(|ports| Reverse(ports.width()));
    (
        Reverse(!rules[candidate.rule].flags.is_empty()),
        (specificity.is_none(), rules[candidate.rule].yields),
        Reverse(specificity),
        Reverse(prefix),
        Reverse(width),
        Reverse(narrowness(&rules[candidate.rule])),
        Reverse(rules[candidate.rule].action),
        candidate.rule,
    )
}

/// Every candidate that matches an attempt, the one that decides in front; where it is not known who
/// acts, also those that match some actors alone ([`deciding`] says what then).
///
/// `access` as in [`precedence`]: that of the attempt which is asked about. An unspecified address is
/// asked about as it is; what else is [meant](address::meant) by it is to be asked apart.
#[must_use]
pub fn matching(
    rules: &[Rule],
    attempt: &Attempt<'_>,
    access: Option<OpenAccess>,
) -> Vec<Candidate> {
    let mut ordered = precedence(rules, attempt.on, access);
    ordered.retain(|candidate| {
        let actor = attempt.actor;
        actor.is_none_or(|actor| actor.is_meant_by(&rules[candidate.rule]))
    });
    if attempt.flag == Some(FileFlag::Truncated) {
        return unknown(rules, &ordered, attempt.actor.is_some());
    }
    let matches = |candidate: &Candidate| match candidate.glob(rules) {
        None if attempt.on == AttemptKind::Map => attempt.path.is_none(),
        None => {
            let is_heard = candidate.names_peer() || !attempt.to_itself;
            is_heard && candidate.reaches(rules, attempt.address)
        }
        Some(glob) => attempt
            .path
            .is_some_and(|path| glob.matches(path) && !rules[candidate.rule].is_silent(path)),
    };
    let speaking = ordered
        .into_iter()
        .filter(|candidate| candidate.means(rules, attempt.flag));
    speaking.filter(matches).collect()
}

/// Of candidates that match an attempt, in their order, the rule that decides: that of the first. Unless
/// the actor `is_known`, those in front that name actors may not be meant; then it is the strongest of
/// them and of the first that names none.
///
/// # Panics
/// When a candidate was made from other rules.
#[must_use]
pub fn deciding(
    rules: &[Rule],
    matching: impl IntoIterator<Item = Candidate>,
    is_known: bool,
) -> Option<usize> {
    let mut strongest: Option<usize> = None;
    for Candidate { rule, .. } in matching {
        let strength = |rule: usize| (rules[rule].action, Reverse(rule));
        if strongest.is_none_or(|other| strength(rule) > strength(other)) {
            strongest = Some(rule);
        }
        if is_known || !rules[rule].names_actors() {
            break;
        }
    }
    strongest
}

/// True when the answer depends on the actor: rules that name actors stand in front of those that mean everybody.
/// Of an actor that nobody knows the strongest of several answers then counts. Where the path of a file is
/// not known, any rule about such an attempt may be one of them.
#[must_use]
pub fn asks_who_acts(rules: &[Rule], attempt: &Attempt<'_>) -> bool {
    // Most policies have none, and this is asked of every decision of a run.
    if !rules.iter().any(Rule::names_actors) {
        return false;
    }
    let is_lost = attempt.on.has_path() && attempt.on != AttemptKind::Map && attempt.path.is_none();
    let names_actors = |candidate: &Candidate| rules[candidate.rule].names_actors();
    let asks = |address: Option<SocketAddr>, access| {
        let by_anybody = Attempt {
            address,
            actor: None,
            ..*attempt
        };
        match is_lost {
            true => precedence(rules, attempt.on, access)
                .iter()
                .any(names_actors),
            false => matching(rules, &by_anybody, access)
                .first()
                .is_some_and(names_actors),
        }
    };
    if attempt.on == AttemptKind::Open {
        let mut accesses = attempt.access.iter();
        return accesses.any(|access| asks(None, Some(*access)));
    }
    let peer = attempt.address.filter(|_| attempt.on.has_address());
    peer.map_or_else(
        || asks(None, None),
        |peer| {
            let mut meant = address::meant(attempt.on, peer.ip()).into_iter();
            meant.any(|ip| asks(Some(SocketAddr::new(ip, peer.port())), None))
        },
    )
}

/// Of candidates in the order in which they decide, those that do on a file whose path is not known;
/// of rules without the flag for it, the strongest alone. `is_known` as for [`deciding`].
///
/// # Panics
/// When a candidate was made from other rules.
#[must_use]
pub fn unknown(rules: &[Rule], ordered: &[Candidate], is_known: bool) -> Vec<Candidate> {
    let means = |candidate: &Candidate| rules[candidate.rule].flags.contains(&FileFlag::Truncated);
    let mut meant: Vec<Candidate> = ordered.iter().copied().filter(means).collect();
    let is_for_certain = |one: &Candidate| is_known || !rules[one.rule].names_actors();
    if meant.iter().any(is_for_certain) {
        return meant;
    }
    let stopping = ordered
        .iter()
        .filter(|candidate| rules[candidate.rule].action != RuleAction::Allow);
    let strongest =
        stopping.max_by_key(|candidate| (rules[candidate.rule].action, Reverse(candidate.rule)));
    meant.extend(strongest);
    meant
}

/// The rule that decides on a file whose path is not known.
#[must_use]
pub fn decide_unknown(
    rules: &[Rule],
    on: AttemptKind,
    access: &[OpenAccess],
    actor: Option<ActorPaths<'_>>,
) -> Option<usize> {
    let attempt = Attempt {
        access,
        actor,
        flag: Some(FileFlag::Truncated),
        ..Attempt::new(on)
    };
    strongest(rules, &attempt, |access| {
        first_match(rules, &attempt, access)
    })
}

fn first_match(rules: &[Rule], attempt: &Attempt<'_>, access: Option<OpenAccess>) -> Option<usize> {
    let matching = matching(rules, attempt, access);
    deciding(rules, matching, attempt.actor.is_some())
}
