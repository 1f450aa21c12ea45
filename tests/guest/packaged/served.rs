//! The units of the service: what starts on a call, serves an ordinary user of the group, is stopped and started anew, and what is left.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::{Command, Output};

use turnkey_tests::{eventually, scratch};

use super::{Installed, ok, property, report, run};

const SERVICE: &str = "turnkey.service";
const SOCKET: &str = "turnkey.socket";
const PATH: &str = "/run/turnkey/turnkey.fd.sock";
/// An ordinary user, and the group of the socket; numbers that the machine gives to nobody.
const USER: u32 = 4242;
const GROUP: u32 = 4343;

/// The group of the units, as `groupadd turnkey` makes it, until the test ends.
struct Group(String);

impl Group {
    fn new() -> Group {
        let before = fs::read_to_string("/etc/group").unwrap();
        fs::write("/etc/group", format!("{before}turnkey:x:{GROUP}:\n")).unwrap();
        Group(before)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::write("/etc/group", &self.0);
    }
}

/// A caller's own directory.
fn home() -> tempfile::TempDir {
    let home = scratch();
    chown(home.path(), Some(USER), Some(USER)).unwrap();
    fs::set_permissions(home.path(), PermissionsExt::from_mode(0o700)).unwrap();
    home
}

/// A run that the user asks for, in the group of the socket or not in it.
fn asks(home: &Path, groups: &[&str], script: &str) -> Output {
    let user = USER.to_string();
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid", &user, "--regid", &user])
        .args(groups);
    let words = ["turnkey", "run", "--service", "--report", "../report.json"];
    let place = home.join("work");
    let _ = fs::create_dir(&place);
    chown(&place, Some(USER), Some(USER)).unwrap();
    command.args(words).args(["--", "sh", "-c", script]);
    let output = command
        .current_dir(place)
        .output()
        .expect("setpriv is there");
    println!("{output:?}");
    output
}

fn member() -> [String; 2] {
    ["--groups".to_owned(), GROUP.to_string()]
}

fn as_member(home: &Path, script: &str) -> Output {
    let groups = member();
    asks(home, &[&groups[0], &groups[1]], script)
}

fn is_active(unit: &str) -> bool {
    property(unit, "ActiveState") == "active"
}

/// The processes of the service that live, and the groups of runs: units have theirs, too, such as that of the tests.
fn left() -> String {
    let processes = run(&["pgrep", "--full", "--list-full", "--", "turnkey serve"]).stdout;
    let groups = ["find", "/sys/fs/cgroup", "-type", "d", "-name", "turnkey-*"];
    let but_units = ["-not", "-name", "*.service"];
    let groups = run(&[&groups[..], &but_units].concat()).stdout;
    format!(
        "{}{}",
        String::from_utf8_lossy(&processes),
        String::from_utf8_lossy(&groups)
    )
}

