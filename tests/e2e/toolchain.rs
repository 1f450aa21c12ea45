//! Commands that are installed outside of what the jail shows.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use turnkey_expectations::expected;
use turnkey_tests::{Run, finish, open_to_all, outside, scratch};

expected!(
    not_on[ORDINARY_6_12],
    "what a program belongs to is found out by the command"
);

/// A home with installations in it, as a caller would have one.
struct Home {
    keep: tempfile::TempDir,
}

impl Home {
    fn new() -> Home {
        let keep = scratch();
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(keep.path(), mode).expect("a test owns its directory");
        Home { keep }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.keep.path().join(name)
    }

    fn file(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().expect("it has one")).expect("directories");
        std::fs::write(&path, content).expect("a file");
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&path, mode).expect("its mode");
        path
    }

    /// Runs with `bin` first on the caller's PATH.
    fn run(&self, bin: &Path, options: &[&str], program: &[&str]) -> Output {
        let mut run = Run::new().option("--unmonitored");
        for option in options {
            run = run.option(option);
        }
        let path = format!("{}:/usr/bin:/bin", bin.display());
        let mut command = run.command(program);
        command.env("PATH", path).env("HOME", self.keep.path());
        let streams = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        finish(streams.spawn().expect("turnkey can be started"))
    }
}

const AUTO: &[&str] = &["--toolchain auto"];

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_venv_is_brought_in_whole_or_named_in_the_error() {
    let home = Home::new();
    let venv = home.path("project/.venv");
    let place = venv.display().to_string();
    let (made, _) = outside("/usr/bin/python3", &["-m", "venv", "--without-pip", &place]);
    assert!(made.success(), "the control: Python can make a venv");
    let script = format!("#!{place}/bin/python3\nimport sys\nprint(sys.prefix)\n");
    home.file("project/.venv/bin/tool", script.as_bytes());
    let bin = venv.join("bin");

    let without = home.run(&bin, &[], &["tool"]);
    assert_eq!(without.status.code(), Some(127));
    let flag = format!("--read {place}");
    assert!(
        text(&without.stderr).contains(&flag),
        "{}",
        text(&without.stderr)
    );
    let named = home.run(&bin, &[&flag], &[&format!("{place}/bin/tool")]);
    assert_eq!(
        text(&named.stdout).trim(),
        place,
        "the flag is right: {}",
        text(&named.stderr)
    );

    for program in [
        &["tool"][..],
        &["python3", "-c", "import sys; print(sys.prefix)"],
    ] {
        let with = home.run(&bin, AUTO, program);
        assert_eq!(text(&with.stdout).trim(), place, "{}", text(&with.stderr));
    }
}

/// A toolchain is the command's alone: what a shell starts is told with the flags by which it is found.
#[test]
fn a_program_that_a_shell_does_not_find_is_brought_in_by_the_flags_that_are_told() {
    let home = Home::new();
    home.file("kit/bin/kit-tool", b"#!/bin/sh\necho started\n");
    let path = format!("{}:/usr/bin:/bin", home.path("kit/bin").display());
    let run = |options: &[&str], program: &[&str]| {
        let mut run = Run::new();
        for option in options {
            run = run.option(option);
        }
        let mut command = run.command(program);
        command.env("PATH", &path).env("HOME", home.keep.path());
        let streams = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        finish(streams.spawn().expect("turnkey can be started"))
    };
    let python = "import subprocess; subprocess.run(['kit-tool'])";
    for program in [
        &["sh", "-c", "cd /tmp && kit-tool --help"][..],
        &["/usr/bin/python3", "-c", python],
    ] {
        let failed = run(&[], program);
        let told = text(&failed.stderr);
        let line = told.lines().find_map(|line| {
            line.strip_prefix("turnkey: kit-tool is on your PATH, and not on the jail's: ")
        });
        let flags = line.and_then(|line| line.strip_suffix(" bring it in"));
        let found = run(&[flags.unwrap_or_else(|| panic!("{told}"))], program);
        assert_eq!(text(&found.stdout), "started\n", "{}", text(&found.stderr));
    }
    for program in [
        &["sh", "-c", "no-such-tool"][..],
        &["sh", "-c", "kit-tool; exit 0"],
    ] {
        let told = text(&run(&[], program).stderr);
        assert!(
            !told.contains("on your PATH"),
            "nowhere, or done without: {told}"
        );
    }
}

