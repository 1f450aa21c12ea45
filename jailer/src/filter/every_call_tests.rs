//! Every number of every table, under every shipped profile, against the policy's one table.

use proptest::prelude::*;
use turnkey_policy::syscalls::{FilterAnswer, X32_BIT, arguments};
use turnkey_policy::{Overrides, Policy, SHIPPED, SyscallPolicy, load, syscalls};

use super::SeccompFilters;
use super::simulation::{ALLOW, ENOSYS, EPERM, I386, KILL_PROCESS, answer, errno, every_group};
use crate::host::kernel::AUDIT_ARCH_X86_64;

/// The last number that is tried: the newest syscall has a number below 500.
const LAST: u32 = 600;

/// Each as it is, and with the host's network and a place of the host that can be written.
fn shipped() -> impl Iterator<Item = (Policy, SeccompFilters)> {
    let ways = |(name, _): &(&'static str, &str)| [(*name, true), (*name, false)];
    let built = |(name, set_id_files)| {
        let no_files = |path: &str| Err(format!("{path} was asked for"));
        let mut policy = load(name, &no_files, &Overrides::default()).expect("it is shipped");
        policy.syscalls.set_id_files = set_id_files;
        policy.syscalls.host_network = !set_id_files;
        let filters = SeccompFilters::build(&policy.syscalls).expect("its filters can be built");
        (policy, filters)
    };
    SHIPPED.iter().flat_map(ways).map(built)
}

/// The answer that the programs must give to a number whose arguments nothing is wrong with.
fn expected(policy: &Policy, number: u32, arguments: &[u64; 6]) -> u32 {
    match syscalls::answer(&policy.syscalls, number) {
        FilterAnswer::Killed => KILL_PROCESS,
        FilterAnswer::Absent => ENOSYS,
        FilterAnswer::Refused => EPERM,
        FilterAnswer::Allowed => {
            let name = syscalls::name(number).unwrap_or_default();
            arguments::refused(&policy.syscalls, name, arguments)
                .map_or(ALLOW, |error| errno(error.number().into()))
        }
    }
}

#[test]
fn j28_j45_every_number_gets_what_the_table_says() {
    let all_ones = [u64::MAX; 6];
    for (policy, filters) in shipped() {
        for number in 0..=LAST {
            for arguments in [[0; 6], all_ones] {
                assert_eq!(
                    answer(&filters, AUDIT_ARCH_X86_64, number, arguments),
                    expected(&policy, number, &arguments),
                    "{}: {number} {:?} {arguments:x?}",
                    policy.name,
                    syscalls::name(number),
                );
            }
        }
    }
}

#[test]
fn j23_every_number_of_x32_kills() {
    for (policy, filters) in shipped() {
        for number in 0..=LAST {
            let disguised = answer(&filters, AUDIT_ARCH_X86_64, number | X32_BIT, [0; 6]);
            assert_eq!(disguised, KILL_PROCESS, "{}: {number}", policy.name);
            assert_eq!(
                syscalls::answer(&policy.syscalls, number | X32_BIT),
                FilterAnswer::Killed
            );
        }
    }
}

#[test]
fn j24_every_number_of_ia32_kills() {
    for (policy, filters) in shipped() {
        for number in 0..=LAST {
            let other = answer(&filters, I386, number, [0; 6]);
            assert_eq!(other, KILL_PROCESS, "{}: {number}", policy.name);
        }
    }
}

/// Values that a table speaks of, values beside them, and any others.
fn register() -> impl Strategy<Value = u64> {
    let spoken_of: Vec<u64> = arguments::REFUSALS
        .iter()
        .flat_map(|refusal| refusal.when)
        .flat_map(|condition| match condition.test {
            arguments::BitTest::Is(values) | arguments::BitTest::IsNot(values) => values.to_vec(),
            arguments::BitTest::IsSet => vec![condition.bits],
        })
        .map(u64::from)
        .collect();
    let low = prop_oneof![
        3 => prop::sample::select(spoken_of),
        1 => 0_u64..64,
        1 => any::<u32>().prop_map(u64::from),
        1 => (0_u32..32).prop_map(|bit| 1_u64 << bit),
    ];
    let upper = prop_oneof![Just(0), Just(u32::MAX), any::<u32>()];
    (low, upper).prop_map(|(low, upper)| low | u64::from(upper) << 32)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, ..ProptestConfig::default() })]

    /// The emitted comparisons mean what the table says, whatever the kernel's unread bits hold.
    #[test]
    fn j26_arguments_are_judged_by_the_bits_that_the_kernel_reads(
        arguments in prop::array::uniform6(register()),
        garbage in prop::array::uniform6(any::<u32>()),
        index in any::<prop::sample::Index>(),
    ) {
        thread_local! {
            static POLICY: SyscallPolicy = every_group(false);
            static FILTERS: SeccompFilters = POLICY.with(|policy| SeccompFilters::build(policy).expect("built"));
        }
        let refusal = index.get(arguments::REFUSALS);
        for name in refusal.syscalls {
            let number = syscalls::number(name).expect("the table knows it");
            let ask = |arguments| FILTERS.with(|filters| {
                answer(filters, AUDIT_ARCH_X86_64, number, arguments)
            });
            let said = POLICY.with(|policy| arguments::refused(policy, name, &arguments));
            let expected = said.map_or(ALLOW, |error| errno(error.number().into()));
            prop_assert_eq!(ask(arguments), expected, "{} {:x?}", name, arguments);
            let mut disguised = arguments;
            for (register, garbage) in disguised.iter_mut().zip(garbage) {
                *register = *register & 0xffff_ffff | u64::from(garbage) << 32;
            }
            prop_assert_eq!(ask(disguised), expected, "{} {:x?}", name, disguised);
        }
    }
}
