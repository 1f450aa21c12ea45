//! The acts of a world that are none of `here`, and the other way.

use std::collections::BTreeSet;

use super::acts::{Act, Acts, RunActs, varied_between};
use super::world::World;
use crate::cmd::learn::varied::VariedNames;

/// The runs of the world that all others are compared with, at least two.
pub struct HereRuns(pub Vec<RunActs>);

/// The acts in which a world differs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorldDifference {
    /// Done there, and never here.
    pub there: Acts,
    /// Done here each time, and not there.
    pub here: Acts,
}

impl WorldDifference {
    /// True when the program does the same in both.
    pub fn is_empty(&self) -> bool {
        self.there.is_empty() && self.here.is_empty()
    }
}

impl HereRuns {
    /// The number of acts that were done in some of the runs alone: nobody is accused of them.
    pub fn noise(&self) -> usize {
        let folded = fold(&World::default(), &self.0, &varied_between(self.0.iter()));
        let all: BTreeSet<&Act> = folded.iter().flat_map(Acts::keys).collect();
        let varies = |act: &&&Act| folded.iter().any(|acts| !acts.contains_key(**act));
        all.iter().filter(varies).count()
    }

    /// The acts that every one of these runs of a world differs by from every run of here. Whatever differs between two runs of the
    /// same world is chance.
    pub fn difference(&self, world: &World, runs: &[RunActs]) -> WorldDifference {
        let varied = varied_between(self.0.iter().chain(runs));
        let here = fold(&World::default(), &self.0, &varied);
        let there = fold(world, runs, &varied);
        // A program that was ended there had no time for the rest, and that is told by its end.
        let came_to_its_end = runs.iter().all(|run| run.is_whole);
        WorldDifference {
            there: of_all(&there, &here),
            here: match came_to_its_end {
                true => of_all(&here, &there),
                false => Acts::new(),
            },
        }
    }
}

fn fold(world: &World, runs: &[RunActs], varied: &VariedNames) -> Vec<Acts> {
    runs.iter().map(|run| run.folded(world, varied)).collect()
}

/// The acts that all of these runs have in common, and none of the others has.
fn of_all(runs: &[Acts], others: &[Acts]) -> Acts {
    let in_all = |act: &Act| runs.iter().all(|acts| acts.contains_key(act));
    let in_none = |act: &Act| !others.iter().any(|acts| acts.contains_key(act));
    let first = runs.first().into_iter().flatten();
    let found = first.filter(|(act, _)| in_all(act) && in_none(act));
    found
        .map(|(act, shown)| (act.clone(), shown.clone()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(paths: &[&str]) -> RunActs {
        RunActs::that_wrote(paths)
    }

    fn told(here: &[&[&str]], there: &[&[&str]]) -> (Vec<String>, Vec<String>) {
        let here = HereRuns(here.iter().map(|paths| run(paths)).collect());
        let there: Vec<RunActs> = there.iter().map(|paths| run(paths)).collect();
        let difference = here.difference(&World::default(), &there);
        let words = |acts: Acts| acts.into_values().collect();
        (words(difference.there), words(difference.here))
    }

    #[test]
    fn what_is_done_in_every_run_of_a_world_alone_is_told() {
        let (there, here) = told(&[&["/w/a"], &["/w/a"]], &[&["/w/b"], &["/w/b"]]);
        assert_eq!(there, ["wrote /w/b"]);
        assert_eq!(here, ["wrote /w/a"]);
    }

    #[test]
    fn what_differs_between_two_runs_of_a_world_is_chance() {
        let nothing = (Vec::new(), Vec::new());
        assert_eq!(
            told(&[&["/w/a"], &["/w/a", "/w/b"]], &[&["/w/a"]]),
            nothing,
            "here"
        );
        assert_eq!(
            told(&[&["/w/a"], &["/w/a", "/w/b"]], &[&["/w/a", "/w/b"]]),
            nothing,
            "here"
        );
        assert_eq!(
            told(&[&["/w/a"], &["/w/a"]], &[&["/w/a", "/w/b"], &["/w/a"]]),
            nothing,
            "there"
        );
        let random = told(
            &[&["/w/tmpabc"], &["/w/tmpxyz"]],
            &[&["/w/tmpefg"], &["/w/tmphij"]],
        );
        assert_eq!(random, nothing, "names that nobody chose");
    }
}