/// The symlink alone leads nowhere.
#[test]
fn a_program_of_a_venv_that_a_shell_names_is_told_with_its_venv() {
    let home = Home::new();
    let place = home.path(".venv").display().to_string();
    let (made, _) = outside("/usr/bin/python3", &["-m", "venv", "--without-pip", &place]);
    assert!(made.success(), "the control: Python can make a venv");
    let script = format!("{place}/bin/python -c 'import sys; print(sys.prefix)'");
    let link = Run::new().option(&format!("--read {place}/bin/python"));
    for failed in [Run::new().shell(&script), link.shell(&script)] {
        failed.expect_code(127);
        let told = failed.stderr.lines().find_map(|line| {
            let (_, flags) = line.split_once("but does on this host: ")?;
            flags.strip_suffix(" shows it")
        });
        let flags = told.unwrap_or_else(|| panic!("{}", failed.stderr));
        let ran = Run::new().option(flags).shell(&script);
        ran.expect(ran.stdout == format!("{place}\n"), flags);
    }
}

#[test]
fn a_venv_brings_nothing_to_what_asks_for_no_python() {
    let home = Home::new();
    let place = home.path(".venv").display().to_string();
    let (made, _) = outside("/usr/bin/python3", &["-m", "venv", "--without-pip", &place]);
    assert!(made.success(), "the control: Python can make a venv");
    for (profile, comes) in [
        ("compile", true),
        ("java", false),
        ("go", false),
        ("rust", false),
    ] {
        let run = Run::new()
            .option("--unmonitored")
            .option(&format!("--profile {profile}"));
        let mut command = run.command(&["sh", "-c", &format!("ls {place}/bin")]);
        command.env("VIRTUAL_ENV", &place);
        let streams = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let output = finish(streams.spawn().expect("turnkey can be started"));
        let told = text(&output.stderr);
        assert_eq!(output.status.success(), comes, "{profile}: {told}");
        let named = format!("brought in, read-only: {place} (by your VIRTUAL_ENV)");
        assert_eq!(told.contains(&named), comes, "{profile}: {told}");
    }
}

#[test]
fn a_version_of_node_comes_alone_and_read_only() {
    let home = Home::new();
    let shell = std::fs::read("/bin/sh").unwrap();
    home.file(".nvm/versions/node/v20/bin/node", &shell);
    home.file(".nvm/versions/node/v18/bin/node", &shell);
    home.file(
        ".nvm/versions/node/v20/lib/cli.js",
        b"#!/usr/bin/env node\necho through env\n",
    );
    let bin = home.path(".nvm/versions/node/v20/bin");
    symlink("../lib/cli.js", bin.join("npm")).unwrap();
    let nvm = home.path(".nvm").display().to_string();

    let script =
        format!("echo ran; echo {nvm}/versions/node/*; echo x > {nvm}/versions/node/v20/x");
    let ran = home.run(&bin, AUTO, &["node", "-c", &script]);
    let expected = format!("ran\n{nvm}/versions/node/v20\n");
    assert_eq!(text(&ran.stdout), expected, "{}", text(&ran.stderr));
    assert!(
        !home.path(".nvm/versions/node/v20/x").exists(),
        "nothing is written"
    );
    let ran = home.run(&bin, AUTO, &["npm"]);
    assert_eq!(text(&ran.stdout), "through env\n", "{}", text(&ran.stderr));
}

