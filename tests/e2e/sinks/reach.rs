//! Attacks on receivers: whoever reaches a socket or knows the secret makes alerts up.

use std::os::unix::fs::{chown, symlink};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Stdio;
use std::time::Instant;

use serde_json::json;
use turnkey_tests::{NOBODY, Ran, Run, eventually, scratch};

use super::receiver::{Answer, Receiver, SECRET};
use super::{sink, with_secret};

fn expect_refused(ran: &Ran, said: &str) {
    ran.expect_code(125);
    assert!(ran.stderr.contains(said), "{said}: {}", ran.stderr);
    assert!(ran.report.is_null(), "nothing ran");
}

/// A socket that can be connected to on a mount without the right to write, too.
#[test]
fn a_receivers_socket_in_what_the_jail_is_shown_is_refused() {
    let (place, own) = (scratch(), scratch());
    let path = |name: &str| place.path().join(name);
    std::fs::create_dir_all(path("in/below")).expect("a new name");
    symlink(path("in"), path("link")).expect("a new name");
    let socket = path("in/below/socket");
    let journal = UnixDatagram::bind(&socket).expect("a new name");
    let relay = Receiver::unix(&path("in/relay"), |_| Answer::Status(200));
    let [to_journal, to_relay] = [
        format!("--to journald:{}", socket.display()),
        format!("--to webhook:unix:{}", path("in/relay").display()),
    ];
    let shows = |option: &str, name: &str| format!("{option} {}", path(name).display());
    for option in [
        shows("--read", "in"),
        shows("--read", "link"),
        shows("--write", "in"),
        shows("--workdir", "in"),
        format!("--workdir-mode read-only {}", shows("--workdir", "link")),
        shows("--workdir", ""),
        shows("--layer", "in"),
    ] {
        for to in [&to_journal, &to_relay] {
            let run = Run::new().option(&option).option(to);
            expect_refused(&with_secret(run, &["true"]), "the jail may read");
        }
    }
    // A directory beside, and none at all, are no way to it.
    let beside = format!("--read {}", own.path().display());
    let no_workdir = format!("--workdir-mode none {}", shows("--workdir", "in"));
    for option in [beside, no_workdir] {
        let run = Run::new().option(&option).option(&to_journal);
        let ran = with_secret(run.option(&to_relay), &["true"]);
        ran.expect_code(0);
        let mut entry = [0; 9];
        journal.recv(&mut entry).expect("the verdict came");
        assert_eq!(&entry[..8], b"MESSAGE=");
    }
    assert_eq!(relay.requests().len(), 2);
}

/// A socket in another user's directory is sure by the socket itself alone.
#[test]
fn a_socket_that_another_user_puts_in_the_place_of_the_receivers_gets_nothing() {
    for (owner, is_found) in [(NOBODY, false), (0, true)] {
        let (place, signs) = (scratch(), scratch());
        chown(place.path(), Some(owner), None).expect("root gives files away");
        let name = place.path().join("socket");
        let first = Receiver::unix(&name, |_| Answer::Gone);
        let run = Run::new()
            .option(&format!("--to webhook:unix:{}", name.display()))
            .option(&format!("--write {}", signs.path().display()));
        let signs = signs.path().to_str().expect("UTF-8");
        let script = "touch $0/runs; while ! [ -e $0/go ]; do sleep 0.01; done";
        let mut command = run.command(&["sh", "-c", script, signs]);
        command.env("TURNKEY_WEBHOOK_SECRET", SECRET);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let started = Instant::now();
        let child = command.spawn().expect("turnkey can be started");
        eventually("it runs", || Path::new(signs).join("runs").exists());
        std::fs::remove_file(&name).expect("it is there");
        let second = Receiver::unix(&name, |_| Answer::Status(200));
        chown(&name, Some(owner), None).expect("root gives files away");
        std::fs::write(Path::new(signs).join("go"), "").expect("it can be written");
        let ran = run.end(child, started);
        let told = sink(&ran.report, "webhook");
        let count = |key: &str| told[key].as_u64().expect("a number");
        let (sent, lost) = (count("sent"), count("lost"));
        assert_eq!(sent + lost, 1, "the verdict: {told}");
        assert_eq!(first.requests().len(), 0);
        assert_eq!(json!(second.requests().len()), json!(sent), "{told}");
        assert_eq!((sent > 0, lost > 0), (is_found, !is_found), "{told}");
    }
}

#[test]
fn a_variable_that_holds_the_secret_is_not_passed() {
    let receiver = Receiver::http(|_| Answer::Status(200));
    let to = format!("--to webhook:http://127.0.0.1:{}", receiver.port());
    for option in [
        "--env TURNKEY_WEBHOOK_SECRET".to_owned(),
        format!("--env OTHER={SECRET}"),
        format!("--env OTHER=a{SECRET}b"),
    ] {
        let run = Run::new().option(&to).option(&option);
        expect_refused(&with_secret(run, &["env"]), "--webhook-secret-file");
    }
    // What it advises helps: nothing is signed with what the jail knows.
    let place = scratch();
    let file = place.path().join("secret");
    std::fs::write(&file, "another secret, of no jail's").expect("it can be written");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&file, mode).expect("it is ours");
    let run = Run::new()
        .option(&to)
        .option("--env TURNKEY_WEBHOOK_SECRET")
        .option(&format!("--webhook-secret-file {}", file.display()));
    let ran = with_secret(run, &["env"]);
    ran.expect_code(0);
    assert!(ran.stdout.contains(SECRET), "{}", ran.stdout);
}

#[test]
fn an_output_in_the_directory_of_an_export_is_refused() {
    let place = scratch();
    let out = place.path().join("out");
    std::fs::create_dir(&out).expect("a new name");
    let out = out.display();
    for option in [
        format!("--to file:{out}/alerts"),
        format!("--events {out}/events"),
    ] {
        let run = Run::new().option(&format!("--export {out}"));
        expect_refused(
            &run.option(&option).run(&["true"]),
            "are exported; move it elsewhere",
        );
    }
    let run = Run::new().option(&format!("--export {out} --to file:{out}.alerts"));
    run.shell("echo text > file").expect_code(0);
    let exported = std::fs::read_to_string(format!("{out}/file"));
    assert_eq!(exported.expect("it was exported"), "text\n");
}
