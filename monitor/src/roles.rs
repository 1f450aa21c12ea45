//! Roles: kinds of actor that rules tell apart, and how the kernel finds a process's own.
//!
//! The reference is `policy::Actor`. Programs that match the same lists of patterns are of one kind, and so
//! are scripts; what a program of one kind and a script of another have to obey is their role.

use std::collections::{BTreeMap, BTreeSet};

use turnkey_abi::{KINDS, ROLES, Table, column, role};
use turnkey_policy::{Glob, Rule};

use crate::automaton::{Automaton, AutomatonError};
use crate::compile::CompileError;
use crate::rows::Rows;

/// A role: the rules that are meant to speak of an actor.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Role {
    /// By rule: true when it is meant. For an unknown actor, every rule may be.
    meant: Vec<bool>,
    /// True when it is known which program and script the actor executes.
    pub(crate) is_known: bool,
}

impl Role {
    pub(crate) fn means(&self, rule: usize) -> bool {
        self.meant[rule]
    }
}

/// Roles, the unknown one in front.
pub(crate) struct Roles<'r> {
    pub(crate) all: Vec<Role>,
    /// Different lists of patterns of programs.
    exe: Lists<'r>,
    /// Different lists of patterns of scripts.
    script: Lists<'r>,
}

/// Lists of patterns, and the kinds of path that they tell apart: each is the set of lists that match.
struct Lists<'r> {
    all: Vec<&'r [Glob]>,
    kinds: Kinds,
}

type Kinds = Vec<BTreeSet<usize>>;

impl<'r> Lists<'r> {
    fn from_patterns(lists: impl Iterator<Item = &'r Vec<Glob>>) -> Self {
        let mut all: Vec<&[Glob]> = Vec::new();
        for list in lists {
            if !list.is_empty() && !all.contains(&list.as_slice()) {
                all.push(list);
            }
        }
        Self {
            all,
            kinds: Vec::new(),
        }
    }

    /// Every pattern, with the list that it is of.
    fn patterns(&self) -> impl Iterator<Item = (usize, &'r Glob)> {
        let lists = self.all.iter().enumerate();
        lists.flat_map(|(index, list)| list.iter().map(move |glob| (index, glob)))
    }

    /// The number of a kind.
    fn kind(&mut self, lists: BTreeSet<usize>) -> usize {
        let known = self.kinds.iter().position(|kind| *kind == lists);
        known.unwrap_or_else(|| {
            self.kinds.push(lists);
            self.kinds.len() - 1
        })
    }

    /// True when a path of this kind matches a list, which may ask for nothing.
    fn holds(&self, kind: Option<usize>, list: &[Glob]) -> bool {
        let index = self.all.iter().position(|other| *other == list);
        index.is_none_or(|index| kind.is_some_and(|kind| self.kinds[kind].contains(&index)))
    }
}

impl<'r> Roles<'r> {
    /// The lists of some rules; what they come to is not settled yet.
    fn lists(rules: &'r [Rule]) -> Self {
        let unknown = Role {
            meant: vec![true; rules.len()],
            is_known: false,
        };
        Self {
            all: vec![unknown],
            exe: Lists::from_patterns(rules.iter().map(|rule| &rule.exe)),
            script: Lists::from_patterns(rules.iter().map(|rule| &rule.script)),
        }
    }

    /// Every pattern.
    fn globs(&self) -> Vec<&'r Glob> {
        let all = self.exe.patterns().chain(self.script.patterns());
        all.map(|(_, glob)| glob).collect()
    }
}

/// The roles of some rules, and the automaton that finds them, which tells at least these bytes apart; `None`
/// where no rule names actors.
pub(crate) fn settle<'r>(
    rules: &'r [Rule],
    bytes: &BTreeSet<u8>,
    table: &mut Table,
    rows: &mut Rows,
) -> Result<(Roles<'r>, Option<Automaton>), CompileError> {
    let mut roles = Roles::lists(rules);
    (table.role_count, table.script_count) = (1, 1);
    let globs = roles.globs();
    if globs.is_empty() {
        return Ok((roles, None));
    }
    let automaton = automaton(&mut roles, &globs, bytes, rows)?;
    let (exe, script) = (roles.exe.kinds.len(), roles.script.kinds.len());
    if exe > KINDS || script >= KINDS {
        return Err(CompileError::TooManyActors);
    }
    // No script is a kind, too. Without patterns there is no other.
    let scripts = if roles.script.all.is_empty() {
        0
    } else {
        script
    };
    let mut known: BTreeMap<Role, u8> = BTreeMap::new();
    for exe in 0..exe {
        for script in 0..=scripts {
            let role = role_of(rules, &roles, exe, script.checked_sub(1));
            let number = match known.get(&role) {
                Some(number) => *number,
                None if roles.all.len() == ROLES => return Err(CompileError::TooManyActors),
                None => {
                    // No more than ROLES.
                    let number = u8::try_from(roles.all.len()).unwrap_or(0);
                    roles.all.push(role.clone());
                    known.insert(role, number);
                    number
                }
            };
            table.roles[exe][script] = number;
        }
    }
    // Both are small.
    table.role_count = u32::try_from(roles.all.len()).unwrap_or(0);
    table.script_count = u32::try_from(1 + scripts).unwrap_or(0);
    Ok((roles, Some(automaton)))
}

fn role_of(rules: &[Rule], roles: &Roles<'_>, exe: usize, script: Option<usize>) -> Role {
    let meant = rules.iter().map(|rule| {
        roles.exe.holds(Some(exe), &rule.exe) && roles.script.holds(script, &rule.script)
    });
    Role {
        meant: meant.collect(),
        is_known: true,
    }
}

/// The automaton that tells the kind of a path, as a program and as a script.
fn automaton(
    roles: &mut Roles<'_>,
    globs: &[&Glob],
    bytes: &BTreeSet<u8>,
    rows: &mut Rows,
) -> Result<Automaton, AutomatonError> {
    let of_exe: Vec<usize> = roles.exe.patterns().map(|(list, _)| list).collect();
    let of_script: Vec<usize> = roles.script.patterns().map(|(list, _)| list).collect();
    Automaton::build(globs, bytes, |matched| {
        let lists = |of: &[usize], first: usize| -> BTreeSet<usize> {
            let own = matched.range(first..first + of.len());
            own.map(|pattern| of[pattern - first]).collect()
        };
        let exe = roles.exe.kind(lists(&of_exe, 0));
        let script = roles.script.kind(lists(&of_script, of_exe.len()));
        let mut row = [0; column::COUNT];
        // Too large ones are refused as soon as all are known.
        let small = |number: usize| u16::try_from(number).unwrap_or(u16::MAX);
        row[column::EXE as usize] = small(exe);
        row[column::SCRIPT as usize] = small(1 + script);
        rows.place(vec![row])
    })
}

/// The bits of the roles that a rule may be meant in.
pub(crate) fn bits(roles: &Roles<'_>, rules: &[Rule], rule: usize) -> u32 {
    if !rules[rule].names_actors() {
        return u32::MAX;
    }
    let all = roles.all.iter().enumerate();
    let meant = all.filter(|(_, role)| role.means(rule));
    meant.fold(1 << role::UNKNOWN, |bits, (index, _)| bits | 1 << index)
}
