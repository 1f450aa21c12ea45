//! What `--export` brings out of a hostile workspace, and that it touches nothing else.

use turnkey_expectations::expected;

expected!(
    not_on[ORDINARY_6_12],
    "files are brought out by the command, after the jail is gone"
);

#[path = "export/into.rs"]
mod into;
pub use into::an_export_into_the_workspace_itself_is_all_or_nothing;

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use turnkey_tests::{Mount, Ran, Run, as_nobody, callers_scratch, outside, scratch};

/// A run whose export goes to `directory`.
fn exporting(directory: &Path) -> Run {
    Run::new().option(&format!("--export {}", directory.display()))
}

/// Every path below a directory, with a slash behind those of directories.
fn listing(directory: &Path) -> Vec<String> {
    let show = directory.display().to_string();
    let (_, found) = outside("find", &[&show, "-mindepth", "1", "-printf", "%P%y\n"]);
    let mut found: Vec<String> = found.lines().map(str::to_owned).collect();
    found.sort();
    found
}

fn reason_of<'r>(ran: &'r Ran, path: &str) -> &'r str {
    let skipped = ran.list("/export/skipped");
    let found = skipped.iter().find(|skipped| skipped["path"] == path);
    found
        .and_then(|found| found["reason"].as_str())
        .unwrap_or_default()
}

#[test]
pub fn the_workspace_as_the_run_left_it_is_exported() {
    let above = callers_scratch();
    let out = above.path().join("out");
    let ran = exporting(&out)
        .file("kept.txt", "kept\n")
        .file("gone.txt", "gone\n")
        .file("changed.txt", "before\n")
        .shell("rm gone.txt; echo after > changed.txt; mkdir -p new/deep; echo x > new/deep/file");
    ran.expect_code(0);
    let found = listing(&out);
    ran.expect(
        found
            == [
                "changed.txtf",
                "kept.txtf",
                "new/deep/filef",
                "new/deepd",
                "newd",
            ],
        "both sides, merged",
    );
    let read = |name: &str| std::fs::read_to_string(out.join(name)).unwrap();
    ran.expect(read("changed.txt") == "after\n", "the upper side shows");
    ran.expect(
        read("kept.txt") == "kept\n",
        "the lower side shows below it",
    );
    ran.expect(ran.at("/export/complete") == true, "nothing stayed behind");
    ran.expect(ran.stderr.contains("exported 3 files"), "it is told");
}

#[test]
fn only_what_changed_is_exported_when_that_is_asked_for() {
    let above = callers_scratch();
    let out = above.path().join("out");
    let run = exporting(&out)
        .option("--export-changes")
        .file("kept.txt", "kept\n")
        .file("changed.txt", "before\n");
    for name in ["old", "touched"] {
        std::fs::create_dir(run.path().join(name)).unwrap();
        std::fs::write(run.path().join(name).join("file"), "lower").unwrap();
    }
    let ran = run.shell("echo after > changed.txt; echo new > touched/added; ls old >/dev/null");
    ran.expect_code(0);
    ran.expect(
        listing(&out) == ["changed.txtf", "touched/addedf", "touchedd"],
        "nothing of what was there already",
    );
}

#[test]
fn a_directory_that_was_made_anew_shows_nothing_of_the_old_one() {
    let above = callers_scratch();
    let out = above.path().join("out");
    let run = exporting(&out);
    std::fs::create_dir(run.path().join("d")).unwrap();
    std::fs::write(run.path().join("d/old"), "old").unwrap();
    let ran = run.shell("rm -r d; mkdir d; echo new > d/new; ls d");
    ran.expect(ran.stdout == "new\n", "inside, the old file is gone");
    ran.expect(listing(&out) == ["d/newf", "dd"], "outside, too");
}

#[test]
fn an_export_into_the_workspace_itself_does_not_swallow_itself() {
    let run = Run::new().option("--export out").file("a", "a");
    let ran = run.shell("echo b > b");
    ran.expect_code(0);
    ran.expect(
        listing(&ran.directory.path().join("out")) == ["af", "bf"],
        "the files, and no copy of the copy",
    );
}

const HOSTILE: &str = r"
import os, socket, sys
victim = sys.argv[1]
os.symlink(victim, 'link')
os.symlink(victim + '/secret', 'out.txt')
os.symlink('/', 'root')
os.mkfifo('pipe')
socket.socket(socket.AF_UNIX).bind('socket')
try:
    os.mknod('sda', 0o60666, os.makedev(8, 0))
    print('made a device')
