//! What docs/events.md says has to be told of a call that was seen.

use serde_json::Value;

use crate::encode::{Encoded, Placed};
use crate::shape::{Class, Shape, shape};
use crate::stops::Looked;
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
}

const EPERM: i64 = -1;
const EACCES: i64 = -13;
const EINVAL: i64 = -22;
const ENOSYS: i64 = -38;
/// No such kind of socket: `EPROTONOSUPPORT`, `ESOCKTNOSUPPORT`, `EAFNOSUPPORT`.
const NO_SOCKET: [i64; 3] = [-93, -94, -97];
/// Of an argument: what is longer is cut.
const LONGEST: usize = 4095;
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
                vec![of_the_dead.optional()]
            }
            // Every program with threads asks for it; it is told when the flags ask for a namespace.
            _ if seen.number == CLONE3 => vec![by_filter(shape, refused).optional()],
            _ => vec![by_filter(shape, refused)],
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
    let refused = Expected {
        call: Some((seen.number, Some([args[0], args[1], args[2]]))),
        ..refused
    };
    match shape.class {
        Class::None => Vec::new(),
        Class::Open => vec![call.open()],
        Class::Exec if result == 0 => vec![Expected::of("exec", seen)],
        Class::Exec => vec![call.exec_attempt()],
        Class::Change(access) => vec![call.change(access)],
        Class::Make if call.makes_device() => refused.when(Some(call.is_refusal())),
        Class::Make => call.named("change", &["write"]).when(call.speaks_of("qk")),
        Class::Symlink => {
            let known = call.speaks_of("qk").filter(|speaks| *speaks);
            call.symlink().when(known)
        }
        Class::Attribute => call.change("chmod").when(call.is_about_access()),
        Class::Look => call.named("look", &["stat"]).when(call.speaks_of("s")),
        Class::Map => call.map(),
        // Without an address nothing is said of anybody.
        Class::Address(kind) => {
            let has_address = args[1] != 0 && word(args[2]) != 0;
            Expected::of(kind, seen).when(Some(has_address))
        }
        Class::Send => call.send(),
        Class::Listen => vec![Expected::of("listen", seen).optional()],
        Class::Fork => call.fork(refused),
        Class::Guarded => refused.when(Some(call.is_guarded())),
    }
}

