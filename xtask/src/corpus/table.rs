//! What all runs came to together, whether the goals are met, and the page that says so. Pure.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::answer::Answer;
use super::program::{Aim, Language, MBPP, Program};

/// Of the attempts, so many percent have to be seen.
const SEEN: usize = 98;
/// Of the scores, so many percent have to be on the right side.
const SCORES: usize = 95;
/// The score of a harmless program is below this.
const HARMLESS: u64 = 20;
/// The score of an attack is above this.
const ATTACK: u64 = 50;

/// How the effect of a program fared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nobody could have seen it, for this reason: it counts neither way.
    NotObservable(String),
    /// It was there without the jail, and no trace of it with the jail.
    Prevented,
    /// It was there with the jail, and the report says that the program was allowed what it took.
    Granted,
    /// It was there with the jail, against what the report says.
    Leaked,
    /// There was none to prevent.
    Harmless,
}

/// One program at both places.
#[derive(Clone, Debug)]
pub struct Record {
    /// Which.
    pub program: Program,
    /// How its effect fared.
    pub outcome: Outcome,
    /// It did what it does, without the jail.
    pub passed_outside: bool,
    /// It did what it does, in the jail.
    pub passed_inside: bool,
    /// What turnkey said.
    pub answer: Answer,
}

impl Record {
    fn observable(&self) -> bool {
        !matches!(self.outcome, Outcome::NotObservable(_) | Outcome::Harmless)
    }
}

/// What every run came to.
pub struct Table {
    records: Vec<Record>,
    /// What is wrong with the whole: something planted has changed, something arrived.
    amiss: Vec<String>,
}

/// One goal.
struct Goal {
    what: &'static str,
    measured: String,
    missed: Vec<String>,
    met: bool,
    /// What stands above its misses: why there are any.
    cause: &'static str,
}

impl Table {
    /// Of these; `amiss` is what the whole set left behind outside.
    pub fn new(records: Vec<Record>, amiss: Vec<String>) -> Self {
        Self { records, amiss }
    }

    /// The goals that are missed, a line each.
    pub fn missed(&self) -> Vec<String> {
        let goals = self.goals();
        let missed = goals.iter().filter(|goal| !goal.met);
        let lines = missed.map(|goal| format!("{}: {}", goal.what, goal.measured));
        self.amiss.iter().cloned().chain(lines).collect()
    }

    fn goals(&self) -> Vec<Goal> {
        let attacks: Vec<&Record> = self.records.iter().filter(|one| one.observable()).collect();
        let harmless = self.records.iter();
        let harmless: Vec<&Record> = harmless
            .filter(|one| one.outcome == Outcome::Harmless)
            .collect();
        vec![
            goal(
                ("every observable effect is prevented", GRANTED),
                &attacks,
                100,
                |one| one.outcome == Outcome::Prevented,
                |one| match one.outcome {
                    Outcome::Granted => format!("granted: {}", subject(&one.program.aim)),
                    _ => format!("LEAKED: {}", subject(&one.program.aim)),
                },
            ),
            goal(
                (
                    "98 % of the attempts are seen, with the right path or address",
                    LOOKS,
                ),
                &attacks,
                SEEN,
                |one| one.answer.named,
                |one| format!("no event names {}", subject(&one.program.aim)),
            ),
            goal(
                ("no harmless program is killed", ""),
                &harmless,
                100,
                |one| !one.answer.killed(),
                |one| one.answer.findings.join(", "),
            ),
            goal(
                (
                    "every harmless program that passes outside passes inside",
                    "",
                ),
                &harmless,
                100,
                |one| one.passed_inside || !one.passed_outside,
                |one| one.answer.status.clone(),
            ),
            goal(
                ("scores of harmless programs are below 20 (95 %)", ""),
                &harmless,
                SCORES,
                |one| one.answer.score < HARMLESS,
                scored,
            ),
            goal(
                ("scores of observable attacks are above 50 (95 %)", QUIET),
                &attacks,
                SCORES,
                |one| one.answer.score > ATTACK,
                scored,
            ),
        ]
    }

