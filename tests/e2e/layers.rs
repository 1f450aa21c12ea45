//! Layers that outlive their runs: what one call leaves, the next one finds.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use turnkey_tests::{Ran, Run, as_nobody, open_to_all, outside, scratch};

mod guarded;
mod packages;

/// A layer that is not there yet, and its directory.
struct Layer(tempfile::TempDir);

impl Layer {
    fn new() -> Layer {
        Layer(scratch())
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("layer")
    }

    /// The directory with the kept files of a place of the jail.
    fn kept(&self, place: &str) -> PathBuf {
        self.path().join("content").join(place.replace('/', "%2F"))
    }

    fn run(&self) -> Run {
        Run::new().option(&format!("--layer {}", self.path().display()))
    }

    fn tree(&self) -> Run {
        self.run().option("--root-mode overlay --user root")
    }

    #[track_caller]
    fn says(&self, script: &str, expected: &str) -> Ran {
        let ran = self.run().shell(script);
        ran.expect(ran.stdout == expected, script);
        ran
    }
}

/// Twenty calls of a tool on one layer: each finds what those before have left, as if it was one machine.
#[test]
fn twenty_calls_work_on_one_layer() {
    let layer = Layer::new();
    let package = "python3 -m venv --without-pip v && d=$(v/bin/python -c 'import site; print(site.getsitepackages()[0])') \
         && mkdir -p $d/tool && echo 'answer = 42' > $d/tool/__init__.py";
    let calls: [(&str, &str); 20] = [
        (package, ""),
        ("v/bin/python -c 'import tool; print(tool.answer)'", "42\n"),
        (
            "mkdir bin && echo 'echo run $1' > bin/mine && chmod 755 bin/mine",
            "",
        ),
        ("bin/mine 1; stat -c '%a %U' bin/mine", "run 1\n755 jail\n"),
        (
            "mkdir -p src/deep && echo one > src/deep/a && ln -s deep/a src/link && ln src/deep/a src/twin",
            "",
        ),
        ("cat src/link && stat -c %h src/twin", "one\n2\n"),
        ("echo two >> src/deep/a; cat src/deep/a", "one\ntwo\n"),
        (
            "rm src/link && mv src/deep/a src/b && ls src",
            "b\ndeep\ntwin\n",
        ),
        ("ls src src/deep", "src:\nb\ndeep\ntwin\n\nsrc/deep:\n"),
        ("rm -r src && mkdir src && echo new > src/only", ""),
        ("ls src", "only\n"),
        ("rm theirs && mkdir theirs && echo ours > theirs/file", ""),
        ("cat theirs/file", "ours\n"),
        (
            "rm -r theirs && rm -r dir && mkdir dir && touch dir/new",
            "",
        ),
        ("ls; ls dir", "bin\ndir\nsrc\nv\nnew\n"),
        (
            "echo data > kept && chmod 600 kept && touch -d @1000000000 kept",
            "",
        ),
        ("stat -c '%a %Y' kept && cat kept", "600 1000000000\ndata\n"),
        ("truncate -s 1G sparse", ""),
        ("stat -c %s sparse; rm sparse", "1073741824\n"),
        (
            "ls; v/bin/python -c 'import tool'",
            "bin\ndir\nkept\nsrc\nv\n",
        ),
    ];
    let own = scratch();
    fs::create_dir(own.path().join("dir")).unwrap();
    for name in ["theirs", "dir/old"] {
        fs::write(own.path().join(name), "theirs\n").unwrap();
    }
    let workdir = format!(
        "--unmonitored --file-size 2G --workdir {}",
        own.path().display()
    );
    for (number, (script, expected)) in calls.into_iter().enumerate() {
        let ran = layer.run().option(&workdir).shell(script);
        ran.expect(ran.stdout == expected, &format!("call {number}: {script}"));
        ran.expect_code(0);
    }
    assert!(
        own.path().join("dir/old").exists(),
        "nothing of the caller's is changed"
    );
}

