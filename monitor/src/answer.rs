//! What the kernel will say: a walk over the very table that the kernel walks.

use std::net::SocketAddr;

use turnkey_abi::{Table, column, role};
use turnkey_policy::{Access, Action, Actor, On};

use crate::compile::Rules;
use crate::identity::{self, FileId};
use crate::peers;
use crate::wire::on_code;

/// What the kernel knows of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known<'a> {
    /// Its path.
    pub path: &'a [u8],
    /// No directory has a name of it.
    pub nameless: bool,
    /// Which file it is.
    pub id: Option<FileId>,
}

impl<'a> Known<'a> {
    /// A file of which the path alone is known.
    #[must_use]
    pub const fn at(path: &'a [u8]) -> Self {
        Self {
            path,
            nameless: false,
            id: None,
        }
    }
}

/// The rules, as somebody meets them. Every answer is the rule's index and the action taken.
#[derive(Clone, Copy)]
pub struct Answers<'r> {
    table: &'r Table,
    /// Of who acts.
    role: usize,
}

impl Rules {
    /// What the kernel will say of what a process does that executes this; `None` is one of which nobody
    /// knows what. The path of a script is to be without `//`, `.` and `..`.
    #[must_use]
    pub fn to(&self, actor: Option<Actor<'_>>) -> Answers<'_> {
        Answers {
            table: &self.table,
            role: actor.map_or(role::UNKNOWN as usize, |actor| role_of(&self.table, actor)),
        }
    }

    /// Whether they ask who acts.
    #[must_use]
    pub fn have_roles(&self) -> bool {
        self.table.role_count > 1
    }
}

fn role_of(table: &Table, actor: Actor<'_>) -> usize {
    let kind = |path: &[u8], column: u32| {
        let row = first_row(table, table.actor_start, path);
        usize::from(table.rows[row][column as usize])
    };
    if table.role_count == 1 {
        return role::UNKNOWN as usize;
    }
    let script = actor.script.filter(|_| table.script_count > 1);
    let script = script.map_or(0, |script| kind(script, column::SCRIPT));
    usize::from(table.roles[kind(actor.exe, column::EXE)][script])
}

/// The first of the rows of the state that a path leads to.
fn first_row(table: &Table, start: u32, path: &[u8]) -> usize {
    let next = |state: usize, byte: &u8| {
        let class = usize::from(table.classes[usize::from(*byte)]);
        usize::from(table.transitions[state << table.shift | class])
    };
    let start = usize::try_from(start).unwrap_or(0);
    usize::from(table.accept[path.iter().fold(start, next)])
}

impl std::fmt::Debug for Answers<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = formatter.debug_struct("Answers");
        shown.field("role", &self.role).finish_non_exhaustive()
    }
}

impl Answers<'_> {
    /// To opening a file.
    #[must_use]
    pub fn open(self, file: Known<'_>, access: &[Access]) -> Option<(usize, Action)> {
        self.file(file, column_of(access)?)
    }

    /// To executing a file.
    #[must_use]
    pub fn exec(self, file: Known<'_>) -> Option<(usize, Action)> {
        self.file(file, column::EXEC)
    }

    /// To opening or executing a file of which it cannot tell the path.
    #[must_use]
    pub fn unknown(self, on: On, access: &[Access]) -> Option<(usize, Action)> {
        let column = match on {
            On::Exec => column::EXEC,
            _ => column_of(access)?,
        };
        self.decided(self.table.unknown[self.role][usize::try_from(column).ok()?])
    }

    /// To making memory executable: that holds a file, or with `None` one that no file of the tree holds.
    #[must_use]
    pub fn map(self, file: Option<Known<'_>>) -> Option<(usize, Action)> {
        match file {
            Some(file) => self.file(file, column::MAP),
            None => self.kind(On::Map),
        }
    }

    /// To a look at a path, of which nothing but the name is known.
    #[must_use]
    pub fn look(self, path: &[u8]) -> Option<(usize, Action)> {
        self.file(Known::at(path), column::STAT)
    }

    /// To an attempt of which its kind alone is known.
    #[must_use]
    pub fn kind(self, on: On) -> Option<(usize, Action)> {
        self.decided(self.table.on[self.role][usize::from(on_code(on))])
    }

    /// To an attempt of a kind that has an address. `to_itself`: the jail has a loopback of its own, and
    /// this is there.
    #[must_use]
    pub fn peer(self, on: On, peer: SocketAddr, to_itself: bool) -> Option<(usize, Action)> {
        let role = u32::try_from(self.role).ok()?;
        self.decided(peers::rule_of(self.table, role, (on, peer), to_itself))
    }

    fn file(self, file: Known<'_>, column: u32) -> Option<(usize, Action)> {
        let table = self.table;
        let by_file = file.id.map_or(0, |id| {
            identity::rule_of(table, id, usize::try_from(column).unwrap_or(usize::MAX))
        });
        let asked = if file.nameless {
            column::nameless(column)
        } else {
            column
        };
        let row = first_row(table, table.start, file.path) + self.role;
        let by_path = table.rows[row][usize::try_from(asked).ok()?];
        let strength = |rule: u16| table.strengths[usize::from(rule)];
        self.decided(if strength(by_file) > strength(by_path) {
            by_file
        } else {
            by_path
        })
    }

    /// What a rule of the table comes to: its index and the action taken.
    fn decided(self, rule: u16) -> Option<(usize, Action)> {
        let index = usize::from(rule).checked_sub(1)?;
        let action = self.table.actions[usize::from(rule)];
        Some((index, crate::wire::action(u16::from(action))?))
    }
}

/// The column for a way of opening.
fn column_of(access: &[Access]) -> Option<u32> {
    let (reads, writes) = (
        access.contains(&Access::Read),
        access.contains(&Access::Write),
    );
    match (reads, writes) {
        (true, true) => Some(column::BOTH),
        (true, false) => Some(column::READ),
        (false, true) => Some(column::WRITE),
        (false, false) => None,
    }
}
