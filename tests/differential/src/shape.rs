//! What the arguments of calls mean, as the manual pages have it. Nothing here is turnkey's: what is told is held
//! against this.

/// Of one call: which arguments are what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// What is asked of it.
    pub class: Class,
    /// The argument that is a path, and the one that is the directory where that begins.
    pub object: Option<(usize, Option<usize>)>,
    /// The same of the other name.
    pub new: Option<(usize, Option<usize>)>,
    /// Whether a path begins in the working directory.
    pub starts_here: bool,
    /// Whether it answers with a descriptor of what it opened.
    pub gives_descriptor: bool,
}

/// Which kind of event tells of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// None, unless the filter refuses it.
    #[default]
    None,
    /// `open`
    Open,
    /// `exec`, `exec_attempt`
    Exec,
    /// `change`, with this access
    Change(&'static str),
    /// `change`, with the access `write`
    Make,
    /// The same of a symlink
    Symlink,
    /// `change`, of an attribute, or, when that is about who may what, of the mode
    Attribute,
    /// `change`, of an attribute
    Times,
    /// `look`, where a rule speaks of it
    Look,
    /// `map`
    Map,
    /// `connect`, `bind`
    Address(&'static str),
    /// `send`, `question`
    Send,
    /// `listen`
    Listen,
    /// `fork`
    Fork,
    /// `refused`, when it is
    Guarded,
}

impl Shape {
    /// The arguments that are texts.
    pub fn texts(self) -> impl Iterator<Item = usize> {
        self.object
            .into_iter()
            .chain(self.new)
            .map(|(text, _)| text)
    }

    /// The arguments that are directories.
    pub fn bases(self) -> impl Iterator<Item = usize> {
        let both = self.object.into_iter().chain(self.new);
        both.filter_map(|(_, base)| base)
    }
}

/// True when a call met a limit: of descriptors (`EMFILE`), of a file's size (`EFBIG`), or of room (`ENOSPC`).
pub fn meets_limit(result: i64) -> bool {
    [-24, -27, -28].contains(&result)
}

/// Of a call that is refused: the kind of attempt that docs/profile.md counts it to, and the rule of the profile.
pub fn refusal(
    number: i64,
    first: Option<u64>,
    result: i64,
) -> (Option<&'static str>, Option<&'static str>) {
    const EPERM: i64 = -1;
    /// `CLONE_NEW…` of linux/sched.h; unshare(2) takes other things apart, too.
    const NAMESPACES: u64 = 0x7e02_0080;
    match number {
        272 if first.is_some_and(|flags| flags & NAMESPACES == 0) => (None, None),
        101 | 310..=312 | 438 => (Some("ptrace"), Some("process-injection")),
        155 | 161 | 165 | 166 | 428..=433 | 442 => (Some("mount"), Some("mount")),
        105 | 106 | 113 | 114 | 116 | 117 | 119 | 122 | 123 | 126 => {
            (Some("setuid"), Some("change-of-user"))
        }
        56 | 272 | 308 | 435 => (Some("namespace"), Some("nested-namespace")),
        298 | 321 | 323 => (Some("bpf"), Some("kernel-instrument")),
        169 | 175 | 176 | 246 | 313 | 320 => (Some("module"), Some("kernel-module")),
        248..=250 => (Some("keyring"), Some("kernel-keyring")),
        425..=427 => (Some("io_uring"), None),
        // Of a kind that no hook guards; every resolver asks for a family that is not there.
        41 | 53 => (
            Some("connect"),
            (result == EPERM).then_some("network-connect"),
        ),
        304 => (Some("open"), None),
        62 | 129 | 200 | 234 | 297 | 424 => (Some("kill"), None),
        _ => (None, None),
    }
}

/// The table of x86_64, as far as something is told.
pub fn shape(number: i64) -> Shape {
    let of = |class| Shape {
        class,
        ..Shape::default()
    };
    let here = |class, at| Shape {
        object: Some((at, None)),
        starts_here: true,
        ..of(class)
    };
    let from = |class, base, at| Shape {
        object: Some((at, Some(base))),
        ..of(class)
    };
    let opens = |shape| Shape {
        gives_descriptor: true,
        ..shape
    };
    let (link, rename) = (Class::Change("link"), Class::Change("rename"));
    let (unlink, chmod) = (Class::Change("unlink"), Class::Change("chmod"));
    match number {
        2 | 85 => opens(here(Class::Open, 0)),
        257 | 437 => opens(from(Class::Open, 0, 1)),
        59 => here(Class::Exec, 0),
        322 => from(Class::Exec, 0, 1),
        86 => Shape {
            new: Some((1, None)),
            ..here(link, 0)
        },
        265 => Shape {
            new: Some((3, Some(2))),
            ..from(link, 0, 1)
        },
        82 => Shape {
            new: Some((1, None)),
            ..here(rename, 0)
        },
        264 | 316 => Shape {
            new: Some((3, Some(2))),
            ..from(rename, 0, 1)
        },
        84 | 87 => here(unlink, 0),
        263 => from(unlink, 0, 1),
        90 | 92 | 94 => here(chmod, 0),
        268 | 452 | 260 => from(chmod, 0, 1),
        91 | 93 => of(chmod),
        76 | 83 | 133 => here(Class::Make, 0),
        258 | 259 => from(Class::Make, 0, 1),
        88 => here(Class::Symlink, 1),
        266 => from(Class::Symlink, 1, 2),
        188 | 189 | 197 | 198 => here(Class::Attribute, 0),
        190 | 199 => of(Class::Attribute),
        463 | 466 => from(Class::Attribute, 0, 1),
        132 | 235 => here(Class::Times, 0),
        261 | 280 | 469 => from(Class::Times, 0, 1),
        4 | 6 | 21 | 89 | 137 | 191 | 192 | 194 | 195 => here(Class::Look, 0),
        262 | 267 | 269 | 332 | 439 | 464 | 465 | 468 => from(Class::Look, 0, 1),
        254 => here(Class::Look, 1),
        9 | 10 | 30 | 329 => of(Class::Map),
        42 => of(Class::Address("connect")),
        49 => of(Class::Address("bind")),
        44 | 46 | 307 => of(Class::Send),
        50 => of(Class::Listen),
        56 | 57 | 58 | 435 => of(Class::Fork),
        // What the filter refuses by arguments, and what only the kernel refuses: signals, limits, priorities, users,
        // sockets, and controls of descriptors, processes and terminals.
        16 | 41 | 53 | 62 | 105 | 106 | 113 | 114 | 116 | 117 | 119 | 122 | 123 | 126 | 129
        | 135 | 141 | 142 | 144 | 157 | 200 | 203 | 234 | 251 | 272 | 297 | 302 | 304 | 314
        | 424 => of(Class::Guarded),
        _ => Shape::default(),
    }
}
