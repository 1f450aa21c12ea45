//! Files that are lost, many and of many classes.

use super::*;

/// Files of a home, of several classes.
const HOME: &[&str] = &[
    "letter.docx",
    "taxes.pdf",
    "sheet.xlsx",
    "cat.jpg",
    "dog.png",
    "song.mp3",
    "film.mp4",
    "old.zip",
    "notes.txt",
    "data.csv",
    "app.db",
    "key.pem",
];

#[test]
fn files_of_many_classes_lost_within_a_minute_are_a_mass_change() {
    let expected = Behaviour::MassChange;
    names(
        |story| {
            for name in HOME {
                story.deletes(P, &format!("/workspace/{name}"));
            }
        },
        expected,
    );
    names(
        |story| {
            for number in 0..6 {
                let name = format!("/workspace/{number}.txt");
                story.renames(P, &name, &format!("{name}.locked"));
            }
        },
        expected,
    );
}

/// A formatter leaves the words of what it overwrites, which is known in the end. A profile that kills does not wait for it.
#[test]
fn overwritten_files_are_lost_unless_they_still_say_what_they_said() {
    let rewrites = |story: &mut Story| {
        for name in HOME {
            story.reads(P, &format!("/workspace/{name}"));
            story.writes(P, &format!("/workspace/{name}"));
        }
    };
    let found = |kept: &[&str]| {
        let mut story = Story::new();
        rewrites(&mut story);
        let end = End {
            kept: kept.iter().map(|name| (*name).to_owned()).collect(),
            ..End::default()
        };
        let found = story.ended(&end);
        found.first().map(|found| found.behaviour)
    };
    assert_eq!(found(&[]), Some(Behaviour::MassChange));
    assert_eq!(found(&HOME[1..]), None, "one file is not many");
    assert_eq!(found(&["other.txt"]), Some(Behaviour::MassChange));
    let mut story = Story::under(&policy("[behaviour]\nmass-change = \"kill\""));
    rewrites(&mut story);
    assert!(story.dies, "at once");
}

#[test]
fn three_files_of_others_that_are_shredded_are_a_mass_change() {
    const WRITE_ONLY: u32 = 1;
    const EACCES: i32 = 13;
    let shreds = |story: &mut Story, files: u32| {
        story.exec(P, "/usr/bin/shred", &["shred", "-u", "a", "b", "c"]);
        for number in 0..files {
            let path = format!("/workspace/{number}.txt");
            story.wants_answered(P, &path, WRITE_ONLY, EACCES);
        }
    };
    names(|story| shreds(story, 3), Behaviour::MassChange);
    is_silent(|story| shreds(story, 2));
    // Own files.
    is_silent(|story| {
        for number in 0..3 {
            story.writes(P, &format!("/workspace/{number}.txt"));
        }
        shreds(story, 3);
    });
}

/// Own files lend their names to nobody's: not in a directory that is renamed, nor by a name that they had before.
#[test]
fn the_callers_files_are_lost_under_any_name_of_their_directory() {
    for place in ["/workspace/moved", "/workspace/own"] {
        names(
            |story| {
                for name in HOME {
                    story.writes(P, &format!("/workspace/own/{name}"));
                }
                story.renames(P, "/workspace/own", "/workspace/other");
                story.renames(P, "/workspace/docs", place);
                for name in HOME {
                    story.deletes(P, &format!("{place}/{name}"));
                }
            },
            Behaviour::MassChange,
        );
    }
}

