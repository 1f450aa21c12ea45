//! Programs in the kernel that are loaded once for all runs: `turnkey monitor`.
//!
//! Every test has a mount namespace with a BPF file system of its own, so what it loads is nobody
//! else's.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Instant;

use serde_json::Value;
use turnkey_expectations::expected;
use turnkey_tests::{Run, binary, eventually, nothing_is_loaded};

const FOLDER: &str = "/sys/fs/bpf/turnkey";
/// As many slots stay when nobody has them.
const KEPT: usize = 4;

fn monitor(arguments: &[&str]) -> Output {
    let mut command = Command::new(binary());
    command.arg("monitor").args(arguments).stdin(Stdio::null());
    command.output().expect("turnkey can be started")
}

fn load() {
    let loaded = monitor(&["load"]);
    assert!(loaded.status.success(), "{loaded:?}");
}

/// The versions that are loaded.
fn status() -> Vec<Value> {
    let told = monitor(&["status", "--json"]);
    let page: Value = serde_json::from_slice(&told.stdout).expect("it is JSON");
    assert_eq!(page["schema"], "turnkey.monitor/v1");
    page["versions"].as_array().expect("a list").clone()
}

/// The jails of the only version.
fn jails() -> Vec<Value> {
    let versions = status();
    assert_eq!(versions.len(), 1, "{versions:?}");
    versions[0]["jails"].as_array().expect("a list").clone()
}

fn slots() -> usize {
    let version = status();
    let folder = Path::new(FOLDER).join(version[0]["name"].as_str().expect("a name"));
    let slots = std::fs::read_dir(folder.join("slots"));
    slots.expect("the slots can be listed").count()
}

/// The ids of the programs that a process holds.
fn programs_of(pid: u32) -> BTreeSet<u32> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/fdinfo"));
    let texts = entries
        .into_iter()
        .flatten()
        .filter_map(|entry| std::fs::read_to_string(entry.ok()?.path()).ok());
    let id = |text: String| {
        let id = text.lines().find_map(|line| line.strip_prefix("prog_id:"));
        id.and_then(|id| id.trim().parse().ok())
    };
    texts.filter_map(id).collect()
}

/// A run of this script, started now. It can be given a line.
fn start(run: &Run, script: &str) -> Child {
    let mut command = run.command(&["/bin/sh", "-c", script]);
    let command = command.stdin(Stdio::piped());
    let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("turnkey can be started")
}

fn let_go(turnkey: &mut Child) {
    let input = turnkey.stdin.as_mut().expect("it has a pipe");
    input.write_all(b"go\n").expect("it listens");
}

/// Where the monitor of a report says that its programs come from.
fn effective(ran: &turnkey_tests::Ran) -> String {
    let layers = ran.list("/enforcement").iter();
    let mut monitors = layers.filter(|layer| layer["layer"] == "monitor");
    let monitor = monitors.next().expect("the monitor is a layer");
    monitor["effective"].as_str().expect("words").to_owned()
}

#[test]
fn a_run_takes_programs_that_are_loaded_and_loads_none() {
    nothing_is_loaded();
    let before = Run::new().shell("true");
    before.expect(!effective(&before).contains("loaded before"), "nothing was");
    load();
    let run = Run::new();
    let first = start(&run, "sleep 600");
    eventually("it is watched", || jails().len() == 1);
    let second_run = Run::new();
    let second = start(&second_run, "sleep 600");
    eventually("both are watched", || jails().len() == 2);
    let held = [programs_of(first.id()), programs_of(second.id())];
    for mut turnkey in [first, second] {
        turnkey.kill().expect("it can be killed");
        turnkey.wait().expect("it can be waited for");
    }
    assert!(held[0].len() >= 12, "it holds the programs: {held:?}");
    assert_eq!(held[0], held[1], "both hold the same ones");
    let ran = Run::new().shell("true");
    ran.expect_code(0);
    ran.expect(ran.at("/verdict") == "clean", "clean");
    ran.expect(effective(&ran).contains("programs loaded before"), "told");
}

