//! Rules that speak of the file and not of its name, and of files that have none.

use turnkey_tests::{Mount, Run, open_to_all, scratch};

use super::{Attack, guard, rule, times, violations};

/// Kills for opening the file, by whatever name.
fn guard_file(path: &str) -> String {
    followed(path, "required")
}

fn followed(path: &str, how: &str) -> String {
    let more = format!("path = \"{path}\"\nsame_file = \"{how}\"");
    rule("file", "open", "kill", &more)
}

/// A secret with a second name, in the working directory.
fn with_an_alias(sections: &str) -> Run {
    let run = Run::new()
        .file("secret", "hidden\n")
        .file("other", "free\n");
    std::fs::hard_link(run.path().join("secret"), run.path().join("alias"))
        .expect("a test can write its own directory");
    run.profile(sections)
}

const READ_ONLY: &str = "[filesystem]\nworkdir = { mode = \"read-only\" }\n";

/// `script` reads the secret where names are all that counts, and nothing where the file does.
#[track_caller]
fn is_the_file(more: &str, script: &str, path: &str) {
    // In an overlay, as far as the kernel does.
    let how = match more {
        READ_ONLY => "required",
        _ => "optional",
    };
    let jail = |rules: String| with_an_alias(&(rules + more));
    let control = jail(guard("/workspace/secret")).shell(script);
    control.expect(
        control.stdout.contains("hidden"),
        &format!("the control: a rule on the name does not see {script}"),
    );
    let attack = Attack {
        jail: &|| jail(followed("/workspace/secret", how)),
        program: &["/bin/sh", "-c", script],
        mark: "hidden",
        rule: "file",
        // Where hooks are asked, the act that gives the name is told, by the one that was there before.
        paths: &[path, "/workspace/alias"],
    };
    attack.is_survived();
}

#[test]
fn m05_j62_a_hard_link_that_was_there_before_is_the_file() {
    is_the_file("", "cat alias", "/workspace/alias");
    is_the_file(READ_ONLY, "cat alias", "/workspace/alias");
}

#[test]
fn m09_j17_a_hard_link_of_a_program_is_the_program() {
    let jail = |more: &str| {
        let run = Run::new();
        let place = |name: &str| run.path().join(name);
        std::fs::copy("/usr/bin/echo", place("tool")).expect("a test can copy");
        std::fs::hard_link(place("tool"), place("alias")).expect("a test can link");
        let path = format!("path = \"/workspace/tool\"{more}");
        run.profile(&rule("file", "exec", "kill", &path))
    };
    // By its whole name: of what is refused before the act, no directory is told.
    let program = &["/bin/sh", "-c", "exec /workspace/alias done"];
    let control = jail("").run(program);
    control.expect(
        control.stdout == "done\n",
        "the control: it is another name",
    );
    let attack = Attack {
        jail: &|| jail("\nsame_file = \"optional\""),
        program,
        mark: "done",
        rule: "file",
        paths: &["/workspace/alias"],
    };
    attack.is_survived();
}

#[test]
fn m06_a_new_name_of_the_file_is_the_file() {
    is_the_file("", "mkdir d; mv alias d/new; cat d/new", "/workspace/d/new");
}

#[test]
fn m08_the_file_is_the_same_after_it_was_copied_up() {
    is_the_file("", "chmod 640 alias; cat alias", "/workspace/alias");
}

#[test]
fn m05_another_file_beside_it_is_another_file() {
    let ran = with_an_alias(&followed("/workspace/secret", "optional"))
        .shell("cat other; echo new > new; cat new; cp other copy; cat copy");
    ran.expect_code(0);
    ran.expect(ran.stdout == "free\nnew\nfree\n", "all of it is read");
    ran.expect(violations(&ran, "file").count() == 0, "and no rule speaks");
    ran.expect(
        times(&ran, "/workspace/other", "allowed") >= 1,
        "it is seen",
    );
}

#[test]
fn m08_what_an_overlay_would_copy_is_not_promised() {
    let jail = || Run::new().file("secret", "hidden\n");
    let script = "ln secret made; cat made";
    // The act that makes the name is decided on, as far as it is known which file that is about.
    let followed = jail().profile(&followed("/workspace/secret", "optional"));
    let followed = followed.shell(script);
    followed.expect_code(121);
    followed.expect(followed.stdout.is_empty(), "it is not read");
    let ran = jail()
        .profile(&guard_file("/workspace/secret"))
        .shell(script);
    ran.expect_code(125);
    ran.expect(ran.stdout.is_empty(), "nothing ran");
    for part in ["`file`", "/workspace/secret", "read-only"] {
        ran.expect(ran.stderr.contains(part), part);
    }
}

