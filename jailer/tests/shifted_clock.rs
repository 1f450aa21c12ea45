//! A clock that is not the host's: what programs see of it in several languages, what sleeps come to, and that the other layers stay.

#![allow(clippy::disallowed_methods, reason = "a test opens its own files")]

use std::error::Error;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use turnkey_expectations::expected;
use turnkey_facts::{Limit, Status};
use turnkey_jailer::{Held, Host, JailCommand, JailNews, Plan, ShiftedClock};
use turnkey_policy::{Overrides, Policy};

expected!(as_root, "make jails of root's with control groups");

const DAY: i64 = 86_400;
/// Later than now by so many days.
const AHEAD: i64 = 400;

/// The outcome of a run: its end, its output, the limit that it met, and the time that it took on the host's clock.
#[derive(Debug)]
struct Ran {
    status: Status,
    output: String,
    limit: Option<Limit>,
    took: Duration,
}

fn ahead(days: i64) -> ShiftedClock {
    ShiftedClock {
        ahead: days * DAY,
        wall: None,
        is_answered: false,
    }
}

fn policy() -> Result<Policy, Box<dyn Error>> {
    let no_files = |path: &str| Err(format!("{path}: only shipped profiles here"));
    let mut policy = turnkey_policy::load("untrusted", &no_files, &Overrides::default())?;
    policy.limits.memory = 512 << 20;
    Ok(policy)
}

fn run(directory: &Path, clock: ShiftedClock, program: &[&str]) -> Ran {
    attempt(directory, clock, program).expect("a jail can be made")
}

fn attempt(directory: &Path, clock: ShiftedClock, program: &[&str]) -> Result<Ran, Box<dyn Error>> {
    let output = tempfile::tempfile()?;
    let to = || output.try_clone().map(OwnedFd::from);
    let null = OwnedFd::from(File::open("/dev/null")?);
    let held = held(directory, clock, program, [null, to()?, to()?])?;
    ended(held, output)
}

fn held(
    directory: &Path,
    clock: ShiftedClock,
    program: &[&str],
    streams: [OwnedFd; 3],
) -> Result<Held, Box<dyn Error>> {
    let policy = policy()?;
    let command = JailCommand {
        arguments: program.iter().map(Into::into).collect(),
        environment: vec![("PATH".into(), "/usr/bin:/bin".into())],
        workdir: directory.canonicalize()?,
        ..JailCommand::default()
    };
    let plan = Plan::new(&policy, &Host::probe(&policy)?, command)?;
    let plan = Plan {
        clock: Some(clock),
        ..plan
    };
    Ok(plan.prepare(streams)?.spawn()?)
}

fn ended(held: Held, mut output: File) -> Result<Ran, Box<dyn Error>> {
    let mut running = held.release()?;
    let started = Instant::now();
    let mut limit = None;
    while running.news_within(Duration::from_millis(10))? != Some(JailNews::Gone) {
        limit = running.exceeded();
        if limit.is_some() || started.elapsed() > Duration::from_secs(20) {
            break;
        }
    }
    let took = started.elapsed();
    let exit = running.finish()?;
    let mut text = String::new();
    output.rewind()?;
    output.read_to_string(&mut text)?;
    Ok(Ran {
        status: exit.status,
        output: text,
        limit,
        took,
    })
}

/// A C program in a new directory, compiled with these flags.
fn compiled(flags: &[&str], source: &str) -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("it can be made");
    let text = directory.path().join("program.c");
    std::fs::write(&text, source).expect("it can be written");
    let program = directory.path().join("program");
    let mut compiler = Command::new("cc");
    compiler
        .args(["-O1", "-o"])
        .arg(program)
        .arg(text)
        .args(flags);
    assert!(compiler.status().expect("cc(1)").success(), "it compiles");
    directory
}

fn now() -> i64 {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("it is later");
    now.as_secs().cast_signed()
}

/// Each line is a number of seconds, and near the shifted date.
#[track_caller]
fn all_are_ahead(ran: &Ran, lines: usize) {
    assert_eq!(ran.status, Status::Exited(0), "{ran:?}");
    let told: Vec<i64> = ran
        .output
        .lines()
        .filter_map(|line| line.trim().parse().ok())
        .collect();
    assert_eq!(told.len(), lines, "{ran:?}");
    for time in &told {
        let off = time - (now() + AHEAD * DAY);
        assert!(off.abs() < 60, "{off} seconds off: {ran:?}");
    }
}