#[test]
fn a_shim_finds_the_versions_it_stands_for() {
    let home = Home::new();
    let root = home.path(".pyenv").display().to_string();
    let shim = format!("#!/usr/bin/env sh\nexec {root}/versions/3.12/bin/python \"$@\"\n");
    home.file(".pyenv/shims/python", shim.as_bytes());
    home.file(
        ".pyenv/versions/3.12/bin/python",
        b"#!/bin/sh\necho version 3.12\n",
    );
    let ran = home.run(&home.path(".pyenv/shims"), AUTO, &["python"]);
    assert_eq!(text(&ran.stdout), "version 3.12\n", "{}", text(&ran.stderr));
}

#[test]
fn a_home_directory_is_no_toolchain() {
    let home = Home::new();
    let tool = home.file("bin/tool", b"#!/bin/sh\necho ran\n");
    home.file(".ssh/id_ed25519", b"secret");
    let refused = home.run(&home.path("bin"), AUTO, &["tool"]);
    assert_eq!(refused.status.code(), Some(125));
    let message = text(&refused.stderr);
    assert!(message.contains("home directory"), "{message}");
    // What it proposes works, and brings in the file alone.
    let flag = format!("--read {}", tool.display());
    assert!(message.contains(&flag), "{message}");
    let ran = home.run(&home.path("bin"), &[&flag], &[&tool.display().to_string()]);
    assert_eq!(text(&ran.stdout), "ran\n", "{}", text(&ran.stderr));
}

#[test]
fn a_toolchain_of_the_host_and_a_root_of_its_own_do_not_go_together() {
    let root = scratch();
    let ran = Run::new()
        .option(&format!("--root {}", root.path().display()))
        .option("--toolchain auto")
        .shell("true");
    ran.expect_code(125);
    ran.expect(ran.stderr.contains("toolchain"), "with the reason");
}

/// Shows the files of a directory, and the socket in it; started as the interpreter of a script, with the
/// line's argument first.
const READER: &str = r#"
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
int main(int count, char **words) {
    char path[600], text[100] = "";
    snprintf(path, sizeof path, "%s/secret", words[1]);
    int file = open(path, O_RDONLY);
    if (file >= 0 && read(file, text, 99) > 0) printf("READ %s\n", text);
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    snprintf(to.sun_path, sizeof to.sun_path, "%s/s", words[1]);
    int peer = socket(AF_UNIX, SOCK_STREAM, 0);
    if (connect(peer, (void *)&to, sizeof to) == 0) printf("CONNECTED\n");
    printf("RAN\n");
    return 0;
}
"#;

