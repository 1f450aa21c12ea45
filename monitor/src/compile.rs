//! Compiles a policy's rules to the table that the kernel decides with.
//!
//! All path patterns become one automaton over bytes. What decides in which state is settled
//! here, by the policy's own order, so the kernel only takes one transition per byte and looks up
//! the answer. Nothing is approximated: what does not fit is refused whole.

mod error;
mod filtered;
mod home;
mod kinds;
mod magic;
mod own;
mod patterns;

use std::cmp::Reverse;
use std::collections::BTreeSet;

use turnkey_abi::syscalls::{SYSCALLS, class};
use turnkey_abi::{
    FILTERED_WORDS, NOWHERE, ON, OWN_KINDS, RULES, Table, WatchedFile, action, column, network,
    sockets,
};
use turnkey_policy::{
    AttemptKind, Candidate, EnforcementMode, FileFlag, NetworkMode, OnLoss, OpenAccess, Policy,
    Rule, RuleAction, deciding, precedence, unknown,
};

use crate::automaton::Automaton;
use crate::below::{Strengths, below};
use crate::hooks::Need;
use crate::identity::{self, FileId, WatchedPath};
use crate::interruption::interrupts_tracepoints_here;
use crate::object::ObjectFile;
use crate::peers;
use crate::roles::{self, Role};
use crate::rows::{Row, Rows};
use crate::rule_table::RuleTable;
use crate::shared::kept_table;
use crate::tier::Tier;
use crate::wire::on_code;

pub use error::CompileError;

use home::Home;
use kinds::{FOLLOWED, REST, column_of};
use own::OwnPlaces;
use patterns::{Patterns, bytes_of};

/// The rules of a policy, ready for the kernel.
#[derive(Clone)]
pub struct Rules {
    /// The tier that the rules may count on.
    pub(crate) tier: Tier,
    /// True when perf is to call the programs that decide, wherever they are loaded for this run alone.
    pub(crate) by_perf: bool,
    pub(crate) table: RuleTable,
    /// Kinds of attempt that the filter lets come to the kernel.
    reachable: BTreeSet<AttemptKind>,
    /// Paths of which the rules mean the files.
    pub(crate) watched: Vec<WatchedPath>,
    /// As they were written.
    definitions: Vec<Rule>,
    pub(crate) network: u32,
    /// Sockets bear a number: whoever answers them asks which one something comes from.
    pub(crate) marks_sockets: bool,
    /// As the fields of [`turnkey_abi::Jail`].
    pub(crate) kill_on_loss: bool,
    /// As the fields of [`turnkey_abi::Jail`].
    pub(crate) strict: bool,
    /// As the fields of [`turnkey_abi::Jail`].
    pub(crate) filtered: [u64; FILTERED_WORDS],
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

impl Rules {
    /// The paths of which the rules mean the files, to be looked for when the jail's tree stands.
    #[must_use]
    pub fn watched_paths(&self) -> &[WatchedPath] {
        &self.watched
    }

    /// Has perf call the programs that decide, as they are called since Linux 7, on any kernel: how they
    /// are tried where they are not needed.
    #[must_use]
    pub fn called_by_perf(mut self) -> Self {
        self.by_perf = true;
        self
    }

    /// Says what was found at the [watched paths](Self::watched_paths), in their order.
    pub fn know(&mut self, found: &[Option<FileId>]) {
        if !self.watched.is_empty() {
            let table = self.table.own();
            identity::write(table, &self.definitions, &self.watched, found);
        }
    }

    /// True when a hook has an answer to give under these rules.
    pub(crate) fn need(&self, need: Need) -> bool {
        match need {
            Need::Tier | Need::Always => true,
            Need::Columns(columns) => {
                let speaks = |column: &u32| self.table.columns & (1 << column) != 0;
                columns.iter().any(speaks)
            }
            Need::Map => self.need(Need::Columns(&[column::MAP])) || self.refuses(AttemptKind::Map),
            Need::Kind(on) => self.refuses(on) && self.reachable.contains(&on),
            Need::Spoken(on) => self.answers(on, action::LOG),
        }
    }

    fn refuses(&self, on: AttemptKind) -> bool {
        self.answers(on, action::DENY)
    }