const EVERY_WAY: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void tell(long seconds) { printf("%ld\n", seconds); fflush(stdout); }

static void *by_thread(void *unused) { tell(time(NULL)); return NULL; }

int main(int argc, char **argv) {
    struct timespec moment;
    struct timeval day;
    if (argc > 1) { tell(time(NULL)); return 0; }
    tell(time(NULL));
    gettimeofday(&day, NULL);
    tell(day.tv_sec);
    clock_gettime(CLOCK_REALTIME, &moment);
    tell(moment.tv_sec);
    clock_gettime(CLOCK_REALTIME_COARSE, &moment);
    tell(moment.tv_sec);
    syscall(SYS_clock_gettime, CLOCK_TAI, &moment);
    tell(moment.tv_sec);
    tell(syscall(SYS_time, NULL));
    time_t stored;
    syscall(SYS_time, &stored);
    tell(stored);
    pthread_t thread;
    pthread_create(&thread, NULL, by_thread, NULL);
    pthread_join(thread, NULL);
    if (fork() == 0) { tell(time(NULL)); _exit(0); }
    wait(NULL);
    if (vfork() == 0) { execl("/workspace/program", "program", "again", NULL); _exit(1); }
    wait(NULL);
    system("date +%s");
    return 0;
}
"#;

#[test]
fn every_call_that_tells_the_date_tells_another_one() {
    for flags in [&[][..], &["-static"][..]] {
        let directory = compiled(flags, EVERY_WAY);
        all_are_ahead(
            &run(directory.path(), ahead(AHEAD), &["/workspace/program"]),
            11,
        );
    }
}

#[test]
fn interpreters_have_the_same_date() {
    let directory = tempfile::tempdir().unwrap();
    let python = "import time, datetime, threading\nprint(int(time.time()))\nprint(int(datetime.datetime.now().timestamp()))\n\
                  threading.Thread(target=lambda: print(int(time.time()))).start()\n";
    let programs: [(&[&str], usize); 3] = [
        (&["python3", "-c", python], 3),
        (
            &[
                "bash",
                "-c",
                "date +%s; printf '%(%s)T\\n' -1; echo $EPOCHSECONDS",
            ],
            3,
        ),
        (
            &["node", "-e", "console.log(Math.floor(Date.now() / 1000))"],
            1,
        ),
    ];
    for (program, lines) in programs {
        all_are_ahead(&run(directory.path(), ahead(AHEAD), program), lines);
    }
}

/// Each tells the minutes that were over when it woke: nobody wakes late because another one sleeps longer.
const SLEEPERS: &str = "import threading, time\nbegan = time.time()\nwoke = []\ndef sleep(minutes):\n    time.sleep(minutes * 60)\n    \
                        woke.append(str(round((time.time() - began) / 60)))\nthreads = [threading.Thread(target=sleep, args=(minutes,)) for minutes in \
                        (100, 300, 200)]\nfor thread in threads: thread.start()\nfor thread in threads: thread.join()\nprint(*woke)\n";

#[test]
fn sleeps_go_by_in_each_language() {
    let directory = compiled(
        &[],
        "#include <unistd.h>\n#include <stdio.h>\n#include <poll.h>\n#include <sys/select.h>\nint main() { sleep(3600); poll(0, 0, 3600000); \
         struct timeval hour = {3600, 0}; select(0, 0, 0, 0, &hour); printf(\"done %ld\\n\", (long)hour.tv_sec); return 0; }",
    );
    let python = "import time, threading, asyncio, select, subprocess\nbegan = time.time()\ntime.sleep(3600)\nthreading.Event().wait(3600)\n\
                  asyncio.run(asyncio.sleep(3600))\nsubprocess.run(['sleep', '3600'])\nprint('done', round((time.time() - began) / 60))\n";
    let programs: [(&[&str], &str); 5] = [
        (&["/workspace/program"], "done 0"),
        (&["python3", "-c", python], "done 240"),
        (&["sh", "-c", "sleep 1h; sleep 2d; echo done"], "done"),
        (&["python3", "-c", SLEEPERS], "100 200 300"),
        (
            &[
                "node",
                "-e",
                "setTimeout(() => console.log('done'), 3600 * 1000)",
            ],
            "done",
        ),
    ];
    for (program, last) in programs {
        let ran = run(directory.path(), ahead(0), program);
        assert_eq!(ran.output.trim(), last, "{program:?} {ran:?}");
        assert!(ran.took < Duration::from_secs(2), "{program:?} {ran:?}");
    }
}

