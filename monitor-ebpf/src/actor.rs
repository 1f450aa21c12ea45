//! Actors: the role that a process has among the rules that name programs and scripts.
//!
//! The role follows from what the process executed last, and is settled there. It does not depend on what
//! the process can change afterwards, such as names, links, or the file that /proc says it executes.
//! Whatever is not known for certain comes to the role whose answers are the strongest.

use turnkey_abi::{ABSENT, Actor, Process, Table, fault, role};

use crate::automaton;
use crate::emit::{self, Current};
use crate::path::{self, Resolved};
use crate::read::{self, JailCell, Scratch, UNREADABLE, offset};
use crate::verifier::Forget;

const AT_FDCWD: i32 = -100;

/// The kind of no script.
pub const NO_SCRIPT: u32 = 0;
/// A script was started, and it is not known which one.
pub const LOST: u32 = u32::MAX;

/// The process of a task, which stays the same when another thread than the first one executes a program.
#[inline(always)]
pub fn process_of(task: u64) -> Process {
    let leader: u64 = read::kernel(task + u64::from(offset!(task_group_leader)));
    let start: u64 = read::kernel(leader + u64::from(offset!(task_start_boottime)));
    let id: u32 = read::kernel(leader + u64::from(offset!(task_tgid)));
    [start, u64::from(id)]
}

/// The `struct file` that a task executes.
#[inline(always)]
pub fn executed_by(task: u64) -> u64 {
    let memory: u64 = read::kernel(task + u64::from(offset!(task_mm)));
    read::kernel(memory + u64::from(offset!(mm_exe_file)))
}

/// The process that has made a task's process, or whoever has adopted that, by its first thread.
#[inline(always)]
pub fn parent_of(task: u64) -> u64 {
    let leader: u64 = read::kernel(task + u64::from(offset!(task_group_leader)));
    let parent: u64 = read::kernel(leader + u64::from(offset!(task_real_parent)));
    read::kernel(parent + u64::from(offset!(task_group_leader)))
}

/// The role of the current process.
#[inline(always)]
pub fn role(jail: JailCell) -> u32 {
    if !jail.has_roles() {
        return role::UNKNOWN;
    }
    let task = read::current_task();
    let own = read::actor(&process_of(task));
    if own.role() == role::UNKNOWN && !own.is_mixed() {
        inherited(task)
    } else {
        own.role()
    }
}

/// The current process is about to execute what its jail may have written, such as a plug-in or a library
/// that an environment variable names, or may yet write, as memory that is shared: from now on it is not known who acts.
#[inline(always)]
pub fn mix(jail: JailCell, task: u64) {
    if jail.has_roles() && !read::keep_actor(&process_of(task), Actor::mixed()) {
        emit::fault(jail);
    }
}

/// The role of a process whose making was not told. As long as it executes the very file that its parent
/// does, opened by the same exec, it has done so since it was made.
#[inline(always)]
fn inherited(task: u64) -> u32 {
    let parent = parent_of(task);
    let file = executed_by(task);
    if file == 0 || file != executed_by(parent) {
        return role::UNKNOWN;
    }
    let actor = read::actor(&process_of(parent)).child();
    if !actor.is_nobody() {
        // The parent may be gone when it is needed again. Nothing is lost without.
        read::keep_actor(&process_of(task), actor);
    }
    actor.role()
}

/// A new process has its parent's role, which is the current one; of a mixed one it has the memory.
#[inline(always)]
pub fn forked(scratch: &Scratch, jail: JailCell, child: u64) {
    if !jail.has_roles() || read::has(fault::FORKS) {
        return;
    }
    let mut actor = Actor::new(scratch.cursor.role);
    if actor.is_nobody() {
        actor = read::actor(&process_of(read::current_task())).child();
    }
    if !actor.is_nobody() {
        read::keep_actor(&process_of(child), actor);
    }
}

/// A process has ended.
#[inline(always)]
pub fn exited(jail: JailCell, task: u64) {
    if jail.has_roles() {
        read::forget_actor(&process_of(task));
    }
}