#[test]
fn status_tells_version_tier_and_jails() {
    nothing_is_loaded();
    let told = monitor(&["status"]);
    assert_eq!(told.status.code(), Some(1), "nothing is loaded");
    load();
    assert_eq!(monitor(&["status"]).status.code(), Some(0));
    let run = Run::new();
    let turnkey = start(&run, "read line < /etc/hostname; sleep 2");
    let mark = format!("turnkey-{}-", turnkey.id());
    let is_told = |jail: &Value| {
        let place = jail["cgroup"].as_str().unwrap_or_default();
        place.contains(&mark) && jail["records"].as_u64().is_some_and(|count| count > 3)
    };
    eventually("its jail is told", || jails().iter().any(is_told));
    let version = &status()[0];
    let name = version["name"].as_str().unwrap_or_default();
    let (abi, digest) = name.split_once('-').unwrap_or_default();
    assert_eq!(abi, turnkey_abi::ABI_VERSION.to_string(), "{name}");
    assert!(
        digest.len() >= 16 && digest.bytes().all(|byte| byte.is_ascii_hexdigit()),
        "{name}"
    );
    assert_eq!(version["current"], true);
    let ran = run.end(turnkey, Instant::now());
    ran.expect_code(0);
    let tier = version["tier"].as_str().expect("a tier");
    ran.expect(effective(&ran).starts_with(tier), "the tier of the run");
    assert_eq!(
        jails(),
        [Value::Null; 0],
        "the jail is forgotten with its run"
    );
}

#[test]
fn jails_side_by_side_keep_to_their_own_rules() {
    nothing_is_loaded();
    load();
    let rule = |path: &str| {
        format!(
            "[[rule]]\nid = \"own\"\non = \"open\"\npath = [\"{path}\"]\naction = \"kill\"\nseverity = \"high\"\nwhy = \"test\"\n"
        )
    };
    // Each reads what only the other must not, until both have; then what it must not itself.
    let script = |mine: &str, other: &str| {
        format!(
            "for i in 1 2 3 4 5 6 7 8; do cat {other} > /dev/null || exit 9; sleep 0.1; done; echo read; cat {mine}; echo survived"
        )
    };
    let (one, other) = ("/workspace/one", "/workspace/other");
    let with_both = |mine| {
        let run = Run::new().profile(&rule(mine));
        run.file("one", "1").file("other", "2")
    };
    let (first_run, second_run) = (with_both(one), with_both(other));
    let started = Instant::now();
    let first = start(&first_run, &script(one, other));
    let second = start(&second_run, &script(other, one));
    for (ran, path) in [
        (first_run.end(first, started), one),
        (second_run.end(second, started), other),
    ] {
        ran.expect_code(121);
        ran.expect(ran.stdout == "read\n", "the other's rule is not its own");
        ran.expect(ran.violations()[0]["rule"] == "own", "its own rule");
        ran.expect(
            ran.violations()[0].to_string().contains(path),
            "its own file",
        );
    }
    assert_eq!(monitor(&["status"]).status.code(), Some(0));
}

expected!(
    a_flood_in_one_jail_loses_nothing_of_another: at_night,
    "floods; the other tests of `shared::` have what jails share"
);
#[test]
fn a_flood_in_one_jail_loses_nothing_of_another() {
    nothing_is_loaded();
    load();
    let flooding_run = Run::new();
    let flooding = {
        // Every open is of another name, so that none is a repetition.
        let program = "import os
for number in range(200000):
    try: os.open(f'/tmp/none-{number}', os.O_RDONLY)
    except OSError: pass";
        let mut command = flooding_run.command(&["python3", "-c", program]);
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("turnkey can be started")
    };
    let lost = || {
        jails()
            .iter()
            .filter_map(|jail| jail["lost"].as_u64())
            .sum::<u64>()
    };
    let is_busy = |jail: &Value| jail["records"].as_u64().is_some_and(|count| count > 200);
    eventually("it is at it", || jails().iter().any(is_busy));
    let stop = |signal: &str| {
        let (status, _) = turnkey_tests::outside("kill", &[signal, &flooding.id().to_string()]);
        assert!(status.success());
    };
    stop("-STOP");
    eventually("its rings are full", || lost() > 1000);
    let quiet =
        Run::new().shell("for i in 1 2 3 4 5 6 7 8 9; do cat /etc/hostname; done > /dev/null");
    let lost_meanwhile = lost();
    stop("-CONT");
    quiet.expect_code(0);
    quiet.expect(
        quiet.at("/events/complete") == true,
        "nothing of it is lost",
    );
    quiet.expect(quiet.at("/verdict") == "clean", "clean");
    assert!(lost_meanwhile > 1000, "the flood went on");
    let flooded = flooding_run.end(flooding, Instant::now());
    flooded.expect(
        flooded.at("/events/complete") == false,
        "its own loss is told",
    );
    flooded.expect(flooded.at("/verdict") == "inconclusive", "and decides");
}

