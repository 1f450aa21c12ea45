//! What the program sees of the host's files, and what it can change.

use std::process::{Command, Stdio};
use std::time::Instant;

use turnkey_tests::{Mount, Ran, Run, scratch};

#[test]
fn writes_to_the_workspace_are_thrown_away_and_told() {
    let run = Run::new()
        .file("kept.txt", "before\n")
        .file("gone.txt", "still here\n");
    let ran = run
        .shell("echo after >> kept.txt; rm gone.txt; echo new > new.txt; cat kept.txt new.txt; ls");
    ran.expect_code(0);
    ran.expect(
        ran.stdout == "before\nafter\nnew\nkept.txt\nnew.txt\n",
        "inside, the writes are there",
    );
    let read = |name: &str| std::fs::read_to_string(ran.directory.path().join(name)).ok();
    ran.expect(
        read("kept.txt").as_deref() == Some("before\n"),
        "the host's file is as it was",
    );
    ran.expect(
        read("gone.txt").as_deref() == Some("still here\n"),
        "the removed file is there",
    );
    ran.expect(read("new.txt").is_none(), "the new file is not");
    let change = |path: &str| {
        let found = ran
            .list("/files_changed")
            .iter()
            .find(|file| file["path"] == path);
        found.map(|file| file["change"].as_str().unwrap_or_default().to_owned())
    };
    ran.expect(
        change("kept.txt").as_deref() == Some("modified"),
        "modified",
    );
    ran.expect(change("gone.txt").as_deref() == Some("deleted"), "deleted");
    ran.expect(change("new.txt").as_deref() == Some("added"), "added");
}

#[test]
fn a_private_directory_of_root_can_be_the_workspace() {
    let run = Run::new().file("mine.txt", "only mine\n");
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    std::fs::set_permissions(run.path(), private).unwrap();
    std::fs::set_permissions(
        run.path().join("mine.txt"),
        std::os::unix::fs::PermissionsExt::from_mode(0o600),
    )
    .unwrap();
    let ran = run.shell("cat mine.txt && echo more >> mine.txt && stat -c %U mine.txt");
    ran.expect_code(0);
    ran.expect(
        ran.stdout == "only mine\njail\n",
        "the caller's files belong to the jail's user",
    );
}

#[test]
fn system_directories_cannot_be_written() {
    let ran = Run::new().shell(
        "for place in / /usr /usr/bin /etc /dev /proc/sys/kernel; do
           touch $place/turnkey-was-here 2>/dev/null && echo wrote $place; done; true",
    );
    ran.expect(ran.stdout.is_empty(), "no write succeeded");
    ran.expect(
        !std::path::Path::new("/usr/bin/turnkey-was-here").exists(),
        "nothing on the host",
    );
}

#[test]
pub fn the_hosts_other_files_are_not_there() {
    let secret = scratch();
    std::fs::write(secret.path().join("secret"), "hidden").unwrap();
    let path = secret.path().join("secret");
    let ran = Run::new().shell(&format!(
        "cat {}; find /root /home /run /sys /var 2>/dev/null",
        path.display()
    ));
    ran.expect(
        !ran.stdout.contains("hidden"),
        "a file outside of the jail's tree",
    );
    const OWN: &str = "/sys /var /var/tmp";
    let mut found: Vec<&str> = ran.stdout.lines().collect();
    found.sort_unstable();
    ran.expect(
        found.join(" ") == OWN,
        "no such directories, but for what is made for each jail",
    );
}

