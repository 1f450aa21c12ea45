//! The same as `agreement.rs` in the machines that `cargo xtask vm` makes, where BPF LSM is asked first.

use std::path::PathBuf;
use std::time::Duration;

use turnkey_differential::campaign::{Summary, confirmed};
use turnkey_differential::jail::Bench;
use turnkey_differential::mounts;

/// Runs programs from a number on, for a time of the machine's own clock.
fn assert_agrees(from: u64, time: Duration) {
    mounts::see_traces().expect("a test runs as root");
    let turnkey = std::env::var_os("TURNKEY_BIN").map(PathBuf::from);
    let bench = Bench::new(&turnkey.expect("the machine says where turnkey is"));
    let bench = bench.expect("the observers can be made");
    let mut summary = Summary::default();
    let generated = summary.generate(&bench, from, time, 4);
    generated.expect("programs can be run");
    let mut count = 0;
    for finding in &summary.found {
        eprintln!("{} {:?}: {}", finding.name, finding.way, finding.what);
        count += usize::from(confirmed(&bench, finding).expect("programs can be run"));
    }
    let told = summary.to_string();
    told.lines().for_each(|line| eprintln!("measured: {line}"));
    assert!(summary.programs >= 4, "{summary}");
    assert_eq!(count, 0, "{summary}");
}

mod by_day {
    use super::*;

    #[test]
    fn what_is_told_is_what_others_saw() {
        assert_agrees(1, Duration::from_secs(10));
    }
}

/// As long as a test of such a machine may take, so often that it is an hour.
mod long {
    use super::*;

    const TIME: Duration = Duration::from_secs(150);

    /// A test for each number, of programs that no other one has.
    macro_rules! parts {
        ($($name:ident $from:literal)+) => {
            $(
                #[test]
                fn $name() {
                    assert_agrees($from, TIME);
                }
            )+
        };
    }

    parts! {
        part_01 1_010_000 part_02 1_020_000 part_03 1_030_000 part_04 1_040_000 part_05 1_050_000 part_06 1_060_000
        part_07 1_070_000 part_08 1_080_000 part_09 1_090_000 part_10 1_100_000 part_11 1_110_000 part_12 1_120_000
        part_13 1_130_000 part_14 1_140_000 part_15 1_150_000 part_16 1_160_000 part_17 1_170_000 part_18 1_180_000
        part_19 1_190_000 part_20 1_200_000 part_21 1_210_000 part_22 1_220_000 part_23 1_230_000 part_24 1_240_000
    }
}