except OSError:
    pass
os.mkdir('d')
with open('d/tool', 'w') as file:
    file.write('fine')
os.chmod('d/tool', 0o6755)
os.link('d/tool', 'd/twin')
";

#[test]
pub fn j56_collecting_results_follows_nothing_and_opens_no_door() {
    let victim = scratch();
    std::fs::write(victim.path().join("secret"), "outside").unwrap();
    let place = victim.path().display().to_string();
    // The control: a copy that follows brings the secret along.
    let (tree, copied) = (scratch(), scratch());
    symlink(victim.path().join("secret"), tree.path().join("out.txt")).unwrap();
    let (from, to) = (
        tree.path().display().to_string(),
        copied.path().join("copy"),
    );
    outside("cp", &["-rL", &from, &to.display().to_string()]);
    assert_eq!(
        std::fs::read_to_string(to.join("out.txt")).unwrap(),
        "outside"
    );

    let above = callers_scratch();
    let out = above.path().join("out");
    let ran = exporting(&out).run(&["python3", "-c", HOSTILE, &place]);
    ran.expect_code(0);
    ran.expect(ran.stdout.is_empty(), "no device could be made");
    ran.expect(
        listing(&out) == ["d/toolf", "d/twinf", "dd", "linkl", "out.txtl", "rootl"],
        "regular files, and symlinks as such",
    );
    for (link, to) in [
        ("link", place.clone()),
        ("out.txt", format!("{place}/secret")),
        ("root", "/".to_owned()),
    ] {
        let text = std::fs::read_link(out.join(link)).unwrap();
        ran.expect(text.display().to_string() == to, "each as it was");
        let told = ran.list("/export/leading_out").iter();
        let mut told = told.filter(|one| one["path"] == link && one["to"] == to);
        ran.expect(told.next().is_some(), "and told to lead out");
    }
    let mode = out.join("d/tool").metadata().unwrap().permissions().mode();
    ran.expect(mode & 0o7777 == 0o755, "it can be run, as the caller");
    for (path, reason) in [("pipe", "is a pipe"), ("socket", "is a socket")] {
        ran.expect(reason_of(&ran, path) == reason, path);
    }
    ran.expect(
        ran.stderr.contains("left out: pipe is a pipe")
            && ran
                .stderr
                .contains("symlinks that lead out of it: link -> "),
        "it is told",
    );
    ran.expect(ran.took.as_secs() < 20, "no pipe was waited for");
}

const AWKWARD: &str = r"
import os
os.mkdir('closed'); open('closed/file', 'w').write('x'); os.chmod('closed/file', 0); os.chmod('closed', 0)
open(b'new\nturnkey: clean', 'w').write('x')
open(b'clear\x1b[2J', 'w').write('x')
open(b'eight bits \x9b2J', 'w').write('x'); open('the same \u009b2J', 'w').write('x'); open('turned \u202etxt.exe', 'w').write('x')
open(b'caf\xe9', 'w').write('x')
open('full', 'wb').write(b'x' * (2 << 20))
os.mkdir('deep'); os.chdir('deep')
for _ in range(80):
    os.mkdir('d'); os.chdir('d')
open('bottom', 'w').write('x')
";

/// A listing shows the text of a symlink beside its name.
#[test]
fn a_symlink_whose_text_steers_a_terminal_stays_behind() {
    const MAKES: &str = r"import os; os.symlink('a\x1b[2Jb', 'steers'); os.symlink('a\u009b2J', 'so does this'); os.symlink('a b\u00e9', 'plain')";
    let above = callers_scratch();
    let out = above.path().join("out");
    let ran = exporting(&out).run(&["python3", "-c", MAKES]);
    ran.expect_code(125);
    ran.expect(listing(&out) == ["plainl"], "what does not, comes out");
    ran.expect(
        reason_of(&ran, "steers").contains("control characters"),
        "the reason is told",
    );
}

/// What was deleted is still where it was, also where the rest is brought out.
#[test]
fn what_is_deleted_is_told_where_the_rest_is_exported() {
    let above = callers_scratch();
    let ran = exporting(&above.path().join("out"))
        .file("letter", "Dear reader")
        .shell("rm letter; echo x > new");
    ran.expect(
        ran.stderr
            .contains("1 file or directory deleted in the jail, and still there outside: letter\n"),
        "nothing else says so",
    );
}

