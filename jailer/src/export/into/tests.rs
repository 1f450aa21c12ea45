use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};

use super::*;

/// Exports a tree that `fill` makes into a directory that `there` made; what came of it, and the directory.
fn exported(
    there: impl FnOnce(&Path),
    replaces: bool,
    fill: impl FnOnce(&Path, &Path),
) -> (Result<Exported, IntoError>, tempfile::TempDir) {
    let place = tempfile::tempdir().unwrap();
    there(place.path());
    let opened = OwnedFd::from(fs::File::open(place.path()).unwrap());
    let result = export(&opened, replaces, |stage| {
        let stage = crate::rootfs::paths::place_of(stage).unwrap();
        fill(&stage, place.path());
        Exported::default()
    });
    (result, place)
}

fn write(path: &Path, content: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

/// Every path in a directory with its content, sorted.
fn content(place: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut open = vec![place.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(place).unwrap().display().to_string();
            match path.symlink_metadata().unwrap() {
                kind if kind.is_dir() => open.push(path),
                kind if kind.is_symlink() => found.push(format!("{name} -> link")),
                _ => found.push(format!("{name} = {}", fs::read_to_string(path).unwrap())),
            }
        }
    }
    found.sort();
    found
}

fn tree(place: &Path) {
    write(&place.join("src/old"), "old");
    write(&place.join("same"), "before");
}

#[test]
fn new_files_come_beside_those_that_are_there() {
    let (result, place) = exported(tree, false, |stage, _| {
        write(&stage.join("src/new"), "new");
        write(&stage.join("more/deep/file"), "more");
        symlink("src/new", stage.join("link")).unwrap();
    });
    result.unwrap();
    assert_eq!(
        content(place.path()),
        [
            "link -> link",
            "more/deep/file = more",
            "same = before",
            "src/new = new",
            "src/old = old"
        ]
    );
}

#[test]
fn a_name_that_is_taken_leaves_everything_as_it_was() {
    let (result, place) = exported(tree, false, |stage, _| {
        write(&stage.join("a"), "first in order");
        write(&stage.join("same"), "after");
    });
    let told = result.unwrap_err().to_string();
    assert!(
        told.contains("\"same\"") && told.contains("--export-replace"),
        "{told}"
    );
    assert_eq!(content(place.path()), ["same = before", "src/old = old"]);
    assert_eq!(
        fs::read_dir(place.path()).unwrap().count(),
        2,
        "nothing beside"
    );
}

#[test]
fn files_are_replaced_where_that_was_asked_for_and_nothing_else_is() {
    let (result, place) = exported(tree, true, |stage, _| write(&stage.join("same"), "after"));
    result.unwrap();
    assert_eq!(content(place.path()), ["same = after", "src/old = old"]);
    for (name, in_the_way) in [
        ("src", "a file for a directory"),
        ("same/x", "a directory for a file"),
    ] {
        let (result, place) = exported(tree, true, |stage, _| {
            write(&stage.join("a"), "");
            write(&stage.join(name), "");
        });
        let told = result.unwrap_err().to_string();
        assert!(told.contains("remove them"), "{in_the_way}: {told}");
        assert_eq!(
            content(place.path()),
            ["same = before", "src/old = old"],
            "{in_the_way}"
        );
    }
}

/// A name that is taken between the look and the rename: what was renamed before goes back.
#[test]
fn a_rename_that_fails_undoes_those_before() {
    let place = tempfile::tempdir().unwrap();
    tree(place.path());
    let destination = OwnedFd::from(fs::File::open(place.path()).unwrap());
    let mut stage = Stage::new(&destination).unwrap();
    let beside = stage.path();
    for (name, text) in [("a", "new"), ("same", "after"), ("z", "new")] {
        write(&beside.join(name), text);
    }
    let plan = MovePlan::new(&stage.directory, &destination, true).unwrap();
    assert_eq!(plan.moves.len(), 3);
    write(&place.path().join("z"), "another's");
    let told = apply(&plan.moves, &mut stage).unwrap_err();
    assert!(matches!(told, IntoError::Rename(path, Errno::EEXIST) if path == Path::new("z")));
    drop(stage);
    assert_eq!(
        content(place.path()),
        ["same = before", "src/old = old", "z = another's"]
    );
}

