//! The runner without privileges that the documentation has people copy, with a service and the real kernel.

use turnkey_expectations::expected;

expected!(as_root, "start a service");

#[path = "../examples/served.rs"]
mod served;

use std::io::{Read, Seek};
use std::os::fd::AsFd;

use nix::unistd::{Gid, Uid, setegid, seteuid, setgroups};
use turnkey_tests::{SERVED, Service, open_to_all};

/// Does something as an ordinary user. Root again afterwards, this process can end what it has started.
fn as_user<T>(act: impl FnOnce() -> T) -> T {
    setgroups(&[]).expect("root may");
    setegid(Gid::from_raw(SERVED)).expect("root may");
    seteuid(Uid::from_raw(SERVED)).expect("root may");
    let done = act();
    seteuid(Uid::from_raw(0)).expect("root may");
    done
}

#[test]
fn a_user_without_privileges_has_a_watched_run_and_its_report() {
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    let service = Service::start("");
    let place = tempfile::tempdir().unwrap();
    open_to_all(place.path());
    nix::unistd::chown(place.path(), Some(Uid::from_raw(SERVED)), None).unwrap();
    std::env::set_current_dir(place.path()).unwrap();
    let run = |words: &[&str]| {
        let words = words.iter().map(std::ffi::OsString::from);
        let mut output = tempfile::tempfile().unwrap();
        let outputs = [output.as_fd(), output.as_fd()];
        let (code, report) =
            as_user(|| served::tool_call(&service.directory(), words, outputs)).unwrap();
        let mut text = String::new();
        output.rewind().unwrap();
        output.read_to_string(&mut text).unwrap();
        (code, report, text)
    };
    let (code, report, text) = run(&["/bin/sh", "-c", "pwd; exit 7"]);
    assert_eq!((code, text.as_str()), (7, "/workspace\n"));
    assert!(report.is_safe);
    assert_eq!(report.served.unwrap().user, SERVED);
    let (code, report, text) = run(&["/bin/cat", "/etc/shadow"]);
    assert_eq!(code, 121, "killed by a rule");
    assert!(!text.contains("root:"), "{text}");
    assert_eq!(report.violations[0].rule, "credential-file");
}
