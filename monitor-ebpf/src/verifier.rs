//! Tricks on the kernel's verifier: what it has to be told, or kept from knowing, so that it accepts these programs and is done soon.
//!
//! The verifier follows every way through a program with all that it knows of each value, up to a million instructions. It
//! stops where it comes to a state that it has seen; so what it knows beyond need costs time, and what the compiler has
//! proved but left out it does not know. These are the ways of this crate, and where each is named:
//!
//! - **A bound stays in the program.** The compiler drops a mask or a comparison that it has proved needless. A value that is
//!   [`opaque`] to it keeps them: `opaque(length) & (PATH - 1)` before each access to a buffer. Linux 6.1 knows less: it
//!   forgets a bound at a 32-bit `or`, and adds nothing unbounded to a pointer to a structure.
//! - **Ways that meet are one.** After a branch that changes no more than a value, [`Forget`] takes the value through map
//!   memory, and the verifier goes on once with any value instead of once with each.
//!   Where there is none that nobody else writes, [`unknown`] takes it through the stack.
//! - **No branch where arithmetic will do**, in what runs for each byte or each operand: `((at - words) >> 63) as u64` is a
//!   mask of all ones or none.
//! - **A part is looked at once**, whoever calls it and with what, where it is a [`global`] function. Of any other one the verifier follows
//!   every call.
//! - **A loop is looked at once.** [`repeat`] has bpf_loop(2) call the body. Its state lives in map memory
//!   (`Cursor` in `read.rs`): before Linux 6.7 the verifier believes of values on the stack that one round was all.
//! - **Two copies of one value are [`apart`]** where a check of the one would otherwise be noted for the other as well.
//! - **The loader's values are constants** to the verifier, which leaves out the code of the other case: statics that are read
//!   volatile (`LEVEL`, `OFFSETS`, `FAULTS` in `read.rs`), so that the compiler leaves both cases in.
//! - **A pointer that may be NULL is read as a number** (`nullable_argument` in `read/field.rs`): the verifier takes what a
//!   hook is handed for a pointer to something, and drops the code for NULL.
//! - **No undefined value is in a register**: reads that fail give zeros (`kernel`, `user` in `read.rs`), and structures that
//!   are moved have no `Option` in them.

#![expect(
    unsafe_code,
    reason = "instructions that mean something to the verifier alone, and loops of bpf_loop(2)"
)]

use core::ffi::c_void;
use core::mem::size_of;
use core::ops::{BitAnd, BitOr, Not};

use aya_ebpf::helpers::generated as helper;

/// Keeps the compiler from knowing what a value is, so that a bound check on it is not optimised
/// away: the verifier has not seen what the compiler has proved.
#[inline(always)]
pub fn opaque(mut value: u64) -> u64 {
    // A real instruction: line information without one fails to load.
    // SAFETY: the register is left as it is.
    unsafe { core::arch::asm!("{0} = {0}", inout(reg) value, options(pure, nomem, nostack)) };
    value
}

/// 1 for a number that is not 0, by arithmetic alone: the verifier follows no branch.
#[inline(always)]
pub fn is_some(number: impl Into<u64>) -> u64 {
    let number = number.into();
    is_negative(number | number.wrapping_neg())
}

/// The highest bit of a number. The compiler, which knows neither side of the shift, makes no comparison and branch of it.
#[inline(always)]
pub fn is_negative(number: u64) -> u64 {
    opaque(opaque(number) >> 63)
}

/// A truth that is worked out by arithmetic alone, 1 or 0. The verifier follows one way through any number of these, where `&&` and
/// `||` of `bool`s are ways of their own that double with each.
#[derive(Clone, Copy)]
pub struct Bit(u64);

impl Bit {
    /// False.
    pub const FALSE: Self = Self(0);

    /// True for two numbers that are the same.
    #[inline(always)]
    pub fn equal(one: impl Into<u64>, other: impl Into<u64>) -> Self {
        !Self::some(one.into() ^ other.into())
    }

    /// True for a number that is not 0.
    #[inline(always)]
    pub fn some(number: impl Into<u64>) -> Self {
        Self(is_some(number))
    }

    /// True where the first number is less than the second; both are below 2⁶³.
    #[inline(always)]
    pub fn less(one: impl Into<u64>, other: impl Into<u64>) -> Self {
        Self(is_negative(one.into().wrapping_sub(other.into())))
    }

    /// A truth from a branch: one way from here on.
    #[inline(always)]
    pub fn settled(is: bool) -> Self {
        Self(unknown(u64::from(is)) & 1)
    }

    /// The first number where this is true, else the second.
    #[inline(always)]
    pub fn either(self, first: u16, second: u16) -> u16 {
        let mask = opaque(self.0).wrapping_neg();
        (u64::from(second) ^ (u64::from(first ^ second) & mask)) as u16
    }

    /// For the branch at the end.
    #[inline(always)]
    pub fn is_true(self) -> bool {
        opaque(self.0) != 0
    }
}

impl From<Bit> for u64 {
    #[inline(always)]
    fn from(bit: Bit) -> u64 {
        bit.0
    }
}

impl BitAnd for Bit {
    type Output = Self;

