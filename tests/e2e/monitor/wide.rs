//! Registers that hold more than the kernel takes of them: the call is told and decided on like one whose
//! registers hold no more.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use turnkey_expectations::expected;
use turnkey_policy::syscalls::{self, FilterAnswer};
use turnkey_tests::{Ran, Run};

use super::calls::untrusted;
use super::{events, rule, violations};

expected!(
    not_on[ORDINARY_6_12],
    "a compiler, and a run for each way to hold a number; every program reads registers by the \
     same few functions"
);

const WIDE: &str = include_str!("../../attacks/wide.c");

/// Numbers that no kernel has: behind the table, far behind it, and the last one that is not of x32.
const UNKNOWN: [&str; 4] = ["512", "600", "9999", "1073741823"];

/// Every kind of rule that has a path, on the file that the program works with.
fn rules(action: &str) -> String {
    let kinds = ["open", "link", "rename", "unlink", "chmod", "stat", "map"];
    let on_secret = |on: &&str| {
        let path = "path = [\"/workspace/secret\", \"/workspace/kept\"]";
        rule(&format!("on-{on}"), on, action, path)
    };
    kinds.iter().map(on_secret).collect()
}

/// Under every rule, and with the calls of a profile that has them all.
fn jail(action: &str) -> Run {
    let run = Run::new().compiled("attack", WIDE).file("secret", "hidden");
    let run = run.file("kept", "kept").with_events();
    run.profile(&rules(action))
}

/// How often each thing was told: all that an event says but when, by whom, and in which registers.
fn told(ran: &Ran) -> BTreeMap<String, u64> {
    let mut told = BTreeMap::new();
    let acts = ran
        .events
        .iter()
        .filter(|event| event["result"].is_string());
    for event in acts {
        let fields = [
            "kind",
            "syscall",
            "on",
            "path",
            "raw",
            "to",
            "access",
            "memory",
            "address",
            "socket",
            "questions",
            "result",
            "errno",
            "stopped_by",
            "decision",
        ];
        // The port of a socket that listens unbound is the kernel's choice, another one each time.
        let of_interest = fields
            .into_iter()
            .filter(|field| *field != "address" || event["kind"] != "listen")
            .map(|field| (field.to_owned(), event[field].clone()));
        let text = Value::Object(of_interest.collect()).to_string();
        *told.entry(text).or_default() += 1 + event["repeated"].as_u64().unwrap_or(0);
    }
    told
}

#[test]
fn m36_a_call_in_wide_registers_is_told_like_the_plain_one() {
    let refused = |number: &u32| {
        let answer = syscalls::answer(&untrusted().syscalls, *number);
        answer == FilterAnswer::Refused
    };
    let numbers = syscalls::known().filter_map(syscalls::number);
    let all: Vec<String> = numbers
        .filter(refused)
        .map(|number| number.to_string())
        .chain(UNKNOWN.map(str::to_owned))
        .collect();
    let attempt = |how: &str| {
        let mut program = vec!["./attack", how];
        program.extend(all.iter().map(String::as_str));
        jail("log").option("--mode observe").run(&program)
    };
    let (plain, wide) = (attempt("plain"), attempt("wide"));
    plain.expect_code(0);
    wide.expect(
        wide.stdout == plain.stdout,
        "the kernel does the same for both",
    );
    let (plain_told, wide_told) = (told(&plain), told(&wide));
    let missing: Vec<_> = plain_told
        .iter()
        .filter(|(what, count)| wide_told.get(*what) != Some(count))
        .collect();
    wide.expect(missing.is_empty(), &format!("not told alike: {missing:#?}"));
    plain.expect(plain_told.len() > 100, "and there is much to tell");
    for number in UNKNOWN {
        let name = json!(format!("syscall {number}"));
        let is_told = events(&wide, "refused").any(|event| event["syscall"] == name);
        wide.expect(is_told, "a number that no table has is told");
    }
}

#[test]
fn m36_each_call_in_wide_registers_is_killed_for() {
    for (how, control) in [("plain", "control"), ("wide", "attack")] {
        let free = jail("log").option("--mode observe").run(&["./attack", how]);
        free.expect_code(0);
        let ran = jail("kill").run(&["./attack", how]);
        ran.expect_code(121);
        let first = violations(&ran, "on-open")
            .filter(|one| one["action"] == "kill")
            .count();
        ran.expect(
            first == 1,
            &format!("{control}: the first open is killed for"),
        );
        ran.expect(ran.stdout.is_empty(), "and nothing after it was done");
    }
}

/// The filter kills for them as for those of x32, and the kernel puts back the registers of the dead.
#[test]
fn m36_a_number_above_those_of_x32_ends_by_the_filter_and_nothing_is_lost() {
    for (how, number) in [("plain", "2147483650"), ("wide", "4294967040")] {
        let ran = jail("log").run(&["./attack", how, number]);
        ran.expect_code(128 + nix::libc::SIGSYS);
        ran.expect(ran.at("/events/complete") == true, "all of it is told");
        ran.expect(ran.at("/verdict") != "clean", "and it is no clean run");
    }
}
