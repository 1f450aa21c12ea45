//! A root that somebody hostile has filled, and paths that are turned while jails start.

use std::os::unix::fs::{PermissionsExt, lchown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use turnkey_expectations::expected;
use turnkey_tests::{NOBODY, Ran, Run, measured, outside, scratch};

expected!(
    not_on[ORDINARY_6_12],
    "a tree is looked at by the command before it becomes a root"
);

/// How often a path is turned at least.
const FLIPS: u64 = 100_000;

/// A root with a shell and nothing else, in a directory of its own.
struct Rootfs {
    keep: tempfile::TempDir,
}

impl Rootfs {
    fn new() -> Rootfs {
        let keep = scratch();
        open_to_all(keep.path());
        let root = keep.path().join("rootfs");
        for directory in ["usr/bin", "etc", "srv/data"] {
            std::fs::create_dir_all(root.join(directory)).expect("a directory can be made");
        }
        let (_, libraries) = outside("ldd", &["/bin/sh", "/bin/cat", "/bin/ls"]);
        let libraries = libraries
            .split_whitespace()
            .filter(|word| word.starts_with('/'));
        let libraries = libraries.filter(|word| !word.ends_with(':'));
        for file in libraries.chain(["/bin/sh", "/bin/cat", "/bin/ls", "/bin/touch"]) {
            copy(file, &root);
        }
        std::fs::write(root.join("etc/motd"), "of the root\n").expect("a file can be made");
        Rootfs { keep }
    }

    fn path(&self) -> PathBuf {
        self.keep.path().join("rootfs")
    }

    fn run(&self) -> Run {
        Run::new().option(&format!("--root {}", self.path().display()))
    }

    /// Replaces what is at `name` by a symlink.
    fn plant(&self, name: &str, text: &Path) {
        let place = self.path().join(name);
        std::fs::create_dir_all(place.parent().expect("below the root")).expect("directories");
        symlink(text, place).expect("a symlink can be made");
    }
}

/// To the same place, whatever links lead there on the host.
fn copy(file: &str, root: &Path) {
    let to = root.join(file.trim_start_matches('/'));
    std::fs::create_dir_all(to.parent().expect("it is in a directory")).expect("directories");
    std::fs::copy(file, &to).expect("a file of the host can be copied");
}

fn open_to_all(path: &Path) {
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(path, mode).expect("a test owns its directory");
}

/// Every path below a directory with its kind, size and time of change.
fn fingerprint(directory: &Path) -> String {
    let show = directory.display().to_string();
    let format = "%P %y %m %U %s %T@ %C@ %l\n";
    let (_, found) = outside("find", &[&show, "-printf", format]);
    let mut lines: Vec<&str> = found.lines().collect();
    lines.sort_unstable();
    lines.join("\n")
}

#[test]
fn the_root_of_a_profile_takes_the_place_of_the_hosts() {
    let rootfs = Rootfs::new();
    let ran = rootfs
        .run()
        .shell("cat /etc/motd; ls /; touch /usr/x /srv/x /etc/x; cat /etc/passwd");
    ran.expect(
        ran.stdout.starts_with("of the root\n"),
        "its files are there",
    );
    ran.expect(!ran.stdout.contains("\nopt\n"), "the host's are not");
    ran.expect(
        ran.stdout.contains("jail:x:1000"),
        "the account files are the jail's",
    );
    ran.expect(
        !rootfs.path().join("usr/x").exists(),
        "it cannot be written",
    );
}

#[test]
fn a_directory_of_the_host_comes_where_the_root_has_a_place() {
    let (rootfs, data) = (Rootfs::new(), scratch());
    open_to_all(data.path());
    std::fs::write(data.path().join("file"), "of the host\n").unwrap();
    let place = data.path().display().to_string();
    let cat = format!("cat {place}/file");
    let read = format!("--read {place}");
    // Nothing of the root covers it: turnkey makes the way there on its own tmpfs.
    let ran = rootfs.run().option(&read).shell(&cat);
    ran.expect(ran.stdout == "of the host\n", "beside the root's own");
    std::fs::create_dir_all(rootfs.path().join("var/empty")).unwrap();
    let ran = rootfs.run().option("--write /var/lib").shell("true");
    ran.expect_code(125);
    ran.expect(
        ran.stderr.contains("no directory at /var/lib"),
        "told, and no guess",
    );
    ran.expect(!rootfs.path().join("var/lib").exists(), "and not made");
}

#[test]
fn j01_a_mount_target_that_is_a_symlink_is_not_followed() {
    let (rootfs, victim) = (Rootfs::new(), scratch());
    let to_all = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(victim.path(), to_all).unwrap();
    rootfs.plant("opt", victim.path());
    rootfs.plant("srv/link", victim.path());
    // The control: who makes the way as it is written makes it in the victim.
    for made in ["opt/x", "srv/link/y"] {
        std::fs::create_dir_all(rootfs.path().join(made)).unwrap();
    }
    let made = |name: &str| std::fs::remove_dir(victim.path().join(name)).is_ok();
    assert!(made("x") && made("y"));
    let before = fingerprint(victim.path());
    for option in [
        "--scratch /opt/x=1M",
        "--scratch /srv/link=1M",
        "--scratch /srv/link/y=1M",
    ] {
        let ran = rootfs
            .run()
            .option(option)
            .shell("touch /opt/x/made /srv/link/made");
        ran.expect_code(125);
        ran.expect(fingerprint(victim.path()) == before, option);
    }
}

#[test]
fn j02_a_destination_that_climbs_is_refused() {
    let victim = scratch();
    // The control: who mounts at the path as it is written below the root covers the victim.
    let (root, place) = (scratch(), victim.path().display().to_string());
    std::fs::create_dir(root.path().join("tmp")).unwrap();
    let up = "../".repeat(root.path().components().count() + 1);
    let climbing = format!("{}/tmp/{up}{place}", root.path().display());
    let mount = format!("mount -t tmpfs none {climbing} && touch {climbing}/made && ls {place}");
    assert_eq!(naively(&mount), "made\n");
    let ran = Run::new()
        .option(&format!(
            "--scratch /tmp/../../{}=1M",
            victim.path().display()
        ))
        .shell("true");
    ran.expect_code(125);
    ran.expect(ran.stderr.contains("not a plain path"), "with the reason");
    let climbing = format!("--root {}/../etc", victim.path().display());
    let ran = Run::new().option(&climbing).shell("true");
    ran.expect_code(125);
    ran.expect(ran.stderr.contains("not a plain path"), "for a root, too");
}

/// Runs a script as root of a user and mount namespace that ends with it: what a builder of jails
/// without care would do.
fn naively(script: &str) -> String {
    outside(
        "unshare",
        &["--user", "--map-root-user", "--mount", "sh", "-c", script],
    )
    .1
}

#[test]
fn j03_a_null_device_that_is_a_symlink_is_no_mask_and_no_device() {
    let rootfs = Rootfs::new();
    rootfs.plant("dev/null", Path::new("/proc/sys/kernel/core_pattern"));
    let (null, target) = (rootfs.path().join("dev/null"), rootfs.path().join("target"));
    std::fs::write(&target, "").unwrap();
    let bind = format!(
        "mount --bind {0} {1} && cat {1}",
        null.display(),
        target.display()
    );
    let pattern = std::fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap();
    assert_eq!(naively(&bind), pattern, "the control: a bind mount follows");
    std::fs::remove_file(&target).unwrap();

    let ran = rootfs.run().option("--mode observe").shell(
        "echo x > /dev/null && echo took; cat /dev/null; cat /proc/kallsyms /proc/timer_list; \
         echo evil > /proc/sys/kernel/core_pattern",
    );
    ran.expect(ran.stdout == "took\n", "null is null, and a mask is empty");
    let after = std::fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap();
    ran.expect(after == pattern, "nothing was set");
}

#[test]
fn j04_a_console_that_is_a_symlink_is_not_used() {
    let (rootfs, victim) = (Rootfs::new(), scratch());
    let file = victim.path().join("file");
    std::fs::write(&file, "before").unwrap();
    for name in ["dev/console", "dev/pts/0", "dev/ptmx", "dev/tty"] {
        rootfs.plant(name, &file);
    }
    let console = rootfs.path().join("dev/console");
    // The control: who opens it as a console writes to the victim.
    std::fs::write(&console, "written").unwrap();
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "written");
    std::fs::write(&file, "before").unwrap();
    let ran = rootfs.run().shell(
        "for name in console pts/0 tty; do cat /dev/$name; echo x > /dev/$name; done; ls /dev/pts",
    );
    ran.expect(!ran.stdout.contains("before"), "none leads there");
    ran.expect(
        std::fs::read_to_string(&file).unwrap() == "before",
        "nothing was written",
    );
    ran.expect(
        ran.stdout.contains("ptmx"),
        "the terminals are the jail's own",
    );
}

