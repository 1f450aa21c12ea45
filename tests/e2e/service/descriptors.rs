//! Descriptors that a caller hands over: what root's process does with them gets the caller no more than its own would.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use turnkey_expectations::expected;
use turnkey_tests::{
    Mount, Run, SERVED, Service, eventually, hand_over, open_to_all, outside, scratch,
};

use super::{as_served, talks, told};

expected!(
    a_block_device_is_no_stream_no_directory_and_no_file,
    room_that_is_kept_for_root_is_not_for_what_a_run_writes: not_on [ORDINARY_6_12],
    "it has no loop devices, and no mke2fs"
);

/// The number of a group that the caller is not in.
const OTHER: u32 = 4343;
/// A file that all may write to, and whose group is the one that its program has.
fn set_group(place: &Path) -> PathBuf {
    let path = place.join("tool");
    fs::write(&path, "#!/bin/sh\n").expect("a test writes its own files");
    std::os::unix::fs::lchown(&path, Some(0), Some(OTHER)).expect("a test runs as root");
    fs::set_permissions(&path, PermissionsExt::from_mode(0o6777)).expect("a test runs as root");
    path
}

fn has_set_bits(path: &Path) -> bool {
    fs::metadata(path).expect("it is there").mode() & 0o6000 != 0
}

#[test]
fn what_a_run_writes_takes_the_set_bits_of_a_file_as_its_caller_s_writes_do() {
    let service = Service::start("");
    let place = scratch();
    open_to_all(place.path());
    hand_over(place.path(), SERVED);
    let control = set_group(place.path());
    assert!(has_set_bits(&control), "the control: it has them");
    let mut own = as_served(&service, "sh", place.path());
    told(&own.args(["-c", "echo own >> tool"]).output().unwrap());
    assert!(
        !has_set_bits(&control),
        "the control: a user's writes take them"
    );
    // Standard output and error, the file of events, and the words at the end.
    let stream = |at: usize, words: &str| {
        format!(
            "
tool = os.open('tool', os.O_WRONLY | os.O_APPEND)
came = [*usual(), *([null()] if {at} == 4 else [])]
came[{at}] = tool
print(run(came, order('run', '--service', '--no-tty', *{words})))"
        )
    };
    for (at, words) in [
        (1, "['--quiet', '--', 'echo', 'new']"),
        (2, "['--quiet', '--', 'sh', '-c', 'echo new >&2']"),
        (2, "['--', 'cat', '/etc/shadow']"),
        (4, "['--quiet', '--events', 'x', '--', 'true']"),
    ] {
        let tool = set_group(place.path());
        assert_eq!(talks(&service, place.path(), &stream(at, words)), "ended");
        assert!(
            fs::read(&tool).unwrap().len() > 12,
            "the control: {words} writes"
        );
        assert!(!has_set_bits(&tool), "{words}");
    }
}

/// True when a program with a group of its own is somewhere in this directory.
fn has_set_group_program(place: &Path) -> bool {
    let entries = fs::read_dir(place).expect("it is there").flatten();
    entries
        .filter(|entry| entry.path().is_file())
        .any(|entry| has_set_bits(&entry.path()))
}

#[test]
fn a_directory_that_gives_its_group_gives_a_run_no_program_with_that_group() {
    let service = Service::start("write = true\n");
    let run = Run::new().served_at(&service.directory()).file("d/x", "");
    let place = run.path().join("d");
    let gives = || {
        std::os::unix::fs::lchown(&place, Some(SERVED), Some(OTHER)).expect("a test runs as root");
        fs::set_permissions(&place, PermissionsExt::from_mode(0o2777))
            .expect("a test runs as root");
    };
    let path = place.display().to_string();
    let makes =
        format!("cp /bin/true {path}/tool; chmod 2755 {path}/tool; chmod g+s {path}/tool; true");
    let option = format!("--write {path}");
    let run = run.option(&option);
    let command = run.command(&["sh", "-c", &makes]);
    gives();
    let output = { command }.output().unwrap();
    // A group that its caller's is not is nobody's there, and what has it takes no writes: inode_permission() in the kernel.
    assert!(!place.join("tool").exists(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("Permission denied"));
    told(
        &as_served(&service, "sh", &place)
            .args(["-c", &makes])
            .output()
            .unwrap(),
    );
    assert!(
        !has_set_group_program(&place),
        "the control: its caller makes it, without the bit"
    );
    assert!(outside("sh", &["-c", &makes]).0.success());
    assert!(has_set_group_program(&place), "the control: root does");
}

/// The numbers of two capabilities, capabilities(7).
const FSETID: u32 = 4;
const SYS_RESOURCE: u32 = 24;

/// The capabilities that a process may have.
fn permitted(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("CapPrm:"));
    let set = line.and_then(|set| u64::from_str_radix(set.trim(), 16).ok());
    set.expect("the kernel tells")
}

