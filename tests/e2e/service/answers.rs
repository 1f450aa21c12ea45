//! Answers of what poses as a service, and of one whose configuration is wrong.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use tempfile::TempDir;
use turnkey_tests::{
    Run, SERVED, Service, binary_for_everybody, callers_scratch, eventually, hand_over, open_to_all,
};

/// Listens as a service does, tells how much comes, and answers with what is in a file.
const FAKE: &str = "
import array, os, socket, struct, sys
listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
listening.bind('turnkey.fd.sock')
os.chmod('turnkey.fd.sock', 0o666)
listening.listen()
listening.settimeout(5)
line, _ = listening.accept()
print(len(line.recv(1 << 17)))
report = os.memfd_create('report')
os.write(report, open(sys.argv[1], 'rb').read())
body = struct.pack('<I', 0)
header = b'tkfd' + struct.pack('<HHII', 1, 3, len(body), 1)
beside = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [report]))]
try:
    line.sendmsg([header + body], beside)
except OSError:
    pass";

/// A directory of this user's.
fn place_of(user: u32) -> TempDir {
    let place = callers_scratch();
    open_to_all(place.path());
    hand_over(place.path(), user);
    place
}

/// One of this user's, in `place`.
fn fake(user: u32, place: &Path, report: &str) -> Child {
    std::fs::write(place.join("answer"), report).expect("a test writes its own files");
    let mut command = Command::new("python3");
    command.uid(user).gid(user).current_dir(place);
    command.args(["-c", FAKE, "answer"]).stdout(Stdio::piped());
    let fake = command.spawn().expect("python3 is there");
    let socket = place.join("turnkey.fd.sock");
    eventually("it listens", || socket.exists());
    std::thread::sleep(std::time::Duration::from_millis(50));
    fake
}

/// A caller's run there.
fn asked(user: u32, place: &Path, options: &[&str]) -> (Output, String) {
    let own = place_of(user);
    let mut command = Command::new(binary_for_everybody(own.path()));
    command.uid(user).gid(user).current_dir(own.path());
    command.env("TURNKEY_SOCKET_DIR", place);
    command.args(["run", "--service"]).args(options);
    let output = command.args(["--", "true"]).stdin(Stdio::null()).output();
    let output = output.expect("turnkey can be started");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    (output, told)
}

#[test]
fn who_poses_as_the_service_and_is_not_root_is_told_nothing() {
    for caller in [0, SERVED, 4343] {
        let place = place_of(SERVED);
        let fake = fake(SERVED, place.path(), "{}");
        let (output, told) = asked(caller, place.path(), &[]);
        let heard = fake.wait_with_output().expect("it ends").stdout;
        assert_eq!(String::from_utf8_lossy(&heard), "0\n", "{caller}: {told}");
        assert_eq!(output.status.code(), Some(125), "{told}");
        let words = format!("listens user {SERVED}");
        assert!(told.contains(&words), "{told}");
    }
}

#[test]
fn an_answer_without_a_report_and_an_export_that_never_came_are_failures() {
    let ran = Run::new().option("--unmonitored --quiet").run(&["true"]);
    ran.expect_code(0);
    let report = ran.report.to_string();
    for (report, is_exported, code, words) in [
        ("{}", false, 125, "no report"),
        (&report, false, 0, ""),
        (&report, true, 125, "the export is not whole"),
    ] {
        let place = place_of(0);
        let fake = fake(0, place.path(), report);
        let own = place_of(SERVED);
        let out = own.path().join("out").to_string_lossy().into_owned();
        let options: Vec<_> = match is_exported {
            true => vec!["--export", &out],
            false => Vec::new(),
        };
        let (output, told) = asked(SERVED, place.path(), &options);
        fake.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(code), "{told}");
        assert!(told.contains(words), "{told}");
    }
}

#[test]
fn a_mistake_in_the_configuration_is_told_in_the_log_and_not_to_callers() {
    let service = Service::start("");
    service.configure("max_runing = 3\n");
    let ran = Run::new().served_at(&service.directory()).run(&["true"]);
    ran.expect_code(125);
    let words = "the configuration of the service cannot be used";
    ran.expect(ran.stderr.contains(words), "told");
    let is_told = |text: &str| text.contains("serve.toml") || text.contains("max_runing");
    ran.expect(!is_told(&ran.stderr), "but not what is in there");
    let refused = |line: &serde_json::Value| line["event"] == "refused";
    let log = service
        .log()
        .into_iter()
        .find(refused)
        .expect("it is there");
    assert!(is_told(log["reason"].as_str().unwrap_or_default()), "{log}");
}

#[test]
fn several_mistakes_of_a_request_are_told_each() {
    let service = Service::start("");
    let options = ["--memory", "much", "--pids", "many"];
    let (output, told) = asked(SERVED, &service.directory(), &options);
    assert_eq!(output.status.code(), Some(125), "{told}");
    for words in ["2 things are wrong: ", "such as 256M", "such as 50"] {
        assert!(told.contains(words), "{told}");
    }
}