/// The program names places of the host in every file that turnkey reads of it. None of them is given, and a
/// place that is given by hand is the control.
#[test]
fn j67_what_the_workspace_names_is_not_given() {
    let home = Home::new();
    home.file("private/secret", b"the-secret");
    home.file("private/bin/tool", b"#!/bin/sh\necho ran\n");
    home.file(".ssh/secret", b"the-secret");
    let runtime = tempfile::tempdir_in("/run").expect("a test runs as root");
    open_to_all(runtime.path());
    let _listener = std::os::unix::net::UnixListener::bind(runtime.path().join("s")).unwrap();
    let everybody = PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(runtime.path().join("s"), everybody).unwrap();
    let by_symlink = home.path("var-run");
    symlink("/run", &by_symlink).unwrap();
    let runtime = by_symlink.join(runtime.path().file_name().unwrap());

    for place in [home.path("private"), home.path(".ssh"), runtime.clone()] {
        let place = place.display();
        let line = format!("#!-x {place}\n");
        let named = Run::new()
            .option("--unmonitored")
            .compiled("-x", READER)
            .file("run", &line);
        let run = |options: &[&str]| {
            let mode = PermissionsExt::from_mode(0o755);
            std::fs::set_permissions(named.path().join("run"), mode).unwrap();
            let mut command = named.command(&["./run"]);
            // Beside the options of every test.
            let mut arguments: Vec<_> = command.get_args().map(ToOwned::to_owned).collect();
            let at = arguments
                .iter()
                .position(|word| word == "--")
                .expect("it is there");
            arguments.splice(at..at, options.iter().map(Into::into));
            let mut again = std::process::Command::new(command.get_program());
            again.args(arguments).env("HOME", home.keep.path());
            again.current_dir(named.path());
            command = again;
            text(&command.output().expect("turnkey can be started").stdout)
        };
        if !place.to_string().contains("var-run") {
            let given = format!("{place}");
            let control = run(&["--read", &given]);
            assert!(
                control.contains("READ the-secret"),
                "the control: {control}"
            );
        }
        for options in [
            &["--toolchain", "auto"][..],
            &["--profile", "python"],
            &["--profile", "node"],
            &["--profile", "compile"],
        ] {
            let seen = run(options);
            assert_eq!(seen, "RAN\n", "{place} {options:?}");
        }
    }

    // By way of a symlink, an interpreter and a venv of the workspace.
    let tool = home.path("private/bin/tool").display().to_string();
    let script = format!("#!{tool}\n");
    let work = Home::new();
    work.file("run", script.as_bytes());
    symlink(&tool, work.path("link")).unwrap();
    work.file(
        "venv/pyvenv.cfg",
        format!("home = {}\n", home.path("private/bin").display()).as_bytes(),
    );
    symlink(&tool, work.path("venv/python3")).unwrap();
    for command in ["./run", "./link", "venv/python3"] {
        let mut turnkey = std::process::Command::new(turnkey_tests::binary());
        turnkey.args(["run", "--unmonitored", "--toolchain", "auto", "--", command]);
        turnkey
            .current_dir(work.keep.path())
            .env("HOME", home.keep.path());
        let ran = turnkey.output().unwrap();
        assert_eq!(
            ran.status.code(),
            Some(125),
            "{command}: {}",
            text(&ran.stdout)
        );
        let message = text(&ran.stderr);
        assert!(
            message.contains("is no installation"),
            "{command}: {message}"
        );
    }
}

#[test]
fn j67_what_is_brought_in_is_told() {
    let home = Home::new();
    let shell = std::fs::read("/bin/sh").unwrap();
    home.file(".nvm/versions/node/v20/bin/node", &shell);
    let bin = home.path(".nvm/versions/node/v20/bin");
    let place = home.path(".nvm/versions/node/v20").display().to_string();
    let report = home.path("report.json");
    let mut turnkey = std::process::Command::new(turnkey_tests::binary());
    turnkey.args(["run", "--unmonitored", "--toolchain", "auto", "--report"]);
    turnkey.arg(&report).args(["--", "node", "-c", "true"]);
    let path = format!("{}:/usr/bin:/bin", bin.display());
    turnkey.env("PATH", path).env("HOME", home.keep.path());
    let ran = turnkey.output().expect("turnkey can be started");
    let told = text(&ran.stderr);
    let line = format!("brought in, read-only: {place} (by your PATH)");
    assert!(told.contains(&line), "{told}");
    let report: serde_json::Value =
        serde_json::from_slice(&std::fs::read(report).unwrap()).unwrap();
    let expected = serde_json::json!([{"path": place, "key": "toolchain", "by": "your PATH"}]);
    assert_eq!(report["brought_in"], expected);
}

/// By any spelling, and whatever else a caller gives.
#[test]
fn a_place_that_every_jail_has_of_its_own_is_not_given_by_a_symlink() {
    let home = Home::new();
    let runtime = tempfile::tempdir_in("/run").expect("a test runs as root");
    let name = runtime.path().file_name().unwrap();
    symlink("/run", home.path("run")).unwrap();
    symlink(runtime.path(), home.path("last")).unwrap();
    let places = [
        home.path("run").join(name),
        home.path("last"),
        Path::new("/var/run").join(name),
    ];
    for place in places {
        for flag in ["--read", "--write"] {
            let ran = Run::new()
                .option("--unmonitored")
                .option(&format!("{flag} {}", place.display()))
                .shell("true");
            ran.expect_code(125);
            ran.expect(
                ran.stderr.contains("is made fresh in every jail"),
                "with the reason",
            );
        }
    }
}

