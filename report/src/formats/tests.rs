//! Against the schemas that others have published: see tests/data/schemas.

use serde_json::{Value, json};

use super::sarif::SourceRoot;
use super::{junit, ocsf, sarif};
use crate::Stored;
use crate::model::Report;
use crate::schema_validator::SchemaValidator;

const SARIF: &str = include_str!("../../../tests/data/schemas/sarif-2.1.0.json");
const OCSF: &str = include_str!("../../../tests/data/schemas/ocsf-1.5.0-detection-finding.json");

/// The golden report of this name, changed.
pub fn golden(name: &str, change: impl Fn(&mut Value)) -> Report {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/snapshots");
    let file = format!("{folder}/turnkey_report__golden__{name}.snap");
    let text = std::fs::read_to_string(file).unwrap();
    let body = text.splitn(3, "---\n").nth(2).unwrap();
    let mut value: Value = serde_json::from_str(body).unwrap();
    change(&mut value);
    Stored::read(value.to_string().as_bytes()).unwrap().report
}

fn sarif_of(report: &Report) -> Value {
    sarif::log(report, SourceRoot::new("/home/you/repo"))
}

fn all() -> Vec<Report> {
    let names = [
        "a_clean_run",
        "a_hostile_name",
        "nothing_ran",
        "out_of_memory",
        "shadow_read_under_enforce",
    ];
    let mut all: Vec<Report> = names.iter().map(|name| golden(name, |_| {})).collect();
    // An attempt on an address, one on a call, one on nothing, and a behaviour.
    for instead in [
        json!({"address": "[2001:db8::1]:443"}),
        json!({"address": "unix:/run/<&\">.sock"}),
        json!({"syscall": "ptrace"}),
        json!({}),
    ] {
        all.push(golden("shadow_read_under_enforce", |value| {
            let violation = value["violations"][0].as_object_mut().unwrap();
            violation.remove("path");
            violation.extend(instead.as_object().unwrap().clone());
            violation["process"]["exec_id"] = Value::Null;
            value["command"] = json!(["<script>", "a&b\"'", "]]>"]);
            value["started_at"] = json!("soon");
            value["findings"][0]["reason"] = json!("");
            let behaviour = json!({"id": "behaviour:download-and-run", "severity": "high", "score": 10, "count": 1, "technique": "T1105", "reason": "fetched a program\nand ran it",
                "evidence": [{"what": "<b>"}, {"time": "soon", "process": {"pid": 2, "comm": "<i>"}, "what": "ran"}],
                "accepted": {"why": "<u>", "until": "2999-12-31", "expired": false}});
            value["findings"].as_array_mut().unwrap().push(behaviour);
        }));
    }
    all
}

#[test]
fn sarif_fits_the_published_schema() {
    let validator = SchemaValidator::new(serde_json::from_str(SARIF).unwrap());
    for report in all() {
        let log = sarif_of(&report);
        assert_eq!(validator.wrong(&log), "", "{log:#}");
    }
    // The validator can say no.
    let mut log = sarif_of(&golden("shadow_read_under_enforce", |_| {}));
    log["runs"][0]["results"][0]["level"] = json!("grave");
    assert!(validator.wrong(&log).contains("level"));
}

#[test]
fn ocsf_fits_the_published_schema() {
    let validator = SchemaValidator::new(serde_json::from_str(OCSF).unwrap());
    for report in all() {
        for event in ocsf::events(&report) {
            assert_eq!(validator.wrong(&event), "", "{event:#}");
        }
    }
    let mut event = ocsf::events(&golden("shadow_read_under_enforce", |_| {})).remove(0);
    event["evidences"][0]["process"]["colour"] = json!(1);
    event["severity_id"] = json!(9);
    let wrong = validator.wrong(&event);
    assert!(
        wrong.contains("colour") && wrong.contains("severity_id"),
        "{wrong}"
    );
}

