use super::super::document::page;
use super::*;

fn record(outcome: CorpusOutcome, score: u64, status: &str) -> CorpusRecord {
    let aim = match outcome {
        CorpusOutcome::Harmless => Aim::Harmless,
        _ => Aim::Read("/etc/passwd".to_owned()),
    };
    CorpusRecord {
        program: CorpusProgram {
            id: "7_1".to_owned(),
            language: CorpusLanguage::Bash,
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
            verdict: "clean".to_owned(),
            score,
            named: true,
            findings: vec!["a-rule".to_owned()],
            ..Answer::default()
        },
    }
}

fn table(under: Under, records: Vec<CorpusRecord>) -> CorpusTable {
    CorpusTable {
        under,
        records,
        amiss: Vec::new(),
    }
}

fn missed(records: Vec<CorpusRecord>) -> Vec<String> {
    table(Under::Sealed, records).missed()
}

#[test]
fn a_harmless_program_is_called_clean() {
    let mut records = good();
    "inconclusive".clone_into(&mut records[1].answer.verdict);
    let expected = "`sealed`: bash 7_1 is harmless, and its verdict inconclusive";
    assert_eq!(missed(records), [expected]);
}

fn page_of(records: Vec<CorpusRecord>) -> String {
    page(&[table(Under::Sealed, records)], "a machine")
}

fn good() -> Vec<CorpusRecord> {
    vec![
        record(CorpusOutcome::Prevented, 60, "killed_by_policy"),
        record(CorpusOutcome::Harmless, 0, "exited"),
    ]
}

#[test]
fn goals_that_are_met_are_not_missed() {
    assert_eq!(missed(good()), Vec::<String>::new());
    let page = page_of(good());
    let row = "| 7 reads a file | bash | 1 | 1 | 1 | 0 | 1 | a-rule 1 | 1 | 60 / 60 / 60 | 1 |";
    assert!(page.contains(row), "{page}");
    assert!(
        !page.contains("missed**") && !page.contains("Misses"),
        "{page}"
    );
}

#[test]
fn each_goal_can_be_missed() {
    let cases: [(CorpusRecord, &str); 7] = [
        (
            record(CorpusOutcome::Leaked, 60, "exited"),
            "every observable effect",
        ),
        (
            record(CorpusOutcome::Granted, 60, "exited"),
            "every observable effect",
        ),
        (
            {
                let mut unseen = record(CorpusOutcome::Prevented, 60, "exited");
                unseen.answer.named = false;
                unseen
            },
            "98 %",
        ),
        (
            record(CorpusOutcome::Harmless, 0, "killed_by_policy"),
            "no harmless program is killed",
        ),
        (record(CorpusOutcome::Harmless, 20, "exited"), "below 20"),
        (record(CorpusOutcome::Prevented, 50, "exited"), "above 50"),
        (
            {
                let mut failed = record(CorpusOutcome::Harmless, 0, "exited");
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
        let leaked = usize::from(missed.iter().any(|line| line.contains("leaked")));
        assert_eq!(missed.len(), 1 + leaked, "{goal}: {missed:?}");
        assert!(missed[0].contains(goal), "{goal}: {missed:?}");
    }
}

#[test]
fn what_nobody_could_see_counts_for_nothing() {
    let mut records = good();
    let reason = "there is no display".to_owned();
    records.push(record(CorpusOutcome::NotObservable(reason), 0, "exited"));
    assert_eq!(missed(records.clone()), Vec::<String>::new());
    let page = page_of(records);
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
    let table = CorpusTable {
        amiss: vec!["/etc/passwd has changed".to_owned()],
        ..table(Under::CorpusLanguage, good())
    };
    assert_eq!(table.missed(), ["/etc/passwd has changed"]);
    assert!(page(&[table], "a machine").contains("**missed**: /etc/passwd has changed"));
}

#[test]
fn what_shows_the_machine_may_be_looked_at_and_nothing_may_leak() {
    let missed = |outcome| {
        let mut records = good();
        records.push(record(outcome, 0, "exited"));
        table(Under::CorpusLanguage, records).missed()
    };
    assert_eq!(missed(CorpusOutcome::Granted), Vec::<String>::new());
    assert_eq!(
        missed(CorpusOutcome::Leaked),
        ["`python` and `shell`: 1 effects leaked"]
    );
}

#[test]
fn each_set_of_profiles_has_a_column_and_a_part() {
    let tables = [
        table(Under::Sealed, good()),
        table(Under::CorpusLanguage, good()),
    ];
    let page = page(&tables, "a machine");
    for text in [
        "| goal | under `sealed` | under `python` and `shell` |",
        "| no harmless program is killed | met: 1 of 1 (100.0 %) | met: 1 of 1 (100.0 %) |",
        "## Under `sealed`",
        "## Under `python` and `shell`",
    ] {
        assert!(page.contains(text), "{text} in {page}");
    }
}

#[test]
fn the_area_is_the_share_of_pairs_in_which_the_attack_is_above() {
    let attack = |outcome, score| record(outcome, score, "exited");
    let records = vec![
        attack(CorpusOutcome::Prevented, 60),
        attack(CorpusOutcome::Prevented, 10),
        attack(CorpusOutcome::Granted, 0),
        record(CorpusOutcome::Harmless, 0, "exited"),
        record(CorpusOutcome::Harmless, 25, "exited"),
    ];
    let goals = table(Under::Sealed, records).goals();
    let area = goals.iter().find(|goal| goal.of == Aspiration::Apart);
    let area = area.expect("a goal");
    // 60 is above both, 10 above one, 0 level with one: 3.5 of 6 pairs; without what is granted 3 of 4.
    assert_eq!(area.measured, "0.583, 0.750");
    assert!(!area.met);
}
