//! The limits of the observers, as docs/observer.md numbers them: each is so.

use std::path::PathBuf;

use serde_json::Value;
use turnkey_differential::address::{ASKED, question};
use turnkey_differential::campaign::Summary;
use turnkey_differential::jail::{Bench, Outcome, Way};
use turnkey_differential::mounts;
use turnkey_differential::program::{Arg, Call, Op, Program, Racing};
use turnkey_expectations::expected;

expected!(
    as_root,
    "run the command, and see the calls of other processes"
);

const UNSTOPPED: Way = Way {
    enforces: false,
    stops: false,
    has_loopback: false,
};

fn bench() -> Bench {
    mounts::see_traces().expect("a test runs as root");
    let turnkey = std::env::var_os("TURNKEY_BIN").map(PathBuf::from);
    let turnkey = turnkey.expect("`cargo xtask test` says where turnkey is");
    Bench::new(&turnkey).expect("the observers can be made")
}

fn call(name: &str, args: &[Arg], out: Option<u8>) -> Op {
    Op::Call(Call {
        name: name.to_owned(),
        high: 0,
        args: args.to_vec(),
        out,
        times: 1,
    })
}

fn text(text: &str) -> Arg {
    Arg::Text(text.to_owned())
}

/// Runs a program, on which the observers and turnkey agree; what was told of it.
fn run(ops: Vec<Op>, way: Way) -> Outcome {
    let bench = bench();
    let program = Program { strands: vec![ops] };
    let mut summary = Summary::default();
    let agrees = summary.add(&bench, "a limit", &program, way);
    assert!(agrees.expect("it can be run"), "{summary}");
    bench.run(&program, way).expect("it can be run")
}

fn of_kind<'a>(outcome: &'a Outcome, kind: &str) -> Vec<&'a Value> {
    let events = outcome.events.iter();
    events.filter(|event| event["kind"] == kind).collect()
}

#[test]
fn limit_1_a_page_that_is_not_there_is_not_read() {
    let lazy = Arg::Lazy("a".to_owned());
    let [here, owner, flags] = [0xffff_ff9c, 0, 0x8000_0000].map(Arg::Number);
    // For the flags alone, which are none, the kernel does not come to the name.
    let args = [here, lazy, owner.clone(), owner, flags];
    let forget = Op::Forget {
        text: "a".to_owned(),
    };
    let outcome = run(vec![forget, call("fchownat", &args, None)], UNSTOPPED);
    let told = of_kind(&outcome, "change");
    assert_eq!(told.len(), 1);
    assert_eq!(told[0]["raw"]["unreadable"], true, "{}", told[0]);
}

#[test]
fn limit_2_a_text_that_is_written_to_may_be_either() {
    let racing = Racing {
        text: "r?".to_owned(),
        either: b'a',
        or: b'b',
    };
    let flip = vec![Op::Flip {
        text: racing.clone(),
        rounds: 20_000,
    }];
    let open = Op::Call(Call {
        name: "open".to_owned(),
        high: 0,
        args: vec![Arg::Racing(racing), Arg::Number(0o4000)],
        out: None,
        times: 300,
    });
    let spawn = Op::Spawn {
        flags: 0x5_0f00,
        strand: 1,
    };
    let bench = bench();
    let program = Program {
        strands: vec![vec![spawn, open], flip],
    };
    let mut summary = Summary::default();
    let agrees = summary.add(&bench, "a race", &program, UNSTOPPED);
    assert!(agrees.expect("it can be run"), "{summary}");
}

#[test]
fn limit_3_what_a_descriptor_leads_to_is_known_to_who_stops_the_call() {
    let socket = [1, 1, 0].map(Arg::Number);
    let ops = |family: u64| {
        vec![
            call(
                "socket",
                &[Arg::Number(family), socket[1].clone(), socket[2].clone()],
                Some(8),
            ),
            call("listen", &[Arg::Slot(8, 0), Arg::Number(1)], None),
        ]
    };
    for (family, told) in [(1, 0), (2, 1)] {
        for stops in [false, true] {
            let way = Way { stops, ..UNSTOPPED };
            let outcome = run(ops(family), way);
            assert_eq!(of_kind(&outcome, "listen").len(), told, "{way:?}");
            let protocols = outcome.stopped.iter().flat_map(|it| it.calls.values());
            let mut known = protocols.flatten().filter_map(|it| it.protocol.as_ref());
            assert_eq!(known.next().is_some(), stops, "{way:?}");
        }
    }
}

/// A socket of a kind, and its connect(2) to a port of the loopback.
fn connected(kind: u64, port: u8) -> Vec<Op> {
    let address = [2, 0, 0, port, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];
    let to = [
        Arg::Slot(8, 0),
        Arg::Bytes(address.to_vec()),
        Arg::Number(16),
    ];
    vec![
        call("socket", &[2, kind, 0].map(Arg::Number), Some(8)),
        call("connect", &to, None),
    ]
}

