//! The figures of README.md are those of the pages that measured them.

use turnkey_expectations::expected;

expected!(not_on[ORDINARY_6_12], "pages are the same on each kernel");

const README: &str = include_str!("../../README.md");
const CORPUS: &str = include_str!("../../docs/corpus.md");
const BENCHMARKS: &str = include_str!("../../docs/benchmarks.md");

/// The cells of the first row that begins with these words.
fn row<'p>(page: &'p str, first: &str) -> Vec<&'p str> {
    let cells = |line: &'p str| -> Vec<&'p str> {
        let cells = line.trim_matches('|').split('|');
        cells.map(str::trim).collect()
    };
    let rows = page.lines().filter(|line| line.starts_with('|'));
    let row = rows.map(cells).find(|cells| cells[0] == first);
    row.unwrap_or_else(|| panic!("no row {first:?}"))
}

/// The rest of the page from a heading on, up to the next one.
fn section<'p>(page: &'p str, heading: &str) -> &'p str {
    let (_, rest) = page.split_once(heading).expect("a heading");
    rest.split("\n#").next().unwrap_or(rest)
}

/// README.md without its line breaks has this.
fn assert_said(expected: &str) {
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let said = words(README).contains(&words(expected));
    assert!(said, "README.md does not say what the page has: {expected}");
}

/// A goal of docs/corpus.md: how many of how many, under `sealed`, and under `python` and `shell`.
fn of_goal(goal: &str) -> [(&'static str, &'static str); 2] {
    let row = row(CORPUS, goal);
    [row[1], row[2]].map(|cell| {
        let figures = cell.split_once(": ").and_then(|(_, rest)| {
            let (figures, _) = rest.split_once(" (")?;
            figures.split_once(" of ")
        });
        figures.unwrap_or_else(|| panic!("{goal}: {cell}"))
    })
}

#[test]
fn figures_of_the_corpus_are_those_that_were_measured() {
    let [(prevented, observable), _] = of_goal("every observable effect is prevented");
    let seen = "98 % of the attempts are seen, with the right path or address";
    let [(seen, attempts), _] = of_goal(seen);
    let [(above, _), (above_elsewhere, _)] =
        of_goal("scores of observable attacks are above 50 (95 %)");
    let alive = of_goal("no harmless program is killed");
    let [(unharmed, harmless), _] = alive;
    assert_said(&format!(
        "under `sealed`, {prevented} of {observable} observable effects of RedCode's risky programs were prevented, {seen} of the \
         {attempts} attempts seen with the right path or address, and {above} scored above 50; under `python` and `shell`, \
         {above_elsewhere} did. Of {harmless} harmless programs none was killed, and each scored 0."
    ));
    assert!(alive.iter().all(|(alive, all)| alive == all), "{unharmed}");
    let tables = CORPUS.split("### Harmless programs").skip(1);
    let tables: Vec<&str> = tables.map(|rest| section(rest, "\n")).collect();
    assert_eq!(tables.len(), 2);
    for table in tables {
        let programs = table.lines().filter(|line| line.contains("| python |"));
        let mut programs = programs.peekable();
        assert!(programs.peek().is_some());
        programs.for_each(|line| assert!(line.ends_with("| 0 / 0 / 0 |"), "{line}"));
    }
}

/// A figure as README.md rounds it: two digits, and a share that is near 1 as it is.
fn rounded(figure: &str) -> String {
    let value: f64 = figure.parse().expect("a figure");
    match value {
        0.95..1.5 => figure.to_owned(),
        _ if value < 9.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// A median as it is told: in milliseconds, and from a tenth of a second on in seconds.
fn duration(cell: &str) -> String {
    let value = cell.strip_suffix(" ms").expect("milliseconds");
    let value: f64 = value.parse().expect("a figure");
    match value {
        100.0.. => format!("{:.2} s", value / 1000.0),
        _ => format!("{value:.0} ms"),
    }
}

#[test]
fn costs_are_those_that_were_measured() {
    let goals = section(BENCHMARKS, "\n## Goals");
    let reached = |word: &str| goals.matches(word).count();
    let rows = goals.lines().filter(|line| line.starts_with('|'));
    let (missed, all) = (reached("| **no** |"), rows.skip(2).count());
    assert_said(&format!(
        "[docs/benchmarks.md](docs/benchmarks.md), which has {all} goals, of which {missed} are missed:"
    ));
    let start = section(BENCHMARKS, "\n## Start");
    let starts = [
        (
            "warm start of `/bin/true`, every layer and the monitor on",
            "turnkey, warm",
        ),
        (
            "cold start of `/bin/true`, programs loaded from nothing",
            "turnkey, cold",
        ),
    ];
    for (goal, measured) in starts {
        let (took, times) = (row(start, measured)[1], row(goals, goal)[2]);
        let (took, times) = (duration(took), rounded(times));
        assert_said(&format!(
            "| {took}, {times} × bubblewrap | {}",
            against(goals, goal)
        ));
    }
    let goal = "C compile, watched";
    let times = rounded(row(goals, goal)[2]);
    let jail = "the same jail unwatched";
    assert_said(&format!("| {times} × {jail} | {}", against(goals, goal)));
}

/// The goal, and whether it is reached.
fn against(goals: &str, goal: &str) -> String {
    let row = row(goals, goal);
    let (limit, _) = row[1].split_once(" ×").expect("a goal of a ratio");
    let reached = match row[4] {
        "yes" => "reached",
        _ => "**missed**",
    };
    format!("{limit} ×, {reached} |")
}
