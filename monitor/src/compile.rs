//! From a policy's rules to the table that the kernel decides with.
//!
//! All path patterns become one automaton over bytes. What decides in which state is settled
//! here, by the policy's own order, so the kernel only takes one transition per byte and looks up
//! the answer. Nothing is approximated: what does not fit is refused whole.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::net::SocketAddr;

use turnkey_abi::syscalls::{SYSCALLS, class};
use turnkey_abi::{FILES, PEERS, RULES, Table, WatchedFile, action, column, network};
use turnkey_policy::{
    Access, Action, Attempt, Candidate, FileFlag, Glob, Mode, Network, On, OnLoss, Policy, Rule,
    unknown,
};

use crate::automaton::{Automaton, AutomatonError};
use crate::hooks::Need;
use crate::identity::{self, FileId, WatchedPath};
use crate::peers;
use crate::tier::Tier;
use crate::tracepoints::interrupts_tracepoints_here;
use crate::wire::on_code;

/// Why a policy cannot be enforced by the kernel's programs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// More rules than the table holds.
    #[error(
        "the policy has {count} rules, and the kernel's table holds {RULES}: merge rules that differ only in their paths"
    )]
    TooManyRules {
        /// How many there are.
        count: usize,
    },
    /// The patterns together are too complex.
    #[error(
        "the rules' path patterns do not fit the kernel's table: {0}; use fewer patterns with `**` or `*` in their middle"
    )]
    Patterns(#[from] AutomatonError),
    /// A file cannot be denied here, only killed for.
    #[error(
        "rule `{rule}` denies `{on}`, and without BPF LSM the kernel can only kill for it: use `action = \"kill\"`, take the path out of the jail's tree, or let `turnkey doctor` tell how to have BPF LSM"
    )]
    CannotDeny {
        /// The rule's id.
        rule: String,
        /// The kind of attempt.
        on: &'static str,
    },
    /// Which file it is cannot be known here.
    #[error(
        "rule `{rule}` means files by `same_file`, and without BPF LSM nobody knows which file a `{on}` was about: take \"{on}\" out of its `on` and write a second rule for it, by path alone, or let `turnkey doctor` tell how to have BPF LSM"
    )]
    CannotIdentify {
        /// The rule's id.
        rule: String,
        /// The kind of attempt.
        on: &'static str,
    },
    /// More files than the table holds.
    #[error(
        "the rules mean more than {} files by `same_file`, and the kernel's table holds no more: write `same_file` at fewer paths",
        FILES - 1
    )]
    TooManyFiles,
    /// More addresses and ports than the table holds.
    #[error(
        "the rules have {count} pairs of an address and a port, and the kernel's table holds {PEERS}: name networks in place of addresses, and ranges in place of ports"
    )]
    TooManyPeers {
        /// How many there are.
        count: usize,
    },
    /// A syscall that the filter allows cannot be denied afterwards.
    #[error(
        "rule `{rule}` denies {syscall}(2), and `[syscalls]` allows it: take it out of `allow`, or use `action = \"kill\"`"
    )]
    AllowedSyscall {
        /// The rule's id.
        rule: String,
        /// The kernel's name of the syscall.
        syscall: &'static str,
    },
}

/// The rules of a policy, ready for the kernel.
#[derive(Clone)]
pub struct Rules {
    /// What they may count on.
    pub(crate) tier: Tier,
    /// Whether perf is to call the programs that decide, wherever they are loaded for this run alone.
    pub(crate) by_perf: bool,
    pub(crate) table: Box<Table>,
    /// Kinds of attempt that the filter lets come to the kernel.
    reachable: BTreeSet<On>,
    /// Paths of which the rules mean the files.
    pub(crate) watched: Vec<WatchedPath>,
    /// As they were written.
    definitions: Vec<Rule>,
    pub(crate) network: u32,
    /// As the fields of [`turnkey_abi::Jail`].
    pub(crate) kill_on_loss: bool,
    /// As the fields of [`turnkey_abi::Jail`].
    pub(crate) strict: bool,
}