#[test]
fn m07_j62_a_bind_mount_of_the_file_is_the_file() {
    let directory = scratch();
    open_to_all(directory.path());
    let place = |name: &str| directory.path().join(name);
    for name in ["secret", "alias"] {
        std::fs::write(place(name), "hidden\n").unwrap();
    }
    let [secret, alias] = ["secret", "alias"].map(|name| place(name).display().to_string());
    let _bind = Mount::new(&["--bind", &secret], &place("alias"));
    let read = format!("--read {}", directory.path().display());
    let jail = |rules: &str| Run::new().option(&read).profile(rules);
    let control = jail(&guard(&secret)).run(&["cat", &alias]);
    control.expect(
        control.stdout == "hidden\n",
        "the control: it is another path",
    );
    let attack = Attack {
        jail: &|| jail(&guard_file(&secret)),
        program: &["cat", &alias],
        mark: "hidden",
        rule: "file",
        paths: &[&alias],
    };
    attack.is_survived();
}

#[test]
fn a_decoy_is_known_by_any_name() {
    let decoys = "[filesystem]\ndecoys = [\"~/trap\"]\n";
    let script = "ln trap made; cat made; echo went on";
    let jail = |rules: String| Run::new().profile(&(rules + decoys));
    let control = jail(guard("/workspace/trap")).option("--mode observe");
    let control = control.shell(script);
    control.expect(control.stdout.ends_with("went on\n"), "the control");
    let ran = jail(guard_file("/workspace/trap")).shell(script);
    ran.expect_code(121);
    ran.expect(ran.stdout.is_empty(), "not a byte");
    let names = ["/workspace/made", "/workspace/trap"].map(serde_json::Value::from);
    let told = violations(&ran, "file").any(|one| names.contains(&one["path"]));
    ran.expect(told, "and it is told");
}

#[test]
fn a_file_that_is_not_there_fails_the_run_unless_that_is_fine() {
    let missing = guard_file("/workspace/nothing");
    let ran = Run::new().profile(&missing).shell("echo ran");
    ran.expect_code(125);
    ran.expect(ran.stdout.is_empty(), "nothing ran");
    for part in ["`file`", "/workspace/nothing", "same_file = \"optional\""] {
        ran.expect(ran.stderr.contains(part), part);
    }
    let optional = missing.replace("required", "optional");
    let ran = Run::new().profile(&optional).shell("echo ran");
    ran.expect_code(0);
    ran.expect(ran.stdout == "ran\n", "it ran");
    // The name still counts.
    let ran = Run::new()
        .profile(&optional)
        .shell("echo x > nothing; cat nothing");
    ran.expect_code(121);
}

/// Programs without a name, and the flag that each has.
const NAMELESS: [(&str, &str, &str); 3] = [
    (
        "memfd",
        "fd = os.memfd_create('payload'); os.write(fd, echo)",
        "memfd:payload",
    ),
    (
        "deleted",
        "fd = os.open('gone', os.O_RDWR | os.O_CREAT, 0o700); os.write(fd, echo); os.close(fd)
fd = os.open('gone', os.O_RDONLY); os.unlink('gone')",
        "/workspace/gone",
    ),
    (
        "deleted",
        "file = os.open('/tmp', os.O_RDWR | os.O_TMPFILE, 0o700); os.write(file, echo)
fd = os.open(f'/proc/self/fd/{file}', os.O_RDONLY); os.close(file)",
        "/tmp/",
    ),
];

/// Memory is free to run, so that only the rules here speak.
const FREE: &str = "[[rule]]\nid = \"memory-exec\"\nreplaces = true\non = \"exec\"\npath = \"/nowhere\"\naction = \"log\"\n";

#[test]
fn j19_m11_a_program_without_a_name_dies_by_its_flag() {
    for (flag, made, path) in NAMELESS {
        let program = format!(
            "import os\necho = open('/usr/bin/echo', 'rb').read()\n{made}\nos.execve(fd, ['echo', 'done'], {{}})"
        );
        let other = if flag == "memfd" { "deleted" } else { "memfd" };
        let jail = |flag: &str| {
            let rule = rule("nameless", "exec", "kill", &format!("flags = \"{flag}\""));
            Run::new().profile(&(rule + FREE))
        };
        let control = jail(other).python(&program);
        control.expect(
            control.stdout == "done\n",
            "the control: the other flag does not speak of it",
        );
        let ran = jail(flag).python(&program);
        ran.expect_code(121);
        ran.expect(ran.stdout.is_empty(), "without effect");
        let told = violations(&ran, "nameless").any(|one| {
            let called = one["path"].as_str().unwrap_or_default();
            called.starts_with(path)
        });
        ran.expect(told, "and it is told");
    }
}

#[test]
fn m11_flags_speak_before_paths_and_of_no_file_with_a_name() {
    let rules = [
        rule("here", "open", "allow", "path = \"/workspace/**\""),
        rule(
            "nameless",
            "open",
            "kill",
            "flags = [\"memfd\", \"deleted\"]",
        ),
    ];
    let jail = || Run::new().file("named", "text\n").profile(&rules.concat());
    let named = jail().shell("cat named; echo more > new; cat new; rm new");
    named.expect_code(0);
    named.expect(named.stdout == "text\nmore\n", "names are free");
    let gone = "import os
fd = os.open('named', os.O_RDONLY); os.unlink('named')
print(open(f'/proc/self/fd/{fd}').read(), flush=True)";
    let attack = Attack {
        jail: &jail,
        program: &["python3", "-c", gone],
        mark: "text",
        rule: "nameless",
        paths: &["/workspace/named"],
    };
    attack.is_survived();
}
