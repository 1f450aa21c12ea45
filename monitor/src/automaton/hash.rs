//! A quick hash for numbers.
//!
//! The standard one withstands input that was chosen to collide. The sets of states hashed here
//! come from a policy that is about to be obeyed, and there are a hundred thousand of them.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A map that hashes quickly.
pub(crate) type QuickMap<K, V> = HashMap<K, V, BuildHasherDefault<Quick>>;

/// Multiplies and rotates, eight bytes at a time.
#[derive(Default)]
pub(crate) struct Quick(u64);

impl Quick {
    fn take(&mut self, word: u64) {
        // 2^64 divided by the golden ratio: an odd number whose bits are well mixed.
        const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(FACTOR);
    }
}

impl Hasher for Quick {
    fn write(&mut self, bytes: &[u8]) {
        let mut words = bytes.chunks_exact(8);
        for word in &mut words {
            self.take(word.try_into().map_or(0, u64::from_ne_bytes));
        }
        for byte in words.remainder() {
            self.take(u64::from(*byte));
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.take(u64::from(number));
    }

    fn finish(&self) -> u64 {
        // The upper bits are the mixed ones, and the map looks at both ends.
        self.0 ^ self.0 >> 32
    }
}
