//! Rules about addresses and ports, against every way to reach them.

use turnkey_tests::{Ran, Run};

use super::network::{DATAGRAMS, REACH, STREAMS, answered};
use super::{rule, violations};

/// Serves on a port of the jail's own loopback, tries to reach an address by every way, and says what
/// came.
const SERVE_AND_REACH: &str = "import socket, subprocess, sys
address, port = sys.argv[1], int(sys.argv[2])
streams = socket.create_server(('127.0.0.1', 8765))
datagrams = socket.socket(type=socket.SOCK_DGRAM)
datagrams.bind(('127.0.0.1', 8765))
ways = subprocess.run(['./reach', address, str(port)], capture_output=True, text=True)
print(ways.stdout)
def count(server, take):
    server.setblocking(False)
    for number in range(1000):
        try: take()
        except BlockingIOError: return number
print('came', count(datagrams, lambda: datagrams.recv(64)), count(streams, streams.accept))";

const PORT: &str = "8765";

/// What comes of it under a rule.
fn reach(address: &str, rule: &str) -> Ran {
    let run = Run::new().compiled("reach", REACH).with_events();
    let run = run.profile(rule).option("--network loopback");
    let ran = run.run(&["python3", "-c", SERVE_AND_REACH, address, PORT]);
    ran.expect_code(0);
    ran
}

fn denied(more: &str) -> String {
    let outbound = "on = [\"connect\", \"send\"]\naction = \"deny\"\nwhy = \"a test\"";
    format!("[[rule]]\nid = \"elsewhere\"\n{outbound}\n{more}\n")
}

/// Datagrams and connections that came.
fn came(ran: &Ran) -> (usize, usize) {
    let line = ran
        .stdout
        .lines()
        .find_map(|line| line.strip_prefix("came "));
    let numbers = line.and_then(|line| line.split_once(' '));
    let (datagrams, streams) = numbers.expect("it says what came");
    (
        datagrams.parse().expect("a number"),
        streams.parse().expect("a number"),
    )
}

#[track_caller]
fn everybody_came(ran: &Ran) {
    for way in DATAGRAMS.iter().chain(&STREAMS) {
        ran.expect(answered(&ran.stdout, way, 0), way);
    }
    let (datagrams, streams) = came(ran);
    ran.expect(datagrams == DATAGRAMS.len() && streams >= 2, "they came");
    ran.expect(
        violations(ran, "elsewhere").next().is_none(),
        "none is told",
    );
}

#[track_caller]
fn nobody_came(ran: &Ran, addresses: &[&str]) {
    for way in DATAGRAMS.iter().chain(&STREAMS) {
        ran.expect(answered(&ran.stdout, way, libc::EPERM), way);
    }
    ran.expect(came(ran) == (0, 0), "nobody came");
    for on in ["connect", "send"] {
        let told = violations(ran, "elsewhere").filter(|one| one["on"] == on);
        let told = told.filter_map(|one| one["address"].as_str());
        let told: Vec<&str> = told.collect();
        let all = told.iter().all(|address| addresses.contains(address));
        ran.expect(all && !told.is_empty(), "each is told with its address");
    }
}

#[test]
fn m18_an_address_that_is_denied_is_reached_by_no_way() {
    everybody_came(&reach("127.0.0.1", ""));
    let rule = denied("address = \"127.0.0.1\"\nport = [8765]");
    let addresses = ["127.0.0.1:8765", "[::ffff:127.0.0.1]:8765"];
    nobody_came(&reach("127.0.0.1", &rule), &addresses);
    let network = denied("address = \"127.0.0.0/24\"\nport = \"8000-9000\"");
    nobody_came(&reach("127.0.0.1", &network), &addresses);
}

#[test]
fn m18_only_what_a_rule_names_is_denied() {
    let neighbours = [
        "address = [\"127.0.0.2\", \"::1\", \"::/0\"]",
        "port = [8764, \"8766-65535\"]",
        "address = \"127.0.0.0/8\"\nport = 8764",
    ];
    for more in neighbours {
        everybody_came(&reach("127.0.0.1", &denied(more)));
    }
}

#[test]
fn m18_the_unspecified_address_is_another_name_of_the_loopback() {
    everybody_came(&reach("0.0.0.0", ""));
    let rule = denied("address = \"127.0.0.1\"\nport = 8765");
    // Some ways begin with a connection to the loopback by its name.
    let addresses = ["0.0.0.0:8765", "[::ffff:0.0.0.0]:8765", "127.0.0.1:8765"];
    nobody_came(&reach("0.0.0.0", &rule), &addresses);
}

#[test]
fn m18_j65_what_an_address_kills_for_is_the_last_act() {
    let program = "import socket
streams, datagrams = socket.socket(), socket.socket(type=socket.SOCK_DGRAM)
for act in lambda: datagrams.sendto(b'x', ('127.0.0.1', 9)), lambda: streams.connect(('127.0.0.1', 9)):
    try: act()
    except OSError: pass
    print('still here', flush=True)";
    let run = |more: &str| {
        let rule = rule("elsewhere", "connect", "kill", more);
        let run = Run::new().profile(&rule).option("--network loopback");
        run.python(program)
    };
    let control = run("address = \"127.0.0.1\"\nport = 10");
    control.expect_code(0);
    control.expect(control.stdout == "still here\nstill here\n", "the control");
    let ran = run("address = \"127.0.0.1\"\nport = 9");
    ran.expect_code(121);
    ran.expect(
        ran.stdout == "still here\n",
        "it was dead before the call returned",
    );
    let told = violations(&ran, "elsewhere").any(|one| one["address"] == "127.0.0.1:9");
    ran.expect(told, "and it is told");
}

/// Tries to serve on a port, by the address of either family.
const SERVE: &str = "import socket
for family, address in (socket.AF_INET, '0.0.0.0'), (socket.AF_INET6, '::'), (socket.AF_INET6, '::ffff:127.0.0.1'):
    try:
        server = socket.socket(family)
        server.bind((address, 8765))
        print('bound')
    except OSError as error: print(error.errno)";

#[test]
fn m18_a_port_is_denied_to_servers_of_either_family() {
    let serve = |more: &str| {
        let rule = rule("server", "bind", "deny", more);
        let run = Run::new().profile(&rule).option("--network loopback");
        run.python(SERVE)
    };
    let control = serve("port = 8764");
    control.expect(control.stdout == "bound\nbound\nbound\n", "the control");
    let ran = serve("port = \"8000-9000\"");
    ran.expect(ran.stdout == "1\n1\n1\n", "EPERM");
    ran.expect(violations(&ran, "server").count() == 3, "and each is told");
    // `::` takes what comes over IPv4, too.
    let ran = serve("address = \"0.0.0.0\"");
    ran.expect(ran.stdout == "1\n1\nbound\n", "EPERM");
}
