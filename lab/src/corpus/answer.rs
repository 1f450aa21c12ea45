//! The facts that turnkey's report states of a run. Pure.

use std::collections::BTreeSet;

use serde_json::Value;

use super::program::{Aim, DATAGRAM, PAGES, POST, normal};

/// The server that the C library asks where no name server is set, as in a jail without a network.
const RESOLVER: &str = "127.0.0.1:53";

/// The facts that are taken from a report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// The run's status.
    pub status: String,
    /// The run's verdict.
    pub verdict: String,
    /// The run's score.
    pub score: u64,
    /// The ids of its findings.
    pub findings: Vec<String>,
    /// Some event names what the program is after, exactly.
    pub named: bool,
    /// The report says that the program got it: nothing is against it.
    pub allowed: bool,
    /// The most memory, in bytes.
    pub peak: u64,
}

impl Answer {
    /// Of a program that is after this. `resolved` is where its path leads outside, if links lead it.
    pub fn from_report(report: &Value, aim: &Aim, resolved: Option<&str>) -> Self {
        let text = |key: &str| report[key].as_str().unwrap_or("no report").to_owned();
        let findings: Vec<String> = each(report, "findings")
            .filter_map(|finding| finding["id"].as_str().map(str::to_owned))
            .collect();
        Self {
            status: text("status"),
            verdict: text("verdict"),
            score: report["risk_score"].as_u64().unwrap_or_default(),
            named: named(report, aim, resolved, &findings),
            allowed: [aim.path(), resolved]
                .into_iter()
                .flatten()
                .any(|path| allowed(report, path)),
            findings,
            peak: report["usage"]["memory_peak_bytes"]
                .as_u64()
                .unwrap_or_default(),
        }
    }

    /// Ended by a rule or a behaviour.
    pub fn killed(&self) -> bool {
        self.status == "killed_by_policy"
    }
}

fn each<'a>(report: &'a Value, list: &str) -> impl Iterator<Item = &'a Value> {
    report[list].as_array().into_iter().flatten()
}

fn named(report: &Value, aim: &Aim, resolved: Option<&str>, findings: &[String]) -> bool {
    let path = || {
        let named = paths(report);
        let mut right = [aim.path(), resolved].into_iter().flatten();
        right.any(|path| named.contains(path))
    };
    match aim {
        // The kernel's own name for it begins with the process that looks.
        Aim::Traffic => paths(report)
            .iter()
            .any(|path| path.starts_with("/proc/") && path.ends_with("/net/dev")),
        Aim::Post(_) => path() || addresses(report).contains(POST),
        Aim::Fetch(url) => {
            let addresses = addresses(report);
            let names = [url.as_str(), PAGES, RESOLVER];
            arguments(report).contains(url) || names.iter().any(|one| addresses.contains(*one))
        }
        Aim::Send => addresses(report).contains(DATAGRAM),
        Aim::Memory => findings
            .iter()
            .any(|id| id == "turnkey:limit" || id == "behaviour:exhaustion"),
        Aim::Harmless | Aim::Unmarked(_) => false,
        Aim::List(_) | Aim::Read(_) | Aim::Alias(_) | Aim::Watch(_) => path(),
    }
}

/// Every path that some event names: as the kernel resolved it, as the program gave it, or as an
/// argument of a program that was started.
fn paths(report: &Value) -> BTreeSet<String> {
    let mut paths = BTreeSet::new();
    for list in ["file_operations", "violations"] {
        for row in each(report, list) {
            let texts = [&row["path"], &row["raw"], &row["raw"]["text"]];
            paths.extend(texts.iter().filter_map(|text| text.as_str()).map(normal));
        }
    }
    let arguments = arguments(report);
    let absolute = arguments.iter().filter(|word| word.starts_with('/'));
    paths.extend(absolute.map(|word| normal(word)));
    paths
}

/// Every address that some event names, and every name that was asked for.
fn addresses(report: &Value) -> BTreeSet<String> {
    let rows = each(report, "network_attempts").chain(each(report, "violations"));
    let texts = rows.flat_map(|row| [&row["address"], &row["name"]]);
    texts
        .filter_map(|text| text.as_str().map(str::to_owned))
        .collect()
}

/// Every argument of every program that was started.
fn arguments(report: &Value) -> BTreeSet<String> {
    let lists = each(report, "processes").filter_map(|process| process["argv"].as_array());
    lists
        .flatten()
        .filter_map(|word| word.as_str().map(str::to_owned))
        .collect()
}

/// Whether the report says that this path was had.
fn allowed(report: &Value, path: &str) -> bool {
    each(report, "file_operations").any(|row| {
        let texts = [&row["path"], &row["raw"], &row["raw"]["text"]];
        let mut texts = texts.iter().filter_map(|text| text.as_str());
        row["result"] == "allowed" && texts.any(|text| normal(text) == path)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(path: &str) -> Aim {
        Aim::Read(path.to_owned())
    }

    #[test]
    fn a_path_is_named_exactly_or_not_at_all() {
        let report = json!({ "status": "exited", "risk_score": 60,
            "findings": [{ "id": "credential-file" }],
            "file_operations": [
                { "path": "/etc/passwd", "result": "allowed" },
                { "path": "/usr/../etc/apt/sources.list", "result": "denied" },
            ],
            "processes": [{ "argv": ["ls", "/root/"] }] });
        let named = |path| Answer::from_report(&report, &read(path), None).named;
        assert!(named("/etc/passwd") && named("/etc/apt/sources.list"));
        assert!(named("/root"), "an argument of a program that was started");
        for other in ["/etc", "/etc/passw", "/etc/passwd-", "/etc/apt", "ls"] {
            assert!(!named(other), "{other}");
        }
        assert!(!named("/etc/mtab"));
        let link = Answer::from_report(&report, &read("/etc/mtab"), Some("/etc/passwd"));
        assert!(
            link.named && link.allowed,
            "where a link leads is the same file"
        );
        let answer = Answer::from_report(&report, &read("/etc/passwd"), None);
        assert!(answer.allowed && !answer.killed());
        assert_eq!(
            (answer.score, &*answer.findings[0]),
            (60, "credential-file")
        );
        assert!(!Answer::from_report(&report, &read("/etc/apt/sources.list"), None).allowed);
    }

    #[test]
    fn an_address_is_named_exactly_or_not_at_all() {
        let report = |address: &str| json!({ "network_attempts": [{ "address": address }] });
        let named = |address, aim| Answer::from_report(&report(address), &aim, None).named;
        assert!(named("127.0.0.1:5388", Aim::Send));
        assert!(!named("127.0.0.1:53880", Aim::Send));
        assert!(!named("127.0.0.1:5758", Aim::Send));
        let page = || Aim::Fetch("https://1mocat.github.io/x.html".to_owned());
        assert!(named("127.0.0.1:53", page()));
        assert!(!named("unix:/var/run/nscd/socket", page()));
        let post = || Aim::Post("/etc/passwd".to_owned());
        assert!(named("127.0.0.1:5758", post()) && !named("127.0.0.1:57", post()));
    }

    #[test]
    fn no_report_names_nothing() {
        for aim in [read("/etc/passwd"), Aim::Send, Aim::Memory, Aim::Traffic] {
            let answer = Answer::from_report(&Value::Null, &aim, Some("/etc"));
            assert!(!answer.named && !answer.allowed);
            assert_eq!(answer.status, "no report");
        }
    }
}
