//! What the runs of one user take together, as the kernel's groups have it.

use std::collections::BTreeMap;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use turnkey_expectations::expected;
use turnkey_tests::{Run, Service, eventually, group_traces, outside};

expected!(
    a_hundred_greedy_callers_pass_no_sum: at_night,
    "a hundred runs, two or three at once; `callers_of_one_user_pass_no_sum_…` has ten by day"
);

/// Sizes of a test's jails, MiB, that no other test has: sums are of groups with one of them.
type Sizes = [u64; 2];

/// A run that goes on by itself, in its own directory.
struct Going {
    caller: Child,
    /// Keeps the directory as long as the caller is there.
    _place: Run,
}

impl Going {
    /// Starts a run of an ordinary user.
    fn start(service: &Service, options: &str, script: &str) -> Going {
        let run = Run::new().served_at(&service.directory());
        let run = run.option(&format!("{options} --disk 8M"));
        let mut command = run.command(&["sh", "-c", script]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Going {
            caller: command.spawn().expect("turnkey can be started"),
            _place: run,
        }
    }

    /// Starts one that lasts until it is ended, and waits until it has what it claims.
    fn holds(service: &Service, options: &str) -> Going {
        let mut going = Going::start(service, options, "echo runs; sleep 50");
        let mut first = [0; 5];
        let output = going.caller.stdout.as_mut().expect("it is a pipe");
        std::io::Read::read_exact(output, &mut first).expect("the program says that it runs");
        going
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(self.caller.id().cast_signed())
    }

    /// Ends it by a signal to its caller's process.
    fn end_by(mut self, signal: Signal) {
        kill(self.pid(), signal).expect("it is there");
        self.caller.wait().expect("a child can be waited for");
    }

    /// Its exit code, and what it has told.
    fn told(self) -> (Option<i32>, String) {
        let output = self
            .caller
            .wait_with_output()
            .expect("a child can be waited for");
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), told)
    }
}

/// The lines of the log about callers that wait: the reasons.
fn reasons(service: &Service) -> Vec<String> {
    let log = service.log().into_iter();
    let waits = log.filter(|line| line["event"] == "waits");
    waits
        .map(|line| line["reason"].as_str().unwrap_or_default().to_owned())
        .collect()
}

fn waits_for(service: &Service, count: usize, word: &str) {
    eventually("it is told that it waits", || {
        reasons(service).len() >= count
    });
    let last = reasons(service).pop().unwrap_or_default();
    assert!(last.contains(word), "{last}");
}

/// The limit of memory of each group that has one of the sizes, MiB, by the group's name.
fn limits(sizes: Sizes) -> BTreeMap<String, u64> {
    let limit = |group: String| {
        let files = ["memory.limit_in_bytes", "memory.max"];
        let text = files
            .iter()
            .find_map(|file| std::fs::read_to_string(format!("{group}/{file}")).ok())?;
        let size = text.trim().parse::<u64>().ok()? >> 20;
        let name = group.rsplit('/').next()?.to_owned();
        sizes.contains(&size).then_some((name, size))
    };
    group_traces().into_iter().filter_map(limit).collect()
}

/// The greatest sum of limits that was seen while something was done, MiB.
fn greatest_sum_during(sizes: Sizes, act: impl FnOnce()) -> u64 {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut greatest = 0;
            while !is_over.load(Ordering::Relaxed) {
                greatest = greatest.max(limits(sizes).values().sum());
                std::thread::sleep(Duration::from_millis(1));
            }
            greatest
        });
        act();
        is_over.store(true, Ordering::Relaxed);
        watcher.join().expect("it only looks")
    })
}

