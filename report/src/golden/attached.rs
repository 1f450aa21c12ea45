//! A report of a group that was attached to.

use super::super::formats::html;
use super::*;
use crate::model::{Attachment, AttachmentInterference, FoundProcess, GroupSetting};

fn attached() -> Attachment {
    let found = |pid, executable: Option<&str>, open: &[&str]| FoundProcess {
        pid,
        executable: executable.map(str::to_owned),
        open: open.iter().map(|name| (*name).to_owned()).collect(),
        open_count: open.len() as u64,
        calls: Vec::new(),
        thread_count: 1,
    };
    Attachment {
        group: "/web.slice/a<b>".to_owned(),
        since: "2026-11-28T01:02:03.000000Z".to_owned(),
        seconds: 2.5,
        found: vec![
            found(
                7,
                Some("/usr/bin/python3"),
                &["/srv/a", "/srv/b", "/srv/c", "socket:[9]"],
            ),
            found(8, None, &[]),
            found(9, Some("/bin/<i>"), &["pipe:[1]"]),
        ],
        found_count: 103,
        groups_below: 2,
        left: 0,
        limits: vec![GroupSetting {
            file: "memory.max".to_owned(),
            value: "67108864".to_owned(),
            before: "max".to_owned(),
        }],
        required: true,
        interference: Some(AttachmentInterference {
            noticed: "2026-11-28T01:02:04.000000Z".to_owned(),
            what: "the group was taken out of the programs' table".to_owned(),
        }),
        not_given: vec![
            "namespaces, seccomp: what the rules do not speak of is not held back".to_owned(),
            "a wall around the group: a process can leave it".to_owned(),
        ],
    }
}

fn report(attached: Attachment) -> Report {
    let policy = policy();
    let ending = AttachmentEnding {
        found: attached.found_count,
        ..AttachmentEnding::default()
    };
    Report::build(ReportInputs {
        ending: Ending::Attached(ending),
        attached: Some(attached),
        usage: None,
        ..inputs(&policy, &Story::default())
    })
}

/// The lines of its page that say what it is about.
fn lines(report: &Report) -> Vec<String> {
    let page = terminal(report);
    let begins = [
        "turnkey: attached",
        "turnkey: there before",
        "turnkey: no jail",
    ];
    let lines = page
        .lines()
        .filter(|line| begins.iter().any(|begin| line.starts_with(begin)));
    lines.map(str::to_owned).collect()
}

#[test]
fn an_attachment_tells_its_facts_in_three_lines_at_most() {
    let whole = report(attached());
    json(&whole);
    assert_eq!(
        lines(&whole),
        [
            "turnkey: attached to /web.slice/a<b> since 2026-11-28T01:02:03.000000Z, with 2 groups below; memory.max 67108864 (max before); \
             it was to die with its watcher; blinded: the group was taken out of the programs' table, which was noticed at \
             2026-11-28T01:02:04.000000Z",
            "turnkey: there before: /usr/bin/python3 (pid 7) with /srv/a, /srv/b, /srv/c and 1 more open; a program that had ended \
             (pid 8) and 101 more",
            "turnkey: no jail was made; not given: namespaces, seccomp; a wall around the group",
        ]
    );
    let alone = report(Attachment {
        found: Vec::new(),
        found_count: 0,
        groups_below: 0,
        left: 0,
        limits: Vec::new(),
        required: false,
        interference: None,
        ..attached()
    });
    assert_eq!(
        lines(&alone),
        [
            "turnkey: attached to /web.slice/a<b> since 2026-11-28T01:02:03.000000Z",
            "turnkey: no jail was made; not given: namespaces, seccomp; a wall around the group",
        ]
    );
}

#[test]
fn the_page_of_an_attachment_has_all_its_facts_as_text() {
    let page = html::document(&report(attached()));
    for told in [
        "What was attached to",
        "2026-11-28T01:02:03.000000Z",
        "memory.max 67108864 (max before)",
        "was to be killed",
        "/usr/bin/python3 (pid 7)",
        "socket:[9]",
        "/bin/&lt;i&gt; (pid 9)",
        "and 100 more",
        "a wall around the group: a process can leave it",
    ] {
        assert!(page.contains(told), "{told}");
    }
    assert!(!page.contains("<i>"), "a name is text");
    let policy = policy();
    let run = Report::build(inputs(&policy, &Story::default()));
    assert!(!html::document(&run).contains("What was attached to"));
    assert_eq!(lines(&run), [""; 0]);
}
