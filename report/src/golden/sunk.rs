//! Conversations with a sinkhole, and who made them.

use turnkey_facts::{Address, Conversation, Kind, NetworkAct, SinkholeProtocol, SinkholeTraffic};

use super::super::formats::html;
use super::*;

const PLACE: &str = "192.0.2.9:80";

fn speaks(socket: u32, errno: i32) -> Kind {
    Kind::Network {
        act: NetworkAct::Connect,
        address: Address::Inet(PLACE.parse().unwrap()),
        socket_type: 1,
        socket,
        errno,
    }
}

fn conversation(socket: u32, content: &str) -> Conversation {
    Conversation {
        to: PLACE.parse().unwrap(),
        socket,
        datagrams: false,
        name: Some("drop.example".to_owned()),
        protocol: SinkholeProtocol::Http,
        request: Some(b"POST /<b>".to_vec()),
        sent: content.len() as u64,
        kept: content.as_bytes().to_vec(),
        distrusts: false,
        cut: false,
        began_ns: 0,
    }
}

/// Two processes, a socket of each, one of both, and two that nothing is known of.
fn told() -> Report {
    let mut story = Story::command(&["sh"]);
    story.push(2, fork(3));
    story.push(2, speaks(70, 0));
    story.push(3, speaks(71, 0));
    story.push(2, speaks(72, 0));
    story.push(3, speaks(72, 0));
    story.push(3, speaks(0, 0));
    story.push(3, speaks(74, libc::EPERM));
    let sockets = [70, 71, 72, 0, 74];
    let conversations = sockets.map(|socket| conversation(socket, "<script>"));
    let traffic = SinkholeTraffic {
        conversations: conversations.into(),
        unlisted: 7,
        ..SinkholeTraffic::default()
    };
    let policy = policy();
    Report::build(ReportInputs {
        sinkhole: Some(&traffic),
        ..inputs(&policy, &story)
    })
}

#[test]
fn who_speaks_is_known_by_the_socket_or_not_at_all() {
    let report = told();
    let ids = |pid: u32| {
        let mut rows = report.processes.iter();
        rows.find(|row| row.host_pid == pid).unwrap().exec_id
    };
    let (first, second) = (ids(task(2).pid), ids(task(3).pid));
    let sinkhole = report.sinkhole.as_ref().unwrap();
    let who = sinkhole.conversations.iter().map(|one| &one.exec_ids[..]);
    let expected: [&[u32]; 5] = [&[first], &[second], &[first, second], &[], &[]];
    assert_eq!(who.collect::<Vec<_>>(), expected);
}

#[test]
fn a_page_shows_conversations_as_nothing_but_text() {
    let page = html::document(&told());
    let shown = [
        "drop.example:80",
        "POST /&lt;b&gt;",
        "&lt;script&gt;",
        "not known",
        "and 7 more",
    ];
    for text in shown {
        assert!(page.contains(text), "{text}: {page}");
    }
    assert!(!page.contains("<b>"));
}
