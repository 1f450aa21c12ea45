//! Files, addresses and changes as tables that can be searched; without JavaScript they are all there.

use super::markup::{Markup, element_with, say};
use super::story::bytes;
use super::time_of_day;
use crate::model::{
    Change, FileOperation, NetworkAttempt, RefusedCall, Report, Result, SinkholeConversation,
};

/// Files that were opened, executed or changed.
pub fn files(report: &Report) -> Markup {
    let rows = report.file_operations.iter();
    let rows: Vec<Markup> = rows.map(|row| file(report, row)).collect();
    SearchableTable {
        id: "files",
        title: "Files",
        head: &["", "Path", "How", "Times", "First", "By", "Why not"],
        by_result: true,
        omitted: report.omitted.file_operations,
    }
    .with(rows)
}

fn file(report: &Report, row: &FileOperation) -> Markup {
    let how: Vec<String> = row.access.iter().map(word).collect();
    let memory: Vec<String> = row.memory.iter().map(word).collect();
    let path = row.path.as_deref().unwrap_or("(no path)");
    let path = if memory.is_empty() {
        path.to_owned()
    } else {
        format!("{path} ({})", memory.join(", "))
    };
    Attempts {
        result: row.result,
        count: row.count,
        first_time: &row.first_time,
        first_exec_id: row.first_exec_id,
        stopped_by: row.stopped_by.as_ref().map(word),
        errno: row.errno.as_deref(),
        rule: row.rule.as_deref(),
    }
    .row(
        report,
        [
            say("td", "mono path", &path),
            say("td", "nowrap", &how.join(", ")),
        ],
    )
}

/// Addresses that were connected to, bound or sent to.
pub fn network(report: &Report) -> Markup {
    let rows = report.network_attempts.iter();
    let rows: Vec<Markup> = rows.map(|row| address(report, row)).collect();
    SearchableTable {
        id: "network",
        title: "Network",
        head: &["", "Address", "What", "Times", "First", "By", "Why not"],
        by_result: true,
        omitted: report.omitted.network_attempts,
    }
    .with(rows)
}

fn address(report: &Report, row: &NetworkAttempt) -> Markup {
    let name = row.name.as_ref().map(|name| format!(" asked for {name}"));
    let address = format!("{}{}", row.address, name.unwrap_or_default());
    let socket = row.socket.as_ref().map(word);
    let what = format!("{} {}", row.act.name(), socket.unwrap_or_default());
    let passed = row.passed.as_ref().map(|passed| {
        let (sent, received) = (
            bytes(Some(passed.sent_bytes)),
            bytes(Some(passed.received_bytes)),
        );
        say(
            "p",
            "dim",
            &format!(
                "{} connections, {sent} out, {received} in",
                passed.connections
            ),
        )
    });
    let whom = [Markup::text(&address), passed.unwrap_or_default()];
    Attempts {
        result: row.result,
        count: row.count,
        first_time: &row.first_time,
        first_exec_id: row.first_exec_id,
        stopped_by: row.stopped_by.as_ref().map(word),
        errno: row.errno.as_deref(),
        rule: row.rule.as_deref(),
    }
    .row(
        report,
        [
            element_with("td", "mono path", whom),
            say("td", "nowrap", &what),
        ],
    )
}

/// Conversations with a sinkhole.
pub fn conversations(report: &Report) -> Markup {
    let Some(sinkhole) = &report.sinkhole else {
        return Markup::default();
    };
    let rows = sinkhole.conversations.iter();
    let rows: Vec<Markup> = rows.map(|row| conversation(report, row)).collect();
    SearchableTable {
        id: "conversations",
        title: "Taken by the sinkhole",
        head: &["Whom", "What", "Sent", "Begun", "By", "Content"],
        by_result: false,
        omitted: sinkhole.unlisted,
    }
    .with(rows)
}

fn conversation(report: &Report, row: &SinkholeConversation) -> Markup {
    let by = row.exec_ids.iter().map(|id| who(report, Some(*id)));
    let by = match row.exec_ids.is_empty() {
        true => "not known".to_owned(),
        false => by.collect::<Vec<_>>().join(", "),
    };
    let secrets = row.secrets.iter();
    let secrets = secrets.map(|secret| say("p", "bad", secret));
    let distrusts = row.distrusts_certificate.then(|| {
        let words = "did not trust the certificate; this is its greeting";
        say("p", "warn", words)
    });
    let more = row.content_truncated.then(|| say("p", "dim", "and more"));
    let content = [Markup::text(&row.content)].into_iter();
    let content = content.chain(secrets).chain(distrusts).chain(more);
    Markup::element(
        "tr",
        &[],
        [
            say("td", "mono path", &row.peer()),
            say("td", "", &row.asked()),
            say("td", "number", &bytes(Some(row.sent_bytes))),
            say("td", "mono dim", time_of_day(&row.time)),
            say("td", "mono who", &by),
            element_with("td", "mono path", [Markup::all(content)]),
        ],
    )
}

/// System calls that were refused as such.
pub fn refused(report: &Report) -> Markup {
    let rows = report.refused_calls.iter();
    let rows: Vec<Markup> = rows.map(|row| call(report, row)).collect();
    SearchableTable {
        id: "refused",
        title: "System calls refused",
        head: &["", "Call", "To allow", "Times", "First", "By", "Why not"],
        by_result: true,
        omitted: 0,
    }
    .with(rows)
}

