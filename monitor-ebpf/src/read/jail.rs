//! The state of a jail, which all programs on all CPUs share.

#![expect(
    unsafe_code,
    reason = "the state of jails is written by programs on all CPUs at once"
)]

use crate::verifier;
use turnkey_abi::count::SLOTS;
use turnkey_abi::syscalls::COUNT;
use turnkey_abi::{ENDS, FILTERED_WORDS, Jail, Outsider, hooks, sockets};

/// Adds to a number that other CPUs add to as well; what it was before.
///
/// Written as an instruction: the compiler offers no read-modify-write on this target.
#[inline(always)]
pub(super) fn fetch_add(number: *mut u64, addend: u64) -> u64 {
    let mut value = addend;
    // SAFETY: callers pass the address of an aligned field of a value of the map of jails.
    unsafe {
        core::arch::asm!(
            "{value} = atomic_fetch_add((u64 *)({number} + 0), {value})",
            value = inout(reg) value,
            number = in(reg) number,
            options(nostack),
        );
    }
    value
}

/// Writes a number that other CPUs write as well; what it was before.
#[inline(always)]
fn exchange(number: *mut u64, new: u64) -> u64 {
    let mut value = new;
    // SAFETY: callers pass the address of an aligned field of a value of the map of jails.
    unsafe {
        core::arch::asm!(
            "{value} = xchg_64({number} + 0, {value})",
            value = inout(reg) value,
            number = in(reg) number,
            options(nostack),
        );
    }
    value
}

/// A jail's state, shared with every other CPU.
#[derive(Clone, Copy)]
pub struct JailCell(*mut Jail);

/// One word of a jail's state. Loads and stores of an aligned word are whole on every CPU
/// that BPF runs on, and nothing here needs an order between two of them.
#[derive(Clone, Copy)]
pub struct Word(*mut u32);

impl Word {
    #[inline(always)]
    pub fn get(self) -> u32 {
        // SAFETY: the pointer comes from the map of jails, whose values outlive every program.
        unsafe { self.0.read_volatile() }
    }

    #[inline(always)]
    pub fn set(self, value: u32) {
        // SAFETY: as in `get`.
        unsafe { self.0.write_volatile(value) };
    }
}

/// Names a word of a jail's state.
macro_rules! word {
    ($cell:expr, $($field:tt)+) => {
        // SAFETY: the pointer comes from the map of jails; only the address of a field is taken.
        Word(unsafe { &raw mut (*$cell.0).$($field)+ })
    };
}

impl JailCell {
    /// The cell of a value of the map of jails, which outlives every program.
    #[inline(always)]
    pub fn at(value: *mut Jail) -> Self {
        Self(value)
    }

