//! Of calls that change names and attributes.

use super::{Expected, LONGEST, One, Placed, Text, word};

/// The beginning of the names of access control lists.
const LIST: &str = "system.posix_acl";

impl One<'_> {
    /// True when an empty path of a call means its descriptor, `AT_EMPTY_PATH`, and the path may be empty.
    fn may_mean_descriptor(&self) -> bool {
        let at = match self.seen.number {
            463 | 466 => 2,
            280 | 452 => 3,
            260 | 265 | 469 => 4,
            _ => return false,
        };
        let may_be_empty = match self.text(1) {
            Text::OneOf(texts) => texts.iter().any(String::is_empty),
            _ => true,
        };
        self.args[at] & 0x1000 != 0 && may_be_empty
    }

    pub(super) fn change(&self, access: &'static str) -> Expected {
        let new = self.shape.new.map(|(index, _)| self.text(index));
        let mut expected = self.named("change", &[access]);
        // What a symlink leads to is the object then, or a descriptor's file.
        let follows_link = self.seen.number == 265 && self.args[4] & 0x400 != 0;
        if follows_link || self.may_mean_descriptor() {
            expected.argument = Text::Any;
            expected.act = None;
        }
        if let Some(act) = &mut expected.act {
            act.exchanges = self.seen.number == 316 && word(self.args[4]) & 2 != 0;
        }
        // A path that leads to a descriptor by the list in /proc is followed: the descriptor's file is told.
        let follows = matches!(access, "chmod" | "chown" | "attribute") || self.seen.number == 76;
        let is_listed = |text: &String| text.starts_with("/proc/self/fd/");
        if let Text::OneOf(texts) | Text::Late(texts) = &expected.argument
            && follows
            && texts.iter().any(is_listed)
        {
            expected.argument = Text::Any;
            expected.act = None;
        }
        // utimensat(2) and its like without a path are about the descriptor.
        let is_bare = matches!(self.seen.number, 261 | 280 | 469) && self.args[1] == 0;
        if is_bare {
            expected.argument = Text::Any;
        }
        // Of a descriptor, the path is known to who stops the call.
        if is_bare || self.shape.object.is_none() {
            expected.act = None;
        }
        expected.to = new.unwrap_or(Text::Any);
        expected
    }

    /// The event of a symlink: its aim is told unless the whole is too long.
    pub(super) fn symlink(&self) -> Expected {
        let (to, aim) = match self.text(0) {
            Text::OneOf(texts) => (Text::Late(texts.clone()), texts.first().cloned()),
            other => (other, None),
        };
        let mut expected = Expected {
            to,
            ..self.named("change", &["write"])
        };
        match (&mut expected.act, aim) {
            (Some(act), Some(aim)) if aim.len() < LONGEST - 512 => act.aim = Some(aim),
            (act, _) => *act = None,
        }
        expected
    }

    /// An access control list is another way to change the mode. A name that cannot be read may be one.
    pub(super) fn attribute(&self) -> Vec<Expected> {
        let name = if matches!(self.seen.number, 463 | 466) {
            3
        } else {
            1
        };
        let is_list = match (self.context.encoded.at(self.args[name]), self.text(name)) {
            // Its beginning is enough.
            (Some(Placed::Unended(text)), _) if text.len() >= LIST.len() => text.starts_with(LIST),
            (_, Text::OneOf(texts)) => texts[0].starts_with(LIST),
            (_, Text::Unreadable) => true,
            (_, Text::Late(_) | Text::Any) => {
                let mut expected = self.change("attribute");
                (expected.access, expected.act) = (None, None);
                return vec![expected];
            }
        };
        vec![self.change(if is_list { "chmod" } else { "attribute" })]
    }
}
