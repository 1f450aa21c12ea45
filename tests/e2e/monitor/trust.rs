//! Rules that are believed to act, and do not: nothing runs.

use turnkey_policy::{Overrides, load};
use turnkey_tests::Run;

use super::rule;
use crate::faults::{MARK, attempt, undisturbed};
use crate::tracer::{Call, Fault, PRETEND, Role};

/// As the profile has it: the monitor is required.
const WATCHED: &str = "--network none";

/// Commands of bpf(2) that put rules and programs to work, and what is said when they have not.
const PUT_TO_WORK: [(u64, &str); 3] = [
    // BPF_MAP_UPDATE_ELEM: rules, and which group they are for.
    (2, "do not act on this kernel"),
    // BPF_RAW_TRACEPOINT_OPEN
    (17, "tracepoint programs do not act on this kernel"),
    // BPF_LINK_CREATE: the programs of the group.
    (28, "cgroup programs do not act on this kernel"),
];

#[test]
fn m33_programs_that_are_loaded_and_do_not_act_are_found_out() {
    // Its own control: the same run, left alone, is watched and comes to its end.
    let (calls, init) = undisturbed(WATCHED);
    for (command, says) in PUT_TO_WORK {
        let call = Call {
            number: libc::SYS_bpf,
            which: command,
        };
        assert!(calls.contains_key(&(Role::Supervisor, call)), "{command}");
        // Each does nothing, and answers that it has.
        let fault = Fault {
            role: Role::Supervisor,
            call,
            nth: 0,
            lasting: true,
            errno: PRETEND,
        };
        let tried = attempt(WATCHED, init, Some(fault));
        let story = format!("{command}: {}", tried.error);
        assert_eq!(tried.traced.code, 125, "{story}");
        assert!(!tried.output.contains(MARK), "nothing ran: {story}");
        assert!(tried.error.contains(says), "{story}");
    }
}

/// The rules of `untrusted`, and so many more that there are `count`.
fn rules(count: usize) -> String {
    let no_files = |path: &str| Err(format!("{path} was asked for"));
    let untrusted = load("untrusted", &no_files, &Overrides::default()).expect("it is shipped");
    let more = (untrusted.rules.len()..count).map(|number| {
        let path = format!("path = \"/secret/{number}\"");
        rule(&format!("rule-{number}"), "open", "kill", &path)
    });
    more.collect()
}

#[test]
fn m35_a_policy_over_capacity_is_refused_whole() {
    let last = "print(open('/etc/hostname').read(), flush=True)\nopen('/secret/1022')";
    let ran = Run::new().profile(&rules(1023)).python(last);
    ran.expect_code(121);
    ran.expect(ran.stdout.starts_with("jail"), "the control: full, it runs");
    let told = super::violations(&ran, "rule-1022").count();
    ran.expect(told == 1, "and the last rule acts");

    let ran = Run::new().profile(&rules(1024)).python("print('ran')");
    ran.expect_code(125);
    ran.expect(ran.stdout.is_empty(), "nothing ran");
    ran.expect(
        ran.stderr.contains("1024 rules"),
        "it says what is too many",
    );

    // Patterns that multiply: the table of states, not that of rules.
    let patterns: Vec<String> = (0..9)
        .map(|number| format!("/**/a{number}/**/b{number}/**"))
        .collect();
    let many = rule("many", "open", "kill", &format!("path = {patterns:?}"));
    let ran = Run::new().profile(&many).python("print('ran')");
    ran.expect_code(125);
    ran.expect(ran.stdout.is_empty(), "nothing ran");
    ran.expect(
        ran.stderr.contains("do not fit"),
        "it says what does not fit",
    );
}
