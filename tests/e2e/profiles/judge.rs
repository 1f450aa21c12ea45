//! `judge`: static binaries that read, compute and answer; and some that want more.

use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::Value;
use turnkey_abi::syscalls::{CLASSES, class};
use turnkey_expectations::expected;
use turnkey_policy::syscalls::{self, FilterAnswer as Answered};
use turnkey_policy::{Overrides, load};
use turnkey_tests::{Ran, Run, finish, outside, scratch};

use super::{killed_by, passed, refused, told, under};

/// A C program without shared libraries, compiled once.
struct Answer {
    place: tempfile::TempDir,
}

impl Answer {
    fn new(source: &str) -> Answer {
        let place = scratch();
        let [text, program] = ["answer.c", "answer"].map(|name| place.path().join(name));
        std::fs::write(&text, source).expect("a test can write its own directory");
        let [text, program] = [text, program].map(|path| path.display().to_string());
        let arguments = [
            "-O1", "-static", "-pthread", "-w", "-o", &program, &text, "-lm",
        ];
        assert!(outside("cc", &arguments).0.success(), "{text} compiles");
        Answer { place }
    }

    /// A run under `judge` with the program as `answer` in the workspace.
    fn jailed(&self) -> Run {
        let run = under("judge");
        let copy = run.path().join("answer");
        std::fs::copy(self.place.path().join("answer"), copy).expect("a test can copy");
        run
    }

    /// What it prints outside of any jail.
    fn outside(&self, arguments: &[&str]) -> String {
        outside(self.place.path().join("answer"), arguments).1
    }
}

const SORTS_ITS_INPUT: &str = r#"
#include <stdio.h>
#include <stdlib.h>
static int by_value(const void *a, const void *b) { return *(int *)a - *(int *)b; }
int main(void) {
    int *numbers = NULL, count = 0, room = 0, number;
    while (scanf("%d", &number) == 1) {
        if (count == room) numbers = realloc(numbers, (room = room * 2 + 1024) * sizeof *numbers);
        numbers[count++] = number;
    }
    qsort(numbers, count, sizeof *numbers, by_value);
    for (int i = 0; i < count; i += 10000) printf("%d\n", numbers[i]);
    return 0;
}"#;

#[test]
fn a_program_that_sorts_its_input_passes() {
    let numbers: Vec<String> = (0..40_000).rev().map(|n: u32| n.to_string()).collect();
    let run = Answer::new(SORTS_ITS_INPUT)
        .jailed()
        .file("input", &numbers.join("\n"));
    let input = std::fs::File::open(run.path().join("input")).expect("it was written");
    let mut command = run.command(&["./answer"]);
    command
        .stdin(input)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let (started, child) = (
        Instant::now(),
        command.spawn().expect("turnkey can be started"),
    );
    passed(&run.end(child, started), "0\n10000\n20000\n30000\n");
}

