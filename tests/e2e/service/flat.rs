//! Thousands of runs of many callers, after which the service and the kernel hold what they held before.
//!
//! A thing that each run leaves behind is small, and nobody misses it. What is counted here is everything that the kernel counts:
//! objects of each of its caches that it cannot give back at will, memory, control groups, and programs, maps and links of BPF.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;
use std::time::Duration;

use nix::sys::resource::{Resource, setrlimit};
use turnkey_expectations::expected;
use turnkey_tests::{Run, Service, eventually, measured};

expected!(
    ten_thousand_runs_of_a_hundred_callers_leave_the_host_as_it_was: at_night,
    "ten thousand runs; `what_is_kept_of_each_run_is_found` shows by day that something left by one run in ten is found"
);
expected!(
    not_on[ORDINARY_6_12],
    "a kernel's counts beside those of other tests, on a host that has more time"
);

/// Counts of one moment, by what is counted.
type Counts = BTreeMap<String, f64>;

/// The first number of a line that begins so.
fn number(text: &str, key: &str) -> Option<f64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(key))?;
    let word = rest.trim_start_matches(':').split_whitespace().next()?;
    word.parse().ok()
}

/// Objects in use, of the caches that the kernel does not shrink when it needs memory: proc(5), slabinfo(5).
fn objects() -> Counts {
    let text = fs::read_to_string("/proc/slabinfo").expect("a test runs as root");
    let shrinks = |cache: &str| {
        let place = Path::new("/sys/kernel/slab").join(cache);
        fs::read_to_string(place.join("reclaim_account")).is_ok_and(|is| is.trim() == "1")
    };
    let mut counts = Counts::new();
    for line in text.lines().skip(2) {
        let mut words = line.split_whitespace();
        if let (Some(cache), Some(Ok(active))) = (words.next(), words.next().map(str::parse))
            && !shrinks(cache)
        {
            counts.insert(format!("objects of {cache}"), active);
        }
    }
    assert!(counts.contains_key("objects of filp"), "{text}");
    counts
}

/// What is held at this moment, by the kernel and by the listener, which is this process.
fn held(listener: i32) -> Counts {
    let mut counts = objects();
    let memory = fs::read_to_string("/proc/meminfo").expect("it is there");
    for key in ["SUnreclaim", "Percpu", "KernelStack", "PageTables"] {
        counts.insert(
            format!("{key}, KiB"),
            number(&memory, key).expect("the kernel tells"),
        );
    }
    let unified = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"].map(Path::new);
    let groups = unified
        .iter()
        .find_map(|place| fs::read_to_string(place.join("cgroup.stat")).ok());
    let groups = groups.expect("control groups v2 are mounted");
    let groups = number(&groups, "nr_descendants").expect("the kernel tells");
    counts.insert("control groups".to_owned(), groups);
    let mut count = |name: &str, count: usize| counts.insert(name.to_owned(), count as f64);
    count("programs of BPF", aya::programs::loaded_programs().count());
    count("maps of BPF", aya::maps::loaded_maps().count());
    count("links of BPF", aya::programs::loaded_links().count());
    let mounts = fs::read_to_string("/proc/thread-self/mountinfo").expect("it is there");
    count("mounts", mounts.lines().count());
    let own = format!("/proc/{listener}");
    let descriptors = fs::read_dir(format!("{own}/fd")).expect("it is there");
    count("descriptors of the listener", descriptors.count());
    let rollup = fs::read_to_string(format!("{own}/smaps_rollup")).expect("it is there");
    let own = number(&rollup, "Pss_Anon").expect("the kernel tells");
    counts.insert("memory of the listener, KiB".to_owned(), own);
    counts
}

