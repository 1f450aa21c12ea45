//! Any data to port 53: names that can be shown, that say all of the labels, and that a message made
//! of them asks for again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use turnkey_facts::dns::{Question, questions};

/// Bytes of a message that are looked at.
const MOST: usize = 512;

fuzz_target!(|data: &[u8]| {
    let data = &data[..data.len().min(MOST)];
    let asked = questions(data, false);
    // No question is shorter than a root, a type and a class.
    assert!(asked.len() <= data.len() / 5);
    for question in &asked {
        let printable = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.\\".contains(&byte);
        assert!(question.name.bytes().all(printable), "{}", question.name);
        assert!(!question.name.is_empty() && question.name.len() <= 4 * 255);
    }
    let again: Vec<Question> = asked
        .iter()
        .flat_map(|question| questions(&message(question), false))
        .collect();
    assert_eq!(again, asked);
    let stream = [b"\0\0", data].concat();
    assert_eq!(questions(&stream, true), asked);
});

/// A message with this question alone.
fn message(question: &Question) -> Vec<u8> {
    let mut bytes = vec![0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    if question.name != "." {
        for label in question.name.split('.') {
            let label = unescaped(label);
            bytes.push(u8::try_from(label.len()).expect("a label is short"));
            bytes.extend(label);
        }
    }
    bytes.push(0);
    bytes.extend(question.record.to_be_bytes());
    bytes.extend([0, 1]);
    bytes
}

fn unescaped(label: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = label.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        let digits: String = rest.by_ref().take(3).map(char::from).collect();
        bytes.push(digits.parse().expect("three digits"));
    }
    bytes
}