#[test]
fn the_wall_clock_of_a_run_is_its_own_clock() {
    let directory = tempfile::tempdir().unwrap();
    let clock = ShiftedClock {
        wall: Some(Duration::from_secs(30)),
        ..ahead(0)
    };
    let ran = run(
        directory.path(),
        clock,
        &["sh", "-c", "sleep 20; echo first; sleep 20; echo second"],
    );
    assert_eq!(ran.output, "first\n", "{ran:?}");
    assert_eq!(ran.limit, Some(Limit::Wall), "{ran:?}");
    assert!(ran.took < Duration::from_secs(2), "{ran:?}");
}

const WAITS: &str = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/select.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

static void caught(int signal) { (void)signal; }
static volatile int works_on = 1;
static void stops_the_work(int signal) { (void)signal; works_on = 0; }
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static volatile unsigned long counted;

static void *works(void *unused) {
    (void)unused;
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    while (works_on) { counted++; }
    pthread_mutex_lock(&mutex);
    pthread_cond_signal(&condition);
    pthread_mutex_unlock(&mutex);
    return NULL;
}

int main(void) {
    struct timespec hour = {3600, 0}, rest = {0, 0}, moment;
    struct sigaction action;
    pthread_t thread;
    int ends[2];
    fd_set set;

    /* A signal with a handler ends a sleep, which tells what is left. */
    memset(&action, 0, sizeof action);
    action.sa_handler = caught;
    sigaction(SIGALRM, &action, NULL);
    pthread_create(&thread, NULL, works, NULL);
    /* It rings again: one that comes before the sleep begins would end none. */
    ualarm(30000, 30000);
    int slept = nanosleep(&hour, &rest);
    printf("sleep: %d %s, left %s\n", slept, slept ? strerror(errno) : "-", rest.tv_sec > 3500 ? "an hour" : "nothing");

    /* Whenever it comes: between two slices as well. */
    int broken_off = 0;
    for (int i = 0; i < 40; i++) {
        ualarm(4900 + 10 * i, 5000);
        broken_off += nanosleep(&hour, NULL) != 0;
    }
    printf("broken off: %d\n", broken_off);

    /* A signal that is ignored does not. */
    signal(SIGALRM, SIG_IGN);
    ualarm(2000, 0);
    struct timespec a_little = {0, 50000000};
    printf("ignored: %d\n", nanosleep(&a_little, NULL));

    /* A time that another thread needs does not go by. */
    works_on = 0;
    pthread_join(thread, NULL);
    works_on = 1;
    pthread_create(&thread, NULL, works, NULL);
    signal(SIGALRM, stops_the_work);
    pthread_mutex_lock(&mutex);
    ualarm(100000, 0);
    clock_gettime(CLOCK_REALTIME, &moment);
    moment.tv_sec += 600;
    int waited = pthread_cond_timedwait(&condition, &mutex, &moment);
    pthread_mutex_unlock(&mutex);
    pthread_join(thread, NULL);
    printf("condition: %s\n", waited ? strerror(waited) : "signalled");

    /* Nobody signals this one. */
    clock_gettime(CLOCK_REALTIME, &moment);
    moment.tv_sec += 600;
    pthread_mutex_lock(&mutex);
    waited = pthread_cond_timedwait(&condition, &mutex, &moment);
    pthread_mutex_unlock(&mutex);
    printf("deadline: %s\n", strerror(waited));

    /* Sets of descriptors are those of the last slice, and what is left is told. */
    pipe(ends);
    FD_ZERO(&set);
    FD_SET(ends[0], &set);
    struct timeval limit = {3600, 0};
    if (fork() == 0) { usleep(20000); for (volatile long i = 0; i < 50000000; i++) {} write(ends[1], "x", 1); _exit(0); }
    int ready = select(ends[0] + 1, &set, NULL, NULL, &limit);
    printf("select: %d %d, left %s\n", ready, FD_ISSET(ends[0], &set) != 0, limit.tv_sec > 3500 ? "an hour" : "nothing");

    /* A timer for a moment of the day. */
    int timer = timerfd_create(CLOCK_REALTIME, 0);
    struct itimerspec at = {{0, 0}, {0, 0}};
    clock_gettime(CLOCK_REALTIME, &at.it_value);
    at.it_value.tv_nsec = (at.it_value.tv_nsec + 50000000) % 1000000000;
    if (at.it_value.tv_nsec < 50000000) at.it_value.tv_sec++;
    timerfd_settime(timer, TFD_TIMER_ABSTIME, &at, NULL);
    uint64_t times = 0;
    read(timer, &times, sizeof times);
    printf("timer: %d\n", (int)times);

    /* Mistakes are the kernel's to answer. */
    struct timespec wrong = {0, 2000000000};
    printf("mistakes: %s, ", nanosleep(&wrong, NULL) ? strerror(errno) : "-");
    printf("%s\n", syscall(228, 0, 16) ? strerror(errno) : "-");
    return 0;
}
"#;

