//! Whom a learned profile lets a program talk to.

use turnkey_expectations::expected;
use turnkey_tests::{Server, name_server, network_of_its_own};

use super::{PYTHON, Stage};

/// Connects to each of these, and says what came of it.
fn caller(stage: &Stage, addresses: &[(&str, u16)]) {
    let list: String = addresses
        .iter()
        .map(|(host, port)| format!("({host:?}, {port}), "))
        .collect();
    let text = format!(
        "import socket
for address in ({list}):
    try:
        peer = socket.create_connection(address, 10)
        peer.sendall(b'hello'); peer.shutdown(socket.SHUT_WR)
        print(address[0], peer.makefile('rb').read().decode())
    except OSError as error: print(address[0], type(error).__name__)
"
    );
    stage.put("job.py", &text);
}

/// Whether the profile allows a host for a reason that ends so; which Python it was, the host decides.
fn is_allowed(text: &str, to: &str, why: &str) -> bool {
    let begin = format!("{{ to = \"{to}\", why = \"python3");
    let mut lines = text.lines().map(str::trim);
    lines.any(|line| line.starts_with(&begin) && line.trim_end_matches(',').ends_with(why))
}

/// Whether something is left to a person, for this reason.
fn is_commented(text: &str, act: &str, reason: &str) -> bool {
    let begin = format!("#   {act} (python3");
    let mut lines = text.lines();
    lines.any(|line| line.starts_with(&begin) && line.contains(&format!("): {reason}")))
}

expected!(
    a_host_that_was_tried_is_allowed_and_its_neighbour_is_not: at_night,
    "waits for connections that nobody answers; the others of `learn::network::` do not"
);
#[test]
fn a_host_that_was_tried_is_allowed_and_its_neighbour_is_not() {
    network_of_its_own();
    let server = Server::echo(8443);
    let stage = Stage::new();
    let friend = ("203.0.113.7", 8443);
    caller(&stage, &[friend]);
    let learned = stage.learn(&["--profile", "python"], PYTHON);
    assert_eq!(learned.stdout, "203.0.113.7 PermissionError\n");
    assert_eq!(server.came(), 0, "nobody is reached while it is learned");
    assert!(learned.stderr.contains("one host"), "{}", learned.stderr);
    let why = " once, in vain: it was not allowed yet\" }";
    assert!(
        is_allowed(&stage.text(), "203.0.113.7:8443", why),
        "{}",
        stage.text()
    );
    // What it does when somebody answers is learned under what was learned.
    let again = stage.merge(PYTHON);
    assert_eq!(again.stdout, "203.0.113.7 hello\n", "{}", again.stderr);
    let text = stage.text();
    let ran = stage.run(None, PYTHON);
    ran.expect_code(0);
    ran.expect(ran.stdout == "203.0.113.7 hello\n", "it is reached");
    ran.expect(ran.at("/verdict") == "clean", "clean");
    stage.merge(PYTHON);
    assert_eq!(stage.text(), text, "the same again adds nothing");

    let before = server.came();
    caller(&stage, &[("203.0.113.8", 8443)]);
    let control = stage.run(Some("python --allow 203.0.113.8:8443"), PYTHON);
    control.expect(control.stdout == "203.0.113.8 hello\n", "the control");
    assert_eq!(server.came(), before + 1);
    let other = stage.run(None, PYTHON);
    other.expect(!other.stdout.contains("hello"), "nobody answers");
    assert_eq!(server.came(), before + 1, "nobody came");
    other.expect(other.at("/verdict") != "clean", "and it is told");
}

#[test]
fn a_host_that_was_allowed_by_its_name_is_kept_by_it() {
    network_of_its_own();
    let server = Server::echo(8443);
    let stage = Stage::new();
    caller(&stage, &[("server.test", 8443)]);
    let flags = [
        "--profile",
        "python",
        "--allow",
        "server.test:8443",
        "--allow",
        "198.51.100.9:80",
    ];
    let learned = stage.learn(&flags, PYTHON);
    assert_eq!(learned.stdout, "server.test hello\n", "{}", learned.stderr);
    let text = stage.text();
    assert!(is_allowed(&text, "server.test:8443", " once\" }"), "{text}");
    assert!(!text.contains("{ to = \"198.51.100.9"), "{text}");
    assert!(
        text.contains("#   allow 198.51.100.9:80 (a flag)"),
        "{text}"
    );
    let ran = stage.run(None, PYTHON);
    ran.expect(ran.stdout == "server.test hello\n", "it is reached");
    ran.expect(ran.at("/verdict") == "clean", "clean");
    assert_eq!(server.came(), 2);
}