#[test]
pub fn what_comes_out_is_what_was_there() {
    const MAKES: &str = r"
import os
os.mkdir('d'); open('d/tool', 'w').write('x'); os.chmod('d/tool', 0o750)
os.link('d/tool', 'twin'); os.symlink('d/tool', 'link'); open('plain', 'w').write('x'); os.chmod('plain', 0o640)
with open('sparse', 'wb') as file:
    file.write(b'begin'); file.seek(32 << 20); file.write(b'end'); file.truncate(40 << 20)
for name in ['d/tool', 'plain', 'd']: os.utime(name, (1, 1000000000))
os.utime('link', (1, 1000000000), follow_symlinks=False)
";
    let above = callers_scratch();
    let out = above.path().join("out");
    let ran = exporting(&out)
        .option("--export-size 1M --quiet")
        .run(&["python3", "-c", MAKES]);
    ran.expect_code(0);
    ran.expect(ran.at("/export/complete") == true, "all of it");
    ran.expect(ran.stderr.is_empty(), "nothing to tell");
    let stat = |name: &str| out.join(name).symlink_metadata().unwrap();
    for (name, mode) in [("d/tool", 0o750), ("plain", 0o640), ("d", 0o755)] {
        let stat = stat(name);
        ran.expect(stat.permissions().mode() & 0o7777 == mode, "its mode");
        ran.expect(stat.mtime() == 1_000_000_000, "its time");
    }
    ran.expect(stat("link").mtime() == 1_000_000_000, "a symlink's own");
    ran.expect(
        std::fs::read_link(out.join("link")).unwrap() == Path::new("d/tool"),
        "its text",
    );
    ran.expect(ran.list("/export/leading_out").is_empty(), "within");
    let (tool, twin) = (stat("d/tool"), stat("twin"));
    ran.expect(
        tool.ino() == twin.ino() && tool.nlink() == 2,
        "one file under both names",
    );
    let sparse = std::fs::read(out.join("sparse")).unwrap();
    ran.expect(sparse.len() == 40 << 20, "as long as it was");
    ran.expect(
        sparse.starts_with(b"begin") && sparse[32 << 20..].starts_with(b"end"),
        "with its data",
    );
    ran.expect(stat("sparse").blocks() * 512 < 1 << 20, "and its holes");
}

#[test]
fn bits_that_do_not_come_out_are_told_even_to_the_quiet() {
    const MAKES: &str = r"
import os
os.mkdir('shared'); open('shared/tool', 'w').close(); os.chmod('shared/tool', 0o4755)
open('both', 'w').close(); os.chmod('both', 0o6711); os.chmod('shared', 0o3755); open('plain', 'w').close()
";
    let above = callers_scratch();
    let out = above.path().join("out");
    let ran = exporting(&out)
        .option("--quiet")
        .run(&["python3", "-c", MAKES]);
    ran.expect_code(0);
    ran.expect(ran.at("/export/complete") == true, "the files are there");
    let expected = serde_json::json!([
        {"path": "both", "bits": ["set-user-ID", "set-group-ID"]},
        {"path": "shared/tool", "bits": ["set-user-ID"]},
        {"path": "shared", "bits": ["set-group-ID", "sticky"]},
    ]);
    ran.expect(*ran.at("/export/without_bits") == expected, "each is told");
    ran.expect(
        ran.stderr
            == "turnkey: exported without bits of their mode: both (set-user-ID, set-group-ID); \
                shared/tool (set-user-ID); shared (set-group-ID, sticky)\n",
        "and nothing else",
    );
    for (name, mode) in [("both", 0o711), ("shared/tool", 0o755), ("shared", 0o755)] {
        let stat = out.join(name).metadata().unwrap();
        ran.expect(stat.permissions().mode() & 0o7777 == mode, name);
    }
}