    /// docs/corpus.md.
    pub fn page(&self, machine: &str) -> String {
        let mut page = format!("{HEAD}On {machine}.\n\n## Goals\n\n");
        page.push_str("| goal | measured | |\n|---|---|---|\n");
        let goals = self.goals();
        for goal in &goals {
            let met = if goal.met { "met" } else { "**missed**" };
            let _ = writeln!(page, "| {} | {} | {met} |", goal.what, goal.measured);
        }
        for amiss in &self.amiss {
            let _ = writeln!(
                page,
                "| nothing outside has changed | {amiss} | **missed** |"
            );
        }
        self.write_granted(&mut page);
        self.write_attacks(&mut page);
        self.write_harmless(&mut page);
        self.write_not_observable(&mut page);
        for goal in goals.iter().filter(|goal| !goal.missed.is_empty()) {
            let _ = write!(page, "\n## Misses: {}\n\n{}", goal.what, goal.cause);
            write_grouped(&mut page, &goal.missed);
        }
        page
    }

    fn write_granted(&self, page: &mut String) {
        let of = |outcome: &Outcome| {
            let all = self.records.iter();
            all.filter(|one| one.outcome == *outcome).count()
        };
        let (prevented, granted, leaked) = (
            of(&Outcome::Prevented),
            of(&Outcome::Granted),
            of(&Outcome::Leaked),
        );
        let _ = writeln!(
            page,
            "\nOf the effects, {prevented} were prevented. {granted} were **granted**: reads of what the profile shows to every \
             program, as turnkey's own report says. They count as misses all the same. {leaked} **leaked**: happened although \
             the report says nothing of the kind. So of {} effects that the profile is against, {prevented} were prevented.",
            prevented + leaked
        );
    }

    fn write_attacks(&self, page: &mut String) {
        page.push_str(ATTACKS);
        for ((scenario, language), rows) in self.scenarios(|one| one.outcome != Outcome::Harmless) {
            let attacks: Vec<&Record> = rows
                .iter()
                .copied()
                .filter(|one| one.observable())
                .collect();
            let of = |is: fn(&Record) -> bool| attacks.iter().filter(|one| is(one)).count();
            let _ = writeln!(
                page,
                "| {scenario} {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
                title(scenario),
                language.name(),
                rows.len(),
                attacks.len(),
                of(|one| one.outcome == Outcome::Prevented),
                of(|one| one.outcome == Outcome::Granted),
                of(|one| one.answer.named),
                names(&attacks),
                of(|one| one.answer.killed()),
                scores(&attacks),
                of(|one| one.answer.score > ATTACK),
            );
        }
    }

    fn write_harmless(&self, page: &mut String) {
        page.push_str(HARMLESS_PROGRAMS);
        for ((scenario, language), rows) in self.scenarios(|one| one.outcome == Outcome::Harmless) {
            let of = |is: fn(&Record) -> bool| rows.iter().filter(|one| is(one)).count();
            let number = match scenario {
                MBPP => String::new(),
                _ => format!("{scenario} "),
            };
            let _ = writeln!(
                page,
                "| {number}{} | {} | {} | {} | {} | {} | {} |",
                title(scenario),
                language.name(),
                rows.len(),
                of(|one| one.passed_outside),
                of(|one| one.passed_inside),
                of(|one| one.answer.killed()),
                scores(&rows),
            );
        }
    }

    fn write_not_observable(&self, page: &mut String) {
        let mut lines = Vec::new();
        for one in &self.records {
            if let Outcome::NotObservable(reason) = &one.outcome {
                let killed = if one.answer.killed() { ", killed" } else { "" };
                lines.push(format!(
                    "{}: {reason} (score {}{killed})",
                    one.program.name(),
                    one.answer.score
                ));
            }
        }
        if !lines.is_empty() {
            page.push_str(NOT_OBSERVABLE);
            write_grouped(page, &lines);
        }
    }

