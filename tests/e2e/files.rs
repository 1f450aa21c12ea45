//! The host's files: nothing changes, nothing fills up, and nothing planted beside them is followed.

use std::io::Read;
use std::os::unix::fs::{MetadataExt, lchown, symlink};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use turnkey_expectations::expected;
use turnkey_tests::{Ran, Run, binary, finish, measured, outside, scratch};

expected!(
    not_on[ORDINARY_6_12],
    "what is planted and collected is looked at by the command"
);

/// Every path below a directory with its kind, mode, owner, size, times and content.
fn fingerprint(directory: &Path) -> String {
    let show = directory.display().to_string();
    let look = format!(
        "cd {show} && find . -printf '%p %y %m %U %G %s %T@ %C@ %l\\n' | sort && \
         find . -type f -print0 | sort -z | xargs -0 -r sha256sum"
    );
    outside("sh", &["-c", &look]).1
}

const DESTROY: &str = "echo x >> kept; rm -rf tree; chmod 777 .; mkdir made; ln -s / link; \
                       mv other moved; echo ready; sleep ${1:-0}";

fn tree() -> Run {
    let run = Run::new()
        .option("--unmonitored")
        .file("kept", "before")
        .file("other", "other");
    std::fs::create_dir_all(run.path().join("tree/deep")).expect("directories can be made");
    std::fs::write(run.path().join("tree/deep/file"), "deep").expect("a file can be made");
    run
}

/// Programs put what is temporary into /var/tmp as well: it is as large as /tmp, as safe, and as short-lived.
#[test]
fn what_is_temporary_has_two_places() {
    let place = format!("/var/tmp/turnkey-{}", std::process::id());
    let script = format!(
        "echo kept > {place} && cat {place} && ls -A /tmp && stat -c %a /var/tmp && \
         awk '$2 ~ \"^/(var/)?tmp$\" {{ print $3, $4 }}' /proc/mounts | sort -u | sed s/,uid.*//"
    );
    let ran = Run::new()
        .option("--unmonitored")
        .option("--scratch /tmp=1M")
        .shell(&script);
    ran.expect_code(0);
    ran.expect(
        ran.stdout == "kept\n1777\ntmpfs rw,nosuid,nodev,relatime,size=1024k,nr_inodes=256\n",
        "a file system of its own, with the same bounds",
    );
    assert!(!Path::new(&place).exists(), "nothing of it is the host's");
}

/// A pool of as many workers as the host has CPUs would be more than a jail may start.
#[test]
fn cpus_are_counted_as_the_jail_has_them() {
    let (_, hosts) = outside("getconf", &["_NPROCESSORS_ONLN"]);
    let hosts: u32 = hosts.trim().parse().expect("a number");
    for (share, count) in [(100, 1), (150, hosts.min(2)), (100 * hosts, hosts)] {
        let ran = Run::new()
            .option(&format!("--unmonitored --cpu {share}%"))
            .shell("getconf _NPROCESSORS_ONLN; find /sys/devices/system/cpu -type f | wc -l");
        ran.expect(
            ran.stdout == format!("{count}\n3\n"),
            "and the lists are all there is",
        );
    }
}

/// A program that looks for the host's hardware finds nothing to list; one that counts CPUs finds what it asks for.
#[test]
fn what_is_made_in_sys_is_found_by_name_and_not_listed() {
    for option in ["--cpu 100%", "--root-mode overlay", "--user root"] {
        let ran = Run::new().option("--unmonitored").option(option).shell(
            "for place in /sys /sys/devices /sys/devices/system; do ls $place 2> /dev/null && echo $place listed; done
             cat /sys/devices/system/cpu/online; getconf _NPROCESSORS_ONLN; python3 -c 'import os; print(os.cpu_count())'; \
             lscpu | grep -c ^CPU.s.:; mkdir /sys/made 2> /dev/null && ls -d /sys/made",
        );
        let made = if option.contains("overlay") {
            "/sys/made\n"
        } else {
            ""
        };
        ran.expect(ran.stdout == format!("0\n1\n1\n1\n{made}"), option);
    }
}

#[test]
fn j13_the_working_directory_is_bit_for_bit_what_it_was() {
    let run = tree();
    // The control: outside, the same script changes it.
    let (control, place) = (tree(), |run: &Run| run.path().display().to_string());
    let before = fingerprint(control.path());
    outside(
        "sh",
        &["-c", &format!("cd {} && {DESTROY}", place(&control))],
    );
    assert_ne!(fingerprint(control.path()), before);

    let before = fingerprint(run.path());
    let ran = run.shell(DESTROY);
    ran.expect(ran.stdout == "ready\n", "inside, all of it was done");
    assert_eq!(fingerprint(ran.directory.path()), before);
}

#[test]
fn j13_a_killed_supervisor_leaves_the_working_directory_as_it_was() {
    let run = tree();
    let before = fingerprint(run.path());
    for milliseconds in [5, 20, 40, 80, 160, 1500] {
        let mut command = run.command(&["/bin/sh", "-c", DESTROY, "sh", "60"]);
        let command = command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut turnkey = command.spawn().expect("turnkey can be started");
        std::thread::sleep(Duration::from_millis(milliseconds));
        turnkey.kill().expect("it can be killed");
        turnkey.wait().expect("it can be waited for");
        assert_eq!(fingerprint(run.path()), before, "after {milliseconds} ms");
    }
}