impl std::fmt::Debug for Rules {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Rules")
            .field("tier", &self.tier)
            .field("network", &self.network)
            .finish_non_exhaustive()
    }
}

/// What the kernel knows of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known<'a> {
    /// Its path.
    pub path: &'a [u8],
    /// No directory has a name of it.
    pub nameless: bool,
    /// Which file it is.
    pub id: Option<FileId>,
}

impl<'a> Known<'a> {
    /// A file of which the path alone is known.
    #[must_use]
    pub const fn at(path: &'a [u8]) -> Self {
        Self {
            path,
            nameless: false,
            id: None,
        }
    }
}

impl Rules {
    /// What the kernel will say of opening a file: the rule's index and the action taken. For
    /// tests and for `explain`; it walks the very table that the kernel walks.
    #[must_use]
    pub fn decide_open(&self, file: Known<'_>, access: &[Access]) -> Option<(usize, Action)> {
        self.decide(file, column_of(access)?)
    }

    /// What the kernel will say of executing a file.
    #[must_use]
    pub fn decide_exec(&self, file: Known<'_>) -> Option<(usize, Action)> {
        self.decide(file, column::EXEC)
    }

    /// What the kernel will say of a file of which it could not tell the path: of opening or executing it.
    #[must_use]
    pub fn decide_unknown(&self, on: On, access: &[Access]) -> Option<(usize, Action)> {
        let column = match on {
            On::Exec => column::EXEC,
            _ => column_of(access)?,
        };
        self.decided(self.table.unknown[usize::try_from(column).ok()?])
    }

    /// The paths of which the rules mean the files, to be looked for when the jail's tree stands.
    #[must_use]
    pub fn watched_paths(&self) -> &[WatchedPath] {
        &self.watched
    }

    /// Has perf call the programs that decide, as they are called since Linux 7, on any kernel: how they
    /// are tried where nobody needs them.
    #[must_use]
    pub fn called_by_perf(mut self) -> Self {
        self.by_perf = true;
        self
    }

    /// Says what was found at the [watched paths](Self::watched_paths), in their order.
    pub fn know(&mut self, found: &[Option<FileId>]) {
        identity::write(&mut self.table, &self.definitions, &self.watched, found);
    }

    /// What the kernel will say of making memory executable: that holds a file, or with `None` one that
    /// no file of the tree holds.
    #[must_use]
    pub fn decide_map(&self, file: Option<Known<'_>>) -> Option<(usize, Action)> {
        match file {
            Some(file) => self.decide(file, column::MAP),
            None => self.decided(self.table.on[usize::from(on_code(On::Map))]),
        }
    }

    /// What the kernel will say of an attempt of a kind that has an address. `to_itself`: the jail has a
    /// loopback of its own, and this is there.
    #[must_use]
    pub fn decide_peer(
        &self,
        on: On,
        peer: SocketAddr,
        to_itself: bool,
    ) -> Option<(usize, Action)> {
        self.decided(peers::rule_of(&self.table, on, peer, to_itself))
    }

    /// Whether a hook has an answer to give under these rules.
    pub(crate) fn need(&self, need: Need) -> bool {
        match need {
            Need::Tier | Need::Always => true,
            Need::Column(column) => self.table.columns & (1 << column) != 0,
            Need::Map => self.need(Need::Column(column::MAP)) || self.refuses(On::Map),
            Need::Kind(on) => self.refuses(on) && self.reachable.contains(&on),
        }
    }

    fn refuses(&self, on: On) -> bool {
        let rule = self.table.on[usize::from(on_code(on))];
        u16::from(self.table.actions[usize::from(rule)]) >= action::DENY
    }