#[test]
fn a_formatter_a_clean_build_and_own_files_are_none() {
    is_silent(|story| {
        for number in 0..200 {
            let name = format!("/workspace/src/{number}.py");
            story.reads(P, &name).writes(P, &name);
        }
    });
    is_silent(|story| {
        for number in 0..100 {
            story.deletes(P, &format!("/workspace/{number}.o"));
        }
        for name in HOME {
            story.deletes(P, &format!("/workspace/node_modules/some/{name}"));
            story.deletes(P, &format!("/tmp/{name}"));
        }
    });
    is_silent(|story| {
        for name in HOME {
            story.writes(P, &format!("/workspace/{name}"));
            story.deletes(P, &format!("/workspace/{name}"));
        }
    });
    // As pip does with the package that it replaces.
    is_silent(|story| {
        for name in HOME {
            story.writes(P, &format!("/workspace/lib/package/{name}"));
        }
        story.renames(P, "/workspace/lib/package", "/workspace/lib/~ackage");
        for name in HOME {
            story.deletes(P, &format!("/workspace/lib/~ackage/{name}"));
        }
    });
    is_silent(|story| {
        for name in HOME {
            story.deletes(P, &format!("/workspace/{name}")).wait(10);
        }
    });
}

/// Whoever deletes eleven files in a directory deletes the directory as well, which is no twelfth.
#[test]
fn directories_that_are_deleted_when_they_are_empty_are_no_files() {
    let deletes = |opens: bool| {
        let mut story = Story::new();
        if opens {
            story.lists(P, "/workspace/all");
        }
        for name in &HOME[1..] {
            story.deletes(P, &format!("/workspace/all/{name}"));
        }
        story.deletes(P, "/workspace/all");
        story.found()
    };
    assert_eq!(deletes(true), []);
    assert_eq!(deletes(false), [(Behaviour::MassChange, 1)]);
    // It is made again, as from a backup, and was opened by its name in between.
    is_silent(|story| {
        story.lists(P, "/workspace/all").reads(P, "/workspace/all");
        for name in &HOME[1..] {
            story.deletes(P, &format!("/workspace/all/{name}"));
        }
        story.writes(P, "/workspace/all");
    });
}

/// Wipers give files names that say nothing before they delete them.
#[test]
fn a_file_that_loses_its_name_first_is_lost_as_what_it_was() {
    let wiped = |files: usize| {
        move |story: &mut Story| {
            for (number, ending) in (0..files).zip(["txt", "jpg", "pdf", "sql"].iter().cycle()) {
                let (first, last) = (
                    format!("/workspace/{number}"),
                    format!("/workspace/x{number}"),
                );
                story.renames(P, &format!("{first}.{ending}"), &first);
                story.renames(P, &first, &last).deletes(P, &last);
            }
        }
    };
    names(wiped(12), Behaviour::MassChange);
    is_silent(wiped(11));
}

/// Whoever empties files, or writes the same into all, need not have read one; what was there before is known in the end.
#[test]
fn files_of_many_classes_with_one_content_are_a_mass_change() {
    let levelled = |files: &[&str], writes: bool| {
        let mut story = Story::new();
        for name in files.iter().filter(|_| writes) {
            story.writes(P, &format!("/workspace/{name}"));
        }
        let end = End {
            levelled: files.iter().map(|name| (*name).to_owned()).collect(),
            ..End::default()
        };
        let found = story.ended(&end);
        found.first().map(|found| found.behaviour)
    };
    assert_eq!(levelled(HOME, true), Some(Behaviour::MassChange));
    assert_eq!(levelled(&HOME[..5], true), None, "too few");
    assert_eq!(levelled(HOME, false), None, "their mode alone was changed");
    let logs: Vec<String> = (0..12).map(|number| format!("{number}.log")).collect();
    let logs: Vec<&str> = logs.iter().map(String::as_str).collect();
    assert_eq!(levelled(&logs, true), None, "a rotation");
}

/// Of whatever class they are, nothing is left; a log that is emptied goes on.
#[test]
fn files_that_are_emptied_are_a_mass_change_and_logs_are_none() {
    let emptied = |files: usize, ending: &str| {
        let names: Vec<String> = (0..files)
            .map(|number| format!("{number}.{ending}"))
            .collect();
        let mut story = Story::new();
        for name in &names {
            story.writes(P, &format!("/workspace/{name}"));
        }
        let end = End {
            levelled: names.clone(),
            emptied: names,
            ..End::default()
        };
        story.ended(&end).first().map(|found| found.behaviour)
    };
    assert_eq!(emptied(12, "txt"), Some(Behaviour::MassChange));
    assert_eq!(emptied(11, "txt"), None);
    assert_eq!(emptied(40, "log"), None);
}