/// So many callers of one user that want too much, beside one that behaves.
fn greedy(callers: usize, sizes: Sizes) {
    let service = Service::start(
        "max_running = 12\nmax_running_per_user = 8\nqueue = 200\n[per_user]\nmemory = \"700M\"\n",
    );
    let greatest = greatest_sum_during(sizes, || {
        let runs: Vec<Going> = (0..callers)
            .map(|number| {
                let size = sizes[number % 2];
                Going::start(&service, &format!("--quiet --memory {size}M"), "sleep 0.1")
            })
            .collect();
        waits_for(&service, 1, "");
        for _ in 0..3 {
            let began = Instant::now();
            let root = Run::new().option("--quiet --service --memory 101M");
            let mut command = root.command(&["true"]);
            command.env("TURNKEY_SOCKET_DIR", service.directory());
            let status = command.status().expect("turnkey can be started");
            assert!(status.success(), "another user's");
            turnkey_tests::measured(&format!("beside them {:?}", began.elapsed()));
        }
        let waiting = reasons(&service);
        assert!(!waiting.is_empty(), "the control: they want too much");
        for run in runs {
            let (code, told) = run.told();
            assert_eq!(code, Some(0), "each has its turn: {told}");
        }
    });
    turnkey_tests::measured(&format!("{greatest} MiB at most"));
    assert!(
        greatest > sizes[1],
        "the control: several at once: {greatest}"
    );
    assert!(greatest <= 700, "{greatest}");
}

#[test]
fn callers_of_one_user_pass_no_sum_and_keep_nobody_else() {
    greedy(10, [201, 303]);
}

#[test]
fn a_hundred_greedy_callers_pass_no_sum() {
    greedy(100, [202, 304]);
}

#[test]
fn a_large_run_is_not_passed_by_smaller_ones_of_its_user() {
    let service = Service::start("[per_user]\nmemory = \"600M\"\n");
    let first = Going::holds(&service, "--quiet --memory 299M");
    let large = Going::start(&service, "--memory 500M", "true");
    waits_for(
        &service,
        1,
        "have 299M of 600M memory, and it asks for 500M",
    );
    let small = Going::start(&service, "--quiet --memory 199M", "true");
    waits_for(&service, 2, "came before");
    let root = Run::new().option("--quiet --service --memory 500M");
    let mut command = root.command(&["true"]);
    command.env("TURNKEY_SOCKET_DIR", service.directory());
    assert!(command.status().unwrap().success(), "another user's own");
    first.end_by(Signal::SIGTERM);
    let (code, told) = large.told();
    assert_eq!(code, Some(0), "{told}");
    assert!(
        told.contains("waits for the service: the other runs"),
        "{told}"
    );
    assert_eq!(small.told().0, Some(0));
    let log = service.log().into_iter();
    let own = log.filter(|line| line["event"] == "ran" && line["user"] != 0);
    let requests: Vec<_> = own.map(|line| line["request"].clone()).collect();
    // One may wait twice: before anybody has read what it asks for, and then for that.
    let mut waited: Vec<_> = service
        .log()
        .into_iter()
        .filter(|line| line["event"] == "waits")
        .map(|line| line["request"].clone())
        .collect();
    waited.dedup();
    assert_eq!(requests[1..], waited, "in the order in which they came");
}

#[test]
fn tasks_and_disk_are_summed_as_well_and_what_never_fits_is_refused() {
    let service = Service::start("[per_user]\npids = \"60\"\ndisk = \"200M\"\nmemory = \"600M\"\n");
    let first = Going::holds(&service, "--quiet --pids 40");
    let second = Going::start(&service, "--quiet --pids 30", "true");
    waits_for(
        &service,
        1,
        "40 of 60 processes and threads, and it asks for 30",
    );
    first.end_by(Signal::SIGTERM);
    assert_eq!(second.told().0, Some(0));
    let first = Going::holds(&service, "--quiet --pids 9 --scratch /x=60M");
    let second = Going::start(&service, "--quiet --pids 9", "true");
    // Each has 8M, 64M for /tmp, and as much for /var/tmp.
    waits_for(
        &service,
        2,
        "196M of 200M room for writes that are thrown away",
    );
    first.end_by(Signal::SIGTERM);
    assert_eq!(second.told().0, Some(0));
    for (options, words) in [
        (
            "--memory 601M",
            "less memory than this one asks for: 600M at most, --memory and --swap",
        ),
        ("--pids 61", "60 at most, --pids"),
        ("--scratch /x=200M", "200M at most, --disk and --scratch"),
        ("--swap 1M", "--swap 0 at most"),
    ] {
        let (code, told) = Going::start(&service, options, "true").told();
        assert_eq!(code, Some(125), "{told}");
        assert!(told.contains(words), "{options}: {told}");
    }
}

