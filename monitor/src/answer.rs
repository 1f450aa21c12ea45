//! The kernel's answers, predicted: a walk over the very table that the kernel walks.

use std::cmp::Reverse;
use std::net::SocketAddr;

use turnkey_abi::{Table, column, role};
use turnkey_policy::{ActorPaths, AttemptKind, OpenAccess, RuleAction};

use crate::compile::Rules;
use crate::identity::{self, FileId};
use crate::peers;
use crate::wire::on_code;

/// A file as the kernel's programs know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known<'a> {
    /// The file's path.
    pub path: &'a [u8],
    /// No directory has a name of it.
    pub nameless: bool,
    /// The file's device and inode.
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

/// Answers of the rules to an actor. Every answer is the rule's index and the action taken.
#[derive(Clone, Copy)]
pub struct Answers<'r> {
    table: &'r Table,
    /// The actor's role.
    role: usize,
}

impl Rules {
    /// Answers to the acts of a process that executes this; `None` is a process whose program is not known. The path of
    /// a script is to be without `//`, `.` and `..`.
    #[must_use]
    pub fn to(&self, actor: Option<ActorPaths<'_>>) -> Answers<'_> {
        Answers {
            table: &self.table,
            role: actor.map_or(role::UNKNOWN as usize, |actor| role_of(&self.table, actor)),
        }
    }

    /// True when the rules tell actors apart.
    #[must_use]
    pub fn have_roles(&self) -> bool {
        self.table.role_count > 1
    }
}

fn role_of(table: &Table, actor: ActorPaths<'_>) -> usize {
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
    usize::from(table.accept[state_of(table, start, path)])
}

/// The state that answers for a path where the kernel has found a file.
fn answering(table: &Table, path: &[u8]) -> usize {
    let state = state_of(table, table.start, path);
    let mut places = table.places.iter();
    let place = places.find(|place| place.holds(path));
    let own = place.map_or(0, |place| table.own[place.kind as usize][state]);
    match usize::from(own) {
        0 => state,
        own => own,
    }
}

/// The state that a path leads to.
pub(crate) fn state_of(table: &Table, start: u32, path: &[u8]) -> usize {
    let next = |state: usize, byte: &u8| {
        let class = usize::from(table.classes[usize::from(*byte)]);
        usize::from(table.transitions[state << table.shift | class])
    };
    let start = usize::try_from(start).unwrap_or(0);
    path.iter().fold(start, next)
}

impl std::fmt::Debug for Answers<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = formatter.debug_struct("Answers");
        shown.field("role", &self.role).finish_non_exhaustive()
    }
}

