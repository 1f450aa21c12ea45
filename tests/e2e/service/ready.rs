//! What stands ready before anybody asks, and what it may not change of a run.

use turnkey_tests::{Run, Service, eventually};

fn served(service: &Service) -> Run {
    Run::new().option("--quiet").served_at(&service.directory())
}

/// Waits until those who stand ready have made what they make, and wait for a caller.
fn stands_ready(service: &Service) {
    const RECVMSG: &str = "47 ";
    let waits = |pid: &u32| {
        let call = std::fs::read_to_string(format!("/proc/{pid}/syscall"));
        call.is_ok_and(|call| call.starts_with(RECVMSG))
    };
    eventually("they wait", || {
        let makers = service.makers();
        makers.len() == 2 && makers.iter().all(waits)
    });
}

#[test]
fn a_changed_configuration_holds_for_the_next_run_whoever_stands_ready() {
    let service = Service::start("");
    stands_ready(&service);
    served(&service).run(&["true"]).expect_code(0);
    stands_ready(&service);
    service.configure("[limits]\nmemory = \"64M\"\n");
    let refused = served(&service).run(&["true"]);
    refused.expect_code(125);
    refused.expect(
        refused.stderr.contains("--memory 64M at most"),
        "of the new configuration",
    );
    let within = served(&service).option("--memory 64M");
    within.run(&["true"]).expect_code(0);
    // One that cannot be used refuses runs; what is wrong stands in the log.
    stands_ready(&service);
    service.configure("queue = \"many\"\n");
    let unusable = served(&service).run(&["true"]);
    unusable.expect_code(125);
    unusable.expect(
        unusable
            .stderr
            .contains("configuration of the service cannot be used"),
        "without a word of it",
    );
    service.configure("");
    let end = served(&service).run(&["true"]);
    end.expect_code(0);
}

#[test]
fn larger_sums_than_at_the_start_of_the_service_keep_no_run_waiting() {
    let service = Service::start("[per_user]\nmemory = \"300M\"\n");
    stands_ready(&service);
    service.configure("[per_user]\nmemory = \"4G\"\n");
    let refused = served(&service).option("--memory 400M").run(&["true"]);
    refused.expect_code(125);
    refused.expect(
        refused.stderr.contains("when the service was started"),
        "why it does not fit",
    );
    served(&service).run(&["true"]).expect_code(0);
}
