//! Rules that are believed to act, and do not: nothing runs.

use turnkey_expectations::expected;
use turnkey_policy::{Overrides, load};
use turnkey_tests::{Run, nothing_is_loaded};

use super::rule;
use crate::faults::{Attempt, MARK, attempt, undisturbed};
use crate::tracer::{Call, Fault, PRETEND, Role};

/// The monitor is required, as the profile has it, and each run loads its own programs, in the same calls.
const WATCHED: &str = "--network none --leave-nothing";

/// Commands of bpf(2): BPF_MAP_UPDATE_ELEM for the group that rules are for,
/// BPF_RAW_TRACEPOINT_OPEN, and BPF_LINK_CREATE for the programs of the group.
const MAP_UPDATE: u64 = 2;
const TRACEPOINT_OPEN: u64 = 17;
const LINK_CREATE: u64 = 28;

/// Whose calls they are.
const ENTER: (Role, u64) = (Role::Opener, MAP_UPDATE);
const ADOPT: (Role, u64) = (Role::Supervisor, MAP_UPDATE);
const ATTACH: (Role, u64) = (Role::Opener, TRACEPOINT_OPEN);
const LINK: (Role, u64) = (Role::Opener, LINK_CREATE);

/// The tracepoints are those of a call's begin and end, exec, fork, and the end of a process.
const TRACEPOINT_OF_EXEC: u32 = 3;

const KILL: &str = "tracepoint programs do not act on this kernel";
const UNKNOWN_GROUP: &str = "watching its cgroup";
const UNASKED: &str = "the kernel has BPF LSM in its list, and does not ask it";
const REFUSE: &str = "cgroup programs do not act on this kernel";

/// Makes the `nth` of these calls do nothing and answer that it has, or every one for 0.
fn pretend(options: &str, init: Option<usize>, (role, command): (Role, u64), nth: u32) -> Attempt {
    let call = Call {
        number: libc::SYS_bpf,
        which: command,
    };
    let fault = Fault {
        role,
        call,
        nth,
        lasting: nth == 0,
        errno: PRETEND,
    };
    attempt(options, init, Some(fault))
}

expected!(
    m33_a_group_that_is_not_entered_is_found_out: at_night,
    "a run under ptrace for each entry that is not made; `m33_a_run_whose_start` has one by day"
);
#[test]
fn m33_a_group_that_is_not_entered_is_found_out() {
    found_out(|made| {
        let updates = made(ENTER);
        vec![
            // The entries of the last two canaries; then the jail's own, when it is about to start.
            (ENTER, updates - 1, UNKNOWN_GROUP),
            (ENTER, updates, UNKNOWN_GROUP),
            (ADOPT, 0, "the kernel does not take the jail"),
        ]
    });
}

expected!(
    m33_programs_that_are_loaded_and_do_not_act_are_found_out: at_night,
    "a run under ptrace for each program that does not act; `m33_a_run_whose_start` has one by \
     day"
);
#[test]
fn m33_programs_that_are_loaded_and_do_not_act_are_found_out() {
    found_out(|_| {
        vec![
            (ATTACH, 0, KILL),
            (ATTACH, 1, "no record of its deadly open"),
            (ATTACH, 2, "no record of its raw socket"),
            (ATTACH, 4, "no record of its child"),
            (ATTACH, 5, "no record of its end"),
        ]
    });
}

expected!(
    m33_refusals_of_the_group_that_do_not_act_are_found_out: at_night,
    "a run under ptrace for each program that does not act; `m33_a_run_whose_start` has one by \
     day"
);
#[test]
fn m33_refusals_of_the_group_that_do_not_act_are_found_out() {
    found_out(|made| {
        let links = made(LINK);
        // The last seven are those that the canary tries.
        (links - 6..=links).map(|nth| (LINK, nth, REFUSE)).collect()
    });
}

/// A call that only pretends: whose, which of them (0 for all), and the words that tell of it.
type Pretence = ((Role, u64), u32, &'static str);

/// Each of these alone ends a run before its program starts, and the error says what does not act. They are chosen by
/// how many calls of each kind a run makes that is left alone.
fn found_out(pretended: impl Fn(&dyn Fn((Role, u64)) -> u32) -> Vec<Pretence>) {
    nothing_is_loaded();
    // Its own control: the same run, left alone, is watched and comes to its end.
    let (calls, init) = undisturbed(WATCHED);
    let made = |(role, which)| {
        let number = libc::SYS_bpf;
        calls[&(role, Call { number, which })]
    };
    for (whose, nth, says) in pretended(&made) {
        let tried = pretend(WATCHED, init, whose, nth);
        let story = format!("{whose:?} {nth}: {}", tried.error);
        assert_eq!(tried.traced.code, 125, "{story}");
        assert!(!tried.output.contains(MARK), "nothing ran: {story}");
        // Where a kernel has hooks, those that it does not ask are found out first.
        let found = [says, UNASKED]
            .iter()
            .any(|words| tried.error.contains(words));
        assert!(found, "{story}");
    }
}

/// The hook of exec alone is not tried beforehand: no jail gets by without its command's own start.
#[test]
fn m33_a_run_whose_start_was_not_seen_is_not_clean() {
    nothing_is_loaded();
    let options = format!("{WATCHED} --on-loss fail");
    let (_, init) = undisturbed(&options);
    let tried = pretend(&options, init, ATTACH, TRACEPOINT_OF_EXEC);
    assert_eq!(tried.traced.code, 120, "{}", tried.error);
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
        ran.stderr.contains("more than 1023 rules"),
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
