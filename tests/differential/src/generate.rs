//! Programs that nobody thought of, each from a number.

mod scenes;

use crate::address::{ASKED, question};
use crate::grammar::{
    ATTRIBUTES, CLONES, FLAGS, GROUPS, GUARDED, MAPPINGS, MODES, NEW, NODES, PATHS, PLAIN,
    PROTECTIONS, RACING, Rule, Slot,
};
use crate::program::{Arg, Call, Op, Program, Racing};

/// The program of this number.
pub fn generate(seed: u64) -> Program {
    let mut maker = Maker {
        state: seed,
        enforces: seed % 4 >= 2,
        asks_for_namespaces: seed.is_multiple_of(3),
        groups: Vec::new(),
    };
    maker.program()
}

struct Maker {
    state: u64,
    asks_for_namespaces: bool,
    enforces: bool,
    groups: Vec<&'static [Rule]>,
}

/// Where descriptors are kept: of files from 0 on, of sockets behind them.
const FD_SLOTS: u64 = 8;
const SOCKET_SLOTS: u64 = 4;

const AT_FDCWD: u64 = (-100_i64).cast_unsigned();
/// Addresses of socket(7), as they lie in memory: port 80, port 53, port 443 of another, nobody in particular.
const ADDRESSES: &[&[u8]] = &[
    &[2, 0, 0, 80, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0],
    &[2, 0, 0, 53, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0],
    &[2, 0, 1, 187, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0],
    &[2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    &[0, 0, 0, 53, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0],
    &[
        10, 0, 0, 53, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0,
    ],
    &[
        10, 0, 31, 144, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 127, 0, 0, 1, 0, 0, 0,
        0,
    ],
    b"\x01\0sock0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
    b"\x01\0/workspace/q9\0\0\0\0\0\0\0\0\0\0\0\0\0",
    b"\x01\0\0abstract\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
    &[16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    &[99, 0, 1, 2, 3, 4],
];

/// Sizes of addresses, right and wrong.
const SIZES: &[u64] = &[16, 28, 110, 2, 0, 3, 8, 128, 0xffff_ffff];
/// An access control list, as its attribute holds it: what `chmod 644` says.
const LIST: [u8; 28] = [
    2, 0, 0, 0, 1, 0, 6, 0, 255, 255, 255, 255, 4, 0, 4, 0, 255, 255, 255, 255, 32, 0, 4, 0, 255,
    255, 255, 255,
];

impl Maker {
    /// splitmix64
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.state;
        word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ word >> 31
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn one_in(&mut self, of: u64) -> bool {
        self.below(of) == 0
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.next() as usize % from.len()]
    }

    fn program(&mut self) -> Program {
        let count = 1 + self.below(3);
        self.groups = (0..count).map(|_| self.pick(GROUPS)).collect();
        let mut strands = vec![Vec::new()];
        if self.one_in(5) {
            strands[0].push(self.timer());
        }
        if self.one_in(4) {
            strands[0].extend(self.talk());
        }
        if self.one_in(2) {
            strands[0].extend(self.ask());
        }
        if self.one_in(2) {
            strands[0].extend(self.serve());
        }
        for _ in 0..self.below(3) {
            strands[0].extend(self.names());
        }
        let length = strands[0].len() as u64 + 10 + self.below(90);
        while (strands[0].len() as u64) < length {
            match self.below(40) {
                0 | 1 if strands.len() < 8 => {
                    let spawn = self.spawn(&mut strands);
                    strands[0].push(spawn);
                }
                2 if strands.len() < 8 => self.race(&mut strands),
                3 => {
                    let text = self.path();
                    strands[0].push(Op::Forget { text: text.clone() });
                    // Who asks for it next.
                    let mut call = self.call();
                    if let Op::Call(Call { args, .. }) = &mut call {
                        let texts = args.iter_mut().find(|arg| matches!(arg, Arg::Text(_)));
                        if let Some(arg) = texts.filter(|_| text.len() < 4096) {
                            *arg = Arg::Lazy(text);
                        }
                    }
                    strands[0].push(call);
                }
                _ => {
                    let call = self.call();
                    let made = self.made(&call);
                    strands[0].push(call);
                    strands[0].extend(made);
                }
            }
        }
        if self.one_in(4) {
            strands[0].extend(self.watch());
        }
        if self.one_in(3) {
            strands[0].extend(self.carry());
        }
        // Under rules that kill for the name alone, nobody waits for who writes to it.
        if self.enforces && self.one_in(6) {
            let args = vec![Arg::Text("kp".to_owned()), Arg::Number(0), Arg::Number(0)];
            strands[0].push(call("open", args, None));
        }
        if self.one_in(2) {
            let strand = self.strand(&mut strands, 10);
            let exec = self.exec(strand);
            if let Op::Exec {
                at: Some((slot, _)),
                ..
            } = &exec
            {
                const O_PATH: u64 = 0o1000_0000;
                let args = vec![Arg::Text("interp".to_owned()), Arg::Number(O_PATH)];
                strands[0].push(call("open", args, Some(*slot)));
            }
            strands[0].push(exec);
        }
        Program { strands }
    }

    /// What a call has given another name is opened by it, one time in three.
    fn made(&mut self, op: &Op) -> Option<Op> {
        const MAKERS: [&str; 7] = [
            "link",
            "linkat",
            "rename",
            "renameat",
            "renameat2",
            "symlink",
            "symlinkat",
        ];
        let Op::Call(Call { name, args, .. }) = op else {
            return None;
        };
        let mut texts = args.iter().filter(|arg| matches!(arg, Arg::Text(_)));
        let last = texts
            .next_back()
            .filter(|_| MAKERS.contains(&name.as_str()))?
            .clone();
        let args = vec![last, Arg::Number(0o4000), Arg::Number(0)];
        self.one_in(3).then(|| call("open", args, Some(0)))
    }

    /// A new strand of so many calls at most, which may end in an exec.
    fn strand(&mut self, strands: &mut Vec<Vec<Op>>, length: u64) -> usize {
        let length = 1 + self.below(length);
        let mut ops: Vec<Op> = (0..length).map(|_| self.call()).collect();
        strands.push(Vec::new());
        let index = strands.len() - 1;
        if self.one_in(3) && strands.len() < 12 {
            let next = self.strand(strands, 5);
            ops.push(self.exec(next));
        }
        strands[index] = ops;
        index
    }

    fn spawn(&mut self, strands: &mut Vec<Vec<Op>>) -> Op {
        let strand = self.strand(strands, 20);
        let flags = self.pick(CLONES);
        Op::Spawn { flags, strand }
    }

    /// A thread that writes to a name, and calls that use it meanwhile.
    fn race(&mut self, strands: &mut Vec<Vec<Op>>) {
        let (text, either, or) = self.pick(RACING);
        let text = Racing {
            text: text.to_owned(),
            either,
            or,
        };
        let rounds = 500 + self.below(5000);
        let flips = vec![Op::Flip {
            text: text.clone(),
            rounds,
        }];
        strands.push(flips);
        let strand = strands.len() - 1;
        let flags = 0x5_0f00;
        strands[0].push(Op::Spawn { flags, strand });
        for _ in 0..1 + self.below(4) {
            if let Op::Call(mut call) = self.call() {
                let texts = call.args.iter_mut();
                for arg in texts.filter(|arg| matches!(arg, Arg::Text(_) | Arg::Lazy(_))) {
                    *arg = Arg::Racing(text.clone());
                }
                call.times = 20;
                strands[0].push(Op::Call(call));
            }
        }
    }

    fn exec(&mut self, strand: usize) -> Op {
        let names = [
            "/workspace/interp",
            "interp",
            "script",
            "none",
            "a",
            "./d/../interp",
            "q0",
        ];
        let path = self.pick(&names).to_owned();
        // By a descriptor of it.
        let at = self.one_in(4).then_some((7, 0x1000));
        let path = if at.is_some() { String::new() } else { path };
        Op::Exec {
            path: Arg::Text(path),
            at,
            strand,
        }
    }

    /// setitimer(2): a signal every few hundred microseconds, whatever is done meanwhile.
    fn timer(&mut self) -> Op {
        let period = 150 + self.below(800);
        let words = [0, period, 0, period];
        let times = words.iter().flat_map(|word| u64::to_le_bytes(*word));
        let args = vec![Arg::Number(0), Arg::Bytes(times.collect()), Arg::Number(0)];
        call("setitimer", args, None)
    }

    fn call(&mut self) -> Op {
        let group = if self.one_in(8) {
            self.pick(GROUPS)
        } else {
            let groups = self.groups.clone();
            self.pick(&groups)
        };
        let (name, slots) = self.pick(group);
        let mut call = Call {
            name: name.to_owned(),
            high: if self.one_in(10) {
                self.next() as u32
            } else {
                0
            },
            args: Vec::new(),
            out: None,
            times: if self.one_in(12) {
                2 + self.below(6) as u32
            } else {
                1
            },
        };
        for slot in slots {
            // The size of an address is most often its own.
            let size = match call.args.last() {
                Some(Arg::Bytes(address)) if !self.one_in(3) => Some(address.len() as u64),
                _ => None,
            };
            match slot {
                Slot::Size => {
                    let any = self.pick(SIZES);
                    let size = size.unwrap_or(any);
                    call.args.push(self.int(size));
                }
                Slot::GivesFd => call.out = Some(self.below(FD_SLOTS) as u8),
                Slot::GivesSocket => call.out = Some(self.socket()),
                other => {
                    let arg = self.arg(*other);
                    call.args.push(arg);
                }
            }
        }
        Op::Call(call)
    }

    fn socket(&mut self) -> u8 {
        (FD_SLOTS + self.below(SOCKET_SLOTS)) as u8
    }

    fn path(&mut self) -> String {
        if self.one_in(60) {
            let length = self.pick(&[255, 256, 4090, 4095, 4096, 5000]);
            return "x".repeat(length);
        }
        if self.one_in(60) {
            return "/.".repeat(2040) + "/workspace/a";
        }
        self.pick(PATHS).to_owned()
    }

    /// A pointer to a text, which may lead to none.
    fn text(&mut self, text: String) -> Arg {
        match self.below(40) {
            0..=2 if text.len() < 4096 => Arg::Lazy(text),
            3 if text.len() < 4096 => Arg::Unended(text),
            4 => Arg::Hole,
            5 => Arg::Number(self.pick(&[0, 1, 0xffff_8880_0000_0000, 1 << 47, u64::MAX])),
            _ => Arg::Text(text),
        }
    }

    /// An `int`: what stands in the upper half of the register is nobody's business.
    fn int(&mut self, number: u64) -> Arg {
        let high = if self.one_in(6) { self.next() << 32 } else { 0 };
        match high {
            0 => Arg::Number(number),
            high => Arg::Number(number & 0xffff_ffff | high),
        }
    }

    fn descriptor(&mut self, slot: u8) -> Arg {
        let high = if self.one_in(6) {
            self.next() as u32
        } else {
            0
        };
        match self.below(12) {
            0 => self.int(u64::MAX),
            1 => self.int(9999),
            _ => Arg::Slot(slot, high),
        }
    }

    fn arg(&mut self, slot: Slot) -> Arg {
        match slot {
            Slot::Path => {
                let path = self.path();
                self.text(path)
            }
            Slot::New => {
                let path = if self.one_in(2) {
                    format!("new{}", self.below(40))
                } else {
                    self.pick(NEW).to_owned()
                };
                self.text(path)
            }
            Slot::Dir if self.one_in(4) => {
                let slot = self.below(FD_SLOTS) as u8;
                self.descriptor(slot)
            }
            Slot::Dir => self.int(AT_FDCWD),
            Slot::Fd => {
                let slot = self.below(FD_SLOTS) as u8;
                self.descriptor(slot)
            }
            Slot::Socket => {
                let slot = self.socket();
                self.descriptor(slot)
            }
            Slot::Flags => {
                let flags = self.pick(FLAGS);
                self.int(flags)
            }
            Slot::How => self.how(),
            Slot::Mode => {
                let mode = self.pick(MODES);
                self.int(mode)
            }
            Slot::Node => {
                let mode = self.pick(NODES);
                self.int(mode)
            }
            Slot::Address => match self.below(12) {
                0 => Arg::Number(0),
                1 => Arg::Hole,
                _ => Arg::Bytes(self.pick(ADDRESSES).to_vec()),
            },
            Slot::Message => Arg::Message {
                name: (!self.one_in(4)).then(|| self.pick(ADDRESSES).to_vec()),
                data: if self.one_in(2) {
                    question(ASKED)
                } else {
                    b"question".to_vec()
                },
            },
            Slot::Plain => {
                let path = self.pick(PLAIN).to_owned();
                self.text(path)
            }
            Slot::Guarded => {
                let path = self.pick(GUARDED).to_owned();
                self.text(path)
            }
            Slot::Empty => Arg::Text(String::new()),
            Slot::Cloned => {
                let flags: u64 = if self.asks_for_namespaces {
                    0x1000_0011
                } else {
                    17
                };
                let mut bytes = flags.to_le_bytes().to_vec();
                bytes.resize(88, 0);
                Arg::Bytes(bytes)
            }
            Slot::Data if self.one_in(3) => Arg::Bytes(question(ASKED)),
            Slot::Data if self.one_in(3) => Arg::Bytes(vec![1; 24]),
            Slot::Data => Arg::Bytes(LIST.to_vec()),
            Slot::Buffer => Arg::Buffer(self.below(8) as u8),
            Slot::Memory => match self.below(4) {
                0 => Arg::Number(0x5000_0000),
                1 => Arg::Number(self.next()),
                _ => Arg::Buffer(8 + self.below(8) as u8),
            },
            Slot::Protection => Arg::Number(self.pick(PROTECTIONS)),
            Slot::Mapping => Arg::Number(self.pick(MAPPINGS)),
            Slot::Attribute => {
                let name = self.pick(ATTRIBUTES).to_owned();
                self.text(name)
            }
            Slot::Of(numbers) => {
                let number = self.pick(numbers);
                Arg::Number(number)
            }
            Slot::Any => Arg::Number(self.next()),
            Slot::Size | Slot::GivesFd | Slot::GivesSocket => Arg::Number(0),
        }
    }

    /// `struct open_how`: flags, mode, resolve.
    fn how(&mut self) -> Arg {
        if self.one_in(12) {
            return Arg::Hole;
        }
        let flags = self.pick(FLAGS);
        let mode = if flags & 0o100 != 0 { 0o644 } else { 0 };
        let resolve = self.pick(&[0, 0, 0, 4, 8, 0x10]);
        let words = [flags, mode, resolve, 0];
        Arg::Bytes(words.iter().flat_map(|word| word.to_le_bytes()).collect())
    }
}

fn call(name: &str, args: Vec<Arg>, out: Option<u8>) -> Op {
    Op::Call(Call {
        name: name.to_owned(),
        high: 0,
        args,
        out,
        times: 1,
    })
}
