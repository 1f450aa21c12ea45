//! Calls that name a file and open none, by ways on which the name is not the file's: symlinks, and the lists in /proc.
//!
//! Where the kernel's objects are known, the file is told of whatever led to it. Where arguments are all that is known, what a
//! program makes on such a way is told of; the rest is what docs/profile.md says of it.

use std::collections::BTreeSet;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use turnkey_tests::{Ran, Run};

use super::{events, rule, violations};

/// A way to the file `d/g`, in a directory of its own; and what is told of it where arguments are all that is known.
struct Way {
    path: &'static str,
    told: Option<&'static str>,
}

const fn way(path: &'static str, told: Option<&'static str>) -> Way {
    Way { path, told }
}

/// Each is an expression of Python, which makes what it takes, and is the path.
const WAYS: [Way; 27] = [
    way("'d/g'", Some("d/g")),
    way("made('d/g', 'l')", Some("l")),
    way("made(here + '/d/g', 'l')", Some("l")),
    way("made('g', 'l', directory('d')) and 'd/l'", Some("d/l")),
    way("made('d/../d/g', 'l')", Some("l")),
    // One behind the other, whichever is made first.
    way("made('d/g', 'l') and made('l', 'm')", Some("l")),
    way("made('l', 'm') and made('d/g', 'l') and 'm'", Some("l")),
    // To a directory above it.
    way("made('d', 'l') + '/g'", Some("l")),
    way("made('.', 'l') + '/d/g'", Some("l")),
    way("made(here + '/d', 'l') + '/g'", Some("l")),
    way("made(here, 'l') + '/d/g'", Some("l")),
    // The file's own descriptor.
    way("f'/proc/self/fd/{file()}'", Some("d/g")),
    way("f'/dev/fd/{file()}'", Some("d/g")),
    // What was there before the run.
    way("'there/g'", None),
    // What the kernel makes: no name tells which file it is, and it may be the worst there is.
    way("'/proc/self/cwd/d/g'", Some("/proc/self/cwd/d/g")),
    way(
        "'/proc/self/root/workspace/15/d/g'",
        Some("/proc/self/root/workspace/15/d/g"),
    ),
    way(
        "directory('d') and '/proc/self/fd/50/g'",
        Some("/proc/self/fd/50/g"),
    ),
    way("directory('d') and '/dev/fd/50/g'", Some("/dev/fd/50/g")),
    way("made('/proc/self/cwd/d/g', 'l')", Some("l")),
    // A `..` in what the symlink holds leads elsewhere once the directory in front of it is a symlink itself.
    way("turned(made('t/../g', 'l'))", Some("l")),
    way("turned(made(here + '/t/../g', 'l'))", Some("l")),
    way("turned(made('./t/..', 'l')) + '/g'", Some("l")),
    // In another directory a relative symlink leads elsewhere.
    way("moved(made('g', 'l'), 'd/l')", Some("l")),
    way("exchanged(made('g', 'l'), 'd/e') and 'd/e'", Some("l")),
    way("exchanged('d/e', made('g', 'l')) and 'd/e'", Some("d/e")),
    way("linked(made('g', 'l'), 'd/l')", Some("l")),
    way(
        "made('./../g', 't/k') and moved('t', 'd/t') + '/k'",
        Some("t"),
    ),
];

/// Goes each way, and prints the number of each on which the file was reached.
fn program(act: &str, reached: &str) -> String {
    let goes = (0..).zip(&WAYS).map(|(number, way)| {
        let path = way.path;
        format!("begin({number})\n{act}({path}, 0o600)\nif {reached} == 0o600: print({number})\n")
    });
    format!(
        "import ctypes, os
libc = ctypes.CDLL(None)
def begin(number):
    global here
    here = f'/workspace/{{number}}'
    os.makedirs(here + '/d/e', exist_ok=True)
    os.chdir(here)
    os.mkdir('t')
    open('d/g', 'w').close()
def made(to, name, at=None):
    os.symlink(to, name, dir_fd=at)
    return name
def turned(name):
    os.rmdir('t')
    os.symlink('d/e', 't')
    return name
def moved(name, to):
    os.rename(name, to)
    return to
def linked(name, to):
    os.link(name, to, follow_symlinks=False)
    return to
exchanged = lambda name, other: libc.renameat2(-100, name.encode(), -100, other.encode(), 2) == 0
directory = lambda name: os.dup2(os.open(name, os.O_PATH | os.O_DIRECTORY), 50)
file = lambda: os.open('d/g', os.O_PATH)
{}",
        goes.collect::<String>()
    )
}