const READS_A_FILE_WITH_THREADS: &str = r#"
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
static double sums[4];
static void *work(void *which) {
    long mine = (long)which;
    char *room = malloc(8 << 20);
    for (long i = mine; i < 1000000; i += 4) sums[mine] += sqrt((double)i);
    free(room);
    return NULL;
}
int main(void) {
    pthread_t threads[4];
    struct timespec little = {0, 2000000};
    FILE *file = fopen("question.txt", "r");
    char line[64];
    if (!file || !fgets(line, sizeof line, file)) return 1;
    for (long i = 0; i < 4; i++) pthread_create(&threads[i], NULL, work, (void *)i);
    for (long i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    nanosleep(&little, NULL);
    printf("%s%.0f %d\n", line, sums[0] + sums[1] + sums[2] + sums[3], clock() >= 0);
    return 0;
}"#;

#[test]
fn a_program_that_reads_a_file_and_starts_threads_passes() {
    let run = Answer::new(READS_A_FILE_WITH_THREADS)
        .jailed()
        .file("question.txt", "roots\n");
    passed(&run.run(&["./answer"]), "roots\n666666166 1\n");
}

const FAILS: &str = r#"
#include <stdio.h>
#include <stdlib.h>
int main(int count, char **words) {
    printf("%d\n", count);
    fflush(stdout);
    if (count > 1) abort();
    return 42;
}"#;

#[test]
fn a_program_that_fails_is_told_from_one_that_is_stopped() {
    let answer = Answer::new(FAILS);
    let ran = answer.jailed().run(&["./answer"]);
    ran.expect_code(42);
    ran.expect(
        ran.at("/verdict") == "clean",
        "its own failure is no violation",
    );
    let ran = answer.jailed().run(&["./answer", "abort"]);
    ran.expect(ran.code == 128 + 6, "abort(3) is SIGABRT here, too");
    ran.expect(ran.at("/verdict") == "clean", "clean");
}

expected!(
    programs_in_rust_pass: not_on [ORDINARY_6_12],
    "this guest has no compiler of Rust: on 6.12 programs"
);
#[test]
fn programs_in_rust_pass() {
    let source = "use std::{collections::BTreeMap, io::Read, thread, time};
fn main() {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).unwrap();
    let file = std::fs::read_to_string(\"question.txt\").unwrap();
    let sums: Vec<_> = (0..4u64).map(|n| thread::spawn(move || (0..1000 * n).sum::<u64>())).collect();
    let sums: BTreeMap<_, _> = sums.into_iter().map(|sum| (sum.join().unwrap(), ())).collect();
    thread::sleep(time::Duration::from_millis(2));
    println!(\"{}{file}{}\", text.len(), sums.len());
}";
    let run = under("judge")
        .file("answer.rs", source)
        .file("question.txt", " and ");
    let mut rustc = Command::new("rustc");
    rustc.args(["-O", "-C", "target-feature=+crt-static", "answer.rs"]);
    assert!(
        rustc
            .current_dir(run.path())
            .status()
            .expect("rustc is there")
            .success()
    );
    passed(&run.run(&["./answer"]), "0 and 4\n");
}

const STARTS_ITSELF: &str = r#"
#include <stdio.h>
#include <unistd.h>
int main(int count, char **words) {
    if (count == 1) {
        execl("/proc/self/exe", "answer", "again", (char *)0);
        printf("refused\n");
    } else {
        printf("a second program\n");
    }
    return 0;
}"#;

#[test]
fn a_second_program_is_never_started() {
    let answer = Answer::new(STARTS_ITSELF);
    let told = answer.outside(&[]);
    assert_eq!(told, "a second program\n", "the control");
    let ran = answer.jailed().run(&["./answer"]);
    killed_by(&ran, "no-exec");
    ran.expect(
        ran.stdout.is_empty(),
        "it did not run, and the first went no further",
    );
}

const CONNECTS: &str = r#"
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
int main(int count, char **words) {
    struct sockaddr_in address = {AF_INET, htons(atoi(words[1])), {htonl(INADDR_LOOPBACK)}};
    int reached = socket(AF_INET, SOCK_STREAM, 0);
    puts(connect(reached, (void *)&address, sizeof address) ? "alone" : "connected");
    return 0;
}"#;

#[test]
fn nobody_is_connected_to() {
    let answer = Answer::new(CONNECTS);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = listener
        .local_addr()
        .expect("it is bound")
        .port()
        .to_string();
    assert_eq!(answer.outside(&[&port]), "connected\n", "the control");
    drop(listener.accept().expect("the control has come"));
    let ran = answer.jailed().run(&["./answer", &port]);
    told(&ran, "network-connect");
    ran.expect(ran.stdout == "alone\n", "no connection");
    listener.set_nonblocking(true).expect("it can be set");
    ran.expect(listener.accept().is_err(), "nobody came");
}

const WRITES: &str = r#"
#include <stdio.h>
int main(int count, char **words) {
    FILE *file = fopen(words[1], "w");
    puts(file && fputs("x", file) != EOF && !fclose(file) ? "written" : "refused");
    return 0;
}"#;

#[test]
fn nothing_is_written_anywhere() {
    let answer = Answer::new(WRITES);
    let place = scratch();
    let control = place.path().join("made").display().to_string();
    assert_eq!(answer.outside(&[&control]), "written\n", "the control");
    for path in ["/workspace/made", "/tmp/made", "/made"] {
        let ran = answer.jailed().run(&["./answer", path]);
        ran.expect(ran.stdout == "refused\n", "not written");
        refused(&ran, path);
        ran.expect(ran.list("/files_changed").is_empty(), "and nothing changed");
    }
}

#[test]
fn nothing_of_the_host_is_there_to_be_read() {
    let source = "#include <stdio.h>
int main(int count, char **words) { puts(fopen(words[1], \"r\") ? \"read\" : \"absent\"); return 0; }";
    let answer = Answer::new(source);
    for path in ["/usr/bin/env", "/usr/bin/sort"] {
        assert_eq!(answer.outside(&[path]), "read\n", "the control");
        let ran = answer.jailed().run(&["./answer", path]);
        ran.expect(ran.stdout == "absent\n", "it is not there");
        refused(&ran, path);
    }
    assert_eq!(answer.outside(&["/etc/passwd"]), "read\n", "the control");
    killed_by(
        &answer.jailed().run(&["./answer", "/etc/passwd"]),
        "account-database",
    );
}

const CALLS_WHAT_IS_LEFT_OUT: &str = "#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int count, char **words) {
    char folder[] = \"/tmp/turnkey-XXXXXX\";
    long parent = 0;
    for (int times = 0; times < 1000; times++) parent = syscall(SYS_getppid, times);
    printf(\"%d %d\\n\", parent > 0, !mkdir(mktemp(folder), 0700));
    if (count > 1) printf(\"%d\\n\", !chmod(words[0], 0700));
    fflush(stdout);
    rmdir(folder);
    return 0;
}";

/// The row of a refused call.
fn call<'a>(ran: &'a Ran, name: &str) -> Option<&'a Value> {
    let mut rows = ran.list("/refused_calls").iter();
    rows.find(|row| row["syscall"] == name)
}

/// What seccomp refuses and no rule can name: seen, named, counted, and how to allow it is said.
#[test]
fn calls_that_the_profile_leaves_out_are_refused_and_told() {
    let answer = Answer::new(CALLS_WHAT_IS_LEFT_OUT);
    assert_eq!(answer.outside(&["too"]), "1 1\n1\n", "the control");
    let ran = answer.jailed().with_events().run(&["./answer"]);
    ran.expect(ran.stdout == "0 0\n", "each is refused");
    for (name, count, group) in [("getppid", 1000, "@self"), ("mkdir", 1, "@file-manage")] {
        let Some(row) = call(&ran, name) else {
            panic!("{name} is told: {}", ran.at("/refused_calls"))
        };
        ran.expect(row["count"] == count, "each time");
        ran.expect(
            row["errno"] == "EPERM" && row["stopped_by"] == "seccomp",
            "why",
        );
        ran.expect(row["advice"].to_string().contains(group), "how to allow it");
        ran.expect(row["rule"].is_null(), "no rule speaks of it");
        let process = ran.list("/processes").iter();
        let mut process = process.filter(|process| process["exec_id"] == row["first_exec_id"]);
        let process = process.next().map(|process| &process["exe"]["path"]);
        ran.expect(process == Some(&"/workspace/answer".into()), "who");
        let said = "refused, and the program did without: getppid (1000 times), mkdir";
        ran.expect(ran.stderr.contains(said), "the terminal says so");
        let is_it = |event: &&Value| event["kind"] == "refused" && event["syscall"] == name;
        let first = ran.events.iter().find(is_it);
        ran.expect(
            first.is_some_and(|event| event["process"]["pid"].is_u64()),
            "the event",
        );
        // The rest of the thousand is a count; one who waits long for the CPU is told it in between.
        let events = ran.events.iter().filter(is_it).count();
        ran.expect(events < 20, "repeats are not sent again");
    }
    ran.expect(ran.at("/verdict") == "clean", "a refusal is no attack");
    let ran = answer.jailed().run(&["./answer", "too"]);
    ran.expect(ran.stdout == "0 0\n0\n", "nor is the mode changed");
    refused(&ran, "/workspace/answer");
    let said = "seccomp: the profile does not allow that syscall";
    ran.expect(ran.stderr.contains(said), "and seccomp is named for it");
}

/// What the advice says to do is enough.
#[test]
fn calls_are_made_where_their_group_is_allowed() {
    let answer = Answer::new(CALLS_WHAT_IS_LEFT_OUT);
    let place = scratch();
    let profile = place.path().join("mine.toml");
    let text = "schema = \"turnkey.profile/v1\"\nname = \"mine\"\nextends = [\"judge\"]\n\
                [syscalls]\nallow = [\"getppid\", \"@file-manage\"]\n";
    std::fs::write(&profile, text).expect("a test can write its own directory");
    let run = under(&profile.display().to_string());
    std::fs::copy(
        answer.place.path().join("answer"),
        run.path().join("answer"),
    )
    .expect("a copy");
    let ran = run.run(&["./answer"]);
    // There is no /tmp, so no folder is made, for a reason that is not the filter's.
    ran.expect(ran.stdout == "1 0\n", "it has a parent");
    ran.expect(call(&ran, "getppid").is_none(), "which is no refusal");
    ran.expect(call(&ran, "mkdir").is_none(), "nor is the kernel's own");
    ran.expect(!ran.stderr.contains("blocked: calling"), "on the terminal");
}

/// Every number that the filter of the smallest profile answers in the kernel's place.
#[test]
fn m28_every_call_that_the_smallest_profile_refuses_is_seen() {
    let no_files = |path: &str| Err(format!("{path} was asked for"));
    let policy = load("judge", &no_files, &Overrides::default()).expect("it is shipped");
    // The first is never answered. The second is refused to whoever asks for no namespace, too.
    let others = ["restart_syscall", "clone3"];
    let is_refused = |name: &&str| {
        let number = syscalls::number(name).unwrap_or_default();
        syscalls::answer(&policy.syscalls, number) != Answered::Allowed && !others.contains(name)
    };
    let names: Vec<&str> = syscalls::known().filter(is_refused).collect();
    let number = |name: &&str| syscalls::number(name).unwrap_or_default();
    let numbers: Vec<String> = names.iter().map(|name| number(name).to_string()).collect();
    // One that no kernel has yet is hidden from the program, whatever the kernel of the host is.
    let numbers = ["./answer"]
        .into_iter()
        .chain(numbers.iter().map(String::as_str));
    let program: Vec<&str> = numbers.chain(["500"]).collect();
    let answer = Answer::new(include_str!("../../attacks/walk.c"));
    let run = answer.jailed().with_events().option("--mode observe");
    let ran = run
        .option("--output 4M --wall 60s --cpu-time 60s")
        .run(&program);
    let answered = ran.stdout.lines().filter(|line| {
        line.ends_with("answered -1") || line.ends_with(&format!("answered -{}", libc::ENOSYS))
    });
    ran.expect(answered.count() == names.len() + 1, "each is refused");
    ran.expect(names.len() > 200, "and they are many");
    // Those that have an object are told with it.
    let mut unseen: Vec<&str> = Vec::new();
    for name in &names {
        let of = CLASSES[number(name) as usize];
        let kinds: &[&str] = match of {
            class::LINK..=class::FCHMOD => &["change"],
            class::CONNECT..=class::SENDMSG => &["connect", "bind", "send"],
            class::MMAP..=class::SHMAT => &["map"],
            class::OPEN..=class::OPENAT2 => &["open"],
            class::EXECVE..=class::EXECVEAT => &["exec_attempt"],
            _ => &[],
        };
        let alike = |other: &&&str| CLASSES[number(other) as usize] == of;
        let alike = names.iter().filter(alike).count();
        let told = ran.events.iter().filter(|event| {
            let is_refused = event["errno"] == "EPERM" || event["errno"] == "ENOSYS";
            is_refused && kinds.iter().any(|kind| event["kind"] == *kind)
        });
        // Asked in passing: an event, but no row.
        let is_event = |event: &Value| event["kind"] == "refused" && event["syscall"] == **name;
        let in_passing = syscalls::NUMA.contains(name) && ran.events.iter().any(is_event);
        if call(&ran, name).is_none() && told.count() < alike && !in_passing {
            unseen.push(name);
        }
    }
    ran.expect(unseen.is_empty(), &format!("and told: {unseen:?}"));
    ran.expect(call(&ran, "syscall 500").is_some(), "and what nobody knows");
    ran.expect(ran.at("/events/complete") == true, "all of it");
}

#[test]
fn who_takes_too_much_is_ended() {
    let memory = "#include <stdlib.h>
#include <string.h>
int main(void) { for (;;) memset(malloc(1 << 20), 1, 1 << 20); }";
    let ran = Answer::new(memory).jailed().run(&["./answer"]);
    ran.expect_code(122);
    ran.expect(
        ran.at("/status") == "out_of_memory",
        "by the limit of memory",
    );
    let ran = Answer::new("int main(void) { for (;;); }")
        .jailed()
        .option("--cpu-time 1s")
        .run(&["./answer"]);
    ran.expect_code(124);
}

#[test]
fn a_dynamic_binary_is_told_what_it_lacks() {
    let run = under("judge").compiled("answer", "int main(void) { return 0; }");
    let mut command = run.command(&["./answer"]);
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let output = finish(child.expect("turnkey can be started"));
    assert_eq!(output.status.code(), Some(126));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("loader is not in the jail"), "{text}");
}