    fn decide(&self, file: Known<'_>, column: u32) -> Option<(usize, Action)> {
        let table = &self.table;
        let by_file = file.id.map_or(0, |id| {
            identity::rule_of(table, id, usize::try_from(column).unwrap_or(usize::MAX))
        });
        let asked = if file.nameless {
            column::nameless(column)
        } else {
            column
        };
        let next = |state: usize, byte: &u8| {
            let class = usize::from(table.classes[usize::from(*byte)]);
            usize::from(table.transitions[state << table.shift | class])
        };
        let start = usize::try_from(table.start).ok()?;
        let state = file.path.iter().fold(start, next);
        let by_path = table.accept[state][usize::try_from(asked).ok()?];
        let strength = |rule: u16| table.strengths[usize::from(rule)];
        self.decided(if strength(by_file) > strength(by_path) {
            by_file
        } else {
            by_path
        })
    }

    /// What a rule of the table comes to: its index and the action taken.
    fn decided(&self, rule: u16) -> Option<(usize, Action)> {
        let index = usize::from(rule).checked_sub(1)?;
        let action = self.table.actions[usize::from(rule)];
        Some((index, crate::wire::action(u16::from(action))?))
    }
}

/// The column for a way of opening.
fn column_of(access: &[Access]) -> Option<u32> {
    let (reads, writes) = (
        access.contains(&Access::Read),
        access.contains(&Access::Write),
    );
    match (reads, writes) {
        (true, true) => Some(column::BOTH),
        (true, false) => Some(column::READ),
        (false, true) => Some(column::WRITE),
        (false, false) => None,
    }
}

/// Compiles a policy for a tier.
///
/// # Errors
/// When the policy asks for what this tier of the kernel cannot do, or does not fit.
pub fn compile(policy: &Policy, tier: Tier) -> Result<Rules, CompileError> {
    if policy.rules.len() > RULES {
        return Err(CompileError::TooManyRules {
            count: policy.rules.len(),
        });
    }
    refuse_impossible_denials(policy, tier)?;
    identity::refuse_unknowable(&policy.rules, tier)?;
    let table = compile_rules(&policy.rules, policy.mode)?;
    let allowed = |on: &On| {
        let of_kind = SYSCALLS.iter().filter(|syscall| is_of(*on, syscall.class));
        of_kind
            .into_iter()
            .any(|syscall| policy.syscalls.allow.contains(syscall.name))
    };
    Ok(Rules {
        tier,
        by_perf: interrupts_tracepoints_here(),
        reachable: On::ALL.iter().copied().filter(allowed).collect(),
        table,
        watched: identity::watched_paths(&policy.rules)?,
        definitions: policy.rules.clone(),
        network: network_code(&policy.network),
        kill_on_loss: policy.enforcement.on_loss == OnLoss::Kill,
        strict: policy.mode == Mode::Enforce,
    })
}

/// Compiles rules alone.
pub(crate) fn compile_rules(rules: &[Rule], mode: Mode) -> Result<Box<Table>, CompileError> {
    let mut table = crate::sys::empty_table();
    let slots = table.actions[1..].iter_mut().zip(&mut table.strengths[1..]);
    for (rule, (action, strength)) in rules.iter().zip(slots) {
        *action = action_code(rule.action, mode);
        *strength = action_code(rule.action, Mode::Enforce);
    }
    table.files.fill(WatchedFile::NONE);
    let without_path = |on: &On| !on.has_path() || *on == On::Map;
    for on in On::ALL.iter().copied().filter(without_path) {
        let attempt = Attempt::of(on);
        table.on[usize::from(on_code(on))] = plus_one(turnkey_policy::decide(rules, &attempt));
    }
    peers::write(rules, &mut table)?;
    compile_paths(rules, &mut table)?;
    Ok(table)
}

fn network_code(mode: &Network) -> u32 {
    match mode {
        Network::None => network::NONE,
        Network::Loopback => network::LOOPBACK,
        Network::Allow => network::ALLOW,
        Network::Host => network::HOST,
    }
}

