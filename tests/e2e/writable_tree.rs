//! A tree that takes writes and throws them away, `root_mode = "overlay"`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use turnkey_tests::{Mount, Ran, Run, open_to_all, outside, scratch};

/// Gives a file an access list by which user 0 may read it: acl(5), as the kernel has it in an attribute.
const LIST: &str = "import os, struct, sys
entries = [(1, 6, -1), (2, 4, 0), (4, 0, -1), (16, 4, -1), (32, 0, -1)]
value = struct.pack('<I', 2) + b''.join(struct.pack('<HHi', *entry) for entry in entries)
os.setxattr(sys.argv[1], 'system.posix_acl_access', value)";

fn overlay() -> Run {
    Run::new().option("--root-mode overlay")
}

fn mode(path: &Path, bits: u32) {
    let mode = PermissionsExt::from_mode(bits);
    fs::set_permissions(path, mode).expect("a test can close its own files");
}

#[track_caller]
fn change(ran: &Ran, path: &str) -> Option<String> {
    let mut found = ran.list("/files_changed").iter();
    let found = found.find(|file| file["path"] == path)?;
    found["change"].as_str().map(str::to_owned)
}

#[test]
fn writes_to_the_tree_are_thrown_away_and_told() {
    let data = scratch();
    open_to_all(data.path());
    fs::write(data.path().join("kept"), "before\n").unwrap();
    fs::write(data.path().join("gone"), "here\n").unwrap();
    let data = data.path().display().to_string();
    let script = format!(
        "echo '#!/bin/sh\necho tool' > /usr/bin/turnkey-tool && chmod +x /usr/bin/turnkey-tool &&
         mkdir -p /opt/app && echo set > /etc/app.conf && echo 10.0.0.1 db >> /etc/hosts &&
         echo after >> {data}/kept && rm {data}/gone && echo mine > mine &&
         turnkey-tool && cat {data}/kept && tail -n 1 /etc/hosts && ls {data}"
    );
    let control = Run::new().shell("echo x > /usr/bin/turnkey-tool");
    control.expect_code(2);
    let run = overlay().option(&format!("--read {data}"));
    let ran = run.shell(&script);
    ran.expect_code(0);
    ran.expect(
        ran.stdout == "tool\nbefore\nafter\n10.0.0.1 db\nkept\n",
        "inside, the writes are there",
    );
    for (path, kind) in [
        ("/usr/bin/turnkey-tool", Some("added")),
        ("/opt/app", Some("added")),
        ("/etc/app.conf", Some("added")),
        ("/etc/hosts", Some("modified")),
        (&format!("{data}/kept"), Some("modified")),
        (&format!("{data}/gone"), Some("deleted")),
        ("mine", Some("added")),
        ("/usr/bin", None),
        ("/etc", None),
        ("/.turnkey-written", None),
    ] {
        ran.expect(change(&ran, path).as_deref() == kind, path);
    }
    let kept = fs::read_to_string(format!("{data}/kept")).unwrap();
    ran.expect(kept == "before\n", "the host's file is as it was");
    ran.expect(Path::new(&data).join("gone").exists(), "nothing is removed");
    for made in ["/usr/bin/turnkey-tool", "/opt/app", "/etc/app.conf"] {
        ran.expect(!Path::new(made).exists(), made);
    }
    ran.expect(
        ran.at("/verdict") == "clean",
        "it is the program's own tree",
    );
}

/// The owner of a directory appears as the jail's user, and what only the owner may read must not.
#[test]
fn nothing_more_of_the_host_shows() {
    let data = scratch();
    open_to_all(data.path());
    let place = |name: &str| data.path().join(name);
    for name in [
        "private",
        "group",
        "d/deep",
        "closed/file",
        "enter/file",
        "nobodys",
        "listed",
        "shut/file",
        "public",
    ] {
        fs::create_dir_all(place(name).parent().unwrap()).unwrap();
        fs::write(place(name), "text\n").unwrap();
    }
    mode(&place("private"), 0o600);
    mode(&place("group"), 0o640);
    mode(&place("d/deep"), 0o400);
    mode(&place("closed"), 0o700);
    mode(&place("enter"), 0o744);
    // What an owner could open up, were the jail's user the owner.
    mode(&place("nobodys"), 0o200);
    mode(&place("shut"), 0o200);
    // A stranger's file that names the directory's owner in its list: user_obj, user 0, group, mask, other.
    mode(&place("listed"), 0o600);
    std::os::unix::fs::chown(place("listed"), Some(1234), Some(1234)).unwrap();
    let (status, _) = outside(
        "/usr/bin/python3",
        &["-c", LIST, &place("listed").display().to_string()],
    );
    assert!(status.success(), "the file system has access lists");
    fs::create_dir_all(place("nest/in")).unwrap();
    fs::write(place("nest/in/beneath"), "").unwrap();
    let _mount = Mount::new(&["-t", "tmpfs", "none"], &place("nest/in"));
    fs::write(place("nest/in/mounted"), "").unwrap();
    let script =
        "cd $0; cat private group d/deep closed/file enter/file; ls closed; ls nest/in; cat public
        (echo x > private) 2>/dev/null; chmod 644 private nobodys; chmod 755 shut; cat nobodys shut/file listed; ln private link; mv d e; cat e/deep link
        echo x > nest/in/new; echo new > public; cat public";
    let data = data.path().display().to_string();
    let look = |option: &str| {
        let run = Run::new().option(option).option(&format!("--read {data}"));
        let ran = run.run(&["/bin/sh", "-c", script, &data]);
        ran.expect_code(0);
        ran.stdout
    };
    assert_eq!(
        look("--root-mode read-only"),
        "mounted\ntext\ntext\n",
        "the control"
    );
    // Its own file, where it does not see the host's.
    assert_eq!(look("--root-mode overlay"), "mounted\ntext\nx\nnew\n");
    let host = fs::read_to_string(place("private")).unwrap();
    assert_eq!(host, "text\n", "that one is as it was");
}

