//! Counters of the service, as its administrator asks for them.

use nix::sys::signal::{Signal, kill};
use turnkey_tests::{Run, Service, eventually};

#[test]
fn runs_and_refusals_are_counted_and_told_on_sigusr1() {
    let service = Service::start("");
    let counted = || {
        let before = service.log().len();
        kill(service.pid(), Signal::SIGUSR1).unwrap();
        let line = || {
            service
                .log()
                .split_off(before)
                .into_iter()
                .find(|line| line["event"] == "counted")
        };
        eventually("it tells", || line().is_some());
        line().unwrap()
    };
    let number = |line: &serde_json::Value, pointer: &str| {
        line.pointer(pointer)
            .and_then(serde_json::Value::as_u64)
            .unwrap_or(0)
    };
    let served = || Run::new().option("--quiet").served_at(&service.directory());
    // Whoever came to look whether it listens, and was gone before anybody could see who it was, is counted as gone.
    // Callers are taken in their order: with a run that came later, all of those are counted.
    served().run(&["true"]).expect_code(0);
    eventually("the first run is counted", || {
        number(&counted(), "/runs") == 1
    });
    let before = counted();
    for _ in 0..2 {
        served().run(&["true"]).expect_code(0);
    }
    served()
        .option("--memory 8G")
        .run(&["true"])
        .expect_code(125);
    let more = |pointer: &str| {
        let now = counted();
        number(&now, pointer) - number(&before, pointer)
    };
    eventually("the ends are counted", || {
        let counts = (more("/runs"), more("/refused/403"));
        eprintln!("runs and refusals so far: {counts:?}");
        counts == (2, 1)
    });
    assert!(more("/milliseconds") > 0);
    let now = counted();
    assert!(number(&now, "/longest_milliseconds") <= number(&now, "/milliseconds"));
    assert_eq!(number(&now, "/waiting"), 0);
}