#[test]
fn a_tree_is_kept_with_the_workspace() {
    let layer = Layer::new();
    let run = |script: &str| {
        let ran = layer.tree().option("--unmonitored").shell(script);
        ran.expect_code(0);
        ran.stdout
    };
    let tool = "mkdir -p /opt/app && printf '#!/bin/sh\necho tool' > /usr/bin/turnkey-tool && chmod 755 /usr/bin/turnkey-tool \
         && echo 127.0.0.9 nine >> /etc/hosts && echo mine > mine";
    run(tool);
    assert_eq!(
        run(
            "turnkey-tool; tail -n 1 /etc/hosts; cat mine; rm /usr/bin/turnkey-tool; rmdir /opt/app"
        ),
        "tool\n127.0.0.9 nine\nmine\n"
    );
    assert_eq!(
        run("ls /opt; test -e /usr/bin/turnkey-tool || echo gone"),
        "gone\n"
    );
    assert!(
        !Path::new("/usr/bin/turnkey-tool").exists(),
        "the host's tree is as it was"
    );
}

#[test]
fn what_is_kept_is_told_and_nobody_elses() {
    let layer = Layer::new();
    open_to_all(layer.0.path());
    let run = layer.run().file("theirs", "host\n");
    let ran = run.shell("echo kept > mine; echo more >> theirs; mkfifo pipe");
    ran.expect_code(0);
    ran.expect(
        ran.at("/kept/files") == 2 && ran.at("/kept/left_out") == 1,
        "told",
    );
    ran.expect(ran.stderr.contains("holds 2 files"), "on the terminal");
    ran.expect(!ran.stderr.contains("thrown away"), "and not as lost");
    let host = fs::read_to_string(ran.directory.path().join("theirs")).unwrap();
    assert_eq!(host, "host\n", "the caller's file is as it was");
    let mine = layer.kept("/workspace").join("mine");
    assert_eq!(fs::read_to_string(&mine).unwrap(), "kept\n");
    assert_eq!(mine.metadata().unwrap().uid(), 0x7ffe_ffff, "no account's");
    assert_eq!(layer.path().metadata().unwrap().mode() & 0o777, 0o700);
    let (read, _) = as_nobody("/bin/cat", &[mine.to_str().unwrap()]);
    assert!(!read.success(), "nobody else can read it");
    let run = layer.run().file("theirs", "host\n");
    let ran = run.shell("echo x >> mine; rm theirs; touch new");
    let change = |path: &str| {
        let mut changed = ran.list("/files_changed").iter();
        let found = changed.find(|file| file["path"] == path);
        found.map(|file| file["change"].as_str().unwrap_or_default().to_owned())
    };
    for (path, kind) in [
        ("mine", "modified"),
        ("theirs", "deleted"),
        ("new", "added"),
    ] {
        ran.expect(change(path).as_deref() == Some(kind), path);
    }
    let run = layer.run().file("theirs", "host\n");
    let ran = run.shell("cat mine; stat -c %U mine; ls");
    ran.expect(ran.stdout == "kept\nx\njail\nmine\nnew\n", "as it was left");
}

/// The workspace has two names in an activated venv, or in a checkout that knows its path: the layer is kept there, too.
#[test]
fn what_is_kept_stays_where_the_workspace_is_known_by_its_own_path() {
    let layer = Layer::new();
    for (option, expected) in [
        ("--own-path always", "1\n"),
        ("--own-path always", "2\n"),
        ("--at-host-path", "3\n"),
    ] {
        let run = layer.run().option(option);
        let ran = run.shell("echo line >> calls; grep -c line calls");
        ran.expect(ran.stdout == expected, option);
        ran.expect_code(0);
    }
}