/// What the filter answers is told by what it is about, or as a call that was refused.
fn by_filter(shape: Shape, refused: Expected) -> Expected {
    let also = match shape.class {
        Class::Open => "open",
        Class::Exec => "exec_attempt",
        Class::Change(_) | Class::Attribute => "change",
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
            Some(Placed::Unended) => Text::Unreadable,
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

    /// An event about a path.
    fn named(&self, kind: &'static str, access: &[&'static str]) -> Expected {
        let argument = self.shape.object.map(|(index, _)| self.text(index));
        Expected {
            argument: argument.unwrap_or(Text::Any),
            access: (kind != "exec_attempt").then(|| access.to_vec()),
            ..Expected::of(kind, self.seen)
        }
    }

    fn exec_attempt(&self) -> Expected {
        let mut expected = self.named("exec_attempt", &["execute"]);
        // The descriptor's file is the object then, if there is no text.
        if self.seen.number == 322 && self.args[4] & 0x1000 != 0 {
            expected.argument = Text::Any;
        }
        expected
    }

    fn change(&self, access: &'static str) -> Expected {
        let new = self.shape.new.map(|(index, _)| self.text(index));
        let mut expected = self.named("change", &[access]);
        // The descriptor's file, or what a symlink leads to, is the object then.
        if self.seen.number == 265 && self.args[4] & 0x1400 != 0 {
            expected.argument = Text::Any;
        }
        expected.to = new.unwrap_or(Text::Any);
        expected
    }

    /// What it leads to is told unless the whole is too long.
    fn symlink(&self) -> Expected {
        let to = match self.text(0) {
            Text::OneOf(texts) => Text::Late(texts),
            other => other,
        };
        Expected {
            to,
            ..self.named("change", &["write"])
        }
    }

    fn open(&self) -> Expected {
        let flags = match self.seen.number {
            2 => Some(self.args[1]),
            85 => Some(0o1101),
            257 => Some(self.args[2]),
            _ => {
                let how = self.bytes(self.args[2]).and_then(|how| how.get(..8));
                how.and_then(|flags| flags.try_into().ok())
                    .map(u64::from_le_bytes)
            }
        };
        let mut expected = self.named("open", &[]);
        expected.access = flags.map(|flags| accesses(int(flags)));
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

    fn map(&self) -> Vec<Expected> {
        const EXEC: u64 = 4;
        const ANONYMOUS: u64 = 0x20;
        let is_executable = match self.seen.number {
            30 => self.args[2] & 0o100_000 != 0,
            _ => self.args[2] & EXEC != 0,
        };
        if !is_executable {
            return Vec::new();
        }
        let is_anonymous = self.seen.number == 9 && self.args[3] & ANONYMOUS != 0;
        let is_segment = self.seen.number == 30;
        let is_told = (is_anonymous || is_segment) && self.result >= 0
            || self.result == EPERM
            || self.result == EACCES;
        let expected = Expected::of("map", self.seen);
        expected.when(is_told.then_some(true))
    }

    fn send(&self) -> Vec<Expected> {
        let (address, length) = match self.seen.number {
            44 => (Some(self.args[4]), Some(word(self.args[5]))),
            _ => match self.bytes(self.args[1]) {
                Some(message) => (long_at(message, 0), long_at(message, 8).map(word)),
                None => (None, None),
            },
        };
        // The kernel does not read the message of what is no socket, and its page may not be there.
        let is_read = self.seen.number == 44 || !NOT_READ.contains(&self.result);
        let has_address = match (address, length) {
            (Some(address), Some(length)) if is_read => Some(address != 0 && length != 0),
            _ => None,
        };
        let send = Expected::of("send", self.seen);
        let mut all = send.clone().when(has_address);
        if self.seen.number == 307 {
            all.extend(std::iter::repeat_n(send.optional(), 8));
        }
        let peer = address.and_then(|address| self.bytes(address));
        let is_question = match (peer, has_address) {
            (Some(peer), Some(true)) => {
                let port = peer.get(2..4) == Some(&[0, 53]);
                let family = peer.first().copied().unwrap_or_default();
                let enough = length.is_some_and(|it| it >= 16);
                let fits = matches!(family, 0 | 2) || family == 10;
                let is_socket = !NOT_READ.contains(&self.result);
                (!port || !fits || enough).then_some(port && fits && is_socket)
            }
            (_, Some(false)) => Some(false),
            _ => None,
        };
        all.extend(Expected::of("question", self.seen).when(is_question));
        all
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

    fn is_guarded(&self) -> bool {
        let is_setuid = matches!(self.seen.number, 105..=126);
        let is_socket = matches!(self.seen.number, 41 | 53);
        let of_all = self.seen.number == 62 && int(self.args[0]) == -1 && word(self.args[1]) != 0;
        self.is_refusal()
            || of_all
            || is_setuid && self.result == EINVAL
            || is_socket && NO_SOCKET.contains(&self.result)
    }

    fn makes_device(&self) -> bool {
        let mode = match self.seen.number {
            133 => self.args[1],
            259 => self.args[2],
            _ => 0,
        };
        matches!(mode & 0o170_000, 0o020_000 | 0o060_000)
    }

    fn is_about_access(&self) -> Option<bool> {
        let name = if matches!(self.seen.number, 463 | 466) {
            3
        } else {
            1
        };
        match self.text(name) {
            Text::OneOf(texts) => Some(texts[0].starts_with("system.posix_acl")),
            Text::Unreadable | Text::Late(_) | Text::Any => None,
        }
    }

    /// Whether a rule of the profile is about the path, by its first letter in the workspace; nothing when the
    /// path is not known.
    fn speaks_of(&self, letters: &str) -> Option<bool> {
        let (index, base) = self.shape.object?;
        let text = match self.text(index) {
            Text::OneOf(texts) if texts.len() == 1 => texts[0].clone(),
            Text::Late(texts) if texts.len() == 1 && self.result >= 0 => texts[0].clone(),
            Text::Unreadable => return Some(false),
            _ => return None,
        };
        if text.is_empty() {
            return None;
        }
        let base = base.map_or(libc::AT_FDCWD, |base| int(self.args[base]));
        let whole = match (text.starts_with('/'), base == libc::AT_FDCWD) {
            (true, _) => text.clone(),
            (false, true) if self.context.stays => format!("/workspace/{text}"),
            _ => return None,
        };
        let path = normal(&whole);
        // The shipped profile has rules about these.
        if path.starts_with("/etc/") {
            return None;
        }
        let (folder, name) = path.rsplit_once('/').unwrap_or_default();
        let begins = |name: &str| name.chars().next().is_some_and(|it| letters.contains(it));
        let is_forbidden = folder == "/workspace/kd" && !name.is_empty() && letters.contains('k');
        Some(folder == "/workspace" && begins(name) || is_forbidden)
    }
}

fn long_at(bytes: &[u8], at: usize) -> Option<u64> {
    let word = bytes.get(at..at + 8)?;
    word.try_into().ok().map(u64::from_le_bytes)
}

/// Without `.`, `..` and doubled slashes, by the letters.
fn normal(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.iter().map(|part| format!("/{part}")).collect()
}

/// What open(2) is asked for: `O_PATH` and the access mode 3 neither read nor write.
fn accesses(flags: i32) -> Vec<&'static str> {
    if flags & libc::O_PATH != 0 {
        return Vec::new();
    }
    let mode = flags & libc::O_ACCMODE;
    let reads = matches!(mode, libc::O_RDONLY | libc::O_RDWR);
    let makes = flags & (libc::O_CREAT | libc::O_TRUNC) != 0;
    let writes = matches!(mode, libc::O_WRONLY | libc::O_RDWR) || makes;
    let read = reads.then_some("read");
    read.into_iter().chain(writes.then_some("write")).collect()
}

/// What keeps an event from being the expected one; nothing when it is.
pub fn mismatch(expected: &Expected, told: &Value) -> Option<String> {
    let kind = told["kind"].as_str().unwrap_or_default();
    if !expected.kinds.contains(&kind) {
        return Some(format!("the kind is {kind}"));
    }
    if let Some(result) = expected.result
        && !is_errno(&told["errno"], result)
    {
        return Some(format!("the result is {result}, told {}", told["errno"]));
    }
    let raw = &told["raw"];
    let argument = raw["text"].as_str().or_else(|| told["path"].as_str());
    let is_unreadable = raw["unreadable"] == true;
    let is = |text: &String| match argument {
        // A text that is cut is told to be.
        Some(told) if raw["truncated"] == true => told.len() == LONGEST && text.starts_with(told),
        told => told == Some(text),
    };
    let fits = match &expected.argument {
        _ if kind == "refused" => true,
        Text::Any => true,
        // `compare` counts how often a text that was read is told as one that could not be.
        Text::OneOf(texts) | Text::Late(texts) => is_unreadable || texts.iter().any(is),
        Text::Unreadable => is_unreadable,
    };
    if !fits {
        return Some(format!("the argument is {:?}", expected.argument));
    }
    let differs = |text: &Text, key: &str| match text {
        // Both names may have been away together.
        Text::OneOf(_) if told[key].is_null() && is_unreadable => false,
        Text::OneOf(texts) => !told[key]
            .as_str()
            .is_some_and(|told| texts.iter().any(|text| is_cut(text, told))),
        Text::Unreadable => !told[key].is_null(),
        Text::Late(texts) => told[key]
            .as_str()
            .is_some_and(|told| !texts.iter().any(|text| is_cut(text, told))),
        Text::Any => false,
    };
    if differs(&expected.path, "path") {
        return Some(format!("the path is {:?}", expected.path));
    }
    if differs(&expected.to, "to") {
        return Some(format!("the new name is {:?}", expected.to));
    }
    // The flags of openat2(2) lie in memory, which may be away as its path is.
    if let Some(access) = &expected.access
        && kind != "refused"
        && !is_unreadable
    {
        let told: Vec<&str> = (told["access"].as_array().into_iter().flatten())
            .filter_map(Value::as_str)
            .collect();
        if told != *access {
            return Some(format!("the access is {access:?}"));
        }
    }
    if let Some(child) = expected.child
        && told["child"]["pid"].as_i64() != Some(child)
    {
        return Some(format!("the child is {child}"));
    }
    mismatched_call(expected, told)
}

fn mismatched_call(expected: &Expected, told: &Value) -> Option<String> {
    let (number, args) = expected.call?;
    let number = word(number.cast_unsigned());
    let name = turnkey_policy::syscalls::name(number);
    let name = name.map_or_else(|| format!("syscall {number}"), str::to_owned);
    if told["syscall"].as_str() != Some(&name) {
        return Some(format!("the call is {name}"));
    }
    let args = args?.map(|arg| Value::from(format!("{arg:#x}")));
    (told["args"] != Value::from(args.to_vec())).then(|| format!("the arguments are {args:?}"))
}

/// Whether a text is told, as much of it as a record holds.
fn is_cut(text: &str, told: &str) -> bool {
    text == told || told.len() == LONGEST && text.starts_with(told)
}

/// Whether a result is an error for the program, and not the kernel's own word for doing it again.
fn is_error(result: i64) -> bool {
    (-511..0).contains(&result)
}

/// Whether the errno that is told is that of a result.
fn is_errno(told: &Value, result: i64) -> bool {
    if !(-4095..0).contains(&result) {
        return told.is_null();
    }
    let number = i32::try_from(-result).unwrap_or_default();
    // linux/errno.h; nobody but the kernel sees them.
    let name = match number {
        512 => "ERESTARTSYS".to_owned(),
        513 => "ERESTARTNOINTR".to_owned(),
        514 => "ERESTARTNOHAND".to_owned(),
        516 => "ERESTART_RESTARTBLOCK".to_owned(),
        number => format!("{:?}", nix::errno::Errno::from_raw(number)),
    };
    let told = told.as_str().unwrap_or_default();
    told == name || told == format!("errno {number}")
}
