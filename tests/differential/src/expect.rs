//! What docs/events.md says has to be told of a call that was seen.

mod changes;
mod memory;
mod network;

use serde_json::{Value, json};

use crate::encode::{Encoded, Placed};
use crate::rules::{Act, NOT_SHOWN, accesses, decide, normal, steps_back};
use crate::shape::{Class, Shape, meets_limit, refusal, shape};
use crate::stops::Looked;
use crate::told::LONGEST;
use crate::trace::Seen;
use crate::width::{int, word};

/// What an event has to be like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    /// Its kind is one of these.
    pub kinds: Vec<&'static str>,
    /// The result of the call; not asked about where that is nobody's business.
    pub result: Option<i64>,
    /// Its argument.
    pub argument: Text,
    /// Its path.
    pub path: Text,
    /// Its other name.
    pub to: Text,
    /// How a file was to be used.
    pub access: Option<Vec<&'static str>>,
    /// The number of a call that was refused, and the first three arguments.
    pub call: Option<(i64, Option<[u64; 3]>)>,
    /// The process that was made, as the program knows it.
    pub child: Option<i64>,
    /// The address; and what its bytes may be taken for where the family of the socket is another one.
    pub address: Option<(String, Option<u16>)>,
    /// Of acts with an address: whether the jail has a loopback of its own.
    pub has_loopback: Option<bool>,
    /// The values that the event has, by JSON pointers.
    pub fields: Vec<(&'static str, Value)>,
    /// The act that the rules are asked about.
    pub act: Option<Act<'static>>,
    /// Whether it may be left out.
    pub is_optional: bool,
}

/// What is known of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Text {
    /// Nothing.
    Any,
    /// One of these.
    OneOf(Vec<String>),
    /// One of these, or it cannot be read: the kernel may not have looked before it refused, or a thread writes there.
    Late(Vec<String>),
    /// It cannot be read.
    Unreadable,
}

/// What a call is held against.
#[derive(Debug)]
pub struct Context<'a> {
    /// What lies where in memory.
    pub encoded: &'a Encoded,
    /// Whether the working directory is the workspace throughout.
    pub stays: bool,
    /// Whether somebody stops every call: who is killed meanwhile comes back with `ENOSYS`, and no entry.
    pub stops: bool,
    /// True when the clone3(2) of the program ask for namespaces; nothing when some do.
    pub clone3: Option<bool>,
    /// True when the network of the jail is its own loopback.
    pub has_loopback: bool,
    /// True when a socket may be connected to port 53.
    pub asks: bool,
    /// True when an IPv6 socket may be connected to an IPv4 address, which the kernel then gives each message.
    pub is_mapped: bool,
    /// True when the kernel asks before acts, about its own objects.
    pub has_hooks: bool,
    /// True when two threads or processes may have the same descriptors.
    pub shares: bool,
    /// True when a mapping may stand where the program says.
    pub maps: bool,
}

const EPERM: i64 = -1;
const ESRCH: i64 = -3;
const ENOENT: i64 = -2;
const EBADF: i64 = -9;
const EACCES: i64 = -13;
const EINVAL: i64 = -22;
const EROFS: i64 = -30;
const ENOSYS: i64 = -38;
/// No such kind of socket: `EPROTONOSUPPORT`, `ESOCKTNOSUPPORT`, `EAFNOSUPPORT`.
const NO_SOCKET: [i64; 3] = [-93, -94, -97];
/// The kernel's own word that a call may begin again is no error.
const RESTARTS: i64 = -511;
/// `EBADF` and `ENOTSOCK`.
const NOT_READ: [i64; 2] = [-9, -88];
const CLONE_NEW: u64 = 0x7e02_0000;
const CLONE3: i64 = 435;
const CLONE_THREAD: u64 = 0x1_0000;

impl Expected {
    fn of(kind: &'static str, seen: &Seen) -> Self {
        Self {
            kinds: vec![kind],
            result: seen.result,
            argument: Text::Any,
            path: Text::Any,
            to: Text::Any,
            access: None,
            call: None,
            child: None,
            address: None,
            has_loopback: None,
            fields: Vec::new(),
            act: None,
            is_optional: false,
        }
    }

