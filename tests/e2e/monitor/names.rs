//! Names that a program gives to files that rules are about, and to what is to become such a file. A rule on a file
//! holds under every name that the program can give it: the act that names is what is decided on.

use serde_json::Value;
use turnkey_tests::{Ran, Run, scratch};

use super::{events, guard, violations};

fn jail(sections: &str) -> Run {
    Run::new().file("secret", "hidden\n").profile(sections)
}

/// Under a rule on opening alone each of these gives the content, when nothing is enforced; when it is, none does.
fn is_survived(evasions: &[&str]) {
    let rules = guard("/workspace/secret");
    for evasion in evasions {
        let control = jail(&rules).option("--mode observe").shell(evasion);
        control.expect(
            control.stdout.contains("hidden"),
            &format!("the control: it is read by {evasion}"),
        );
        let ran = jail(&rules).shell(evasion);
        ran.expect_code(121);
        ran.expect(!ran.stdout.contains("hidden"), evasion);
        let told = violations(&ran, "guard").any(|one| {
            one["path"]
                .as_str()
                .is_some_and(|path| path.ends_with("secret"))
        });
        ran.expect(told, "and it is told");
    }
}

#[test]
fn m05_a_hard_link_to_a_guarded_file_kills() {
    is_survived(&[
        "ln secret alias; cat alias",
        "cd /tmp; ln /workspace/../workspace/secret /workspace/alias; cat /workspace/alias",
        "python3 -c \"import os; d = os.open('.', os.O_PATH); os.link('secret', 'alias', src_dir_fd=d, dst_dir_fd=d, follow_symlinks=False)\"; cat alias",
    ]);
}

#[test]
fn m06_a_new_name_of_a_guarded_file_kills() {
    is_survived(&[
        "mv secret alias; cat alias",
        "mv -T --exchange secret other 2>/dev/null || mv secret other; cat other",
        ": > other; python3 -c \"import ctypes; ctypes.CDLL(None).renameat2(-100, b'secret', -100, b'other', 2)\"; cat other",
    ]);
}

/// A workspace with a private key, under a profile that comes with turnkey.
fn with_a_key() -> Run {
    let run = Run::new();
    std::fs::create_dir(run.path().join(".ssh")).expect("a test can write its own directory");
    run.file(".ssh/id_rsa", "hidden")
}

#[test]
fn m05_m06_the_shipped_rules_know_of_other_names() {
    for evasion in ["ln .ssh/id_rsa a; cat a", "mv .ssh/id_rsa a; cat a"] {
        let free = with_a_key().option("--mode observe").shell(evasion);
        free.expect(
            free.stdout == "hidden",
            "the control: nothing else stops it",
        );
        let ran = with_a_key().shell(evasion);
        ran.expect_code(121);
        ran.expect(!ran.stdout.contains("hidden"), evasion);
        ran.expect(violations(&ran, "private-key").count() == 1, "told once");
    }
}

/// Runs a script in a directory of the host that the jail may write, with credentials in it.
fn in_a_written_directory(mode: &str, script: &str) -> (Ran, tempfile::TempDir) {
    let place = scratch();
    let aws = place.path().join(".aws");
    std::fs::create_dir(&aws).expect("a test can write its own directory");
    std::fs::write(aws.join("credentials"), "hidden").expect("a test can write its own directory");
    let everybody: std::fs::Permissions = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    for directory in [place.path(), &aws] {
        std::fs::set_permissions(directory, everybody.clone()).expect("a test owns it");
    }
    let place_name = place.path().display();
    let ran = Run::new()
        .option(&format!("--write {place_name} --mode {mode}"))
        .shell(&format!("cd {place_name}; {script}"));
    (ran, place)
}

const RENAMEAT2: &str =
    "python3 -c \"import ctypes; ctypes.CDLL(None).renameat2(-100, b'.aws', -100, b'x', 2)\"";

/// Ways to the content of `.aws/credentials` of which no call names that file.
const AWAY: [&str; 5] = [
    "mv .aws x; cat x/credentials",
    "mv \"$PWD/.aws\" \"$PWD/x\"; cat x/credentials",
    "mkdir x; EXCHANGE; cat x/credentials",
    "ln -s .aws a; ln a/credentials x; cat x",
    "cd .aws; mv ../.aws ../x; cat credentials",
];