const FILL: &str = r"
import errno, os, sys
def fill(where, make, most):
    made, name = 0, 'all'
    for number in range(most):
        try:
            make(f'{where}/{number}')
            made += 1
        except OSError as error:
            name = errno.errorcode[error.errno]
            break
    print(name, made)
def empty(path):
    open(path, 'w').close()
def sparse(path):
    with open(path, 'w') as file:
        file.truncate(1 << 36)
fill(sys.argv[1], empty, 100000)
for name in os.listdir(sys.argv[1]):
    os.unlink(sys.argv[1] + '/' + name)
fill(sys.argv[1], os.mkdir, 100000)
os.mkdir(sys.argv[2] + '/big')
fill(sys.argv[2] + '/big', sparse, 1)
";

const ALL_OF_THEM: &str = "all 100000\nall 100000\nall 1\n";

expected!(
    j55_a_memory_file_system_is_bounded_in_files_and_in_bytes,
    j55_a_hundred_thousand_directories_are_memory_of_the_jail,
    j55_names_and_depths_made_to_hurt_reach_neither_terminal_nor_json: at_night,
    "a hundred thousand files; `hostile::j55_` and the tests of rendering have the names"
);
#[test]
fn j55_a_memory_file_system_is_bounded_in_files_and_in_bytes() {
    // The control is in memory as well, so that it takes no minute.
    let place = tempfile::tempdir_in("/dev/shm").unwrap();
    let name = place.path().display().to_string();
    let program = ["-c", FILL, &name, &name];
    let (_, control) = outside("python3", &program);
    assert_eq!(control, ALL_OF_THEM, "the control: no bound outside");

    let ran = Run::new()
        .option("--unmonitored")
        .option("--scratch /tmp=4M")
        .run(&["python3", "-c", FILL, "/tmp", "/workspace"]);
    ran.expect_code(0);
    let lines: Vec<_> = ran.stdout.lines().map(str::to_owned).collect();
    for line in lines.iter().take(2) {
        let made: u64 = line
            .trim_start_matches("ENOSPC ")
            .parse()
            .unwrap_or(u64::MAX);
        ran.expect(made <= 1024, "as many files as pages");
    }
    ran.expect(
        lines.last().is_some_and(|line| line == "EFBIG 0"),
        "and none of a terabyte",
    );
}

/// Files without a byte take memory of the kernel's, which counts as the jail's.
#[test]
fn j55_a_hundred_thousand_directories_are_memory_of_the_jail() {
    let with = |memory: &str| {
        let options = format!("--unmonitored --memory {memory} --wall 40s --scratch /tmp=1G");
        let run = Run::new().option(&options).option("--file-size 128G");
        run.run(&["python3", "-c", FILL, "/tmp", "/tmp/0"])
    };
    let taken = |ran: &Ran| ran.at("/usage/memory_peak_bytes").as_u64().unwrap_or(0) >> 20;
    let roomy = with("512M");
    roomy.expect_code(0);
    roomy.expect(
        roomy.stdout == ALL_OF_THEM && taken(&roomy) > 64,
        "the control: with room for it, all of it is made, and counts",
    );
    let ran = with("64M");
    measured(&format!(
        "10^5 directories: {} MiB of 512, {} MiB of 64, status {}",
        taken(&roomy),
        taken(&ran),
        ran.at("/status")
    ));
    ran.expect(!ran.stdout.contains("all 100000\nall"), "not with less");
    ran.expect(ran.code != 0 && taken(&ran) <= 64, "within the limit");
}

/// What no terminal is to be sent.
const STEERING: [char; 3] = ['\x1b', '\u{9b}', '\u{202e}'];

const AWKWARD: &str = r"
import os, sys
place = os.fsencode(sys.argv[1])
names = [b'new\nline', b'clear\x1b[2J', b'\x1b]0;title\x07', b'latin\xe9', '\u202egnp.exe'.encode(), b'\xc2\x9b31m', b'back\\slash', b'quote\x22']
for name in names:
    open(place + b'/' + name, 'w').close()
os.chdir(place)
for _ in range(300):
    os.mkdir('d' * 100)
    os.chdir('d' * 100)
for number in range(int(sys.argv[2])):
    os.mkdir(place + b'/many%d' % number)
print(len(names))
";

