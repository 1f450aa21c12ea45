//! Languages of patterns: the sets of paths that they match, compared exactly.
//!
//! Each pattern becomes a nondeterministic automaton over bytes. A question about several of them
//! is answered by walking through all at once, over one byte of each class that none of them tells
//! apart, until a path is found that answers it, or there is none.

use std::collections::{BTreeSet, HashMap};

use super::universe::{PathProgress, PathUniverse};
use crate::glob::{Glob, Token};

/// The bytes that lead along an edge.
#[derive(Clone, Copy, Debug)]
enum EdgeBytes {
    Byte(u8),
    NotSlash,
    Any,
}

/// The paths that a pattern matches.
#[derive(Debug, Default)]
pub(super) struct PathLanguage {
    /// By state: where a byte leads.
    edges: Vec<Vec<(EdgeBytes, usize)>>,
    /// By state: where no byte leads.
    empty: Vec<Vec<usize>>,
    end: usize,
    /// The prefix of every path in it.
    prefix: Vec<u8>,
    /// The suffix of every path in it.
    suffix: Vec<u8>,
}

type States = Vec<usize>;

impl PathLanguage {
    pub(super) fn new(glob: &Glob) -> Self {
        let mut language = Self::default();
        let start = language.state();
        language.end = language.sequence(glob.tokens(), start);
        let literal = |token: Option<&Token>| match token {
            Some(Token::Literal(bytes)) => bytes.clone(),
            _ => Vec::new(),
        };
        language.prefix = literal(glob.tokens().first());
        language.suffix = literal(glob.tokens().last());
        language
    }

    /// True when a path may be in both; a quick look that is never wrongly false.
    pub(super) fn may_meet(&self, other: &Self) -> bool {
        let (begins, ends) = (&other.prefix, &other.suffix);
        (self.prefix.starts_with(begins) || begins.starts_with(&self.prefix))
            && (self.suffix.ends_with(ends) || ends.ends_with(&self.suffix))
    }

    fn state(&mut self) -> usize {
        self.edges.push(Vec::new());
        self.empty.push(Vec::new());
        self.edges.len() - 1
    }

    fn sequence(&mut self, tokens: &[Token], from: usize) -> usize {
        tokens
            .iter()
            .fold(from, |from, token| self.token(token, from))
    }

    /// Adds the states of one piece behind `from`, and returns where they end.
    fn token(&mut self, token: &Token, from: usize) -> usize {
        match token {
            Token::Literal(bytes) => bytes
                .iter()
                .fold(from, |from, byte| self.step(EdgeBytes::Byte(*byte), from)),
            Token::AnyByte => self.step(EdgeBytes::NotSlash, from),
            Token::AnyName => self.run(EdgeBytes::NotSlash, from),
            Token::AnyPath => self.run(EdgeBytes::Any, from),
            Token::AnyDirectories => {
                let inside = self.run(EdgeBytes::Any, from);
                let end = self.step(EdgeBytes::Byte(b'/'), inside);
                self.empty[from].push(end);
                end
            }
            Token::OneOf(alternatives) => {
                let end = self.state();
                for alternative in alternatives {
                    let last = self.sequence(alternative, from);
                    self.empty[last].push(end);
                }
                end
            }
        }
    }

    fn step(&mut self, step: EdgeBytes, from: usize) -> usize {
        let to = self.state();
        self.edges[from].push((step, to));
        to
    }

    /// Any number of such bytes.
    fn run(&mut self, step: EdgeBytes, from: usize) -> usize {
        let inside = self.state();
        self.empty[from].push(inside);
        self.edges[inside].push((step, inside));
        inside
    }

    fn start(&self) -> States {
        self.with_empty(BTreeSet::from([0]))
    }

    fn after(&self, states: &States, byte: u8) -> States {
        let edges = states.iter().flat_map(|state| &self.edges[*state]);
        let reached = edges.filter(|(step, _)| match step {
            EdgeBytes::Byte(wanted) => *wanted == byte,
            EdgeBytes::NotSlash => byte != b'/',
            EdgeBytes::Any => true,
        });
        self.with_empty(reached.map(|(_, to)| *to).collect())
    }