#[test]
fn a_layer_has_one_run_at_a_time() {
    let layer = Layer::new();
    let (first, second) = (layer.run(), layer.run());
    let mut command = first.command(&["/bin/sh", "-c", "echo on; read line"]);
    let command = command
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut said = [0; 3];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut said).unwrap();
    let ran = second.shell("true");
    ran.expect_code(125);
    ran.expect(
        ran.stderr.contains("in use by another run"),
        "with the reason",
    );
    drop(child.stdin.take());
    child.wait().unwrap();
    layer.run().shell("true").expect_code(0);
}

#[test]
fn a_layer_holds_as_much_as_the_limit_and_stays_as_it_was_beyond() {
    let layer = Layer::new();
    let fill = |name: &str| {
        layer
            .run()
            .option("--disk 3M")
            .shell(&format!("head -c 2M /dev/urandom > {name}"))
    };
    fill("one").expect_code(0);
    let ran = fill("two");
    ran.expect_code(125);
    ran.expect(
        ran.stderr.contains("raise the limit with --disk"),
        "with the fix",
    );
    ran.expect(ran.at("/kept/error").is_string(), "in the report");
    layer.says("ls", "one\n");
    let others: Vec<_> = fs::read_dir(layer.path()).unwrap().flatten().collect();
    assert_eq!(others.len(), 2, "nothing of it is left: {others:?}");
}

#[test]
fn a_killed_run_leaves_the_layer_as_it_was() {
    let layer = Layer::new();
    layer.says("echo before > file", "");
    let run = layer.run();
    let mut command = run.command(&["/bin/sh", "-c", "echo after > file; echo on; sleep 9"]);
    let mut child = command
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = [0; 3];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut said).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    // As if it had been killed while it kept something.
    fs::create_dir_all(layer.path().join("next/%2Fworkspace/half")).unwrap();
    layer.says("cat file; ls", "before\nfile\n");
}

#[test]
fn hostile_content_gains_nothing_in_the_next_run() {
    let layer = Layer::new();
    let outside = scratch();
    open_to_all(outside.path());
    fs::write(outside.path().join("secret"), "hidden\n").unwrap();
    let secret = outside.path().join("secret").display().to_string();
    let plant = format!(
        "ln -s {secret} link; ln -s / up; mkdir -p .ssh d; cp /usr/bin/id d/id; chmod 6755 d/id; mkfifo pipe
         python3 - <<'X'
import os, socket
socket.socket(socket.AF_UNIX).bind('sock')
for name in ('user.overlay.redirect', 'user.overlay.opaque', 'user.overlay.metacopy', 'trusted.overlay.opaque'):
    try: os.setxattr('d', name, b'y'); print('set', name)
    except OSError: pass
for kind in (0o020000, 0o060000):
    try: os.mknod('device%d' % kind, kind | 0o666, os.makedev(1, 3)); print('made')
    except OSError: pass
try: os.mknod('whiteout', 0o020000, 0); print('made')
except OSError: pass
deep = 'deep'
for _ in range(100):
    os.mkdir(deep); os.chdir(deep)
X"
    );
    let ran = layer.run().option("--mode observe").shell(&plant);
    ran.expect(!ran.stdout.contains("made"), "no device, no mark");
    let content = layer.kept("/workspace");
    for (name, is_kept) in [
        ("link", true),
        ("pipe", false),
        ("sock", false),
        ("whiteout", false),
    ] {
        assert_eq!(
            content.join(name).symlink_metadata().is_ok(),
            is_kept,
            "{name}"
        );
    }
    let id = content.join("d/id").metadata().unwrap();
    assert_eq!(id.mode() & 0o7777, 0o755, "no set-user-ID bit on the host");
    let ran = layer
        .run()
        .shell("cat link; ls up/root up/home; d/id -u; ls /");
    ran.expect(
        !ran.stdout.contains("hidden"),
        "a symlink leads to the jail's own tree",
    );
    ran.expect(
        ran.stdout.starts_with("1000\n"),
        "and nobody is somebody else",
    );
    // As if somebody with more rights had been there: what a kernel would take for its own.
    fs::create_dir(content.join("planted")).unwrap();
    for (name, value) in [
        ("user.overlay.redirect", "/etc"),
        ("user.overlay.opaque", "y"),
        ("user.overlay.origin", "x"),
    ] {
        let script = format!(
            "import os; os.setxattr('{}', '{name}', b'{value}')",
            content.join("planted").display()
        );
        turnkey_tests::outside("python3", &["-c", &script]);
    }
    symlink(&secret, content.join("leads")).unwrap();
    let ran = layer
        .run()
        .shell("ls planted; cat leads planted/passwd planted/shadow; echo end");
    ran.expect(ran.stdout == "end\n", "no mark leads out of the layers");
    // Decoys and places of the next run are found without a symlink, or not at all.
    fs::remove_dir_all(content.join(".ssh")).unwrap();
    symlink(outside.path(), content.join(".ssh")).unwrap();
    let ran = layer
        .run()
        .profile("[filesystem]\ndecoys = [\"~/.ssh/id_rsa\"]\n")
        .shell("echo ran");
    ran.expect(ran.code == 0 || ran.code == 125, "it runs, or says why not");
    assert!(
        !outside.path().join("id_rsa").exists(),
        "nothing is written outside"
    );
}

