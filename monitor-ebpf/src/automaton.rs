//! The rules' automaton, run over a path.

use turnkey_abi::{CELLS, KINDS, ON, ROLES, ROWS, STATES, Table, action, column, magic};

use crate::path::Resolved;
use crate::read::{self, JailCell, Scratch};
use crate::verifier::{self, Bit, Forget, Passage};

mod own;
mod walk;

use walk::{UNTIDY, walk_plain, walk_untidy, walk_written};

/// The rules' verdict on an act.
#[derive(Clone, Copy)]
pub struct Verdict {
    /// The deciding rule plus one, or 0.
    pub rule: u16,
    /// One of [`action`].
    pub action: u16,
}

impl Verdict {
    pub const NONE: Self = Self {
        rule: 0,
        action: action::NONE,
    };

    /// The stronger of two.
    #[inline(always)]
    pub fn or(self, other: Self) -> Self {
        let is_other = Bit::less(self.action, other.action);
        Self {
            rule: is_other.either(other.rule, self.rule),
            action: is_other.either(other.action, self.action),
        }
    }

    /// 1 when this one is stronger than another, or else 0. Branch-free, so that the verifier does not fork states.
    #[inline(always)]
    pub fn exceeds(self, other: Self) -> u64 {
        u64::from(other.action).wrapping_sub(u64::from(self.action)) >> 63
    }

    /// The same, of an act that is let through whatever the rule would have done.
    #[inline(always)]
    pub fn told(self) -> Self {
        Self {
            action: self.action.min(action::LOG),
            ..self
        }
    }

    /// True when the verdict forbids the act, which fails where a hook can refuse it.
    #[inline(always)]
    pub fn refuses(self) -> bool {
        self.action >= action::DENY
    }

    /// Both in one number.
    #[inline(always)]
    pub fn word(self) -> u32 {
        u32::from(self.action) << 16 | u32::from(self.rule)
    }

    /// The verdict of such a number.
    #[inline(always)]
    pub fn of_word(word: u32) -> Self {
        Self {
            rule: word as u16,
            action: (word >> 16) as u16,
        }
    }

    #[inline(always)]
    pub fn kills(self) -> bool {
        self.action == action::KILL
    }
}

impl Forget for Verdict {
    #[inline(always)]
    fn forget(self, memory: &mut impl Passage) -> Self {
        Self {
            rule: self.rule.forget(memory),
            action: self.action.forget(memory),
        }
    }
}

/// The rule plus one, with its action.
#[inline(always)]
pub fn verdict(table: &Table, rule: u16) -> Verdict {
    let action = table.actions[rule as usize % table.actions.len()];
    Verdict {
        rule,
        action: u16::from(action),
    }
}

/// Of two rules plus one, the one with the stronger action; the earlier, when both are as strong.
#[inline(always)]
pub fn stronger(table: &Table, one: u16, other: u16) -> u16 {
    let strength = |rule: u16| {
        table.strengths[verifier::opaque(u64::from(rule)) as usize % table.strengths.len()]
    };
    // The stronger above, the earlier below: the greater of the two is that of the one that decides.
    let weight = |rule: u16| (u64::from(strength(rule)) << 16) | u64::from(rule ^ u16::MAX);
    Bit::less(weight(one), weight(other)).either(other, one)
}

/// The table's verdict on a kind of attempt without a path, by an actor of this role.
#[inline(always)]
pub fn decide_kind(table: &Table, role: u32, on: u8) -> Verdict {
    let of_role = &table.on[verifier::opaque(u64::from(role)) as usize % ROLES];
    verdict(
        table,
        of_role[verifier::opaque(u64::from(on)) as usize % ON],
    )
}

/// True when any rule can decide in a column.
#[inline(always)]
pub fn speaks_of(table: &Table, column: u32) -> bool {
    (column as usize) < column::COUNT && table.columns & (1 << column) != 0
}

