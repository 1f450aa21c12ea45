//! Learned profiles that hold for the next run: other names, other inputs.

use std::process::{Command, Stdio};

use turnkey_tests::{binary, finish};

use super::{Stage, learn};

const TEMPORARY: &str = "import os, tempfile
with tempfile.TemporaryDirectory(dir='.') as made:
    open(made + '/part', 'w').write('in the workspace')
    print(os.listdir(made), open(made + '/part').read())
with tempfile.NamedTemporaryFile() as file:
    file.write(b'in memory')
    file.flush()
    print(open(file.name).read())
";

#[test]
fn temporary_files_of_the_next_run_are_allowed() {
    let stage = Stage::new();
    stage.put("job.py", TEMPORARY);
    let program = ["python3", "-B", "job.py"];
    stage.learn(&["--profile", "python", "--times", "2"], &program);
    let third = stage.run(None, &program);
    third.expect_code(0);
    let printed = "['part'] in the workspace\nin memory\n";
    third.expect(third.stdout == printed, "the same output");
    third.expect(third.at("/verdict") == "clean", "clean");
}

#[test]
fn names_that_are_taken_away_and_given_are_allowed() {
    let stage = Stage::new();
    for name in ["old", "kept", "moved"] {
        stage.put(name, "x");
    }
    let program = ["sh", "-c", "rm old; ln kept other; mv moved away; ls"];
    stage.learn(&[], &program);
    for name in ["old", "moved"] {
        stage.put(name, "x");
    }
    let again = stage.run(None, &program);
    again.expect_code(0);
    again.expect(again.stdout == "away\nkept\nother\n", "the same output");
}

/// A symlink to what is not read itself, beside it and elsewhere, to a directory, to nothing, and out of the workspace.
#[test]
fn symlinks_that_were_made_are_allowed() {
    let ways = [
        "ln -s file alias",
        "mkdir below; ln -s ../file below/alias",
        "mkdir below; ln -s below alias",
        "ln -s nothing alias",
        "ln -s /etc/hostname alias",
    ];
    for way in ways {
        let stage = Stage::new();
        stage.put("file", "x");
        let program = ["sh", "-c", way];
        stage.learn(&[], &program);
        stage.run(None, &program).expect_code(0);
    }
}

const NAMED: &str = "run=run-$(cat /proc/sys/kernel/random/uuid)
mkdir $run && echo done > $run/part-$$ && cat $run/*
state=$(date +.state-%Y-%m-%dT%H:%M:%S.%N)
echo kept > $state && cat $state
letters=$(tr -dc a-z < /dev/urandom | head -c 8)
for name in $letters.d log.$(date +%s).gz; do mkdir $name && echo $run > $name/x && cat $name/x > /dev/null; done
";

#[test]
fn outputs_with_the_next_date_number_and_uuid_are_allowed() {
    let stage = Stage::new();
    stage.put("job.sh", NAMED);
    let learned = stage.learn(&["--times", "2"], &["sh", "job.sh"]);
    assert_eq!(learned.stdout, "done\nkept\n".repeat(2));
    let third = stage.run(None, &["sh", "job.sh"]);
    third.expect_code(0);
    third.expect(third.stdout == "done\nkept\n", "the same output");
    let text = stage.text();
    for pattern in ["\"/workspace/run-*/*\"", "\"/workspace/*.d/*\""] {
        assert!(text.contains(pattern), "{text}");
    }
}

const KINDS: &str = "case $1 in
*.bin) head -c 4 /dev/urandom | wc -c ;;
*.link) cat /etc/hostname ;;
esac
cat $1";