    fn optional(self) -> Self {
        Self {
            is_optional: true,
            ..self
        }
    }

    fn when(self, known: Option<bool>) -> Vec<Self> {
        match known {
            Some(true) => vec![self],
            Some(false) => Vec::new(),
            None => vec![self.optional()],
        }
    }
}

/// Everything that has to be told of a call, in its order.
pub fn expected(seen: &Seen, looked: Option<&Looked>, context: &Context<'_>) -> Vec<Expected> {
    let shape = shape(seen.number);
    let Some(result) = seen.result else {
        return Vec::new();
    };
    // Not in a call at all, as on the way back from a signal's handler.
    if seen.number == -1 {
        return Vec::new();
    }
    let refused = Expected {
        call: Some((seen.number, None)),
        ..Expected::of("refused", seen)
    };
    let Some(args) = seen.args else {
        return match shape.class {
            // A thread that is not the first comes back by another id.
            Class::Exec if result == 0 => vec![Expected::of("exec", seen)],
            // What began before anybody looked, and who was made by a clone(2).
            _ if !is_error(result) => Vec::new(),
            _ if context.stops && result == ENOSYS => {
                let kinds = vec![
                    "refused",
                    "look",
                    "change",
                    by_filter(shape, refused.clone()).kinds[1],
                ];
                let of_the_dead = Expected {
                    kinds,
                    call: None,
                    ..refused
                };
                // What it was to send is there to be read.
                let question = Expected {
                    kinds: vec!["question"],
                    ..of_the_dead.clone()
                };
                vec![of_the_dead.optional(), question.optional()]
            }
            // Every program with threads asks for it; it is told when the flags ask for a namespace.
            _ if seen.number == CLONE3 => by_filter(shape, refused).when(context.clone3),
            _ => {
                // Who stops a call sees what the filter is asked about; what no rule can name is told without.
                let first = looked.map(|looked| looked.args[0]);
                let args = looked.filter(|_| refusal(seen.number, first, result).0.is_some());
                let args = args.map(|looked| [looked.args[0], looked.args[1], looked.args[2]]);
                let call = Some((seen.number, args));
                vec![by_filter(shape, Expected { call, ..refused })]
            }
        };
    };
    let call = One {
        seen,
        args,
        result,
        shape,
        looked,
        context,
    };
    let at_limit = refused.clone();
    let refused = Expected {
        call: Some((seen.number, Some([args[0], args[1], args[2]]))),
        ..refused
    };
    match shape.class {
        Class::None if call.may_ask_by_write() => {
            // No observer knows which socket a descriptor is.
            vec![Expected::of("question", seen).optional()]
        }
        Class::None => at_limit.when(Some(meets_limit(result))),
        Class::Open => vec![call.open()],
        Class::Exec if result == 0 => vec![call.exec()],
        Class::Exec => vec![call.exec_attempt()],
        Class::Change(access) => vec![call.change(access)],
        Class::Make if call.makes_device() => refused.when(Some(call.is_refusal())),
        Class::Make => vec![call.change("write")],
        Class::Symlink => vec![call.symlink()],
        Class::Times => vec![call.change("attribute")],
        Class::Attribute => call.attribute(),
        Class::Look => call.look(),
        Class::Map => call.map(),
        // Without an address nothing is said of anybody.
        Class::Address(kind) => call.address(kind),
        Class::Send => call.send(),
        Class::Listen => Expected::of("listen", seen).when(call.is_internet()),
        Class::Fork => call.fork(refused),
        Class::Guarded if call.is_socket() && meets_limit(result) => vec![at_limit],
        // Of those that reach nobody a bounded number is told.
        Class::Guarded if call.signals_nobody() => vec![refused.optional()],
        Class::Guarded => refused.when(Some(call.is_guarded())),
    }
}

