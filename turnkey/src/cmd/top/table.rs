//! The runs as a table. Every word of a run is made visible, whoever sent it.

use std::time::Duration;

use turnkey_report::{quote, shortened, size, visible};

use super::{TopPage, TopRun};

const HEAD: [&str; 12] = [
    "RUN", "UID", "PROFILE", "MODE", "VERDICT", "AGE", "TASKS", "MEMORY", "CPU%", "EVENTS",
    "FINDINGS", "COMMAND",
];
/// The longest cell; a command has the rest of the line.
const CELL: usize = 24;
/// The longest command.
const COMMAND: usize = 200;

/// The columns that a narrow terminal does without, the first of them first.
const LESS: [&str; 5] = ["MODE", "UID", "TASKS", "EVENTS", "PROFILE"];
/// The width that a command has at least, if columns can be left out for it.
const ROOM: usize = 24;

/// The head and a line for each run, of `columns` characters at most.
pub fn lines(page: &TopPage, columns: usize) -> Vec<String> {
    let mut rows = vec![HEAD.map(str::to_owned)];
    rows.extend(page.runs.iter().map(cells));
    let widths: Vec<usize> = (0..HEAD.len() - 1)
        .map(|column| rows.iter().map(|row| row[column].chars().count()).max())
        .map(Option::unwrap_or_default)
        .collect();
    let shown = shown(&widths, columns);
    let mut lines: Vec<String> = rows.iter().map(|row| line(row, &widths, &shown)).collect();
    for run in &page.silent {
        lines.push(format!("{run}  does not answer"));
    }
    let cut = |line: String| line.chars().take(columns).collect();
    lines.into_iter().map(cut).collect()
}

/// The columns before the command that are shown in so much space.
fn shown(widths: &[usize], columns: usize) -> Vec<usize> {
    let mut shown: Vec<usize> = (0..widths.len()).collect();
    for name in LESS {
        let used: usize = shown.iter().map(|column| widths[*column] + 2).sum();
        if used.saturating_add(ROOM) <= columns {
            break;
        }
        shown.retain(|column| HEAD[*column] != name);
    }
    shown
}

fn line(row: &[String; 12], widths: &[usize], shown: &[usize]) -> String {
    let mut line: String = shown
        .iter()
        .map(|column| format!("{:<width$}  ", row[*column], width = widths[*column]))
        .collect();
    line += &row[HEAD.len() - 1];
    line
}

fn cells(run: &TopRun) -> [String; 12] {
    let state = &run.state;
    let unknown = || "-".to_owned();
    let cell = |text: &str| shortened(&visible(text), CELL);
    let command: Vec<String> = state.command.iter().map(|word| quote(word)).collect();
    let command = match &state.group {
        Some(group) => format!("group {group}"),
        None => command.join(" "),
    };
    let verdict = serde_json::to_value(state.verdict).unwrap_or_default();
    [
        cell(&state.run),
        run.uid.to_string(),
        cell(&state.profile),
        cell(&state.mode),
        cell(verdict.as_str().unwrap_or_default()),
        age(state.age_seconds),
        state.tasks.map_or_else(unknown, |it| it.to_string()),
        state.memory_bytes.map_or_else(unknown, size),
        run.cpu_percent
            .map_or_else(unknown, |it| format!("{it:.0}")),
        state.events.to_string(),
        state.findings.to_string(),
        shortened(&visible(&command), COMMAND),
    ]
}

/// A duration as people say it, without parts that do not matter any more.
fn age(seconds: f64) -> String {
    let seconds = Duration::try_from_secs_f64(seconds)
        .unwrap_or_default()
        .as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds / 3600 % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::told;
    use super::*;

    fn page(runs: Vec<TopRun>) -> TopPage {
        TopPage {
            schema: "turnkey.top/v1",
            runs,
            silent: vec!["b".to_owned()],
        }
    }

    #[test]
    fn columns_stand_below_their_heads() {
        let run = TopRun {
            pid: 7,
            uid: 1000,
            cpu_percent: Some(99.6),
            state: told("6a1-2b", 61.0, 1.0),
        };
        let lines = lines(&page(vec![run]), usize::MAX);
        assert_eq!(
            lines,
            [
                "RUN     UID   PROFILE  MODE     VERDICT   AGE    TASKS  MEMORY  CPU%  EVENTS  FINDINGS  COMMAND",
                "6a1-2b  1000  python   enforce  violated  1m01s  2      3 MiB   100   12      1         python3 -c 'print(1)'",
                "b  does not answer",
            ]
        );
    }

    #[test]
    fn a_narrow_terminal_has_room_for_the_command() {
        let run = TopRun {
            pid: 7,
            uid: 1000,
            cpu_percent: Some(99.6),
            state: told("6612742ceb659-36c7", 61.0, 1.0),
        };
        let lines = lines(&page(vec![run]), 80);
        assert_eq!(
            lines[0],
            "RUN                 VERDICT   AGE    MEMORY  CPU%  FINDINGS  COMMAND"
        );
        assert!(lines[1].contains("python3 -c"), "{}", lines[1]);
        assert!(lines.iter().all(|line| line.chars().count() <= 80));
    }

    #[test]
    fn no_word_of_a_run_steers_the_terminal() {
        let mut state = told("6a1", 1.0, 1.0);
        let hostile = "\x1b[2J\u{9b}x\n\u{202e}";
        (state.profile, state.mode) = (hostile.to_owned(), hostile.to_owned());
        state.command = vec![hostile.to_owned()];
        let in_group = turnkey_report::live::LiveState {
            group: Some(hostile.to_owned()),
            ..state.clone()
        };
        for state in [state, in_group] {
            let run = TopRun {
                uid: 0,
                pid: 7,
                cpu_percent: None,
                state,
            };
            for line in lines(&page(vec![run]), usize::MAX) {
                assert_eq!(line, visible(&line));
            }
        }
    }

    #[test]
    fn ages_are_short() {
        for (seconds, said) in [
            (0.9, "0s"),
            (59.0, "59s"),
            (3599.0, "59m59s"),
            (7260.0, "2h01m"),
            (90_000.0, "1d01h"),
            (f64::MAX, "0s"),
            (-1.0, "0s"),
        ] {
            assert_eq!(age(seconds), said);
        }
    }
}