#[test]
fn m37_a_directory_above_a_guarded_file_takes_nobody_to_it() {
    for way in AWAY {
        let script = way.replace("EXCHANGE", RENAMEAT2);
        let (control, _place) = in_a_written_directory("observe", &script);
        control.expect(control.stdout == "hidden", &format!("the control: {way}"));
        let told = violations(&control, "stored-credential").count();
        control.expect(told > 0, "and observing tells of it");
        let (ran, _place) = in_a_written_directory("enforce", &script);
        ran.expect_code(121);
        ran.expect(!ran.stdout.contains("hidden"), way);
        let told = violations(&ran, "stored-credential").count();
        ran.expect(told > 0, "and it is told");
    }
}

/// Ways to make a file that would run later, or what leads to one, without opening it; the name that is there
/// then, and the rule about it.
const MADE: [(&str, &str, &str); 15] = [
    ("ln -s e .bashrc", ".bashrc", "shell-startup"),
    ("mkfifo .profile", ".profile", "shell-startup"),
    ("mkdir .zshrc", ".zshrc", "shell-startup"),
    (
        "python3 -c \"import socket; socket.socket(socket.AF_UNIX).bind('.bashrc')\"",
        ".bashrc",
        "shell-startup",
    ),
    (
        "python3 -c \"import socket; socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).bind('$PWD/.zlogin')\"",
        ".zlogin",
        "shell-startup",
    ),
    // The address ends before its bytes do.
    (
        "python3 -c \"import ctypes, socket; s = socket.socket(socket.AF_UNIX); ctypes.CDLL(None).bind(s.fileno(), b'\\1\\0.bashrc.not', 9)\"",
        ".bashrc",
        "shell-startup",
    ),
    ("echo > e; mv e .bashrc", ".bashrc", "shell-startup"),
    ("echo > e; ln e .zshenv", ".zshenv", "shell-startup"),
    (
        "python3 -c \"import os; os.mknod('.bash_login')\"",
        ".bash_login",
        "shell-startup",
    ),
    (
        "mkdir d; echo > d/authorized_keys; mv d .ssh",
        ".ssh",
        "authorized-keys",
    ),
    (
        "mkdir .ssh dd; rmdir .ssh; ln -s dd .ssh; echo > dd/authorized_keys",
        ".ssh",
        "authorized-keys",
    ),
    (
        "mkdir dd; ln -s \"$PWD/dd\" .ssh; echo > dd/authorized_keys",
        ".ssh",
        "authorized-keys",
    ),
    (
        "mkdir .config q; mv q .config/autostart",
        ".config/autostart",
        "service-start",
    ),
    (
        "mkdir -p .config/systemd/user; echo > e; mv e .config/systemd/user/e.service",
        ".config/systemd/user/e.service",
        "service-start",
    ),
    (
        "mkdir -p .config/autostart; echo > e; ln e .config/autostart/e",
        ".config/autostart/e",
        "service-start",
    ),
];

/// True where hooks of BPF LSM decide, before anything is done.
fn is_asked_before(ran: &Ran) -> bool {
    let mut layers = ran.list("/enforcement").iter();
    layers.any(|layer| {
        let effective = layer["effective"].as_str();
        layer["layer"] == "monitor" && effective.is_some_and(|it| it.starts_with("lsm"))
    })
}

#[test]
fn m37_what_would_run_later_is_not_made_by_another_call() {
    for (script, name, rule) in MADE {
        let (control, place) = in_a_written_directory("observe", script);
        control.expect_code(0);
        let is_there =
            |place: &tempfile::TempDir| place.path().join(name).symlink_metadata().is_ok();
        control.expect(is_there(&place), &format!("the control: {script}"));
        // A directory may hold what several rules are about: the strongest of them tells.
        let told = |ran: &Ran| match name {
            ".ssh" | ".config/autostart" => !ran.violations().is_empty(),
            _ => violations(ran, rule).next().is_some(),
        };
        control.expect(told(&control), "and observing tells of it");
        let (ran, place) = in_a_written_directory("enforce", script);
        ran.expect_code(121);
        ran.expect(told(&ran), &format!("it is told: {script}"));
        if is_asked_before(&ran) {
            ran.expect(!is_there(&place), "where hooks are asked it is not made");
        }
        let mut about = ran
            .violations()
            .iter()
            .filter(|one| one["action"] == "kill");
        let is_done = about.any(|one| one["result"] == "allowed");
        ran.expect(is_done == is_there(&place), "as done, when it was");
    }
}