fn call(report: &Report, row: &RefusedCall) -> Markup {
    let arguments = row.for_arguments.then(|| "its arguments".to_owned());
    let stopped_by = row.stopped_by.as_ref().map(word);
    let parts: Vec<String> = arguments.into_iter().chain(stopped_by).collect();
    let stopped_by = (!parts.is_empty()).then(|| parts.join(", "));
    let advice = row.advice.as_deref().unwrap_or("—");
    Attempts {
        result: row.result,
        count: row.count,
        first_time: &row.first_time,
        first_exec_id: row.first_exec_id,
        stopped_by,
        errno: row.errno.as_deref(),
        rule: row.rule.as_deref(),
    }
    .row(
        report,
        [say("td", "mono path", &row.syscall), say("td", "", advice)],
    )
}

/// The columns that every row of attempts has, whatever they were aimed at.
struct Attempts<'a> {
    result: Result,
    count: u64,
    first_time: &'a str,
    first_exec_id: Option<u32>,
    stopped_by: Option<String>,
    errno: Option<&'a str>,
    rule: Option<&'a str>,
}

impl Attempts<'_> {
    /// With two cells of its own kind.
    fn row(self, report: &Report, [aim, way]: [Markup; 2]) -> Markup {
        Markup::element(
            "tr",
            &[("data-result", result(self.result))],
            [
                element_with("td", "", [chip(self.result)]),
                aim,
                way,
                say("td", "number", &self.count.to_string()),
                say("td", "mono dim", time_of_day(self.first_time)),
                say("td", "mono who", &who(report, self.first_exec_id)),
                say("td", "dim", &why(self.stopped_by, self.errno, self.rule)),
            ],
        )
    }
}

/// Differences to the caller's directory.
pub fn changed(report: &Report) -> Markup {
    let rows = report.files_changed.iter().map(|row| {
        let class = match row.change {
            Change::Added => "good",
            Change::Modified => "warn",
            Change::Deleted => "bad",
        };
        Markup::element(
            "tr",
            &[],
            [
                say("td", class, &word(&row.change)),
                say("td", "mono path", &row.path),
                say("td", "number", &bytes(row.size)),
                say(
                    "td",
                    "mono dim digest",
                    row.sha256.as_deref().unwrap_or("—"),
                ),
            ],
        )
    });
    let rows: Vec<Markup> = rows.collect();
    SearchableTable {
        id: "changed",
        title: "Changes to the workspace",
        head: &["", "Path", "Size", "SHA-256"],
        by_result: false,
        omitted: report.omitted.files_changed,
    }
    .with(rows)
}

struct SearchableTable {
    id: &'static str,
    title: &'static str,
    head: &'static [&'static str],
    by_result: bool,
    omitted: u64,
}

impl SearchableTable {
    fn with(self, rows: Vec<Markup>) -> Markup {
        if rows.is_empty() {
            return Markup::default();
        }
        let count = rows.len();
        let head = self.head.iter().map(|name| say("th", "", name));
        let head = Markup::element("tr", &[], head);
        let table = Markup::element(
            "table",
            &[("id", &format!("{}-rows", self.id))],
            [
                Markup::element("thead", &[], [head]),
                Markup::element("tbody", &[], rows),
            ],
        );
        let omitted = match self.omitted {
            0 => Markup::default(),
            more => say("p", "dim", &format!("and {more} more that found no row")),
        };
        let content = Markup::all([element_with("div", "scroll", [table]), omitted]);
        super::section(self.id, self.title, self.tools(count), content)
    }

    /// Shown where a script can make them work.
    fn tools(&self, count: usize) -> Markup {
        let label = format!("Filter {}", self.title.to_lowercase());
        let input = Markup::element(
            "input",
            &[
                ("type", "search"),
                ("placeholder", "Filter"),
                ("aria-label", &label),
            ],
            [],
        );
        let results = ["", "denied", "failed", "allowed", "unknown"].map(|value| {
            let words = if value.is_empty() {
                "every result"
            } else {
                value
            };
            Markup::element("option", &[("value", value)], [Markup::text(words)])
        });
        let select = Markup::element("select", &[("aria-label", "Result")], results);
        let select = if self.by_result {
            select
        } else {
            Markup::default()
        };
        let count = say("output", "dim", &count.to_string());
        let rows = format!("{}-rows", self.id);
        let attributes = [("class", "tools"), ("data-filter", rows.as_str())];
        Markup::all([Markup::element("span", &attributes, [input, select]), count])
    }
}

/// The word that the report has for it.
fn word(value: &impl serde::Serialize) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    value.as_str().unwrap_or_default().replace('_', " ")
}

fn result(result: Result) -> &'static str {
    match result {
        Result::Allowed => "allowed",
        Result::Denied => "denied",
        Result::Failed => "failed",
        Result::Unknown => "unknown",
    }
}

fn chip(of: Result) -> Markup {
    say("span", &format!("chip {}", result(of)), result(of))
}

fn who(report: &Report, exec_id: Option<u32>) -> String {
    let mut rows = report.processes.iter();
    let row = exec_id.and_then(|id| rows.find(|row| row.exec_id == id));
    row.map_or_else(
        || "—".to_owned(),
        |row| format!("{} ({})", row.comm, row.pid),
    )
}

fn why(stopped_by: Option<String>, errno: Option<&str>, rule: Option<&str>) -> String {
    let rule = rule.map(|rule| format!("rule {rule}"));
    let parts = [rule, stopped_by, errno.map(str::to_owned)];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}
