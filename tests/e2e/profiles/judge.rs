//! `judge`: static binaries that read, compute and answer; and some that want more.

use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::time::Instant;

use turnkey_tests::{Run, finish, outside, scratch};

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

/// SECURITY.md says which of these are told.
#[test]
fn calls_that_the_profile_leaves_out_are_refused() {
    let source = "#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
int main(int count, char **words) {
    char folder[] = \"/tmp/turnkey-XXXXXX\";
    printf(\"%d %d %d\\n\", getppid() > 0, !mkdir(mktemp(folder), 0700), !chmod(words[0], 0700));
    rmdir(folder);
    return 0;
}";
    let answer = Answer::new(source);
    assert_eq!(answer.outside(&[]), "1 1 1\n", "the control");
    let ran = answer.jailed().run(&["./answer"]);
    ran.expect(ran.stdout == "0 0 0\n", "each is refused");
    refused(&ran, "/workspace/answer");
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
