//! The ratios to be reached, and whether they are.

use std::collections::BTreeMap;

use super::findings::FindingsBlock;
use super::statistics::Ratio;

/// One line of the table.
pub struct BenchGoal {
    /// Names the ratio among those that are measured.
    pub ratio: &'static str,
    /// For people.
    pub what: &'static str,
    /// The ratio that reaches the goal, as does all on the good side of it.
    pub limit: f64,
    /// The good side.
    pub better: Better,
    /// The words after a figure.
    pub unit: &'static str,
    /// The ratio that the kernel alone comes to, where that is measured.
    pub floor: Option<&'static str>,
}

/// The side on which good ratios are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Better {
    /// Low ones.
    Less,
    /// High ones.
    More,
}

use Better::{Less, More};

const fn goal(
    ratio: &'static str,
    what: &'static str,
    better: Better,
    limit: f64,
    unit: &'static str,
) -> BenchGoal {
    BenchGoal {
        ratio,
        what,
        limit,
        better,
        unit,
        floor: None,
    }
}

impl BenchGoal {
    const fn above(self, floor: &'static str) -> BenchGoal {
        BenchGoal {
            floor: Some(floor),
            ..self
        }
    }
}

/// All of them.
pub const GOALS: &[BenchGoal] = &[
    goal(
        START_WARM,
        "warm start of `/bin/true`, every layer and the monitor on",
        Less,
        1.0,
        "× bubblewrap, all namespaces",
    )
    .above(WARM_FLOOR),
    goal(
        START_SERVED,
        "start of `/bin/true` by an ordinary user through the service, programs loaded",
        Less,
        1.0,
        "× bubblewrap, all namespaces",
    )
    .above(WARM_FLOOR),
    goal(
        START_COLD,
        "cold start of `/bin/true`, programs loaded from nothing",
        Less,
        4.0,
        "× bubblewrap, all namespaces",
    )
    .above(COLD_VERIFIER),
    goal(START_PYTHON, "`python3 -c pass`, warm", Less, 1.3, "× bare").above(PYTHON_FLOOR),
    goal(
        "cost.open.watched",
        "open and close of the same file, watched",
        Less,
        1.15,
        "× bare",
    )
    .above("cost.open.jailed"),
    goal(
        "cost.getppid.watched",
        "getppid, watched",
        Less,
        1.5,
        "× bare",
    )
    .above("cost.getppid.floor"),
    goal(
        "cost.getppid.outside",
        "getppid outside, while a group of others is watched",
        Less,
        1.4,
        "× without turnkey",
    )
    .above("cost.getppid.floor"),
    goal(
        "cost.getppid.levels",
        "the same, while groups of two levels are watched",
        Less,
        1.4,
        "× without turnkey",
    )
    .above("cost.getppid.floor"),
    goal(
        "cost.getppid.idle",
        "getppid while turnkey is loaded and nobody watches",
        Less,
        1.0,
        "× without turnkey",
    ),
    goal(
        "cost.spawn.watched",
        "fork and exec, watched",
        Less,
        1.15,
        "× same jail, unwatched",
    ),
    goal(
        "cost.compile.watched",
        "C compile, watched",
        Less,
        1.05,
        "× same jail, unwatched",
    ),
    goal(
        "cost.import.watched",
        "import of the standard library, watched",
        Less,
        1.05,
        "× same jail, unwatched",
    ),
    goal(
        "cost.strace",
        "against `strace -f` on the same calls, where it is least",
        More,
        20.0,
        "× faster",
    )
    .above("cost.strace.jailed"),
    goal(
        "kill.further",
        "further system calls of the offender after the forbidden one",
        Less,
        0.0,
        "",
    ),
    goal(
        "scale.rate",
        "jails per second, 4 at once",
        More,
        1.4,
        "× bubblewrap, unprivileged",
    )
    .above("scale.floor"),
    goal(
        "scale.served",
        "jails per second through the service, 4 at once, each with its verified report",
        More,
        1.2,
        "× bubblewrap, unprivileged",
    )
    .above("scale.floor"),
    goal(
        "flat.latency",
        "half of the last thousand of 10 000 runs through the service, within",
        Less,
        1.05,
        "× half of the first thousand",
    ),
    goal(
        "flat.memory",
        "what the service's own process takes more after the last thousand than after the first",
        Less,
        0.0,
        "KiB",
    ),
    goal(
        "scale.memory",
        "memory of turnkey for each living jail, besides its rings",
        Less,
        3.0,
        "MiB",
    ),
];

