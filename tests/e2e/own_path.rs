//! The caller's own paths inside: the working directory under its path on the host, a start below it, venvs in it.

#[path = "own_path/at_host.rs"]
mod at_host;

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Stdio;

use serde_json::json;
use turnkey_expectations::expected;
use turnkey_tests::{Mount, Ran, Run, finish, outside, scratch};

/// A run whose program prints what is at the directory's own path, which it gets in pieces.
fn looks_for_itself(run: Run) -> (Ran, String) {
    let own = run.path().display().to_string();
    let (front, back) = own.split_at(own.len() / 2);
    let script = format!("own={front}; own=$own{back}; cat $own/file; echo $?");
    (run.file("file", "inside\n").shell(&script), own)
}

#[test]
fn the_own_path_leads_to_the_workspace_when_it_is_known() {
    let run = Run::new().file("file", "inside\n");
    let own = run.path().display().to_string();
    let ran = run.shell(&format!("cat {own}/file && cd {own} && ls"));
    ran.expect(ran.stdout == "inside\nfile\n", "the command names it");

    let (ran, _) = looks_for_itself(Run::new());
    ran.expect(ran.stdout == "1\n", "who is not told does not find it");
    let (ran, _) = looks_for_itself(Run::new().option("--own-path always"));
    ran.expect(ran.stdout == "inside\n0\n", "asked for, it is always there");

    let run = Run::new()
        .option("--own-path never")
        .file("file", "inside\n");
    let own = run.path().display().to_string();
    let ran = run.shell(&format!("cat {own}/file"));
    ran.expect_code(1);
}

/// A symlink that leads out of the workspace would have the caller read for the program what is there.
#[test]
fn a_symlink_of_the_workspace_tells_nobody_where_it_lies() {
    let elsewhere = scratch();
    let told = |plants: &dyn Fn(&Path, &Path)| {
        let run = Run::new().file("venv/pyvenv.cfg", "");
        let knows = elsewhere.path().join("knows/bin/activate");
        std::fs::create_dir_all(knows.parent().unwrap()).unwrap();
        std::fs::write(&knows, run.path().display().to_string()).unwrap();
        std::fs::write(elsewhere.path().join("knows/pyvenv.cfg"), "").unwrap();
        plants(run.path(), &knows);
        let (ran, _) = looks_for_itself(run);
        ran.stdout.contains("inside")
    };
    let control = told(&|own, knows| {
        std::fs::create_dir(own.join("venv/bin")).unwrap();
        std::fs::copy(knows, own.join("venv/bin/activate")).unwrap();
    });
    assert!(control, "the control: the venv's own script tells it");
    assert!(
        !told(&|own, knows| {
            std::fs::create_dir(own.join("venv/bin")).unwrap();
            symlink(knows, own.join("venv/bin/activate")).unwrap();
        }),
        "by the script"
    );
    assert!(
        !told(&|own, knows| symlink(knows.parent().unwrap(), own.join("venv/bin")).unwrap()),
        "by its directory"
    );
    assert!(
        !told(&|own, _| symlink(elsewhere.path().join("knows"), own.join("other")).unwrap()),
        "by the venv itself"
    );
}

#[test]
fn a_rule_holds_under_the_own_path() {
    let rule = "[[rule]]\nid = \"ours\"\nwhy = \"test\"\nseverity = \"high\"\naction = \"kill\"\non = \"open\"\npath = \"/workspace/secret\"\n";
    let run = Run::new()
        .profile(rule)
        .file("secret", "s")
        .file("other", "o");
    let own = run.path().display().to_string();
    let control = run
        .command(&["/bin/cat", &format!("{own}/other")])
        .stdout(Stdio::piped())
        .spawn();
    assert_eq!(finish(control.unwrap()).stdout, b"o", "the control");
    let ran = run.run(&["/bin/cat", &format!("{own}/secret")]);
    ran.expect_code(121);
    ran.expect(
        ran.violations()[0]["path"] == "/workspace/secret",
        "told by the workspace's path",
    );
}

#[test]
fn a_program_starts_below_the_workspace() {
    let start = |option: &str| {
        let run = Run::new().file("top", "").file("a/b/deep", "");
        run.option(option).shell("pwd; ls; ls ../..")
    };
    let ran = start("--chdir a/b");
    ran.expect(
        ran.stdout == "/workspace/a/b\ndeep\na\ntop\n",
        "there, and the rest of the workspace is around it",
    );
    let run = Run::new().file("a/run", "echo ran").option("--chdir a");
    let ran = run.run(&["./run"]);
    ran.expect_code(126);
    for (option, fix) in [
        ("--chdir none", "--chdir DIR"),
        ("--chdir /etc", "--workdir DIR"),
    ] {
        let ran = start(option);
        ran.expect_code(125);
        ran.expect(ran.stderr.contains(fix), "with the fix");
    }
}

