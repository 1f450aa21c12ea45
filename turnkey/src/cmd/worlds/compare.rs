//! The acts of a world that are none of `here`, and the other way.

use super::acts::{Act, Acts, RunActs, varied_between};
use super::world::World;

/// The runs of the world that all others are compared with, as often as it takes to tell chance from choice.
pub struct HereRuns {
    runs: [RunActs; 2],
}

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
    /// Both runs.
    pub fn new(runs: [RunActs; 2]) -> HereRuns {
        HereRuns { runs }
    }

    /// The number of acts that were done in one of the runs alone: nobody is accused of them.
    pub fn noise(&self) -> usize {
        let [first, second] = self.folded(&[]);
        let only =
            |one: &Acts, other: &Acts| one.keys().filter(|act| !other.contains_key(act)).count();
        only(&first, &second) + only(&second, &first)
    }

    fn folded(&self, others: &[&RunActs]) -> [Acts; 2] {
        let here = World::default();
        let mut runs: Vec<&RunActs> = self.runs.iter().collect();
        runs.extend(others);
        let varied = varied_between(&runs);
        self.runs.each_ref().map(|run| run.folded(&here, &varied))
    }

    /// The acts that every one of these runs of a world differs by from every run of here. Whatever differs between two runs of the
    /// same world is chance.
    pub fn difference(&self, world: &World, runs: &[&RunActs]) -> WorldDifference {
        let [first, second] = self.folded(runs);
        let mut all: Vec<&RunActs> = self.runs.iter().collect();
        all.extend(runs);
        let varied = varied_between(&all);
        let there: Vec<Acts> = runs.iter().map(|run| run.folded(world, &varied)).collect();
        let is_in_all = |act: &Act| there.iter().all(|acts| acts.contains_key(act));
        let is_in_none = |act: &Act| there.iter().all(|acts| !acts.contains_key(act));
        let of_there = there.first().into_iter().flatten();
        let of_there = of_there.filter(|(act, _)| {
            is_in_all(act) && !first.contains_key(act) && !second.contains_key(act)
        });
        // A program that was ended there had no time for the rest, and that is told by its end.
        let came_to_its_end = runs.iter().all(|run| run.is_whole);
        let of_here = first
            .iter()
            .filter(|(act, _)| came_to_its_end && second.contains_key(act) && is_in_none(act));
        let own = |(act, shown): (&Act, &String)| (act.clone(), shown.clone());
        WorldDifference {
            there: of_there.map(own).collect(),
            here: of_here.map(own).collect(),
        }
    }
}