/// The table's verdict on a file whose path is not known.
#[inline(always)]
pub fn decide_unknown(scratch: &Scratch, table: &Table, column: u32) -> Verdict {
    let of_role = &table.unknown[verifier::opaque(u64::from(scratch.cursor.role)) as usize % ROLES];
    verdict(table, of_role[index(column)])
}

/// The table's verdict on a path that ends in a state.
#[inline(always)]
pub fn decide_state(scratch: &Scratch, table: &Table, state: u32, column: u32) -> Verdict {
    verdict(table, answer(table, state, scratch.cursor.role, column))
}

/// The table's verdict on all that may be below a path that ends in a state, when it is a directory.
#[inline(always)]
pub fn decide_below(scratch: &Scratch, table: &Table, state: u32, column: u32) -> Verdict {
    let first = table.below[verifier::opaque(u64::from(state)) as usize % STATES];
    verdict(
        table,
        answer_of_row(table, first, scratch.cursor.role, column),
    )
}

/// True when two paths have the same answers in every column.
#[inline(always)]
pub fn are_alike(table: &Table, one: u32, other: u32) -> bool {
    let first = |state: u32| table.accept[verifier::opaque(u64::from(state)) as usize % STATES];
    first(one) == first(other)
}

/// True when everything below one directory has the same answers as below another one.
#[inline(always)]
pub fn are_alike_inside(table: &Table, one: u32, other: u32) -> bool {
    let kind = |state: u32| table.inside[verifier::opaque(u64::from(state)) as usize % STATES];
    kind(one) == kind(other)
}

/// The entry of a state's row of this number in a column.
#[inline(always)]
fn answer(table: &Table, state: u32, row: u32, column: u32) -> u16 {
    answer_of_row(table, table.accept[state as usize % STATES], row, column)
}

#[inline(always)]
fn answer_of_row(table: &Table, first: u16, row: u32, column: u32) -> u16 {
    let row = verifier::opaque(u64::from(first) + u64::from(row)) as usize % ROWS;
    table.rows[row][index(column)]
}

/// The role of a program and a script of these kinds.
#[inline(always)]
pub fn role_of(table: &Table, exe: u32, script: u32) -> u32 {
    let of_exe = &table.roles[verifier::opaque(u64::from(exe)) as usize % KINDS];
    u32::from(of_exe[verifier::opaque(u64::from(script)) as usize % KINDS])
}

/// A column as an index. Opaque: the compiler knows the few columns that a caller has, and would
/// leave out the mask, which 6.1's verifier needs: it does not carry a bound of 32 bits over.
#[inline(always)]
pub fn index(column: u32) -> usize {
    verifier::opaque(u64::from(column)) as usize % column::COUNT
}

#[inline(always)]
fn next(table: &Table, state: u32, byte: u8) -> u32 {
    let class = u32::from(table.classes[usize::from(byte)]);
    // Opaque: 6.1's verifier forgets a bound at a 32-bit `or`, and the compiler, which knows that the
    // table is as large as that, would leave out the mask behind it.
    let cell = verifier::opaque(u64::from(state << (table.shift & 15) | class));
    u32::from(table.transitions[cell as usize % CELLS])
}

/// The state that answers for the path in [`Scratch::path`].
#[inline(always)]
pub fn state_of_path(scratch: &mut Scratch, table: &'static Table, path: Resolved) -> u32 {
    let state = walk_plain(scratch, table, table.start, (path.from, path.length));
    own::of_path(scratch, table, state, path)
}

/// The table's verdict on the path in [`Scratch::path`].
#[inline(always)]
pub fn decide_path(
    scratch: &mut Scratch,
    table: &'static Table,
    path: Resolved,
    column: u32,
) -> Verdict {
    let state = state_of_path(scratch, table, path);
    decide_state(scratch, table, state, column)
}

/// The set of patterns of programs that match the path in [`Scratch::path`].
#[inline(always)]
pub fn kind_of_path(scratch: &mut Scratch, table: &'static Table, path: Resolved) -> u32 {
    let state = walk_plain(scratch, table, table.actor_start, (path.from, path.length));
    u32::from(answer(table, state, 0, column::EXE))
}

