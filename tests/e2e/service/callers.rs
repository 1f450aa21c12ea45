//! Callers who try to get more by the service than they have.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

use turnkey_tests::{
    Ran, Run, SERVED, Service, binary_for_everybody, hand_over, open_to_all, outside, scratch,
};

use super::as_served;

/// The number of another user.
const OTHER: u32 = 4343;
const SECRET: &str = "of nobody but its owner";

/// A directory that only its owner enters, with a file that all may read.
fn closed(owner: u32) -> tempfile::TempDir {
    let place = scratch();
    fs::create_dir(place.path().join("below")).expect("a test makes its own files");
    for name in ["file", "below/file"] {
        fs::write(place.path().join(name), SECRET).expect("a test makes its own files");
        fs::set_permissions(place.path().join(name), PermissionsExt::from_mode(0o644))
            .expect("a test makes its own files");
    }
    hand_over(place.path(), owner);
    fs::set_permissions(place.path(), PermissionsExt::from_mode(0o700))
        .expect("a test makes its own files");
    place
}

fn shows(ran: &Ran) -> bool {
    ran.stdout.contains(SECRET) || ran.stderr.contains(SECRET)
}

/// A run by an ordinary user through the service, and one by root without it.
fn both(service: &Service, options: &[&str], script: &str) -> (Ran, Ran) {
    let with = |run: Run| {
        let run = options.iter().fold(run, |run, option| run.option(option));
        run.shell(script)
    };
    let served = with(Run::new().served_at(&service.directory()));
    (served, with(Run::new()))
}

#[test]
fn what_is_closed_to_the_caller_is_closed_to_the_service() {
    let service = Service::start("");
    for owner in [0, OTHER] {
        let closed = closed(owner);
        let path = closed.path().display().to_string();
        for (option, script) in [
            (format!("--workdir {path}"), "cat file".to_owned()),
            (format!("--workdir {path}/below"), "cat file".to_owned()),
            (format!("--read {path}/file"), format!("cat {path}/file")),
            (
                format!("--read {path}/below"),
                format!("cat {path}/below/file"),
            ),
        ] {
            let (served, control) = both(&service, &[&option], &script);
            control.expect(shows(&control), "the control: root is shown it");
            served.expect(!shows(&served), &option);
            served.expect_code(125);
        }
        // Its name can be had by everybody, and a handle of it.
        let run = Run::new().served_at(&service.directory());
        let served = run.option(&format!("--read {path}")).run(&["true"]);
        served.expect_code(125);
        served.expect(served.stderr.contains("no such right itself"), "why");
    }
}

#[test]
fn a_link_leads_no_further_than_its_caller() {
    let service = Service::start("");
    let closed = closed(OTHER);
    let place = scratch();
    let link = place.path().join("link");
    std::os::unix::fs::symlink(closed.path(), &link).unwrap();
    std::os::unix::fs::lchown(&link, Some(SERVED), Some(SERVED)).unwrap();
    open_to_all(place.path());
    hand_over(place.path(), SERVED);
    let link = link.display();
    for option in [format!("--workdir {link}"), format!("--read {link}/file")] {
        let run = Run::new().served_at(&service.directory()).option(&option);
        let ran = run.shell(&format!("cat file {link}/file"));
        ran.expect(!shows(&ran), &option);
        ran.expect_code(125);
    }
}

#[test]
fn a_directory_of_another_user_is_no_workspace_though_it_can_be_read() {
    let service = Service::start("");
    let theirs = closed(OTHER);
    open_to_all(theirs.path());
    let option = format!("--workdir {}", theirs.path().display());
    let run = Run::new().served_at(&service.directory());
    let ran = run.option(&option).shell("cat file");
    ran.expect_code(125);
    ran.expect(ran.stderr.contains("belongs to another user"), "why");
    // To be read it is the caller's to give.
    let run = Run::new().served_at(&service.directory());
    let path = theirs.path().display();
    let ran = run
        .option(&format!("--read {path}"))
        .shell(&format!("cat {path}/file"));
    ran.expect(ran.code == 0 && shows(&ran), "as by its own hand");
}

#[test]
fn files_of_others_in_the_caller_s_directory_stay_closed() {
    let service = Service::start("");
    let run = Run::new().served_at(&service.directory()).file("mine", "");
    let theirs = run.path().join("theirs");
    let command = run.command(&["/bin/sh", "-c", "cat theirs; cat group; ls -ln mine; id -u"]);
    // Given to the caller by now; these two are not.
    for (name, owner, group, mode) in [
        ("theirs", OTHER, OTHER, 0o600),
        ("group", OTHER, OTHER, 0o640),
    ] {
        let path = run.path().join(name);
        fs::write(&path, SECRET).unwrap();
        std::os::unix::fs::lchown(&path, Some(owner), Some(group)).unwrap();
        fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
    }
    // As in a directory whose new files get its group.
    std::os::unix::fs::lchown(run.path(), Some(SERVED), Some(OTHER)).unwrap();
    let output = { command }.output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(!told.contains(SECRET), "{told}");
    assert!(told.contains("1000"), "its own is its own: {told}");
    assert_eq!(fs::metadata(&theirs).unwrap().uid(), OTHER);
}

