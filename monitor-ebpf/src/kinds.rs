//! Acts that rules know by their kind alone, where the kernel asks before them.

use turnkey_abi::syscalls::{class, on};
use turnkey_abi::{Record, action, kind};

use crate::actor;
use crate::automaton::{self, decide_kind};
use crate::class_of;
use crate::emit::{self, Current};
use crate::read::{self, JailCell, offset};

const EPERM: u32 = 1;

/// Asks the rules about an act of a kind of [`turnkey_abi::syscalls::on`]; `false` refuses.
///
/// What may pass is told at the exit of a call of that kind, if it is worth telling; and here in another call, of which the exit
/// knows nothing of it, as of read(2) in /proc.
#[inline(always)]
pub fn hook(jail: JailCell, who: Current, asked: u8) -> bool {
    let Some(table) = emit::table(jail) else {
        return !jail.strict();
    };
    let role = actor::role(jail);
    let verdict = decide_kind(table, role, asked);
    let refuses = verdict.refuses();
    let regs = read::current_registers();
    if !refuses && (verdict.action < action::LOG || tells_at_exit(class_of(regs), asked)) {
        return true;
    }
    if verdict.kills() {
        automaton::execute(jail, who.thread);
    }
    let mut record = Record::ZERO;
    emit::begin(&mut record, kind::REFUSED, who);
    record.what = u16::from(asked);
    record.errno = if refuses { EPERM } else { 0 };
    record.detail = read::number(regs) as u32;
    record.args = read::arguments(regs);
    emit::finish_value(&mut record, jail, (verdict, role));
    if refuses {
        emit::left(jail, read::mark_told(jail, who.thread));
    }
    !refuses
}

/// True for a call that is told at its exit when a rule speaks of this kind.
#[inline(always)]
fn tells_at_exit(call: u8, kind: u8) -> bool {
    call == class::WATCH + kind
        || kind == on::NAMESPACE && matches!(call, class::CLONE | class::CLONE3)
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