#[test]
fn the_number_of_files_is_a_limit() {
    let above = callers_scratch();
    let out = above.path().join("out");
    let ran = exporting(&out)
        .option("--export-files 8 --quiet")
        .shell("for i in 1 2 3 4 5 6 7 8 9; do : > f$i; done");
    ran.expect_code(125);
    ran.expect(listing(&out).len() == 8, "as many as there may be");
    ran.expect(
        reason_of(&ran, "f9").contains("export_files"),
        "the key is named",
    );
    ran.expect(ran.stderr.contains("NOT COMPLETE"), "even to the quiet");
    ran.expect(ran.list("/export/skipped").len() == 1, "and nothing else");
    // Of many more, not all are listed, which the directory's row says.
    let ran = exporting(&above.path().join("more"))
        .option("--export-files 8")
        .shell("for i in 1 2 3 4 5 6 7 8 9; do : > f$i; : > g$i; done");
    ran.expect_code(125);
    ran.expect(reason_of(&ran, ".").contains("more entries"), "by its name");
}

#[test]
fn j57_a_tree_made_to_hurt_is_walked_and_cleared_away() {
    // The control: who copies and removes such a tree with the program's own rights can do neither.
    let tree = scratch();
    let made = tree.path().join("made");
    let script = "mkdir $0 && cd $0 && python3 -c \"$1\" && cd .. && \
                  { cp -r made copy; rm -r made; ls -d made copy/closed/file; } 2>/dev/null";
    let nobody = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(tree.path(), nobody).unwrap();
    let place = made.display().to_string();
    let (_, told) = as_nobody("sh", &["-c", script, &place, AWKWARD]);
    assert_eq!(told, "made\n", "the one is not there, the other still is");
    let above = callers_scratch();
    let out = above.path().join("out");
    let ran = exporting(&out)
        .option("--export-size 1M")
        .run(&["python3", "-c", AWKWARD]);
    ran.expect_code(125);
    ran.expect(ran.at("/exit_code") == 0, "the program itself succeeded");
    ran.expect(
        ran.at("/export/complete") == false,
        "and its files are not all there",
    );
    ran.expect(
        out.join("closed/file").is_file(),
        "modes do not hide anything",
    );
    let latin = std::ffi::OsStr::from_bytes(b"caf\xe9");
    ran.expect(out.join(latin).is_file(), "bytes are bytes");
    ran.expect(
        reason_of(&ran, "full").contains("export_size"),
        "bytes are bounded",
    );
    ran.expect(
        reason_of(&ran, "clear\\x1b[2J").contains("control"),
        "no name steers",
    );
    for name in [
        "new\\nturnkey: clean",
        "eight bits \\x9b2J",
        "the same \\u{9b}2J",
        "turned \\u{202e}txt.exe",
    ] {
        ran.expect(reason_of(&ran, name).contains("control"), "none");
    }
    ran.expect(
        ran.report.to_string().contains("deeper than"),
        "depth is bounded",
    );
    ran.expect(!ran.stderr.contains('\x1b'), "nor does one on the terminal");
    let traces = turnkey_tests::traces();
    let id = ran.at("/id").as_str().unwrap_or_default().to_owned();
    ran.expect(
        !traces.iter().any(|trace| trace.contains(&id)),
        "nothing is left",
    );
}

#[test]
pub fn j12_a_symlink_planted_where_the_export_goes_is_refused() {
    let (above, victim) = (callers_scratch(), scratch());
    let out = above.path().join("out");
    symlink(victim.path(), &out).unwrap();
    let ran = exporting(&out).shell("echo x > file");
    ran.expect_code(125);
    ran.expect(listing(victim.path()).is_empty(), "nothing where it leads");
    // The control: what opens the name as it is follows it.
    std::fs::write(out.join("file"), "x").unwrap();
    assert_eq!(listing(victim.path()), ["filef"]);
}

#[test]
fn a_full_disk_is_told_and_leaves_no_half_of_a_file() {
    let above = callers_scratch();
    let _mount = Mount::new(&["-t", "tmpfs", "-o", "size=64k", "none"], above.path());
    let out = above.path().join("out");
    let ran = exporting(&out).shell("head -c 300000 /dev/zero > big; echo small > small");
    let found = listing(&out);
    ran.expect_code(125);
    ran.expect(found == ["smallf"], "what fits is there whole");
    ran.expect(
        ran.stderr
            .contains("NOT COMPLETE: big could not be written"),
        "told",
    );
}

#[test]
fn a_run_that_could_not_start_leaves_no_directory() {
    let above = callers_scratch();
    let out = above.path().join("out");
    let ran = exporting(&out).run(&["/nowhere/to/be/found"]);
    ran.expect_code(127);
    ran.expect(!out.exists(), "nothing was made");
}