#[test]
pub fn a_path_named_with_read_is_there_and_read_only() {
    let data = scratch();
    let file = data.path().join("data.txt");
    std::fs::write(&file, "readable").unwrap();
    std::fs::set_permissions(
        data.path(),
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .unwrap();
    let (directory, file_text) = (
        data.path().display().to_string(),
        file.display().to_string(),
    );
    let ran = Run::new()
        .option(&format!("--read {directory}"))
        .shell(&format!("cat {file_text}; echo x > {file_text}"));
    ran.expect(ran.stdout == "readable", "it can be read");
    ran.expect(
        std::fs::read_to_string(&file).unwrap() == "readable",
        "it cannot be written",
    );
}

/// Whoever knows docker types its mounts: the flag that is told shows the path.
#[test]
fn a_mount_as_other_tools_write_it_is_told_in_ones_own_words() {
    let data = scratch();
    turnkey_tests::open_to_all(data.path());
    let place = data.path().display().to_string();
    for mount in [format!("{place}:ro"), format!("{place}:/data:ro")] {
        let wrong = Run::new().option(&format!("--read {mount}")).shell("true");
        wrong.expect_code(125);
        wrong.expect(
            wrong.stderr.contains(&format!("`--read {mount}`: ")),
            "which",
        );
        let flag = format!("--read {place}");
        wrong.expect(
            wrong.stderr.contains(&format!("`{flag}` shows it")),
            "the fix",
        );
        let shown = Run::new().option(&flag).shell(&format!("ls -d {place}"));
        shown.expect(shown.stdout.trim() == place, "it does");
        let profile = wrong.stderr.split_once("[filesystem] read = ");
        wrong.expect(
            profile.is_some() == mount.contains("/data"),
            "the other place",
        );
        if let Some((_, line)) = profile {
            let lines = format!("[filesystem]\nread = {}", line.trim());
            let there = Run::new().profile(&lines).shell("ls -d /data");
            there.expect(there.stdout == "/data\n", "the line is right");
        }
    }
}

#[test]
fn a_path_named_with_write_is_written() {
    let data = scratch();
    let directory = data.path().display().to_string();
    let ran = Run::new()
        .option(&format!("--write {directory}"))
        .shell(&format!("echo kept > {directory}/out"));
    ran.expect_code(0);
    ran.expect(
        std::fs::read_to_string(data.path().join("out")).unwrap() == "kept\n",
        "on the host",
    );
    let owner =
        std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(data.path().join("out")).unwrap());
    ran.expect(owner == 0, "it belongs to the directory's owner");
}

#[test]
fn a_path_of_the_host_can_be_at_another_place() {
    let (read, write) = (scratch(), scratch());
    turnkey_tests::open_to_all(read.path());
    std::fs::write(read.path().join("model"), "weights\n").unwrap();
    let (from, to) = (read.path().display(), write.path().display());
    let run = Run::new().profile(&format!(
        "[filesystem]\nread = [{{ path = \"{from}\", at = \"/models\" }}]\n\
         write = [{{ path = \"{to}\", at = \"/results/today\", why = \"test\" }}]\n"
    ));
    let ran = run.shell(&format!(
        "cat /models/model; echo x > /models/new; echo done > /results/today/out; ls -d {from} {to}; ls /results"
    ));
    ran.expect(ran.stdout == "weights\ntoday\n", "there, and nowhere else");
    ran.expect(!read.path().join("new").exists(), "read-only");
    let written = std::fs::read_to_string(write.path().join("out"));
    ran.expect(written.is_ok_and(|text| text == "done\n"), "on the host");
}

#[test]
pub fn j15_no_descriptor_of_the_caller_is_inherited() {
    let run = Run::new();
    let mut command = run.command(&["/bin/ls", "/proc/self/fd"]);
    // The control: without close-on-exec, a child of this test has the descriptor.
    let leaked = std::fs::File::open("/").unwrap();
    nix::fcntl::fcntl(
        &leaked,
        nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::empty()),
    )
    .unwrap();
    let (_, listing) = turnkey_tests::outside("/bin/ls", &["-l", "/proc/self/fd"]);
    assert!(
        listing.lines().any(|line| line.ends_with("-> /")),
        "the control run has it: {listing}"
    );
    let output = turnkey_tests::finish(
        command
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap(),
    );
    let listing = String::from_utf8_lossy(&output.stdout);
    // 3 is the listing's own descriptor of the directory.
    assert_eq!(
        listing.split_whitespace().collect::<Vec<_>>(),
        ["0", "1", "2", "3"]
    );
}

#[test]
pub fn j11_proc_carries_every_restriction() {
    let restrictions = |mountinfo: &str| {
        let options = mountinfo.split(' ').nth(5).unwrap_or_default();
        let wanted = |option: &&str| ["ro", "nosuid", "nodev", "noexec"].contains(option);
        options.split(',').filter(wanted).count()
    };
    let place = scratch();
    let mount = format!(
        "mount -t proc none {0} && grep ' {0} ' /proc/self/mountinfo",
        place.path().display()
    );
    let arguments = ["-Urmpf", "sh", "-c", &mount];
    let (_, control) = turnkey_tests::outside("unshare", &arguments);
    assert!(
        control.contains(" - proc ") && restrictions(&control) == 0,
        "the control: a mount without care has none: {control}"
    );
    let ran = Run::new().shell("grep ' /proc ' /proc/self/mountinfo");
    ran.expect(restrictions(&ran.stdout) == 4, "all four");
    // What covers its parts are copies of each other: all of them carry it, files as directories.
    let ran = Run::new().shell("grep ' /proc/' /proc/self/mountinfo");
    ran.expect(ran.stdout.lines().count() >= 8, "parts are covered");
    for cover in ran.stdout.lines() {
        ran.expect(restrictions(cover) == 4, cover);
    }
}

