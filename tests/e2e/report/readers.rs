//! Output of turnkey for other programs, read by those of others: the model of OCSF (py-ocsf-models), and what people read SARIF
//! with (sarif-tools, check-jsonschema).

use std::io::Write;
use std::path::Path;

use serde_json::Value;
use turnkey_expectations::expected;
use turnkey_tests::{Run, measured, reader, scratch};

use super::{render, run, text};
use crate::learn::examples;

/// Has each line of a file of OCSF read by the model that others wrote.
pub fn read_ocsf(file: &Path) {
    let program = "
import sys
from py_ocsf_models.events.findings.detection_finding import DetectionFinding
for line in open(sys.argv[1]):
    DetectionFinding.model_validate_json(line)
print('valid')
";
    let Some(mut python) = reader("python3") else {
        return;
    };
    let read = run(python.args(["-c", program]).arg(file));
    let errors = text(&read.stderr);
    if std::env::var_os("TURNKEY_READERS").is_none() && errors.contains("ModuleNotFoundError") {
        return measured("py-ocsf-models is not here, and read nothing: cargo xtask setup");
    }
    assert_eq!(read.stdout, b"valid\n", "{errors}");
}

/// Has logs of SARIF read, which have so many results in all.
pub fn read_sarif(logs: &[Vec<u8>], results: usize) {
    let place = scratch();
    let files: Vec<_> = (0..logs.len())
        .map(|number| place.path().join(format!("{number}.sarif")))
        .collect();
    for (file, log) in files.iter().zip(logs) {
        std::fs::write(file, log).expect("a test can write its own directory");
    }
    if let Some(mut sarif) = reader("sarif") {
        let summary = run(sarif.arg("summary").args(&files));
        let (said, errors) = (text(&summary.stdout), text(&summary.stderr));
        assert!(summary.status.success(), "{said}{errors}");
        let counted: usize = said
            .lines()
            .filter_map(|line| line.split_once(": "))
            .filter(|(level, _)| ["error", "warning", "note"].contains(&level.trim()))
            .filter_map(|(_, count)| count.trim().parse::<usize>().ok())
            .sum();
        assert_eq!(counted, results, "{said}");
    }
    if let Some(mut checker) = reader("check-jsonschema") {
        let schema = concat!(env!("CARGO_MANIFEST_DIR"), "/data/schemas/sarif-2.1.0.json");
        // The published schema has a pattern that ECMAScript takes for none.
        let options = ["--regex-variant", "python", "--schemafile", schema];
        let checked = run(checker.args(options).args(&files));
        let (said, errors) = (text(&checked.stdout), text(&checked.stderr));
        assert!(checked.status.success(), "{said}{errors}");
    }
}

/// Runs an example, and adds the alerts about it to the file of OCSF; its report as SARIF, and the number of results in it.
fn told(example: &Path, ocsf: &Path) -> (Vec<u8>, usize) {
    let sink = format!("--to ocsf+file:{} --wall 5s", ocsf.display());
    let run = Run::new().option(&sink);
    let program = examples::set_up(example, run.path());
    let program: Vec<&str> = program.iter().map(String::as_str).collect();
    let ran = run.run(&program);
    ran.expect(ran.report["id"].is_string(), "it has a report");
    let file = ran.directory.path().join("report.json");
    std::fs::write(&file, ran.report.to_string()).expect("a test can write its own directory");
    // The event about the end of the run has all findings.
    let of_the_report = render(&file, &["--format", "ocsf"]).stdout;
    let mut alerts = std::fs::File::options()
        .append(true)
        .open(ocsf)
        .expect("it was written");
    alerts.write_all(&of_the_report).expect("a test can write");
    let log = render(&file, &["--format", "sarif"]).stdout;
    let parsed: Value = serde_json::from_slice(&log).expect("JSON");
    let results = parsed["runs"][0]["results"]
        .as_array()
        .expect("a list")
        .len();
    (log, results)
}

expected!(
    what_is_written_of_every_example_is_read_by_the_programs_of_others: at_night,
    "a run of each example; `report::a_finding_has_one_fingerprint` and `sinks::every_receivers_copy` have a few runs"
);
#[test]
fn what_is_written_of_every_example_is_read_by_the_programs_of_others() {
    let place = scratch();
    let ocsf = place.path().join("ocsf.jsonl");
    let (mut logs, mut results) = (Vec::new(), 0);
    for kind in ["harmless", "hostile"] {
        let entries = std::fs::read_dir(examples::examples(kind)).expect("examples");
        let files = entries.map(|entry| entry.expect("it can be listed").path());
        for example in files.filter(|path| path.is_file()) {
            let (log, found) = told(&example, &ocsf);
            logs.push(log);
            results += found;
        }
    }
    assert!(
        logs.len() > 80 && results > logs.len() / 2,
        "{} {results}",
        logs.len()
    );
    measured(&format!("{} examples, {results} results", logs.len()));
    read_sarif(&logs, results);
    read_ocsf(&ocsf);
}