/// True where acts on names are known by their arguments alone.
pub fn by_arguments(ran: &Ran) -> bool {
    let mut layers = ran.list("/enforcement").iter();
    layers.any(|layer| {
        let effective = layer["effective"].as_str().unwrap_or_default();
        layer["layer"] == "monitor" && effective.contains("by their arguments")
    })
}

/// Goes each way with the call of the rules' kind, and compares what the rule tells.
fn goes_each_way(kind: &str, act: &str, reached: &str) -> std::io::Result<()> {
    let observed = Run::new().option("--mode observe");
    let run = observed.profile(&rule("guard", kind, "log", "path = \"/workspace/*/d/g\""));
    let before = WAYS
        .iter()
        .take_while(|way| way.path != "'there/g'")
        .count();
    let directory = run.path().join(before.to_string());
    std::fs::create_dir(&directory)?;
    turnkey_tests::open_to_all(&directory);
    symlink("d", directory.join("there"))?;
    let ran = run.python(&program(act, reached));
    ran.expect_code(0);
    let numbers: String = (0..WAYS.len())
        .map(|number| format!("{number}\n"))
        .collect();
    ran.expect(ran.stdout == numbers, "each way leads to the file");
    if !by_arguments(&ran) {
        // The kernel's own object decides, whatever name is told.
        let counts = violations(&ran, "guard").filter_map(|one| one["count"].as_u64());
        let (told, ways) = (counts.sum::<u64>(), WAYS.len() as u64);
        ran.expect(told == ways, &format!("{kind}: {told} of {ways}"));
        return Ok(());
    }
    // Where no text tells which file it is, the strictest rule of all answers.
    let told = ran.violations().iter();
    let told = told.filter_map(|one| one["path"].as_str());
    let told: BTreeSet<&str> = told.collect();
    let expected = (0..).zip(&WAYS).filter_map(|(number, way)| {
        let here = PathBuf::from(format!("/workspace/{number}"));
        Some(here.join(way.told?).display().to_string())
    });
    let expected: BTreeSet<String> = expected.collect();
    // A symlink of the run's own is followed to the file by who tells of it.
    let reached = |path: &&str| path.ends_with("/d/g");
    let others = told.iter().filter(|path| !expected.contains(**path));
    ran.expect(others.clone().count() > 0, "some are followed");
    ran.expect(
        others.copied().all(|path| reached(&path)),
        &format!("{kind}: {expected:#?}"),
    );
    let lacks = expected.iter().find(|path| !told.contains(path.as_str()));
    ran.expect(
        lacks.is_none(),
        &format!("{kind}: {lacks:?} of {expected:#?}"),
    );
    Ok(())
}

#[test]
fn m37_a_way_to_a_file_that_is_cut_is_told_of_or_written_down() {
    goes_each_way("truncate", "os.truncate", "os.stat('d/g').st_size").unwrap();
}

#[test]
fn m37_a_way_to_a_file_with_a_new_mode_is_told_of_or_written_down() {
    goes_each_way("chmod", "os.chmod", "os.stat('d/g').st_mode & 0o777").unwrap();
}

/// By `/proc/self/fd/N`, rules and events know the file of the descriptor; what lies below it is another one.
#[test]
fn m37_a_name_below_a_descriptor_is_not_told_as_a_descriptor() {
    let program = "import os
open('g', 'w').close(); open('8', 'w').close(); open('other', 'w').close()
os.dup2(os.open('.', os.O_PATH | os.O_DIRECTORY), 7); os.dup2(os.open('other', os.O_RDONLY), 8)
os.chmod('/proc/self/fd/7/g', 0o600); os.chmod('/proc/self/fd/7/8', 0o600); os.chmod('/dev/fd/8', 0o640)
print(os.stat('g').st_mode & 0o777 == 0o600, os.stat('8').st_mode & 0o777 == 0o600)";
    let ran = Run::new().with_events().python(program);
    ran.expect(ran.stdout == "True True\n", "the control: both are changed");
    let modes = events(&ran, "change").filter(|one| one["access"][0] == "chmod");
    let changed = modes.filter_map(|one| one["path"].as_str());
    let changed: Vec<_> = changed.map(|path| path.rsplit('/').next()).collect();
    let expected = [Some("g"), Some("8"), Some("other")];
    ran.expect(changed == expected, &format!("{changed:?}"));
}