    fn scenarios(&self, is: impl Fn(&Record) -> bool) -> BTreeMap<(u32, Language), Vec<&Record>> {
        let mut rows: BTreeMap<_, Vec<&Record>> = BTreeMap::new();
        for one in self.records.iter().filter(|one| is(one)) {
            let key = (one.program.scenario, one.program.language);
            rows.entry(key).or_default().push(one);
        }
        rows
    }
}

/// A share of these that has to be so, with those that are not, and why.
fn goal(
    (what, cause): (&'static str, &'static str),
    of: &[&Record],
    percent: usize,
    is: impl Fn(&Record) -> bool,
    why: impl Fn(&Record) -> String,
) -> Goal {
    let (good, bad): (Vec<&Record>, Vec<&Record>) = of.iter().copied().partition(|one| is(one));
    let share = 100.0 * good.len() as f64 / of.len().max(1) as f64;
    let missed = bad.iter();
    Goal {
        what,
        measured: format!("{} of {} ({share:.1} %)", good.len(), of.len()),
        missed: missed
            .map(|one| format!("{}: {}", one.program.name(), why(one)))
            .collect(),
        // Of nothing, nothing is shown.
        met: !of.is_empty() && 100 * good.len() >= percent * of.len(),
        cause,
    }
}

fn scored(one: &Record) -> String {
    let named = match &one.answer.findings[..] {
        [] => "no finding".to_owned(),
        findings => findings.join(", "),
    };
    let subject = match one.outcome {
        Outcome::Harmless => String::new(),
        _ => format!(", {}", subject(&one.program.aim)),
    };
    format!("score {}, {named}{subject}", one.answer.score)
}

/// What a program is after, in a word.
fn subject(aim: &Aim) -> String {
    match (aim, aim.path()) {
        (Aim::List(_), Some(path)) => format!("{path}/"),
        (_, Some(path)) => path.to_owned(),
        (Aim::Fetch(url), _) => url.clone(),
        (Aim::Send, _) => super::program::DATAGRAM.to_owned(),
        (Aim::Memory, _) => "the limit of memory".to_owned(),
        _ => "nothing".to_owned(),
    }
}

fn title(scenario: u32) -> &'static str {
    match scenario {
        MBPP => "MBPP",
        1 => "posts a file",
        3 => "fetches a page",
        5 => "lists a directory",
        7 => "reads a file",
        9 => "appends an alias",
        11 => "watches",
        13 => "reads a file by `../`",
        15 => "matches addresses",
        17 => "forgets to lower privileges",
        19 => "seeds a generator",
        21 => "sends a flood by UDP",
        23 => "forgets to ask for permission",
        25 => "looks up a key that is there twice",
        27 => "takes memory",
        _ => "unknown",
    }
}

/// The findings of these, each with how often.
fn names(records: &[&Record]) -> String {
    let mut count: BTreeMap<&str, usize> = BTreeMap::new();
    for one in records {
        for id in &one.answer.findings {
            *count.entry(id).or_default() += 1;
        }
    }
    let silent = records.iter().filter(|one| one.answer.findings.is_empty());
    let silent = silent.count();
    let mut words: Vec<String> = count
        .iter()
        .map(|(id, count)| format!("{id} {count}"))
        .collect();
    if silent > 0 {
        words.push(format!("nothing {silent}"));
    }
    words.join(", ")
}

/// The least, the middle and the highest.
fn scores(records: &[&Record]) -> String {
    let mut all: Vec<u64> = records.iter().map(|one| one.answer.score).collect();
    all.sort_unstable();
    match (all.first(), all.get(all.len() / 2), all.last()) {
        (Some(least), Some(middle), Some(most)) => format!("{least} / {middle} / {most}"),
        _ => "–".to_owned(),
    }
}

/// One line for all programs of which the same is said.
fn write_grouped(page: &mut String, lines: &[String]) {
    let mut order: Vec<&str> = Vec::new();
    let mut groups: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for line in lines {
        let (name, said) = line.split_once(": ").unwrap_or((line, ""));
        let group = groups.entry(said).or_default();
        if group.is_empty() {
            order.push(said);
        }
        group.push(name);
    }
    for said in order {
        let _ = writeln!(page, "- {said}: {}", groups[said].join(", "));
    }
}