#[test]
fn m37_a_file_that_would_run_later_is_not_emptied_by_its_name() {
    let script = "python3 -c \"import os; os.truncate('.bashrc', 0)\"";
    let with_settings = || Run::new().file(".bashrc", "settings");
    let control = with_settings().option("--mode observe").shell(script);
    control.expect_code(0);
    control.expect(control.list("/files_changed").len() == 1, "the control");
    let told = violations(&control, "shell-startup").count();
    control.expect(told == 1, "and observing tells of it");
    let ran = with_settings().shell(script);
    ran.expect_code(121);
    ran.expect(violations(&ran, "shell-startup").count() == 1, "it is told");
}

/// linkat(2) of what a symlink, or a descriptor, leads to.
const FOLLOWED: &str = r#"
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
handle = os.open('.netrc', os.O_PATH)
os.symlink('.netrc', 'alias') if sys.argv[1] == 'alias' else None
way = {'alias': (-100, b'alias', 0x400), 'proc': (-100, b'/proc/self/fd/%d' % handle, 0x400),
       'thread': (-100, b'/proc/thread-self/fd/%d' % handle, 0x400), 'empty': (handle, b'', 0x1000)}[sys.argv[1]]
print(libc.linkat(way[0], way[1], -100, b'copy', way[2]), ctypes.get_errno())
try: print(open('copy').read())
except OSError as error: print(error.errno)
"#;

#[test]
fn m37_a_link_follows_nothing() {
    for way in ["alias", "proc", "thread", "empty"] {
        let place = scratch();
        std::fs::write(place.path().join(".netrc"), "hidden").unwrap();
        let program = format!(
            "import os; os.chdir('{}'){FOLLOWED}",
            place.path().display()
        );
        let (_, told) = turnkey_tests::outside("python3", &["-c", &program, way]);
        assert!(
            told.contains("hidden"),
            "the control: outside {way} works: {told}"
        );
        let attempt = |option: &str| {
            let run = Run::new().file(".netrc", "hidden").option(option);
            run.run(&["python3", "-c", FOLLOWED, way])
        };
        let seen = attempt("--mode observe");
        seen.expect(seen.stdout == "-1 1\n2\n", "it is refused, whoever watches");
        let ran = attempt("--mode enforce");
        ran.expect(!ran.stdout.contains("hidden"), way);
        for ran in [seen, ran] {
            let told = violations(&ran, "stored-credential").next();
            ran.expect(told.is_some(), "and it is told");
            // What a symlink is called is all that its call says.
            let path = told.map(|one| one["path"].as_str().unwrap_or_default());
            let is_named = path == Some("/workspace/.netrc");
            ran.expect(way == "alias" || is_named, "by the name that the file had");
            let stopped_by = told.map(|one| one["stopped_by"].as_str());
            let is_filters = stopped_by == Some(Some("seccomp"));
            let why = "and the filter is named, which refused it";
            ran.expect(way == "alias" || is_filters, why);
        }
    }
}

