//! `turnkey serve --check`: what configuration and host give together.

use std::fs::File;
use std::os::unix::fs::chown;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use turnkey_tests::{Mount, SERVED, binary, scratch};

/// The exit code of the check, its page, and what it says besides.
fn checked() -> (Option<i32>, String, String) {
    let output = Command::new(binary()).args(["serve", "--check"]).output();
    let output = output.expect("turnkey can be started");
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    (
        output.status.code(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

#[test]
fn a_host_without_btf_is_told_that_it_can_make_no_run_and_what_helps() {
    let (code, page, _) = checked();
    assert_eq!(code, Some(0), "the control: {page}");
    assert!(
        page.ends_with("# Every layer of a run is there.\n"),
        "{page}"
    );
    assert!(page.contains(" monitor-tier: "), "{page}");
    let _hidden = Mount::new(&["-t", "tmpfs", "none"], Path::new("/sys/kernel/btf"));
    let (code, page, told) = checked();
    assert_eq!(code, Some(125), "{page}");
    let missing = page.split_once("# missing btf: ").expect("it is named").1;
    assert!(missing.contains("#     fix: "), "{missing}");
    assert!(
        told.contains("could make no run here, for lack of: btf"),
        "{told}"
    );
}

/// The exit code of `serve` with these flags for this configuration, and everything that it says.
fn served(flags: &[&str], file: &Path) -> (Option<i32>, String) {
    let mut command = Command::new(binary());
    command.arg("serve").args(flags).arg("--config").arg(file);
    let output = command.output().expect("turnkey can be started");
    let both = [output.stdout, output.stderr].concat();
    (
        output.status.code(),
        String::from_utf8_lossy(&both).into_owned(),
    )
}

#[test]
fn a_configuration_under_which_no_run_can_be_made_fails_the_check() {
    let place = scratch();
    let file = place.path().join("serve.toml");
    for (text, words) in [
        ("networks = []\n", "fix: networks = [\"none\"]"),
        ("[per_user]\nmemory = \"1M\"\n", "fix: memory = \""),
    ] {
        std::fs::write(&file, text).expect("a test writes its own files");
        let (code, told) = served(&["--check"], &file);
        assert_eq!(code, Some(125), "{told}");
        assert!(told.contains("# No run can be made: "), "{told}");
        assert!(told.contains(words), "{told}");
    }
}

#[test]
fn a_configuration_that_others_than_root_may_write_is_refused() {
    let place = scratch();
    let file = place.path().join("serve.toml");
    std::fs::write(&file, "queue = 3\n").expect("a test writes its own files");
    chown(&file, Some(SERVED), None).expect("root gives files away");
    let sockets = place.path().join("run").to_string_lossy().into_owned();
    for flags in [&["--check"][..], &["--socket-dir", &sockets]] {
        let (code, told) = served(flags, &file);
        assert_eq!(code, Some(125), "{told}");
        assert!(told.contains("fix: chown root "), "{told}");
    }
}

#[test]
fn a_configuration_that_only_the_service_itself_could_read_is_refused() {
    let place = scratch();
    let file = place.path().join("serve.toml");
    std::fs::write(&file, "queue = 3\n").expect("a test writes its own files");
    let sockets = place.path().join("run");
    let mut command = Command::new(binary());
    command.args(["serve", "--config", "/dev/stdin", "--socket-dir"]);
    command
        .arg(sockets)
        .stdin(File::open(&file).expect("it is there"));
    command.stderr(Stdio::piped()).stdout(Stdio::null());
    let mut child = command.spawn().expect("turnkey can be started");
    let is_over = |child: &mut Child| child.try_wait().is_ok_and(|end| end.is_some());
    let began = Instant::now();
    while !is_over(&mut child) && began.elapsed() < Duration::from_secs(1) {
        std::thread::sleep(Duration::from_millis(5));
    }
    let pid = Pid::from_raw(child.id().cast_signed());
    if !is_over(&mut child) {
        kill(pid, Signal::SIGTERM).expect("it lives");
    }
    let output = child.wait_with_output().expect("it ends");
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(125), "{told}");
    assert!(told.contains("fix: name the file"), "{told}");
}
