//! Acts that rules know by their kind alone, where the kernel asks before them.

use turnkey_abi::{Record, kind};

use crate::actor;
use crate::automaton::{self, decide_kind};
use crate::emit::{self, Current};
use crate::read::{self, JailCell, offset};

const EPERM: u32 = 1;

/// Asks the rules about an act of a kind of [`turnkey_abi::syscalls::on`]; `false` refuses.
///
/// What may pass is told at the exit of the call, if it is worth telling.
#[inline(always)]
pub fn hook(jail: JailCell, who: Current, on: u8) -> bool {
    let Some(table) = emit::table(jail) else {
        return !jail.strict();
    };
    let role = actor::role(jail);
    let verdict = decide_kind(table, role, on);
    if !verdict.refuses() {
        return true;
    }
    if verdict.kills() {
        automaton::execute(jail, who.thread);
    }
    let regs = read::current_registers();
    let mut record = Record::ZERO;
    emit::begin(&mut record, kind::REFUSED, who);
    record.what = u16::from(on);
    record.errno = EPERM;
    record.detail = read::number(regs) as u32;
    record.args = read::arguments(regs);
    emit::finish_value(&mut record, jail, (verdict, role));
    emit::left(jail, read::mark_told(jail, who.thread));
    false
}

/// True when credentials are those of another user or group: `setuid(getuid())` is no attempt.
#[inline(always)]
pub fn changes_user(new: u64, old: u64) -> bool {
    // uid, gid, suid, sgid, euid, egid, fsuid, fsgid: one after the other in struct cred.
    let ids = |of: u64| read::kernel::<[u32; 8]>(of + u64::from(offset!(cred_uid)));
    ids(new) != ids(old)
}

/// True when credentials have a capability that they did not have.
#[inline(always)]
pub fn gains_capability(new: u64, old: u64) -> bool {
    let held = |of: u64| read::kernel::<u64>(of + u64::from(offset!(cred_cap_effective)));
    held(new) & !held(old) != 0
}