#[test]
fn j05_j06_own_directories_that_are_symlinks_or_fakes_are_not_looked_at() {
    let (rootfs, victim) = (Rootfs::new(), scratch());
    for name in ["dev", "proc", "sys", "run", "tmp", "workspace"] {
        rootfs.plant(name, victim.path());
    }
    // The control: who mounts at that path mounts over the victim.
    let mount = format!(
        "mount -t tmpfs none {}/proc && touch {}/proc/made && ls {}",
        rootfs.path().display(),
        rootfs.path().display(),
        victim.path().display()
    );
    assert_eq!(naively(&mount), "made\n");
    let before = fingerprint(victim.path());
    let ran = rootfs.run().shell(
        "touch /tmp/x /workspace/x; cat /proc/self/comm; cat /proc/mounts; ls -d /sys/* /sys/devices/system/cpu /run",
    );
    ran.expect(
        ran.stdout.starts_with("cat\n") && ran.stdout.contains("none /proc proc ro"),
        "a real procfs",
    );
    ran.expect(
        ran.stdout.ends_with("\n/sys/devices/system/cpu\n") && !ran.stdout.contains("/run\n"),
        "no such place, and no link to the victim",
    );
    ran.expect(
        fingerprint(victim.path()) == before,
        "the victim is as it was",
    );

    let fake = Rootfs::new();
    std::fs::create_dir_all(fake.path().join("proc/self")).unwrap();
    std::fs::write(fake.path().join("proc/self/comm"), "fake\n").unwrap();
    let ran = fake.run().shell("cat /proc/self/comm");
    ran.expect(ran.stdout == "cat\n", "a fake in its place does not show");
}