#[test]
fn room_that_is_kept_for_root_is_not_for_what_a_run_writes() {
    let service_place = scratch();
    let image = service_place.path().join("image");
    File::create(&image).unwrap().set_len(2 << 20).unwrap();
    let image = image.display().to_string();
    assert!(
        outside("mke2fs", &["-q", "-t", "ext4", "-m", "40", &image])
            .0
            .success()
    );
    let place = scratch();
    let _mount = Mount::new(&["-o", "loop", &image], place.path());
    let service = Service::start("");
    // Quotas hold for who has not the second one; no kernel of the tests has any. Who is just being started still has both.
    let both = 1 << FSETID | 1 << SYS_RESOURCE;
    eventually("who makes runs has given both up", || {
        let makers = service.makers();
        !makers.is_empty() && makers.into_iter().all(|maker| permitted(maker) & both == 0)
    });
    open_to_all(place.path());
    hand_over(place.path(), SERVED);
    let fills = "head -c 8M /dev/zero";
    let length = |name: &str| fs::metadata(place.path().join(name)).unwrap().len();
    let mut own = as_served(&service, "sh", place.path());
    let _ = own
        .args(["-c", &format!("{fills} > own")])
        .output()
        .unwrap();
    let most = length("own");
    fs::remove_file(place.path().join("own")).unwrap();
    let script = format!("{fills} > root");
    let _ = outside(
        "sh",
        &["-c", &format!("cd {} && {script}", place.path().display())],
    );
    assert!(length("root") > most, "the control: root has more: {most}");
    fs::remove_file(place.path().join("root")).unwrap();
    let run = Run::new()
        .option("--quiet --output 9M")
        .served_at(&service.directory());
    let path = place.path().join("run");
    let file = File::create(&path).unwrap();
    std::os::unix::fs::chown(&path, Some(SERVED), Some(SERVED)).unwrap();
    let output = run
        .command(&["sh", "-c", fills])
        .stdout(file)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(length("run") <= most, "{} of {most}: {said}", length("run"));
    assert!(said.contains("No space left"), "it is told: {said}");
    assert_eq!(output.status.code(), Some(125), "and no success: {said}");
}

/// A block device that this user may use, and its node.
struct BlockDevice {
    node: PathBuf,
    device: String,
}

impl BlockDevice {
    fn new(place: &Path) -> BlockDevice {
        let image = place.join("image");
        fs::write(&image, "of the disk".repeat(1000)).expect("a test runs as root");
        let image = image.display().to_string();
        let (status, device) = outside("losetup", &["--find", "--show", &image]);
        assert!(status.success(), "a test runs as root");
        let device = device.trim().to_owned();
        let number = fs::metadata(&device).expect("a test runs as root").rdev();
        let node = place.join("disk");
        let mode = nix::sys::stat::Mode::from_bits_truncate(0o666);
        nix::sys::stat::mknod(&node, nix::sys::stat::SFlag::S_IFBLK, mode, number)
            .expect("a test runs as root");
        fs::set_permissions(&node, PermissionsExt::from_mode(0o666)).expect("a test runs as root");
        BlockDevice { node, device }
    }
}

impl Drop for BlockDevice {
    fn drop(&mut self) {
        let _ = Command::new("losetup")
            .args(["--detach", &self.device])
            .status();
    }
}

#[test]
fn a_block_device_is_no_stream_no_directory_and_no_file() {
    let service = Service::start("");
    let place = scratch();
    open_to_all(place.path());
    let disk = BlockDevice::new(place.path());
    hand_over(place.path(), SERVED);
    let control = talks(&service, place.path(), "print(open('disk', 'rb').read(11))");
    assert_eq!(
        control, "b'of the disk'",
        "the control: the caller can read it"
    );
    for (at, flags) in [
        (0, "RDONLY"),
        (1, "WRONLY"),
        (2, "RDWR"),
        (3, "RDONLY"),
        (3, "PATH"),
    ] {
        let way = format!("print(with_stream({at}, os.open('disk', os.O_{flags})))");
        assert_eq!(talks(&service, place.path(), &way), "400", "{at} {flags}");
    }
    let events = "print(run([*usual(), os.open('disk', os.O_RDWR)], order('run', '--service', '--no-tty', '--events', 'x', '--', 'true')))";
    assert_eq!(talks(&service, place.path(), events), "400", "events");
    let node = disk.node.display();
    for option in [
        format!("--read {node}"),
        format!("--workdir {node}"),
        format!("--root {node}"),
    ] {
        let run = Run::new().option(&option).served_at(&service.directory());
        let ran = run.shell(&format!("head -c 11 {node}"));
        ran.expect(!ran.stdout.contains("of the disk"), &option);
        ran.expect_code(125);
    }
}
