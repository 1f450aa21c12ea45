//! Limits of the caller's own processes: its runs have no more, though the service makes them.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use turnkey_expectations::expected;
use turnkey_tests::{Run, SERVED, Service, eventually, outside};

/// Ends of a run whose caller has said this in its shell first, as root and then as the user that it is.
fn called(service: &Service, options: &str, (as_root, own): (&str, &str), script: &str) -> Told {
    let run = Run::new().served_at(&service.directory());
    let words = format!("--quiet {options}");
    let run = run.option(words.trim_end());
    let command = run.command(&["/bin/bash", "-c", script]);
    let user = format!("setpriv --reuid {SERVED} --regid {SERVED} --clear-groups");
    let shell = format!("{as_root}\nexec {user} /bin/bash -c '{own}\nexec \"$@\"' caller \"$@\"");
    let mut around = Command::new("/bin/bash");
    around
        .args(["-e", "-c", &shell, "root"])
        .arg(command.get_program());
    around
        .args(command.get_args())
        .env("TURNKEY_SOCKET_DIR", service.directory());
    around
        .current_dir(run.path())
        .stdin(std::process::Stdio::null());
    let output = around.output().expect("bash can be started");
    let report = run.report();
    Told { output, report }
}

/// Starts fifteen tasks. Not by bash itself, which tries again for seconds where it may have no more.
const STARTS: &str = "exec sh -c 'for n in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do sleep 9 > /dev/null & done 2> /dev/null; echo all'";

struct Told {
    output: Output,
    report: Value,
}

impl Told {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.output.stdout)
            .trim()
            .to_owned()
    }

    /// The limits that were lowered: each with its value and what lowered it.
    fn lowered(&self) -> Vec<(String, u64, String)> {
        let list = self.report["served"]["lowered"].as_array();
        let one = |lowered: &Value| {
            let text = |name: &str| lowered[name].as_str().unwrap_or_default().to_owned();
            let given = lowered["given"].as_u64().unwrap_or_default();
            (text("limit"), given, text("by"))
        };
        list.into_iter().flatten().map(one).collect()
    }

    /// The proof of the limits of each process.
    fn proved(&self) -> String {
        let layers = self.report["enforcement"].as_array();
        let layers = layers.into_iter().flatten();
        let is_one = |layer: &&Value| layer["layer"] == "rlimits";
        layers.filter(is_one).map(Value::to_string).collect()
    }
}

/// A program that prints `all` where it is not limited, run without a limit of the caller's and with this one.
fn both(service: &Service, options: &str, limit: &str, program: &str) -> Told {
    let control = called(service, options, ("", ""), program);
    assert_eq!(
        control.text(),
        "all",
        "the control of {limit}: {:?}",
        control.output
    );
    assert!(control.lowered().is_empty(), "{limit}");
    let held = called(service, options, ("", limit), program);
    assert_ne!(held.text(), "all", "{limit}: {:?}", held.output);
    held
}

#[test]
fn address_space_and_open_files_of_a_run_are_at_most_its_caller_s() {
    let service = Service::start("");
    // MAP_PRIVATE, MAP_ANONYMOUS, MAP_NORESERVE: address space, of which no host has too little.
    let maps = "python3 -c \"import mmap; mmap.mmap(-1, 3 << 30, flags=0x4022); print(chr(97) + 2 * chr(108))\"";
    let held = both(&service, "--memory 256M", "ulimit -v 2000000", maps);
    assert!(held.proved().contains("Max address space 2048000000"));
    let opens =
        "for n in {10..40}; do eval \"exec $n</dev/null\" || exit; done 2>/dev/null; echo all";
    let held = both(&service, "--open-files 60", "ulimit -n 24", opens);
    let by = "RLIMIT_NOFILE".to_owned();
    assert_eq!(held.lowered(), [("open_files".to_owned(), 24, by)]);
}

#[test]
fn files_and_tasks_of_a_run_are_at_most_its_caller_s() {
    let service = Service::start("");
    let writes = "head -c 400K /dev/zero > file; [ $(stat -c %s file) = 409600 ] && echo all";
    let held = both(&service, "", "ulimit -f 200", writes);
    let by = "RLIMIT_FSIZE".to_owned();
    assert_eq!(held.lowered(), [("file_size".to_owned(), 200 << 10, by)]);
    let held = both(&service, "--pids 40", "ulimit -u 12", STARTS);
    let by = "RLIMIT_NPROC".to_owned();
    assert_eq!(held.lowered(), [("pids".to_owned(), 12, by)]);
    let told = String::from_utf8_lossy(&held.output.stderr).into_owned();
    assert!(!told.contains("allow more with --pids"), "{told}");
}