#[test]
fn j08_a_run_makes_nothing_in_the_root_and_nothing_beside_it() {
    // The control: who makes the way to a mount as it is written leaves it in the root.
    let careless = Rootfs::new();
    let untouched = fingerprint(careless.keep.path());
    let way = careless.path().join("made/on/the/way");
    let mount = format!("mkdir -p {0} && mount -t tmpfs none {0}", way.display());
    naively(&mount);
    assert_ne!(fingerprint(careless.keep.path()), untouched);
    assert!(way.is_dir(), "the mount is gone, the directory is not");
    let (rootfs, data) = (Rootfs::new(), scratch());
    open_to_all(data.path());
    let before = (fingerprint(rootfs.keep.path()), fingerprint(data.path()));
    let ran = rootfs
        .run()
        .option(&format!("--read {}", data.path().display()))
        .option("--scratch /srv/data=1M")
        .option("--scratch /made/on/the/way=1M")
        .shell("touch /srv/data/x /made/on/the/way/x && ls /made/on/the/way");
    ran.expect_code(0);
    ran.expect(ran.stdout == "x\n", "the places are there inside");
    let after = (fingerprint(rootfs.keep.path()), fingerprint(data.path()));
    ran.expect(before == after, "and not outside");
}

/// A process of nobody's that lets two names in a directory of its own change places all the time:
/// `path` is a directory at one moment and a symlink to the victim at the next.
struct Flipper {
    path: PathBuf,
    /// The program, and the file in which it counts.
    keep: tempfile::TempDir,
    process: std::process::Child,
}