fn action_code(of: Action, mode: Mode) -> u8 {
    let code = match (of, mode) {
        (Action::Allow, _) => action::ALLOW,
        (_, Mode::Observe) | (Action::Log, _) => action::LOG,
        (Action::Deny, Mode::Enforce) => action::DENY,
        (Action::Kill, Mode::Enforce) => action::KILL,
    };
    // The codes are small by definition.
    u8::try_from(code).unwrap_or(u8::MAX)
}

/// How the table writes a rule: its index plus one, or 0 for none.
pub(crate) fn plus_one(rule: Option<usize>) -> u16 {
    // No index exceeds RULES, which was checked.
    rule.and_then(|index| u16::try_from(index + 1).ok())
        .unwrap_or(0)
}

/// A denial that the kernel could not carry out must not be promised, in any mode.
fn refuse_impossible_denials(policy: &Policy, tier: Tier) -> Result<(), CompileError> {
    for rule in policy
        .rules
        .iter()
        .filter(|rule| rule.action == Action::Deny)
    {
        let mut on_files = rule.on.iter().filter(|on| on.has_path());
        if tier == Tier::Tracepoint
            && let Some(on) = on_files.next()
        {
            return Err(CompileError::CannotDeny {
                rule: rule.id.clone(),
                on: on.name(),
            });
        }
        let watched = SYSCALLS
            .iter()
            .filter(|syscall| watches(rule, syscall.class));
        if let Some(syscall) = watched
            .into_iter()
            .find(|syscall| policy.syscalls.allow.contains(syscall.name))
        {
            let rule = rule.id.clone();
            return Err(CompileError::AllowedSyscall {
                rule,
                syscall: syscall.name,
            });
        }
    }
    Ok(())
}

/// Whether a syscall's class is of a kind that the rule speaks of.
fn watches(rule: &Rule, of: u8) -> bool {
    of >= class::WATCH && rule.on.iter().any(|on| class::WATCH + on_code(*on) == of)
}

/// Whether a syscall's class is of a kind. Namespaces are made by calls for processes, too.
fn is_of(on: On, of: u8) -> bool {
    class::WATCH + on_code(on) == of
        || on == On::Namespace && matches!(of, class::CLONE | class::CLONE3)
}

/// The order of decision in each column that one access or kind stands for.
struct Orders {
    read: Vec<Candidate>,
    write: Vec<Candidate>,
    /// The columns behind [`column::BOTH`], in their order.
    rest: [Vec<Candidate>; REST.len()],
}

/// The kinds of the columns behind [`column::BOTH`].
const REST: [On; 6] = [
    On::Exec,
    On::Link,
    On::Rename,
    On::Unlink,
    On::Chmod,
    On::Map,
];

impl Orders {
    fn of(rules: &[Rule]) -> Self {
        Self {
            read: turnkey_policy::precedence(rules, On::Open, Some(Access::Read)),
            write: turnkey_policy::precedence(rules, On::Open, Some(Access::Write)),
            rest: REST.map(|on| {
                let mut order = turnkey_policy::precedence(rules, on, None);
                // Those without paths speak of memory that no file holds.
                order.retain(|candidate| on != On::Map || candidate.pattern.is_some());
                order
            }),
        }
    }

    /// Every pattern that any column asks for, in a fixed order.
    fn patterns(&self) -> Vec<Candidate> {
        let rest = self.rest.iter().flatten();
        let all = self.read.iter().chain(&self.write).chain(rest);
        let keys: BTreeSet<(usize, usize)> = all
            .filter_map(|candidate| Some((candidate.rule, candidate.pattern?)))
            .collect();
        keys.into_iter()
            .map(|(rule, pattern)| Candidate {
                pattern: Some(pattern),
                ..Candidate::of(rule)
            })
            .collect()
    }

    /// The deciding rule of each column, given which candidates match a path.
    fn winners(
        &self,
        rules: &[Rule],
        is_memory: bool,
        matches: impl Fn(&Candidate) -> bool,
    ) -> [u16; column::COUNT] {
        let memory = is_memory.then_some(FileFlag::Memfd);
        let named = self.answers(rules, |candidate| {
            matches(candidate) && candidate.means(rules, memory)
        });
        let nameless = self.answers(rules, |candidate| {
            matches(candidate) && candidate.means(rules, memory.or(Some(FileFlag::Deleted)))
        });
        columns(named, nameless)
    }

