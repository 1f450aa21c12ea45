//! Root that reaches for the watcher's own maps, rules and links by the kernel's numbers of them, from inside of the group or from outside:
//! it is killed for the first such call, or else it is noticed, and told.

use std::os::unix::fs::MetadataExt;
use std::process::{Command, Stdio};

use serde_json::Value;
use turnkey_tests::eventually;

use super::{Attached, Others, OthersGroup, broken};

/// Does to what a group (by the number of its directory) is watched by what the second argument says; prints `done` behind it. `held` has
/// a descriptor of the table from the beginning, and needs one call only.
const BLINDING: &str = "
import ctypes, mmap, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
LOOKUP, UPDATE, DELETE, CREATE, INFO = 1, 2, 3, 0, 15
MAPS, PROGRAMS, LINKS, DETACH = (12, 14), (11, 13), (31, 30), 34
group, act = int(sys.argv[1]), sys.argv[2]
def bpf(command, attributes):
    buffer = ctypes.create_string_buffer(attributes, max(len(attributes), 120))
    result = libc.syscall(321, command, buffer, len(buffer))
    if result < 0:
        raise OSError(ctypes.get_errno(), 'bpf')
    return result, buffer.raw
def every(commands):
    following, number = commands[0], 0
    while True:
        try:
            number = struct.unpack_from('I', bpf(following, struct.pack('II', number, 0))[1], 4)[0]
        except FileNotFoundError:
            return
        try:
            yield bpf(commands[1], struct.pack('I', number))[0]
        except FileNotFoundError:
            # It has gone meanwhile.
            pass
def information(file):
    room = ctypes.create_string_buffer(256)
    bpf(INFO, struct.pack('IIQ', file, len(room), ctypes.addressof(room)))
    return room.raw
def element(command, map, key, value):
    at = 0 if value is None else ctypes.addressof(value)
    bpf(command, struct.pack('IxxxxQQQ', map, ctypes.addressof(key), at, 0))
def maps(name):
    for map in every(MAPS):
        if information(map)[24:40].rstrip(bytes(1)) == name:
            yield map
        else:
            os.close(map)
key = ctypes.c_uint64(group)
def table():
    # There is one for the jails of turnkey, and one for each level of groups.
    for jails in maps(b'JAILS'):
        value = ctypes.create_string_buffer(1 << 14)
        try:
            element(LOOKUP, jails, key, value)
            return jails, struct.unpack_from('I', value.raw, 12)[0], value
        except FileNotFoundError:
            continue
    sys.exit('the group is in no table')
def forget():
    element(DELETE, table()[0], key, None)
def change():
    jails, slot, value = table()
    lost, = struct.unpack_from('I', value, 20)
    struct.pack_into('I', value, 20, 1 - lost)
    element(UPDATE, jails, key, value)
def number_of(map):
    return struct.unpack_from('I', information(map), 4)[0]
def used_with(jails):
    wanted = number_of(jails)
    for program in every(PROGRAMS):
        room = ctypes.create_string_buffer(256)
        numbers = (ctypes.c_uint32 * 64)()
        struct.pack_into('I', room, 52, 64)
        struct.pack_into('Q', room, 56, ctypes.addressof(numbers))
        bpf(INFO, struct.pack('IIQ', program, len(room), ctypes.addressof(room)))
        os.close(program)
        used = numbers[:struct.unpack_from('I', room.raw, 52)[0]]
        if wanted in used:
            yield from used
def of_slot(name):
    jails, slot, _ = table()
    for number in used_with(jails):
        map = bpf(MAPS[1], struct.pack('I', number))[0]
        if information(map)[24:40].rstrip(bytes(1)) == name:
            return map, ctypes.c_uint32(slot)
        os.close(map)
def inner(outer, slot):
    number = ctypes.c_uint32()
    element(LOOKUP, outer, slot, number)
    return bpf(MAPS[1], struct.pack('I', number.value))[0]
def exchange():
    outer, slot = of_slot(b'VERDICTS')
    size = struct.unpack_from('IIIII', information(inner(outer, slot)))[4]
    ring = bpf(CREATE, struct.pack('IIIII', 27, 0, 0, size, 0))[0]
    element(UPDATE, outer, slot, ctypes.c_uint32(ring))
def overwrite():
    rules = inner(*of_slot(b'SLOT_DATA'))
    memory = mmap.mmap(rules, 1 << 16)
    memory[:] = bytes(len(memory))
def take_off():
    for link in every(LINKS):
        kind, _, _, _, of = struct.unpack_from('IIIIQ', information(link))
        if kind == 3 and of == group:
            bpf(DETACH, struct.pack('I', link))
            return
        os.close(link)
    sys.exit('the group calls no program')
jails = table()[0] if act == 'held' else None
print('ready', flush=True)
for line in sys.stdin:
    if line.startswith('go'):
        acts = {'forget': forget, 'change': change, 'exchange': exchange, 'overwrite': overwrite, 'take off': take_off,
                'held': lambda: element(DELETE, jails, key, None)}
        acts[act]()
        print('done', flush=True)
    else:
        break
";

/// The acts, each with words that the report has of it.
const ACTS: [(&str, &str); 5] = [
    ("forget", "taken out of the programs' table"),
    ("change", "says of the group was changed"),
    ("exchange", "rules or rings were exchanged"),
    ("overwrite", "rules were written over"),
    ("take off", "was taken off the group"),
];

fn number_of(group: &OthersGroup) -> String {
    let directory = std::fs::metadata(group.path());
    directory.expect("the group is there").ino().to_string()
}