#[test]
fn limit_4_of_an_internet_address_that_is_let_through_no_result_is_told() {
    let ops = connected(1, 9);
    let way = Way {
        has_loopback: true,
        ..UNSTOPPED
    };
    let outcome = run(ops, way);
    let calls = outcome.calls.values().flatten();
    let refused: Vec<_> = calls.filter(|seen| seen.number == 42).collect();
    // ECONNREFUSED
    assert_eq!(refused[0].result, Some(-111));
    let told = of_kind(&outcome, "connect");
    assert_eq!(told[0]["result"], "allowed", "{}", told[0]);
    assert!(told[0]["errno"].is_null(), "{}", told[0]);
}

#[test]
fn limit_5_what_a_relative_name_is_asked_about_is_known_as_long_as_its_directory_is() {
    let ops = |names: [&str; 2]| {
        vec![
            call("chdir", &[text(names[0])], None),
            call("unlink", &[text(names[1])], None),
        ]
    };
    let way = Way {
        stops: true,
        ..UNSTOPPED
    };
    // Who stops the call knows the directory, and turnkey does, too.
    for way in [UNSTOPPED, way] {
        let outcome = run(ops(["kd", "k"]), way);
        let told = of_kind(&outcome, "change");
        assert_eq!(told[0]["decision"]["rule"], "forbidden", "{}", told[0]);
    }
}

#[test]
fn limit_6_which_of_several_rules_is_told_is_not_asked() {
    // To a directory in which several rules speak.
    let outcome = run(
        vec![call("symlink", &[text("."), text("new0")], None)],
        UNSTOPPED,
    );
    let told = of_kind(&outcome, "change");
    let rule = told[0]["decision"]["rule"].as_str().expect("a rule");
    assert!(["written", "forbidden", "inside"].contains(&rule), "{rule}");
}

#[test]
fn limit_7_what_is_mapped_where_a_program_says_is_not_known() {
    let at = 0x5000_0000;
    let map = [at, 4096, 1, 0x02].map(Arg::Number);
    let ops = vec![
        call("open", &[text("a"), Arg::Number(0o4000)], Some(0)),
        call(
            "mmap",
            &[&map[..], &[Arg::Slot(0, 0), Arg::Number(0)]].concat(),
            None,
        ),
        call("mprotect", &[at, 4096, 5].map(Arg::Number), None),
    ];
    // A file of the tree, and no event.
    let outcome = run(ops, UNSTOPPED);
    assert!(of_kind(&outcome, "map").is_empty());
}

#[test]
fn limit_8_the_third_way_to_open_is_told_as_none() {
    let outcome = run(
        vec![call("open", &[text("k0"), Arg::Number(0o4003)], None)],
        UNSTOPPED,
    );
    // The first one is the interpreter's own.
    let told = of_kind(&outcome, "open");
    assert_eq!(told[1]["access"], serde_json::json!([]), "{}", told[1]);
}

#[test]
fn limit_9_a_question_over_a_socket_that_is_connected_names_nobody() {
    let data = Arg::Bytes(question(ASKED));
    let mut ops = connected(2, 53);
    ops.push(call(
        "sendto",
        &[
            &[Arg::Slot(8, 0), data][..],
            &[29, 0x40, 0, 0].map(Arg::Number),
        ]
        .concat(),
        None,
    ));
    let outcome = run(ops, UNSTOPPED);
    let told = of_kind(&outcome, "question");
    assert_eq!(told[0]["questions"][0]["name"], ASKED, "{}", told[0]);
    assert!(of_kind(&outcome, "send").is_empty());
}

#[test]
fn limit_9_the_kernel_addresses_what_an_ipv6_socket_sends_to_ipv4() {
    let address = [2, 0, 0, 53, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];
    let message = Arg::Message {
        name: None,
        data: b"question".to_vec(),
    };
    let ops = |family: u64| {
        let to = [
            Arg::Slot(8, 0),
            Arg::Bytes(address.to_vec()),
            Arg::Number(16),
        ];
        let sent = [Arg::Slot(8, 0), message.clone(), Arg::Number(0x40)];
        vec![
            call("socket", &[family, 2, 0].map(Arg::Number), Some(8)),
            call("connect", &to, None),
            call("sendmsg", &sent, None),
        ]
    };
    for (family, told) in [(2, 0), (10, 1)] {
        let outcome = run(ops(family), UNSTOPPED);
        let sends = of_kind(&outcome, "send");
        assert_eq!(sends.len(), told, "{family}");
        assert!(sends.iter().all(|send| send["address"] == "127.0.0.1:53"));
    }
}

#[test]
fn limit_10_a_symlink_that_was_there_before_hides_what_it_leads_to() {
    let way = Way {
        enforces: true,
        ..UNSTOPPED
    };
    let rename = call("rename", &[text("dl/y"), text("new0")], None);
    let program = Program {
        strands: vec![vec![rename]],
    };
    let outcome = bench().run(&program, way).expect("it can be run");
    let layers = outcome.report["enforcement"].as_array().expect("layers");
    let mut monitor = layers.iter().filter(|layer| layer["layer"] == "monitor");
    let tier = monitor.next().expect("it is watched")["effective"].as_str();
    // Hooks are asked about the file itself.
    let is_hidden = tier.is_some_and(|tier| tier.starts_with("tracepoint"));
    assert_eq!(outcome.code == Some(121), !is_hidden, "{tier:?}");
}
