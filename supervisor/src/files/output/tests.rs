use super::*;
use std::os::unix::fs::{PermissionsExt, lchown, symlink};

use turnkey_expectations::expected;

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    CallerOutput::find(path)?.open()?.write(bytes)
}

#[test]
fn the_file_appears_only_when_it_is_whole() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("report.json");
    let report = CallerOutput::find(&path).unwrap().open().unwrap();
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    report.write(b"{}\n").unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"{}\n");
}

fn open(path: &Path) -> OpenOutput {
    CallerOutput::find(path).unwrap().open().unwrap()
}

#[test]
fn a_name_that_is_kept_is_nobody_elses_as_long_as_its_keeper_lives() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("report");
    let there = || String::from_utf8(std::fs::read(&path).unwrap()).unwrap();
    std::fs::write(&path, "of yesterday").unwrap();
    let (mut first, mut second) = (open(&path), open(&path));
    // A reader cannot keep it from anybody.
    let reader = File::open(&path).unwrap();
    nix::fcntl::Flock::lock(reader, nix::fcntl::FlockArg::LockExclusive).unwrap();
    assert!(first.write_meanwhile(b"first").unwrap());
    assert!(!second.write_meanwhile(b"second").unwrap());
    assert!(first.write_meanwhile(b"first again").unwrap());
    assert!(!second.write_meanwhile(b"second").unwrap());
    assert_eq!(there(), "first again");
    first.write(b"first at the end").unwrap();
    assert_eq!(there(), "first at the end");
    assert!(second.write_meanwhile(b"second").unwrap(), "it is free");
    drop(second);
    assert!(
        open(&path).write_meanwhile(b"third").unwrap(),
        "as if killed"
    );
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
}

#[test]
fn of_several_who_want_a_name_in_one_moment_one_gets_it() {
    let directory = tempfile::tempdir().unwrap();
    for round in 0..50 {
        let path = directory.path().join("report");
        // Of one that was killed as it renamed, and of an earlier watch.
        std::fs::write(directory.path().join(".turnkey-report"), "half").unwrap();
        std::fs::write(&path, "old").unwrap();
        let begin = std::sync::Barrier::new(4);
        let kept: Vec<_> = std::thread::scope(|scope| {
            let wanting = [0, 1, 2, 3].map(|number: u8| {
                let (path, begin) = (&path, &begin);
                scope.spawn(move || {
                    let mut output = open(path);
                    begin.wait();
                    let taken = output.write_meanwhile(&[number]).unwrap();
                    taken.then_some((number, output))
                })
            });
            let joined = wanting.map(|thread| thread.join().unwrap());
            joined.into_iter().flatten().collect()
        });
        let numbers: Vec<_> = kept.iter().map(|(number, _)| *number).collect();
        assert_eq!(std::fs::read(&path).unwrap(), numbers, "{round}");
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    }
}

#[test]
fn an_older_file_is_replaced_whole_and_keeps_its_rights() {
    let directory = tempfile::tempdir().unwrap();
    let (path, other) = (directory.path().join("report"), directory.path().join("o"));
    std::fs::write(&path, "a much longer older report").unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
    std::fs::hard_link(&path, &other).unwrap();
    write(&path, b"new").unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"new");
    assert_eq!(
        std::fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o600
    );
    assert_eq!(
        std::fs::read(&other).unwrap(),
        b"a much longer older report"
    );
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 2);
}

#[test]
fn what_cannot_be_written_is_known_before_the_run() {
    let directory = tempfile::tempdir().unwrap();
    assert!(CallerOutput::find(directory.path()).is_err());
    assert!(CallerOutput::find(&directory.path().join("missing/report.json")).is_err());
    let fifo = directory.path().join("fifo");
    nix::unistd::mkfifo(&fifo, Mode::S_IRWXU).unwrap();
    let unread = CallerOutput::find(&fifo).unwrap().open().unwrap_err();
    assert!(unread.to_string().contains("nobody reads"), "{unread}");
}

#[test]
fn a_symlink_is_replaced_unless_it_leads_to_a_stream() {
    let directory = tempfile::tempdir().unwrap();
    let (file, link) = (directory.path().join("file"), directory.path().join("link"));
    std::fs::write(&file, "before").unwrap();
    for target in [&file, &directory.path().join("missing")] {
        let _ = std::fs::remove_file(&link);
        symlink(target, &link).unwrap();
        write(&link, b"after").unwrap();
        assert!(!link.is_symlink());
        assert_eq!(std::fs::read(&file).unwrap(), b"before");
    }
    std::fs::remove_file(&link).unwrap();
    symlink("/dev/null", &link).unwrap();
    write(&link, b"after").unwrap();
    assert!(link.is_symlink());
}

expected!(
    a_stranger_s_link_and_fifo_take_nothing: as_root,
    "act as another user, or make files of another's"
);
#[test]
fn a_stranger_s_link_and_fifo_take_nothing() {
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (link, fifo) = (directory.path().join("link"), directory.path().join("fifo"));
    symlink("/dev/null", &link).unwrap();
    lchown(&link, Some(65_534), None).unwrap();
    write(&link, b"after").unwrap();
    assert_eq!(std::fs::read(&link).unwrap(), b"after", "it was replaced");
    nix::unistd::mkfifo(&fifo, Mode::S_IRWXU).unwrap();
    lchown(&fifo, Some(65_534), None).unwrap();
    assert!(CallerOutput::find(&fifo).is_err());
}

#[test]
fn a_directory_that_is_turned_meanwhile_turns_nothing() {
    let keep = tempfile::tempdir().unwrap();
    let (sub, moved, other) = (
        keep.path().join("sub"),
        keep.path().join("moved"),
        keep.path().join("other"),
    );
    std::fs::create_dir(&sub).unwrap();
    std::fs::create_dir(&other).unwrap();
    let output = CallerOutput::find(&sub.join("report")).unwrap();
    std::fs::rename(&sub, &moved).unwrap();
    symlink(&other, &sub).unwrap();
    output.open().unwrap().write(b"{}").unwrap();
    assert!(moved.join("report").is_file() && !other.join("report").exists());
}

#[test]
fn a_file_that_is_there_by_now_is_not_written_over() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("profile");
    let output = CallerOutput::find(&path).unwrap().open().unwrap();
    std::fs::write(&path, "mine").unwrap();
    assert!(output.write_new(b"new").is_err());
    assert_eq!(std::fs::read(&path).unwrap(), b"mine");
}

#[test]
fn a_device_is_refused_and_a_sink_is_not() {
    assert!(CallerOutput::find(Path::new("/dev/zero")).is_err());
    write(Path::new("/dev/null"), b"gone").unwrap();
}

#[test]
fn nothing_is_appended_by_a_symlink_and_the_file_that_it_leads_to_takes_it() {
    let directory = tempfile::tempdir().unwrap();
    let (link, file) = (directory.path().join("link"), directory.path().join("file"));
    std::os::unix::fs::symlink("file", &link).unwrap();
    let append = |path: &Path| CallerOutput::find(path).unwrap().append();
    for there in [false, true] {
        let told = append(&link).unwrap_err().to_string();
        assert!(told.contains("name the file itself"), "{there}: {told}");
        // What is advised works, and makes the file.
        append(&file).unwrap();
    }
}