#[test]
pub fn j09_a_mount_inside_a_read_only_directory_is_read_only_too() {
    let outer = scratch();
    let inner = outer.path().join("inner");
    std::fs::create_dir(&inner).unwrap();
    std::fs::set_permissions(
        outer.path(),
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .unwrap();
    let place = inner.display().to_string();
    let _mount = Mount::new(&["-t", "tmpfs", "none"], &inner);
    std::fs::write(inner.join("tool"), "#!/bin/sh\necho ran\n").unwrap();
    std::fs::set_permissions(&inner, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    // The control: a view that is read-only at its top alone leaves the inner mount writable.
    let shallow = format!(
        "mount --rbind {0} {0} && mount -o remount,bind,ro {0} && touch {place}/shallow && \
         ! touch {0}/shallow 2>/dev/null && echo open",
        outer.path().display()
    );
    let (_, control) = turnkey_tests::outside("unshare", &["--mount", "sh", "-c", &shallow]);
    let option = format!("--read {}", outer.path().display());
    let ran = Run::new().option(&option).shell(&format!(
        "cat {place}/tool; echo x > {place}/written; grep ' {place} ' /proc/self/mountinfo"
    ));
    let written = inner.join("written").exists();
    ran.expect(
        ran.stdout.contains("echo ran"),
        "the inner mount is visible",
    );
    assert_eq!(control, "open\n", "the control");
    ran.expect(!written, "and cannot be written");
    ran.expect(
        ran.stdout.contains(&format!(" {place} ro,nosuid,nodev")),
        "nor is a set-user-ID bit or a device in it worth anything",
    );
}

/// What is worth something in a mount below one that is handed in: a program that makes anybody
/// root, and a device that anybody may read.
#[test]
fn j09_a_set_user_id_bit_and_a_device_in_a_mount_inside_are_worth_nothing() {
    let outer = scratch();
    let inner = outer.path().join("inner");
    std::fs::create_dir(&inner).unwrap();
    turnkey_tests::open_to_all(outer.path());
    let place = inner.display().to_string();
    let _mount = Mount::new(&["-t", "tmpfs", "-o", "mode=755", "none"], &inner);
    let prepare = format!(
        "cp /usr/bin/id {place}/id && chmod 4755 {place}/id && mknod -m 444 {place}/zero c 1 5"
    );
    let (prepared, _) = turnkey_tests::outside("sh", &["-c", &prepare]);
    let script = format!("{place}/id -u; head -c 3 {place}/zero | wc -c");
    let (_, control) = turnkey_tests::as_nobody("/bin/sh", &["-c", &script]);
    let option = format!("--read {}", outer.path().display());
    let ran = Run::new().option(&option).shell(&script);
    assert!(prepared.success());
    assert_eq!(control, "0\n3\n", "the control: outside both are");
    ran.expect(
        ran.stdout == "1000\n0\n",
        "still the jail's user, and not a byte",
    );
}

#[test]
pub fn j37_a_socket_of_the_host_is_not_reachable() {
    let directory = scratch();
    let path = directory.path().join("service.sock");
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    assert!(
        std::os::unix::net::UnixStream::connect(&path).is_ok(),
        "the control: outside it answers"
    );
    drop(listener.accept().unwrap());
    let program = format!(
        "import socket; socket.socket(socket.AF_UNIX).connect({:?})",
        path.display().to_string()
    );
    let ran = Run::new().python(&program);
    ran.expect(ran.code != 0, "the connect failed");
    listener.set_nonblocking(true).unwrap();
    ran.expect(listener.accept().is_err(), "nobody came");
}

#[test]
pub fn the_caller_s_command_line_and_environment_do_not_show() {
    let run = Run::new();
    let mut command = run.command(&[
        "/bin/sh",
        "-c",
        "tr '\\0' ' ' < /proc/1/cmdline; cat /proc/1/environ; env",
    ]);
    command
        .env("HOST_SECRET", "swordfish")
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    let output = turnkey_tests::finish(command.spawn().unwrap());
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(!text.contains("swordfish"), "{text}");
    assert!(!text.contains("report.json"), "{text}");
    assert!(text.contains("turnkey-init"), "{text}");
}

#[test]
fn what_the_host_has_and_the_jail_has_not_is_told() {
    let data = scratch();
    let file = data.path().join("input.csv");
    std::fs::write(&file, "1,2,3").unwrap();
    let path = file.display().to_string();
    let ran = Run::new().run(&["cat", &path]);
    ran.expect_code(1);
    ran.expect(
        ran.stderr.contains(&format!("--read {path}")),
        "the flag that would bring it in",
    );
    let fine = Run::new().shell(&format!("cat {path} 2>/dev/null; exit 0"));
    fine.expect(
        !fine.stderr.contains("--read"),
        "nobody is bothered when all went well",
    );
}

/// Lists what it is given, then reads it by name.
const LOOK_ROUND: &str = "
for place in / $1 $1/inner; do ls $place 2> /dev/null | grep -x -e 'known' -e 'usr' -e 'deep'; done
cat $1/known $1/inner/deep $1/tool; $1/tool";

#[test]
fn what_is_given_by_name_can_be_used_and_not_listed() {
    // Not in /tmp, which a jail has of its own, to list and to write.
    let data = tempfile::tempdir_in("/var/tmp").expect("root can write there");
    let place = data.path().display().to_string();
    turnkey_tests::open_to_all(data.path());
    std::fs::create_dir(data.path().join("inner")).unwrap();
    let tool = data.path().join("tool");
    for (name, text) in [
        ("known", "a\n"),
        ("inner/deep", "b\n"),
        ("tool", "#!/bin/sh\necho c\n"),
    ] {
        std::fs::write(data.path().join(name), text).unwrap();
    }
    std::fs::set_permissions(&tool, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let look = |list: &str| {
        let read = format!(
            "[filesystem]\nread = [{{ path = \"{place}\"{list} }}, {{ path = \"{place}/inner\" }}]\n"
        );
        Run::new()
            .profile(&read)
            .run(&["/bin/sh", "-c", LOOK_ROUND, "look", &place])
    };
    let used = "a\nb\n#!/bin/sh\necho c\nc\n";
    let listed = look("");
    listed.expect(
        listed.stdout == format!("usr\nknown\ndeep\n{used}"),
        "the control: all is listed, and used",
    );
    let by_name = look(", list = false");
    by_name.expect(
        by_name.stdout == format!("deep\n{used}"),
        "nothing but what another entry gives is listed, and all is used by name",
    );
    let mut attempts = by_name.list("/file_operations").iter();
    by_name.expect(
        attempts.any(|one| {
            one["path"] == place.as_str()
                && one["result"] == "denied"
                && one["stopped_by"] == "landlock"
        }),
        "the attempt is told, and what stopped it",
    );
}

/// A run whose caller withholds these rights from what it makes.
fn under_umask(umask: &str, run: Run, script: &str) -> Ran {
    let plain = run.command(&["/bin/sh", "-c", script]);
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "umask $0; exec \"$@\"", umask]);
    command
        .arg(plain.get_program())
        .args(plain.get_args())
        .current_dir(run.path());
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let child = command.spawn().expect("a shell can be started");
    run.end(child, Instant::now())
}

#[test]
fn the_tree_is_the_same_under_every_umask_and_the_program_inherits_it() {
    let list =
        "umask; find / -path /proc -prune -o -path '/usr/*' -prune -o -printf '%m %p\\n' | sort";
    for root in ["read-only", "overlay"] {
        let profile = format!("[filesystem]\nroot_mode = \"{root}\"\n");
        let run = || Run::new().option("--unmonitored").profile(&profile);
        let usual = under_umask("0022", run(), list);
        usual.expect_code(0);
        usual.expect(usual.stdout.lines().count() > 100, "the control: a tree");
        // Each run with a writable tree looks at the mode of each file below /usr, for a second.
        let others: &[&str] = match root {
            "overlay" => &["0777"],
            _ => &["0000", "0077", "0777"],
        };
        for umask in others {
            let ran = under_umask(umask, run(), list);
            ran.expect_code(0);
            ran.expect(
                ran.stdout.replacen(*umask, "0022", 1) == usual.stdout,
                "the tree is as under 022, and the program's own umask the caller's",
            );
        }
    }
}

/// Directories of a layer are the host's, and are made with the caller's umask.
#[test]
fn a_layer_that_is_made_under_the_tightest_umask_is_kept() {
    let layer = scratch();
    let owner_alone = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    std::fs::set_permissions(layer.path(), owner_alone).expect("it is the test's");
    let option = format!("--layer {}", layer.path().display());
    let run = || Run::new().option("--unmonitored").option(&option);
    under_umask("0777", run(), "umask 022; mkdir d; echo kept > d/f").expect_code(0);
    let ran = under_umask("0777", run(), "cat d/f");
    ran.expect(ran.stdout == "kept\n", "the next run has it");
}