    /// With every state that no byte leads to from these.
    fn with_empty(&self, mut states: BTreeSet<usize>) -> States {
        let mut open: Vec<usize> = states.iter().copied().collect();
        while let Some(state) = open.pop() {
            let further = self.empty[state].iter().copied();
            open.extend(further.filter(|next| states.insert(*next)));
        }
        states.into_iter().collect()
    }

    fn accepts(&self, states: &States) -> bool {
        states.contains(&self.end)
    }

    fn bytes(&self) -> impl Iterator<Item = u8> {
        let steps = self.edges.iter().flatten();
        steps.filter_map(|(step, _)| match step {
            EdgeBytes::Byte(byte) => Some(*byte),
            EdgeBytes::NotSlash | EdgeBytes::Any => None,
        })
    }
}

/// The steps that are left, so that a hostile profile costs no more than a bounded time.
#[derive(Debug)]
pub(super) struct StepBudget {
    left: usize,
    /// Of that, for one question: an entangled one shall not keep the others from being answered.
    for_this: usize,
    for_each: usize,
}

/// So many entangled questions are given up before everything is.
const ENTANGLED: usize = 8;

/// The question was given up, as answering it takes too long.
#[derive(Debug)]
pub(super) struct BudgetExceeded;

impl StepBudget {
    pub(super) fn new(steps: usize) -> Self {
        let for_each = steps / ENTANGLED;
        Self {
            left: steps,
            for_this: for_each,
            for_each,
        }
    }

    /// Begins another question, with an allowance of its own.
    pub(super) fn next_question(&mut self) {
        self.for_this = self.for_each;
    }

    pub(super) fn spend(&mut self, steps: usize) -> Result<(), BudgetExceeded> {
        self.for_this = self.for_this.checked_sub(steps).ok_or(BudgetExceeded)?;
        self.left = self.left.checked_sub(steps).ok_or(BudgetExceeded)?;
        Ok(())
    }
}

/// One place of a walk through several automata at once.
#[derive(Clone, PartialEq, Eq, Hash)]
struct ProductState {
    at: PathProgress,
    inside: Vec<States>,
    outside: Vec<States>,
}

/// A shortest path of the universe that is in every language of `inside` and in none of `outside`.
pub(super) fn witness(
    inside: &[&PathLanguage],
    outside: &[&PathLanguage],
    universe: PathUniverse,
    budget: &mut StepBudget,
) -> Result<Option<Vec<u8>>, BudgetExceeded> {
    let alphabet = alphabet(inside.iter().chain(outside).copied());
    let first = ProductState {
        at: PathProgress::START,
        inside: inside.iter().map(|language| language.start()).collect(),
        outside: outside.iter().map(|language| language.start()).collect(),
    };
    let mut known: HashMap<ProductState, usize> = HashMap::from([(first.clone(), 0)]);
    // Where each place was come to from, and by which byte.
    let mut ways: Vec<(usize, u8)> = vec![(0, 0)];
    let mut open = std::collections::VecDeque::from([(first, 0)]);
    while let Some((place, number)) = open.pop_front() {
        let is_inside = all_accept(inside, &place.inside);
        let is_outside = any_accepts(outside, &place.outside);
        if is_inside && !is_outside && universe.accepts(place.at) {
            return Ok(Some(spelled(&ways, number)));
        }
        for byte in &alphabet {
            let sizes = place.inside.iter().chain(&place.outside).map(Vec::len);
            budget.spend(1 + sizes.sum::<usize>())?;
            let Some(next) = place.after(*byte, inside, outside, universe) else {
                continue;
            };
            if !known.contains_key(&next) {
                known.insert(next.clone(), ways.len());
                open.push_back((next, ways.len()));
                ways.push((number, *byte));
            }
        }
    }
    Ok(None)
}

impl ProductState {
    /// `None` when nothing that is looked for lies behind this byte.
    fn after(
        &self,
        byte: u8,
        inside: &[&PathLanguage],
        outside: &[&PathLanguage],
        universe: PathUniverse,
    ) -> Option<Self> {
        let at = universe.after(self.at, byte)?;
        let step = |languages: &[&PathLanguage], states: &[States]| -> Vec<States> {
            let both = languages.iter().zip(states);
            both.map(|(language, states)| language.after(states, byte))
                .collect()
        };
        let next = step(inside, &self.inside);
        (!next.iter().any(Vec::is_empty)).then(|| Self {
            at,
            inside: next,
            outside: step(outside, &self.outside),
        })
    }
}