/// The ratios of the starts.
pub const START_WARM: &str = "start.true.warm";
/// The same through the service.
pub const START_SERVED: &str = "start.true.served";
/// The same, cold.
pub const START_COLD: &str = "start.true.cold";
/// Of the interpreter.
pub const START_PYTHON: &str = "start.python.warm";
/// The name of the kernel's part of a warm start.
pub const WARM_FLOOR: &str = "start.true.floor";
/// The verifier's part of a cold one.
pub const COLD_VERIFIER: &str = "start.true.verifier";
/// The kernel's part of the interpreter's.
pub const PYTHON_FLOOR: &str = "start.python.floor";

impl BenchGoal {
    /// Whether that is good enough.
    pub fn is_reached(&self, ratio: Ratio) -> bool {
        match self.better {
            Less => ratio.value <= self.limit,
            More => ratio.value >= self.limit,
        }
    }

    fn wanted(&self) -> String {
        let sign = match self.better {
            Less => "≤",
            More => "≥",
        };
        format!("{sign} {} {}", self.limit, self.unit)
            .trim_end()
            .to_owned()
    }
}

/// The words below the table.
pub const FLOORS: &str = "*Without turnkey* is what is measured of the same thing when only the kernel does its part: starts and jails per \
second are those of a program that makes the same kernel objects, holds what a monitor holds, and does nothing else, a cold start is only \
what the verifier takes for the programs, on all CPUs together, an open is one in the same jail without a monitor, which is what \
`strace` is compared with, too, and getppid is called where programs that return at once are attached. A goal that is missed there already is out of reach for whoever wants that layer on this kernel; where it \
is not, the rest is turnkey's own.";

/// The table of goals, with what was measured beside them.
pub fn table(ratios: &BTreeMap<String, Ratio>) -> FindingsBlock {
    let head = [
        "",
        "goal",
        "measured",
        "noise",
        "reached",
        "without turnkey",
    ];
    let rows = GOALS.iter().map(|goal| {
        let measured = ratios.get(goal.ratio);
        let [value, noise, reached] = match measured {
            None => ["not measured".to_owned(), String::new(), String::new()],
            Some(&ratio) => [
                format!("{:.2}", ratio.value),
                format!("± {:.2}", ratio.noise),
                if goal.is_reached(ratio) {
                    "yes"
                } else {
                    "**no**"
                }
                .to_owned(),
            ],
        };
        let floor = goal.floor.and_then(|floor| ratios.get(floor));
        let floor = floor.map(|floor| format!("{:.2}", floor.value));
        vec![
            goal.what.to_owned(),
            goal.wanted(),
            value,
            noise,
            reached,
            floor.unwrap_or_default(),
        ]
    });
    FindingsBlock::table(&head, rows.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_goal_is_about_another_ratio() {
        let mut names: Vec<_> = GOALS.iter().map(|goal| goal.ratio).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), GOALS.len());
    }

    #[test]
    fn a_goal_is_reached_on_its_good_side_and_on_its_edge() {
        let named = |what: &str| GOALS.iter().find(|goal| goal.what.starts_with(what));
        let [low, high] = ["warm start of `/bin/true`", "against `strace -f`"]
            .map(|what| named(what).expect("such a goal"));
        assert!(low.better == Less && high.better == More);
        for (goal, good, bad) in [(low, 0.9, 1.1), (high, 21.0, 19.0)] {
            assert!(goal.is_reached(Ratio::exact(good)));
            assert!(goal.is_reached(Ratio::exact(goal.limit)));
            assert!(!goal.is_reached(Ratio::exact(bad)));
        }
    }

    #[test]
    fn what_was_not_measured_is_said_and_is_not_reached() {
        let measured = BTreeMap::from([
            (
                START_WARM.to_owned(),
                Ratio {
                    value: 1.5,
                    noise: 0.1,
                },
            ),
            (WARM_FLOOR.to_owned(), Ratio::exact(1.1)),
        ]);
        let text = table(&measured).markdown();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 2 + GOALS.len());
        assert!(
            lines[2].contains("| 1.50 | ± 0.10 | **no** | 1.10 |"),
            "{text}"
        );
        assert!(lines[4].contains("| not measured |  |  |  |"), "{text}");
    }
}
