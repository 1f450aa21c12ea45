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
    use turnkey_expectations::expected;

    expected!(on[BY_DAY]);

    #[test]
    fn what_is_told_is_what_others_saw() {
        // The first two programs took eleven seconds of an emulated machine, behind other tests: four may take longer than this.
        assert_agrees(1, Duration::from_secs(10));
    }
}

/// An hour of the machine's clock, in minutes, of which each says what it reached.
mod long {
    use super::*;
    use turnkey_expectations::expected;

    expected!(on[OBSERVER_6_12]);

    const TIME: Duration = Duration::from_secs(60);

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
        part_25 1_250_000 part_26 1_260_000 part_27 1_270_000 part_28 1_280_000 part_29 1_290_000 part_30 1_300_000
        part_31 1_310_000 part_32 1_320_000 part_33 1_330_000 part_34 1_340_000 part_35 1_350_000 part_36 1_360_000
        part_37 1_370_000 part_38 1_380_000 part_39 1_390_000 part_40 1_400_000 part_41 1_410_000 part_42 1_420_000
        part_43 1_430_000 part_44 1_440_000 part_45 1_450_000 part_46 1_460_000 part_47 1_470_000 part_48 1_480_000
        part_49 1_490_000 part_50 1_500_000 part_51 1_510_000 part_52 1_520_000 part_53 1_530_000 part_54 1_540_000
        part_55 1_550_000 part_56 1_560_000 part_57 1_570_000 part_58 1_580_000 part_59 1_590_000 part_60 1_600_000
    }
}
