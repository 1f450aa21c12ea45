//! Ports of a jail that the host's loopback leads to: real servers inside, real clients outside.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use turnkey_tests::{Ran, Run, Server, eventually, network_of_its_own, unprivileged};

/// A run whose server can be reached.
struct Serving {
    run: Run,
    child: Child,
    started: Instant,
    port: u16,
}

impl Serving {
    /// Starts a program that listens at the port 8000 of its jail, and is reached at one that the kernel chooses.
    fn start(run: Run, program: &[&str]) -> Serving {
        let run = run.option("--publish 0:8000");
        let mut command = run.command(program);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let started = Instant::now();
        let mut child = command.spawn().expect("turnkey can be started");
        let mut told = BufReader::new(child.stderr.take().expect("it is piped")).lines();
        let port = told.find_map(|line| {
            let line = line.expect("it is text");
            let (port, rest) = line.strip_prefix("turnkey: localhost:")?.split_once(' ')?;
            assert_eq!(rest, "leads to port 8000 of the jail");
            port.parse().ok()
        });
        // Or who writes there would be killed for it.
        std::thread::spawn(move || told.for_each(drop));
        Serving {
            run,
            child,
            started,
            port: port.expect("the port is told"),
        }
    }

    /// An answer of the server's, when there is one.
    fn get(&self, host: &str) -> Option<String> {
        let mut server = TcpStream::connect((host, self.port)).ok()?;
        server.write_all(b"GET /told.txt HTTP/1.0\r\n\r\n").ok()?;
        let mut answer = String::new();
        server.read_to_string(&mut answer).ok()?;
        Some(answer).filter(|answer| !answer.is_empty())
    }

    fn end(self) -> Ran {
        let pid = i32::try_from(self.child.id()).expect("a pid");
        kill(Pid::from_raw(pid), Signal::SIGTERM).expect("it runs");
        self.run.end(self.child, self.started)
    }
}

fn a_server_is_reached_from_loopback_alone() {
    network_of_its_own();
    let run = Run::new().file("told.txt", "from the jail");
    let serving = Serving::start(run, &["python3", "-m", "http.server", "8000"]);
    eventually("the server answers", || {
        serving
            .get("127.0.0.1")
            .is_some_and(|answer| answer.ends_with("from the jail"))
    });
    let answer = serving.get("::1");
    assert!(
        answer.is_some_and(|answer| answer.ends_with("from the jail")),
        "by version 6"
    );
    let control = Server::echo(9000);
    TcpStream::connect("203.0.113.7:9000").expect("the control: addresses lead here");
    eventually("the control came", || control.came() == 1);
    for elsewhere in ["203.0.113.7", "10.9.0.1", "2001:db8::7"] {
        assert!(
            TcpStream::connect((elsewhere, serving.port)).is_err(),
            "not from {elsewhere}"
        );
    }
    let port = serving.port;
    let ran = serving.end();
    let [row] = ran.list("/published") else {
        panic!("one row: {:?}", ran.list("/published"))
    };
    ran.expect(
        row["host_port"] == port && row["port"] == 8000,
        "the ports are told",
    );
    let passed = &row["passed"];
    ran.expect(passed["connections"].as_u64() >= Some(2), "and who came");
    ran.expect(
        passed["sent_bytes"].as_u64() > Some(26),
        "and what was sent",
    );
    assert!(
        TcpStream::connect(("127.0.0.1", port)).is_err(),
        "it ends with the run"
    );
}

#[test]
fn a_published_server_is_reached_from_loopback_alone() {
    a_server_is_reached_from_loopback_alone();
}

#[test]
fn a_published_server_of_an_ordinary_user_is_reached_from_loopback_alone() {
    unprivileged(a_server_is_reached_from_loopback_alone);
}

/// Who starts a server and waits for it in vain is told the flag by which it is reached.
#[test]
fn a_server_that_nobody_reached_is_told_with_its_port() {
    let said = "nobody outside of the jail reaches it: --publish 8000 leads there";
    for (program, wall, told) in [
        (
            &[
                "python3",
                "-m",
                "http.server",
                "--bind",
                "127.0.0.1",
                "8000",
            ][..],
            "1s",
            true,
        ),
        (&["sleep", "9"], "500ms", false),
    ] {
        let ran = Run::new().option(&format!("--wall {wall}")).run(program);
        ran.expect(ran.stderr.contains(said) == told, "a server");
    }
}

#[test]
fn a_port_that_is_taken_ends_the_run_before_it_starts_and_the_advice_helps() {
    network_of_its_own();
    let _taken = Server::echo(8000);
    let ran = Run::new().option("--publish 8000").shell("echo started");
    ran.expect_code(125);
    ran.expect(ran.stdout.is_empty(), "nothing ran");
    let fix = "--publish 0:8000";
    ran.expect(ran.stderr.contains(fix), "and there is a way out");
    let ran = Run::new().option(fix).shell("echo started");
    ran.expect_code(0);
    ran.expect(ran.stdout == "started\n", "which works");
}

#[test]
fn a_port_is_published_where_the_jail_has_a_loopback_of_its_own() {
    for mode in ["none", "host"] {
        let ran = Run::new()
            .option(&format!("--network {mode} --publish 8000"))
            .shell("true");
        ran.expect_code(125);
        ran.expect(ran.stderr.contains("publishes no port"), "it is said why");
    }
    let publish = "[network]\npublish = \"0:8000\"\n";
    let ran = Run::new().profile(publish).shell("true");
    ran.expect_code(0);
    ran.expect(ran.list("/published").len() == 1, "by a profile as well");
    let ran = Run::new()
        .profile(publish)
        .option("--network none")
        .shell("true");
    ran.expect_code(0);
    ran.expect(
        ran.at("/published").is_null(),
        "unless the caller wants none",
    );
}

/// Takes connections, says so, and sends to each without end.
const TALK: &str = "import socket, threading
server = socket.create_server(('127.0.0.1', 8000), backlog=500)
def talk(peer):
    while True: peer.sendall(b'x' * 65536)
while True:
    peer, _ = server.accept()
    print('came', flush=True)
    threading.Thread(target=talk, args=(peer,), daemon=True).start()";

#[test]
fn j68_clients_that_do_not_read_are_as_many_as_there_is_memory_for() {
    network_of_its_own();
    let run = Run::new().option("--memory 64M --pids 300");
    let mut serving = Serving::start(run, &["python3", "-c", TALK]);
    let came = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = std::sync::Arc::clone(&came);
    let told = BufReader::new(serving.child.stdout.take().expect("it is piped"));
    let counting = std::thread::spawn(move || {
        for _ in told.lines() {
            counted.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        }
    });
    let came = || came.load(std::sync::atomic::Ordering::SeqCst);
    eventually("the server waits", || {
        let first = TcpStream::connect(("127.0.0.1", serving.port));
        first.is_ok_and(|mut first| first.read_exact(&mut [0]).is_ok())
    });
    eventually("it says so", || came() == 1);
    let mut silent = Vec::new();
    while silent.len() < 100 {
        silent.push(TcpStream::connect(("127.0.0.1", serving.port)).expect("it waits in a queue"));
    }
    // One for each MiB of memory.
    eventually("as many as there is room for", || came() >= 65);
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(came(), 65, "and no more");
    let ran = serving.end();
    counting.join().expect("it counts");
    let passed = ran.at("/published/0/passed/sent_bytes").as_u64();
    // What is on its way, besides what four buffers of 256 KiB hold.
    ran.expect(passed < Some(128 << 20), "and what they keep is bounded");
}