/// Another file in the place of the one that was to be replaced stays, and so does what was there.
#[test]
fn a_file_that_was_exchanged_meanwhile_is_not_replaced() {
    let place = tempfile::tempdir().unwrap();
    tree(place.path());
    let destination = OwnedFd::from(fs::File::open(place.path()).unwrap());
    let mut stage = Stage::new(&destination).unwrap();
    write(&stage.path().join("same"), "after");
    let plan = MovePlan::new(&stage.directory, &destination, true).unwrap();
    let precious = place.path().join("precious");
    write(&precious.join("inner"), "precious");
    fs::rename(place.path().join("same"), place.path().join("moved")).unwrap();
    fs::rename(&precious, place.path().join("same")).unwrap();
    let told = apply(&plan.moves, &mut stage).unwrap_err();
    assert!(
        matches!(told, IntoError::Rename(_, Errno::ESTALE)),
        "{told}"
    );
    drop(stage);
    assert_eq!(
        content(place.path()),
        ["moved = before", "same/inner = precious", "src/old = old"]
    );
}

#[test]
fn no_symlink_of_the_directory_is_followed() {
    let victim = tempfile::tempdir().unwrap();
    let (result, place) = exported(
        |place| symlink(victim.path(), place.join("src")).unwrap(),
        true,
        |stage, _| write(&stage.join("src/new"), "new"),
    );
    result.unwrap_err();
    assert_eq!(content(victim.path()), [""; 0]);
    assert_eq!(content(place.path()), ["src -> link"]);
}

#[test]
fn a_directory_of_another_user_takes_nothing() {
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    let (result, place) = exported(
        |place| {
            tree(place);
            std::os::unix::fs::chown(place.join("src"), Some(65_534), None).unwrap();
        },
        true,
        |stage, _| write(&stage.join("src/new"), "new"),
    );
    assert!(matches!(result.unwrap_err(), IntoError::Foreign(_)));
    assert_eq!(content(place.path()), ["same = before", "src/old = old"]);
}

#[test]
fn what_stayed_behind_keeps_all_of_it_away() {
    let place = tempfile::tempdir().unwrap();
    let opened = OwnedFd::from(fs::File::open(place.path()).unwrap());
    let exported = export(&opened, false, |stage| {
        write(
            &crate::rootfs::paths::place_of(stage).unwrap().join("half"),
            "",
        );
        Exported {
            files: 1,
            lost: true,
            ..Exported::default()
        }
    });
    assert_eq!(exported.unwrap().files, 0);
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
}

/// Another user who may write to the directory turns names in it all the time: nothing of theirs is written to or removed.
#[test]
fn names_that_turn_meanwhile_lead_nowhere_else() {
    let victim = tempfile::tempdir().unwrap();
    write(&victim.path().join("same"), "victim's");
    let before = fs::metadata(victim.path().join("same")).unwrap().ino();
    for round in 0..100 {
        let mut turner = None;
        let (_, _place) = exported(tree, true, |stage, place| {
            write(&stage.join("same"), "after");
            write(&stage.join("src/new"), "new");
            let (place, victim) = (place.to_owned(), victim.path().to_owned());
            turner = Some(std::thread::spawn(move || {
                for step in 0..50 {
                    // Either may be gone by now.
                    let src = place.join("src");
                    let _ = fs::rename(&src, place.join(format!("away{step}")));
                    let _ = symlink(&victim, &src);
                    let _ = fs::remove_file(place.join("same"));
                    let _ = symlink(victim.join("same"), place.join("same"));
                    let _ = fs::remove_file(&src);
                    let _ = fs::rename(place.join(format!("away{step}")), &src);
                }
            }));
            std::thread::sleep(std::time::Duration::from_micros(round * 5));
        });
        turner.unwrap().join().unwrap();
        assert_eq!(content(victim.path()), ["same = victim's"], "round {round}");
    }
    assert_eq!(
        fs::metadata(victim.path().join("same")).unwrap().ino(),
        before
    );
}