#[test]
fn waits_end_as_they_would_and_no_earlier_than_what_they_wait_for() {
    let directory = compiled(&["-pthread"], WAITS);
    let ran = run(directory.path(), ahead(AHEAD), &["/workspace/program"]);
    let expected = "sleep: -1 Interrupted system call, left an hour\n\
                    broken off: 40\n\
                    ignored: 0\n\
                    condition: signalled\n\
                    deadline: Connection timed out\n\
                    select: 1 1, left an hour\n\
                    timer: 1\n\
                    mistakes: Invalid argument, Bad address\n";
    assert_eq!(ran.output, expected, "{ran:?}");
    assert!(ran.took < Duration::from_secs(2), "{ran:?}");
}

/// Ways to wait for a time, each with its end: after a while, or at a moment of the day.
const TIMERS: &str = include_str!("shifted_clock/timers.c");

#[test]
fn timers_and_calls_that_wait_go_by_and_the_first_comes_first() {
    let directory = compiled(&["-pthread"], TIMERS);
    let ran = run(directory.path(), ahead(AHEAD), &["/workspace/program"]);
    let expected = "setitimer: went by\n\
                    setitimer, once more: went by\n\
                    getitimer: 60 of 60\n\
                    alarm: 60 were left\n\
                    alarm: went by\n\
                    alarm of a child: 0\n\
                    alarm: 1000 left\n\
                    timer_settime, a while: went by\n\
                    timer_settime, a moment: went by\n\
                    nanosleep: went by\n\
                    timer_gettime behind an hour: 3600\n\
                    timer_settime, a signal: went by\n\
                    value: 42\n\
                    timer_settime, a thread: went by\n\
                    value: 43\n\
                    CPU time: rang\n\
                    timerfd_settime, a while: went by\n\
                    timerfd_settime, a moment: went by\n\
                    timerfd_gettime behind an hour: 3600\n\
                    poll for ever, of a timerfd: went by\n\
                    timerfd, once more: went by\n\
                    times: 1\n\
                    alarm of a second, within an hour: rang, left the rest\n\
                    clock_nanosleep, a moment: went by\n\
                    futex, a moment: went by\n\
                    futex, a while: went by\n\
                    ppoll: went by\n\
                    epoll_wait: went by\n\
                    sigtimedwait: went by\n\
                    pselect: went by\n\
                    alarm, of the program before: went by\n";
    assert_eq!(ran.output, expected, "{ran:?}");
    assert!(ran.took < Duration::from_secs(2), "{ran:?}");
}

const ESCAPES: &str = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void tell(const char *what, long answer) {
    printf("%s: %s\n", what, answer < 0 ? strerror(errno) : "went through");
    fflush(stdout);
}

static void killed(const char *what, void (*act)(void)) {
    int status;
    if (fork() == 0) { act(); _exit(0); }
    wait(&status);
    printf("%s: %s\n", what, WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "went through");
    fflush(stdout);
}

static void by_int80(void) { __asm__ volatile("int $0x80" : : "a"(13), "b"(0)); }
static void by_x32(void) { syscall(0x40000000 | SYS_clock_gettime, 0, NULL); }

