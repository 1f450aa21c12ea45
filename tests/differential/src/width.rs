//! The part of a register that the kernel takes: as much as the argument's type has.

/// An `int`.
pub fn int(register: u64) -> i32 {
    word(register).cast_signed()
}

/// An `unsigned int`.
#[expect(clippy::cast_possible_truncation, reason = "the kernel does so")]
pub fn word(register: u64) -> u32 {
    register as u32
}
