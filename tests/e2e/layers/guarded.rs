//! Guarded files and layers: what a run took hold of is not there for the next one by another name.

use std::fs;

use turnkey_tests::Run;

use super::Layer;

/// A name that a guarded file has got before the kill has no rule in the next run.
#[test]
fn a_run_that_a_rule_killed_adds_nothing() {
    let layer = Layer::new();
    let guarded = |run: Run| {
        run.file("guarded", "SECRET").profile(
            "[[rule]]\nid = \"guard\"\nwhy = \"test\"\nseverity = \"high\"\naction = \"kill\"\n\
         on = [\"open\", \"link\", \"rename\"]\npath = \"/workspace/guarded\"\n",
        )
    };
    for act in ["ln guarded other", "mv guarded other"] {
        layer.says("echo text > kept", "");
        let ran = guarded(layer.run()).shell(act);
        ran.expect_code(121);
        ran.expect(ran.at("/kept/error").is_string(), "it is told");
        let next = guarded(layer.run()).shell("cat kept other");
        next.expect(
            next.stdout == "text\n",
            "what was there before, and no other name",
        );
    }
}

/// An act that is let pass and told gives the next run no guarded file by another name either.
#[test]
fn a_run_that_took_a_guarded_file_and_lived_adds_nothing() {
    let rule = |action: &str| {
        format!(
            "[[rule]]\nid = \"guard\"\nwhy = \"test\"\nseverity = \"high\"\naction = \"{action}\"\n\
             on = [\"open\", \"link\", \"rename\"]\npath = \"/workspace/guarded\"\n"
        )
    };
    let guarded = |run: Run, action: &str| run.file("guarded", "SECRET").profile(&rule(action));
    for (mode, action, act) in [
        ("observe", "kill", "mv guarded other"),
        ("observe", "kill", "ln -s guarded by; cat by > other"),
        ("enforce", "log", "ln guarded other; rm guarded"),
    ] {
        let layer = Layer::new();
        let ran = guarded(layer.run().option(&format!("--mode {mode}")), action).shell(act);
        ran.expect_code(125);
        ran.expect(ran.stderr.contains("which rule `guard` is about"), act);
        let names = fs::read_dir(layer.path()).map(Iterator::count);
        ran.expect(names.is_err(), "no other name of it is kept");
    }
    // The control: the same acts on what no rule is about, and a look at it that changes nothing.
    let layer = Layer::new();
    let observed = guarded(layer.run().option("--mode observe"), "kill");
    let ran = observed.shell("echo a > b; mv b c; ls -l");
    ran.expect_code(0);
    ran.expect(layer.kept("/workspace").join("c").exists(), "kept");
}

/// A layer that nobody watched is no layer of a run that is watched: what a guarded file is called in it, nobody knows.
#[test]
fn a_layer_that_nobody_watched_stays_with_runs_that_nobody_watches() {
    let layer = Layer::new();
    let run = || layer.run().file(".netrc", "SECRET");
    let blind = || run().option("--unmonitored");
    blind().shell("mv .netrc other").expect_code(0);
    let ran = blind().shell("cat other; echo; ls -A");
    ran.expect(ran.stdout == "SECRET\nother\n", "as nothing holds it");
    let ran = run().shell("cat other");
    ran.expect_code(125);
    ran.expect(ran.stdout.is_empty(), "not to be had");
    let fix = format!("rm -r {}", layer.path().display());
    ran.expect(ran.stderr.contains(&fix), "with what works");
    fs::remove_dir_all(layer.path()).unwrap();
    run().shell("echo text").expect_code(0);
}
