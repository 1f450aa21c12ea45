//! A profile made of what a run was refused does what it says, and no more.

use std::path::{Path, PathBuf};

use turnkey_tests::{Ran, Run, scratch};

use super::{render, text, told};

/// The profile of a run of this script, and what it was refused.
fn suggested(place: &Path, script: &str) -> (PathBuf, String) {
    let first = told(&[], &["sh", "-c", script]);
    let profile = place.join("suggested.toml");
    let output = render(
        &first.report(),
        &[
            "--format",
            "profile",
            "--out",
            &profile.display().to_string(),
        ],
    );
    assert!(output.status.success(), "{}", text(&output.stderr));
    let written = std::fs::read_to_string(&profile).expect("it was written");
    (profile, written)
}

fn under(profile: &Path, script: &str) -> Ran {
    Run::new()
        .option(&format!("--profile {}", profile.display()))
        .shell(script)
}

#[test]
fn a_rule_that_was_in_the_way_is_out_of_it_and_others_stay() {
    let place = scratch();
    let script = "echo x > .bashrc && echo done";
    let (profile, written) = suggested(place.path(), script);
    let ran = under(&profile, script);
    ran.expect(
        ran.code == 0 && ran.stdout == "done\n",
        &format!("it is allowed now:\n{written}"),
    );
    ran.expect(ran.violations().is_empty(), "and no rule is against it");
    for other in ["echo x > .profile", "cat /etc/shadow"] {
        under(&profile, other).expect_code(121);
    }
}

#[test]
fn a_file_of_the_host_and_a_socket_are_what_the_program_missed() {
    let place = scratch();
    let data = place.path().join("data");
    std::fs::write(&data, "of the host").expect("a test can write its own directory");
    let connect = "import socket; print(socket.socket().connect_ex(('127.0.0.1', 9)))";
    let script = format!("python3 -c \"{connect}\"; cat {}", data.display());
    let (profile, written) = suggested(place.path(), &script);
    let ran = under(&profile, &script);
    let refused = nix::errno::Errno::ECONNREFUSED as i32;
    ran.expect(
        ran.stdout == format!("{refused}\nof the host"),
        &format!("the jail's own loopback, and the file:\n{written}"),
    );
    ran.expect_code(0);
    under(
        &profile,
        &format!("cat {}", place.path().join("suggested.toml").display()),
    )
    .expect_code(1);
}

