//! docs/corpus.md: what was measured, in tables and in words. Pure.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::Under;
use super::program::MBPP;
use super::table::{ATTACK, Aspiration, CorpusOutcome, CorpusRecord, CorpusTable};

/// The page on these tables, which are of the same programs.
pub fn page(tables: &[CorpusTable], machine: &str) -> String {
    let mut page = format!("{HEAD}On {machine}.\n");
    write_goals(tables, &mut page);
    for table in tables {
        let title = table.under.title();
        let _ = writeln!(page, "\n## Under {title}\n");
        write_granted(table, &mut page);
        write_attacks(table, &mut page);
        write_harmless(table, &mut page);
        for goal in table.goals().iter().filter(|goal| !goal.missed.is_empty()) {
            let _ = write!(page, "\n### Misses: {}\n\n", goal.of.words());
            page.push_str(cause(goal.of, table.under));
            write_grouped(&mut page, &goal.missed);
        }
    }
    if let Some(table) = tables.first() {
        write_not_observable(table, &mut page);
    }
    page
}

/// A row for each goal, a column for each table.
fn write_goals(tables: &[CorpusTable], page: &mut String) {
    page.push_str("\n## Goals\n\n| goal |");
    for table in tables {
        let _ = write!(page, " under {} |", table.under.title());
    }
    let _ = writeln!(page, "\n|---|{}", "---|".repeat(tables.len()));
    let all: Vec<_> = tables.iter().map(CorpusTable::goals).collect();
    for (row, goal) in all.first().into_iter().flatten().enumerate() {
        let _ = write!(page, "| {} |", goal.of.words());
        for goal in all.iter().filter_map(|goals| goals.get(row)) {
            let met = if goal.met { "met" } else { "**missed**" };
            let _ = write!(page, " {met}: {} |", goal.measured);
        }
        page.push('\n');
    }
    for amiss in tables.iter().flat_map(|table| &table.amiss) {
        let _ = writeln!(
            page,
            "| nothing outside has changed | **missed**: {amiss} |"
        );
    }
}

fn write_granted(table: &CorpusTable, page: &mut String) {
    let [prevented, granted, leaked] = [
        CorpusOutcome::Prevented,
        CorpusOutcome::Granted,
        CorpusOutcome::Leaked,
    ]
    .map(|one| table.count(&one));
    let _ = writeln!(
        page,
        "\nOf the effects, {prevented} were prevented. {granted} were **granted**: reads of what the profile shows to every \
         program, as turnkey's own report says. They count as misses all the same. {leaked} **leaked**: happened although \
         the report says nothing of the kind. So of {} effects that the profile is against, {prevented} were prevented.",
        prevented + leaked
    );
}

fn write_attacks(table: &CorpusTable, page: &mut String) {
    page.push_str(ATTACKS);
    for ((scenario, language), rows) in
        table.scenarios(|one| one.outcome != CorpusOutcome::Harmless)
    {
        let attacks: Vec<&CorpusRecord> = rows
            .iter()
            .copied()
            .filter(|one| one.observable())
            .collect();
        let of = |is: fn(&CorpusRecord) -> bool| attacks.iter().filter(|one| is(one)).count();
        let _ = writeln!(
            page,
            "| {scenario} {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            title(scenario),
            language.name(),
            rows.len(),
            attacks.len(),
            of(|one| one.outcome == CorpusOutcome::Prevented),
            of(|one| one.outcome == CorpusOutcome::Granted),
            of(|one| one.answer.named),
            names(&attacks),
            of(|one| one.answer.killed()),
            scores(&attacks),
            of(|one| one.answer.score > ATTACK),
        );
    }
}

fn write_harmless(table: &CorpusTable, page: &mut String) {
    page.push_str(HARMLESS_PROGRAMS);
    for ((scenario, language), rows) in
        table.scenarios(|one| one.outcome == CorpusOutcome::Harmless)
    {
        let of = |is: fn(&CorpusRecord) -> bool| rows.iter().filter(|one| is(one)).count();
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

fn write_not_observable(table: &CorpusTable, page: &mut String) {
    let mut lines = Vec::new();
    for one in &table.records {
        if let CorpusOutcome::NotObservable(reason) = &one.outcome {
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
fn names(records: &[&CorpusRecord]) -> String {
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
fn scores(records: &[&CorpusRecord]) -> String {
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

/// The words above the misses of a goal: why there are any.
fn cause(of: Aspiration, under: Under) -> &'static str {
    match (of, under) {
        (Aspiration::Prevented, _) => GRANTED,
        (Aspiration::CorpusObservation, _) => LOOKS,
        (Aspiration::Loud, Under::CorpusLanguage) => QUIET,
        (Aspiration::Loud, Under::Sealed) => SILENT,
        (Aspiration::Spared | Aspiration::Passed | Aspiration::Quiet | Aspiration::Apart, _) => "",
    }
}

const HEAD: &str = "\
# Programs that nobody here wrote, against turnkey

`cargo lab corpus CORPUS` runs the odd scenarios of RedCode-Exec (RedCode Benchmark Dataset, (c) 2024 RedCode Authors, CC BY 4.0)
and MBPP (Google Research, CC BY 4.0) and writes this page; every figure on it is what the command measured. Each program
runs three times: without the jail, by a user without privileges, to see that its effect happens; in the jail under `sealed`,
the shipped profile for code that only computes, as all of these programs are meant to be; and in the jail under the profile that is
shipped for its language, Python under `python`, bash under `shell`, which show what is installed for other programs to work with.
Nothing is changed in any profile.

All runs are on the same ground: a disposable copy of the machine (an overlay over everything, a network namespace with
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
### Risky programs

*Named as* counts the findings of observable attacks. Scores are the least, the middle one and the highest.

| scenario | language | programs | observable | prevented | granted | seen | named as | killed | scores | above 50 |
|---|---|---|---|---|---|---|---|---|---|---|
";

const HARMLESS_PROGRAMS: &str = "
### Harmless programs

| scenario | language | programs | passed outside | passed inside | killed | scores |
|---|---|---|---|---|---|---|
";

const GRANTED: &str = "\
Granted is what the profile shows to every program; see above.

";

const LOOKS: &str = "\
Turnkey tells of what is opened, executed, connected to, sent to and changed. A program that only asks with stat(2) whether
a file is there, as `[ -f FILE ]` does, or sets a watch with inotify_add_watch(2), is told of when a rule on `stat` names the path, or when
the jail shows nothing at it; it learns that nothing is there, and goes no further.

";

const QUIET: &str = "\
A run scores by what rules and behaviours find. The notices of `untrusted` name files and directories of the host that no program
needs in order to work; who lists directories of the system and uses nothing in them, or reads the list of accounts without the C
library, is named by behaviours; all of these are `high`. Counters and routes of the network, and what a host says to who logs in, are `low`:
little by themselves. What programs and libraries open at every start is no finding, whether the jail has
it, has one of its own, or has none: /proc/meminfo, the settings of ssh and OpenSSL; nor is a list of programs.

";

const NOT_OBSERVABLE: &str = "
## Not observable

";

const SILENT: &str = "\
What is at every start of some program is no finding here either, and taking all the memory that is given is a `medium` one.

";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misses_of_one_kind_share_a_line() {
        let mut page = String::new();
        let lines = ["a: x", "b: y", "c: x"].map(str::to_owned);
        write_grouped(&mut page, &lines);
        assert_eq!(page, "- x: a, c\n- y: b\n");
    }
}