impl Answers<'_> {
    /// Answer to opening a file.
    #[must_use]
    pub fn open(self, file: Known<'_>, access: &[OpenAccess]) -> Option<(usize, RuleAction)> {
        self.file(file, column_of(access)?)
    }

    /// Answer to executing a file.
    #[must_use]
    pub fn exec(self, file: Known<'_>) -> Option<(usize, RuleAction)> {
        self.file(file, column::EXEC)
    }

    /// Answer to opening or executing a file of which it cannot tell the path.
    #[must_use]
    pub fn unknown(self, on: AttemptKind, access: &[OpenAccess]) -> Option<(usize, RuleAction)> {
        let column = match on {
            AttemptKind::Exec => column::EXEC,
            _ => column_of(access)?,
        };
        self.decided(self.table.unknown[self.role][usize::try_from(column).ok()?])
    }

    /// Answer to making memory executable: that holds a file, or with `None` one that no file of the tree holds.
    #[must_use]
    pub fn map(self, file: Option<Known<'_>>) -> Option<(usize, RuleAction)> {
        match file {
            Some(file) => self.file(file, column::MAP),
            None => self.kind(AttemptKind::Map),
        }
    }

    /// Answer to a look at a path, of which nothing but the name is known.
    #[must_use]
    pub fn look(self, path: &[u8]) -> Option<(usize, RuleAction)> {
        self.file(Known::at(path), column::STAT)
    }

    /// Answer to giving a file another name besides, whichever: this is its old one.
    #[must_use]
    pub fn link(self, file: Known<'_>) -> Option<(usize, RuleAction)> {
        self.strongest(named(file), [column::LINK, column::AWAY])
    }

    /// Answer to giving a file another name instead, whichever: this is its old one.
    #[must_use]
    pub fn rename(self, file: Known<'_>) -> Option<(usize, RuleAction)> {
        self.strongest(named(file), [column::RENAME, column::AWAY])
    }

    /// Answer to taking this name away from a file.
    #[must_use]
    pub fn unlink(self, file: Known<'_>) -> Option<(usize, RuleAction)> {
        self.strongest(named(file), [column::UNLINK, column::WRITE])
    }

    /// Answer to changing the mode or owner of a file.
    #[must_use]
    pub fn chmod(self, file: Known<'_>) -> Option<(usize, RuleAction)> {
        self.file(named(file), column::CHMOD)
    }

    /// Answer to a call with a kind of its own beside a wider one, on this path.
    #[must_use]
    pub fn own(self, on: AttemptKind, path: &[u8]) -> Option<(usize, RuleAction)> {
        let own = column::own(on_code(on));
        let wider = match on.counts_as() {
            AttemptKind::Open => [column::WRITE, column::WRITE],
            AttemptKind::Unlink => [column::UNLINK, column::WRITE],
            AttemptKind::Chmod => [column::CHMOD, column::CHMOD],
            _ => [column::ATTRIBUTE, column::ATTRIBUTE],
        };
        self.strongest(Known::at(path), [own, wider[0], wider[1]])
    }

    /// Answer to taking a file out from under this path: what reading, writing, executing and mapping it would be
    /// answered there.
    #[must_use]
    pub fn away(self, file: Known<'_>) -> Option<(usize, RuleAction)> {
        self.file(named(file), column::AWAY)
    }

    /// Answer to making all that may be in this directory lose its path.
    #[must_use]
    pub fn away_below(self, directory: &[u8]) -> Option<(usize, RuleAction)> {
        self.below(directory, column::AWAY)
    }

    /// Answer to giving another directory this path, with all that may be in it.
    #[must_use]
    pub fn made_below(self, directory: &[u8]) -> Option<(usize, RuleAction)> {
        self.below(directory, column::WRITE)
    }

    /// The kind of a directory: in two of one kind, whatever goes on from both paths is answered as strongly.
    #[must_use]
    pub fn inside(self, directory: &[u8]) -> u16 {
        self.table.inside[answering(self.table, directory)]
    }

    /// Answer to an attempt of which its kind alone is known.
    #[must_use]
    pub fn kind(self, on: AttemptKind) -> Option<(usize, RuleAction)> {
        self.decided(self.table.on[self.role][usize::from(on_code(on))])
    }

    /// Answer to an attempt of a kind that has an address. `to_itself`: the jail has a loopback of its own, and
    /// this is there.
    #[must_use]
    pub fn peer(
        self,
        on: AttemptKind,
        peer: SocketAddr,
        to_itself: bool,
    ) -> Option<(usize, RuleAction)> {
        let role = u32::try_from(self.role).ok()?;
        self.decided(peers::rule_of(self.table, role, (on, peer), to_itself))
    }

    fn below(self, directory: &[u8], column: u32) -> Option<(usize, RuleAction)> {
        let state = answering(self.table, directory);
        let row = usize::from(self.table.below[state]) + self.role;
        self.decided(self.table.rows[row][usize::try_from(column).ok()?])
    }

    fn file(self, file: Known<'_>, column: u32) -> Option<(usize, RuleAction)> {
        self.strongest(file, [column])
    }

    /// The strongest answer of these columns by path, the earlier rule of two; or that by the file itself, when
    /// it is stronger.
    fn strongest<const N: usize>(
        self,
        file: Known<'_>,
        columns: [u32; N],
    ) -> Option<(usize, RuleAction)> {
        let table = self.table;
        let strength = |rule: &u16| table.strengths[usize::from(*rule)];
        let stronger = |rule: &u16| (strength(rule), Reverse(*rule));
        let by_path = columns.map(|column| self.by_path(file, column));
        let by_path = by_path.into_iter().max_by_key(stronger)?;
        let by_file = columns.map(|column| self.by_file(file, column));
        let by_file = by_file.into_iter().max_by_key(stronger)?;
        self.decided(if strength(&by_file) > strength(&by_path) {
            by_file
        } else {
            by_path
        })
    }

    fn by_path(self, file: Known<'_>, column: u32) -> u16 {
        let asked = if file.nameless {
            column::nameless(column)
        } else {
            column
        };
        let row = usize::from(self.table.accept[answering(self.table, file.path)]) + self.role;
        self.table.rows[row][asked as usize]
    }

    fn by_file(self, file: Known<'_>, column: u32) -> u16 {
        let rule = |id| identity::rule_of(self.table, id, column as usize);
        file.id.map_or(0, rule)
    }

    /// The index of a rule of the table, and the action taken.
    fn decided(self, rule: u16) -> Option<(usize, RuleAction)> {
        let index = usize::from(rule).checked_sub(1)?;
        let action = self.table.actions[usize::from(rule)];
        Some((index, crate::wire::action(u16::from(action))?))
    }
}

/// As acts on names ask about it, which it has then.
fn named(file: Known<'_>) -> Known<'_> {
    Known {
        nameless: false,
        ..file
    }
}

/// The column for a way of opening.
fn column_of(access: &[OpenAccess]) -> Option<u32> {
    let (reads, writes) = (
        access.contains(&OpenAccess::Read),
        access.contains(&OpenAccess::Write),
    );
    match (reads, writes) {
        (true, true) => Some(column::BOTH),
        (true, false) => Some(column::READ),
        (false, true) => Some(column::WRITE),
        (false, false) => None,
    }
}
