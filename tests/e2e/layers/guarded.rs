//! Guarded files and layers: what a run took hold of is not there for the next one by another name.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::process::Stdio;
use std::time::Instant;

use turnkey_tests::{Ran, Run};

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

const EXCHANGE: &str = "python3 -c 'import ctypes, os
for libc in [ctypes.CDLL(None)]: libc.renameat2(-100, b\"other\", -100, b\".netrc\", 2)'";

/// A secret that comes while a run lasts has no rule in that run, and one in the next: by no other name and in no copy is it
/// there for that one.
#[test]
fn a_secret_that_comes_during_a_run_is_not_kept_by_another_name() {
    let exchange = format!("touch other; {EXCHANGE}");
    enum Then {
        Stays,
        Goes,
        GetsItsName,
    }
    for (act, then) in [
        ("ln .netrc other", Then::Stays),
        ("mv .netrc other", Then::Goes),
        ("dd if=.netrc of=other conv=swab 2>/dev/null", Then::Goes),
        (&exchange, Then::Goes),
        ("ln new other", Then::GetsItsName),
    ] {
        let layer = Layer::new();
        let run = layer.run();
        let place = run.path().to_owned();
        let (secret, new) = (place.join(".netrc"), place.join("new"));
        let comes = match then {
            Then::GetsItsName => &new,
            Then::Stays | Then::Goes => &secret,
        };
        let put = || fs::write(comes, "SECRET").unwrap();
        let ran = meanwhile(run, act, put, || match then {
            Then::Stays => {}
            Then::Goes => fs::remove_file(&secret).unwrap(),
            Then::GetsItsName => fs::rename(&new, &secret).unwrap(),
        })
        .unwrap();
        ran.expect_code(125);
        ran.expect(ran.stderr.contains("rule `stored-credential`"), act);
        let next = layer.run().file(".netrc", "SECRET").shell("cat other");
        next.expect(next.stdout.is_empty(), act);
    }
    // The control: what comes is no secret.
    let layer = Layer::new();
    let run = layer.run();
    let comes = run.path().join("comes");
    let put = || fs::write(&comes, "TEXT").unwrap();
    meanwhile(run, "cp comes other; mv other another", put, || {})
        .unwrap()
        .expect_code(0);
    layer.says("cat another", "TEXT");
}

/// Lets `act` happen in a run after `put`, and `take` before the run ends.
fn meanwhile(run: Run, act: &str, put: impl FnOnce(), take: impl FnOnce()) -> io::Result<Ran> {
    let started = Instant::now();
    // By its input and not by looking: an overlay remembers names that were not there.
    let script = format!("echo; read -r go; {act}; echo; read -r end; true");
    let mut command = run.command(&["/bin/sh", "-c", &script]);
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::piped()).spawn()?;
    let none = || io::Error::other("no pipe");
    let said = child.stdout.as_mut().ok_or_else(none)?;
    let told = child.stdin.as_mut().ok_or_else(none)?;
    let mut line = [0; 1];
    said.read_exact(&mut line)?;
    put();
    told.write_all(b"\n")?;
    said.read_exact(&mut line)?;
    take();
    told.write_all(b"\n")?;
    Ok(run.end(child, started))
}

/// A program that may rename a guarded file leaves it to no other program by another name.
#[test]
fn a_file_that_some_programs_may_rename_is_not_kept_by_another_name() {
    let rules = "[[rule]]\nid = \"guard\"\nwhy = \"test\"\nseverity = \"high\"\naction = \"kill\"\n\
         on = [\"open\", \"link\", \"rename\"]\npath = \"/workspace/guarded\"\n\
         [[rule]]\nid = \"some\"\nwhy = \"test\"\nseverity = \"high\"\naction = \"allow\"\n\
         on = [\"open\", \"link\", \"rename\"]\npath = \"/workspace/guarded\"\nexe = \"/usr/bin/{mv,ln,cat}\"\n";
    for act in ["mv guarded other", "ln guarded other"] {
        let layer = Layer::new();
        let run = || layer.run().file("guarded", "SECRET").profile(rules);
        let ran = run().shell(act);
        ran.expect_code(125);
        ran.expect(ran.stderr.contains("which rule `guard` is about"), act);
        let next = run().run(&["dd", "if=other"]);
        next.expect(next.stdout.is_empty(), act);
    }
    let layer = Layer::new();
    let run = || layer.run().file("guarded", "SECRET").profile(rules);
    run()
        .shell("cat guarded; echo a > b; mv b c")
        .expect_code(0);
    assert!(
        layer.kept("/workspace").join("c").exists(),
        "what no rule is about is kept"
    );
}
