//! Programs as the interpreter reads them: where what lies is settled here.

use std::collections::BTreeMap;

use crate::program::{Arg, Op, Program, Racing};

/// Where the interpreter maps the program.
const PROGRAM: u64 = 0x1000_0000;
/// The whole of it.
const SIZE: usize = 0x40_0000;
/// Where what its tasks share lies; behind the slots come the buffers.
const SHARED: u64 = 0x2000_0000;
const BUFFERS: u64 = SHARED + 0x1000;
const BUFFER: u64 = 0x1000;
const STRANDS: usize = 64;
const OP: usize = 72;
/// The kernel reads so much of a file at once where a page of it is missing.
const AROUND: usize = 0x1_0000;
/// Mapped by nobody.
const HOLE: u64 = 0x4000_0000;

const END: u32 = 0;
const CALL: u32 = 1;
const SPAWN: u32 = 2;
const EXEC: u32 = 3;
const FLIP: u32 = 4;
const LAZY: u32 = 5;
const NOWHERE: u32 = 0xffff;

/// What stands at an address, for who reads the arguments of calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Placed {
    /// This text; it ends with a zero.
    Text(String),
    /// This text, on a page that may not be there.
    Lazy(String),
    /// One of two.
    Either(String, String),
    /// These bytes.
    Bytes(Vec<u8>),
    /// A text that does not end.
    Unended(String),
}

/// A program and where its texts lie.
#[derive(Debug, Default)]
pub struct Encoded {
    /// What the interpreter reads.
    pub bytes: Vec<u8>,
    places: BTreeMap<u64, Placed>,
}

impl Encoded {
    /// What the program put at an address.
    pub fn at(&self, address: u64) -> Option<&Placed> {
        self.places.get(&address)
    }

    /// Whether nothing is there that could be read.
    pub fn is_nothing(&self, address: u64) -> bool {
        address < 0x1000 || address == HOLE || address >= 1 << 47
    }
}

/// Puts the program, and what its arguments point to, into memory.
pub fn encode(program: &Program) -> Encoded {
    let mut writer = Writer {
        encoded: Encoded {
            bytes: vec![0; SIZE],
            places: BTreeMap::new(),
        },
        texts: BTreeMap::new(),
        next_text: 0,
        next_lazy: 0,
    };
    let mut at = 8 + 8 * STRANDS;
    let ops: usize = program.size() + program.strands.len();
    writer.next_text = align(at + ops * OP, 4096);
    writer.next_lazy = SIZE - 2 * AROUND;
    writer.put(0, &(program.strands.len() as u64).to_le_bytes());
    for (index, strand) in program.strands.iter().take(STRANDS).enumerate() {
        writer.put(8 + 8 * index, &(at as u64).to_le_bytes());
        for op in strand {
            let bytes = writer.op(op);
            writer.put(at, &bytes);
            at += OP;
        }
        writer.put(at, &END.to_le_bytes());
        at += OP;
    }
    writer.encoded
}

fn align(at: usize, to: usize) -> usize {
    at.div_ceil(to) * to
}

struct Writer {
    encoded: Encoded,
    texts: BTreeMap<Key, u64>,
    next_text: usize,
    next_lazy: usize,
}

/// What is written once, wherever it is used.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Text(String),
    Bytes(Vec<u8>),
    Message(Vec<u8>),
    Lazy(String),
    Racing(Racing),
    Unended(String),
}

impl Writer {
    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.encoded.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn op(&mut self, op: &Op) -> Vec<u8> {
        let mut kind = CALL;
        let (mut out, mut number, mut slots, mut times) = (NOWHERE, 0, 0, 1);
        let mut arguments = [0; 6];
        match op {
            Op::Call(call) => {
                out = call.out.map_or(NOWHERE, u32::from);
                number = call.number();
                times = call.times;
                for (index, arg) in call.args.iter().take(6).enumerate() {
                    if let Arg::Slot(..) = arg {
                        slots |= 1 << index;
                    }
                    arguments[index] = self.arg(arg);
                }
            }
            Op::Spawn { flags, strand } => {
                kind = SPAWN;
                arguments[..2].copy_from_slice(&[*flags, *strand as u64]);
            }
            Op::Exec { path, at, strand } => {
                kind = EXEC;
                number = if at.is_some() { 322 } else { 59 };
                arguments[0] = self.arg(path);
                if let Some((slot, flags)) = at {
                    arguments[1..3].copy_from_slice(&[u64::from(*slot), *flags]);
                }
                arguments[5] = *strand as u64;
            }
            Op::Flip { text, rounds } => {
                kind = FLIP;
                let address = self.place(Key::Racing(text.clone()));
                let bytes = [text.either, text.or].map(u64::from);
                arguments[..4].copy_from_slice(&[
                    address + text.place() as u64,
                    bytes[0],
                    bytes[1],
                    *rounds,
                ]);
            }
            Op::Forget { text } => {
                kind = LAZY;
                arguments[0] = self.place(Key::Lazy(text.clone())) & !0xfff;
            }
        }
        let mut bytes = Vec::with_capacity(OP);
        bytes.extend(kind.to_le_bytes());
        bytes.extend(out.to_le_bytes());
        bytes.extend(u64::to_le_bytes(number));
        bytes.extend(u32::to_le_bytes(slots));
        bytes.extend(times.to_le_bytes());
        bytes.extend(arguments.iter().flat_map(|it| u64::to_le_bytes(*it)));
        bytes
    }