#[test]
fn a_program_starts_as_its_caller_would_start_it() {
    let service = Service::start("");
    let as_root = "renice -n 7 -p $$ > /dev/null; taskset -p -c 0 $$ > /dev/null; chrt -b -p 0 $$; ionice -c 3 -p $$";
    let own = "umask 027; ulimit -t 777 -s 5000";
    let shows = "umask; nice; nproc; ulimit -t; ulimit -s; chrt -p $$ | head -n 1 | grep -o SCHED_.*; ionice";
    // No priority above the service's, which has this test's.
    let (_, before) = outside("nice", &[]);
    let nice = before.trim().parse::<u32>().map_or(7, |nice| nice.max(7));
    let told = called(&service, "", (as_root, own), shows);
    let expected = format!("0027\n{nice}\n1\n777\n5000\nSCHED_BATCH\nidle");
    assert_eq!(told.text(), expected, "{:?}", told.output);
    let control = called(&service, "", ("", ""), shows).text();
    let start = format!("0022\n{before}");
    assert!(control.starts_with(&start), "{control}");
    assert!(control.contains("unlimited"), "{control}");
    assert!(control.contains("SCHED_OTHER"), "{control}");
    assert!(!control.ends_with("idle"), "{control}");
}

#[test]
fn too_little_for_a_jail_is_told() {
    let service = Service::start("");
    let told = called(&service, "", ("", "ulimit -u 1"), "true");
    let said = String::from_utf8_lossy(&told.output.stderr).into_owned();
    assert_eq!(told.output.status.code(), Some(125), "{said}");
    assert!(said.contains("own RLIMIT_NPROC allows 1"), "{said}");
}

/// Groups of a caller's, one above the other, in the hierarchy that has a controller.
struct CallerGroups {
    top: PathBuf,
    is_v1: bool,
}

impl CallerGroups {
    fn new(controller: &str, name: &str) -> CallerGroups {
        let v1 = Path::new("/sys/fs/cgroup").join(controller);
        let is_v1 = v1.join("cgroup.procs").exists();
        let hierarchy = if is_v1 {
            &v1
        } else {
            Path::new("/sys/fs/cgroup")
        };
        let groups = CallerGroups {
            top: hierarchy.join(format!("callers-{name}-{}", std::process::id())),
            is_v1,
        };
        if !is_v1 {
            let control = hierarchy.join("cgroup.subtree_control");
            std::fs::write(control, format!("+{controller}")).expect("root hands controllers down");
        }
        std::fs::create_dir_all(groups.top.join("leaf")).expect("root makes groups");
        groups
    }

    /// Sets a limit of the upper group: the file of v1, and that of v2.
    fn limit(&self, (v1, v2): (&str, &str), value: &str) -> String {
        let file = self.top.join(if self.is_v1 { v1 } else { v2 });
        std::fs::write(&file, value).expect("root sets limits");
        file.display().to_string()
    }

    /// A line of a shell that enters the lower group.
    fn enter(&self) -> String {
        format!("echo $$ > {}/leaf/cgroup.procs\n", self.top.display())
    }
}

impl Drop for CallerGroups {
    fn drop(&mut self) {
        for group in [self.top.join("leaf"), self.top.clone()] {
            eventually("a group can be removed", || {
                std::fs::remove_dir(&group).is_ok()
            });
        }
    }
}

#[test]
fn memory_of_a_run_is_at_most_its_caller_s_group_s() {
    let service = Service::start("");
    let groups = CallerGroups::new("memory", "memory");
    let file = groups.limit(("memory.limit_in_bytes", "memory.max"), "100663296");
    let program =
        "python3 -c \"len(bytearray(b'x') * (120 << 20)); print(chr(97) + 2 * chr(108))\"";
    let option = "--memory 200M --disk 1M";
    let control = called(&service, option, ("", ""), program);
    assert_eq!(control.text(), "all", "the control: {:?}", control.output);
    let held = called(&service, option, (&groups.enter(), ""), program);
    assert_ne!(held.text(), "all", "{:?}", held.output);
    assert_eq!(
        held.lowered(),
        [("memory".to_owned(), 96 << 20, file.clone())]
    );
    let limit = held.report["findings"].to_string();
    assert!(
        limit.contains(&file) && !limit.contains("--memory"),
        "{limit}"
    );
}

