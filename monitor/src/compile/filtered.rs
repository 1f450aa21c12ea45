//! The calls that seccomp refuses, for programs that tell what it refused.

use turnkey_abi::FILTERED_WORDS;
use turnkey_policy::SyscallPolicy;
use turnkey_policy::syscalls::{self, FilterAnswer};

/// The bits of the calls that the filter of a jail answers by their number alone.
pub(super) fn filtered_numbers(policy: &SyscallPolicy) -> [u64; FILTERED_WORDS] {
    let is_filtered = |number| syscalls::answer(policy, number) != FilterAnswer::Allowed;
    let mut words = [0; FILTERED_WORDS];
    for (first, word) in (0..).step_by(64).zip(&mut words) {
        let bits = (0..u64::BITS).filter(|bit| is_filtered(first + bit));
        *word = bits.fold(0, |word, bit| word | 1 << bit);
    }
    words
}

#[cfg(test)]
mod tests {
    use turnkey_abi::syscalls::COUNT;
    use turnkey_policy::Overrides;

    use super::*;

    #[test]
    fn a_number_has_its_bit_when_the_filter_lets_nobody_make_the_call() {
        let no_files = |_: &str| Err(String::new());
        let policy = turnkey_policy::load("judge", &no_files, &Overrides::default()).unwrap();
        let words = filtered_numbers(&policy.syscalls);
        let has_bit = |number: usize| words[number / 64] >> (number % 64) & 1 == 1;
        for number in 0..COUNT {
            let name = u32::try_from(number).ok().and_then(syscalls::name);
            let is_allowed = name.is_some_and(|name| policy.syscalls.allow.contains(name));
            assert_eq!(has_bit(number), !is_allowed, "{number}");
        }
        // read(2), and mkdir(2).
        assert!(!has_bit(0) && has_bit(83));
    }
}