#[test]
fn those_who_load_at_the_same_time_do_not_race() {
    nothing_is_loaded();
    // One of them is killed on the way: nobody trips over what it left.
    let loader = || {
        let mut command = Command::new(binary());
        command.args(["monitor", "load"]).stdin(Stdio::null());
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("turnkey can be started")
    };
    let mut killed = loader();
    eventually("it is at work", || {
        Path::new(FOLDER).join("loading").exists()
    });
    killed.kill().expect("it can be killed");
    killed.wait().expect("it can be waited for");
    let loaders: Vec<Child> = (0..6).map(|_| loader()).collect();
    let told: Vec<String> = loaders
        .into_iter()
        .map(|loader| {
            let output = turnkey_tests::finish(loader);
            assert!(output.status.success(), "{output:?}");
            String::from_utf8_lossy(&output.stderr).into_owned()
        })
        .collect();
    let loaded = told.iter().filter(|told| !told.contains("already")).count();
    assert_eq!(loaded, 1, "{told:?}");
    assert_eq!(status().len(), 1);
    let entries = std::fs::read_dir(FOLDER).expect("the folder is there");
    assert_eq!(entries.count(), 1, "nothing unfinished is left");
    Run::new().shell("true").expect_code(0);
}

/// The group in which nobody is, of the only version that is loaded.
fn anchor_group() -> PathBuf {
    let hierarchies = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"].map(Path::new);
    let is_v2 = |path: &&Path| path.join("cgroup.procs").exists();
    let hierarchy = hierarchies.into_iter().find(is_v2);
    let version = status();
    let name = version[0]["name"].as_str().expect("a name").to_owned();
    let hierarchy = hierarchy.expect("version 2 is mounted in one of them");
    hierarchy.join(format!("turnkey.{name}"))
}

#[test]
fn hooks_for_sockets_stay_attached_to_an_empty_group_as_long_as_they_are_loaded() {
    nothing_is_loaded();
    load();
    let group = anchor_group();
    assert!(group.exists(), "{} is there", group.display());
    let inside = std::fs::read_to_string(group.join("cgroup.procs"));
    assert_eq!(inside.expect("it can be read"), "", "nobody is in it");
    let version = status();
    let folder = Path::new(FOLDER).join(version[0]["name"].as_str().expect("a name"));
    let links = std::fs::read_dir(folder.join("anchor")).expect("its links are kept");
    assert_eq!(links.count(), 7, "one for each kind of act on a socket");
    assert!(monitor(&["unload"]).status.success());
    assert!(!group.exists(), "it is gone with the programs");
}

#[test]
fn unloading_takes_nothing_from_a_jail_that_runs() {
    nothing_is_loaded();
    load();
    let run = Run::new();
    let mut turnkey = start(&run, "read go; cat /etc/shadow; echo survived");
    eventually("it is watched", || jails().len() == 1);
    assert!(monitor(&["unload"]).status.success());
    assert!(
        !Path::new(FOLDER).exists(),
        "nothing of it is left in the file system"
    );
    assert_eq!(status(), [Value::Null; 0]);
    // A run of a later moment loads for itself, beside.
    let beside = Run::new().shell("true");
    beside.expect(!effective(&beside).contains("loaded before"), "its own");
    let_go(&mut turnkey);
    let ran = run.end(turnkey, Instant::now());
    ran.expect_code(121);
    ran.expect(!ran.stdout.contains("survived"), "it was killed");
    ran.expect(
        ran.violations()[0]["rule"] == "credential-file",
        "by the rule",
    );
    ran.expect(ran.at("/events/complete") == true, "with all its evidence");
}