#[test]
fn the_kernel_s_own_file_systems_are_not_given() {
    let service = Service::start("");
    for path in [
        "/sys/kernel",
        "/proc/self",
        "/proc/self/fd",
        "/sys/fs/cgroup",
        "/dev/pts",
    ] {
        let run = Run::new().served_at(&service.directory());
        let ran = run.option(&format!("--workdir {path}")).run(&["ls"]);
        ran.expect_code(125);
    }
}

#[test]
fn what_the_host_has_is_not_told_to_who_cannot_see_it() {
    let service = Service::start("");
    let closed = closed(0);
    let path = closed.path().join("file").display().to_string();
    let (served, control) = both(&service, &[], &format!("cat {path}; exit 1"));
    let named = |ran: &Ran| {
        ran.list("/on_host")
            .iter()
            .any(|there| *there == path.as_str())
    };
    control.expect(named(&control), "the control: root is told");
    served.expect(!named(&served), "the caller is not");
    assert_eq!(served.code, 1);
}

#[test]
fn who_lives_elsewhere_is_not_served() {
    let service = Service::start("");
    let place = scratch();
    open_to_all(place.path());
    let turnkey = binary_for_everybody(place.path()).display().to_string();
    let asks = |unshare: &[&str], user: &[&str]| {
        let mut words = unshare.to_vec();
        words.extend(user);
        words.extend([turnkey.as_str(), "run", "--service", "--", "true"]);
        let mut command = Command::new(words[0]);
        command
            .args(&words[1..])
            .env("TURNKEY_SOCKET_DIR", service.directory());
        let output = command.current_dir("/usr").output().unwrap();
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )
    };
    let user: Vec<String> = ["setpriv", "--clear-groups"]
        .map(str::to_owned)
        .into_iter()
        .chain([format!("--reuid={SERVED}"), format!("--regid={SERVED}")])
        .collect();
    let user: Vec<&str> = user.iter().map(String::as_str).collect();
    let (code, told) = asks(&[], &user);
    assert!(
        !told.contains("refuses") || told.contains("belongs"),
        "the control: {code:?} {told}"
    );
    for (namespace, name) in [
        ("--net", "network namespace"),
        ("--mount", "mount namespace"),
        ("--cgroup", "cgroup namespace"),
        ("--pid", "process namespace"),
    ] {
        let (code, told) = asks(&["unshare", "--fork", namespace], &user);
        assert_eq!(code, Some(125), "{namespace}: {told}");
        assert!(
            told.contains(name) && told.contains("--local"),
            "{namespace}: {told}"
        );
    }
    // Its own root inside is nobody outside, or itself.
    let (code, told) = asks(&user, &["unshare", "--user", "--map-root-user"]);
    assert!(
        code == Some(125) && told.contains("user namespace"),
        "{told}"
    );
    let jail_s = [
        "setpriv",
        "--clear-groups",
        "--reuid=1879048200",
        "--regid=4242",
    ];
    let (code, told) = asks(&[], &jail_s);
    assert!(
        code == Some(125) && told.contains("that of a jail"),
        "{told}"
    );
    let stranger = ["setpriv", "--clear-groups", "--reuid=4343", "--regid=4343"];
    let (code, told) = asks(&[], &stranger);
    assert!(code == Some(125) && told.contains("may not use"), "{told}");
}

#[test]
fn from_inside_a_jail_the_socket_leads_nowhere() {
    let service = Service::start("");
    let script = "import os, socket
line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
try: line.connect(os.environ['TURNKEY_SOCKET_DIR'] + '/turnkey.fd.sock'); print('connected')
except OSError as error: print('not', error.errno)";
    let directory = service.directory();
    let mut control = as_served(&service, "python3", Path::new("/"));
    let control = control.args(["-c", script]).output().unwrap();
    assert_eq!(
        String::from_utf8_lossy(&control.stdout),
        "connected\n",
        "the control"
    );
    for run in [Run::new(), Run::new().served_at(&directory)] {
        let name = directory.display();
        let run = run.option(&format!("--read {name} --env TURNKEY_SOCKET_DIR={name}"));
        let ran = run.option("--mode observe").python(script);
        ran.expect(!ran.stdout.contains("connected"), "not from a jail");
        ran.expect(ran.stdout.contains("not"), "it tried");
    }
}