/// Whoever writes without a look need not have read them, and the end says what they were.
#[test]
fn files_of_many_classes_that_say_something_else_are_a_mass_change() {
    let replaced = |files: &[&str]| {
        let mut story = Story::new();
        for name in HOME {
            story.writes(P, &format!("/workspace/{name}"));
        }
        let end = End {
            replaced: files.iter().map(|name| (*name).to_owned()).collect(),
            ..End::default()
        };
        let found = story.ended(&end);
        found.first().map(|found| found.behaviour)
    };
    assert_eq!(replaced(HOME), Some(Behaviour::MassChange));
    assert_eq!(replaced(&HOME[1..]), None, "eleven are not many");
}

#[test]
fn endings_of_backups_and_rotations_are_no_mass_change() {
    for suffix in ["bak", "orig", "1", "2026-11-29", "bak.20261129"] {
        is_silent(|story| {
            for number in 0..9 {
                let name = format!("/workspace/{number}.txt");
                story.renames(P, &name, &format!("{name}.{suffix}"));
            }
        });
    }
}

#[test]
fn a_repository_that_was_there_is_not_taken_apart_unseen() {
    let deletes = |story: &mut Story| {
        for part in ["config", "HEAD", "objects", "refs"] {
            story.deletes(P, &format!("/workspace/.git/{part}"));
        }
    };
    names(deletes, Behaviour::MassChange);
    // One that was cloned a moment ago, whose past nobody wants.
    is_silent(|story| {
        for directory in ["", "/objects", "/refs"] {
            let path = format!("/workspace/.git{directory}");
            story.changed(P, turnkey_policy::AttemptKind::Open, &path, 0);
        }
        story.writes(P, "/workspace/.git/config");
        story.writes(P, "/workspace/.git/HEAD");
        deletes(story);
    });
    is_silent(|story| {
        story.deletes(P, "/workspace/.git/HEAD.lock");
        story.deletes(P, "/workspace/.git/refs/heads/topic");
    });
}

/// Another version is put in the place of files that the version control has.
#[test]
fn what_git_checks_out_is_no_loss_and_what_it_cleans_away_is() {
    let loses = |word: &str| {
        let mut story = Story::new();
        story.exec(P, "/usr/bin/git", &["git", word]);
        for name in HOME {
            story.deletes(P, &format!("/workspace/{name}"));
        }
        story.found()
    };
    assert_eq!(loses("checkout"), []);
    assert_eq!(loses("clean"), [(Behaviour::MassChange, 1)]);
}

/// The order is what a version control was given first, and not what a branch is called.
#[test]
fn the_order_of_git_says_whether_another_version_is_kept() {
    let loses = |argv: &[&str], by: Option<&[&str]>| {
        let mut story = Story::new();
        if let Some(parent) = by {
            story.exec(P, "/usr/bin/git", parent).fork(P, 11);
        }
        let pid = if by.is_some() { 11 } else { P };
        story.exec(pid, "/usr/bin/git", argv);
        for name in HOME {
            story.deletes(pid, &format!("/workspace/{name}"));
        }
        !story.found().is_empty()
    };
    assert!(!loses(&["git", "checkout", "clean"], None));
    assert!(!loses(&["git", "-C", "clean", "rm", "-r", "docs"], None));
    assert!(loses(&["git", "-c", "a.b=c", "clean", "-fdx"], None));
    let mut story = Story::new();
    story.exec(P, "/usr/bin/mv", &["mv", "docs", "kept"]);
    for name in HOME {
        story.deletes(P, &format!("/workspace/{name}"));
    }
    assert_eq!(story.found(), [], "a directory from before is copied first");
    let clean = ["git", "clean", "-q", "-f"];
    assert!(!loses(&clean, Some(&["git", "stash", "-u"])));
    assert!(loses(&clean, Some(&["git", "submodule", "foreach"])));
}

