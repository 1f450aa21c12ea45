//! Callers that have the listener wait for a file system of their own, which no signal ends: FUSE, in namespaces of the caller's.

use nix::sys::signal::Signal;
use turnkey_expectations::expected;
use turnkey_tests::{
    SERVED, Service, StallingUser, binary_for_everybody, eventually, hand_over, open_to_all,
    scratch,
};

use super::serves_others;

expected!(
    not_on[ORDINARY_6_12],
    "its kernel panics when a task is held for two minutes, which they were there; why it takes so long there is not known"
);

fn socket(service: &Service) -> String {
    let socket = service.directory().join("turnkey.fd.sock");
    socket.to_string_lossy().into_owned()
}

#[test]
fn who_goes_under_a_root_that_answers_nobody_while_it_is_looked_at_stops_nobody() {
    let mut service = Service::start("");
    let attack = StallingUser::start(SERVED, "root", &socket(&service), 60);
    serves_others(&service);
    assert_eq!(service.end_by(Signal::SIGTERM), Some(0));
    drop(attack);
}

/// More than there are processes to close what was dropped: two seconds, as each of the seventy has to be taken in before it hangs up.
#[test]
fn files_that_nobody_takes_the_changes_of_keep_the_listener_from_nothing() {
    let place = scratch();
    open_to_all(place.path());
    hand_over(place.path(), SERVED);
    let mut service = Service::start("max_running_per_user = 1\n");
    let before = descriptors(&service);
    // One that runs, behind which the others wait.
    let mut first = super::as_served(
        &service,
        &binary_for_everybody(&service.directory()).to_string_lossy(),
        place.path(),
    );
    let first = first.args(["run", "--service", "--quiet", "--", "sleep", "60"]);
    let mut first = first.spawn().expect("turnkey can be started");
    eventually("it runs", || {
        service.log().iter().any(|line| line["event"] == "started")
    });
    let attack = StallingUser::start(SERVED, "dirty", &socket(&service), 70);
    let flood = "
import time
count = 0
while count < 1500:
    try: connect().close(); count += 1
    except BlockingIOError: time.sleep(0.001)
print('done')";
    assert_eq!(super::talks(&service, place.path(), flood), "done");
    serves_others(&service);
    let after = descriptors(&service);
    assert!(
        after < before + 1200,
        "{before} descriptors, and then {after}"
    );
    assert_eq!(service.end_by(Signal::SIGTERM), Some(0));
    drop(attack);
    first.kill().expect("it is the test's own");
    first.wait().expect("a child can be waited for");
}

fn descriptors(service: &Service) -> usize {
    let entries = std::fs::read_dir(format!("/proc/{}/fd", service.pid()));
    entries.expect("the service runs").count()
}