/// The state that answers for the first `length` bytes of [`Scratch::text`], a path as it was written. It continues
/// `base`, which is in [`Scratch::path`] and empty for an absolute one.
#[inline(always)]
pub fn state_of_written(
    scratch: &mut Scratch,
    table: &'static Table,
    jail: JailCell,
    base: Resolved,
    length: u32,
) -> u32 {
    let state = walk_written(scratch, table, table.start, base, length);
    own::of_written(scratch, table, jail, state, (base, length))
}

/// Counts in [`Cursor::stepped`] the `..` of a path as it was written, wherever it begins.
///
/// [`Cursor::stepped`]: read::Cursor::stepped
#[inline(always)]
pub fn count_steps(scratch: &mut Scratch, table: &'static Table, length: u32) {
    walk_untidy(scratch, table, table.start, (0, 0), length);
}

/// The table's verdict on a path as it was written, which continues `base`.
#[inline(always)]
pub fn decide_written(
    scratch: &mut Scratch,
    table: &'static Table,
    jail: JailCell,
    base: Resolved,
    (length, column): (u32, u32),
) -> Verdict {
    let state = state_of_written(scratch, table, jail, base, length);
    decide_state(scratch, table, state, column)
}

/// The set of patterns of scripts that match a path as it was written. [`Cursor::stepped`] tells of a `..` in it.
///
/// [`Cursor::stepped`]: read::Cursor::stepped
#[inline(always)]
pub fn kind_of_written(
    scratch: &mut Scratch,
    table: &'static Table,
    base: Resolved,
    length: u32,
) -> u32 {
    let state = walk_written(scratch, table, table.actor_start, base, length);
    u32::from(answer(table, state, 0, column::SCRIPT))
}

/// The end of a path as it was written by the kernel's own links: one of [`magic`]. It was walked over before, and a plain one
/// that begins elsewhere is not walked over again.
#[inline(always)]
pub fn magic_of_written(
    scratch: &mut Scratch,
    table: &'static Table,
    base: Resolved,
    length: u32,
) -> u32 {
    const PROC: u64 = u32::from_ne_bytes(*b"/pro") as u64;
    const DEV: u64 = u32::from_ne_bytes(*b"/dev") as u64;
    read::begin(scratch, base.from, u64::from(base.length == 0));
    let [first, _] = scratch.cursor.first;
    let begins = first & u64::from(u32::MAX);
    // Of the root, the text begins behind it.
    let is_plain = (scratch.cursor.slashes ^ UNTIDY).wrapping_mul((base.length ^ 1).into());
    // Of two numbers of half a word, so that it is 0 where one of them is.
    let elsewhere = (begins ^ PROC).wrapping_mul(begins ^ DEV);
    if verifier::opaque(is_plain) != 0 && verifier::opaque(elsewhere) != 0 {
        return magic::NONE;
    }
    let base = (base.from, base.length);
    let state = walk_untidy(scratch, table, table.magic_start.into(), base, length);
    u32::from(answer(table, state, 0, column::MAGIC))
}

/// Condemns the jail because `thread` broke a rule.
#[inline(always)]
pub fn condemn_for_rule(jail: JailCell, thread: u32) {
    if jail.condemned_thread().get() == 0 {
        jail.condemned_thread().set(thread);
    }
    condemn(jail);
}

/// Condemns the jail: from now on every hook of every task in it kills.
#[inline(always)]
pub fn condemn(jail: JailCell) {
    jail.condemned().set(1);
    if !jail.is_canary() {
        read::look_at_every_call();
    }
}

/// Condemns the jail and kills the current process. The signal acts when its syscall returns.
#[inline(always)]
pub fn execute(jail: JailCell, thread: u32) {
    condemn_for_rule(jail, thread);
    read::kill_current();
}