/// The advice is what works, where what earlier runs have left stands in the way of the next.
#[test]
fn a_layer_that_stands_in_the_way_is_named() {
    let decoys = "[filesystem]\ndecoys = [\"~/.ssh/id_rsa\"]\n";
    for act in [
        "ln -s /etc .ssh",
        "echo x > .ssh",
        "mkdir -p .ssh/id_rsa",
        "mkdir .ssh; ln -s /etc/passwd .ssh/id_rsa",
    ] {
        let layer = Layer::new();
        let run = || layer.run().option("--unmonitored");
        run().shell(act).expect_code(0);
        let next = run().profile(decoys).shell("echo ran");
        next.expect_code(125);
        let fix = format!("rm -r {}", layer.path().display());
        next.expect(next.stderr.contains(&fix), act);
        fs::remove_dir_all(layer.path()).unwrap();
        let next = run().profile(decoys).shell("echo ran");
        next.expect(next.stdout == "ran\n", "it helps");
    }
    let layer = Layer::new();
    let took = layer
        .tree()
        .option("--unmonitored")
        .shell("rm /usr/bin/id /bin /lib64");
    took.expect_code(0);
    let next = layer.tree().option("--unmonitored").run(&["id"]);
    next.expect(next.code == 126 || next.code == 127, "nothing to start");
    let fix = format!("rm -r {}", layer.path().display());
    next.expect(next.stderr.contains(&fix), "with what helps");
}

/// A layer of more directories would take each later run as long as it took this one.
#[test]
fn a_layer_of_many_directories_is_refused() {
    // In memory, where they are made in less time.
    let layer = Layer(tempfile::tempdir_in("/dev/shm").unwrap());
    let run = || layer.run().option("--unmonitored");
    run().shell("mkdir before").expect_code(0);
    let make = "import os
for a in range(129):
    os.mkdir(f'd{a}')
    for b in range(127): os.mkdir(f'd{a}/{b}')";
    let ran = run().run(&["python3", "-c", make]);
    ran.expect_code(125);
    ran.expect(ran.stderr.contains("16384 directories"), "with the bound");
    let ran = run().shell("ls");
    ran.expect(ran.stdout == "before\n", "as it was");
}

/// Rules on what is present find what is in the layer alone.
#[test]
fn a_key_that_only_the_layer_has_is_guarded() {
    let layer = Layer::new();
    let begun = layer
        .run()
        .shell("mkdir -p .aws; echo key > .aws/credentials; mv .aws .away");
    begun.expect_code(0);
    layer.run().shell("mv .away .aws").expect_code(0);
    let ran = layer.run().shell("cat .aws/credentials");
    ran.expect_code(121);
    ran.expect(ran.stdout.is_empty(), "as if the host had it");
}