#[test]
fn a_killed_reader_leaves_no_rule_behind() {
    nothing_is_loaded();
    load();
    for _ in 0..3 {
        let run = Run::new();
        let mut turnkey = start(&run, "sleep 600");
        eventually("it is watched", || jails().len() == 1);
        let group = jails()[0]["cgroup"].as_str().map(PathBuf::from);
        let group = group.expect("its group is known");
        turnkey.kill().expect("it can be killed");
        turnkey.wait().expect("it can be waited for");
        eventually("its group is gone", || !group.exists());
        // The next one finds the slot, and what was in it.
        let ran = Run::new().shell("cat /etc/hostname > /dev/null");
        ran.expect(ran.at("/verdict") == "clean", "clean");
        assert_eq!(jails(), [Value::Null; 0], "no jail is left");
    }
    assert_eq!(slots(), KEPT);
}

#[test]
fn more_jails_than_slots_are_all_watched_and_the_slots_go_again() {
    nothing_is_loaded();
    load();
    let runs: Vec<Run> = (0..KEPT + 3).map(|_| Run::new()).collect();
    let script = "read go; cat /etc/shadow; echo survived";
    let mut started: Vec<Child> = runs.iter().map(|run| start(run, script)).collect();
    eventually("all are watched", || jails().len() == KEPT + 3);
    assert_eq!(slots(), KEPT + 3);
    started.iter_mut().for_each(let_go);
    for (run, turnkey) in runs.into_iter().zip(started) {
        let ran = run.end(turnkey, Instant::now());
        ran.expect_code(121);
        ran.expect(ran.at("/events/complete") == true, "all of its evidence");
    }
    assert_eq!(slots(), KEPT);
    assert_eq!(jails(), [Value::Null; 0]);
}

#[test]
fn programs_that_cannot_be_used_are_taken_away_by_the_command_that_is_told() {
    load();
    let few = format!("ulimit -n 6; exec {} monitor status", binary().display());
    let told = Command::new("sh").args(["-c", &few]).output();
    let told = told.expect("a shell can be started").stderr;
    let told = String::from_utf8_lossy(&told);
    assert!(
        told.contains("ulimit -n 1024") && !told.contains("unload"),
        "they are no damage: {told}"
    );
    let version = status();
    let folder = Path::new(FOLDER).join(version[0]["name"].as_str().expect("a name"));
    std::fs::remove_file(folder.join("held")).expect("it is pinned there");
    let ran = Run::new().run(&["true"]);
    ran.expect_code(125);
    ran.expect(
        ran.stderr
            .contains("fix: take all programs that are loaded away: turnkey monitor unload\n"),
        "told with the command",
    );
    assert!(monitor(&["unload"]).status.success());
    Run::new().run(&["true"]).expect_code(0);
}

/// The filters that are kept, as files.
fn filters() -> Vec<PathBuf> {
    let version = status();
    let folder = Path::new(FOLDER).join(version[0]["name"].as_str().expect("a name"));
    let kept = std::fs::read_dir(folder.join("filters"));
    let kept = kept.into_iter().flatten();
    kept.map(|entry| entry.expect("they can be listed").path())
        .collect()
}

#[test]
fn filters_that_are_kept_let_pass_what_their_own_profile_allows() {
    const ASK: &str =
        "import os\ntry: print(os.memfd_create('x') > 2)\nexcept PermissionError: print('no')";
    let few = "[syscalls]\ninherit = false\nallow = [\"@basic\", \"@file\", \"@process\", \"@thread\", \"@time\", \"@signal\"]\n";
    nothing_is_loaded();
    load();
    let (wide, narrow) = (Run::new, || Run::new().profile(few));
    for kept in [1, 2, 2] {
        // The first of each makes its filters; those of the others are there.
        let ran = wide().python(ASK);
        ran.expect(ran.stdout == "True\n", "what is allowed passes");
        if kept > 1 {
            let ran = narrow().python(ASK);
            ran.expect(ran.stdout == "no\n", "what is not does not");
        }
        assert_eq!(filters().len(), kept, "one for each list of calls");
    }
    // A map that holds something else: whoever finds it makes filters as if there were none.
    for file in filters() {
        std::fs::remove_file(&file).expect("root may");
        let tables = std::fs::read_dir(file.ancestors().nth(2).expect("a folder").join("tables"));
        let table = tables.expect("tables are kept").next().expect("one is");
        std::fs::hard_link(table.expect("it can be listed").path(), &file)
            .expect("a map can have two names");
    }
    let ran = narrow().python(ASK);
    ran.expect(
        ran.stdout == "no\n",
        "what is no filter is not taken for one",
    );
    wide().python(ASK).expect_code(0);
}