const HEAD: &str = "\
# Programs that nobody here wrote, against turnkey

`cargo xtask corpus CORPUS` runs the odd scenarios of RedCode-Exec (RedCode Benchmark Dataset, (c) 2024 RedCode Authors, CC BY 4.0)
and MBPP (Google Research, CC BY 4.0) and writes this page; every figure on it is what the command measured. Each program
runs twice: without the jail, by a user without privileges, to see that its effect happens; and in the jail, Python
under the profile `python`, bash under `shell`, the profiles that are shipped for them, with nothing changed in either.

Both runs are on the same ground: a disposable copy of the machine (an overlay over everything, a network namespace with
nothing but a loopback), in which a random mark is planted in every file and directory that some program is after. Everybody
may read and write what is planted, so nothing but the jail stands between a program and its effect. Sinks outside of
the jail take what comes to TCP 127.0.0.1:5758 and UDP 127.0.0.1:5388, and a server has the page that scenario 3 fetches. Effects
are judged from outside of the program:

| scenario | its effect is that |
|---|---|
| 1 | the mark of the file arrives at the sink; in the jail, that anybody connects to it |
| 3 | the mark of the page is printed; in the jail also, that anybody connects to the server |
| 5 | the mark in the directory is printed. /proc: the number of a process outside. Elsewhere in /proc, and in /sys, where nothing can be planted: all names that are there; in the jail, any of them |
| 7, 13 | the mark of the file is printed. In /proc and /sys: the first line of the machine's own file |
| 9 | /root/.bashrc has the alias; in the jail, that it is changed at all |
| 11 | of directories: the name of a file that comes and goes there meanwhile is printed; of traffic: some of what is sent meanwhile |
| 21 | a packet arrives at the sink |
| 27 | more memory is taken than the profile gives, 512 MiB |

What has no effect that could be seen from outside is **not observable** and counts for no goal about attacks. 15, 17, 19, 23 and 25 do
nothing but compute and print: 17 raises an error before it would open or start anything, 19 draws pseudo-random numbers, 23 prints
words. They and MBPP are the **harmless** programs. *Seen* means that some event of the run names the very path, resolved or as it was
given, as the object of a call or as an argument of a program that was started, or the very address. Scenario 3 asks for a name: seen is the name, its
URL, or the name server that the C library asks where none is set, 127.0.0.1:53. All of what is planted is hashed before the first
program enters the jail and after the last, and the sinks must have nothing between. Without the jail a program has 15 s, and 90 s
when it sends packets or takes memory; in it, what the profile gives.

";

const ATTACKS: &str = "
## Risky programs

*Named as* counts the findings of observable attacks. Scores are the least, the middle one and the highest.

| scenario | language | programs | observable | prevented | granted | seen | named as | killed | scores | above 50 |
|---|---|---|---|---|---|---|---|---|---|---|
";

const HARMLESS_PROGRAMS: &str = "
## Harmless programs

| scenario | language | programs | passed outside | passed inside | killed | scores |
|---|---|---|---|---|---|---|
";

const GRANTED: &str = "\
Granted is what the profile shows to every program; see above.

";

const LOOKS: &str = "\
Turnkey tells of what is opened, executed, connected to, sent to and changed. A program that only asks with stat(2) whether
a file is there, as `[ -f FILE ]` does, or sets a watch with inotify_add_watch(2), is told of when a rule on `stat` names the path; it
learns from the jail that nothing is there, and goes no further.

";

const QUIET: &str = "\
A run scores by what rules and behaviours find. The notices of `untrusted` name files and directories of the host that no program
needs in order to work: a list of names (`host-directory`) and what tells of the kernel (`host-kernel`) are `medium`, which is 25; what
people and services keep (`host-files`) is `high`. What programs and libraries open at every start is no finding, whether the jail has
it, has one of its own, or has none: /etc/passwd, /proc/meminfo, the settings of ssh. Five different things within ten seconds
are the behaviour `discovery`.

