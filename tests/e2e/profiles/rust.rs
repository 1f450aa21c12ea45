//! `rust`: programs that cargo builds and runs, with the toolchain that the caller's cargo stands for.

use turnkey_expectations::expected;
use turnkey_tests::{Run, outside};

use super::{passed, under};

expected!(
    not_on[ORDINARY_6_12],
    "this guest has no compiler of Rust: on this host"
);

const PROGRAMS: [(&str, &str); 6] = [
    (
        "threads",
        r#"fn main() {
    let squares = (1..=8u64).map(|n| std::thread::spawn(move || n * n));
    let squares: Vec<_> = squares.collect();
    println!("{}", squares.into_iter().map(|one| one.join().unwrap()).sum::<u64>());
}"#,
    ),
    (
        "files",
        r#"use std::io::{Read, Seek, Write};
fn main() {
    let mut file = std::fs::File::create_new("made").unwrap();
    file.write_all(b"written").unwrap();
    file = std::fs::File::open("made").unwrap();
    file.rewind().unwrap();
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    std::fs::remove_file("made").unwrap();
    println!("{text}");
}"#,
    ),
    (
        "talk",
        r#"use std::{io::{Read, Write}, net::{TcpListener, TcpStream}, thread};
fn main() {
    let server = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = server.local_addr().unwrap();
    let served = thread::spawn(move || server.accept().unwrap().0.write_all(b"spoken").unwrap());
    let mut text = String::new();
    TcpStream::connect(address).unwrap().read_to_string(&mut text).unwrap();
    served.join().unwrap();
    println!("{text}");
}"#,
    ),
    (
        "children",
        r#"fn main() {
    let output = std::process::Command::new("uname").arg("-s").output().unwrap();
    print!("{}", String::from_utf8(output.stdout).unwrap());
}"#,
    ),
    (
        "ends",
        r#"use std::{env, os::unix::process::ExitStatusExt, process::{abort, exit, Command}};
fn main() {
    match env::args().nth(1).as_deref() {
        Some("abort") => abort(),
        Some("exit") => exit(7),
        _ => (),
    }
    let end = |how: &str| Command::new(env::current_exe().unwrap()).arg(how).status().unwrap();
    println!("{:?} {:?}", end("abort").signal(), end("exit").code());
}"#,
    ),
    (
        "heap",
        r#"fn main() {
    let mut heap = vec![0; 256 << 20];
    heap.iter_mut().step_by(4096).for_each(|byte| *byte = 1u8);
    println!("{}", heap.iter().step_by(4096).map(|byte| u32::from(*byte)).sum::<u32>());
}"#,
    ),
];

/// Runs those that are named, one after the other.
const ALL: &str = r#"use std::{env, process::Command};
#[test]
fn all() {
    let programs = [PLACES];
    for program in programs { assert!(Command::new(program).status().unwrap().success()); }
}"#;

fn package() -> Run {
    let run = under("rust").option("--network loopback");
    for folder in ["src/bin", "tests"] {
        std::fs::create_dir_all(run.path().join(folder)).expect("a folder");
    }
    let manifest = "[package]\nname = \"six\"\nversion = \"0.1.0\"\nedition = \"2021\"\n";
    let place = |(name, _): &(&str, &str)| format!("env!(\"CARGO_BIN_EXE_{name}\")");
    let places: Vec<_> = PROGRAMS.iter().map(place).collect();
    let all = ALL.replace("PLACES", &places.join(", "));
    let run = run.file("Cargo.toml", manifest).file("tests/all.rs", &all);
    PROGRAMS.iter().fold(run, |run, (name, text)| {
        run.file(&format!("src/bin/{name}.rs"), text)
    })
}

expected!(
    six_programs_are_compiled_and_run: not_on [PROGRAMS_6_12],
    "six programs take an emulated CPU long to compile; one is"
);
expected!(
    six_programs_are_compiled_and_run, a_heap_over_the_limit_is_its_parent_s_to_handle: at_night,
    "programs are compiled; `profiles::rust::one_file` compiles one, and the limits are `limits::met::`"
);
#[test]
fn six_programs_are_compiled_and_run() {
    let arguments = ["test", "--quiet", "--offline", "--test", "all"];
    let command = [&["cargo"], &arguments[..], &["--", "--nocapture"]].concat();
    let ran = package().run(&command);
    ran.expect_code(0);
    ran.expect(ran.at("/verdict") == "clean", "clean");
    for line in [
        "204",
        "written",
        "spoken",
        "Linux",
        "Some(6) Some(7)",
        "65536",
    ] {
        ran.expect(ran.stdout.lines().any(|told| told == line), line);
    }
}

#[test]
fn one_file_is_compiled_by_the_toolchain_that_was_chosen() {
    let hello = "fn main() { println!(\"compiled\"); }";
    let ran = under("rust")
        .file("hello.rs", hello)
        .run(&["rustc", "hello.rs"]);
    passed(&ran, "");
    let (_, sysroot) = outside("rustc", &["--print", "sysroot"]);
    let brought = ran.at("/brought_in/0/path").as_str().unwrap_or("/usr");
    ran.expect(sysroot.trim().starts_with(brought), "the one of the caller");
    let made = ran
        .list("/files_changed")
        .iter()
        .any(|one| one["path"] == "hello");
    ran.expect(made, "and made a program");
}

#[test]
fn a_heap_over_the_limit_is_its_parent_s_to_handle() {
    let fills = "fn main() { loop { std::mem::forget(vec![1u8; 1 << 20]); } }";
    let run = under("rust")
        .option("--memory 700M")
        .file("fills.rs", fills);
    let ran = run.shell("rustc fills.rs && ./fills; echo ended $?");
    ran.expect_code(0);
    ran.expect(ran.stdout == "ended 137\n", "the child was killed");
    let mut findings = ran.list("/findings").iter();
    let is_told = findings.any(|finding| finding["id"] == "turnkey:memory");
    ran.expect(is_told, "and that is told");
}