#[test]
fn who_is_gone_claims_nothing_and_waits_for_nothing() {
    let service = Service::start("ready = 0\n[per_user]\nmemory = \"400M\"\n");
    let size = 305;
    let options = format!("--quiet --memory {size}M");
    // Of who waits: a caller that is killed, and one that is asked to end.
    let first = Going::holds(&service, &options);
    for (count, signal) in [Signal::SIGKILL, Signal::SIGINT].into_iter().enumerate() {
        let waiting = Going::start(&service, &options, "true");
        waits_for(&service, count + 1, "memory");
        waiting.end_by(signal);
    }
    first.end_by(Signal::SIGTERM);
    assert_eq!(Going::start(&service, &options, "true").told().0, Some(0));
    // Of a run: its caller, who makes it, and the jail's first process or its keeper.
    for victim in 0..3 {
        let greatest = greatest_sum_during([size, 0], || {
            let first = Going::holds(&service, &options);
            let waiting = Going::start(&service, &options, "true");
            let before = reasons(&service).len();
            waits_for(&service, before.max(3 + victim), "memory");
            let makers = service.makers();
            let maker = makers[0].to_string();
            match victim {
                0 => kill(first.pid(), Signal::SIGKILL).unwrap(),
                1 => kill(to_pid(&maker), Signal::SIGKILL).unwrap(),
                _ => {
                    let (_, children) = outside("pgrep", &["-P", &maker]);
                    let child = children.lines().next().expect("it has children");
                    kill(to_pid(child), Signal::SIGKILL).unwrap();
                }
            }
            if victim == 2 {
                // A run goes on without its keeper.
                let _ = kill(first.pid(), Signal::SIGTERM);
            }
            assert_eq!(waiting.told().0, Some(0), "victim {victim}");
            let _ = first.told();
        });
        assert_eq!(greatest, size, "one at a time, victim {victim}");
    }
}

#[test]
fn a_service_that_is_killed_leaves_no_claim() {
    let mut service = Service::start("[per_user]\nmemory = \"400M\"\n");
    let options = "--quiet --memory 306M";
    let first = Going::holds(&service, options);
    let waiting = Going::start(&service, options, "true");
    waits_for(&service, 1, "memory");
    let makers = service.makers();
    service.end_by(Signal::SIGKILL);
    assert_eq!(first.told().0, Some(125));
    assert_eq!(waiting.told().0, Some(125), "it waits for nobody");
    Service::nothing_is_left(&makers);
    service.start_again();
    assert_eq!(Going::start(&service, options, "true").told().0, Some(0));
}

fn to_pid(text: &str) -> Pid {
    Pid::from_raw(text.parse().expect("a number"))
}

#[test]
fn a_claim_lasts_as_long_as_the_groups_of_its_run() {
    let service = Service::start("ready = 0\n[per_user]\nmemory = \"400M\"\n");
    let options = "--quiet --memory 307M";
    let first = Going::holds(&service, options);
    let waiting = Going::start(&service, options, "true");
    waits_for(&service, 1, "memory");
    let maker = service.makers()[0].to_string();
    // The keeper is one of them: it removes the groups when it goes on.
    let (_, children) = outside("pgrep", &["-P", &maker]);
    let children: Vec<Pid> = children.lines().map(to_pid).collect();
    assert!(children.len() > 1, "the control: a keeper, and a jail");
    for child in &children {
        kill(*child, Signal::SIGSTOP).expect("it is there");
    }
    kill(to_pid(&maker), Signal::SIGKILL).expect("it is there");
    assert_eq!(first.told().0, Some(125));
    std::thread::sleep(Duration::from_millis(300));
    let started = || {
        let log = service.log().into_iter();
        log.filter(|line| line["event"] == "started").count()
    };
    assert_eq!(limits([307, 0]).len(), 1, "the control: its group is there");
    assert_eq!(started(), 1, "and so is its claim");
    for child in &children {
        let _ = kill(*child, Signal::SIGCONT);
    }
    assert_eq!(waiting.told().0, Some(0));
    assert_eq!(started(), 2);
}