/// The profile of the run is a file, which is named by a path that leads nowhere from another directory.
#[test]
fn what_builds_on_a_file_finds_it_wherever_it_is_kept() {
    let place = scratch();
    let mine = "schema = \"turnkey.profile/v1\"\nname = \"mine\"\nextends = [\"untrusted\"]\n\
                [env]\nset = { MINE = \"1\" }\n";
    let file = place.path().join("other.toml");
    std::fs::write(&file, mine).expect("a test can write its own directory");
    let directory = place.path().file_name().expect("it has a name");
    let named = format!("../{}/other.toml", directory.display());
    let script = "echo x > .bashrc && echo $MINE";
    let first = told(&["--profile", &named], &["sh", "-c", script]);
    let kept = scratch();
    let profile = kept.path().join("suggested.toml");
    let out = profile.display().to_string();
    let output = render(&first.report(), &["--format", "profile", "--out", &out]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let ran = under(&profile, script);
    ran.expect(
        ran.code == 0 && ran.stdout == "1\n",
        "it is what it was, and more",
    );
}

/// Each kind of change of a file that a read-only mount refuses: the flag that people are told lets it happen.
#[test]
fn a_change_that_a_mount_refused_happens_with_the_flag_that_is_advised() {
    let place = scratch();
    let home = place.path().display().to_string();
    for (change, shows) in [
        ("rm {home}/file", "! test -e {home}/file"),
        ("mv {home}/file {home}/other", "test -e {home}/other"),
        ("touch -c {home}/file", "true"),
        ("echo new > {home}/file", "grep new {home}/file"),
    ] {
        let file = place.path().join("file");
        std::fs::write(&file, "old").expect("a test can write its own directory");
        for path in [place.path(), &file] {
            turnkey_tests::open_to_all(path);
        }
        let script = format!("{change} && {shows}").replace("{home}", &home);
        let refused = Run::new().option(&format!("--read {home}")).shell(&script);
        refused.expect(refused.code != 0, "the control");
        let told = refused
            .stderr
            .lines()
            .find_map(|line| line.trim().strip_prefix("to allow "));
        let flag = told.expect("there is advice").trim();
        Run::new().option(flag).shell(&script).expect_code(0);
    }
}

#[test]
fn what_is_critical_stays_forbidden() {
    let place = scratch();
    let (profile, written) = suggested(place.path(), "cat /etc/shadow");
    assert!(
        written.contains("rule credential-file is critical"),
        "{written}"
    );
    under(&profile, "cat /etc/shadow").expect_code(121);
}

/// Debian's Java is shown with its tree of programs, its settings are links to what is not: the place behind them is proposed.
#[test]
fn what_a_shown_symlink_leads_out_to_is_proposed_with_its_neighbours() {
    let place = scratch();
    let program = place.path().join("program");
    let settings = place.path().join("settings");
    for directory in [&program, &settings] {
        std::fs::create_dir(directory).expect("a test can write its own directory");
    }
    for name in ["first", "second"] {
        std::fs::write(settings.join(name), "x").expect("a test can write its own directory");
        std::os::unix::fs::symlink(settings.join(name), program.join(name))
            .expect("a test can write its own directory");
    }
    let (program, settings) = (program.display(), settings.display());
    let shown = format!("--read {program}");
    let script = format!("cat {program}/first && cat {program}/second");
    let failed = Run::new().option(&shown).shell(&script);
    failed.expect(failed.code != 0, "the control");
    let said = format!("but does on this host: --read {settings} shows it\n");
    failed.expect(failed.stderr.contains(&said), "the place behind the link");
    let both = Run::new().option(&format!("{shown} --read {settings}"));
    both.shell(&script).expect_code(0);
}

/// Calls that open nothing are told of as those that do; what is asked about in passing is not.
#[test]
fn what_is_asked_about_and_missing_is_told_as_well() {
    let place = scratch();
    std::fs::create_dir(place.path().join("data")).expect("a test can write its own directory");
    let data = place.path().join("data").display().to_string();
    let said = format!(
        "{data} does not exist in the jail, but does on this host: --read {data} shows it\n"
    );
    let failed = Run::new().shell(&format!("test -d {data} || exit 3"));
    failed.expect(failed.stderr.contains(&said), "asked about alone");
    let allowed = Run::new()
        .option(&format!("--read {data}"))
        .shell(&format!("test -d {data} || exit 3"));
    allowed.expect_code(0);
    let many = "import os, sys\nfor n in range(3000):\n os.path.exists(f'/opt/{n}/x')\nos.execvp('no-such-program', ['x'])";
    let many = Run::new().run(&["/usr/bin/python3", "-c", many]);
    many.expect(
        !many.stderr.contains("but does on"),
        "none of these is on the host",
    );
    many.expect(
        many.at("/events/complete") == &serde_json::json!(true),
        "nothing is lost",
    );
    let told = many.at("/events/seen/look").as_u64();
    many.expect(told == Some(256), "nobody reads more");
}

/// A directory that the host has is missing for whoever writes there: an empty one is proposed, and takes the file.
#[test]
fn a_place_to_write_in_is_there_with_the_flag_that_is_told() {
    let script = "echo new > /var/cache/turnkey-of-a-test && cat /var/cache/turnkey-of-a-test";
    let failed = Run::new().shell(script);
    failed.expect(failed.code != 0, "the control");
    let told = "/var/cache, to be written in, does not exist in the jail, but does on this host: ";
    let line = failed.stderr.lines().find_map(|line| line.split_once(told));
    let flag = line.and_then(|(_, rest)| rest.strip_suffix(" gives an empty one"));
    failed.expect(flag.is_some(), "it is told");
    let ran = Run::new().option(flag.unwrap_or_default()).shell(script);
    ran.expect(ran.stdout == "new\n", "the file is there");
    for other in [
        "echo x > /no-such-directory/file",
        "echo x > /tmp/no-such/file",
    ] {
        let failed = Run::new().shell(other);
        failed.expect(
            !failed.stderr.contains("to be written in"),
            "nor has the host it",
        );
    }
}

/// Libraries try to make the system's caches and do without.
#[test]
fn a_cache_that_is_not_there_is_told_to_who_failed_for_it() {
    let modules = "/usr/share/__pycache__";
    for (place, end, told) in [
        ("/var/cache", "; true", false),
        ("/var/cache", "", true),
        (modules, "; true", false),
        (modules, "", true),
    ] {
        let script = format!("mkdir {place}{end}");
        let ran = Run::new().shell(&script);
        let refused = ran.list("/file_operations").iter();
        ran.expect(
            refused
                .clone()
                .any(|tried| tried["path"] == place && tried["result"] == "denied"),
            "the control: it was refused",
        );
        ran.expect(
            ran.stderr.contains(&format!("blocked: writing {place}")) == told,
            &script,
        );
    }
}

/// C libraries name threads so, and browsers say who is to be ended first: all do without.
#[test]
fn a_setting_of_ones_own_in_proc_is_nothing_to_be_told() {
    let write = "import os
for path in ('/proc/self/task/%d/comm' % os.getpid(), '/proc/self/oom_score_adj', '/proc/thread-self/comm', '/proc/self/clear_refs'):
  try: os.close(os.open(path, os.O_WRONLY))
  except OSError as error: print(error.errno)";
    let ran = Run::new().option("--mode observe").python(write);
    ran.expect(
        ran.stdout == "30\n".repeat(4),
        "the control: each is refused",
    );
    let told: Vec<&str> = ran
        .stderr
        .lines()
        .filter_map(|line| line.strip_prefix("turnkey: blocked: "))
        .collect();
    ran.expect(
        told == ["writing /proc/self/clear_refs"],
        "another alone is told",
    );
}

/// One line, and right: of a program that failed, and of nothing that the host does not have or nobody should be shown.
#[test]
fn what_is_missing_is_told_in_one_line_to_who_failed_for_it() {
    let place = scratch();
    let data = place.path().join("data.csv");
    let key = place.path().join(".ssh/id_rsa");
    std::fs::create_dir(place.path().join(".ssh")).expect("a test can write its own directory");
    for file in [&data, &key] {
        std::fs::write(file, "x").expect("a test can write its own directory");
    }
    let (data, key) = (data.display().to_string(), key.display().to_string());
    let said = format!(
        "{data} does not exist in the jail, but does on this host: --read {data} shows it\n"
    );
    let failed = Run::new().shell(&format!("cat /no/such/file {data}"));
    failed.expect(failed.stderr.contains(&said), "the one that is there");
    failed.expect(
        failed.stderr.matches("does not exist in").count() == 1,
        "and no other",
    );
    let homes = Run::new().shell("ls /home /root /srv /var");
    homes.expect(
        !homes.stderr.contains("--read /"),
        "no home, and nothing that several people share",
    );
    let managed = Run::new().shell(&format!("cat {data}; true"));
    managed.expect(!managed.stderr.contains("but does on"), "it did without");
    let ended = Run::new().shell(&format!("cat {data}; cat /etc/shadow"));
    ended.expect_code(121);
    ended.expect(!ended.stderr.contains("but does on"), "it failed for more");
    let curious = Run::new()
        .option("--mode observe")
        .shell(&format!("cat {key}"));
    curious.expect(
        !curious.stderr.contains("but does on"),
        "nobody is shown a key",
    );
}