    /// The first candidate of each column that `speaks`.
    fn answers(&self, rules: &[Rule], speaks: impl Fn(&Candidate) -> bool) -> Answers {
        let first = |order: &Vec<Candidate>| {
            let deciding = order.iter().find(|candidate| speaks(candidate));
            deciding.map(|candidate| candidate.rule)
        };
        self.each(rules, first)
    }

    /// What holds in each column for a path that is not known.
    fn unknown(&self, rules: &[Rule]) -> [u16; column::COUNT] {
        let answers = self.each(rules, |order| {
            let deciding = unknown(rules, order);
            deciding.first().map(|candidate| candidate.rule)
        });
        columns(answers, answers)
    }

    fn each(&self, rules: &[Rule], decide: impl Fn(&Vec<Candidate>) -> Option<usize>) -> Answers {
        let (read, write) = (decide(&self.read), decide(&self.write));
        // As in `decide`: each access by itself, then the stronger.
        let both = read
            .into_iter()
            .chain(write)
            .max_by_key(|rule| strength(rules, *rule));
        let mut answers = [None; ANSWERS];
        let rest = self.rest.iter().map(decide);
        for (answer, rule) in answers
            .iter_mut()
            .zip([read, write, both].into_iter().chain(rest))
        {
            *answer = rule;
        }
        answers
    }
}

/// The columns of files with a name.
const ANSWERS: usize = 3 + REST.len();

/// The deciding rules of the first columns, in their order.
type Answers = [Option<usize>; ANSWERS];

/// The answers of all columns.
fn columns(named: Answers, nameless: Answers) -> [u16; column::COUNT] {
    let mut columns = [0; column::COUNT];
    for (column, rule) in (0..).zip(nameless) {
        let place = column::nameless(column) as usize;
        columns[place] = plus_one(rule);
    }
    for (column, rule) in columns.iter_mut().zip(named) {
        *column = plus_one(rule);
    }
    columns
}

fn strength(rules: &[Rule], rule: usize) -> (Action, Reverse<usize>) {
    (rules[rule].action, Reverse(rule))
}

/// The paths that memory files have, and no other.
const MEMORY_FILES: &str = "memfd:**";

fn compile_paths(rules: &[Rule], table: &mut Table) -> Result<(), CompileError> {
    let orders = Orders::of(rules);
    let patterns = orders.patterns();
    let mut globs: Vec<&Glob> = patterns
        .iter()
        .filter_map(|candidate| candidate.glob(rules))
        .collect();
    let index_of = |candidate: &Candidate| {
        let key = (candidate.rule, candidate.pattern);
        patterns
            .binary_search_by_key(&key, |one| (one.rule, one.pattern))
            .ok()
    };
    // Whether a path is that of a memory file is one more question to it.
    let memory = Glob::parse(MEMORY_FILES).ok();
    let memory = memory.filter(|_| rules.iter().any(|rule| !rule.flags.is_empty()));
    globs.extend(&memory);
    let automaton = Automaton::build(&globs, |matched| {
        let is_memory = memory.is_some() && matched.contains(&patterns.len());
        orders.winners(rules, is_memory, |candidate| {
            candidate.pattern.is_none()
                || index_of(candidate).is_some_and(|index| matched.contains(&index))
        })
    })?;
    automaton.write(table)?;
    table.unknown = orders.unknown(rules);
    let columns = [&orders.read, &orders.write, &orders.read];
    for (column, order) in columns.into_iter().chain(&orders.rest).enumerate() {
        table.columns |= u32::from(!order.is_empty()) << column;
    }
    if !orders.write.is_empty() {
        table.columns |= 1 << column::BOTH;
    }
    Ok(())
}