int main(void) {
    tell("untraced clone", syscall(SYS_clone, CLONE_UNTRACED | SIGCHLD, 0, 0, 0, 0));
    tell("traceme", ptrace(PTRACE_TRACEME, 0, 0, 0));
    tell("filter of its own", syscall(SYS_seccomp, 1, 0, NULL));
    struct { unsigned modes; char rest[204]; } adjust = {0};
    tell("adjtimex", syscall(SYS_adjtimex, &adjust));
    tell("clock_settime", syscall(SYS_clock_settime, 0, &(struct timespec){1, 0}));
    tell("unshare", unshare(CLONE_NEWUSER));
    killed("int80", by_int80);
    killed("x32", by_x32);
    FILE *status = fopen("/proc/self/status", "r");
    char line[256];
    while (fgets(line, sizeof line, status)) {
        if (!strncmp(line, "TracerPid:", 10)) printf("tracer: %s", atoi(line + 10) ? "somewhere\n" : "nobody it can name\n");
        if (!strncmp(line, "Seccomp_filters:", 16)) printf("filters: %d\n", atoi(line + 16));
    }
    return 0;
}
"#;

#[test]
fn the_other_layers_stay_and_nobody_gets_away() {
    let directory = compiled(&[], ESCAPES);
    let ran = run(directory.path(), ahead(AHEAD), &["/workspace/program"]);
    let expected = "untraced clone: Operation not permitted\n\
                    traceme: Operation not permitted\n\
                    filter of its own: Operation not permitted\n\
                    adjtimex: Operation not permitted\n\
                    clock_settime: Operation not permitted\n\
                    unshare: Operation not permitted\n\
                    int80: Bad system call\n\
                    x32: Bad system call\n\
                    tracer: nobody it can name\n\
                    filters: 3\n";
    assert_eq!(ran.output, expected, "{ran:?}");
}

const EXEC_OF_A_THREAD: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static void *begins_anew(void *unused) {
    execl("/workspace/program", "program", "again", NULL);
    return unused;
}

int main(int argc, char **argv) {
    (void)argv;
    pthread_t thread;
    if (argc > 1) { printf("%ld\n", (long)time(NULL)); return 0; }
    pthread_create(&thread, NULL, begins_anew, NULL);
    sleep(3600);
    return 1;
}
"#;

#[test]
fn processes_stop_go_on_and_become_others() {
    let directory = compiled(&["-pthread"], EXEC_OF_A_THREAD);
    let script = "sleep 3600 & kill -STOP $!; kill -CONT $!; wait $!; (setsid sleep 1000000000 &) ; \
                  for i in 1 2 3 4 5 6 7 8; do sleep 60 & done; wait; exec ./program";
    // The sleeps before go by, and the daemon that is left is no reason to wait.
    let clock = ShiftedClock {
        ahead: AHEAD * DAY - 3660,
        ..ahead(0)
    };
    all_are_ahead(&run(directory.path(), clock, &["sh", "-c", script]), 1);
}

/// Asks by its standard output, and tells on standard error whether an answer came within five seconds of its clock.
const ASKING: &str = "import os, select, sys
os.write(1, b'?')
answered = select.select([0], [], [], 5)[0]
print('answered' if answered else 'alone', file=sys.stderr)
";

/// The outcome of a program that asks, and is answered by a thread that works on it for a while: one that the clock knows of, or not.
fn asked(is_known: bool) -> Ran {
    let (read_question, question) = std::io::pipe().expect("a pipe");
    let (answer, mut write_answer) = std::io::pipe().expect("a pipe");
    let (tell, told) = std::sync::mpsc::channel();
    let answerer = std::thread::spawn(move || {
        tell.send(nix::unistd::gettid())
            .expect("the number is waited for");
        let mut question = [0];
        (&read_question).read_exact(&mut question).expect("it asks");
        let started = Instant::now();
        while started.elapsed() < Duration::from_millis(200) {
            std::hint::black_box(0);
        }
        // Who was left alone has ended.
        let _ = write_answer.write_all(b"!");
    });
    let number = told.recv().expect("the thread runs");
    let directory = tempfile::tempdir().expect("it can be made");
    let output = tempfile::tempfile().expect("it can be made");
    let streams = [
        answer.into(),
        question.into(),
        output.try_clone().expect("one more").into(),
    ];
    let python = ["/usr/bin/python3", "-c", ASKING];
    let mut held = held(directory.path(), ahead(AHEAD), &python, streams).expect("a jail");
    if is_known {
        held.answered_by(number.as_raw());
    }
    let ran = ended(held, output).expect("it runs");
    answerer.join().expect("it answers");
    ran
}

#[test]
fn no_time_goes_by_while_somebody_works_on_an_answer() {
    // To a clock that knows nothing of the thread, nothing runs.
    assert_eq!(asked(false).output, "alone\n");
    assert_eq!(asked(true).output, "answered\n");
}
