//! Any bytes that a program sends to a sinkhole: whatever way they are cut, each parser ends, answers the same and takes no more than it
//! was given. The first byte is the place of the cut.
#![no_main]

use std::net::SocketAddr;

use libfuzzer_sys::fuzz_target;
use turnkey_supervisor::sinkhole_parsers::{Chunks, Dialogue, Head, NameBook};

/// Ports at which a server speaks first, and one at which none does.
const PORTS: [u16; 8] = [21, 22, 25, 110, 143, 465, 6379, 9];

fuzz_target!(|bytes: &[u8]| {
    let Some((cut, bytes)) = bytes.split_first() else {
        return;
    };
    let cut = usize::from(*cut).min(bytes.len());
    request(bytes);
    pieces(bytes, cut);
    lines(bytes, cut);
    names(bytes);
});

fn request(bytes: &[u8]) {
    let Some((head, length)) = Head::read(bytes) else {
        return;
    };
    assert!(length <= bytes.len());
    // What comes behind the head has no part in it.
    let (again, same) = Head::read(&bytes[..length]).expect("it is whole");
    assert_eq!((head.answer(), length), (again.answer(), same));
    assert!(head.answer().starts_with(b"HTTP/1.1 "));
    let _ = head.proxied();
}

/// A body is the same wherever it is cut.
fn pieces(bytes: &[u8], cut: usize) {
    let whole = taken(&[bytes]);
    let parts = taken(&[&bytes[..cut], &bytes[cut..]]);
    if whole.is_some() && parts.is_some() {
        assert_eq!(whole, parts);
    }
}

/// The bytes of a body, if it is one.
fn taken(parts: &[&[u8]]) -> Option<Vec<u8>> {
    let (mut chunks, mut body) = (Chunks::default(), Vec::new());
    for part in parts {
        let taken = chunks.take(part, &mut body).ok()?;
        assert!(taken.is_none_or(|taken| taken <= part.len()));
        if taken.is_some() {
            break;
        }
    }
    Some(body)
}

fn lines(bytes: &[u8], cut: usize) {
    for port in PORTS {
        let to = SocketAddr::from(([192, 0, 2, 1], port));
        let first = || Dialogue::at(to, port == 465).or_else(|| Dialogue::of_first(bytes, to));
        let (Some(mut whole), Some(mut parts)) = (first(), first()) else {
            continue;
        };
        let answer = [parts.answer(&bytes[..cut]), parts.answer(&bytes[cut..])].concat();
        assert_eq!(whole.answer(bytes), answer, "{port}");
        // What is answered grows with what is asked, and no faster than a line for a byte.
        assert!(answer.len() <= 256 * (1 + bytes.len()), "{port}");
    }
}

fn names(bytes: &[u8]) {
    let mut book = NameBook::default();
    let Some(answer) = book.answer(bytes) else {
        return;
    };
    assert_eq!(answer[..2], bytes[..2], "the answer to this question");
    assert!(answer[2] & 0x80 != 0, "it is an answer");
    assert_eq!(book.answer(bytes), Some(answer), "a name keeps its address");
}