    /// True when some actor's attempts of a kind are answered so strongly.
    fn answers(&self, on: AttemptKind, least: u16) -> bool {
        let mut rules = self
            .table
            .on
            .iter()
            .map(|rules| rules[usize::from(on_code(on))]);
        rules.any(|rule| u16::from(self.table.actions[usize::from(rule)]) >= least)
    }
}

impl Rules {
    /// 1 when symlinks are in a place of the jail's own from the beginning.
    pub(crate) fn aliased(&self) -> u32 {
        let mut places = self.definitions.iter().flat_map(|rule| &rule.lacking);
        places.any(|place| place.linked).into()
    }

    /// Bits of [`turnkey_abi::sockets`]. A group of others that no rule keeps from an address has every kind that it had.
    pub(crate) fn sockets(&self, is_of_others: bool) -> u32 {
        let refuses = |rule: &Rule| {
            rule.action >= RuleAction::Deny && rule.on.iter().any(|on| on.has_address())
        };
        let is_ruled = !is_of_others || self.strict && self.definitions.iter().any(refuses);
        let marked = u32::from(self.marks_sockets) * sockets::MARKED;
        marked | (u32::from(!is_ruled) * sockets::UNRULED)
    }

    /// The rule that is mere advice, plus one; 0 for none.
    pub(crate) fn advisory(&self) -> u32 {
        let rule = self.definitions.iter().position(|rule| rule.advice);
        plus_one(rule).into()
    }
}

/// Compiles a policy for a tier.
///
/// # Errors
/// When the policy asks for what this tier of the kernel cannot do, or does not fit.
pub fn compile(policy: &Policy, tier: Tier) -> Result<Rules, CompileError> {
    compile_by(policy, tier, &|rules, mode| {
        compile_rules(rules, mode).map(RuleTable::Own)
    })
}

/// The same, with the table that is kept beside the programs of this object that are loaded for all, if
/// these rules were compiled before. If not, it is kept from now on.
///
/// # Errors
/// As [`compile`].
pub fn compile_for<'o>(
    object: impl Into<ObjectFile<'o>>,
    policy: &Policy,
    tier: Tier,
) -> Result<Rules, CompileError> {
    let object = object.into();
    compile_by(policy, tier, &|rules, mode| {
        kept_table(&object, rules, mode)
    })
}

/// As [`compile_for`], for groups of others, in which no filter keeps a call from the kernel: each hook that has an answer is asked.
///
/// # Errors
/// As [`compile_for`], and for a rule that denies what only a filter could refuse here.
pub fn compile_for_others<'o>(
    object: impl Into<ObjectFile<'o>>,
    policy: &Policy,
    tier: Tier,
) -> Result<Rules, CompileError> {
    let denials = policy.rules.iter();
    for rule in denials.filter(|rule| rule.action == RuleAction::Deny) {
        let is_a_filter_s =
            |on: &&AttemptKind| SYSCALLS.iter().any(|syscall| is_of(**on, syscall.class));
        if rule.on.contains(&AttemptKind::Kill) {
            return Err(CompileError::CannotDenySignals {
                rule: rule.id.clone(),
            });
        }
        if tier == Tier::Tracepoint
            && let Some(on) = rule.on.iter().find(is_a_filter_s)
        {
            return Err(CompileError::CannotDenyOthers {
                rule: rule.id.clone(),
                on: on.name(),
            });
        }
    }
    let rules = compile_for(object, policy, tier)?;
    Ok(Rules {
        reachable: AttemptKind::ALL.iter().copied().collect(),
        ..rules
    })
}

/// The compiler of rules to a table.
type ToTable<'t> = &'t dyn Fn(&[Rule], EnforcementMode) -> Result<RuleTable, CompileError>;

