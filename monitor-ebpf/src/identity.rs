//! The identity of a file, which rules know besides its path: whether it has a name at all, and its device and inode.

use turnkey_abi::{FILES, Table, column};

use crate::automaton::{self, Verdict};
use crate::read::{self, Scratch, Sought, offset};
use crate::verifier::{self, Forget, Step, global};

/// The column for a file, by whether any directory has a name of it. `inode` is the address of its
/// `struct inode`, or 0 where nothing is yet.
#[inline(always)]
pub fn column_of(scratch: &mut Scratch, inode: u64, column: u32) -> u32 {
    let links: u32 = read::kernel(inode + u64::from(offset!(inode_i_nlink)));
    let asked = if inode != 0 && links == 0 {
        column::nameless(column)
    } else {
        column
    };
    asked.forget(scratch)
}

/// The verdict by path, or that of a rule that knows the file itself, when it is stronger.
#[inline(always)]
pub fn or_by_file(
    scratch: &mut Scratch,
    table: &'static Table,
    inode: u64,
    column: u32,
    by_path: Verdict,
) -> Verdict {
    let mut verdict = by_path;
    if inode != 0 && table.file_count != 0 {
        let by_file = decide(scratch, table, inode, column);
        if strength(table, by_file) > strength(table, by_path) {
            verdict = by_file;
        }
    }
    // The verifier goes on from here once.
    verdict.forget(scratch)
}

/// The table's verdict on a file by itself.
#[inline(always)]
pub fn decide(scratch: &mut Scratch, table: &'static Table, inode: u64, column: u32) -> Verdict {
    let inode = inode.forget(scratch);
    Verdict::of_word(global_decide_by_file(scratch, table, inode, column))
}

global!(global_decide_by_file(scratch, &table, inode: u64, column: u32) {
    decide_inline(scratch, table, inode, column).word()
});

/// [`decide`], inlined into its global function.
#[inline(always)]
fn decide_inline(scratch: &mut Scratch, table: &Table, inode: u64, column: u32) -> Verdict {
    let block: u64 = read::kernel(inode + u64::from(offset!(inode_i_sb)));
    scratch.sought = Sought {
        inode: read::kernel(inode + u64::from(offset!(inode_i_ino))),
        dev: read::kernel(block + u64::from(offset!(super_block_s_dev))),
    };
    let at = place_of(scratch, table);
    let sought = &scratch.sought;
    let found = &table.files[at as usize % FILES];
    let is_it = found.inode == sought.inode && found.dev == sought.dev;
    let rule = if is_it {
        found.rules[automaton::index(column)]
    } else {
        0
    };
    automaton::verdict(table, rule.forget(scratch))
}

/// A search for the file's place among those of the table.
struct Search<'a> {
    scratch: &'a mut Scratch,
    table: &'a Table,
}

impl Step for Search<'_> {
    #[inline(always)]
    fn step(&mut self, round: u32) -> bool {
        let step = (FILES as u64 / 2) >> (round & 31);
        let at = self.scratch.cursor.place;
        let other = &self.table.files[verifier::opaque(at + step - 1) as usize % FILES];
        let sought = &self.scratch.sought;
        let in_front =
            other.inode < sought.inode || other.inode == sought.inode && other.dev < sought.dev;
        if in_front {
            self.scratch.cursor.place = at + step;
        }
        true
    }
}

/// Number of the table's files in front of this one.
#[inline(always)]
fn place_of(scratch: &mut Scratch, table: &Table) -> u64 {
    scratch.cursor.place = 0;
    let mut search = Search { scratch, table };
    verifier::repeat(FILES.ilog2(), &mut search);
    scratch.cursor.place
}

#[inline(always)]
fn strength(table: &Table, verdict: Verdict) -> u8 {
    table.strengths[verifier::opaque(u64::from(verdict.rule)) as usize % table.strengths.len()]
}
