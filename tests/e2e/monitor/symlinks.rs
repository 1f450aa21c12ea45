//! Calls that name a file and open none, by ways on which the name is not the file's: symlinks, and the lists in /proc.
//!
//! Where the kernel's objects are known, the file is told of whatever led to it. Where arguments are all that is known, what a
//! program makes on such a way is told of; the rest is what docs/profile.md says of it.

use std::collections::BTreeSet;
use std::os::unix::fs::symlink;

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
const WAYS: [Way; 19] = [
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
    // What was there before the run, and what the kernel makes.
    way("'there/g'", None),
    way("'/proc/self/cwd/d/g'", None),
    way("'/proc/self/root' + here + '/d/g'", None),
    way("f'/proc/self/fd/{directory(\"d\")}/g'", None),
    way("f'/dev/fd/{directory(\"d\")}/g'", None),
    way("made('/proc/self/cwd/d/g', 'l')", None),
];

/// Goes each way, and prints the number of each on which the file was reached.
fn program(act: &str, reached: &str) -> String {
    let goes = (0..).zip(&WAYS).map(|(number, way)| {
        let path = way.path;
        format!("begin({number})\n{act}({path}, 0o600)\nif {reached} == 0o600: print({number})\n")
    });
    format!(
        "import os
def begin(number):
    global here
    here = f'/workspace/{{number}}'
    os.makedirs(here + '/d', exist_ok=True)
    os.chdir(here)
    open('d/g', 'w').close()
def made(to, name, at=None):
    os.symlink(to, name, dir_fd=at)
    return name
directory = lambda name: os.open(name, os.O_PATH | os.O_DIRECTORY)
file = lambda: os.open('d/g', os.O_PATH)
{}",
        goes.collect::<String>()
    )
}

/// True where acts on names are known by their arguments alone.
fn by_arguments(ran: &Ran) -> bool {
    let mut layers = ran.list("/enforcement").iter();
    layers.any(|layer| {
        let effective = layer["effective"].as_str().unwrap_or_default();
        layer["layer"] == "monitor" && effective.contains("by their arguments")
    })
}

/// Goes each way with the call of the rules' kind, and compares what the rule tells.
fn goes_each_way(kind: &str, act: &str, reached: &str) -> std::io::Result<()> {
    let run = Run::new().profile(&rule("guard", kind, "log", "path = \"/workspace/*/d/g\""));
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
    let told = violations(&ran, "guard").filter_map(|one| one["path"].as_str());
    let told: BTreeSet<&str> = told.collect();
    let expected = (0..).zip(&WAYS).filter_map(|(number, way)| {
        let name = way.told?;
        Some(format!("/workspace/{number}/{name}"))
    });
    let expected: BTreeSet<String> = expected.collect();
    ran.expect(told.iter().eq(&expected), &format!("{kind}: {expected:#?}"));
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
