//! Records that overtake each other, are lost or have any number: all that came is handed over
//! once, in order, and nothing is kept.
#![no_main]

use std::collections::BTreeSet;

use libfuzzer_sys::fuzz_target;
use turnkey_facts::{Event, Kind, Task};
use turnkey_monitor::fuzzing::Order;

/// Bytes of one record.
const SIZE: usize = 136;

fuzz_target!(|bytes: &[u8]| match bytes.split_first() {
    Some((0, fates)) => overtaking(fates),
    Some((_, numbers)) => any_numbers(numbers),
    None => {}
});

/// One record for each byte: its lowest bit says that it is lost, the rest how many others come
/// before it. That is fewer than are waited for, so they come out in order.
fn overtaking(fates: &[u8]) {
    let mut arrivals: Vec<(u64, u64)> = Vec::new();
    for (seq, fate) in (0_u64..).zip(fates) {
        if fate & 1 == 0 {
            arrivals.push((seq + u64::from(fate >> 1), seq));
        }
    }
    arrivals.sort_unstable();
    let mut order = Order::default();
    let mut out = Vec::new();
    for (time, seq) in &arrivals {
        let until = fates.len().min(usize::try_from(*time).expect("small") + 1);
        let lost = fates[..until].iter().filter(|fate| **fate & 1 == 1).count();
        order.push(event(*seq), SIZE);
        let next = || order.pop(|| lost as u64);
        out.extend(std::iter::from_fn(next).map(|event| event.seq));
    }
    out.extend(std::iter::from_fn(|| order.take()).map(|event| event.seq));
    let mut came: Vec<u64> = arrivals.iter().map(|(_, seq)| *seq).collect();
    came.sort_unstable();
    assert_eq!(out, came);
    assert_eq!(order.held(), (0, 0));
}

/// Numbers that no kernel would give, twice, and backwards.
fn any_numbers(numbers: &[u8]) {
    let mut order = Order::default();
    let mut came = BTreeSet::new();
    let mut out = BTreeSet::new();
    for number in numbers.chunks_exact(9) {
        let seq = u64::from_ne_bytes(number[1..].try_into().expect("eight bytes"));
        let size = usize::from(number[0]) << 12;
        came.insert(seq);
        order.push(event(seq), size);
        let lost = u64::from(number[0]);
        let next = || order.pop(|| lost);
        out.extend(std::iter::from_fn(next).map(|event| event.seq));
        let (_, bytes) = order.held();
        assert!(bytes <= 16 << 20, "{bytes} bytes wait");
    }
    out.extend(std::iter::from_fn(|| order.take()).map(|event| event.seq));
    assert_eq!(out, came);
    assert_eq!(order.held(), (0, 0));
}

fn event(seq: u64) -> Event {
    let task = Task {
        pid: 1,
        tid: 1,
        jail_pid: 1,
        uid: 0,
        parent_pid: 0,
        start_ns: 0,
        comm: Vec::new(),
    };
    Event {
        seq,
        time_ns: 0,
        last_ns: 0,
        repeated: 0,
        task,
        kind: Kind::Exit { status: 0 },
        decision: None,
    }
}