/// Neither a device that every jail has nor another file beside the inputs kills; a file that nothing was like does.
#[test]
fn another_kind_of_input_may_use_what_every_jail_has() {
    let stage = Stage::new();
    stage.put("job.sh", KINDS);
    for (name, text) in [
        ("a.txt", "text\n"),
        ("b.csv", "1,2\n"),
        ("c.bin", "bin\n"),
        ("d.link", "host\n"),
    ] {
        stage.put(name, text);
    }
    let options = ["--input", "a.txt", "--input", "b.csv"];
    let learn_with = [
        "sh",
        "-c",
        "head -c 0 a.txt | wc -c > /dev/zero; . ./job.sh",
        "sh",
        "{}",
    ];
    let learned = stage.learn(&options, &learn_with);
    assert_eq!(learned.stdout, "text\n1,2\n");
    let program = |input| ["sh", "-c", learn_with[2], "sh", input];
    let third = stage.run(None, &program("c.bin"));
    third.expect_code(0);
    third.expect(third.stdout == "4\nbin\n", "the device was read");
    let other = stage.run(None, &program("d.link"));
    other.expect_code(121);
    other.expect(
        other.violations()[0]["path"] == "/etc/hostname",
        "the file that was not learned",
    );
}

/// Each input is a run's standard input, from its beginning, and what all runs do is learned.
#[test]
fn every_input_is_handed_in_and_learned() {
    let stage = Stage::new();
    let script = "read name && cat $name";
    for (name, text) in [("one", "/etc/hostname\n"), ("two", "/etc/passwd\n")] {
        stage.put(name, text);
    }
    let options = ["--input", "one", "--input", "two", "--times", "2"];
    let learned = stage.learn(&options, &["sh", "-c", script]);
    let (first, second) = learned.stdout.split_at(learned.stdout.len() / 2);
    assert!(first == second && first.contains("root:"), "{first}");
    let text = stage.text();
    for name in ["\"/etc/hostname\"", "\"/etc/passwd\""] {
        assert!(text.contains(name), "{text}");
    }
}

/// The status of a run that failed is not lost behind one that did not.
#[test]
fn the_first_failure_is_the_status() {
    let stage = Stage::new();
    stage.put("bad", "3\n");
    stage.put("good", "0\n");
    let options = ["--input", "bad", "--input", "good"];
    let script = ["sh", "-c", "read code && exit $code"];
    let learned = learn(stage.directory.path(), &stage.profile(), &options, &script);
    assert_eq!(learned.code, 3, "{}", learned.stderr);
    assert!(stage.profile().exists());
}

/// Refused before anything runs, with what to do instead.
#[test]
fn inputs_that_cannot_be_handed_in_are_refused() {
    let stage = Stage::new();
    stage.put("there", "");
    let report = ["--times", "2", "--report", "-"];
    let cases: [(&[&str], &str); 4] = [
        (&["--input", "not-there"], "not-there"),
        (&["--input", "/dev/zero"], "a device"),
        (&report, "--merge"),
        (&["--times", "0"], "1..=100"),
    ];
    for (options, told) in cases {
        let refused = learn(
            stage.directory.path(),
            &stage.profile(),
            options,
            &["echo", "ran"],
        );
        assert_eq!(refused.code, 125, "{}", refused.stderr);
        assert!(refused.stderr.contains(told), "{}", refused.stderr);
        assert!(!refused.stdout.contains("ran"), "{}", refused.stdout);
    }
}

/// A pipe would be empty for the second run; a file begins anew.
#[test]
fn standard_input_is_handed_in_to_every_run_or_refused() {
    let stage = Stage::new();
    stage.put("text", "once\n");
    let file = std::fs::File::open(stage.directory.path().join("text")).expect("it is there");
    let learn = |stdin: Stdio| {
        let mut command = Command::new(binary());
        command
            .args(["learn", "--times", "2", "--out"])
            .arg(stage.profile());
        command.args(["--", "cat"]).stdin(stdin);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("turnkey can be started");
        drop(child.stdin.take());
        finish(child)
    };
    let refused = learn(Stdio::piped());
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(125), "{told}");
    assert!(told.contains("--input"), "{told}");
    let learned = learn(file.into());
    assert_eq!(learned.status.code(), Some(0), "{learned:?}");
    assert_eq!(learned.stdout, b"once\nonce\n");
}