/// A name of the host that the jail does not have is the program's to give, and nothing tells what the host has below it.
#[test]
fn an_absent_name_is_the_programs_own() {
    let place = scratch();
    let data = place.path().join("data");
    fs::create_dir_all(data.join("closed")).unwrap();
    fs::write(data.join("closed/secret"), "text\n").unwrap();
    for directory in [place.path(), &data] {
        open_to_all(directory);
    }
    mode(&data.join("closed"), 0o700);
    let (layer, data) = (place.path().join("layer"), data.display());
    let options = format!("--layer {} --read {data}", layer.display());
    let run = |script: &str| {
        let ran = overlay()
            .option(&options)
            .shell(&format!("cd {data}; {script}"));
        ran.expect_code(0);
        ran
    };
    let ran =
        run("ls -A; mkdir closed; echo own > closed/secret; echo own > closed/other; cat closed/*");
    ran.expect(ran.stdout == "own\nown\n", "nothing of the host's");
    let secret = change(&ran, &format!("{data}/closed/secret"));
    ran.expect(secret.as_deref() == Some("added"), "it was not there");
    let ran = run("rm closed/secret; ls -lA closed | wc -l");
    ran.expect(ran.stdout == "2\n", "a line for the other one");
    let ran = run("ls -A closed; mv closed open; ls -A . open");
    ran.expect(
        ran.stdout == "other\n.:\nopen\n\nopen:\nother\n",
        "no mark of the host's",
    );
}

#[test]
fn a_rule_holds_on_what_is_copied_to_be_written() {
    let data = scratch();
    open_to_all(data.path());
    for name in ["guarded", "other"] {
        fs::write(data.path().join(name), "text\n").unwrap();
    }
    let place = data.path().display().to_string();
    let run = || {
        let run = overlay().option(&format!("--read {place}"));
        run.profile(&format!(
            "[[rule]]\nid = \"guard\"\nwhy = \"test\"\nseverity = \"high\"\naction = \"kill\"\n\
             on = \"open\"\naccess = [\"write\"]\npath = \"{place}/guarded\"\n"
        ))
    };
    let control = run().shell(&format!("echo x >> {place}/other; cat {place}/guarded"));
    control.expect_code(0);
    // What was copied already, to change its mode, is still the same file to the rule.
    let ran = run().shell(&format!(
        "cd {place}; chmod 600 guarded; echo x >> guarded; echo on"
    ));
    ran.expect(!ran.stdout.contains("on"), "it is ended");
    let told = &ran.violations()[0]["path"];
    ran.expect(*told == format!("{place}/guarded"), "by its own path");
    ran.expect_code(121);
}

#[test]
fn the_tree_holds_as_much_as_the_limit() {
    let ran = overlay().option("--disk 2M").shell(
        "head -c 1M /dev/zero > /usr/share/a && echo fits; mkdir /opt; head -c 4M /dev/zero > /opt/b; stat -c %s /opt/b",
    );
    let rest = ran.stdout.lines().nth(1).and_then(|rest| rest.parse().ok());
    ran.expect(ran.stdout.starts_with("fits\n"), "what fits");
    ran.expect(
        rest.is_some_and(|rest: u32| rest <= 1 << 20),
        "and not more, in all places together",
    );
}

#[test]
fn a_writable_tree_is_no_way_to_devices_or_to_other_rights() {
    let ran = overlay().option("--user root --mode observe").shell(
        "cp /usr/bin/id /usr/bin/own && chmod 4755 /usr/bin/own; own -u
         mknod /opt-device c 1 3; mknod /whiteout c 0 0; touch /proc/x /sys/x; echo x > /dev/made && cat /dev/made
         setfattr -n user.overlay.opaque -v y /usr/local 2>&1 || python3 -c 'import os; os.setxattr(\"/usr/local\", \"user.overlay.opaque\", b\"y\")' 2>&1 | tail -n 1 | cut -d: -f1
         rm -rf /proc /dev/null; ls -d /proc; ls / | wc -l; grep -c ' / / ' /proc/self/mountinfo",
    );
    ran.expect(!Path::new("/opt-device").exists(), "nothing on the host");
    let lines: Vec<&str> = ran.stdout.lines().collect();
    ran.expect(lines.first() == Some(&"0"), "the user that it was");
    ran.expect(lines.get(1) == Some(&"x"), "/dev takes files");
    ran.expect(ran.stdout.contains("/proc\n"), "mounts stay");
    let changed = ran.list("/files_changed").iter();
    let names: Vec<_> = changed.filter_map(|file| file["path"].as_str()).collect();
    ran.expect(names.contains(&"/dev/made"), "what was made is told");
    ran.expect(
        !names.contains(&"/whiteout") && !names.contains(&"/opt-device"),
        "no device",
    );
}

#[test]
fn who_cannot_have_it_is_told_why() {
    let ran = Run::rootless().option("--root-mode overlay").shell("true");
    ran.expect_code(125);
    ran.expect(ran.stderr.contains("--scratch PATH=SIZE"), "with the fix");
    let own = scratch();
    fs::create_dir(own.path().join("etc")).unwrap();
    let ran = overlay()
        .option(&format!("--root {}", own.path().display()))
        .shell("true");
    ran.expect_code(125);
    ran.expect(ran.stderr.contains("leave one of them out"), "with the fix");
}