/// What the filter answers is told by what it is about, or as a call that was refused.
fn by_filter(shape: Shape, refused: Expected) -> Expected {
    let also = match shape.class {
        Class::Open => "open",
        Class::Exec => "exec_attempt",
        Class::Change(_) | Class::Attribute | Class::Times => "change",
        Class::Map => "map",
        Class::Address(kind) => kind,
        Class::Send => "send",
        Class::Listen => "listen",
        _ => "refused",
    };
    let kinds = vec!["refused", also];
    let call = refused.call.filter(|_| also == "refused");
    Expected {
        kinds,
        call,
        ..refused
    }
}

struct One<'a> {
    seen: &'a Seen,
    args: [u64; 6],
    result: i64,
    shape: Shape,
    looked: Option<&'a Looked>,
    context: &'a Context<'a>,
}

impl One<'_> {
    /// What is known of the text that an argument leads to.
    fn text(&self, index: usize) -> Text {
        let address = self.args[index];
        match self.context.encoded.at(address) {
            Some(Placed::Text(text)) => Text::OneOf(vec![text.clone()]),
            Some(Placed::Either(one, other)) => Text::Late(vec![one.clone(), other.clone()]),
            Some(Placed::Lazy(text)) => Text::Late(vec![text.clone()]),
            Some(Placed::Unended(_)) => Text::Unreadable,
            Some(Placed::Bytes(_)) => Text::Any,
            None if self.context.encoded.is_nothing(address) => Text::Unreadable,
            None => {
                let looked = self.looked.and_then(|it| it.texts[index].clone());
                looked.map_or(Text::Any, |text| {
                    Text::OneOf(vec![String::from_utf8_lossy(&text).into_owned()])
                })
            }
        }
    }

    fn bytes(&self, address: u64) -> Option<&[u8]> {
        match self.context.encoded.at(address) {
            Some(Placed::Bytes(bytes)) => Some(bytes),
            _ => None,
        }
    }

    /// A name as the rules are asked about it, as far as it is known: whole, and without what is no step.
    fn name(&self, index: usize, base: Option<usize>) -> Option<String> {
        let text = match self.text(index) {
            Text::OneOf(texts) if texts.len() == 1 => texts[0].clone(),
            _ => return None,
        };
        if text.is_empty() || text.len() >= LONGEST {
            return None;
        }
        if text.starts_with('/') && !self.is_in_root() {
            return Some(normal(&text));
        }
        Some(normal(&format!("{}/{text}", self.base(base)?)))
    }

    /// True when a name, as it is written, leads back from another one.
    fn steps_back(&self, index: usize) -> bool {
        match self.text(index) {
            Text::OneOf(texts) => texts.iter().any(|text| steps_back(text)),
            _ => false,
        }
    }

    /// The directory that a name begins at.
    fn base(&self, base: Option<usize>) -> Option<String> {
        if let Some(looked) = self.looked {
            let base = looked.bases[base.unwrap_or(5)].as_ref()?;
            let base = base.to_string_lossy();
            return (base.starts_with('/') && !base.ends_with(" (deleted)"))
                .then(|| base.into_owned());
        }
        let descriptor = base.map_or(libc::AT_FDCWD, |base| int(self.args[base]));
        (descriptor == libc::AT_FDCWD && self.context.stays).then(|| "/workspace".to_owned())
    }

    /// Of openat2(2): whether every name begins at the directory.
    fn is_in_root(&self) -> bool {
        const RESOLVE_IN_ROOT: u64 = 0x10;
        let how = (self.seen.number == 437).then(|| self.bytes(self.args[2]));
        let resolve = how.flatten().and_then(|how| long_at(how, 16));
        resolve.is_some_and(|resolve| resolve & RESOLVE_IN_ROOT != 0)
    }

    /// The act that the rules are asked about.
    fn act(&self, access: &[&'static str]) -> Act<'static> {
        const REFUSED: [i64; 3] = [EPERM, EACCES, EROFS];
        let object = self.shape.object;
        Act {
            access: access.to_vec(),
            objects: vec![object.and_then(|(index, base)| self.name(index, base))],
            new: self.shape.new.map(|(index, base)| self.name(index, base)),
            is_attempt: self.result >= 0 || REFUSED.contains(&self.result),
            is_done: self.result >= 0,
            steps_back: [self.shape.object, self.shape.new]
                .into_iter()
                .flatten()
                .any(|(index, _)| self.steps_back(index)),
            moves: self.looked.and_then(|looked| looked.moves),
            carries: self.looked.and_then(|looked| looked.carries) != Some(false),
            detours: self.looked.and_then(|looked| looked.detours) != Some(false),
            ..Act::default()
        }
    }

    /// An event about a path.
    fn named(&self, kind: &'static str, access: &[&'static str]) -> Expected {
        let argument = self.shape.object.map(|(index, _)| self.text(index));
        Expected {
            argument: argument.unwrap_or(Text::Any),
            access: (kind != "exec_attempt").then(|| access.to_vec()),
            act: (kind != "exec_attempt").then(|| self.act(access)),
            ..Expected::of(kind, self.seen)
        }
    }

    fn exec_attempt(&self) -> Expected {
        let mut expected = self.named("exec_attempt", &["execute"]);
        // The descriptor's file is the object then, if there is no text.
        if self.seen.number == 322 && self.args[4] & 0x1000 != 0 {
            let is_empty = expected.argument == Text::OneOf(vec![String::new()]);
            let base = self.looked.and_then(|it| it.bases[0].as_ref());
            let base = base.map(|base| base.to_string_lossy().into_owned());
            let base = base.filter(|base| base.starts_with('/') && !base.ends_with(" (deleted)"));
            expected.argument = match base {
                // Somebody else of the same descriptors may have closed it at once.
                _ if self.context.shares && self.result == EBADF => Text::Any,
                Some(base) if is_empty && int(self.args[0]) != libc::AT_FDCWD => {
                    Text::OneOf(vec![base])
                }
                _ => Text::Any,
            };
        }
        expected
    }

    /// The image that runs, as who stopped it sees it.
    fn exec(&self) -> Expected {
        let mut expected = Expected::of("exec", self.seen);
        let Some(image) = self.looked.and_then(|it| it.image.as_ref()) else {
            return expected;
        };
        let exe = image.exe.to_string_lossy();
        let path = exe.strip_suffix(" (deleted)");
        expected.fields = vec![
            ("/exe/path", json!(path.unwrap_or(&exe))),
            ("/exe/unlinked", json!(path.is_some())),
            ("/argv", json!(image.arguments)),
            ("/argv_truncated", json!(false)),
        ];
        if image.arguments.len() > 2 {
            expected.fields.push(("/script", json!(true)));
        }
        if let Some((device, inode)) = &image.file {
            expected.fields.push(("/exe/device", json!(device)));
            expected.fields.push(("/exe/inode", json!(inode)));
        }
        if self.seen.number == 59
            && let Text::OneOf(texts) = self.text(0)
        {
            expected.argument = Text::OneOf(texts);
        }
        expected
    }

    /// Told where a rule speaks of it; and, up to a number of them, in vain where the profile shows nothing.
    fn look(&self) -> Vec<Expected> {
        let expected = self.named("look", &["stat"]);
        let act = self.act(&["stat"]);
        let is_hidden = |name: &String| NOT_SHOWN.iter().any(|place| name.starts_with(place));
        let in_vain =
            self.seen.result == Some(ENOENT) && act.objects.iter().flatten().any(is_hidden);
        let decided = decide(&act);
        let is_late = self.shape.object.map(|(index, _)| self.text(index));
        let known = match is_late {
            _ if self.asked_to_write_in_vain() => Some(true),
            Some(Text::Unreadable) => Some(false),
            _ if decided.is_open => None,
            _ if decided.must.is_empty() && in_vain => None,
            _ => Some(!decided.must.is_empty()),
        };
        expected.when(known)
    }

    /// True for an access(2) that asked whether it may write, and may not.
    fn asked_to_write_in_vain(&self) -> bool {
        const W_OK: u64 = 2;
        let mode = match self.seen.number {
            21 => self.args[1],
            269 | 439 => self.args[2],
            _ => return false,
        };
        let is_refused = matches!(self.seen.result, Some(EPERM | EACCES | EROFS));
        mode & W_OK != 0 && is_refused
    }

    fn open(&self) -> Expected {
        let flags = match self.seen.number {
            2 => Some(self.args[1]),
            85 => Some(0o1101),
            257 => Some(self.args[2]),
            _ => {
                let how = self.bytes(self.args[2]);
                how.and_then(|how| long_at(how, 0))
            }
        };
        let mut expected = self.named("open", &[]);
        let access = flags.map(|flags| accesses(int(flags)));
        expected.act = access.clone().map(|access| Act {
            is_open: true,
            may_be_gone: self.context.shares && self.result >= 0,
            ..self.act(&access)
        });
        if let (Some(act), Some(flags)) = (&mut expected.act, flags) {
            let flags = int(flags);
            let is_third = flags & libc::O_ACCMODE == libc::O_ACCMODE;
            if is_third && flags & libc::O_PATH == 0 {
                act.is_vague = true;
                act.access = vec!["read", "write"];
            }
        }
        expected.access = access;
        if self.result >= 0
            && let Some(object) = self.looked.and_then(|it| it.object.as_ref())
        {
            let path = object.to_string_lossy();
            let path = path.strip_suffix(" (deleted)").unwrap_or(&path);
            // What is in no directory has a name and no path.
            let path = path
                .strip_prefix("/memfd:")
                .map_or(path.to_owned(), |name| format!("memfd:{name}"));
            // A pipe has not even that, and is told by the argument.
            expected.path = match path.split_once(":[") {
                Some(("pipe", _)) => expected.argument.clone(),
                // The name of its protocol.
                Some(("socket", _)) => Text::Any,
                _ => Text::OneOf(vec![path]),
            };
        }
        expected
    }

    fn fork(&self, refused: Expected) -> Vec<Expected> {
        let flags = match self.seen.number {
            56 => self.args[0],
            57 => 17,
            58 => 0x4111,
            _ => return Vec::new(),
        };
        if self.result > 0 && flags & CLONE_THREAD == 0 {
            return vec![Expected {
                child: Some(self.result),
                result: None,
                ..Expected::of("fork", self.seen)
            }];
        }
        refused.when(Some(self.is_refusal() && flags & CLONE_NEW != 0))
    }

    fn is_refusal(&self) -> bool {
        [EPERM, EACCES, ENOSYS].contains(&self.result)
    }

    fn is_socket(&self) -> bool {
        matches!(self.seen.number, 41 | 53)
    }

    fn is_guarded(&self) -> bool {
        let is_setuid = matches!(self.seen.number, 105..=126);
        let of_all = self.seen.number == 62 && int(self.args[0]) == -1 && word(self.args[1]) != 0;
        self.is_refusal()
            || of_all
            || is_setuid && self.result == EINVAL
            || self.is_socket() && NO_SOCKET.contains(&self.result)
    }

    /// Whether a write may be a question to a name server: its number and its size are those of one, and some socket is connected there.
    fn may_ask_by_write(&self) -> bool {
        matches!(self.seen.number, 1 | 20) && (17..=512).contains(&self.result) && self.context.asks
    }

    fn signals_nobody(&self) -> bool {
        self.seen.number == 62
            && self.result == ESRCH
            && int(self.args[0]) > 0
            && word(self.args[1]) != 0
    }

    fn makes_device(&self) -> bool {
        let mode = match self.seen.number {
            133 => self.args[1],
            259 => self.args[2],
            _ => 0,
        };
        matches!(mode & 0o170_000, 0o020_000 | 0o060_000)
    }
}

fn long_at(bytes: &[u8], at: usize) -> Option<u64> {
    let word = bytes.get(at..at + 8)?;
    word.try_into().ok().map(u64::from_le_bytes)
}

/// Whether a result is an error for the program, and not the kernel's own word for doing it again.
fn is_error(result: i64) -> bool {
    (RESTARTS..0).contains(&result)
}