impl Flipper {
    fn start(directory: &Path, victim: &Path) -> Flipper {
        let (path, other) = (directory.join("place"), directory.join("other"));
        std::fs::create_dir(&path).expect("a directory can be made");
        std::fs::write(path.join("file"), "mine").expect("a file can be made");
        symlink(victim, &other).expect("a symlink can be made");
        let keep = scratch();
        open_to_all(keep.path());
        let (program, count) = (keep.path().join("flip"), keep.path().join("count"));
        turnkey_tests::compile(&program, include_str!("../attacks/flip.c"));
        std::fs::write(&count, 0_u64.to_ne_bytes()).expect("a file can be made");
        for theirs in [directory, &path, &other, &path.join("file"), &count] {
            lchown(theirs, Some(NOBODY), Some(NOBODY)).expect("root gives files away");
        }
        let mut command = std::process::Command::new(&program);
        command.args([&path, &other, &count]).current_dir("/");
        let process = command.uid(NOBODY).gid(NOBODY).spawn();
        Flipper {
            path,
            process: process.expect("the program was compiled"),
            keep,
        }
    }

    fn flips(&self) -> u64 {
        let count = std::fs::read(self.keep.path().join("count"));
        let count = count.expect("the file is there");
        u64::from_ne_bytes(count.try_into().expect("eight bytes"))
    }

    /// Lets `path` rest as the directory that it was.
    fn stop(mut self) {
        self.ask_to_end();
        let status = self.process.wait().expect("a child can be waited for");
        assert!(status.success(), "it turned to its end: {status}");
    }

    fn ask_to_end(&self) {
        let pid = i32::try_from(self.process.id()).expect("a process id");
        // One that has been waited for is not there any more.
        let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
    }
}

impl Drop for Flipper {
    fn drop(&mut self) {
        if matches!(self.process.try_wait(), Ok(None)) {
            self.ask_to_end();
            let _ = self.process.wait();
        }
    }
}

/// Jails that are started at least while the names are turned.
const BY_DAY: u64 = 6;
const AT_NIGHT: u64 = 10_000;

/// Starts jails through a path that is being turned; the jail tries to read and write there.
fn start_through_flips(option: &str, inside: &dyn Fn(&Path) -> String, least: u64) {
    let (directory, victim) = (scratch(), scratch());
    open_to_all(directory.path());
    std::fs::write(victim.path().join("file"), "secret").expect("a file can be made");
    let to_all = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(victim.path(), to_all).expect("a test owns its directory");
    let before = fingerprint(victim.path());
    let flipper = Flipper::start(directory.path(), victim.path());
    // The control: who opens the path as it is written gets to the victim.
    turnkey_tests::eventually("a plain open reads the secret", || {
        std::fs::read_to_string(flipper.path.join("file")).is_ok_and(|text| text == "secret")
    });
    let place = inside(&flipper.path);
    let script = format!("cat {place}/file; touch {place}/made; ls {place}/");
    let mut runs = 0;
    while flipper.flips() < FLIPS || runs < least {
        let ran = through(option, &flipper.path).shell(&script);
        ran.expect(!ran.stdout.contains("secret"), "the victim is never read");
        ran.expect(
            ran.code != 0 || ran.stdout.contains("mine"),
            "it is theirs, or nothing",
        );
        runs += 1;
    }
    let path = flipper.path.clone();
    measured(&format!(
        "{option}: {} turns, {runs} jails",
        flipper.flips()
    ));
    flipper.stop();
    let ran = through(option, &path).shell(&script);
    ran.expect(
        ran.stdout.starts_with("mine"),
        "what rests is given to the jail",
    );
    let after = fingerprint(victim.path());
    ran.expect(after == before, "the victim is never touched");
}