/// Where everything works, it is learned at once; what is written is a list all the same.
#[test]
fn in_the_hosts_network_a_list_is_learned_by_names() {
    network_of_its_own();
    name_server([203, 0, 113, 9]);
    let server = Server::echo(8443);
    let stage = Stage::new();
    caller(
        &stage,
        &[
            ("mirror.test", 8443),
            ("203.0.113.7", 8443),
            ("127.0.0.1", 8443),
        ],
    );
    let learned = stage.learn(&["--profile", "python", "--network", "host"], PYTHON);
    let everybody = "mirror.test hello\n203.0.113.7 hello\n127.0.0.1 hello\n";
    assert_eq!(learned.stdout, everybody, "{}", learned.stderr);
    let text = stage.text();
    assert!(text.contains("mode = \"allow\""), "{text}");
    assert!(
        is_allowed(
            &text,
            "mirror.test:8443",
            ", after asking for mirror.test\" }"
        ),
        "{text}"
    );
    assert!(text.contains("{ to = \"203.0.113.7:8443\""), "{text}");
    assert!(
        is_commented(&text, "connect to 127.0.0.1:8443", "a service of this host"),
        "{text}"
    );
    assert_eq!(server.came(), 3);
    let ran = stage.run(None, PYTHON);
    let others = "mirror.test hello\n203.0.113.7 hello\n127.0.0.1 ";
    ran.expect(ran.stdout.starts_with(others), "these are reached");
    ran.expect(
        ran.stdout.matches("hello").count() == 2,
        "and the host is not",
    );
    assert_eq!(server.came(), 5);
}

#[test]
fn who_talks_to_itself_gets_loopback_and_nothing_else() {
    network_of_its_own();
    let stage = Stage::new();
    stage.put(
        "job.py",
        "import socket
waits = socket.create_server(('127.0.0.1', 0))
peer = socket.create_connection(waits.getsockname())
peer.sendall(b'hello')
print(waits.accept()[0].recv(5).decode())
",
    );
    let learned = stage.learn(&["--profile", "python", "--network", "loopback"], PYTHON);
    assert_eq!(learned.stdout, "hello\n", "{}", learned.stderr);
    let text = stage.text();
    assert!(
        text.contains("mode = \"loopback\"  # python3") && !text.contains("{ to ="),
        "{text}"
    );
    let ran = stage.run(None, PYTHON);
    ran.expect(ran.stdout == "hello\n", "it talks to itself");
    ran.expect(ran.at("/verdict") == "clean", "clean");
}

#[test]
fn a_flag_that_nobody_needed_is_not_kept() {
    let stage = Stage::new();
    stage.put("job.py", "print('alone')\n");
    stage.learn(&["--profile", "python", "--network", "loopback"], PYTHON);
    let text = stage.text();
    assert!(text.contains("mode = \"none\"  # nobody"), "{text}");
    stage.run(None, PYTHON).expect_code(0);
}

#[test]
fn what_could_lead_further_is_a_comment() {
    network_of_its_own();
    let server = Server::echo(8443);
    let stage = Stage::new();
    let dangerous = [("169.254.169.254", 80), ("10.9.1.1", 8443)];
    caller(&stage, &dangerous);
    let learned = stage.learn(&["--profile", "python"], PYTHON);
    assert!(learned.stderr.contains("2 left out"), "{}", learned.stderr);
    let text = stage.text();
    assert!(!text.contains("[network]"), "{text}");
    for (address, what) in [
        ("169.254.169.254:80", "the metadata of a cloud"),
        ("10.9.1.1:8443", "a private address"),
    ] {
        let act = format!("connect to {address}");
        assert!(is_commented(&text, &act, what), "{act}\n{text}");
    }
    // Uncommented by a person, it works.
    let decided = text.replacen(
        "[limits]",
        "[network]\nallow = [{ to = \"10.9.1.1:8443\", why = \"the printer\" }]\n\n[limits]",
        1,
    );
    std::fs::write(stage.profile(), decided).expect("the profile can be written");
    let again = stage.merge(PYTHON);
    assert!(
        again.stdout.ends_with("10.9.1.1 hello\n"),
        "{}",
        again.stderr
    );
    assert_eq!(server.came(), 1);
}

#[test]
fn names_that_are_asked_for_and_places_to_wait_at_are_comments() {
    let stage = Stage::new();
    stage.put(
        "job.py",
        "import socket
question = b'\\x01\\x00\\x01\\x00\\x00\\x01\\x00\\x00\\x00\\x00\\x00\\x00\\x07example\\x03org\\x00\\x00\\x01\\x00\\x01'
asks = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
try: asks.sendto(question, ('127.0.0.1', 53))
except OSError as error: print(error)
try: socket.socket().bind(('0.0.0.0', 8000))
except OSError as error: print(error)
",
    );
    stage.learn(&["--profile", "python"], PYTHON);
    let text = stage.text();
    assert!(!text.contains("[network]"), "{text}");
    for (act, reason) in [
        ("ask for example.org", "nobody answered"),
        ("send to 127.0.0.1:53 over UDP", "a name server"),
        ("wait at 0.0.0.0:8000", "it waits for whoever comes"),
    ] {
        assert!(is_commented(&text, act, reason), "{act}\n{text}");
    }
}