/// Before an exec: notes it when no other task can change the directory that a relative path starts from until
/// the exec is done.
#[inline(always)]
pub fn asks(jail: JailCell, who: Current) {
    let names_scripts = emit::table(jail).is_some_and(|table| table.script_count > 1);
    if !names_scripts {
        return;
    }
    let process = process_of(who.task);
    let actor = read::actor(&process);
    let thread = if is_alone(who.task) { who.thread } else { 0 };
    if actor.thread() != thread {
        read::keep_actor(&process, actor.alone(thread));
    }
}

/// True when no other task shares the task's working directory.
#[inline(always)]
fn is_alone(task: u64) -> bool {
    let users = offset!(fs_users);
    let fs: u64 = read::kernel(task + u64::from(offset!(task_fs)));
    users != ABSENT && read::kernel::<u32>(fs + u64::from(users)) == 1
}

/// The state of a process before it executes another program.
#[derive(Clone, Copy)]
pub struct Before {
    actor: Actor,
    /// True when the working directory is still what it was before the exec.
    pub steady: bool,
}

/// The state of the current process, which was the thread `thread` before.
#[inline(always)]
pub fn before(scratch: &mut Scratch, jail: JailCell, task: u64, thread: u32) -> Before {
    let mut actor = Actor::new(role::UNKNOWN);
    if jail.has_roles() {
        actor = read::actor(&process_of(task));
    }
    let actor = Actor(actor.0.forget(scratch));
    Before {
        actor,
        steady: actor.thread() == thread,
    }
}

impl Before {
    /// The role of the process that asked for the exec.
    #[inline(always)]
    pub fn caller(self) -> u32 {
        self.actor.caller()
    }

    /// The actor to keep until the exec is told.
    #[inline(always)]
    pub fn untold(self) -> Actor {
        self.actor.judged(self.actor.role())
    }
}

/// The kind of the script that was started, by the name of it that is in the first `length` bytes of [`Scratch::text`].
/// Ask before anything else is put into [`Scratch::path`].
#[inline(always)]
pub fn script(
    scratch: &mut Scratch,
    jail: JailCell,
    task: u64,
    (is_script, steady): (bool, bool),
    length: u32,
) -> u32 {
    let kind = match emit::table(jail) {
        Some(table) if is_script && table.script_count > 1 => {
            script_of(scratch, table, task, steady, length)
        }
        _ => NO_SCRIPT,
    };
    kind.forget(scratch)
}

#[inline(always)]
fn script_of(
    scratch: &mut Scratch,
    table: &'static Table,
    task: u64,
    steady: bool,
    length: u32,
) -> u32 {
    let relative = scratch.text[0] != b'/';
    if length == 0 || length == UNREADABLE || relative && !steady {
        return LOST;
    }
    let mut base = Resolved::EMPTY;
    if relative {
        base = path::resolve(scratch, path::base(task, AT_FDCWD));
    }
    if !base.is_whole() {
        return LOST;
    }
    let base = base.forget(scratch);
    let kind = automaton::kind_of_written(scratch, table, base, length);
    // What `..` leads to is another place behind a symlink.
    if scratch.cursor.stepped != 0 {
        return LOST;
    }
    kind
}

/// The current process executes the file whose path is in [`Scratch::path`] now. What `actor` knows besides
/// its role stays.
#[inline(always)]
pub fn executes(
    scratch: &mut Scratch,
    jail: JailCell,
    task: u64,
    exe: Resolved,
    (script, actor): (u32, Actor),
) {
    if !jail.has_roles() {
        return;
    }
    let Some(table) = emit::table(jail) else {
        return;
    };
    let mut role = role::UNKNOWN;
    if exe.is_whole() && script != LOST {
        let exe = automaton::kind_of_path(scratch, table, exe);
        role = automaton::role_of(table, exe, script);
    }
    let role = role.forget(scratch);
    if !read::keep_actor(&process_of(task), actor.in_role(role)) {
        emit::fault(jail);
    }
}