fn through(option: &str, path: &Path) -> Run {
    Run::new()
        .option("--unmonitored")
        .option(&format!("{option} {}", path.display()))
}

#[test]
fn j07_a_working_directory_that_is_turned_never_leads_elsewhere() {
    start_through_flips("--workdir", &|_| "/workspace".to_owned(), BY_DAY);
}

#[test]
fn j07_a_path_to_read_that_is_turned_never_leads_elsewhere() {
    start_through_flips("--read", &|path| path.display().to_string(), BY_DAY);
}

#[test]
fn j07_a_path_to_write_that_is_turned_never_leads_elsewhere() {
    start_through_flips("--write", &|path| path.display().to_string(), BY_DAY);
}

expected!(
    ten_thousand_jails_through_a_turned_working_directory_see_nothing_else,
    ten_thousand_jails_through_a_turned_path_to_read_see_nothing_else,
    ten_thousand_jails_through_a_turned_path_to_write_see_nothing_else: at_night,
    "runs for half an hour; `root::j07_` has it with as many turns and six jails"
);

#[test]
fn ten_thousand_jails_through_a_turned_working_directory_see_nothing_else() {
    start_through_flips("--workdir", &|_| "/workspace".to_owned(), AT_NIGHT);
}

#[test]
fn ten_thousand_jails_through_a_turned_path_to_read_see_nothing_else() {
    start_through_flips("--read", &|path| path.display().to_string(), AT_NIGHT);
}

#[test]
fn ten_thousand_jails_through_a_turned_path_to_write_see_nothing_else() {
    start_through_flips("--write", &|path| path.display().to_string(), AT_NIGHT);
}

#[test]
fn j07_a_root_whose_directories_are_turned_never_leads_elsewhere() {
    let (rootfs, victim) = (Rootfs::new(), scratch());
    std::fs::write(victim.path().join("file"), "secret").unwrap();
    open_to_all(victim.path());
    let turned = rootfs.path().join("home");
    std::fs::create_dir(&turned).unwrap();
    let before = fingerprint(victim.path());
    let flipper = Flipper::start(&turned, victim.path());
    turnkey_tests::eventually("the control: a plain open reads the secret", || {
        std::fs::read_to_string(turned.join("place/file")).is_ok_and(|text| text == "secret")
    });
    let option = format!("--scratch {}=1M", "/home/place");
    let mut runs = 0;
    while flipper.flips() < FLIPS || runs < BY_DAY {
        let run = rootfs.run().option("--unmonitored").option(&option);
        let ran = run.shell("touch /home/place/made; cat /home/place/file");
        expect_untouched(&ran, victim.path(), &before);
        runs += 1;
    }
    measured(&format!("--root: {} turns, {runs} jails", flipper.flips()));
    flipper.stop();
}

fn expect_untouched(ran: &Ran, victim: &Path, before: &str) {
    ran.expect(!ran.stdout.contains("secret"), "the victim is never read");
    ran.expect(fingerprint(victim) == before, "nor touched");
}

#[test]
fn a_symlink_of_another_user_is_refused_with_the_fix() {
    let (directory, victim) = (scratch(), scratch());
    open_to_all(directory.path());
    let link = directory.path().join("link");
    symlink(victim.path(), &link).unwrap();
    for option in ["--read", "--write", "--workdir"] {
        let run = || Run::new().option(&format!("{option} {}", link.display()));
        lchown(&link, Some(0), Some(0)).unwrap();
        let ran = run().shell("true");
        ran.expect(ran.code == 0, "the control: root's own link is followed");
        lchown(&link, Some(NOBODY), Some(NOBODY)).unwrap();
        let ran = run().shell("true");
        ran.expect_code(125);
        ran.expect(
            ran.stderr.contains("belongs to another user"),
            "with the reason",
        );
    }
}