fn compile_by(policy: &Policy, tier: Tier, to_table: ToTable<'_>) -> Result<Rules, CompileError> {
    if policy.rules.len() > RULES {
        return Err(CompileError::TooManyRules {
            count: policy.rules.len(),
        });
    }
    refuse_impossible_denials(policy, tier)?;
    identity::refuse_unknowable(&policy.rules, tier)?;
    let table = to_table(&policy.rules, policy.enforcement.mode)?;
    let allowed = |on: &AttemptKind| {
        let of_kind = SYSCALLS.iter().filter(|syscall| is_of(*on, syscall.class));
        of_kind
            .into_iter()
            .any(|syscall| policy.syscalls.allow.contains(syscall.name))
    };
    Ok(Rules {
        tier,
        by_perf: interrupts_tracepoints_here(),
        reachable: AttemptKind::ALL.iter().copied().filter(allowed).collect(),
        table,
        watched: identity::watched_paths(&policy.rules)?,
        definitions: policy.rules.clone(),
        network: network_code(&policy.network.mode),
        marks_sockets: policy.network.mode == NetworkMode::Sinkhole,
        kill_on_loss: policy.enforcement.on_loss == OnLoss::Kill,
        strict: policy.enforcement.mode == EnforcementMode::Enforce,
        filtered: filtered::filtered_numbers(&policy.syscalls),
    })
}

/// Compiles rules alone.
pub(crate) fn compile_rules(
    rules: &[Rule],
    mode: EnforcementMode,
) -> Result<Box<Table>, CompileError> {
    let mut table = crate::sys::empty_table();
    let slots = table.actions[1..].iter_mut().zip(&mut table.strengths[1..]);
    for (rule, (action, strength)) in rules.iter().zip(slots) {
        *action = action_code(rule.action, mode);
        *strength = action_code(rule.action, EnforcementMode::Enforce);
    }
    table.files.fill(WatchedFile::NONE);
    let patterns = Patterns::from_rules(rules);
    let mut rows = Rows::default();
    let magic = magic::patterns();
    let bytes = bytes_of(rules, &patterns, &magic);
    let (roles, mut by_actor) = roles::settle(rules, &bytes, &mut table, &mut rows)?;
    for (role, answers) in roles.all.iter().zip(&mut table.on) {
        compile_kinds(rules, role, answers);
    }
    peers::write(rules, &roles, &mut table)?;
    let orders: Vec<Orders> = roles
        .all
        .iter()
        .map(|role| Orders::of_role(rules, role))
        .collect();
    let own = OwnPlaces::from_rules(rules);
    let mut answers = own::Answers::default();
    let mut home = Home::of_rules(rules);
    let mut by_path = Automaton::build(&patterns.all(), &bytes, |matched| {
        let winners = |says_nothing: SaysNothing<'_>| -> Vec<Row> {
            let all = orders.iter();
            all.map(|one| one.winners(rules, &patterns, matched, says_nothing))
                .collect()
        };
        let elsewhere = rows.place(winners(&|_, is_silent| is_silent));
        let mut in_own = [elsewhere; OWN_KINDS];
        for (answer, silent) in in_own.iter_mut().zip(own.kinds()) {
            *answer = rows.place(winners(&|rule, is_silent| {
                is_silent || silent[rule] && !patterns.is_at_home(rule, matched)
            }));
        }
        let loud = home.as_mut().map_or(0, |home| home.place(&winners));
        answers.number((elsewhere, in_own), loud)
    })?;
    for (unknown, orders) in table.unknown.iter_mut().zip(&orders) {
        *unknown = orders.unknown(rules);
    }
    // The first role is meant by every rule.
    table.columns = orders.first().map_or(0, Orders::columns) | identity::columns(rules);
    let strengths = Strengths {
        of: &table.strengths.clone(),
        roles: roles.all.len(),
    };
    let by_magic = magic::automaton(&magic, &bytes, &mut rows)?.minimized();
    // Whatever follows takes longer by each state.
    by_path = by_path.minimized();
    by_actor = by_actor.map(Automaton::minimized);
    if let Some(home) = &mut home {
        by_path = home.take(&by_path, &answers);
    }
    let by_own = own.automata(&by_path, &answers, (&mut rows, &strengths));
    let by_path = by_path.answering(|number| answers.elsewhere(number));
    let below = below(&by_path, &mut rows, &strengths);
    rows.write(&mut table)?;
    let mut states = by_path.write(&mut table, 0)?;
    // No kind exceeds STATES, and no row ROWS.
    let small = |number: u32| u16::try_from(number).unwrap_or(0);
    let slots = table.inside.iter_mut().zip(&mut table.below);
    for ((inside, first), (kind, row)) in slots.zip(below.inside.into_iter().zip(below.rows)) {
        (*inside, *first) = (small(kind), small(row));
    }
    let nowhere = NOWHERE as usize;
    table.accept[nowhere] = small(below.none);
    table.below[nowhere] = small(below.none);
    table.inside[nowhere] = u16::MAX;
    if let Some(home) = home {
        home.settle(&mut table, &mut rows, &strengths)?;
    }
    if let Some(by_actor) = by_actor {
        table.actor_start = u32::try_from(states).unwrap_or(0);
        states = by_actor.write(&mut table, states)?;
    }
    table.magic_start = u16::try_from(states).unwrap_or(0);
    states = by_magic.write(&mut table, states)?;
    own.write(&mut table, states, &by_own)?;
    Ok(table)
}