/// Whoever asks for money says so in the name of a note.
#[test]
fn files_that_say_something_else_beside_a_demand_are_held_for_ransom() {
    let found = |note: &str, files: usize| {
        let mut story = Story::new();
        story.writes(P, &format!("/workspace/docs/{note}"));
        let replaced = (0..files).map(|number| format!("docs/r{number}.txt"));
        let end = End {
            replaced: replaced.collect(),
            ..End::default()
        };
        let found = story.ended(&end);
        found.first().map(|found| found.behaviour)
    };
    let expected = Some(Behaviour::MassChange);
    assert_eq!(found("PAY_TO_RECOVER.txt", 3), expected);
    assert_eq!(found("PAY_TO_RECOVER.txt", 2), None);
    assert_eq!(found("README.md", 3), None, "a program writes one");
}

/// Contents are gone twice then.
#[test]
fn six_files_that_are_overwritten_and_then_deleted_are_a_mass_change() {
    let wiped = |files: usize, ending: &'static str, deleted: bool| {
        move |story: &mut Story| {
            let path = |number: usize| format!("/workspace/photos/{number}.{ending}");
            for number in 0..files {
                story.reads(P, &path(number));
                story.writes(P, &path(number));
                if deleted {
                    story.deletes(P, &path(number));
                }
            }
        }
    };
    let expected = Behaviour::MassChange;
    names(wiped(6, "jpg", true), expected);
    is_silent(wiped(5, "jpg", true));
    is_silent(wiped(6, "jpg", false));
    // What a compiler makes again, and what a program makes anew.
    is_silent(wiped(6, "o", true));
    is_silent(wiped(6, "out", true));
    let wiped_as_they_stand = |files: usize, ending: &'static str| {
        move |story: &mut Story| {
            for number in 0..files {
                let path = format!("/workspace/tables/{number}.{ending}");
                story.writes_over(P, &path);
                story.deletes(P, &path);
            }
        }
    };
    names(wiped_as_they_stand(6, "ibd"), expected);
    is_silent(wiped_as_they_stand(5, "ibd"));
    is_silent(wiped_as_they_stand(6, "o"));
    // Each has lost its name in between.
    names(
        |story| {
            for number in 0..6 {
                let (first, last) = (
                    format!("/workspace/{number}.jpg"),
                    format!("/workspace/0{number}"),
                );
                story.reads(P, &first).writes(P, &first);
                story.renames(P, &first, &last).deletes(P, &last);
            }
        },
        expected,
    );
}

/// Copies under names that tell nothing, with one ending that nothing opens, in the place of what was there.
#[test]
fn files_that_are_gone_beside_as_many_new_ones_of_other_names_are_held_for_ransom() {
    let exchanged = |files: usize, name: fn(usize) -> String, ending: &'static str| {
        move |story: &mut Story| {
            for number in 0..files {
                let old = format!("/workspace/d/report{number}.txt");
                let work = format!("{old}.tmp");
                story.reads(P, &old).writes(P, &work);
                let new = format!("/workspace/d/{}.{ending}", name(number));
                story.renames(P, &work, &new).deletes(P, &old);
            }
        }
    };
    let random = |number: usize| format!("{:08x}", 0x1234_5678 ^ (number * 0x0101_0101));
    names(exchanged(6, random, "crypt"), Behaviour::MassChange);
    is_silent(exchanged(5, random, "crypt"));
    // Pictures that are given the names of their contents, and what is converted keeps its name.
    is_silent(exchanged(6, random, "txt"));
    is_silent(exchanged(6, |number| format!("report{number}"), "npy"));
}