#[test]
fn m37_names_that_no_rule_is_about_are_free() {
    let script = "set -e
mkdir a; echo > a/f; mv a b; mv b/f g; ln g h; ln -s h i; rm i; mkdir -p src/x; mv src lib; ln -s lib link
ln -s /usr/lib system; ln -s . self; ln -s ../x dangling; mkfifo pipe; cp -al lib copy; rm -rf lib copy
echo > .tmpconfig; mv .tmpconfig .config; mv .config .config.old; rm -f .bashrc; rmdir b
python3 -c 'import multiprocessing as m; m.Semaphore(1).acquire()'
python3 -c 'import socket; s = [socket.socket(socket.AF_UNIX) for _ in range(3)]; s[0].bind(\"socket\"); s[1].bind(\"\\0.bashrc\"); s[2].bind(\"\")'
python3 -c 'import ctypes, socket; s = socket.socket(socket.AF_UNIX); ctypes.CDLL(None).bind(s.fileno(), b\"\\1\\0.bashrc\", 7)'";
    let (ran, _place) = in_a_written_directory("enforce", script);
    ran.expect_code(0);
    ran.expect(ran.at("/verdict") == "clean", "nothing is told against it");
    let inside = Run::new().shell(script);
    inside.expect_code(0);
    inside.expect(inside.at("/verdict") == "clean", "in the workspace neither");
}

/// Ways to give a file the name of a directory above guarded files, by names of several components.
const A_FILE_BY_LONG_NAMES: [&str; 9] = [
    "os.rename('a/config', 'b/.ssh')",
    "os.rename(f'{here}/a/config', f'{here}/b/.ssh')",
    "os.rename('a/config', './/b/./.ssh')",
    "os.chdir('a'); os.rename('config', '../b/.ssh')",
    "os.chdir('/'); os.rename(f'{here}/a/config', f'{here}/b/.ssh')",
    "d = os.open('.', os.O_PATH); os.rename('a/config', 'b/.ssh', dst_dir_fd=d)",
    "os.rename('a/config', 'b/.tmp'); os.rename('b/.tmp', 'b/.ssh')",
    "open('/tmp/m/f', 'w').close(); os.rename('/tmp/m/f', '/tmp/m/.ssh')",
    "open('b/.ssh', 'w').close(); exchange('a/config', 'b/.ssh')",
];

/// Like those, of a directory.
const A_DIRECTORY_BY_LONG_NAMES: [&str; 4] = [
    "os.rename('a/d', './/b/./.ssh')",
    "os.chdir('a'); os.rename(f'{here}/a/d', f'{here}/b/.ssh')",
    "os.chdir('a'); os.rename('d', '../b/.ssh')",
    "open('b/.ssh', 'w').close(); exchange('b/.ssh', 'a/d')",
];

/// A program that goes these ways, each among places `a` and `b` of its own, and prints each that it has come back from.
fn by_long_names(ways: &[&str]) -> String {
    let go = |way: &&str| format!("\nbegin()\n{way}\nprint(here)\n");
    let ways: String = ways.iter().map(go).collect();
    format!(
        "import ctypes, os, tempfile
def begin():
    global here
    here = tempfile.mkdtemp(dir='/workspace')
    os.chdir(here)
    for directory in ('a/d', 'b', '/tmp/m'): os.makedirs(directory, exist_ok=True)
    for file in ('a/config', 'a/d/id_rsa'): open(file, 'w').close()
exchange = lambda one, other: ctypes.CDLL(None).renameat2(-100, one.encode(), -100, other.encode(), 2)
{ways}"
    )
}

#[test]
fn a_file_gets_the_name_of_a_guarded_directory_by_whatever_path() {
    let ran = Run::new().python(&by_long_names(&A_FILE_BY_LONG_NAMES));
    ran.expect_code(0);
    let went = ran.stdout.lines().count();
    ran.expect(went == A_FILE_BY_LONG_NAMES.len(), "every way is gone");
    ran.expect(ran.at("/verdict") == "clean", "and nothing is said of it");
}

/// Without hooks nobody sees what is there, and it counts as a directory.
#[test]
fn a_file_that_gets_such_a_name_through_a_symlink_is_killed_for_where_only_arguments_are_known() {
    let way = "os.symlink('b', 'c'); os.rename('a/config', 'c/.ssh')";
    let ran = Run::new().python(&by_long_names(&[way]));
    let asked = is_asked_before(&ran);
    ran.expect_code(if asked { 0 } else { 121 });
}

