//! The interfaces of a jail as getifaddrs(3) lists them, and netlink(7), by which it asks.

use std::process::{Command, Stdio};
use std::time::Instant;

use turnkey_tests::{Run, compile, network_of_its_own, outside, scratch, unprivileged};

const NETLINK: &str = include_str!("../attacks/netlink.c");

/// Loopback alone, as a C program sees it.
const ITS_OWN: &str = "name lo\naddress lo 127.0.0.1\naddress lo ::1\n";

fn loopback_alone_is_listed(modes: [&str; 2]) {
    network_of_its_own();
    let everybody = "./netlink list
python3 -c 'import socket; print(socket.if_nameindex())'";
    for mode in modes {
        let run = Run::new().compiled("netlink", NETLINK);
        let run = run.option(&format!("--network {mode}"));
        let ran = run.shell(everybody);
        let told = format!("{ITS_OWN}[(1, 'lo')]\n");
        ran.expect(ran.stdout == told, "its own, and nothing of the host's");
    }
}

#[test]
fn programs_list_the_interfaces_of_their_jail() {
    loopback_alone_is_listed(["none", "allow"]);
}

#[test]
fn programs_of_an_ordinary_user_list_the_interfaces_of_their_jail() {
    // Where nobody watches, no network is none.
    unprivileged(|| loopback_alone_is_listed(["loopback", "allow"]));
}

/// The number that was told for an attempt: an errno, or a count.
fn number(told: &str, what: &str) -> Option<i32> {
    let line = told.lines().find_map(|line| line.strip_prefix(what));
    line?.trim().parse().ok()
}

/// Requests that would change something, or reach somebody.
const CHANGES: [&str; 8] = [
    "link-down",
    "link-gone",
    "address",
    "route",
    "neighbour",
    "every-namespace",
    "to-another",
    "to-a-group",
];

#[test]
fn j35_netlink_leads_to_the_jails_interfaces_and_changes_nothing() {
    network_of_its_own();
    let directory = scratch();
    let program = directory.path().join("netlink");
    compile(&program, NETLINK);
    let ran = Run::new().compiled("netlink", NETLINK).with_events();
    let ran = ran.shell("./netlink reach; ./netlink list");
    for protocol in 1..32 {
        let errno = number(&ran.stdout, &format!("protocol-{protocol} "));
        ran.expect(errno == Some(libc::EPROTONOSUPPORT), "no other protocol");
    }
    ran.expect(
        number(&ran.stdout, "pair ") == Some(libc::EAFNOSUPPORT),
        "no pair",
    );
    for change in CHANGES {
        ran.expect(number(&ran.stdout, change) == Some(libc::EPERM), change);
    }
    ran.expect(ran.stdout.ends_with(ITS_OWN), "all is as before");
    let refused = ran.events.iter().filter(|event| event["kind"] == "refused");
    ran.expect(refused.count() >= 31, "and each is told");
    // Last: it takes the interface down.
    let (_, told) = outside(&program, &["reach"]);
    for made in ["protocol-4 ", "protocol-9 ", "protocol-15 ", "link-down "] {
        assert_eq!(number(&told, made), Some(0), "the control: {told}");
    }
}

/// Takes the interface of the host down and up again.
const NEWS: &str = "import fcntl, socket, struct
plain = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for flags in (0, 1):
    fcntl.ioctl(plain, 0x8914, struct.pack('16sH14x', b'lo', flags))";

/// The number of messages that come to a program which has joined every group while the host's interface changes.
fn news_of_the_host(mut command: Command) -> Option<i32> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("it can be started");
    let mut told = std::io::BufReader::new(child.stdout.take().expect("it is piped"));
    let mut line = String::new();
    std::io::BufRead::read_line(&mut told, &mut line).expect("it says something");
    assert!(number(&line, "joined ") > Some(20), "{line}");
    let (status, _) = outside("python3", &["-c", NEWS]);
    assert!(status.success(), "the host's interface changes");
    drop(child.stdin.take());
    line.clear();
    std::io::BufRead::read_line(&mut told, &mut line).expect("it says something");
    child.wait().expect("it ends");
    number(&line, "came ")
}

#[test]
fn j43_who_joins_every_group_hears_nothing_of_the_host() {
    network_of_its_own();
    let directory = scratch();
    let program = directory.path().join("netlink");
    compile(&program, NETLINK);
    let mut control = Command::new(&program);
    control.arg("wait");
    assert!(
        news_of_the_host(control).is_some_and(|came| came > 0),
        "the control hears of it"
    );
    let run = Run::new().compiled("netlink", NETLINK);
    assert_eq!(
        news_of_the_host(run.command(&["./netlink", "wait"])),
        Some(0)
    );
}

/// Netlink's answers are in no group's account, and a socket holds megabytes of them.
#[test]
fn j68_answers_that_nobody_reads_are_memory_of_the_jail() {
    let started = Instant::now();
    let run = Run::new().compiled("netlink", NETLINK);
    let ran = run.option("--memory 32M").run(&["./netlink", "fill"]);
    ran.expect_code(122);
    ran.expect(ran.at("/status") == "out_of_memory", "for its memory");
    let most = ran.at("/usage/memory_peak_bytes").as_u64();
    ran.expect(most > Some(32 << 20), "and it is counted as such");
    ran.expect(
        started.elapsed().as_secs() < 20,
        "long before the wall clock",
    );
}