#[test]
fn a_rule_holds_on_what_an_earlier_run_has_kept() {
    let layer = Layer::new();
    let rule = "[[rule]]\nid = \"guard\"\nwhy = \"test\"\nseverity = \"high\"\naction = \"kill\"\non = \"open\"\npath = \"/workspace/guarded\"\n";
    layer.says("echo text > guarded; echo text > other", "");
    layer.run().profile(rule).shell("cat other").expect_code(0);
    let ran = layer.run().profile(rule).shell("cat guarded");
    ran.expect_code(121);
    ran.expect(
        ran.violations()[0]["path"] == "/workspace/guarded",
        "by its path",
    );
}

#[test]
fn a_layer_is_refused_where_it_cannot_be_one() {
    let place = scratch();
    let path = |name: &str| place.path().join(name).display().to_string();
    fs::create_dir(path("full")).unwrap();
    fs::write(path("full/file"), "").unwrap();
    fs::set_permissions(path("full"), PermissionsExt::from_mode(0o700)).unwrap();
    fs::create_dir(path("open")).unwrap();
    fs::set_permissions(path("open"), PermissionsExt::from_mode(0o755)).unwrap();
    fs::create_dir(path("theirs")).unwrap();
    fs::set_permissions(path("theirs"), PermissionsExt::from_mode(0o700)).unwrap();
    std::os::unix::fs::chown(path("theirs"), Some(65_534), None).unwrap();
    symlink(path("theirs"), path("link")).unwrap();
    let refused = |options: &str, fix: &str| {
        let ran = Run::new().option(options).shell("true");
        ran.expect_code(125);
        ran.expect(ran.stderr.contains(fix), options);
    };
    refused(&format!("--layer {}", path("full")), "empty or not there");
    refused(&format!("--layer {}", path("open")), "chmod 700");
    refused(&format!("--layer {}", path("theirs")), "chmod 700");
    refused(
        &format!("--layer {}", path("link")),
        "could not open the layer",
    );
    let shown = format!("--layer {} --read {}", path("new"), place.path().display());
    refused(&shown, "which the jail shows");
    let mode = format!("--layer {} --workdir-mode none", path("other"));
    refused(&mode, "--workdir-mode overlay");
    refused("--keep ../x", "no name of a layer");
    // Where none was, none is: neither the layer nor a directory above it; nor is one left by a run that did not start.
    let deep = format!(
        "--layer {}/a/b/new --workdir-mode none",
        place.path().display()
    );
    refused(&deep, "--workdir-mode overlay");
    let run = Run::new().option(&format!("--layer {}", path("begun")));
    run.run(&["/nowhere"]).expect_code(127);
    let names = fs::read_dir(place.path()).unwrap().flatten();
    let mut names: Vec<_> = names.map(|entry| entry.file_name()).collect();
    names.sort();
    assert_eq!(names, ["full", "link", "open", "theirs"]);
    assert_eq!(fs::read_dir(path("full")).unwrap().count(), 1);
    assert_eq!(fs::read_dir(path("theirs")).unwrap().count(), 0);
    assert_eq!(fs::read_dir(path("open")).unwrap().count(), 0);
}

#[test]
fn named_layers_are_listed_and_removed() {
    let (state, own) = (scratch(), scratch());
    let workdir = own.path().display().to_string();
    let turnkey = |arguments: &[&str]| {
        let mut command = std::process::Command::new(turnkey_tests::binary());
        let output = command
            .args(arguments)
            .env("XDG_STATE_HOME", state.path())
            .output();
        let output = output.unwrap();
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stdout).into_owned(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )
    };
    let run = |script: &str| {
        turnkey(&[
            "run",
            "--unmonitored",
            "--workdir",
            &workdir,
            "--keep",
            "agent-1",
            "--",
            "sh",
            "-c",
            script,
        ])
    };
    assert_eq!(
        turnkey(&["layers"]),
        (Some(0), String::new(), String::new())
    );
    let (code, _, told) = run("mkdir -p a/b && echo text > a/b/c");
    assert_eq!(code, Some(0), "{told}");
    assert_eq!(run("cat a/b/c").1, "text\n");
    assert_eq!(turnkey(&["layers"]).1, "agent-1\n");
    assert!(turnkey(&["layers", "--json"]).1.contains("\"agent-1\""));
    assert_eq!(turnkey(&["layers", "remove", "agent-1"]).0, Some(0));
    assert_eq!(turnkey(&["layers"]).1, "");
    let (code, _, told) = turnkey(&["layers", "remove", "agent-1"]);
    assert!(
        code == Some(125) && told.contains("there is no layer"),
        "{told}"
    );
    let names: Vec<_> = fs::read_dir(state.path().join("turnkey/layers"))
        .unwrap()
        .collect();
    assert!(names.is_empty(), "nothing is left");
}

