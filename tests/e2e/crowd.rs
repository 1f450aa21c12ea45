//! Many jails at once, and many of them killed: what is left is what was there before.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use turnkey_expectations::expected;

expected!(
    not_on[ORDINARY_6_12],
    "two hundred jails at once take an emulated CPU too long"
);

expected!(
    at_night,
    "two hundred jails take the whole machine; `lifetime::` kills one"
);

const JAILS: u64 = 200;
/// One in so many is watched by the monitor, which takes longer to start.
const WATCHED: u64 = 25;
/// From the first start to the last trace.
const PATIENCE: Duration = Duration::from_secs(100);

/// One of the crowd.
struct Jail {
    number: u64,
    turnkey: Child,
    /// When turnkey is killed, for those that are.
    doom: Option<Instant>,
}

/// Repeats a run with `TURNKEY_TEST_SEED`.
fn seed() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let given = std::env::var("TURNKEY_TEST_SEED").ok();
    let given = given.and_then(|seed| seed.parse().ok());
    given.unwrap_or_else(|| now.map_or(1, |now| u64::from(now.subsec_nanos())) | 1)
}

/// xorshift64: the next number after `state`.
fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// Everything of the crowd is marked in its environment or its arguments.
fn command(place: &Path, mark: &str, number: u64, doomed: bool) -> Command {
    let script = if doomed {
        format!("echo started; sleep {mark} & sleep {mark}")
    } else {
        format!("echo $(({number} * {number}))")
    };
    let mut command = Command::new(turnkey_tests::binary());
    command.args(["run", "--quiet"]);
    if !number.is_multiple_of(WATCHED) {
        command.arg("--unmonitored");
    }
    let output = File::create(place.join("results").join(number.to_string()));
    command
        .args(["--", "/bin/sh", "-c", &script])
        .current_dir(place.join("work"))
        .env("TMPDIR", place.join("temporary"))
        .env("TURNKEY_CROWD", mark)
        .stdin(Stdio::null())
        .stdout(output.expect("a test can make a file"))
        .stderr(Stdio::null());
    command
}

fn start_all(place: &Path, mark: &str, random: &mut u64, span: Duration) -> Vec<Jail> {
    let mut jails = Vec::new();
    for number in 0..JAILS {
        let doomed = number % 2 == 1;
        let spawned = command(place, mark, number, doomed).spawn();
        let delay = span.mul_f64((next(random) % 10_000) as f64 / 10_000.0);
        jails.push(Jail {
            number,
            turnkey: spawned.expect("turnkey can be started"),
            doom: doomed.then(|| Instant::now() + delay),
        });
    }
    jails
}