/// Writes the answers to attempts of which their kind alone is known.
fn compile_kinds(rules: &[Rule], role: &Role, answers: &mut [u16; ON]) {
    let without_path = |on: &AttemptKind| !on.has_path() || *on == AttemptKind::Map;
    for on in AttemptKind::ALL.iter().copied().filter(without_path) {
        let order = precedence(rules, on, None).into_iter();
        let speaking =
            order.filter(|one| role.means(one.rule) && one.is_whole() && one.means(rules, None));
        let rule = deciding(rules, speaking, role.is_known);
        answers[usize::from(on_code(on))] = plus_one(rule);
    }
}

fn network_code(mode: &NetworkMode) -> u32 {
    match mode {
        NetworkMode::None => network::NONE,
        NetworkMode::Loopback => network::LOOPBACK,
        // To the kernel's programs it is a network that reaches whom the rules let it reach.
        NetworkMode::Sinkhole | NetworkMode::Allow => network::ALLOW,
        NetworkMode::Host => network::HOST,
    }
}

fn action_code(of: RuleAction, mode: EnforcementMode) -> u8 {
    let code = match (of, mode) {
        (RuleAction::Allow, _) => action::ALLOW,
        (_, EnforcementMode::Observe) | (RuleAction::Log, _) => action::LOG,
        (RuleAction::Deny, EnforcementMode::Enforce) => action::DENY,
        (RuleAction::Kill, EnforcementMode::Enforce) => action::KILL,
    };
    // The codes are small by definition.
    u8::try_from(code).unwrap_or(u8::MAX)
}