    #[inline(always)]
    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl BitOr for Bit {
    type Output = Self;

    #[inline(always)]
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl Not for Bit {
    type Output = Self;

    #[inline(always)]
    fn not(self) -> Self {
        Self(opaque(self.0) ^ 1)
    }
}

/// The same value, of which the verifier does not know that it is: it notes nothing of one for the other.
#[inline(always)]
pub fn apart(mut value: u64) -> u64 {
    // SAFETY: the register is left as it is.
    unsafe { core::arch::asm!("{0} ^= 0", inout(reg) value, options(pure, nomem, nostack)) };
    value
}

/// The same value, of which the verifier knows nothing any more: a helper has written it, whatever it is.
#[inline(always)]
pub fn unknown(value: u64) -> u64 {
    let mut copy = 0_u64;
    // SAFETY: both are a word on the stack.
    unsafe {
        helper::bpf_probe_read_kernel(
            (&raw mut copy).cast(),
            size_of::<u64>() as u32,
            (&raw const value).cast(),
        );
        (&raw const copy).read_volatile()
    }
}

/// A value that the verifier can be made to know nothing of any more.
///
/// It follows every way that leads somewhere with another value; where ways meet again, values
/// that it has forgotten let it see that it was here before.
pub trait Forget {
    /// The same value, through a word of map memory.
    fn forget(self, memory: &mut impl Passage) -> Self;
}

/// Map memory with a word that values can pass through.
pub trait Passage {
    /// The address of that word, for the length of the borrow.
    fn passage(&mut self) -> *mut u64;
}

impl Forget for u64 {
    #[inline(always)]
    fn forget(self, memory: &mut impl Passage) -> Self {
        let passage = memory.passage();
        // SAFETY: the word is borrowed with the memory that it is in; volatile, so that the compiler does not shorten
        // the way through memory.
        unsafe {
            passage.write_volatile(self);
            passage.read_volatile()
        }
    }
}

macro_rules! forget_as_u64 {
    ($($number:ty)*) => {$(
        impl Forget for $number {
            #[inline(always)]
            fn forget(self, memory: &mut impl Passage) -> Self {
                (self as u64).forget(memory) as Self
            }
        }
    )*};
}

forget_as_u64!(u32 u16 u8 i32 i64);

impl Forget for bool {
    #[inline(always)]
    fn forget(self, memory: &mut impl Passage) -> Self {
        u64::from(self).forget(memory) != 0
    }
}

/// The body of a loop that [`repeat`] runs.
pub trait Step {
    /// One round; they are counted from 0. `false` ends it.
    fn step(&mut self, round: u32) -> bool;
}

/// Does `state.step()` until it ends, at most `times`. The verifier looks at one round only.
#[inline(always)]
pub fn repeat<S: Step>(times: u32, state: &mut S) {
    unsafe extern "C" fn round<S: Step>(index: u32, state: *mut c_void) -> i64 {
        // SAFETY: `repeat` hands over an exclusive borrow of an `S`, alive until bpf_loop returns.
        let state = unsafe { &mut *state.cast::<S>() };
        i64::from(!state.step(index))
    }
    let round: unsafe extern "C" fn(u32, *mut c_void) -> i64 = round::<S>;
    // SAFETY: the callback gets back the pointer given here, and only while this call lasts.
    unsafe { helper::bpf_loop(times, round as *mut c_void, (&raw mut *state).cast(), 0) };
}

/// The answer of a global function that has none to give, or was handed no memory.
pub const NOTHING: u32 = 0;

/// A global function of the work memory, and of a jail or its rules where it names them; the rest of its arguments are numbers.
///
/// It takes up to five arguments, each of which has to be of use. A pointer may be NULL for all that the verifier knows, and has to be one to
/// memory of a known size (`btf_prepare_func_args` of kernel/bpf/btf.c, since Linux 5.6; what makes a function global is a name of its own). Of what it
/// returns the type is known. Whatever else comes and goes is in the work memory. The task is always the current one: a pointer to it is no
/// number.
///
/// The stack of all functions that are at work at the same time is 512 bytes, each rounded up to 32 (`check_max_stack_depth` of
/// kernel/bpf/verifier.c, until Linux 6.13).
macro_rules! global {
    (
        $name:ident($scratch:ident $(, *$jail:ident)? $(, &$table:ident)? $(, $number:ident: $type:ty)*)
        $body:block
    ) => {
        #[expect(
            unsafe_code,
            reason = "a name of its own, and pointers that the verifier takes for NULL"
        )]
        #[unsafe(no_mangle)]
        #[inline(never)]
        extern "C" fn $name(
            $scratch: &mut Scratch,
            $($jail: &mut turnkey_abi::Jail,)?
            $($table: &'static turnkey_abi::Table,)?
            $($number: $type,)*
        ) -> u32 {
            let scratch: *mut Scratch = $crate::verifier::given!(&raw mut *$scratch);
            // SAFETY: the address is that of the reference, which nothing uses from here on.
            let $scratch = unsafe { &mut *scratch };
            $(let $jail = JailCell::at($crate::verifier::given!(&raw mut *$jail));)?
            $(
                let table: *const turnkey_abi::Table = $crate::verifier::given!(&raw const *$table);
                // SAFETY: the address is that of the reference.
                let $table: &'static turnkey_abi::Table = unsafe { &*table };
            )?
            $body
        }
    };
}

/// The address of an argument, which the compiler knows not to be NULL, and the verifier does not.
macro_rules! given {
    ($argument:expr) => {{
        let address = $crate::verifier::opaque($argument as u64);
        if address == 0 {
            return $crate::verifier::NOTHING;
        }
        address as *mut _
    }};
}

pub(crate) use {given, global};

/// Two numbers as one argument.
#[inline(always)]
pub fn two(high: u32, low: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

/// The numbers that [`two`] has put together.
#[inline(always)]
pub fn halves(both: u64) -> (u32, u32) {
    ((both >> 32) as u32, both as u32)
}
