//! The rules as they stand against each other: for each kind of attempt, who decides before whom.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::net::SocketAddr;

use super::language::{self, BudgetExceeded, PathLanguage, StepBudget};
use super::peers;
use super::universe::PathUniverse;
use crate::WORKSPACE;
use crate::decide::{Candidate, precedence};
use crate::glob::Glob;
use crate::model::{AttemptKind, FileFlag, OpenAccess};
use crate::tables::Rule;

/// Steps of all walks and comparisons together: a second or two.
const BUDGET: usize = 4_000_000;

/// A kind of attempt; an open has an access.
pub(super) type Kind = (AttemptKind, Option<OpenAccess>);

/// A state of the file of an attempt, and the paths it can then have.
#[derive(Clone, Copy, Debug)]
pub(super) struct FileState {
    pub(super) flag: Option<FileFlag>,
    pub(super) universe: PathUniverse,
}

/// Every rule of a policy, prepared to be compared.
pub(super) struct ComparableRules<'r> {
    pub(super) rules: &'r [Rule],
    /// By rule, by pattern.
    languages: Vec<Vec<PathLanguage>>,
    orders: HashMap<Kind, Vec<Candidate>>,
    budget: RefCell<StepBudget>,
}

impl<'r> ComparableRules<'r> {
    pub(super) fn new(rules: &'r [Rule]) -> Self {
        let languages = rules.iter().map(|rule| {
            let languages = rule.path.iter().map(PathLanguage::new);
            languages.collect()
        });
        let orders = every_kind().map(|(on, access)| ((on, access), precedence(rules, on, access)));
        Self {
            rules,
            languages: languages.collect(),
            orders: orders.collect(),
            budget: RefCell::new(StepBudget::new(BUDGET)),
        }
    }

    /// The candidates of a kind that decide before this one, and those that do after it.
    pub(super) fn around(&self, kind: Kind, candidate: Candidate) -> (&[Candidate], &[Candidate]) {
        let order = self.orders.get(&kind).map_or(&[][..], Vec::as_slice);
        let at = order.iter().position(|other| *other == candidate);
        let (before, rest) = order.split_at(at.unwrap_or(order.len()));
        (before, rest.get(1..).unwrap_or_default())
    }

    /// `None` for one that speaks of every path.
    pub(super) fn language(&self, candidate: Candidate) -> Option<&PathLanguage> {
        let pattern = candidate.pattern?;
        Some(&self.languages[candidate.rule][pattern])
    }

    /// Begins with a question about another rule.
    pub(super) fn next_question(&self) {
        self.budget.borrow_mut().next_question();
    }

    /// Of these candidates, those of other rules that speak of such a file and may match what
    /// `candidate` does; of whomever that speaks of.
    pub(super) fn rivals(
        &self,
        among: &[Candidate],
        candidate: Candidate,
        flag: Option<FileFlag>,
    ) -> Result<Vec<Candidate>, BudgetExceeded> {
        let mut rivals = self.rivals_of_some(among, candidate, flag)?;
        rivals.retain(|other| self.means_all_actors_of(*other, candidate));
        Ok(rivals)
    }

    /// True when `other` covers every actor that `candidate` does.
    pub(super) fn means_all_actors_of(&self, other: Candidate, candidate: Candidate) -> bool {
        self.rules[other.rule].means_all_actors_of(&self.rules[candidate.rule])
    }

    /// As [`Self::rivals`], but it is enough that they speak of some of the actors.
    pub(super) fn rivals_of_some(
        &self,
        among: &[Candidate],
        candidate: Candidate,
        flag: Option<FileFlag>,
    ) -> Result<Vec<Candidate>, BudgetExceeded> {
        self.budget.borrow_mut().spend(among.len())?;
        let language = self.language(candidate);
        let meets = |other: Candidate| match (language, self.language(other)) {
            (Some(language), Some(other)) => language.may_meet(other),
            _ => true,
        };
        let rivals = among.iter().copied().filter(|other| {
            other.rule != candidate.rule
                && other.means(self.rules, flag)
                && meets(*other)
                && self.may_share_actors(*other, candidate)
        });
        Ok(rivals.collect())
    }

    /// True when what `candidate` speaks of may be where `other` says nothing, as the program's home lacks it.
    pub(super) fn may_be_silent(&self, other: Candidate, candidate: Candidate) -> bool {
        let glob = |of: Candidate| of.glob(self.rules);
        let (Some(one), Some(other_glob)) = (glob(candidate), glob(other)) else {
            return false;
        };
        let speaks_at_home = other_glob.restricted_to(WORKSPACE.as_bytes()).is_some();
        let mut heads = one.heads().into_iter();
        self.rules[other.rule].present
            && speaks_at_home
            && heads.any(|head| head.may_be_below(WORKSPACE.as_bytes()))
    }

    /// True when an actor may be covered by the rules of both; a quick look that is never wrongly false.
    fn may_share_actors(&self, one: Candidate, other: Candidate) -> bool {
        let (one, other) = (&self.rules[one.rule], &self.rules[other.rule]);
        let meet = |ones: &[Glob], others: &[Glob]| {
            let meets = |one: &Glob| {
                let one = PathLanguage::new(one);
                others
                    .iter()
                    .any(|other| one.may_meet(&PathLanguage::new(other)))
            };
            ones.is_empty() || others.is_empty() || ones.iter().any(meets)
        };
        meet(&one.exe, &other.exe) && meet(&one.script, &other.script)
    }

