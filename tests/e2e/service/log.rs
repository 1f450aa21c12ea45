//! The service's log: what its administrator learns of a request, and why it ended as it did.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use turnkey_tests::{Run, SERVED, Service, eventually};

/// The lines of one request, which has one of this kind.
fn about(service: &Service, event: &str) -> Vec<Value> {
    let of_kind = |line: &&Value| line["event"] == event;
    eventually("it is told", || {
        service.log().iter().any(|line| of_kind(&line))
    });
    let log = service.log();
    let request = log.iter().find(of_kind).expect("it is there")["request"].clone();
    assert!(request.is_string(), "{log:?}");
    let mut lines = log;
    lines.retain(|line| line["request"] == request);
    lines
}

fn events(lines: &[Value]) -> Vec<&str> {
    let events = lines.iter().map(|line| &line["event"]);
    events.filter_map(Value::as_str).collect()
}

#[test]
fn of_each_request_it_is_told_what_it_was_and_why_it_ended() {
    let service = Service::start("ready = 0\nmax_running_per_user = 1\n");
    let served = || Run::new().option("--quiet").served_at(&service.directory());
    // What it leaves behind, by whatever name, does not come first.
    let shadow = served().shell("echo x > 'clean: nothing was killed'; exec cat /etc/shadow");
    shadow.expect_code(121);
    let killed = about(&service, "ran");
    assert_eq!(events(&killed), ["started", "ran"]);
    assert_eq!(killed[0]["program"], "/bin/sh");
    assert_eq!(killed[0]["profile"], "untrusted");
    assert_eq!(killed[1]["result"], "killed for reading /etc/shadow");
    assert_eq!(killed[1]["verdict"], "violated");
    served()
        .option("--memory 8G")
        .run(&["true"])
        .expect_code(125);
    let refused = about(&service, "refused");
    assert_eq!(events(&refused), ["refused"]);
    assert_eq!(
        (&refused[0]["user"], &refused[0]["code"]),
        (&SERVED.into(), &403.into())
    );
    assert!(
        refused[0]["reason"]
            .to_string()
            .contains("--memory 2G at most")
    );
    assert!(refused[0]["caller"].is_u64());
    let run = served();
    let mut first = run.command(&["sleep", "50"]).spawn().unwrap();
    eventually("it has started", || {
        service.log().iter().any(|line| line["program"] == "sleep")
    });
    let next = served();
    let mut waits = next.command(&["true"]).spawn().unwrap();
    about(&service, "waits");
    for maker in service.makers() {
        kill(Pid::from_raw(maker.cast_signed()), Signal::SIGKILL).unwrap();
    }
    let given_up = about(&service, "given_up");
    assert_eq!(events(&given_up), ["started", "given_up"]);
    assert_eq!(given_up[1]["signal"], 9);
    assert!(given_up[1]["reason"].to_string().contains("no memory"));
    assert_eq!(first.wait().unwrap().code(), Some(125));
    assert!(waits.wait().unwrap().success());
    let waited = about(&service, "waits");
    assert_eq!(events(&waited), ["waits", "started", "ran"]);
    assert!(
        waited[0]["reason"]
            .to_string()
            .contains("more than 1 at once")
    );
}