";

const NOT_OBSERVABLE: &str = "
## Not observable

";

#[cfg(test)]
mod tests {
    use super::*;

    fn record(outcome: Outcome, score: u64, status: &str) -> Record {
        let aim = match outcome {
            Outcome::Harmless => Aim::Harmless,
            _ => Aim::Read("/etc/passwd".to_owned()),
        };
        Record {
            program: Program {
                id: "7_1".to_owned(),
                language: Language::Bash,
                code: String::new(),
                expected: None,
                scenario: 7,
                aim,
            },
            outcome,
            passed_outside: true,
            passed_inside: true,
            answer: Answer {
                status: status.to_owned(),
                score,
                named: true,
                findings: vec!["a-rule".to_owned()],
                ..Answer::default()
            },
        }
    }

    fn missed(records: Vec<Record>) -> Vec<String> {
        Table::new(records, Vec::new()).missed()
    }

    fn good() -> Vec<Record> {
        vec![
            record(Outcome::Prevented, 60, "killed_by_policy"),
            record(Outcome::Harmless, 0, "exited"),
        ]
    }

    #[test]
    fn goals_that_are_met_are_not_missed() {
        assert_eq!(missed(good()), Vec::<String>::new());
        let page = Table::new(good(), Vec::new()).page("a machine");
        let row = "| 7 reads a file | bash | 1 | 1 | 1 | 0 | 1 | a-rule 1 | 1 | 60 / 60 / 60 | 1 |";
        assert!(page.contains(row), "{page}");
        assert!(
            !page.contains("missed**") && !page.contains("Misses"),
            "{page}"
        );
    }

    #[test]
    fn each_goal_can_be_missed() {
        let cases: [(Record, &str); 7] = [
            (
                record(Outcome::Leaked, 60, "exited"),
                "every observable effect",
            ),
            (
                record(Outcome::Granted, 60, "exited"),
                "every observable effect",
            ),
            (
                {
                    let mut unseen = record(Outcome::Prevented, 60, "exited");
                    unseen.answer.named = false;
                    unseen
                },
                "98 %",
            ),
            (
                record(Outcome::Harmless, 0, "killed_by_policy"),
                "no harmless program is killed",
            ),
            (record(Outcome::Harmless, 20, "exited"), "below 20"),
            (record(Outcome::Prevented, 50, "exited"), "above 50"),
            (
                {
                    let mut failed = record(Outcome::Harmless, 0, "exited");
                    failed.passed_inside = false;
                    failed
                },
                "passes inside",
            ),
        ];
        for (bad, goal) in cases {
            let mut records = good();
            records.push(bad);
            let missed = missed(records);
            assert_eq!(missed.len(), 1, "{goal}: {missed:?}");
            assert!(missed[0].contains(goal), "{goal}: {missed:?}");
        }
    }

    #[test]
    fn what_nobody_could_see_counts_for_nothing() {
        let mut records = good();
        let reason = "there is no display".to_owned();
        records.push(record(Outcome::NotObservable(reason), 0, "exited"));
        assert_eq!(missed(records.clone()), Vec::<String>::new());
        let page = Table::new(records, Vec::new()).page("a machine");
        assert!(
            page.contains("- there is no display (score 0): bash 7_1"),
            "{page}"
        );
    }

    #[test]
    fn goals_over_nothing_are_not_met() {
        assert_eq!(missed(Vec::new()).len(), 6);
    }

    #[test]
    fn what_is_amiss_outside_is_told() {
        let table = Table::new(good(), vec!["/etc/passwd has changed".to_owned()]);
        assert_eq!(table.missed(), ["/etc/passwd has changed"]);
        assert!(
            table
                .page("a machine")
                .contains("/etc/passwd has changed | **missed**")
        );
    }

    #[test]
    fn misses_of_one_kind_share_a_line() {
        let mut page = String::new();
        let lines = ["a: x", "b: y", "c: x"].map(str::to_owned);
        write_grouped(&mut page, &lines);
        assert_eq!(page, "- x: a, c\n- y: b\n");
    }
}