/// Calls on the file `f` of the workspace by a name that leads to it, or on a name beside it.
const ACTS: [&str; 9] = [
    "os.chmod(W, 0o600)",
    "os.truncate(W, 0)",
    "os.utime(W, (0, 0))",
    "os.setxattr(W, 'user.a', b'')",
    "os.unlink(W)",
    "os.rename(W, 'g')",
    "os.rename('g', W)",
    "os.link(W, 'g')",
    "os.stat(W)",
];

/// Spellings of ways through the links that proc(5) has for each process, and that /dev has to some of them.
const SPELLINGS: [&str; 11] = [
    "'/proc/self/cwd/f'",
    "f'/proc/{os.getpid()}/cwd/f'",
    "'/proc/thread-self/root/workspace/f'",
    "f'/proc/self/task/{threading.get_native_id()}/cwd/f'",
    "'//proc/./self/../self//cwd/f'",
    "'/tmp/../proc/self/root/workspace/f'",
    "'../proc/self/cwd/f'",
    "os.open('.', os.O_PATH) and '/proc/thread-self/fd/3/f'",
    "os.open('.', os.O_PATH) and '/dev/fd/3/./f'",
    "entered('/proc/self') and 'root/workspace/f'",
    "entered('/') and 'proc/self/root/workspace/f'",
];

/// Ways to the file itself, which calls take that follow the last component of a path.
const FOLLOWED: [&str; 6] = [
    "os.open('f', os.O_PATH) and f'/proc/{os.getpid()}/fd/3'",
    "os.open('f', os.O_PATH) and '/proc//self/fd/3'",
    "os.open('f', os.O_PATH) and f'/proc/self/task/{threading.get_native_id()}/fd/3'",
    "os.open('f', os.O_PATH) and entered('/proc/self/fd') and '3'",
    "os.dup2(os.open('f', os.O_RDONLY), 0) or '/dev/stdin'",
    "os.dup2(os.open('f', os.O_RDWR), 1) and '/proc/self/fd/../fd/1'",
];

/// A program that prints that it lived on after the act by the way.
fn by_way(act: &str, way: &str) -> String {
    format!(
        "import os, socket, sys, threading
entered = lambda name: os.chdir(name) or True
linked = lambda to: os.symlink(to, 'l') or True
W = {way}
{act}
os.write(2, b'lived' b' on')"
    )
}

/// Kinds of calls on a file that is there.
const CHANGED: &[&str] = &[
    "chmod", "truncate", "utimens", "xattr", "unlink", "rename", "link", "stat",
];

/// Kinds of calls that make a file.
const MADE: &[&str] = &["open"];

/// Kills for each kind.
fn guards(kinds: &[&str], path: &str) -> String {
    let rules = kinds.iter().map(|on| {
        let access = if *on == "open" {
            "access = \"write\"\n"
        } else {
            ""
        };
        rule(on, on, "kill", &format!("{access}path = \"{path}\""))
    });
    rules.collect()
}

/// The program's run in a mode, with the files that its act takes.
fn run_by_way(mode: &str, act: &str, way: &str) -> Ran {
    let makes = MAKERS.contains(&act);
    let files = [("f", !makes), ("g", act.contains("('g'"))];
    let taken = files.iter().filter(|(_, is_taken)| *is_taken);
    let run = taken.fold(Run::new().option(mode), |run, (name, _)| {
        run.file(name, "file")
    });
    let on = if makes { MADE } else { CHANGED };
    run.profile(&guards(on, "/workspace/f"))
        .python(&by_way(act, way))
}

fn is_killed_by_way(act: &str, way: &str) {
    let control = run_by_way("--mode observe", act, way);
    let why = format!("the control: {act} by {way}");
    control.expect(control.stderr.contains("lived on"), &why);
    let ran = run_by_way("--mode enforce", act, way);
    ran.expect_code(121);
    ran.expect(!ran.stderr.contains("lived on"), &format!("{act} by {way}"));
    ran.expect(!ran.violations().is_empty(), "it is told");
}

#[test]
fn m37_no_spelling_of_a_link_of_proc_hides_a_change() {
    for way in SPELLINGS {
        is_killed_by_way(ACTS[0], way);
    }
}

#[test]
fn m37_no_call_goes_unseen_through_a_link_of_proc() {
    for act in ACTS {
        is_killed_by_way(act, SPELLINGS[0]);
    }
}

/// Calls that make the file `f` of the workspace, which is not there, by a name that leads to it.
const MAKERS: [&str; 5] = [
    "os.mkdir(W)",
    "os.mknod(W)",
    "os.symlink('there', W)",
    "os.link('g', W)",
    "socket.socket(socket.AF_UNIX).bind(W)",
];