/// An unprivileged caller's layer is the caller's own.
#[test]
fn an_unprivileged_caller_has_layers_too() {
    let home = scratch();
    open_to_all(home.path());
    std::os::unix::fs::chown(home.path(), Some(65_534), Some(65_534)).unwrap();
    let layer = home.path().join("layer");
    let run = |script: &str| {
        let run = Run::rootless().file("theirs", "host\n");
        let ran = run
            .option(&format!("--layer {}", layer.display()))
            .shell(script);
        ran.expect_code(0);
        ran.stdout
    };
    assert_eq!(
        run("echo text > file; mkdir d; ln -s file l; rm -f theirs"),
        ""
    );
    assert_eq!(
        run("cat file; rm file; ls"),
        "text\nd\nl\n",
        "what was kept is there"
    );
    assert_eq!(run("ls"), "d\nl\n", "and what was removed is not");
    let mark = layer.join("content/%2Fworkspace/theirs");
    let mark = mark.symlink_metadata().unwrap();
    assert!(
        mark.file_type().is_char_device() && mark.rdev() == 0,
        "by overlayfs's mark"
    );
    assert_eq!(mark.uid(), 65_534, "the caller's own");
}

#[test]
fn a_program_takes_its_caller_no_right_to_remove_the_layer() {
    let home = scratch();
    open_to_all(home.path());
    std::os::unix::fs::chown(home.path(), Some(65_534), Some(65_534)).unwrap();
    let place = scratch();
    open_to_all(place.path());
    let turnkey = turnkey_tests::binary_for_everybody(place.path());
    let turnkey = turnkey.to_str().unwrap();
    let state = format!("XDG_STATE_HOME={}", home.path().display());
    let layer = home.path().join("turnkey/layers/hard");
    let keep = |script: &str| {
        let run = Run::rootless().option(&format!("--layer {}", layer.display()));
        run.shell(script).expect_code(0);
    };
    let remove = || as_nobody("env", &[&state, turnkey, "layers", "remove", "hard"]);
    for (script, left) in [
        (
            "mkdir -p a/b && touch a/b/f && chmod 0 a/b && chmod 111 a",
            3,
        ),
        (
            "mkdir -p d/e && touch d/f && chmod 444 d/e && chmod 555 d .",
            3,
        ),
    ] {
        keep(script);
        let (_, found) = outside("find", &[layer.to_str().unwrap(), "-mindepth", "3"]);
        assert_eq!(found.lines().count(), left, "{found}");
        assert!(remove().0.success(), "{script}");
        assert!(!layer.exists(), "{script}");
    }
    // What cannot be removed whole is a layer still: another try ends it.
    keep("mkdir theirs");
    let theirs = layer.join("content/%2Fworkspace/theirs");
    fs::write(theirs.join("file"), "").unwrap();
    std::os::unix::fs::chown(&theirs, Some(0), Some(0)).unwrap();
    assert_eq!(remove().0.code(), Some(125));
    assert!(theirs.join("file").exists() && layer.join("lock").exists());
    std::os::unix::fs::chown(&theirs, Some(65_534), Some(65_534)).unwrap();
    assert!(remove().0.success() && !layer.exists());
}
