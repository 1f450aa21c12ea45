//! Making and sending records.

use turnkey_abi::{PATH, Record, Table, count, flag, kind};

use crate::actor;
use crate::automaton::{self, Verdict};
use crate::path::{self, Resolved};
use crate::read::{self, JailCell, Message, Scratch, UNREADABLE, offset};
use crate::repeat;
use crate::verifier::{self, NOTHING, global};

/// The current task, as every program names it.
#[derive(Clone, Copy)]
pub struct Current {
    /// The address of its `task_struct`.
    pub task: u64,
    /// The task's thread id in the host's namespace.
    pub thread: u32,
    /// True when the record in the program's work memory names the task already.
    is_noted: bool,
}

/// The task that the program runs in.
#[inline(always)]
pub fn current() -> Current {
    let task = read::current_task();
    Current {
        task,
        thread: read::field(task, offset!(task_pid)),
        is_noted: false,
    }
}

/// The task that the program runs in, which [`note`] has noted.
#[inline(always)]
pub fn noted() -> Current {
    Current {
        is_noted: true,
        ..current()
    }
}

/// Writes the current task into the program's record, once for all that [`begin`] there.
///
/// For a program that runs all day: what the verifier has to look up for these loads takes it longer than
/// a call of [`read::kernel`] does, and the CPU a fraction of that.
#[inline(always)]
pub fn note(scratch: &mut Scratch) {
    global_note(scratch);
}

global!(global_note(scratch) {
    note_inline(scratch, current());
    NOTHING
});

/// [`note`], inlined into its global function.
#[inline(always)]
fn note_inline(scratch: &mut Scratch, who: Current) -> Current {
    scratch.cursor.due = 0;
    identify::<true>(&mut scratch.record, who);
    Current {
        is_noted: true,
        ..who
    }
}

/// A process id as seen in the innermost namespace that it has one in.
#[inline(always)]
pub fn innermost_id<const TYPED: bool>(task: u64) -> u32 {
    let pid: u64 = read::member::<u64, TYPED>(task, offset!(task_thread_pid));
    let level: u32 = read::member::<u32, TYPED>(pid, offset!(pid_level));
    let numbers = pid + u64::from(offset!(pid_numbers));
    // Namespaces are nested 32 deep at most. 6.1's verifier adds nothing without a bound to such a pointer.
    let level = verifier::opaque(u64::from(level)) & 63;
    let number = numbers + level * u64::from(offset!(upid_size));
    read::kernel(number + u64::from(offset!(upid_nr)))
}

/// Writes the process that a record is about. A field that cannot be read is zero.
#[inline(always)]
fn identify<const TYPED: bool>(record: &mut Record, who: Current) {
    let Current { task, thread, .. } = who;
    record.tid = thread;
    let comm = [0, 8].map(|at| read::field::<u64>(task, offset!(task_comm) + at));
    record.comm = read::bytes(comm);
    record.pid = read::field(task, offset!(task_tgid));
    let credentials: u64 = read::member::<u64, TYPED>(task, offset!(task_real_cred));
    record.uid = read::member::<u32, TYPED>(credentials, offset!(cred_uid));
    let leader: u64 = read::member::<u64, TYPED>(task, offset!(task_group_leader));
    record.start_ns = read::member::<u64, TYPED>(leader, offset!(task_start_boottime));
    record.jail_pid = innermost_id::<TYPED>(leader);
    let parent: u64 = read::member::<u64, TYPED>(leader, offset!(task_real_parent));
    record.parent_pid = read::member::<u32, TYPED>(parent, offset!(task_tgid));
}

/// The numbers that a task's process and the task itself have in the jail.
#[inline(always)]
pub fn own_numbers(task: u64) -> (u32, u32) {
    let leader: u64 = read::kernel(task + u64::from(offset!(task_group_leader)));
    (innermost_id::<false>(leader), innermost_id::<false>(task))
}

/// Zeroes the record, and writes its kind and its process.
#[inline(always)]
pub fn begin(record: &mut Record, kind: u16, who: Current) {
    if who.is_noted {
        read::clear_act(record);
    } else {
        read::clear(record);
        identify::<false>(record, who);
    }
    record.kind = kind;
    record.time_ns = read::now();
}