fn all_accept(languages: &[&PathLanguage], states: &[States]) -> bool {
    let mut both = languages.iter().zip(states);
    both.all(|(language, states)| language.accepts(states))
}

fn any_accepts(languages: &[&PathLanguage], states: &[States]) -> bool {
    let mut both = languages.iter().zip(states);
    both.any(|(language, states)| language.accepts(states))
}

fn spelled(ways: &[(usize, u8)], mut number: usize) -> Vec<u8> {
    let mut path = Vec::new();
    while number != 0 {
        let (from, byte) = ways[number];
        path.push(byte);
        number = from;
    }
    path.reverse();
    path
}

/// Every byte that some language or the universe tells from others, and one that stands for all
/// the rest; a letter, where there is one to spare, so that examples can be read.
fn alphabet<'l>(languages: impl Iterator<Item = &'l PathLanguage>) -> Vec<u8> {
    let mut told_apart: BTreeSet<u8> = languages.flat_map(PathLanguage::bytes).collect();
    told_apart.extend(PathUniverse::BYTES);
    let letters = (b'a'..=b'z').rev().chain(b'0'..=b'9');
    let rest = letters
        .chain(1..=u8::MAX)
        .find(|byte| !told_apart.contains(byte));
    rest.into_iter().chain(told_apart).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(inside: &[&str], outside: &[&str]) -> Option<String> {
        let languages = |patterns: &[&str]| -> Vec<PathLanguage> {
            let globs = patterns.iter().map(|text| Glob::parse(text).unwrap());
            globs.map(|glob| PathLanguage::new(&glob)).collect()
        };
        let (inside, outside) = (languages(inside), languages(outside));
        let (inside, outside): (Vec<_>, Vec<_>) =
            (inside.iter().collect(), outside.iter().collect());
        let found = witness(
            &inside,
            &outside,
            PathUniverse::ALL,
            &mut StepBudget::new(1 << 24),
        );
        found
            .expect("small enough")
            .map(|path| String::from_utf8(path).unwrap())
    }

    #[test]
    fn inclusion_is_decided_by_language_and_not_by_looks() {
        assert_eq!(find(&["/a/{b,c}"], &["/a/?"]), None);
        assert_eq!(find(&["/a/**/b"], &["/**/b"]), None);
        assert_eq!(find(&["/a/**"], &["/a/*", "/a/*/**"]), None);
        assert_eq!(
            find(&["/a/**"], &["/a/{*,*/*}"]).as_deref(),
            Some("/a/z/z/z")
        );
        assert_eq!(find(&["/a/*"], &["/a/?"]).as_deref(), Some("/a/zz"));
        assert_eq!(find(&["/a/*", "**/b"], &[]).as_deref(), Some("/a/b"));
        assert_eq!(find(&["/a/*", "/b/**"], &[]), None);
    }

    #[test]
    fn only_paths_as_the_kernel_writes_them_count() {
        assert_eq!(find(&["/a*/{.,..}/x"], &[]), None);
        assert_eq!(find(&["/**//x"], &[]), None);
        assert_eq!(find(&["/a/..?"], &[]).as_deref(), Some("/a/..z"));
        assert_eq!(find(&["/a/{.,...}"], &[]).as_deref(), Some("/a/..."));
        assert_eq!(find(&["memfd:**"], &[]).as_deref(), Some("memfd:"));
        assert_eq!(
            find(&["**"], &["/**", "memfd:**"]).as_deref(),
            Some("z"),
            "a pipe, say"
        );
    }

    #[test]
    fn a_walk_that_takes_too_long_is_given_up() {
        let glob = Glob::parse("/**").unwrap();
        let language = PathLanguage::new(&glob);
        let mut budget = StepBudget::new(10);
        assert!(witness(&[&language], &[&language], PathUniverse::ALL, &mut budget).is_err());
    }

    #[test]
    fn a_question_that_is_given_up_leaves_something_for_the_others() {
        let mut budget = StepBudget::new(80);
        for _ in 0..7 {
            budget.next_question();
            assert!(budget.spend(10).is_ok());
            assert!(budget.spend(1).is_err(), "an eighth is for one");
        }
        budget.next_question();
        assert!(budget.spend(9).is_ok() && budget.spend(1).is_ok());
        budget.next_question();
        assert!(budget.spend(1).is_err(), "and all of it for all");
    }
}
