//! Lists of what somebody typed.

use turnkey_policy::AttemptKind;

use super::*;

#[test]
fn whoever_clears_what_was_typed_impairs_a_defence() {
    let expected = Behaviour::DefenseImpairment;
    for path in [
        "/workspace/.bash_history",
        "/root/.zsh_history",
        "/home/ada/.node_repl_history",
        "/root/.local/share/fish/fish_history",
    ] {
        names(
            |story| {
                story.deletes(P, path);
            },
            expected,
        );
        names(
            |story| {
                story.script(P, "/workspace/x.sh").writes(P, path);
            },
            expected,
        );
        names(
            |story| {
                story.changed(P, AttemptKind::Symlink, path, 0);
            },
            expected,
        );
        names(
            |story| {
                story.renames(P, path, "/tmp/x");
            },
            expected,
        );
        // As truncate(1) does: O_WRONLY and O_CREAT, then ftruncate(2); here refused.
        names(
            |story| {
                story.exec(P, "/usr/bin/truncate", &["truncate", "-s0", path]);
                story.wants_answered(P, path, 0o101, 13);
            },
            expected,
        );
        // One that cannot be.
        names(
            |story| {
                story.changed(P, AttemptKind::Truncate, path, 30);
            },
            expected,
        );
    }
}

/// The own program of a list writes it when a person ends it, and one that is not there was not cleared.
#[test]
fn a_list_is_written_by_what_it_is_of() {
    for argv in [
        &["bash", "-l"][..],
        &["bash", "--noprofile", "--norc"],
        &["bash", "-O", "extglob", "-i"],
    ] {
        is_silent(|story| {
            story.exec(P, "/usr/bin/bash", argv);
            story.writes(P, "/workspace/.bash_history");
        });
    }
    for argv in [
        &["bash", "-c", "> .bash_history"][..],
        &["bash", "-lc", "> .bash_history"],
        &["python3", "-c", "open('.bash_history', 'w')"],
        &["python3", "clean.py"],
        &["bash", "-x", "clean.sh", "-i"],
        &["node", "--eval", "0"],
    ] {
        names(
            |story| {
                story.exec(P, &format!("/usr/bin/{}", argv[0]), argv);
                story.writes(P, "/workspace/.bash_history");
            },
            Behaviour::DefenseImpairment,
        );
    }
    is_silent(|story| {
        story.exec(P, "/usr/bin/bash", &["bash"]);
        story.writes(P, "/workspace/.bash_history");
        story.exec(11, "/usr/bin/psql", &["psql", "-h", "db"]);
        story.writes(11, "/workspace/.psql_history");
        story.changed(P, AttemptKind::Unlink, "/workspace/.bash_history", 2);
        story.deletes(P, "/workspace/price_history");
        // Whoever adds a line clears none.
        story.script(12, "/workspace/x.sh");
        story.wants_answered(12, "/workspace/.bash_history", 0o2001, 13);
    });
}

/// git keeps a list of what was done in a repository.
#[test]
fn whoever_deletes_the_list_of_a_repository_impairs_a_defence() {
    let list = "/workspace/.git/logs/HEAD";
    names(
        |story| {
            // With `O_CREAT`, as git appends to it.
            story.exec(11, "/usr/bin/git", &["git", "reset", "--hard"]);
            story.wants_answered(11, list, 0o2101, 13);
            story.exec(P, "/usr/bin/rm", &["rm", "-rf", ".git/logs"]);
            story.deletes(P, list);
        },
        Behaviour::DefenseImpairment,
    );
    is_silent(|story| {
        story.exec(P, "/usr/bin/git", &["git", "reflog", "expire", "--all"]);
        story.deletes(P, list);
        // Its own.
        story.changed(11, AttemptKind::Open, "/workspace/x/.git", 0);
        story.writes(11, "/workspace/x/.git/logs/HEAD");
        story.exec(12, "/usr/bin/rm", &["rm", "-rf", "x"]);
        story.deletes(12, "/workspace/x/.git/logs/HEAD");
    });
}

/// A list in a directory that the run made is a copy.
#[test]
fn a_copy_of_a_list_clears_nothing() {
    is_silent(|story| {
        story.changed(P, AttemptKind::Open, "/tmp/copy", 0);
        story
            .script(P, "/workspace/x.sh")
            .writes(P, "/tmp/copy/.bash_history");
    });
}