/// Ways to a directory's file by `..` behind what is no directory: there it leads to whatever is above the target.
const BACK: [&str; 6] = [
    "'/proc/self/cwd/../workspace/f'",
    "'/tmp/../proc/self/root/../workspace/f'",
    "os.open('/tmp', os.O_PATH) and '/proc/self/fd/3/../workspace/f'",
    "'/dev/fd/../cwd/f'",
    "linked('/usr/lib') and 'l/../../workspace/f'",
    "os.mkdir('d') or os.mkdir('d/e') or linked('d/e') and 'd/.././l/../../f'",
];

#[test]
fn m37_nothing_is_made_through_a_link_of_proc() {
    for act in MAKERS {
        is_killed_by_way(act, SPELLINGS[0]);
        is_killed_by_way(act, SPELLINGS[7]);
    }
}

#[test]
fn m37_nothing_is_made_by_a_step_back_from_a_link() {
    for act in MAKERS {
        is_killed_by_way(act, BACK[0]);
        is_killed_by_way(act, BACK[4]);
    }
}

#[test]
fn m37_no_step_back_from_a_link_hides_a_change() {
    for way in BACK {
        is_killed_by_way(ACTS[0], way);
    }
}

#[test]
fn m37_no_call_goes_unseen_by_a_step_back_from_a_link() {
    // A look is about the name that was asked for.
    let acts = ACTS.iter().filter(|act| !act.starts_with("os.stat"));
    for act in acts {
        is_killed_by_way(act, BACK[5]);
    }
}

/// Paths of up to five components out of a few directories, links between them and `..`: which of them lead to the file, and
/// of which no text tells, is found out by looking at each component.
const EVERY_PATH: &str = "import itertools, os
for name in ('d/e', 'x'):
    os.makedirs(name); open(name + '/g', 'w').close()
open('d/g', 'w').close()
os.symlink('d/e', 'l'); os.symlink('../../x', 'd/e/k'); os.symlink('e', 'd/l')
told = reached = 0
for length in range(1, 6):
    for parts in itertools.product(('d', 'e', 'l', 'k', 'x', '..'), repeat=length):
        path = '/'.join(parts) + '/g'
        real = os.path.realpath(path)
        if not os.path.exists(path) or not real.startswith('/workspace/'):
            continue
        is_link = [os.path.islink('/'.join(parts[:end + 1])) for end in range(length)]
        is_lost = any(link and '..' in parts[at + 1:] for at, link in enumerate(is_link))
        is_guarded = real == '/workspace/d/g'
        reached += is_guarded
        told += is_lost or is_guarded
        os.chmod(path, 0o600)
print(reached, told)";

#[test]
fn m37_every_step_back_is_judged_by_what_is_there() {
    let observed = Run::new().option("--mode observe --cpu-time 60s");
    let run = observed.profile(&rule("guard", "chmod", "log", "path = \"/workspace/d/g\""));
    let ran = run.python(EVERY_PATH);
    ran.expect_code(0);
    let numbers: Vec<u64> = ran.stdout.split_whitespace().flat_map(str::parse).collect();
    let [reached, lost] = numbers[..] else {
        panic!("{}", ran.stdout);
    };
    ran.expect(reached == 30 && lost == 62, "the paths are as many as ever");
    // Rows are bounded, the count of a finding is not.
    let told = ran.at("/findings/0/count").as_u64().unwrap_or_default();
    let expected = if by_arguments(&ran) { lost } else { reached };
    ran.expect(told == expected, &format!("{told} of {expected}"));
}

#[test]
fn m37_no_spelling_of_a_descriptor_hides_a_change() {
    for way in FOLLOWED {
        is_killed_by_way(ACTS[0], way);
    }
}

/// The rule is about another file, and says what is done because nobody knows which this was.
#[test]
fn m37_a_file_that_no_name_tells_is_told_as_that() {
    let acts = [
        (ACTS[0], SPELLINGS[0]),
        (ACTS[6], SPELLINGS[0]),
        (MAKERS[0], BACK[0]),
        (MAKERS[4], SPELLINGS[0]),
        ("os.symlink(W, 'aim')", SPELLINGS[0]),
    ];
    let kinds = [CHANGED, MADE].concat();
    for (act, way) in acts {
        let run = Run::new().option("--mode observe").with_events();
        let run = if MAKERS.contains(&act) {
            run
        } else {
            run.file("f", "file").file("g", "other")
        };
        let run = run.profile(&guards(&kinds, "/workspace/other"));
        let ran = run.python(&by_way(act, way));
        ran.expect(ran.stderr.contains("lived on"), "the control: it is done");
        let expected = by_arguments(&ran);
        let is_lost = |row: &serde_json::Value| row["file_unknown"] == true;
        let rows = ran.violations();
        ran.expect(!expected || !rows.is_empty(), act);
        ran.expect(rows.iter().all(is_lost), act);
        let decided = events(&ran, "change").chain(events(&ran, "bind"));
        let told = decided.filter(|event| is_lost(&event["decision"])).count();
        ran.expect((told > 0) == expected, "an event says so");
        let said = ran.stderr.contains("which one this was is not known");
        ran.expect(said == expected, "the terminal says so");
    }
}

