//! Code in memory: from no file, from one without a name, or from one that is mapped and not executed.

use turnkey_tests::Run;

use super::{Attack, events, rule, violations};

/// `run(place)` runs six bytes of code at an address.
const PRELUDE: &str = "
import ctypes, mmap, os
R, W, X = 1, 2, 4
CODE = b'\\xb8\\x2a\\0\\0\\0\\xc3'
libc = ctypes.CDLL(None, use_errno=True)
pointer, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
libc.mmap.restype = pointer
libc.mmap.argtypes = [pointer, size, number, number, number, ctypes.c_long]
libc.mprotect.argtypes = [pointer, size, number]
def run(place): print('ran', ctypes.CFUNCTYPE(number)(place)(), flush=True)
def anonymous(protection):
    place = libc.mmap(None, 4096, protection, 2 | 32, -1, 0)
    ctypes.memmove(place, CODE, len(CODE))
    return place
";

/// Ways to code that no file of the tree holds, and how the report calls it.
const FILELESS: [(&str, &str, &[&str]); 4] = [
    ("run(anonymous(R | W | X))", "", &["anonymous"]),
    (
        "place = anonymous(R | W); libc.mprotect(place, 4096, R | X); run(place)",
        "",
        &["anonymous"],
    ),
    (
        "file = os.memfd_create('code'); os.write(file, CODE.ljust(4096))
run(libc.mmap(None, 4096, R | X, 2, file, 0))",
        "memfd:code",
        &["memory_file"],
    ),
    (
        "file = os.open('gone', os.O_RDWR | os.O_CREAT, 0o700); os.write(file, CODE.ljust(4096)); os.unlink('gone')
run(libc.mmap(None, 4096, R | X, 2, file, 0))",
        "/workspace/gone",
        &["deleted"],
    ),
];

#[test]
fn m17_code_that_no_file_holds_is_told_and_a_rule_stops_it() {
    for (way, path, memory) in FILELESS {
        let program = format!("{PRELUDE}{way}");
        let control = Run::new().with_events().python(&program);
        control.expect_code(0);
        control.expect(control.stdout == "ran 42\n", "the control: it runs");
        let shown: Vec<_> = events(&control, "map").collect();
        control.expect(shown.len() == 1, "one event");
        let told = shown[0]["path"].as_str().unwrap_or_default() == path
            && shown[0]["memory"] == serde_json::json!(memory);
        control.expect(told, way);
        let attack = Attack {
            jail: &|| Run::new().profile(&rule("code", "map", "kill", "")),
            program: &["python3", "-c", &program],
            mark: "ran 42",
            rule: "code",
            paths: &[path],
        };
        attack.is_survived();
    }
}

#[test]
fn m11_a_library_in_memory_is_not_loaded() {
    let program = "import ctypes, glob, os
library = glob.glob('/usr/lib/*/libm.so.6')[0]
file = os.memfd_create('library'); os.write(file, open(library, 'rb').read())
libm = ctypes.CDLL(f'/proc/self/fd/{file}')
libm.cos.restype, libm.cos.argtypes = ctypes.c_double, [ctypes.c_double]
print('ran', libm.cos(0.0), flush=True)";
    let attack = Attack {
        jail: &|| Run::new().profile(&rule("code", "map", "kill", "")),
        program: &["python3", "-c", program],
        mark: "ran 1.0",
        rule: "code",
        paths: &["memfd:library"],
    };
    attack.is_survived();
}

#[test]
fn m10_j18_a_program_that_the_loader_maps_is_known_by_its_path() {
    let script = "/lib64/ld-linux-x86-64.so.2 /usr/bin/echo done";
    let echo = "path = \"/usr/bin/echo\"";
    let attack = Attack {
        jail: &|| Run::new().profile(&rule("echo", "map", "kill", echo)),
        program: &["/bin/sh", "-c", script],
        mark: "done",
        rule: "echo",
        paths: &["/usr/bin/echo"],
    };
    attack.is_survived();
}

/// A file of the workspace, where overlayfs maps another one than was opened.
const IN_THE_WORKSPACE: [&str; 3] = [
    "place = libc.mmap(None, 4096, R | X, 2, file, 0)",
    "place = libc.mmap(None, 4096, R, 2, file, 0); libc.mprotect(place, 4096, R | X)",
    "place = libc.mmap(None, 4096, R, 1, file, 0); os.close(file); libc.mprotect(place, 4096, R | X)",
];

#[test]
fn m17_a_file_of_the_workspace_is_mapped_under_its_name() {
    let code = "path = \"/workspace/code\"";
    for way in IN_THE_WORKSPACE {
        for made in [
            "file = os.open('code', os.O_RDONLY)",
            "os.write(os.open('code', os.O_WRONLY | os.O_APPEND), b'more'); file = os.open('code', os.O_RDONLY)",
        ] {
            let program = format!("{PRELUDE}{made}\n{way}\nrun(place)");
            let attack = Attack {
                // push 42; pop rax; ret
                jail: &|| {
                    let run = Run::new().profile(&rule("code", "map", "kill", code));
                    run.file("code", "j*X\u{c0}")
                },
                program: &["python3", "-c", &program],
                mark: "ran 42",
                rule: "code",
                paths: &["/workspace/code"],
            };
            attack.is_survived();
        }
    }
}

#[test]
fn programs_that_load_libraries_are_not_told_of_it() {
    let profile = rule("code", "map", "kill", "");
    let run = Run::new().profile(&profile).with_events();
    let ran = run.python("import ctypes, json, sqlite3, ssl; print('done')");
    ran.expect_code(0);
    ran.expect(ran.stdout == "done\n", "it works under the rule");
    ran.expect(events(&ran, "map").count() == 0, "and is quiet");
    ran.expect(violations(&ran, "code").count() == 0, "without a violation");
}

#[test]
fn m33_where_rules_speak_of_mappings_a_canary_dies_of_one() {
    let proof = |run: Run| {
        let ran = run.run(&["true"]);
        ran.expect_code(0);
        let mut layers = ran.list("/enforcement").iter();
        let monitor = layers.find(|layer| layer["layer"] == "monitor");
        let proof = monitor.and_then(|layer| layer["proof"].as_str());
        proof.expect("the monitor is proved").to_owned()
    };
    const THIRD: &str = "a third when it mapped executable memory";
    let spoken = proof(Run::new().profile(&rule("code", "map", "kill", "")));
    assert!(spoken.contains(THIRD), "{spoken}");
    // Nobody asks about mappings here.
    let silent = proof(Run::new());
    assert!(!silent.contains(THIRD), "{silent}");
}