    fn arg(&mut self, arg: &Arg) -> u64 {
        match arg {
            Arg::Number(number) => *number,
            Arg::Text(text) => self.place(Key::Text(text.clone())),
            Arg::Bytes(bytes) => self.place(Key::Bytes(bytes.clone())),
            Arg::Lazy(text) => self.place(Key::Lazy(text.clone())),
            Arg::Racing(text) => self.place(Key::Racing(text.clone())),
            Arg::Unended(text) => self.place(Key::Unended(text.clone())),
            Arg::Message { name, data } => self.message(name.as_deref(), data),
            Arg::Slot(slot, high) => u64::from(*high) << 32 | u64::from(*slot),
            Arg::Buffer(index) => BUFFERS + BUFFER * u64::from(*index),
            Arg::Hole => HOLE,
        }
    }

    /// `struct mmsghdr`, twice, with one piece of data.
    fn message(&mut self, name: Option<&[u8]>, data: &[u8]) -> u64 {
        let (name_at, name_length) = match name {
            Some(name) => (self.place(Key::Bytes(name.to_vec())), name.len() as u64),
            None => (0, 0),
        };
        let data_at = self.place(Key::Bytes(data.to_vec()));
        let piece = [data_at, data.len() as u64];
        let piece = self.place(Key::Bytes(bytes(&piece)));
        let header = [name_at, name_length, piece, 1, 0, 0, 0, 0];
        self.place(Key::Message(bytes(&[header, header].concat())))
    }

    fn place(&mut self, key: Key) -> u64 {
        if let Some(address) = self.texts.get(&key) {
            return *address;
        }
        // There is room for one before the end.
        let is_unended = |key: &Key| matches!(key, Key::Unended(_));
        if is_unended(&key) && self.texts.keys().any(is_unended) {
            return HOLE;
        }
        let (bytes, placed, is_lazy) = match &key {
            Key::Text(text) => (ended(text), Placed::Text(text.clone()), false),
            Key::Bytes(bytes) | Key::Message(bytes) => {
                (bytes.clone(), Placed::Bytes(bytes.clone()), false)
            }
            Key::Lazy(text) => (ended(text), Placed::Lazy(text.clone()), true),
            Key::Racing(text) => {
                let [either, or] = [text.either, text.or].map(|byte| text.with(byte));
                (ended(&either), Placed::Either(either, or), false)
            }
            Key::Unended(text) => (
                text.clone().into_bytes(),
                Placed::Unended(text.clone()),
                false,
            ),
        };
        let at = match (&key, is_lazy) {
            // The end of the mapping.
            (Key::Unended(_), _) => SIZE - bytes.len(),
            (_, true) => {
                self.next_lazy -= AROUND;
                self.next_lazy
            }
            (Key::Racing(_) | Key::Message(_), _) => {
                // The kernel writes how much was sent. A page that is written to for the first time is not there for a moment.
                let at = align(self.next_text, 4096);
                self.next_text = at + 4096;
                at
            }
            _ => {
                let at = self.next_text;
                self.next_text = align(at + bytes.len() + 1, 8);
                at
            }
        };
        self.put(at, &bytes);
        let address = PROGRAM + at as u64;
        self.encoded.places.insert(address, placed);
        self.texts.insert(key, address);
        address
    }
}

fn bytes(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn ended(text: &str) -> Vec<u8> {
    [text.as_bytes(), b"\0"].concat()
}