/// Writes which file a record is about, without its path.
#[inline(always)]
pub fn describe_file(scratch: &mut Scratch, file: u64) {
    describe_inode(
        scratch,
        read::kernel(file + u64::from(offset!(file_f_inode))),
    );
}

/// As [`describe_file`], by its inode.
#[inline(always)]
pub fn describe_inode(scratch: &mut Scratch, inode: u64) {
    read::head(scratch, inode);
    let links: u32 = read::of_head(scratch, inode, offset!(inode_i_nlink));
    let block: u64 = read::of_head(scratch, inode, offset!(inode_i_sb));
    let number = read::of_head(scratch, inode, offset!(inode_i_ino));
    let record = &mut scratch.record;
    record.inode = number;
    record.dev = read::kernel(block + u64::from(offset!(super_block_s_dev)));
    record.flags |= flag::FILE;
    if links == 0 {
        record.flags |= flag::UNLINKED;
    }
}

/// Resolves the path of a file into [`Scratch::path`].
#[inline(always)]
pub fn resolve_file(scratch: &mut Scratch, file: u64) -> Resolved {
    path::resolve(scratch, path::place_of(file))
}

/// Puts a resolved path behind the raw argument, and counts one that is not known.
#[inline(always)]
pub fn attach_path(scratch: &mut Scratch, jail: JailCell, path: Resolved) {
    if path.is_known() {
        let at = u32::from(scratch.record.raw_len);
        read::append_path(scratch, at, path.from, path.length);
        scratch.record.path_len = path.length as u16;
    }
    if !path.is_whole() {
        scratch.record.flags |= flag::PATH_TRUNCATED;
        jail.count_unresolved();
    }
}

/// Puts the directory that a relative argument starts from behind that argument.
#[inline(always)]
pub fn attach_base(scratch: &mut Scratch, base: Resolved) {
    if base.is_whole() && base.length != 0 {
        let at = u32::from(scratch.record.raw_len);
        read::append_path(scratch, at, base.from, base.length);
        scratch.record.path_len = base.length as u16;
        scratch.record.flags |= flag::BASE;
    }
}

/// Notes the length of the raw argument, and counts one that could not be read.
#[inline(always)]
pub fn note_raw(record: &mut Record, jail: JailCell, length: u32) {
    if length == UNREADABLE {
        record.flags |= flag::RAW_UNREADABLE;
        jail.count_unreadable();
    } else {
        record.raw_len = length as u16;
        if length as usize == PATH - 1 {
            record.flags |= flag::RAW_TRUNCATED;
        }
    }
}

/// Counts the act and tells of it, unless it only repeats the last one.
#[inline(always)]
pub fn finish(scratch: &mut Scratch, jail: JailCell, verdict: Verdict) {
    global_finish(scratch, jail.memory(), verdict.word());
}

global!(global_finish(scratch, *jail, verdict: u32) {
    finish_inline(scratch, jail, Verdict::of_word(verdict));
    NOTHING
});

/// [`finish`], inlined into its global function.
#[inline(always)]
fn finish_inline(scratch: &mut Scratch, jail: JailCell, verdict: Verdict) {
    let role = scratch.cursor.role;
    let record = &mut scratch.record;
    seal(record, jail, (verdict, role));
    let text = u32::from(record.raw_len) + u32::from(record.path_len) + u32::from(record.argv_len);
    if !repeat::absorbs(scratch, jail, text) {
        tell(scratch, jail, text);
    }
}

/// As [`finish`], when the program is done with the call: all that it may have to tell of is told in one
/// place by [`tell_due`], which the verifier so looks at once.
#[inline(always)]
pub fn conclude(scratch: &mut Scratch, jail: JailCell, who: Current, verdict: Verdict) {
    if who.is_noted {
        scratch.cursor.due = DUE | u64::from(verdict.word());
    } else {
        finish(scratch, jail, verdict);
    }
}

/// The bit that says that a verdict is to be told; the verdict is below it.
const DUE: u64 = 1 << 32;

/// Tells what was concluded since [`note`].
#[inline(always)]
pub fn tell_due(scratch: &mut Scratch, jail: JailCell) {
    let due = scratch.cursor.due;
    if due != 0 {
        finish(scratch, jail, Verdict::of_word(due as u32));
    }
}

