//! Any bytes on the service's socket, with any number of descriptors beside them: a packet that is written again as it came, or none.
//! The first byte is the number; behind the sign of memory the rest are the words of a long request.
#![no_main]

use libfuzzer_sys::fuzz_target;
use turnkey_supervisor::service::{Packet, RunOrder};

/// As the first byte: the rest comes in memory.
const MEMORY: u8 = 0xff;

fuzz_target!(|bytes: &[u8]| match bytes.split_first() {
    Some((&MEMORY, words)) => in_memory(words),
    Some((count, packet)) => in_a_packet(packet, usize::from(*count)),
    None => {}
});

fn in_a_packet(bytes: &[u8], descriptors: usize) {
    let Ok(packet) = Packet::decode(bytes, descriptors) else {
        return;
    };
    assert_eq!(packet.encode(descriptors).expect("it came as one"), bytes);
    let asks = matches!(packet, Packet::Run(_) | Packet::LongRun);
    // Each kind has its number: the streams and a directory with a run, and nothing beside a signal.
    assert_eq!(asks, (4..=6).contains(&descriptors));
    if let Packet::Run(order) = packet {
        whole(&order);
    }
}

fn in_memory(words: &[u8]) {
    if let Ok(order) = RunOrder::decode(words) {
        assert_eq!(order.encode(), words);
        whole(&order);
    }
}

/// Checks that no string for execve(2) has a NUL inside, and that each variable has a name.
fn whole(order: &RunOrder) {
    use std::os::unix::ffi::OsStrExt;
    let strings = order
        .variables
        .iter()
        .flat_map(|(name, value)| [name, value]);
    for string in strings.chain(&order.arguments) {
        assert!(!string.as_bytes().contains(&0));
    }
    assert!(order.variables.iter().all(|(name, _)| !name.is_empty()));
}
