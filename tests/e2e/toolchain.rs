//! Commands that are installed outside of what the jail shows.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use turnkey_tests::{Run, finish, outside, scratch};

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