#[test]
fn a_subdirectory_brings_its_repository() {
    let run = Run::new()
        .file(".git/HEAD", "ref")
        .file("src/deep/file", "");
    let start = run.path().join("src/deep");
    let run = run.option("--workdir-root git");
    let mut command = run.command(&["/bin/sh", "-c", "pwd; cat ../../.git/HEAD"]);
    let command = command.current_dir(start).stdout(Stdio::piped());
    let output = finish(command.spawn().unwrap());
    assert_eq!(output.stdout, b"/workspace/src/deep\nref");
    let ran = Run::new().option("--workdir-root git").shell("true");
    ran.expect_code(125);
    ran.expect(ran.stderr.contains("--workdir DIR"), "with the fix");
}

expected!(
    git_in_a_part_of_a_repository_is_told_how_to_bring_it: not_on [ORDINARY_6_12],
    "this guest has no git"
);
#[test]
fn git_in_a_part_of_a_repository_is_told_how_to_bring_it() {
    let status = |run: Run| {
        let place = run.path().display().to_string();
        let (made, _) = outside("git", &["init", "--quiet", &place]);
        assert!(made.success(), "the control: git makes one");
        let mut command = run.command(&["git", "status"]);
        command.current_dir(run.path().join("src"));
        let streams = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        (place, finish(streams.spawn().unwrap()))
    };
    let part = || Run::new().file("src/file", "");
    let (place, failed) = status(part());
    let told = String::from_utf8_lossy(&failed.stderr);
    let said =
        format!("the repository {place}, which is not in the jail: --workdir-root git brings it");
    assert!(told.contains(&said), "{told}");
    let (_, found) = status(part().option("--workdir-root git"));
    assert_eq!(found.status.code(), Some(0));
}

#[test]
fn what_is_mounted_below_the_workspace_is_named_when_it_is_not_inside() {
    let run = Run::new().file("nest/in/beneath", "");
    let place = run.path().join("nest/in");
    let _mount = Mount::new(&["-t", "tmpfs", "none"], &place);
    std::fs::write(place.join("file"), "mounted").unwrap();
    let ran = run.shell("ls nest/in");
    ran.expect(ran.stdout == "beneath\n", "nothing of it is there");
    ran.expect(
        ran.at("/mounts_hidden") == &json!(["nest/in"]),
        "it is named",
    );
    let told = "mounted at nest/in; --workdir-mode read-only shows";
    ran.expect(ran.stderr.contains(told), "with the fix");
}

#[test]
fn a_read_only_workspace_has_what_is_mounted_below_it() {
    let run = Run::new().file("nest/in/beneath", "");
    let place = run.path().join("nest/in");
    let _mount = Mount::new(&["-t", "tmpfs", "none"], &place);
    std::fs::write(place.join("file"), "mounted\n").unwrap();
    let ran = run
        .option("--workdir-mode read-only")
        .shell("cat nest/in/file");
    ran.expect(ran.stdout == "mounted\n", "as on the host");
    ran.expect(ran.at("/mounts_hidden").is_null(), "nothing is hidden");
}

#[test]
fn a_venv_of_the_workspace_runs_however_it_is_named() {
    let run = Run::new().option("--profile python");
    let own = run.path().display().to_string();
    let place = format!("{own}/.venv");
    let (made, _) = outside("/usr/bin/python3", &["-m", "venv", "--without-pip", &place]);
    assert!(made.success(), "the control: Python can make a venv");
    const PRINT: &str = "import sys; print(sys.prefix)";
    let whole = format!("{place}/bin/python");
    let activate = format!(". .venv/bin/activate && python -c '{PRINT}'");
    let by_name = format!("python -c '{PRINT}'");
    let ways: [(&[&str], bool, &str); 5] = [
        (
            &[".venv/bin/python", "-c", PRINT],
            false,
            "/workspace/.venv",
        ),
        (&[&whole, "-c", PRINT], false, &place),
        (&["sh", "-c", &activate], false, &place),
        (&["python", "-c", PRINT], true, "/workspace/.venv"),
        (&["sh", "-c", &by_name], true, "/workspace/.venv"),
    ];
    for (program, is_activated, prefix) in ways {
        let mut command = run.command(program);
        if is_activated {
            let path = format!("{place}/bin:/usr/bin:/bin");
            command.env("PATH", path).env("VIRTUAL_ENV", &place);
        }
        let streams = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let output = finish(streams.spawn().expect("turnkey can be started"));
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(
            String::from_utf8_lossy(&output.stdout).trim(),
            prefix,
            "{program:?}: {told}"
        );
    }
}