#[test]
fn tasks_and_cpus_of_a_run_are_at_most_its_caller_s_group_s() {
    let service = Service::start("");
    let tasks = CallerGroups::new("pids", "pids");
    let file = tasks.limit(("pids.max", "pids.max"), "9");
    let shares = CallerGroups::new("cpu", "cpu");
    let share = shares.limit(("cpu.cfs_quota_us", "cpu.max"), "50000");
    let control = called(&service, "", ("", ""), STARTS);
    assert_eq!(control.text(), "all", "the control: {:?}", control.output);
    // In one hierarchy a process is in one group alone: the second is entered where it is another's.
    let mut enter = tasks.enter();
    let mut expected = vec![("pids".to_owned(), 9, file)];
    if shares.is_v1 {
        enter += &shares.enter();
        expected.insert(0, ("cpu".to_owned(), 50, share));
    }
    let held = called(&service, "", (&enter, ""), STARTS);
    assert_ne!(held.text(), "all", "{:?}", held.output);
    assert_eq!(held.lowered(), expected);
    if shares.is_v1 {
        assert_eq!(
            held.report["limits"]["cpu_percent"], 50,
            "{}",
            held.report["limits"]
        );
    }
}

// Elsewhere guests have one CPU, of which nobody can be held to the first.
expected!(a_cpuset_of_the_caller_s_holds_at_the_start_alone: on [SYSTEMD_6_12]);

/// Groups of a caller's that hold it to the first CPU, and the line by which it enters them.
fn on_the_first_cpu(name: &str) -> (CallerGroups, String) {
    let groups = CallerGroups::new("cpuset", name);
    let mut places = vec![groups.top.clone()];
    if groups.is_v1 {
        places.push(groups.top.join("leaf"));
    }
    for place in &places {
        for file in ["cpuset.cpus", "cpuset.mems"] {
            std::fs::write(place.join(file), "0").expect("root sets them");
        }
    }
    let enter = groups.enter();
    (groups, enter)
}

#[test]
fn a_cpuset_of_the_caller_s_holds_at_the_start_alone() {
    let service = Service::start("");
    let (_groups, enter) = on_the_first_cpu("cpuset");
    let asks = "nproc; taskset -p -c 1 $$ > /dev/null 2>&1 && echo moved || echo held";
    let own = format!("({asks}) >&2");
    let told = called(&service, "", (&enter, &own), asks);
    let control = String::from_utf8_lossy(&told.output.stderr).into_owned();
    assert!(
        control.starts_with("1\nheld\n"),
        "the control: the caller itself: {control}"
    );
    assert_eq!(told.text(), "1\nmoved", "{:?}", told.output);
}

#[test]
fn no_group_and_no_real_time_class_of_the_caller_s_is_its_run_s() {
    let service = Service::start("");
    let (groups, mut enter) = on_the_first_cpu("none");
    let more = ["cpu", "blkio"].map(|name| groups.is_v1.then(|| CallerGroups::new(name, "none")));
    enter.extend(more.iter().flatten().map(CallerGroups::enter));
    let name = format!("callers-none-{}", std::process::id());
    let sleeps = format!("sleep 1.{}", std::process::id());
    let of = |pid: &str| std::fs::read_to_string(format!("/proc/{pid}/cgroup"));
    // Where the kernel shares real time between groups, one without a share has none.
    enter += "chrt -r -p 10 $$ 2> /dev/null || true\ncat /proc/self/cgroup >&2; chrt -p $$ >&2\n";
    let script = format!("chrt -p $$; exec {sleeps}");
    std::thread::scope(|scope| {
        let run = scope.spawn(|| called(&service, "", (&enter, ""), &script));
        let found = || outside("pgrep", &["-f", &format!("^{sleeps}$")]).1;
        eventually("the program runs", || !found().is_empty());
        let seen = of(found().trim()).expect("it runs");
        let told = run.join().expect("it ends");
        let control = String::from_utf8_lossy(&told.output.stderr).into_owned();
        assert!(control.contains(&name), "the control: {control}");
        assert!(!seen.contains(&name), "{seen}");
        assert!(told.text().contains("SCHED_OTHER"), "{}", told.text());
        turnkey_tests::measured(
            control
                .lines()
                .find(|line| line.contains("SCHED"))
                .unwrap_or(""),
        );
    });
}