    /// A path, or an address, that all of `inside` match and none of `outside` does; or, when there is
    /// none, those of `outside` that suffice to match them all.
    ///
    /// Few of many take part in an answer, so that they are taken in one by one: each object that those
    /// so far leave over either answers the question, or names one more.
    pub(super) fn left_over(
        &self,
        inside: &[Candidate],
        outside: &[Candidate],
        universe: PathUniverse,
    ) -> Result<SetDifference, BudgetExceeded> {
        let mut taken: Vec<Candidate> = Vec::new();
        if let Some(every) = outside.iter().find(|one| one.is_whole()) {
            return Ok(SetDifference::Nothing(vec![*every]));
        }
        while let Some(object) = self.witness(inside, &taken, universe)? {
            let cost = object.size() * outside.len();
            self.budget.borrow_mut().spend(cost)?;
            let matches = |one: &&Candidate| self.matches(**one, &object);
            // The last one is the least specific, and matches most of what is left.
            match outside.iter().rev().find(matches) {
                Some(another) => taken.push(*another),
                None => return Ok(SetDifference::Object(object)),
            }
        }
        Ok(SetDifference::Nothing(taken))
    }

    fn matches(&self, candidate: Candidate, object: &AttemptObject) -> bool {
        match object {
            AttemptObject::Path(path) => candidate
                .glob(self.rules)
                .is_some_and(|glob| glob.matches(path)),
            AttemptObject::Peer(peer) => peers::speaks_of(self.rules, candidate, *peer),
        }
    }

    fn witness(
        &self,
        inside: &[Candidate],
        outside: &[Candidate],
        universe: PathUniverse,
    ) -> Result<Option<AttemptObject>, BudgetExceeded> {
        if inside.iter().any(|one| one.names_peer()) {
            let mut budget = self.budget.borrow_mut();
            let peer = peers::witness(self.rules, inside, outside, &mut budget)?;
            return Ok(peer.map(AttemptObject::Peer));
        }
        let languages = |candidates: &[Candidate]| -> Vec<&PathLanguage> {
            let languages = candidates.iter();
            languages.filter_map(|one| self.language(*one)).collect()
        };
        let (inside, outside) = (languages(inside), languages(outside));
        let mut budget = self.budget.borrow_mut();
        let path = language::witness(&inside, &outside, universe, &mut budget)?;
        Ok(path.map(AttemptObject::Path))
    }
}

/// The object of an attempt.
pub(super) enum AttemptObject {
    Path(Vec<u8>),
    Peer(SocketAddr),
}

impl AttemptObject {
    /// The cost of a comparison with the object.
    fn size(&self) -> usize {
        match self {
            Self::Path(path) => path.len(),
            Self::Peer(_) => 1,
        }
    }
}

/// Behind the kind of the attempt.
impl fmt::Display for AttemptObject {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => write!(formatter, "of {}", String::from_utf8_lossy(path)),
            Self::Peer(peer) => write!(formatter, "to {peer}"),
        }
    }
}

/// The difference between what some candidates match and what others do.
pub(super) enum SetDifference {
    /// One object of the difference.
    Object(AttemptObject),
    /// An empty difference, because of these candidates.
    Nothing(Vec<Candidate>),
}

fn every_kind() -> impl Iterator<Item = Kind> {
    AttemptKind::ALL.iter().flat_map(|on| kinds_of_one(*on))
}

fn kinds_of_one(on: AttemptKind) -> Vec<Kind> {
    match on {
        AttemptKind::Open => OpenAccess::ALL
            .iter()
            .map(|access| (on, Some(*access)))
            .collect(),
        _ => vec![(on, None)],
    }
}

/// The kinds of attempt that a rule speaks of.
pub(super) fn kinds(rule: &Rule) -> impl Iterator<Item = Kind> + '_ {
    let kinds = rule.on.iter().flat_map(|on| kinds_of_one(*on));
    kinds.filter(|(_, access)| access.is_none_or(|access| rule.access.contains(&access)))
}

/// The states of a file that a rule speaks of at such an attempt. That of a deleted file is left out
/// for rules without flags: what can be said of their part in it, can be said of other files already.
pub(super) fn states(rule: &Rule, on: AttemptKind) -> Vec<FileState> {
    if !on.has_flags() {
        // A memory file has no name that could be taken away, changed or asked about.
        let memory = !matches!(
            on,
            AttemptKind::Rename
                | AttemptKind::Unlink
                | AttemptKind::Stat
                | AttemptKind::Attribute
                | AttemptKind::Mkdir
                | AttemptKind::Rmdir
                | AttemptKind::Symlink
                | AttemptKind::Mknod
                | AttemptKind::Truncate
                | AttemptKind::Utimens
                | AttemptKind::Xattr
        );
        let universe = PathUniverse {
            names: true,
            memory,
            others: memory,
        };
        return vec![FileState {
            flag: None,
            universe,
        }];
    }
    if rule.flags.is_empty() {
        return vec![state(None), state(Some(FileFlag::Memfd))];
    }
    rule.flags.iter().map(|flag| state(Some(*flag))).collect()
}

/// A memory file is known by its path, and no other file has such a path. Where the path is not known,
/// there is none.
fn state(flag: Option<FileFlag>) -> FileState {
    let memory = flag == Some(FileFlag::Memfd);
    let others = !memory && flag != Some(FileFlag::Truncated);
    FileState {
        flag,
        universe: PathUniverse {
            names: others,
            memory,
            others,
        },
    }
}
