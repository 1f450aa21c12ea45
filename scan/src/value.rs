//! The part of a value that the text of a script alone tells: constants, and where the rest comes from.

use std::rc::Rc;

/// Constants are folded up to this length, in bytes.
pub const LONGEST: usize = 64 * 1024;

/// Elements of a list are known up to this number.
pub const MOST: usize = 1024;

/// A variable that is assigned in many places is known by so many of its values.
const ALTERNATIVES: usize = 64;

/// The mark of a part that is not known, inside a text of which other parts are.
pub const HOLE: char = '\u{fffc}';

/// The sources that a value depends on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Origins(u16);

impl Origins {
    /// The content of a file.
    pub const FILE: Origins = Origins(1);
    /// Data that was received.
    pub const NETWORK: Origins = Origins(2);
    /// Variables of the environment.
    pub const ENVIRONMENT: Origins = Origins(4);
    /// Data that was decoded from a literal or a file.
    pub const DECODED: Origins = Origins(8);
    /// The time of day.
    pub const CLOCK: Origins = Origins(16);
    /// The content of a file that holds a secret.
    pub const SECRET: Origins = Origins(32);
    /// Data on the machine or its user.
    pub const MACHINE: Origins = Origins(64);
    /// A text that was put together from characters or in reverse, as nobody writes one who wants it read.
    pub const HIDDEN: Origins = Origins(128);
    /// Code objects without a text.
    pub const OPAQUE: Origins = Origins(256);
    /// The output of a program.
    pub const PROGRAM: Origins = Origins(512);

    /// True when it depends on any of these.
    pub fn any(self, of: Origins) -> bool {
        self.0 & of.0 != 0
    }

    /// The origins of two values.
    pub fn with(self, other: Origins) -> Origins {
        Origins(self.0 | other.0)
    }
}

/// An open file.
#[derive(Clone, Debug, PartialEq)]
pub struct Handle {
    /// The file's path.
    pub path: Value,
    /// True when it is open for writing.
    pub writes: bool,
}

/// A value.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Value {
    /// The constant, with [`HOLE`] for what is not known of it; bytes count as text.
    pub text: Option<Rc<str>>,
    /// The number, where it is one.
    pub number: Option<i64>,
    /// The sources that it depends on.
    pub origins: Origins,
    /// Elements of a list or a tuple, or the values that a variable may have.
    pub items: Option<Rc<[Value]>>,
    /// True when it is one of `items`.
    pub one_of: bool,
    /// The dotted name of a function, or of the call that made it.
    pub name: Option<Rc<str>>,
    /// The file that it is a handle of.
    pub handle: Option<Rc<Handle>>,
    /// The path or address that its content is from.
    pub source: Option<Rc<str>>,
    /// The way in which it was decoded.
    pub decoded: Option<Rc<str>>,
    /// True when it takes much memory.
    pub large: bool,
}

impl Value {
    /// A constant text. One that is too long is not known.
    pub fn text(text: &str) -> Value {
        let short = text.len() <= LONGEST;
        Value {
            text: short.then(|| text.into()),
            large: !short,
            ..Value::default()
        }
    }

    /// A number.
    pub fn number(number: i64) -> Value {
        Value {
            number: Some(number),
            ..Value::default()
        }
    }

    /// A thing that has a dotted name.
    pub fn named(name: &str) -> Value {
        Value {
            name: (name.len() <= 200).then(|| name.into()),
            ..Value::default()
        }
    }

    /// A list or a tuple.
    pub fn list(items: Vec<Value>) -> Value {
        Value {
            origins: items
                .iter()
                .fold(Origins::default(), |all, one| all.with(one.origins)),
            source: items.iter().find_map(|one| one.source.clone()),
            large: items.iter().any(|one| one.large),
            items: Some(items.into_iter().take(MOST).collect()),
            ..Value::default()
        }
    }

    /// Something that nothing is known of but its origin.
    pub fn from(origins: Origins) -> Value {
        Value {
            origins,
            ..Value::default()
        }
    }

    /// The text, as far as it is known.
    pub fn known(&self) -> Option<&str> {
        self.text.as_deref()
    }

    /// The text, when all of it is known.
    pub fn exact(&self) -> Option<&str> {
        self.known().filter(|text| !text.contains(HOLE))
    }

    /// The text, with a hole in place of what is not known.
    pub fn shown(&self) -> String {
        match (&self.text, self.number) {
            (Some(text), _) => text.to_string(),
            (None, Some(number)) => number.to_string(),
            (None, None) => HOLE.to_string(),
        }
    }

    /// Each value that it may be.
    pub fn each(&self) -> Vec<Value> {
        match (&self.items, self.one_of) {
            (Some(items), true) => items.to_vec(),
            _ => vec![self.clone()],
        }
    }

    /// The result of an unknown operation on it: no constant any more, and all of its origins.
    pub fn derived(&self) -> Value {
        Value {
            origins: self.origins,
            source: self.source.clone(),
            decoded: self.decoded.clone(),
            large: self.large,
            ..Value::default()
        }
    }

    /// The same with one more origin.
    pub fn also(mut self, origins: Origins) -> Value {
        self.origins = self.origins.with(origins);
        self
    }

    /// The same with the origins of another value.
    pub fn tainted(mut self, by: &Value) -> Value {
        self.origins = self.origins.with(by.origins);
        self.source = self.source.or_else(|| by.source.clone());
        self.decoded = self.decoded.or_else(|| by.decoded.clone());
        self.large |= by.large;
        self
    }

    /// An element of it.
    pub fn element(&self) -> Value {
        match &self.items {
            Some(items) if !self.one_of => Value {
                items: Some(items.clone()),
                one_of: true,
                text: items.first().and_then(|first| first.text.clone()),
                ..self.derived()
            },
            _ => self.derived(),
        }
    }

    /// One value of two: what a variable has that is assigned in two places.
    pub fn or(&self, other: &Value) -> Value {
        let is_nothing = |one: &Value| {
            one.text.is_none() && one.name.is_none() && one.handle.is_none() && one.items.is_none()
        };
        if is_nothing(self) {
            return other.clone().tainted(self);
        }
        if is_nothing(other) || (self.text.is_some() && self.text == other.text) {
            return self.clone().tainted(other);
        }
        if self.text.is_some() && other.text.is_some() {
            let mut all = self.each();
            all.extend(other.each());
            all.truncate(ALTERNATIVES);
            return Value {
                text: other.text.clone(),
                items: Some(all.into()),
                one_of: true,
                ..self.derived().tainted(other)
            };
        }
        other.clone().tainted(self)
    }
}