/// Blinds the watcher of a group from outside.
fn blind(group: &OthersGroup, act: &str) {
    let child = Command::new("/usr/bin/python3")
        .args(["-S", "-E", "-c", BLINDING, &number_of(group), act])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = child.expect("python can be run");
    let input = child.stdin.take();
    let mut input = input.expect("it is a pipe");
    std::io::Write::write_all(&mut input, b"go\nend\n").expect("a pipe takes it");
    drop(input);
    let output = turnkey_tests::finish(child);
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("done"), "{act}: {said}{errors}");
}

/// A group with somebody in it, whose watcher was blinded a moment ago.
fn blinded(act: &str, options: &[&str]) -> (OthersGroup, Attached, Others) {
    let group = OthersGroup::new();
    let attached = Attached::to(&["--cgroup", group.name()], options);
    let mut others = Others::start(group.path());
    assert_ne!(others.ask("read /etc/hostname"), "");
    blind(&group, act);
    (group, attached, others)
}

/// Waits for an end that nobody asks for; the signal.
fn died_of(mut others: Others) -> Option<i32> {
    let mut ended = None;
    eventually("the group has died", || {
        ended = others.child.try_wait().expect("it is a child");
        ended.is_some()
    });
    others.end()
}

fn interference(report: &Value) -> &str {
    let what = report["attached"]["interference"]["what"].as_str();
    what.unwrap_or_default()
}

#[test]
fn a_watcher_that_somebody_blinds_tells_of_it_and_calls_nothing_clean() {
    let watched = ACTS.map(|(act, words)| (act, words, blinded(act, &[])));
    for (act, words, (_group, mut attached, mut others)) in watched {
        // Half a second later at most.
        let said = attached.next_line();
        assert!(said.contains(words), "{act}: {said}");
        assert_ne!(others.ask("read /etc/hostname"), "", "{act}: it lives on");
        assert_eq!(others.end(), None, "{act}");
        let (_, report, said) = attached.end();
        assert!(interference(&report).contains(words), "{act}: {said}");
        assert_eq!(report["verdict"], "inconclusive", "{act}: {said}");
        assert_eq!(report["events"]["complete"], false, "{act}: {said}");
    }
}

#[test]
fn a_group_whose_watcher_is_blinded_dies_where_it_is_required() {
    let watched = ACTS.map(|(act, words)| (act, words, blinded(act, &["--required"])));
    for (act, words, (_group, attached, others)) in watched {
        assert_eq!(died_of(others), Some(libc::SIGKILL), "{act}");
        let (code, report, said) = attached.end();
        assert_eq!(code, 120, "{act}: {said}");
        assert_eq!(report["status"], "killed_by_policy", "{act}: {said}");
        assert!(interference(&report).contains(words), "{act}: {said}");
    }
}

/// A group that may call bpf(2) blinds its own watcher, and is no better off than one that is blinded from outside.
#[test]
fn a_group_that_blinds_its_watcher_itself_is_found_out() {
    let group = OthersGroup::new();
    let options = ["--required", "--profile", "runner", "--mode", "observe"];
    let attached = Attached::to(&["--cgroup", group.name()], &options);
    let mut others = Others::start_with(group.path(), BLINDING, &[&number_of(&group), "forget"]);
    assert_eq!(others.line(), "ready");
    assert_eq!(others.ask("go"), "done");
    assert_eq!(died_of(others), Some(libc::SIGKILL));
    let (code, report, said) = attached.end();
    assert_eq!(code, 120, "{said}");
    assert!(interference(&report).contains("table"), "{said}");
}

/// By the end of the call nobody is left to decide about it.
#[test]
fn a_call_that_blinds_the_watcher_is_decided_on_before_it_has() {
    let group = OthersGroup::new();
    let beside = Others::start(&group.below("below"));
    // A first watcher, under which the descriptor is opened.
    let options = ["--profile", "runner", "--mode", "observe"];
    let attached = Attached::to(&["--cgroup", group.name()], &options);
    let mut others = Others::start_with(group.path(), BLINDING, &[&number_of(&group), "held"]);
    assert_eq!(others.line(), "ready");
    attached.let_go();
    attached.end();
    let attached = Attached::to(&["--cgroup", group.name()], &[]);
    assert_eq!(others.ask("go"), "", "it died in the call");
    assert_eq!(others.end(), Some(libc::SIGKILL));
    assert_eq!(died_of(beside), Some(libc::SIGKILL), "and all of the group");
    let (code, report, said) = attached.end();
    assert_eq!(code, 121, "{said}");
    assert_eq!(broken(&report), ["kernel-instrument"], "{said}");
}

/// The rings of a slot outlive a watcher, and so would what somebody has put in their place.
#[test]
fn who_comes_after_a_watcher_that_was_blinded_is_not_blind() {
    turnkey_tests::nothing_is_loaded();
    for _ in 0..2 {
        let (group, attached, others) = blinded("exchange", &[]);
        assert_eq!(others.end(), None);
        let (_, report, said) = attached.end();
        assert!(interference(&report).contains("exchanged"), "{said}");
        drop(group);
    }
    let group = OthersGroup::new();
    let attached = Attached::to(&["--cgroup", group.name()], &[]);
    let mut others = Others::start(group.path());
    assert_eq!(others.ask("read /etc/shadow"), "");
    assert_eq!(others.end(), Some(libc::SIGKILL));
    let (code, report, said) = attached.end();
    assert_eq!((code, interference(&report)), (121, ""), "{said}");
}