/// An open of a FIFO waits until somebody writes to it, and nobody does.
#[test]
fn a_fifo_where_a_toolchain_is_looked_for_keeps_nobody_waiting() {
    for fifo in ["venv/pyvenv.cfg", "venv/bin/python3", "run"] {
        let work = Home::new();
        work.file("run", b"#!/usr/bin/env python3\n");
        work.file("venv/pyvenv.cfg", b"home = /usr/bin\n");
        std::fs::create_dir(work.path("venv/bin")).unwrap();
        if fifo == "venv/bin/python3" {
            mkfifo(&work.path(fifo), Mode::S_IRWXU).unwrap();
        } else {
            symlink("/usr/bin/python3", work.path("venv/bin/python3")).unwrap();
            std::fs::remove_file(work.path(fifo)).unwrap();
            mkfifo(&work.path(fifo), Mode::S_IRWXU).unwrap();
        }
        for command in ["./run", "venv/bin/python3"] {
            let mut turnkey = std::process::Command::new("timeout");
            turnkey
                .args(["--signal", "KILL", "20"])
                .arg(turnkey_tests::binary());
            // Python reads pyvenv.cfg by itself, in the jail.
            turnkey.args(["run", "--unmonitored", "--wall", "1s"]);
            turnkey.args(["--toolchain", "auto", "--", command, "-c", "pass"]);
            turnkey.current_dir(work.keep.path()).stdin(Stdio::null());
            let ran = turnkey.output().unwrap();
            let ended = ran.status.code().is_some();
            assert!(ended, "{fifo}: {command}: {}", text(&ran.stderr));
        }
    }
}

/// The advice in an error, each of which is followed.
#[test]
fn a_program_beside_the_workspace_is_told_with_a_workspace_around_both() {
    let beside = || {
        let run = Run::new().file("tool", "#!/bin/sh\necho ran\n");
        let run = run.file("project/deep/file", "");
        let tool = run.path().join("tool");
        std::fs::set_permissions(tool, PermissionsExt::from_mode(0o755)).unwrap();
        let root = run.path().display().to_string();
        (run, root)
    };
    let (run, root) = beside();
    let run = run.option(&format!("--workdir {root}/project --chdir deep"));
    let ran = run.run(&["../../tool"]);
    ran.expect_code(127);
    let flags = format!("--workdir {root} --chdir project/deep");
    ran.expect(ran.stderr.contains(&flags), "with a workspace around both");
    let (run, root) = beside();
    let run = run.option(&format!("--workdir {root} --chdir project/deep"));
    let ran = run.run(&["../../tool"]);
    ran.expect(ran.stdout == "ran\n", "followed");
}

#[test]
fn what_a_command_lacks_is_named() {
    let script = |interpreter: &str| {
        let run = Run::new().file("script", &format!("#!{interpreter}\nprint(42)\n"));
        let file = run.path().join("script");
        std::fs::set_permissions(file, PermissionsExt::from_mode(0o755)).unwrap();
        run
    };
    let ran = script("/opt/none/bin/python").run(&["./script"]);
    ran.expect_code(126);
    ran.expect(ran.stderr.contains("/opt/none/bin/python"), "it is named");
    ran.expect(ran.stderr.contains("python3 ./script"), "with the fix");
    let ran = script("/opt/none/bin/python").run(&["python3", "./script"]);
    ran.expect(ran.stdout == "42\n", "followed");
    let ran = Run::new().option("--env PATH=/opt/x").run(&["sh"]);
    ran.expect_code(127);
    ran.expect(ran.stderr.contains("(/opt/x)"), "the path is named");
}