/// As [`finish`], for a record with a fixed amount of text; with the role of the actor.
#[inline(always)]
pub fn finish_value<M: Message>(message: &mut M, jail: JailCell, decided: (Verdict, u32)) {
    seal(message.record(), jail, decided);
    let text = u32::from(message.record().raw_len);
    if repeat::absorbs(message, jail, text) {
        return;
    }
    message.record().seq = jail.next_seq();
    if !read::send_value(message, jail) {
        lost(message.record(), jail);
    }
}

/// As [`finish`], for an act that is never the same as the last one.
#[inline(always)]
pub fn finish_single(scratch: &mut Scratch, jail: JailCell, verdict: Verdict) {
    let role = scratch.cursor.role;
    let record = &mut scratch.record;
    seal(record, jail, (verdict, role));
    let text = u32::from(record.raw_len) + u32::from(record.path_len) + u32::from(record.argv_len);
    repeat::interrupt(jail, record.tid);
    tell(scratch, jail, text);
}

/// Gives the record its number and sends it.
#[inline(always)]
fn tell(scratch: &mut Scratch, jail: JailCell, text: u32) {
    scratch.record.seq = jail.next_seq();
    if !read::send(scratch, jail, text) {
        lost(&scratch.record, jail);
    }
}

/// Counts a record that found no room, and condemns the jail where the policy says so: user space
/// need not read the count for that.
#[inline(always)]
pub fn lost(record: &Record, jail: JailCell) {
    let slot = count::slot(record.kind, record.what);
    jail.count_lost(slot, 1 + record.repeated);
    if jail.kill_on_loss() {
        automaton::condemn(jail);
    }
}

/// Counts an act that is not looked at as one whose record is lost: it has a number, and no event tells of it.
#[inline(always)]
pub fn unseen(jail: JailCell) {
    let _ = jail.next_seq();
    jail.count_lost(count::slot(kind::REFUSED, 0), 1);
    if jail.kill_on_loss() {
        automaton::condemn(jail);
    }
}

/// The rules of a jail. That there are none is a fault.
#[inline(always)]
pub fn table(jail: JailCell) -> Option<&'static Table> {
    let table = read::table(jail);
    if table.is_none() {
        fault(jail);
    }
    table
}

/// The work memory of a program. That there is none is a fault.
#[inline(always)]
pub fn scratch(jail: JailCell, program: u32) -> Option<&'static mut Scratch> {
    let scratch = read::scratch(program);
    if scratch.is_none() {
        fault(jail);
    }
    in_role(scratch, jail)
}

/// Work memory for a hook of BPF LSM, to be released. That there is none is a fault.
#[inline(always)]
pub fn claim(jail: JailCell) -> Option<&'static mut Scratch> {
    let scratch = read::claim(jail);
    if scratch.is_none() {
        fault(jail);
    }
    in_role(scratch, jail)
}

/// Notes the role of the current process: the rules answer by that.
#[inline(always)]
fn in_role(scratch: Option<&'static mut Scratch>, jail: JailCell) -> Option<&'static mut Scratch> {
    let scratch = scratch?;
    scratch.cursor.role = actor::role(jail);
    scratch.cursor.roams = jail.roams();
    scratch.cursor.trusted = 0;
    Some(scratch)
}

/// Counts a fault: a program could not do its work, and what was done here is not known.
#[inline(always)]
pub fn fault(jail: JailCell) {
    jail.count_fault();
    if jail.strict() {
        automaton::condemn(jail);
    }
}

/// A hook has told of a call, and leaves that for the end of it. That it cannot is a fault: the call is told twice.
#[inline(always)]
pub fn left(jail: JailCell, is_kept: bool) {
    if !is_kept {
        fault(jail);
    }
}

/// Writes the verdict and the flag of the actor's role, and counts the act.
#[inline(always)]
fn seal(record: &mut Record, jail: JailCell, (verdict, role): (Verdict, u32)) {
    record.rule = verdict.rule;
    record.action = verdict.action;
    record.flags |= flag::of_role(role);
    jail.count_seen(count::slot(record.kind, record.what));
}
