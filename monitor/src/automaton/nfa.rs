//! All patterns as one automaton that may be in many states at once.

use std::collections::{BTreeSet, HashMap};

use turnkey_policy::{Glob, Token};

/// The input that a step takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// One byte.
    Byte(u8),
    /// Any byte but `/`.
    NotSlash,
    /// Any byte.
    Any,
}

/// Index of a state.
pub(super) type State = u32;

/// The states of all patterns. State 0 is where every pattern starts.
#[derive(Debug, Default)]
pub(super) struct Nfa {
    steps: Vec<Vec<(Step, State)>>,
    /// The states that a state leads to without a byte.
    free: Vec<Vec<State>>,
    /// The patterns that are complete in a state.
    complete: Vec<Vec<usize>>,
}

impl Nfa {
    /// The automaton of these patterns, which are named by their index.
    pub(super) fn new<'a>(patterns: impl Iterator<Item = &'a Glob>) -> Self {
        let mut nfa = Self::default();
        let start = nfa.add();
        let mut shared = Shared::default();
        let mut names: &[Vec<u8>] = &[];
        for (index, pattern) in patterns.enumerate() {
            // A policy has one directory of several names at most.
            names = if names.is_empty() {
                pattern.names()
            } else {
                names
            };
            let tokens = pattern.tokens().iter();
            let last = tokens.fold(start, |from, token| shared.token(&mut nfa, token, from));
            nfa.complete[at(last)].push(index);
        }
        let ends = names
            .iter()
            .map(|name| shared.literal(&mut nfa, name, start));
        let ends: Vec<State> = ends.collect();
        nfa.join(names, &ends);
        nfa
    }

    /// Goes on alike behind each name of one directory. `ends` are the states that these lead to byte by byte.
    fn join(&mut self, names: &[Vec<u8>], ends: &[State]) {
        let closures = self.closures();
        let behind: Vec<_> = names
            .iter()
            .map(|name| self.reached(&closures, name))
            .collect();
        let inside: Vec<_> = names
            .iter()
            .map(|name| self.reached(&closures, &[name, b"/".as_slice()].concat()))
            .collect();
        let complete = behind.concat();
        let complete: Vec<usize> = complete
            .iter()
            .flat_map(|state| self.complete(*state).to_vec())
            .collect();
        for end in ends {
            self.complete[at(*end)].extend(&complete);
            let directory = self.step(*end, Step::Byte(b'/'));
            self.free[at(directory)].extend(inside.concat());
        }
    }

    /// The states that a text leads to from the start.
    fn reached(&self, closures: &[Vec<State>], text: &[u8]) -> Vec<State> {
        let takes = |step: Step, byte: u8| match step {
            Step::Byte(own) => own == byte,
            Step::NotSlash => byte != b'/',
            Step::Any => true,
        };
        let closed = |states: BTreeSet<State>| -> BTreeSet<State> {
            states
                .iter()
                .flat_map(|state| closures[at(*state)].iter().copied())
                .collect()
        };
        let start = closed(BTreeSet::from([0]));
        let end = text.iter().fold(start, |from, byte| {
            let steps = from.iter().flat_map(|state| self.steps(*state));
            let taken = steps.filter(|(step, _)| takes(*step, *byte));
            closed(taken.map(|(_, next)| *next).collect())
        });
        end.into_iter().collect()
    }

    /// The steps out of a state.
    pub(super) fn steps(&self, state: State) -> &[(Step, State)] {
        &self.steps[at(state)]
    }

    /// The bytes that any step tells from others.
    pub(super) fn named_bytes(&self) -> BTreeSet<u8> {
        let mut named = BTreeSet::from([b'/']);
        for (step, _) in self.steps.iter().flatten() {
            if let Step::Byte(byte) = step {
                named.insert(*byte);
            }
        }
        named
    }

    /// The patterns that are complete in a state.
    pub(super) fn complete(&self, state: State) -> &[usize] {
        &self.complete[at(state)]
    }

    /// For every state, the states it is in as well without a byte, itself included, as far as
    /// anything follows from them.
    pub(super) fn closures(&self) -> Vec<Vec<State>> {
        // By state, the last one whose closure it was seen in.
        let mut seen = vec![usize::MAX; self.steps.len()];
        (0..self.steps.len())
            .map(|state| self.closure(state, &mut seen))
            .collect()
    }

    fn closure(&self, first: usize, seen: &mut [usize]) -> Vec<State> {
        let mut open = vec![first];
        let mut reached = Vec::new();
        while let Some(state) = open.pop() {
            if std::mem::replace(&mut seen[state], first) == first {
                continue;
            }
            if !self.steps[state].is_empty() || !self.complete[state].is_empty() {
                reached.push(number(state));
            }
            open.extend(self.free[state].iter().map(|next| at(*next)));
        }
        reached
    }

    fn add(&mut self) -> State {
        self.steps.push(Vec::new());
        self.free.push(Vec::new());
        self.complete.push(Vec::new());
        number(self.steps.len() - 1)
    }

    /// A new state that follows without a byte.
    fn after(&mut self, state: State) -> State {
        let next = self.add();
        self.free[at(state)].push(next);
        next
    }

    /// A new state that follows by a step.
    fn step(&mut self, from: State, step: Step) -> State {
        let next = self.add();
        self.steps[at(from)].push((step, next));
        next
    }

    /// A new state that follows without a byte and stays for every such byte.
    fn run(&mut self, from: State, step: Step) -> State {
        let stay = self.after(from);
        self.steps[at(stay)].push((step, stay));
        stay
    }

    fn tokens(&mut self, tokens: &[Token], from: State) -> State {
        tokens
            .iter()
            .fold(from, |from, token| self.token(token, from))
    }

    fn token(&mut self, token: &Token, from: State) -> State {
        match token {
            Token::Literal(bytes) => bytes
                .iter()
                .fold(from, |from, byte| self.step(from, Step::Byte(*byte))),
            Token::AnyByte => self.step(from, Step::NotSlash),
            Token::AnyName => self.run(from, Step::NotSlash),
            Token::AnyPath => self.run(from, Step::Any),
            Token::AnyDirectories => {
                let inside = self.run(from, Step::Any);
                let end = self.step(inside, Step::Byte(b'/'));
                self.free[at(from)].push(end);
                end
            }
            Token::OneOf(alternatives) => self.one_of(alternatives, from),
        }
    }

    fn one_of(&mut self, alternatives: &[Vec<Token>], from: State) -> State {
        let end = self.add();
        for alternative in alternatives {
            let first = self.after(from);
            let last = self.tokens(alternative, first);
            self.free[at(last)].push(end);
        }
        end
    }
}

/// States of patterns that begin alike, so that what they share is there once. Most of a profile's begin with the same
/// few directories, or with any.
#[derive(Default)]
struct Shared<'t> {
    by_byte: HashMap<(State, u8), State>,
    by_token: HashMap<(State, &'t Token), State>,
}

impl<'t> Shared<'t> {
    fn literal(&mut self, nfa: &mut Nfa, bytes: &[u8], from: State) -> State {
        bytes.iter().fold(from, |end, byte| {
            let next = self.by_byte.entry((end, *byte));
            *next.or_insert_with(|| nfa.step(end, Step::Byte(*byte)))
        })
    }

    fn token(&mut self, nfa: &mut Nfa, token: &'t Token, from: State) -> State {
        if let Token::Literal(bytes) = token {
            return self.literal(nfa, bytes, from);
        }
        let end = self.by_token.entry((from, token));
        *end.or_insert_with(|| nfa.token(token, from))
    }
}

/// A state as an index.
fn at(state: State) -> usize {
    // The other direction of `number`.
    usize::try_from(state).unwrap_or(usize::MAX)
}

fn number(index: usize) -> State {
    // A policy text of four gigabytes does not get here.
    State::try_from(index).unwrap_or(State::MAX)
}