/// What grows with the runs: by how much with each, and at least, three standard errors below that. `between` runs lie between two counts.
fn growth(series: &[f64], between: f64) -> (f64, f64) {
    let count = series.len() as f64;
    let middle = (count - 1.0) / 2.0;
    let mean = series.iter().sum::<f64>() / count;
    let places = || {
        series
            .iter()
            .zip(0..)
            .map(|(value, at)| (f64::from(at) - middle, value - mean))
    };
    let spread: f64 = places().map(|(at, _)| at * at).sum();
    let slope = places().map(|(at, value)| at * value).sum::<f64>() / spread;
    let rest: f64 = places()
        .map(|(at, value)| (value - slope * at).powi(2))
        .sum();
    let error = (rest / (count - 2.0) / spread).sqrt();
    (slope / between, (slope - 3.0 * error) / between)
}

/// Something that one run in twenty leaves behind.
const LEFT: f64 = 0.05;

/// Whatever grows by more than one in twenty runs, if the counts are to be believed.
fn growing(counts: &[Counts], between: f64) -> Vec<String> {
    let of = |name: &String| {
        counts
            .iter()
            .filter_map(|one| one.get(name).copied())
            .collect::<Vec<f64>>()
    };
    let grown = counts[0].keys().filter_map(|name| {
        let series = of(name);
        let (slope, least) = growth(&series, between);
        // A cache that is made or goes meanwhile has fewer counts than there are.
        let is_whole = series.len() == counts.len();
        (is_whole && least > LEFT).then(|| format!("{name}: {slope:.3} a run: {series:?}"))
    });
    grown.collect()
}

/// As many runs, by a hundred callers at once.
fn of_a_hundred_callers(service: &Service, count: usize) {
    std::thread::scope(|scope| {
        for _ in 0..100 {
            scope.spawn(|| {
                for _ in 0..count / 100 {
                    let run = Run::new().option("--quiet").served_at(&service.directory());
                    run.run(&["true"]).expect_code(0);
                }
            });
        }
    });
    eventually("those who stand ready are all that is left", || {
        service.makers().len() <= 2
    });
    // The kernel frees namespaces, groups and programs in the background.
    std::thread::sleep(Duration::from_secs(3));
}

#[test]
fn ten_thousand_runs_of_a_hundred_callers_leave_the_host_as_it_was() {
    const STEP: usize = 1000;
    let service = Service::start(
        "queue = 200\nmax_running = 8\nmax_running_per_user = 8\n[per_user]\nmemory = \"16G\"\n",
    );
    let mut counts = Vec::new();
    for _ in 0..=10 {
        of_a_hundred_callers(&service, STEP);
        counts.push(held(service.pid().as_raw()));
    }
    for name in [
        "SUnreclaim, KiB",
        "Percpu, KiB",
        "memory of the listener, KiB",
        "objects of net_namespace",
    ] {
        let series: Vec<f64> = counts
            .iter()
            .filter_map(|one| one.get(name).copied())
            .collect();
        measured(&format!("{name} after each {STEP} runs: {series:?}"));
    }
    let grown = growing(&counts, STEP as f64);
    assert!(grown.is_empty(), "{}", grown.join("\n"));
}

/// The control: a file that each tenth run would leave open.
#[test]
fn what_is_kept_of_each_run_is_found() {
    const MANY: usize = 1000;
    let own = std::process::id().cast_signed();
    let limit = 20 * MANY as u64;
    setrlimit(Resource::RLIMIT_NOFILE, limit, limit).expect("a test runs as root");
    let (mut counts, mut kept) = (Vec::new(), Vec::new());
    for _ in 0..8 {
        kept.extend((0..MANY).map(|_| File::open("/dev/null").expect("the limit is higher")));
        counts.push(held(own));
    }
    let grown = growing(&counts, 10.0 * MANY as f64);
    let is_found = |name: &str| grown.iter().any(|line| line.starts_with(name));
    assert!(is_found("descriptors of the listener"), "{grown:?}");
    assert!(is_found("objects of filp"), "{grown:?}");
    assert!(!is_found("links of BPF"), "{grown:?}");
    drop(kept);
}