/// A name that a rule is about is known, though it is reached by such a way as well.
#[test]
fn m37_a_file_that_its_name_tells_is_not_told_as_unknown() {
    let run = Run::new().option("--mode observe").file("f", "file");
    let run = run.profile(&guards(CHANGED, "/workspace/f"));
    let ran = run.python("import os; os.chmod('f', 0o600)");
    let told: Vec<_> = ran.violations().iter().collect();
    ran.expect(told.len() == 1, "it is told");
    ran.expect(told[0].get("file_unknown").is_none(), "the file is known");
}

/// Standard streams that are pipes, and what programs ask of their own links in /proc.
#[test]
fn what_programs_ask_of_their_links_in_proc_is_free() {
    let program = "import os
for name in ('cwd', 'root', 'exe', 'fd/0', 'fd/1'):
    os.readlink('/proc/self/' + name); os.stat('/proc/self/' + name); os.lstat('/proc/self/' + name)
for name in ('/dev/fd/1', '/dev/stdout', '/dev/fd'):
    os.stat(name); os.readlink(name)
[os.lstat(one.path) for one in os.scandir('/proc/self/fd')]
open('/proc/self/cwd/f').read(); open('/proc/self/fd/1', 'w').close()
os.chmod(os.open('f', os.O_RDWR), 0o600); h = os.open('h', os.O_CREAT | os.O_RDWR)
os.chmod(f'/proc/self/fd/{h}', 0o600); os.truncate(f'/dev/fd/{h}', 0)
os.symlink('/dev/stdout', 'log')";
    let run = Run::new().file("f", "file");
    let ran = run
        .profile(&guards(CHANGED, "/workspace/other"))
        .python(program);
    ran.expect_code(0);
    ran.expect(ran.at("/verdict") == "clean", "nothing is told against it");
}

/// Ordinary moves in a jail that makes symlinks: a new version that takes the place of the old one, files and directories that go
/// elsewhere, and a second name.
#[test]
fn moves_that_lead_no_symlink_elsewhere_are_free() {
    let program = "import os
os.makedirs('a/b'); os.makedirs('c'); open('a/f', 'w').close()
os.symlink('v1', 'new'); os.rename('new', 'current'); os.symlink('v2', 'new'); os.rename('new', 'current')
os.symlink('./f', 'a/s'); os.rename('a/s', 'a/t')
os.link('a/f', 'c/f'); os.rename('a/f', 'c/g'); os.rename('c/f', 'a/f'); os.rename('a/b', 'a/d')
print(os.readlink('current'), sorted(os.listdir('c')), sorted(os.listdir('a')))";
    let ran = Run::new().python(program);
    ran.expect_code(0);
    let expected = "v2 ['g'] ['d', 'f', 't']\n";
    ran.expect(ran.stdout == expected, "the control: all is done");
    ran.expect(ran.violations().is_empty(), "nothing is told of it");
}

/// Makes a symlink and steps back, in a directory that stands behind ten thousand others in the kernel's list: looks for what is not
/// there are in it, too, whoever made them.
const FULL: &str = "import os
os.makedirs('/workspace/n/old')
open('/workspace/n/old/a', 'w').close()
for number in range(10000):
    os.path.exists(f'/workspace/n/{number}')
os.symlink('testing', '/workspace/n/old/l')
os.rename('/workspace/n/old/../old/a', '/workspace/n/old/b')
print('lived on')";

#[test]
fn a_directory_full_of_looks_in_vain_makes_no_file_unknown() {
    let kinds = [CHANGED, MADE].concat();
    let run = Run::new().option("--cpu-time 60s");
    let ran = run
        .profile(&guards(&kinds, "/workspace/other"))
        .python(FULL);
    ran.expect_code(0);
    ran.expect(ran.stdout.contains("lived on"), "nothing kills");
    ran.expect(ran.violations().is_empty(), "nothing is told");
}