/// A rule as the table writes it: its index plus one, or 0 for none.
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
        .filter(|rule| rule.action == RuleAction::Deny)
    {
        if rule.on.iter().any(|on| on.is_by_argument()) {
            return Err(CompileError::CannotDenyLooks {
                rule: rule.id.clone(),
            });
        }
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

/// True when a syscall's class is of a kind that the rule speaks of.
fn watches(rule: &Rule, of: u8) -> bool {
    let of_kind = |on: &AttemptKind| class::WATCH + on_code(*on) == of && of >= class::WATCH;
    let of_signals = |on: &AttemptKind| *on == AttemptKind::Kill && of == class::KILL;
    rule.on.iter().any(|on| of_kind(on) || of_signals(on))
}

/// True when a syscall's class is of a kind. Namespaces are made by calls for processes, too.
fn is_of(on: AttemptKind, of: u8) -> bool {
    class::WATCH + on_code(on) == of
        || on == AttemptKind::Kill && of == class::KILL
        || on == AttemptKind::Namespace && matches!(of, class::CLONE | class::CLONE3)
}

/// True for a rule that says nothing of a path, given its number and whether a pattern of it is silent there.
type SaysNothing<'s> = &'s dyn Fn(usize, bool) -> bool;

/// The order of decision in each column that one access or kind stands for, by actors of one role.
struct Orders {
    /// True when it is known which program and script the actor executes.
    is_known: bool,
    read: Vec<Candidate>,
    write: Vec<Candidate>,
    /// The columns behind [`column::BOTH`], in their order.
    rest: [Vec<Candidate>; REST.len()],
}

impl Orders {
    fn of_role(rules: &[Rule], role: &Role) -> Self {
        let of = |on: AttemptKind, access: Option<OpenAccess>| {
            let mut order = precedence(rules, on, access);
            order.retain(|candidate| role.means(candidate.rule));
            order
        };
        Self {
            is_known: role.is_known,
            read: of(AttemptKind::Open, Some(OpenAccess::Read)),
            write: of(AttemptKind::Open, Some(OpenAccess::Write)),
            rest: REST.map(|on| {
                let mut order = of(on, None);
                // Those without paths speak of memory that no file holds.
                order.retain(|candidate| on != AttemptKind::Map || candidate.pattern.is_some());
                order
            }),
        }
    }

    /// The deciding rule of each column among those that say something, given which patterns match a path.
    fn winners(
        &self,
        rules: &[Rule],
        patterns: &Patterns<'_>,
        matched: &BTreeSet<usize>,
        says_nothing: SaysNothing<'_>,
    ) -> [u16; column::COUNT] {
        let matches = |candidate: &Candidate| {
            let is_silent = || patterns.is_silent(candidate, matched);
            patterns.has_matched(candidate, matched) && !says_nothing(candidate.rule, is_silent())
        };
        let is_memory = patterns.has_memory_matched(matched);
        let memory = is_memory.then_some(FileFlag::Memfd);
        let named = self.answers(rules, |candidate| {
            matches(candidate) && candidate.means(rules, memory)
        });
        let nameless = self.answers(rules, |candidate| {
            matches(candidate) && candidate.means(rules, memory.or(Some(FileFlag::Deleted)))
        });
        columns(rules, named, nameless)
    }

    /// The deciding rule of each column among the candidates that `speak`.
    fn answers(&self, rules: &[Rule], speaks: impl Fn(&Candidate) -> bool) -> Answers {
        self.each(rules, |order| {
            let speaking = order.iter().filter(|candidate| speaks(candidate));
            deciding(rules, speaking.copied(), self.is_known)
        })
    }

    /// The deciding rule of each column for a path that is not known.
    fn unknown(&self, rules: &[Rule]) -> [u16; column::COUNT] {
        let answers = self.each(rules, |order| {
            let matching = unknown(rules, order, self.is_known);
            deciding(rules, matching, self.is_known)
        });
        columns(rules, answers, answers)
    }

    /// Bits of the columns in which any rule can decide.
    fn columns(&self) -> u32 {
        let columns = [&self.read, &self.write, &self.read].into_iter();
        let mut bits = 0;
        for (answer, order) in (0..).zip(columns.chain(&self.rest)) {
            bits |= u32::from(!order.is_empty()) << column_of(answer);
        }
        if !self.write.is_empty() {
            bits |= 1 << column::BOTH;
        }
        if AWAY.iter().any(|column| bits & (1 << column) != 0) {
            bits |= 1 << column::AWAY;
        }
        if FOLLOWED.iter().any(|column| bits & (1 << column) != 0) {
            bits |= 1 << column::FOLLOWED;
        }
        bits
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

/// The columns whose strongest answer is that of [`column::AWAY`].
pub(crate) const AWAY: [u32; 4] = [column::READ, column::WRITE, column::EXEC, column::MAP];

/// The columns of files with a name.
const ANSWERS: usize = 3 + REST.len();

/// The deciding rules of the first columns, in their order.
type Answers = [Option<usize>; ANSWERS];

/// The answers of all columns.
fn columns(rules: &[Rule], named: Answers, nameless: Answers) -> [u16; column::COUNT] {
    let mut columns = [0; column::COUNT];
    let lost = AWAY.iter().filter_map(|column| {
        let column = usize::try_from(*column).ok()?;
        named[column]
    });
    columns[column::AWAY as usize] = plus_one(lost.max_by_key(|rule| strength(rules, *rule)));
    for (answer, rule) in (0..).zip(nameless) {
        columns[column::nameless(column_of(answer)) as usize] = plus_one(rule);
    }
    for (answer, rule) in (0..).zip(named) {
        columns[column_of(answer) as usize] = plus_one(rule);
    }
    let followed = FOLLOWED.iter().filter_map(|column| {
        let rule = columns[*column as usize].checked_sub(1)?;
        Some(usize::from(rule))
    });
    columns[column::FOLLOWED as usize] =
        plus_one(followed.max_by_key(|rule| strength(rules, *rule)));
    columns
}

/// The strength of a rule among others, the earlier before the later.
pub(crate) fn strength(rules: &[Rule], rule: usize) -> (RuleAction, Reverse<usize>) {
    (rules[rule].action, Reverse(rule))
}
