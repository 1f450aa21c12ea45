//! Programs of system calls, as they are generated, kept as seeds, and read by people.

use serde::{Deserialize, Serialize};
use turnkey_policy::syscalls;

/// A program: lists of operations, of which the first is run first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Program {
    /// Each is run by a task of its own, or after an exec.
    pub strands: Vec<Vec<Op>>,
}

/// One thing that the interpreter does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Op {
    /// A system call.
    Call(Call),
    /// clone(2) with these flags; the new task runs a strand.
    Spawn {
        /// As clone(2) takes them.
        flags: u64,
        /// Of [`Program::strands`].
        strand: usize,
    },
    /// The interpreter becomes another one of itself, which runs a strand.
    Exec {
        /// By which name of it.
        path: Arg,
        /// By execveat(2): a slot with a directory, and flags.
        at: Option<(u8, u64)>,
        /// Of [`Program::strands`].
        strand: usize,
    },
    /// A byte of a racing text is written again and again.
    Flip {
        /// Which text.
        text: Racing,
        /// How often.
        rounds: u64,
    },
    /// The page of a lazy text goes back to be read when somebody asks for it.
    Forget {
        /// Which text.
        text: String,
    },
}

/// A system call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// The kernel's name of it, or its number.
    pub name: String,
    /// What stands in the upper half of the register that holds its number.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub high: u32,
    /// In the order of the registers.
    pub args: Vec<Arg>,
    /// Where its result is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub out: Option<u8>,
    /// How often it is made.
    #[serde(default = "once", skip_serializing_if = "is_once")]
    pub times: u32,
}

/// An argument of a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arg {
    /// A number.
    Number(u64),
    /// Where a text lies that ends with a zero.
    Text(String),
    /// Where bytes lie.
    Bytes(Vec<u8>),
    /// Where a text lies whose page is not there yet.
    Lazy(String),
    /// Where a text lies that a [`Op::Flip`] writes to.
    Racing(Racing),
    /// Where a text lies that runs into memory that is not there.
    Unended(String),
    /// The result of a call before, with an upper half of its own if that is not 0.
    Slot(u8, u32),
    /// Where a `struct mmsghdr` lies, and behind it another one that is the same.
    Message {
        /// The address of a socket.
        name: Option<Vec<u8>>,
        /// What is sent.
        data: Vec<u8>,
    },
    /// Where memory lies for results.
    Buffer(u8),
    /// Where nothing is.
    Hole,
}

/// A text with one byte that is sometimes another one: the first `?` of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Racing {
    /// With a `?` in it.
    pub text: String,
    /// What stands there.
    pub either: u8,
    /// What else stands there.
    pub or: u8,
}

impl Racing {
    /// Where the byte is that changes.
    pub fn place(&self) -> usize {
        self.text.find('?').unwrap_or_default()
    }

    /// The text with this byte.
    pub fn with(&self, byte: u8) -> String {
        self.text.replacen('?', &char::from(byte).to_string(), 1)
    }
}

impl Call {
    /// Its number, as the register holds it.
    pub fn number(&self) -> u64 {
        let by_name = syscalls::number(&self.name).map(u64::from);
        let number = by_name.or_else(|| self.name.parse().ok()).unwrap_or(0xffff);
        u64::from(self.high) << 32 | number
    }
}

impl Program {
    /// How many operations it has.
    pub fn size(&self) -> usize {
        self.strands.iter().map(Vec::len).sum()
    }

    /// Every operation.
    pub fn ops(&self) -> impl Iterator<Item = &Op> {
        self.strands.iter().flatten()
    }

    /// Without some of its operations, counted over all strands.
    #[must_use]
    pub fn without(&self, from: usize, count: usize) -> Self {
        let mut index = 0;
        let mut keep = |_: &Op| {
            let is_out = (from..from + count).contains(&index);
            index += 1;
            !is_out
        };
        let strands = self.strands.iter();
        let strands = strands.map(|strand| {
            let kept = strand.iter().filter(|op| keep(op));
            kept.cloned().collect()
        });
        Self {
            strands: strands.collect(),
        }
    }
}

fn once() -> u32 {
    1
}

fn is_once(times: &u32) -> bool {
    *times == 1
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}