#[test]
fn sarif_names_rule_place_and_process() {
    let log = sarif_of(&golden("shadow_read_under_enforce", |_| {}));
    let run = &log["runs"][0];
    assert_eq!(run["tool"]["driver"]["rules"][0]["id"], "credential-file");
    assert_eq!(
        run["tool"]["driver"]["rules"][0]["properties"]["security-severity"],
        "9.5"
    );
    let result = &run["results"][0];
    let place = &result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"];
    assert_eq!(
        (place, &result["level"]),
        (&json!("shadow.py"), &json!("error"))
    );
    assert_eq!(
        result["message"]["text"],
        "killed for reading /etc/shadow, by python3 (pid 2): python3 shadow.py; stopped by the monitor: it killed the jail"
    );
    // The bytes of a hostile path, not their escapes.
    let log = sarif_of(&golden("a_hostile_name", |_| {}));
    let place = &log["runs"][0]["results"][0]["locations"][0]["physicalLocation"];
    assert_eq!(
        place["artifactLocation"]["uri"],
        "file:///etc/%1B%5B2J%FF%22%0A%5C.ssh/id_rsa"
    );
}

#[test]
fn sarif_puts_a_result_at_the_repositorys_file_that_made_the_attempt() {
    let with = |change: &dyn Fn(&mut Value)| {
        let log = sarif_of(&golden("shadow_read_under_enforce", |value| change(value)));
        log["runs"][0]["results"][0].clone()
    };
    let place = |result: &Value| {
        let place = &result["locations"][0]["physicalLocation"];
        let artifact = &place["artifactLocation"];
        (artifact["uri"].clone(), artifact["uriBaseId"].clone())
    };
    let relative = |path: &str| (json!(path), json!("%SRCROOT%"));
    // The golden process interprets nothing that it was given by name.
    let argv =
        |words: Value| move |value: &mut Value| value["processes"][0]["argv"] = words.clone();
    for (words, expected) in [
        (json!(["python3", "tests/run.py", "x"]), "tests/run.py"),
        (json!(["python3", "-u", "./a b/run.py"]), ""),
        (json!(["python3", "-u", "/workspace/run.py"]), "run.py"),
        (
            json!(["python3", "/home/you/repo/tools/run.py"]),
            "tools/run.py",
        ),
        (json!(["python3", "/home/you/repository/run.py"]), ""),
        (json!(["python3", "../run.py"]), ""),
        (json!(["python3", "/home/you/repo/../x/run.py"]), ""),
    ] {
        let result = with(&argv(words.clone()));
        match expected {
            "" => assert_eq!(place(&result).0, "file:///etc/shadow", "{words}"),
            path => {
                assert_eq!(place(&result), relative(path), "{words}");
                let touched = &result["relatedLocations"][0]["physicalLocation"];
                assert_eq!(touched["artifactLocation"]["uri"], "file:///etc/shadow");
            }
        }
    }
    // A circle of parents, which only a hostile report has, ends.
    with(&|value| value["processes"][0]["parent"] = value["processes"][0]["exec_id"].clone());
}

#[test]
fn a_fingerprint_is_the_findings_and_not_the_runs() {
    let print = |change: &dyn Fn(&mut Value)| {
        let log = sarif_of(&golden("shadow_read_under_enforce", |value| change(value)));
        let results = log["runs"][0]["results"].as_array().unwrap().clone();
        let prints = results.iter().map(|result| {
            let print = result["partialFingerprints"]["turnkey/v1"].as_str();
            print.unwrap().to_owned()
        });
        prints.collect::<Vec<_>>()
    };
    let here = print(&|_| {});
    assert_eq!(here.len(), 2);
    assert_ne!(here[0], here[1]);
    let again = print(&|value| {
        value["id"] = json!("another");
        value["started_at"] = json!("2027-01-01T00:00:00.000000Z");
        let row = value["violations"][0].as_object_mut().unwrap();
        row["time"] = json!("2027-01-01T00:00:00.000001Z");
        row["count"] = json!(7);
        row["process"]["pid"] = json!(77);
        row["process"]["host_pid"] = json!(7777);
    });
    assert_eq!(again, here);
    for (key, other) in [
        ("path", "/etc/gshadow"),
        ("on", "link"),
        ("rule", "another"),
    ] {
        let changed = print(&|value| {
            value["violations"][0][key] = json!(other);
            if key == "rule" {
                value["findings"][0]["id"] = json!(other);
            }
        });
        assert_ne!(changed[0], here[0], "{key}");
    }
}