/// Conversions of several files at once: new ones are there before any old one is gone.
#[test]
fn files_that_are_converted_side_by_side_are_not_held_for_ransom() {
    is_silent(|story| {
        for number in 0..16 {
            let old = format!("/workspace/inbox/bill{number}.csv");
            let work = format!("/workspace/inbox/bill{number}.jsonl.tmp");
            story.reads(P, &old).writes(P, &work);
            story.renames(P, &work, &format!("/workspace/inbox/bill{number}.jsonl"));
        }
        for number in 0..8 {
            story.deletes(P, &format!("/workspace/inbox/bill{number}.csv"));
        }
    });
}

/// A lock of git's beside a file that goes, and what is written anew beside the old.
#[test]
fn copies_that_take_the_place_of_their_files_or_go_are_not_held_for_ransom() {
    is_silent(|story| {
        story.writes(P, "/workspace/README");
        for number in 0..8 {
            let file = format!("/workspace/letters/{number}.txt");
            let (new, old) = (format!("{file}.utf8"), format!("{file}.bak"));
            story
                .reads(P, &file)
                .writes(P, &new)
                .renames(P, &file, &old);
            story.renames(P, &new, &file).deletes(P, &old);
        }
        for number in 0..8 {
            let name = format!("/workspace/refs/{number}");
            let lock = format!("{name}.lock");
            story.reads(P, &name).writes(P, &lock);
            story.deletes(P, &name).deletes(P, &lock);
        }
    });
}

/// The place is not there for whoever comes next; what is in it went before.
#[test]
fn the_workspace_that_is_to_be_deleted_as_a_whole_is_a_mass_change() {
    names(
        |story| {
            story.deletes(P, "/workspace");
        },
        Behaviour::MassChange,
    );
    is_silent(|story| {
        story.deletes(P, "/workspace/build");
    });
}

/// The copies that the note speaks of may be anywhere.
#[test]
fn deletions_beside_a_demand_are_a_mass_change() {
    let taken = |files: usize, note: &'static str| {
        move |story: &mut Story| {
            for number in 0..files {
                story.deletes(P, &format!("/workspace/{number}.jpg"));
            }
            story.writes(P, &format!("/workspace/{note}"));
        }
    };
    names(taken(3, "PAY_ME.txt"), Behaviour::MassChange);
    is_silent(taken(2, "PAY_ME.txt"));
    is_silent(taken(3, "README.txt"));
}

/// An open that makes a file tells nothing of one that was there; what is gone in the end does.
#[test]
fn files_that_were_there_and_are_emptied_and_gone_are_a_mass_change() {
    let emptied = |files: usize, was_there: bool| {
        let mut story = Story::new();
        let names = (0..files).map(|number| format!("photos/{number}.jpg"));
        let names: Vec<String> = names.collect();
        for name in &names {
            story.writes(P, &format!("/workspace/{name}"));
            story.deletes(P, &format!("/workspace/{name}"));
        }
        let gone = if was_there { names } else { Vec::new() };
        let end = End {
            gone,
            ..End::default()
        };
        let found = story.ended(&end);
        found.first().map(|found| found.behaviour)
    };
    assert_eq!(emptied(6, true), Some(Behaviour::MassChange));
    assert_eq!(emptied(5, true), None);
    assert_eq!(emptied(6, false), None);
}

/// Halves that are merged again, and names in between of who renames many.
#[test]
fn copies_that_go_first_and_names_in_between_are_none() {
    is_silent(|story| {
        for number in 0..8 {
            let part = format!("/workspace/part{number}");
            let half = format!("{part}.l");
            story.writes(P, &part).writes(P, &half);
            story.deletes(P, &half).deletes(P, &part);
        }
    });
    let renamed = |back: bool| {
        move |story: &mut Story| {
            for number in 0..12 {
                let old = format!("/workspace/album/IMG_{number}.jpg");
                story.renames(P, &old, &format!("/workspace/album/{number:03x}f.moving"));
            }
            for number in (0..12).filter(|_| back) {
                let name = format!("/workspace/album/{number:03x}f");
                story.renames(P, &format!("{name}.moving"), &format!("{name}.jpg"));
            }
        }
    };
    is_silent(renamed(true));
    names(renamed(false), Behaviour::MassChange);
}
