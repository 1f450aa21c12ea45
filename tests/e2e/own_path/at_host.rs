//! The workspace at its own path of the host.

use std::process::{Command, Stdio};

use serde_json::json;
use turnkey_tests::{Mount, Run, binary, callers_scratch, finish, scratch};

/// A run whose workspace stands at its own path, and that path.
fn at_host() -> (Run, String) {
    let run = Run::new().option("--at-host-path").file("file", "inside\n");
    let own = run.path().display().to_string();
    (run, own)
}

#[test]
fn the_program_works_at_the_callers_own_path() {
    let (run, own) = at_host();
    let ran = run
        .shell("/bin/pwd; cat /workspace/file; readlink /workspace; echo new > new; cat $HOME/new");
    let told = format!("{own}\ninside\n{own}\nnew\n");
    ran.expect(ran.stdout == told, "by both names");
    ran.expect(ran.at("/files_changed/0/path") == &json!("new"), "as ever");
    ran.expect(!ran.directory.path().join("new").exists(), "thrown away");

    let run = Run::new().file("top", "").file("a/b/deep", "");
    let own = run.path().display().to_string();
    let ran = run
        .option("--at-host-path --chdir a/b")
        .shell("/bin/pwd; ls ../..");
    ran.expect(ran.stdout == format!("{own}/a/b\na\ntop\n"), "below it");
}

#[test]
fn a_repository_stands_at_its_own_path() {
    let run = Run::new()
        .file(".git/HEAD", "ref")
        .file("src/deep/file", "");
    let (own, start) = (
        run.path().display().to_string(),
        run.path().join("src/deep"),
    );
    let run = run.option("--at-host-path --workdir-root git");
    let mut command = run.command(&["/bin/sh", "-c", "/bin/pwd; cat ../../.git/HEAD"]);
    let command = command.current_dir(start).stdout(Stdio::piped());
    let output = finish(command.spawn().unwrap());
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        format!("{own}/src/deep\nref")
    );
}

/// A rule about one name of a file, and the file by the other: wherever the workspace stands.
#[test]
fn a_rule_about_one_name_of_the_workspace_holds_under_the_other() {
    for place in ["--at-host-path", "--own-path always"] {
        for (is_ruled_by_own, is_opened_by_own) in [(false, true), (true, false)] {
            let run = Run::new()
                .file("secret", "s")
                .file("other", "o")
                .option(place);
            let own = run.path().display().to_string();
            let name = |is_own| if is_own { own.as_str() } else { "/workspace" };
            let rule = format!(
                "[[rule]]\nid = \"ours\"\nwhy = \"test\"\nseverity = \"high\"\naction = \"kill\"\non = \"open\"\npath = \"{}/secret*\"\n",
                name(is_ruled_by_own)
            );
            let run = run.profile(&rule);
            let opened = name(is_opened_by_own);
            let script = format!("cat {opened}/other; cat {opened}/secret");
            let ran = run.shell(&script);
            ran.expect_code(121);
            ran.expect(ran.stdout == "o", "the control, and nothing else");
            ran.expect(
                ran.violations()[0]["path"] == "/workspace/secret",
                "told by one name",
            );
        }
    }
}

#[test]
fn what_is_read_or_written_below_the_workspace_is_the_hosts() {
    let run = Run::new().file("out/kept", "").file("nest/in/beneath", "");
    let own = run.path().display().to_string();
    let place = run.path().join("nest/in");
    let _mount = Mount::new(&["-t", "tmpfs", "none"], &place);
    std::fs::write(place.join("file"), "mounted\n").unwrap();
    let ran = run
        .option(&format!(
            "--at-host-path --write {own}/out --read {own}/nest/in"
        ))
        .shell("cat nest/in/file; echo written > /workspace/out/kept; echo gone > here");
    ran.expect(ran.stdout == "mounted\n", "what is mounted there");
    let kept = std::fs::read_to_string(ran.directory.path().join("out/kept"));
    ran.expect(kept.is_ok_and(|kept| kept == "written\n"), "on the host");
    ran.expect(
        !ran.directory.path().join("here").exists(),
        "all else is thrown away",
    );
}

#[test]
fn a_layer_is_the_same_wherever_the_workspace_stands() {
    let layers = scratch();
    let layer = layers.path().join("layer");
    let run = Run::new().option(&format!("--layer {}", layer.display()));
    let mut first = run.command(&["/bin/sh", "-c", "echo one > one"]);
    let first = first.status().expect("turnkey can be started");
    assert!(first.success(), "the first run");
    let ran = run.option("--at-host-path").shell("cat one; rm one");
    ran.expect(ran.stdout == "one\n", "what the first one wrote");
}

#[test]
fn what_is_written_at_the_own_path_is_exported() {
    let place = callers_scratch();
    let out = place.path().join("out");
    let (run, _) = at_host();
    let ran = run
        .option(&format!("--export {}", out.display()))
        .shell("echo two > \"$(/bin/pwd)/two\"");
    for (name, content) in [("file", "inside\n"), ("two", "two\n")] {
        let exported = std::fs::read_to_string(out.join(name)).unwrap_or_default();
        ran.expect(exported == content, "brought out");
    }
}

#[test]
fn a_workspace_that_cannot_stand_at_its_path_is_refused_with_the_fix() {
    for (option, fix) in [
        ("--workdir-mode none", "--at-host-path"),
        ("--workdir /etc", "--workdir DIR"),
    ] {
        let ran = Run::new()
            .option("--at-host-path")
            .option(option)
            .shell("true");
        ran.expect_code(125);
        ran.expect(ran.stderr.contains(fix), "with the fix");
    }
}

/// Both names of a file get the answer in `explain` that they get in a run, whichever of them the rule has.
#[test]
fn explain_says_of_both_names_what_a_run_does() {
    let (run, own) = at_host();
    let place = scratch();
    let profile = place.path().join("profile.toml");
    let explained = |path: &str| {
        let profile = profile.display().to_string();
        let words = [
            "explain",
            &profile,
            "--at-host-path",
            "--on",
            "open",
            "--path",
            path,
        ];
        let output = Command::new(binary())
            .current_dir(&own)
            .args(words)
            .output();
        String::from_utf8(output.expect("it runs").stdout).expect("UTF-8")
    };
    for named in ["/workspace", &own] {
        let rule = format!(
            "[[rule]]\nid = \"guard\"\nwhy = \"test\"\nseverity = \"high\"\naction = \"kill\"\non = \"open\"\npath = \"{named}/guarded\"\n"
        );
        let head = "schema = \"turnkey.profile/v1\"\nname = \"own\"\nextends = [\"untrusted\"]\n";
        std::fs::write(&profile, format!("{head}{rule}")).expect("it is the test's");
        for path in ["/workspace", &own] {
            let [guarded, other] = ["guarded", "other"].map(|name| format!("{path}/{name}"));
            let told = explained(&guarded);
            assert!(told.contains("Decides: kill, by the rule guard"), "{told}");
            let told = explained(&other);
            assert!(told.contains("no rule matches"), "{told}");
            let run = Run::new().option(&format!("--at-host-path --workdir {own}"));
            let ran = run.profile(&rule).shell(&format!("cat {guarded}; echo on"));
            ran.expect_code(121);
            ran.expect(!ran.stdout.contains("on"), "as it is explained");
        }
    }
    let plan = explained(&format!("{own}/file"));
    let tree = format!("In the jail's tree: overlay {own}");
    assert!(plan.contains(&tree), "{plan}");
    drop(run);
}
