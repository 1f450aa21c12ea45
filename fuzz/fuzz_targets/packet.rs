//! Any packets from the jail's first process: each says what it would say again, and no layer
//! counts as proved whose proof is not among them.
//!
//! Two bytes of length stand before each packet.
#![no_main]

use std::cell::LazyCell;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use libfuzzer_sys::fuzz_target;
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, recv, socketpair};
use turnkey_jailer::fuzzing::{
    ChildFact, ChildMessage, ChildSender, FactPacket, PACKET, ProcText, ProofExpectation,
    ProofFacts, RouteProbes,
};

thread_local! {
    static SOCKET: LazyCell<(OwnedFd, OwnedFd)> = const { LazyCell::new(|| {
        let (family, kind) = (AddressFamily::Unix, SockType::SeqPacket);
        socketpair(family, kind, None, SockFlag::SOCK_CLOEXEC).expect("a pair of sockets")
    }) };
}

/// The lines of /proc/self/status that layers' proofs rest on.
const PROOFS: [&str; 5] = ["Uid:", "CapEff:", "CapBnd:", "NoNewPrivs:", "Seccomp:"];

fuzz_target!(|bytes: &[u8]| {
    let decoded = packets(bytes).into_iter().filter_map(ChildMessage::decode);
    let messages: Vec<ChildMessage> = decoded.collect();
    for message in &messages {
        assert_eq!(again(message), *message);
    }
    if sight(&messages).verify(&expectation()).is_err() {
        return;
    }
    for proof in PROOFS {
        let unproved = sight(&without(&messages, proof));
        assert!(unproved.verify(&expectation()).is_err(), "without {proof}");
    }
    for (fact, _) in ChildFact::NAMESPACES {
        let mut unproved = sight(&messages);
        unproved.fact(fact, 1);
        assert!(
            unproved.verify(&expectation()).is_err(),
            "the host's {fact:?}"
        );
    }
});

/// What the supervisor would have seen.
fn sight(messages: &[ChildMessage]) -> ProofFacts {
    let mut sight = ProofFacts::default();
    for message in messages {
        match message {
            ChildMessage::Facts(facts) => {
                for (fact, value) in facts {
                    sight.fact(*fact, *value);
                }
            }
            ChildMessage::ProcText(text, piece) => sight.append_text(*text, piece),
            _ => {}
        }
    }
    sight
}

/// The same messages, but for the lines that begin so.
fn without(messages: &[ChildMessage], proof: &str) -> Vec<ChildMessage> {
    let mut status = Vec::new();
    let mut others = Vec::new();
    for message in messages {
        match message {
            ChildMessage::ProcText(ProcText::Status, piece) => status.extend(piece),
            other => others.push(other.clone()),
        }
    }
    let lines = status.split_inclusive(|byte| *byte == b'\n');
    let kept = lines.filter(|line| !line.starts_with(proof.as_bytes()));
    let kept = kept.collect::<Vec<_>>().concat();
    others.push(ChildMessage::ProcText(ProcText::Status, kept));
    others
}

/// At most as many as are sent in a start, and not longer than the socket's.
fn packets(mut rest: &[u8]) -> Vec<&[u8]> {
    let mut packets = Vec::new();
    while let Some((length, behind)) = rest.split_first_chunk() {
        let length = usize::from(u16::from_le_bytes(*length)).min(PACKET);
        let (packet, behind) = behind.split_at(length.min(behind.len()));
        packets.push(packet);
        rest = behind;
    }
    packets
}

/// The message, sent by the jail's side and decoded once more.
fn again(message: &ChildMessage) -> ChildMessage {
    SOCKET.with(|pair| {
        let sender = ChildSender(pair.0.as_fd());
        match message {
            ChildMessage::Failed { step, index, errno } => sender.failed(*step, *index, *errno),
            ChildMessage::Facts(facts) => {
                let mut together = FactPacket::NONE;
                for (fact, value) in facts {
                    together
                        .add(*fact, *value)
                        .expect("no more than can be sent");
                }
                sender.facts(&together).expect("it is sent");
            }
            ChildMessage::ProcText(text, piece) => sender.text(*text, piece).expect("it is sent"),
            ChildMessage::Ready => sender.ready().expect("it is sent"),
            ChildMessage::Listener(index) => {
                let socket = pair.0.as_fd();
                sender.listener(*index, socket).expect("it is sent");
            }
            ChildMessage::Terminal => sender.terminal(pair.0.as_fd()).expect("it is sent"),
            ChildMessage::ExecFailed(errno) => sender.exec_failed(*errno),
            ChildMessage::Exited(status) => sender.exited(*status),
            ChildMessage::OutOfTime => sender.out_of_time(),
        }
        let mut packet = [0; PACKET];
        let length = recv(pair.1.as_raw_fd(), &mut packet, MsgFlags::MSG_DONTWAIT);
        ChildMessage::decode(&packet[..length.expect("a packet")]).expect("a message")
    })
}

/// As for a jail on a recent kernel.
fn expectation() -> ProofExpectation {
    ProofExpectation {
        inside_id: 1000,
        is_writable: false,
        own_namespaces: ChildFact::NAMESPACES.map(|(fact, _)| (fact, 1)).into(),
        landlock: Some("ABI 6".into()),
        handled: turnkey_jailer::landlock::handled(6),
        syscalls: 200,
        filters_around: 0,
        route_probes: RouteProbes::default(),
        listeners: 0,
        shares_network: false,
        user: "nobody",
        kept_supplementary_gids: 0,
        rlimits: vec![("Max file size", 67_108_864), ("Max open files", 256)],
        masks: vec!["/proc/kcore".into()],
    }
}