#[test]
fn the_socket_unit_starts_the_service_on_a_call_and_a_stop_leaves_nothing() {
    let installed = Installed::new();
    let _group = Group::new();
    let home = home();
    for unit in [SERVICE, SOCKET] {
        assert_eq!(property(unit, "UnitFileState"), "disabled");
        assert!(!is_active(unit));
    }
    let nobody = as_member(home.path(), "exit 7");
    assert_eq!(nobody.status.code(), Some(125), "the control: no service");

    ok(&["systemctl", "enable", "--now", SOCKET]);
    assert!(
        is_active(SOCKET) && !is_active(SERVICE),
        "nobody has called"
    );
    let socket = fs::metadata(PATH).unwrap();
    assert_eq!((socket.gid(), socket.mode() & 0o777), (GROUP, 0o660));
    let ran = as_member(home.path(), "echo made; exit 7");
    assert_eq!((ran.status.code(), &*ran.stdout), (Some(7), &b"made\n"[..]));
    assert!(is_active(SERVICE), "it has started");
    let told = report(&home.path().join("report.json"));
    assert_eq!(told["served"]["user"], USER);
    let stranger = asks(home.path(), &["--clear-groups"], "true");
    assert_eq!(stranger.status.code(), Some(125));
    let words = String::from_utf8_lossy(&stranger.stderr).into_owned();
    assert!(words.contains("add it to the socket's group"), "{words}");

    let first = property(SERVICE, "InvocationID");
    ok(&["systemctl", "restart", SERVICE]);
    assert_ne!(property(SERVICE, "InvocationID"), first);
    assert_eq!(fs::metadata(PATH).unwrap().ino(), socket.ino(), "it stays");
    assert_eq!(as_member(home.path(), "exit 7").status.code(), Some(7));
    // Of a service that is killed, systemd starts the next.
    let killed = property(SERVICE, "MainPID");
    ok(&["kill", "-KILL", &killed]);
    eventually("another one serves", || {
        let now = property(SERVICE, "MainPID");
        now != killed && now != "0"
    });
    assert_eq!(as_member(home.path(), "exit 7").status.code(), Some(7));

    ok(&["systemctl", "disable", "--now", SOCKET]);
    ok(&["systemctl", "stop", SERVICE]);
    eventually("nothing is left", || left().is_empty());
    assert!(!Path::new(PATH).exists());
    assert_eq!(property(SERVICE, "Result"), "success");
    drop(installed);
}

#[test]
fn the_service_unit_alone_serves_and_a_stop_ends_its_runs() {
    let _installed = Installed::new();
    let _group = Group::new();
    let home = home();
    ok(&["systemctl", "enable", "--now", SERVICE]);
    eventually("it listens", || Path::new(PATH).exists());
    assert_eq!(as_member(home.path(), "exit 7").status.code(), Some(7));
    let place = home.path().to_owned();
    let lasts = std::thread::spawn(move || as_member(&place, "sleep 60.4242"));
    eventually("its program runs", || {
        run(&["pgrep", "--full", "^sleep 60.4242"]).status.success()
    });
    ok(&["systemctl", "stop", SERVICE]);
    let ended = lasts.join().expect("it only waits");
    assert_eq!(
        ended.status.code(),
        Some(143),
        "a run ends with its service"
    );
    eventually("nothing is left", || left().is_empty());
    ok(&["systemctl", "disable", SERVICE]);
}

/// The blocks of the guide that need systemd.
fn commands_of_the_guide() -> Vec<String> {
    let page = include_str!("../../../docs/guide/service.md");
    let blocks = page.split("```sh test=packaged::served\n").skip(1);
    let lines = blocks.filter_map(|block| block.split("```").next());
    lines.flat_map(str::lines).map(str::to_owned).collect()
}

#[test]
fn the_commands_of_the_guide_show_what_the_service_has_done() {
    let _installed = Installed::new();
    let _group = Group::new();
    let home = home();
    let commands = commands_of_the_guide();
    assert!(commands.len() >= 4, "{commands:?}");
    let mut told = Vec::new();
    for command in commands {
        let command = command.replace("\"user\":1000", &format!("\"user\":{USER}"));
        if command.starts_with("journalctl") {
            assert_eq!(as_member(home.path(), "exit 7").status.code(), Some(7));
            let mut output = String::new();
            eventually("the journal has it", || {
                output = ok(&["sh", "-c", &command]);
                output.contains("\"event\":\"ran\"") || output.contains("\"counted\"")
            });
            told.push(output);
        } else {
            ok(&["sh", "-c", &command]);
        }
        if command.contains("enable") {
            eventually("it listens", || Path::new(PATH).exists());
        }
    }
    assert!(told[0].contains("\"exit_code\":7"), "{told:?}");
    assert!(told[1].contains("\"counted\""), "{told:?}");
    ok(&["systemctl", "disable", "--now", SERVICE]);
    eventually("nothing is left", || left().is_empty());
}