#[test]
fn another_user_s_runs_are_out_of_reach() {
    let service = Service::start("");
    let run = Run::new().served_at(&service.directory());
    let mut child = run.command(&["sleep", "20"]).spawn().unwrap();
    let maker = || {
        let found = outside(
            "pgrep",
            &["-P", &service.pid().to_string(), "-f", "serve-run"],
        );
        found.1.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    turnkey_tests::eventually("a process makes the run", || !maker().is_empty());
    for pid in maker() {
        let kill = format!("--reuid={SERVED}");
        let (status, _) = outside("setpriv", &[&kill, "--clear-groups", "kill", "-KILL", &pid]);
        assert!(
            !status.success(),
            "the caller cannot end the service's own process"
        );
    }
    assert!(child.try_wait().unwrap().is_none(), "it runs on");
    let _ = child.kill();
    let _ = child.wait();
}

#[test]
fn files_that_are_given_for_writing_become_the_caller_s() {
    let service = Service::start("write = true\n");
    let theirs = closed(OTHER);
    open_to_all(theirs.path());
    let run = Run::new().served_at(&service.directory()).file("d/old", "");
    let place = run.path().join("d");
    let option = format!("--write {}", place.display());
    let ran = run
        .option(&option)
        .shell(&format!("echo new > {}/new", place.display()));
    ran.expect_code(0);
    assert_eq!(fs::metadata(place.join("new")).unwrap().uid(), SERVED);
    let path = theirs.path().display();
    let run = Run::new().served_at(&service.directory());
    let ran = run
        .option(&format!("--write {path}"))
        .shell(&format!("echo bad > {path}/new"));
    ran.expect_code(125);
    assert!(!theirs.path().join("new").exists());
}

#[test]
fn j75_nothing_of_one_caller_s_run_is_there_for_the_next() {
    let service = Service::start("");
    let leaves = "umask 0; for at in /tmp /dev/shm /workspace \"$HOME\"; do echo secret > $at/left; done
        ipcmk -M 64 > /dev/null 2>&1; echo $$; stat -c %i /proc/self/ns/net; cat /proc/self/environ | tr '\\0' '\\n' | grep MARK";
    let first = Run::new()
        .served_at(&service.directory())
        .option("--env MARK=first");
    let first = first.shell(leaves);
    first.expect(
        first.stdout.contains("MARK=first"),
        "the control: it has its own",
    );
    let looks = "cat /tmp/left /dev/shm/left /workspace/left \"$HOME\"/left 2> /dev/null; ipcs -m | grep -c 0x; \
        stat -c %i /proc/self/ns/net; cat /proc/self/environ | tr '\\0' '\\n' | grep MARK; ls /proc/self/fd";
    let second = Run::new().served_at(&service.directory()).shell(looks);
    second.expect(!second.stdout.contains("secret"), "no file");
    second.expect(!second.stdout.contains("MARK"), "no variable");
    let uid = |ran: &Ran| ran.at("/id").clone();
    assert_ne!(uid(&first), uid(&second), "another run, with another name");
    second.expect(
        second.stdout.lines().filter(|line| line.len() < 3).count() <= 6,
        "no descriptor",
    );
}

/// Connects, and lets the process that did so become something else before `becomes` asks for a run.
fn asks_as_another(service: &Service, place: &Path, becomes: &str) -> String {
    let program = format!(
        "import ctypes, threading
line = connect()
def is_(key, value):
    with open(f'/proc/{{first}}/status') as status:
        return any(line.startswith(key) and value in line for line in status)
def ask(is_so):
    while not is_so(): pass
    send(line, packet(1, RUN, came), came)
    print(answer(line), flush=True); os._exit(0)
first, came = os.getpid(), usual()
{becomes}"
    );
    super::talks(service, place, &program)
}

#[test]
fn a_process_that_is_not_what_it_was_lends_its_limits_to_no_run() {
    let service = Service::start("");
    let place = scratch();
    open_to_all(place.path());
    hand_over(place.path(), SERVED);
    // A control group of version 1 forgets a thread that has ended. The service has looked at it as it was when it connected.
    let ends = "import time; time.sleep(0.2); threading.Thread(target=ask, args=[lambda: is_('State', IS_SO)]).start()\nEND";
    let (dead, alive) = (("'Z'", "ctypes.CDLL(None).syscall(60, 0)"), ("':'", "pass"));
    for ((is_so, end), answers) in [(alive, ["ended"; 2]), (dead, ["403", "closed"])] {
        let becomes = ends.replace("IS_SO", is_so).replace("END", end);
        let answer = asks_as_another(&service, place.path(), &becomes);
        assert!(answers.contains(&answer.as_str()), "{end}: {answer}");
    }
    // A program that is set to another user may raise what is bounded.
    let cat = place.path().join("cat");
    fs::copy("/usr/bin/cat", &cat).expect("a test makes its own files");
    for (mode, uid, answer) in [(0o755, SERVED, "ended"), (0o4755, 0, "403")] {
        fs::set_permissions(&cat, PermissionsExt::from_mode(mode)).expect("a test's own file");
        let becomes = format!(
            "out, into = os.pipe()
if os.fork() == 0:
    os.close(out); ask(lambda: is_('Name', 'cat') and is_('Uid', '\\t{uid}\\t'))
os.close(into); os.dup2(out, 0); os.execv('{}', ['cat'])",
            cat.display()
        );
        assert_eq!(
            asks_as_another(&service, place.path(), &becomes),
            answer,
            "{mode:o}"
        );
    }
}