/// Kills each when its time has come, and waits for the others.
fn play(jails: &mut [Jail]) {
    while jails.iter().any(|jail| jail.doom.is_some()) {
        for jail in jails.iter_mut() {
            if jail.doom.is_some_and(|doom| doom <= Instant::now()) {
                jail.turnkey.kill().expect("a child can be killed");
                jail.turnkey.wait().expect("and waited for");
                jail.doom = None;
            }
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    for jail in jails.iter_mut().filter(|jail| jail.number % 2 == 0) {
        let status = jail.turnkey.wait().expect("a child can be waited for");
        assert_eq!(status.code(), Some(0), "survivor {}", jail.number);
    }
}

fn mounts() -> BTreeSet<String> {
    let text = std::fs::read_to_string("/proc/self/mountinfo").expect("/proc is mounted");
    text.lines().map(str::to_owned).collect()
}

/// Processes that were started for the crowd, whatever they have become.
fn processes(mark: &str) -> usize {
    let entries = std::fs::read_dir("/proc").expect("/proc is mounted");
    let own = std::process::id().to_string();
    let marked = |entry: &std::fs::DirEntry| {
        let holds = |file| {
            let bytes = std::fs::read(entry.path().join(file)).unwrap_or_default();
            String::from_utf8_lossy(&bytes).contains(mark)
        };
        entry.file_name().to_string_lossy() != own && (holds("environ") || holds("cmdline"))
    };
    entries.flatten().filter(marked).count()
}

/// What this process has open, which has started every one of them: the numbers and what they are.
fn descriptors() -> BTreeSet<(u32, PathBuf)> {
    let entries = std::fs::read_dir("/proc/self/fd").expect("/proc is mounted");
    let open = entries.flatten().filter_map(|entry| {
        let number = entry.file_name().to_str()?.parse().ok()?;
        // The listing's own is closed when it ends.
        Some((number, std::fs::read_link(entry.path()).ok()?))
    });
    let all: Vec<_> = open.collect();
    let lives = |(number, _): &(u32, PathBuf)| {
        std::fs::symlink_metadata(format!("/proc/self/fd/{number}")).is_ok()
    };
    all.into_iter().filter(lives).collect()
}

fn groups(jails: &[Jail]) -> usize {
    let marks: Vec<_> = jails
        .iter()
        .map(|jail| format!("/turnkey-{}-", jail.turnkey.id()))
        .collect();
    let traces = turnkey_tests::traces();
    let ours = |trace: &&String| marks.iter().any(|mark| trace.contains(mark.as_str()));
    traces.iter().filter(ours).count()
}

fn entries(directory: &Path) -> usize {
    std::fs::read_dir(directory).map_or(0, Iterator::count)
}

#[test]
fn j51_of_two_hundred_jails_half_are_killed_and_nothing_is_left() {
    let seed = seed();
    let place = turnkey_tests::scratch();
    for name in ["work", "temporary", "results"] {
        std::fs::create_dir(place.path().join(name)).unwrap();
    }
    let mark = format!("86400.{}", std::process::id());
    let (mounts_before, memory_before) = (mounts(), entries(Path::new("/dev/shm")));
    let descriptors_before = descriptors();

    let alone = Instant::now();
    let mut first = command(place.path(), &mark, 1, false).spawn().unwrap();
    assert!(first.wait().unwrap().success(), "one alone ends well");
    // As long as two CPUs need for all of them, so that every part of a start is hit.
    let span = alone
        .elapsed()
        .mul_f64(JAILS as f64 / 3.0)
        .min(PATIENCE / 4);
    let begun = Instant::now();
    let mut jails = start_all(place.path(), &mark, &mut seed.clone(), span);
    let most = groups(&jails);
    assert!(most > 0, "the control: groups of a crowd are found");
    assert!(
        processes(&mark) >= 100,
        "the control: so are its processes, and nothing is left in vain"
    );
    play(&mut jails);
    let played = begun.elapsed();

    for jail in jails.iter().filter(|jail| jail.number % 2 == 0) {
        let result = place.path().join("results").join(jail.number.to_string());
        let result = std::fs::read_to_string(result).unwrap();
        let expected = format!("{}\n", jail.number * jail.number);
        assert_eq!(result, expected, "survivor {}, seed {seed}", jail.number);
    }
    let left = || {
        (
            groups(&jails),
            processes(&mark),
            mounts().difference(&mounts_before).count(),
        )
    };
    while left() != (0, 0, 0) {
        let told = format!("groups, processes, mounts: {:?}, seed {seed}", left());
        assert!(begun.elapsed() < PATIENCE, "still there: {told}");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(descriptors(), descriptors_before, "seed {seed}");
    assert_eq!(entries(&place.path().join("temporary")), 0, "seed {seed}");
    assert_eq!(entries(&place.path().join("work")), 0, "seed {seed}");
    assert!(
        entries(Path::new("/dev/shm")) <= memory_before,
        "seed {seed}"
    );
    eprintln!(
        "seed {seed}: {JAILS} jails in {played:?}, all traces gone after {:?}; \
         {most} groups when the last was started",
        begun.elapsed()
    );
}