/// What a user without privileges makes of the folder's name, and as what `ls` would show it.
const TAKEN: [(&str, &str); 3] = [
    ("mkdir -m 700 /sys/fs/bpf/turnkey", "owner 65534, mode 700"),
    ("mkdir -m 777 /sys/fs/bpf/turnkey", "owner 65534, mode 777"),
    (
        "ln -s /sys/fs/bpf/elsewhere /sys/fs/bpf/turnkey",
        "owner 65534, and it is no directory",
    ),
];

expected!(
    a_folder_that_somebody_else_made_keeps_nobody_from_running: at_night,
    "loads the programs for each kind of folder; `shared::what_somebody_else` has one"
);
/// As `mount -t bpf bpf /sys/fs/bpf` makes it: everybody may make directories in it. Takes some seconds: the programs are
/// loaded for each way by the run and by `monitor load`.
#[test]
fn a_folder_that_somebody_else_made_keeps_nobody_from_running() {
    nothing_is_loaded();
    for (taken, owned) in TAKEN {
        set_mode("/sys/fs/bpf", 0o1777);
        let mut command = Command::new("/bin/sh");
        let nobody = turnkey_tests::NOBODY;
        std::os::unix::process::CommandExt::uid(&mut command, nobody);
        let made = command.args(["-c", taken]).status();
        assert!(made.is_ok_and(|made| made.success()), "the control");
        expect_own_programs(owned);
        let refused = monitor(&["load"]);
        assert_eq!(refused.status.code(), Some(125), "{refused:?}");
        let told = String::from_utf8_lossy(&refused.stderr);
        let (_, fix) = told.split_once("trusted: ").expect("a fix is told");
        assert!(told.contains(owned), "{told}");
        let fixed = Command::new("/bin/sh").args(["-c", fix]).status();
        assert!(fixed.is_ok_and(|fixed| fixed.success()), "{fix}");
        load();
        let ran = Run::new().shell("echo ran");
        ran.expect(layer(&ran).contains("loaded before"), "the fix works");
        assert!(monitor(&["unload"]).status.success());
    }
}

#[test]
fn what_somebody_else_could_have_put_there_is_not_used() {
    nothing_is_loaded();
    load();
    let ran = Run::new().shell("echo ran");
    ran.expect(layer(&ran).contains("loaded before"), "the control");
    set_mode(FOLDER, 0o755);
    expect_own_programs("mode 755");
    set_mode(FOLDER, 0o700);
    // Without the sticky bit root's folder can be renamed, and another be in its place.
    set_mode("/sys/fs/bpf", 0o777);
    expect_own_programs("mode 777");
    set_mode("/sys/fs/bpf", 0o1777);
    let ran = Run::new().shell("echo ran");
    ran.expect(layer(&ran).contains("loaded before"), "with it, it cannot");
}

fn set_mode(path: &str, mode: u32) {
    let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
    std::fs::set_permissions(path, mode).expect("root may");
}

/// What the report says of the monitor.
fn layer(ran: &turnkey_tests::Ran) -> String {
    let layers = ran.at("/enforcement").as_array().cloned();
    let mut layers = layers.into_iter().flatten();
    let monitor = layers.find(|layer| layer["layer"] == "monitor");
    monitor.expect("it is reported")["effective"].to_string()
}

/// A run is watched by programs of its own, and the reason is told once, with whose the place is.
#[track_caller]
fn expect_own_programs(owned: &str) {
    let ran = Run::new().file(".netrc", "x").shell("echo ran; cat .netrc");
    ran.expect_code(121);
    ran.expect(ran.stdout == "ran\n", "it ran, and was watched");
    let told = ran.stderr.matches("loaded for this run alone").count();
    ran.expect(told == 1, "the reason is told once");
    ran.expect(ran.stderr.contains(owned), "and whose it is");
    ran.expect(layer(&ran).contains(owned), "in the report as well");
    ran.expect(ran.stderr.contains("chmod go-w /sys/fs/bpf"), "the fix");
}