#[test]
fn ocsf_says_who_did_what_and_what_became_of_it() {
    let events = ocsf::events(&golden("shadow_read_under_enforce", |_| {}));
    let [event, behaviour] = events.as_slice() else {
        panic!("{events:?}")
    };
    assert_eq!(
        behaviour["evidences"][0]["name"],
        "tried to open the decoy /etc/shadow"
    );
    assert_eq!(behaviour["attacks"][0]["technique"]["uid"], "T1552");
    let at = |pointer: &str| event.pointer(pointer).unwrap_or(&Value::Null);
    assert_eq!(at("/time"), 1_767_323_045_003_u64);
    assert_eq!(
        (at("/severity"), at("/disposition")),
        (&json!("Critical"), &json!("Blocked"))
    );
    assert_eq!(at("/attacks/0/sub_technique/uid"), "T1003.008");
    assert_eq!(at("/evidences/0/file/path"), "/etc/shadow");
    assert_eq!(at("/evidences/0/process/cmd_line"), "python3 shadow.py");
    assert_eq!(at("/unmapped/verdict"), "violated");
    assert_eq!(
        ocsf::events(&golden("a_clean_run", |_| {})),
        Vec::<Value>::new()
    );
}

#[test]
fn people_are_told_that_a_run_was_served_and_for_whom() {
    const WORDS: &str = "service for user 4242, group 4343";
    let told = |report: &Report| {
        let mut story = Vec::new();
        crate::terminal::story(report, &mut story, false).unwrap();
        let story = String::from_utf8(story).unwrap();
        let last = story.lines().last().unwrap_or_default().to_owned();
        let page = super::html::document(report);
        [
            last.ends_with(&format!(", by the {WORDS}")),
            page.contains(WORDS),
        ]
    };
    for name in ["a_clean_run", "shadow_read_under_enforce"] {
        let served = golden(name, |value| {
            value["served"] = json!({"user": 4242, "group": 4343});
        });
        assert_eq!(told(&served), [true; 2], "{name}");
        assert_eq!(told(&golden(name, |_| {})), [false; 2], "{name}");
    }
}

#[test]
fn a_run_that_was_only_watched_blocks_nothing() {
    let observed = golden("shadow_read_under_enforce", |value| {
        value["violations"][0]["stopped_by"] = Value::Null;
    });
    let event = &ocsf::events(&observed)[0];
    assert_eq!(
        (&event["action"], &event["disposition"]),
        (&json!("Observed"), &json!("Logged"))
    );
}

#[test]
fn junit_counts_what_is_not_well() {
    let counts = |report: &Report| {
        let xml = junit::document(report);
        let cases = xml.matches("<testcase ").count();
        assert!(xml.contains(&format!(" tests=\"{cases}\"")), "{xml}");
        let count = |what: &str| xml.matches(&format!("<{what} ")).count();
        for (attribute, tag) in [("failures", "failure"), ("errors", "error")] {
            let told = format!(" {attribute}=\"{}\"", count(tag));
            assert_eq!(xml.matches(&told).count(), 2, "{xml}");
        }
        (count("failure"), count("error"))
    };
    assert_eq!(counts(&golden("a_clean_run", |_| {})), (0, 0));
    // The verdict, the rule and the behaviour; less what is accepted.
    assert_eq!(counts(&golden("shadow_read_under_enforce", |_| {})), (3, 0));
    let accepted = golden("shadow_read_under_enforce", |value| {
        let known = json!({"why": "known", "until": "2999-12-31", "expired": false});
        value["findings"][1]["accepted"] = known;
    });
    assert_eq!(counts(&accepted), (2, 0));
    let log = sarif_of(&accepted);
    let told = &log["runs"][0]["results"][1];
    assert_eq!(
        told["suppressions"][0]["justification"],
        "known (until 2999-12-31)"
    );
    assert_eq!(
        told["message"]["text"],
        "goes after secrets of several kinds, or takes a decoy; tried to open the decoy /etc/shadow"
    );
    assert_eq!(ocsf::events(&accepted)[1]["status"], "Suppressed");
    assert_eq!(counts(&golden("nothing_ran", |_| {})).1, 1);
    let info = golden("a_clean_run", |value| {
        let disk = json!({"id": "turnkey:disk", "severity": "info", "score": 0, "count": 1, "reason": "full"});
        value["findings"] = json!([disk]);
    });
    assert_eq!(counts(&info), (0, 0));
}

#[test]
fn junit_takes_no_text_for_markup() {
    let xml = junit::document(&golden("shadow_read_under_enforce", |value| {
        value["command"] = json!(["</testsuite><script>", "\"&"]);
        value["violations"][0]["why"] = json!("]]></failure>\n<x>");
    }));
    assert!(!xml.contains("<script>") && !xml.contains("<x>"), "{xml}");
    assert!(xml.contains("&lt;/testsuite&gt;&lt;script&gt;"), "{xml}");
}