#[test]
fn m37_a_directory_gets_no_guarded_name_by_whatever_path() {
    // Somebody's settings lie there, so that what lies beside them may be somebody's, too.
    let run = || Run::new().file("dots/.profile", "");
    let control = run().option("--mode observe");
    let control = control.python(&by_long_names(&A_DIRECTORY_BY_LONG_NAMES));
    let went = control.stdout.lines().count();
    control.expect(went == A_DIRECTORY_BY_LONG_NAMES.len(), "the control");
    for way in A_DIRECTORY_BY_LONG_NAMES {
        let ran = run().python(&by_long_names(&[way]));
        ran.expect_code(121);
        ran.expect(ran.stdout.is_empty(), way);
        ran.expect(!ran.violations().is_empty(), "it is told");
    }
}

/// Sets an access control list that gives everybody everything.
const ACCESS: &str = r#"
import ctypes, struct
entry = lambda tag, bits: struct.pack('HHI', tag, bits, 0xffffffff)
everything = struct.pack('I', 2) + entry(1, 7) + entry(4, 7) + entry(32, 7)
ctypes.CDLL(None).setxattr(b'kept', b'system.posix_acl_access', everything, len(everything), 0)
print('went on')
"#;

#[test]
fn m37_an_access_control_list_is_a_mode() {
    let rules = super::rule("mode", "chmod", "kill", "path = \"/workspace/kept\"");
    let jail = || Run::new().file("kept", "").profile(&rules);
    let control = jail().option("--mode observe").python(ACCESS);
    control.expect(control.stdout == "went on\n", "the control: it is set");
    let told = violations(&control, "mode").count();
    control.expect(told == 1, "and observing tells of it");
    let ran = jail().python(ACCESS);
    ran.expect_code(121);
    ran.expect(violations(&ran, "mode").count() == 1, "it is told");
    // No other attribute is anybody's business.
    let harmless = "import os; os.setxattr('kept', 'user.note', b'x'); print('went on')";
    let free = jail().python(harmless);
    free.expect(free.violations().is_empty(), "another attribute");
}

/// A name that fills its room, an empty one, one that is not there, and a descriptor of what has no name.
#[test]
fn names_are_told_as_they_were_asked() {
    let program = "import ctypes, os
libc = ctypes.CDLL(None)
libc.linkat(-100, b'x' * 4095, -100, b'/etc/x', 0)
libc.unlink(b'')
libc.rename(b'a', None)
read, _ = os.pipe()
os.open(f'/proc/self/fd/{read}', os.O_RDONLY)";
    let ran = Run::new().with_events().python(program);
    let change = |access: &str| {
        let is_this = |event: &&Value| event["access"][0] == access;
        let found = events(&ran, "change").find(is_this);
        found.unwrap_or(&Value::Null).clone()
    };
    let linked = change("link");
    ran.expect(linked["to"] == "/etc/x", "the new name, beside a long one");
    ran.expect(linked["raw"]["truncated"] == true, "which may be cut");
    let unlinked = change("unlink");
    ran.expect(unlinked["path"].is_string(), "an empty name was read");
    let renamed = change("rename");
    ran.expect(renamed["to"].is_null(), "no name is none");
    let pipes = |event: &&Value| {
        event["path"]
            .as_str()
            .is_some_and(|it| it.starts_with("/proc/self/fd/"))
    };
    let opened = events(&ran, "open").filter(pipes).count();
    ran.expect(opened == 1, "a pipe is told by what it was called");
    let root = events(&ran, "open").any(|event| event["path"] == "/");
    ran.expect(!root, "and not as the root");
}

#[test]
fn what_a_symlink_leads_to_is_told() {
    let rule = "[[rule]]\nid = \"written\"\non = \"open\"\naccess = \"write\"\npath = \"/workspace/*\"\naction = \"log\"";
    let script = "ln -s a one; ln -s /usr/b two; ln -s ../c /workspace/three; mkdir four";
    let ran = jail(rule).with_events().shell(script);
    let told = events(&ran, "change").map(|event| (event["path"].as_str(), event["to"].as_str()));
    let told: Vec<_> = told.collect();
    let expected = [
        (Some("/workspace/one"), Some("a")),
        (Some("/workspace/two"), Some("/usr/b")),
        (Some("/workspace/three"), Some("../c")),
        (Some("/workspace/four"), None),
    ];
    ran.expect(told == expected, "each with its aim");
}