#[test]
fn j55_names_and_depths_made_to_hurt_reach_neither_terminal_nor_json() {
    // The control: who lists such names as they are writes what steers a terminal.
    let control = scratch();
    let place = control.path().display().to_string();
    let (_, made) = outside("python3", &["-c", AWKWARD, &place, "1"]);
    assert_eq!(made, "8\n");
    let (_, listed) = outside("ls", &["-1N", &place]);
    for bad in STEERING {
        assert!(listed.contains(bad), "the control: {listed:?}");
    }
    let with = |directories: &str| {
        let run = Run::new().option("--unmonitored --memory 1G --wall 50s");
        let ran = run.run(&["python3", "-c", AWKWARD, "/workspace", directories]);
        ran.expect_code(0);
        let left_out = ran.at("/omitted/files_changed").as_u64();
        (ran, left_out)
    };
    let (many, left_out) = with("100000");
    measured(&format!("10^5 directories changed: {:?}", many.took));
    let listed = many.list("/files_changed").len();
    many.expect(listed == 10_000, "the list is bounded");
    many.expect(
        left_out.is_some_and(|count| count > 90_000),
        "and says what is not in it",
    );
    let (ran, left_out) = with("4000");
    ran.expect(left_out == Some(1), "the directory that is too deep");
    // The harness has parsed the report; these names are in it, spelled out.
    let told = |path: &str| {
        ran.list("/files_changed")
            .iter()
            .any(|file| file["path"] == path)
    };
    assert!(told("new\\nline") && told("clear\\x1b[2J") && told("latin\\xe9"));
    for bad in STEERING {
        assert!(!ran.stderr.contains(bad) && !ran.report.to_string().contains(bad));
    }
}

#[test]
fn j58_a_program_cannot_write_its_own_next_profile() {
    const PROFILE: &str =
        "schema = \"turnkey.profile/v1\"\nname = \"mine\"\nextends = [\"untrusted\"]\n";
    let edit = "printf '[limits]\\nmemory = \"2G\"\\n' >> jail.toml; tail -1 jail.toml";
    let control = Run::new().file("jail.toml", PROFILE);
    let place = control.path().display().to_string();
    outside("sh", &["-c", &format!("cd {place} && {edit}")]);
    let edited = std::fs::read_to_string(control.path().join("jail.toml")).unwrap();
    assert_ne!(
        edited, PROFILE,
        "the control: outside, the profile is edited"
    );

    let run = || {
        Run::new()
            .option("--unmonitored")
            .file("jail.toml", PROFILE)
    };
    let ran = run().option("--profile ./jail.toml").shell(edit);
    ran.expect(ran.stdout == "memory = \"2G\"\n", "it was edited inside");
    let after = std::fs::read_to_string(ran.directory.path().join("jail.toml")).unwrap();
    ran.expect(after == PROFILE, "and not outside");

    let run = run();
    let place = run.path().display().to_string();
    let ran = run
        .option("--profile ./jail.toml")
        .option(&format!("--write {place}"))
        .shell("true");
    ran.expect_code(125);
    let reason = format!("the profile {place}/jail.toml lies in {place}, which");
    ran.expect(ran.stderr.contains(&reason), "with the reason");
}

/// turnkey without the harness's own report.
fn bare(arguments: &[&str]) -> std::process::Output {
    let mut command = Command::new(binary());
    command.args(["run", "--unmonitored"]).args(arguments);
    command
        .args(["--", "true"])
        .current_dir("/srv")
        .stdin(Stdio::null());
    let streams = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    finish(streams.spawn().expect("turnkey can be started"))
}

#[test]
fn j12_a_symlink_planted_where_reports_and_events_go_is_replaced() {
    let (directory, victim) = (scratch(), scratch());
    let file = victim.path().join("file");
    std::fs::write(&file, "before").unwrap();
    let link = directory.path().join("planted");
    let name = link.display().to_string();
    let plant = |owner| {
        let _ = std::fs::remove_file(&link);
        symlink(&file, &link).unwrap();
        lchown(&link, Some(owner), Some(owner)).unwrap();
    };
    for owner in [0, 65_534] {
        for flag in ["--events", "--report"] {
            plant(owner);
            let replaced = bare(&[flag, &name]);
            assert_eq!(replaced.status.code(), Some(0), "{replaced:?}");
            assert_eq!(std::fs::read(&file).unwrap(), b"before");
            assert!(link.symlink_metadata().unwrap().is_file());
        }
    }
    plant(0);
    std::fs::write(&link, "after").unwrap();
    assert_eq!(
        std::fs::read(&file).unwrap(),
        b"after",
        "the control: a plain write follows"
    );
}

#[test]
fn j12_a_file_of_another_user_takes_no_events() {
    let directory = scratch();
    let file = directory.path().join("events.jsonl");
    std::fs::write(&file, "theirs").unwrap();
    lchown(&file, Some(65_534), Some(65_534)).unwrap();
    let name = file.display().to_string();
    let mut theirs = std::fs::File::open(&file).unwrap();
    outside("sh", &["-c", "echo control > \"$0\"", &name]);
    let mut seen = String::new();
    theirs.read_to_string(&mut seen).unwrap();
    assert_eq!(seen, "control\n", "the control: a plain write goes in");
    let replaced = bare(&["--events", &name]);
    assert_eq!(replaced.status.code(), Some(0), "{replaced:?}");
    theirs.read_to_string(&mut seen).unwrap();
    assert_eq!(seen, "control\n");
    assert_eq!(
        std::fs::metadata(&file).unwrap().uid(),
        0,
        "a file of its own"
    );
}
