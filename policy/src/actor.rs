//! The actor of an attempt: the program that a process executes, as rules with `exe` and `script` know it.

use crate::glob::{Glob, Specificity};
use crate::tables::Rule;

/// The program of a process since its last successful execve(2). Its children have it until they
/// execute another one, and so have all of its threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ActorPaths<'a> {
    /// The path of the file that the kernel executed, as it was then: of a script, the interpreter.
    pub exe: &'a [u8],
    /// The path by which a script was started; `None` where none was.
    pub script: Option<&'a [u8]>,
}

impl ActorPaths<'_> {
    /// True when a rule speaks of what this one does.
    #[must_use]
    pub fn is_meant_by(self, rule: &Rule) -> bool {
        let is_one_of = |globs: &[Glob], path: &[u8]| globs.iter().any(|glob| glob.matches(path));
        (rule.exe.is_empty() || is_one_of(&rule.exe, self.exe))
            && (rule.script.is_empty()
                || self
                    .script
                    .is_some_and(|script| is_one_of(&rule.script, script)))
    }
}

impl Rule {
    /// True when the rule or candidate is about some programs or scripts alone.
    #[must_use]
    pub const fn names_actors(&self) -> bool {
        !self.exe.is_empty() || !self.script.is_empty()
    }

    /// True when the rule covers every program and script that the other one does: for certain, as the
    /// patterns are compared as they are written.
    #[must_use]
    pub fn means_all_actors_of(&self, other: &Self) -> bool {
        let covers = |own: &[Glob], others: &[Glob]| {
            own.is_empty() || !others.is_empty() && others.iter().all(|glob| own.contains(glob))
        };
        covers(&self.exe, &other.exe) && covers(&self.script, &other.script)
    }
}

/// The specificity with which a rule names scripts and programs, each by its least specific pattern. The greater is
/// the narrower; `None` names all.
pub(crate) fn narrowness(rule: &Rule) -> (Option<Specificity>, Option<Specificity>) {
    let least = |globs: &[Glob]| globs.iter().map(Glob::specificity).min();
    (least(&rule.script), least(&rule.exe))
}
