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