    /// The value itself, for a function of [`global`](crate::verifier::global).
    #[inline(always)]
    pub fn memory(self) -> &'static mut Jail {
        // SAFETY: it outlives every program, and nobody makes more of the reference than an address.
        unsafe { &mut *self.0 }
    }

    #[inline(always)]
    pub fn condemned(self) -> Word {
        word!(self, condemned)
    }

    #[inline(always)]
    pub fn condemned_thread(self) -> Word {
        word!(self, condemned_thread)
    }

    #[inline(always)]
    pub fn kill_on_loss(self) -> bool {
        word!(self, kill_on_loss).get() != 0
    }

    #[inline(always)]
    pub fn strict(self) -> bool {
        word!(self, strict).get() != 0
    }

    #[inline(always)]
    pub fn started(self) -> Word {
        word!(self, started)
    }

    #[inline(always)]
    pub fn slot(self) -> u32 {
        word!(self, slot).get()
    }

    /// The cookie of the network namespace that turnkey is in; 0: not known. Written before anything runs.
    #[inline(always)]
    pub fn outside(self) -> u64 {
        // SAFETY: as in `Word::get`.
        unsafe { (&raw const (*self.0).outside).read_volatile() }
    }

    /// True when rules name actors.
    #[inline(always)]
    pub fn has_roles(self) -> bool {
        word!(self, has_roles).get() != 0
    }

    /// True when some rule speaks of looks.
    #[inline(always)]
    pub fn asks_of_looks(self) -> bool {
        word!(self, asks_of_looks).get() != 0
    }

    /// The rule that tells of looks in vain, plus one.
    #[inline(always)]
    pub fn advisory(self) -> u32 {
        word!(self, advisory).get()
    }

    /// The number of looks in vain that are still told of. Two CPUs that take one at once may tell of one more.
    #[inline(always)]
    pub fn advice_left(self) -> Word {
        word!(self, advice_left)
    }

    /// 1 since a task has begun to make a symlink, or from the beginning, or else 0.
    #[inline(always)]
    pub fn aliased(self) -> Word {
        word!(self, aliased)
    }

    /// 1 since a task has begun to make a symlink that leads from its own directory, or else 0.
    #[inline(always)]
    pub fn relative(self) -> Word {
        word!(self, relative)
    }

    /// 1 since a task has begun to make a symlink that may lead out of its own directory, or else 0.
    #[inline(always)]
    pub fn climbing(self) -> Word {
        word!(self, climbing)
    }

    /// True when internet sockets bear their number.
    #[inline(always)]
    pub fn marks_sockets(self) -> bool {
        word!(self, sockets).get() & sockets::MARKED != 0
    }

    /// True when sockets may be made that no rule on addresses holds.
    #[inline(always)]
    pub fn has_unruled_sockets(self) -> bool {
        word!(self, sockets).get() & sockets::UNRULED != 0
    }

    #[inline(always)]
    pub fn is_canary(self) -> bool {
        word!(self, canary).get() != 0
    }

    #[inline(always)]
    pub fn network(self) -> u32 {
        word!(self, network).get()
    }

    /// Takes the number of the next record.
    #[inline(always)]
    pub fn next_seq(self) -> u64 {
        // SAFETY: the pointer comes from the map of jails.
        fetch_add(unsafe { &raw mut (*self.0).seq }, 1)
    }

    #[inline(always)]
    pub fn count_unreadable(self) {
        // SAFETY: the pointer comes from the map of jails.
        fetch_add(unsafe { &raw mut (*self.0).unreadable }, 1);
    }

    #[inline(always)]
    pub fn count_unresolved(self) {
        // SAFETY: the pointer comes from the map of jails.
        fetch_add(unsafe { &raw mut (*self.0).unresolved }, 1);
    }

    /// `slot` is that of [`turnkey_abi::count`].
    #[inline(always)]
    pub fn count_seen(self, slot: usize) {
        let slot = verifier::opaque(slot as u64) as usize % SLOTS;
        // SAFETY: the pointer comes from the map of jails.
        fetch_add(unsafe { &raw mut (*self.0).seen[slot] }, 1);
    }

    /// Counts a lost record, which told of `times` acts. `slot` is that of
    /// [`turnkey_abi::count`].
    #[inline(always)]
    pub fn count_lost(self, slot: usize, times: u64) {
        let slot = verifier::opaque(slot as u64) as usize % SLOTS;
        // SAFETY: the pointer comes from the map of jails.
        fetch_add(unsafe { &raw mut (*self.0).lost[slot] }, times);
        // SAFETY: as above.
        fetch_add(unsafe { &raw mut (*self.0).lost_records }, 1);
    }

    /// True for the first who tells the end of the process of this id that was made `start` nanoseconds after boot, and for none that
    /// does so at the same time.
    #[inline(always)]
    pub fn ends(self, process: u32, start: u64) -> bool {
        let slot = verifier::opaque(u64::from(process)) as usize % ENDS;
        // SAFETY: the pointer comes from the map of jails, and the slot is one of the array's.
        exchange(unsafe { &raw mut (*self.0).ended[slot] }, start) != start
    }

    /// The number of hooks that are at work for it.
    #[inline(always)]
    pub(super) fn working(self) -> *mut u64 {
        // SAFETY: the pointer comes from the map of jails; only the address of a field is taken.
        unsafe { &raw mut (*self.0).working }
    }

    #[inline(always)]
    pub fn count_fault(self) {
        // SAFETY: the pointer comes from the map of jails.
        fetch_add(unsafe { &raw mut (*self.0).faults }, 1);
    }

    /// Notes that a syscall is made, where that is asked for.
    #[inline(always)]
    pub fn note_call(self, nr: i32) {
        if word!(self, notes_calls).get() == 0 || self.started().get() == 0 {
            return;
        }
        let slot = verifier::opaque(u64::from(nr as u32)) as usize;
        if slot < COUNT {
            // SAFETY: the pointer comes from the map of jails, and the slot is one of the array's. A
            // byte is whole on every CPU, and every program writes the same to it.
            unsafe { (&raw mut (*self.0).called[slot % COUNT]).write_volatile(1) };
        }
    }

    /// True when the filter of system calls answers this number, so that the kernel never gets the call.
    #[inline(always)]
    pub fn filters(self, nr: i32) -> bool {
        let slot = verifier::apart(u64::from(nr as u32)) as usize;
        // SAFETY: the word is one of the array's, and it is not written while a jail is watched.
        let word = unsafe { (*self.0).filtered[slot / 64 % FILTERED_WORDS] };
        slot < COUNT && word >> (slot % 64) & 1 != 0
    }

    /// 1 when its tasks may have root directories of their own choice, or else 0.
    #[inline(always)]
    pub fn roams(self) -> u64 {
        // SAFETY: the pointer comes from the map of jails; user space wrote it before any program read it.
        unsafe { (&raw const (*self.0).roams).read_volatile() }
    }

    /// True when a hook may have left a mark for the end of a call.
    #[inline(always)]
    pub fn is_marked(self) -> bool {
        // SAFETY: the pointer comes from the map of jails; a word is whole on every CPU.
        unsafe { (&raw const (*self.0).marked).read_volatile() != 0 }
    }

    /// Lets the ends of calls look for what hooks have left.
    #[inline(always)]
    pub(super) fn set_marked(self) {
        // SAFETY: as in `is_marked`, and every program writes the same to it.
        unsafe { (&raw mut (*self.0).marked).write_volatile(1) };
    }

    /// Notes the first process that ended by a signal from outside.
    #[inline(always)]
    pub fn note_outsider(self, outsider: Outsider) {
        // SAFETY: the pointer comes from the map of jails. Two processes that end at once may both write: each is true.
        unsafe {
            let first = &raw mut (*self.0).outsider;
            if (&raw const (*first).signal).read_volatile() == 0 {
                first.write_volatile(outsider);
            }
        }
    }

    /// 1 when hooks are asked before acts on names and attributes, or else 0. Branch-free, so that the verifier does not fork
    /// states.
    #[inline(always)]
    pub fn hook_bit(self) -> u32 {
        const { assert!(hooks::NONE == 0 && hooks::SEEN == 1 && hooks::HEEDED == 2) };
        let hooks = word!(self, hooks).get();
        (hooks | hooks >> 1) & 1
    }

    /// True when hooks are asked before acts on names and attributes.
    #[inline(always)]
    pub fn has_hooks(self) -> bool {
        word!(self, hooks).get() != hooks::NONE
    }

    /// True when the kernel heeds what hooks answer.
    #[inline(always)]
    pub fn prevents(self) -> bool {
        word!(self, hooks).get() == hooks::HEEDED
    }
}
