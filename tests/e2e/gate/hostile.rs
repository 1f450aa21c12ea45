//! Programs that a repository's own settings name: git as its user starts it runs each, the gate none.

use std::os::unix::fs::PermissionsExt;

use turnkey_tests::{NOBODY, hand_over};

use super::repository::{CONFIG, TestRepository, WRITTEN, unrunnable};

/// A place where each program that was executed leaves its name.
struct Marks(tempfile::TempDir);

impl Marks {
    fn new() -> Marks {
        Marks(turnkey_tests::scratch())
    }

    /// A shell command that leaves the name.
    fn leaving(&self, name: &str) -> String {
        format!("touch {}", self.0.path().join(name).display())
    }

    /// The names that were left, which are removed.
    fn taken(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.0.path()).expect("it is there");
        let mut names: Vec<String> = entries
            .flatten()
            .map(|entry| {
                std::fs::remove_file(entry.path()).expect("its own");
                entry.file_name().to_string_lossy().into_owned()
            })
            .collect();
        names.sort();
        names
    }
}

/// A repository whose settings, hooks and attributes have every program leave a mark.
fn armed(marks: &Marks) -> TestRepository {
    let repository = TestRepository::new(&unrunnable());
    let attributes = "*.txt filter=mark diff=mark\n*.bin diff=outer\n";
    let files = [
        (".gitattributes", attributes),
        ("a.txt", "a\n"),
        ("a.bin", "a\n"),
    ];
    repository.commit(&format!("m\n\n{WRITTEN}"), &files);
    let set = |key: &str, value: &str| {
        repository.git(&["config", key, value]);
    };
    for key in ["filter.mark.smudge", "filter.mark.clean"] {
        let name = key.rsplit('.').next().expect("a name");
        set(key, &format!("{}; cat", marks.leaving(name)));
    }
    set(
        "diff.mark.textconv",
        &format!("{}; cat", marks.leaving("textconv")),
    );
    set(
        "diff.outer.command",
        &format!("{}; true", marks.leaving("external")),
    );
    set("core.pager", &marks.leaving("pager"));
    set("core.sshCommand", &marks.leaving("ssh"));
    let hooks = repository.at(".git/hooks");
    for hook in [
        "post-checkout",
        "post-index-change",
        "reference-transaction",
    ] {
        let path = hooks.join(hook);
        let script = format!("#!/bin/sh\n{}\n", marks.leaving(hook));
        std::fs::write(&path, script).expect("it can be written");
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&path, mode).expect("its own");
    }
    set("core.fsmonitor", &marks.leaving("fsmonitor"));
    repository
}

#[test]
fn no_program_that_a_repository_names_is_executed() {
    let marks = Marks::new();
    let repository = armed(&marks);
    marks.taken();
    let executed = |arguments: &[&str], expected: &[&str]| {
        let _ = repository.git_command(arguments).output();
        let taken = marks.taken();
        let all = expected
            .iter()
            .all(|name| taken.iter().any(|it| it == name));
        assert!(all, "the control: git {arguments:?} executes {taken:?}");
    };
    executed(&["status"], &["fsmonitor"]);
    executed(&["diff", "base", "HEAD"], &["external", "textconv"]);
    std::fs::remove_file(repository.at("a.txt")).expect("it is there");
    executed(
        &["checkout", "--", "a.txt"],
        &["smudge", "post-index-change"],
    );
    executed(
        &["checkout", "-q", "--detach"],
        &["post-checkout", "reference-transaction"],
    );
    executed(
        &["worktree", "add", "-q", ".git/w", "HEAD"],
        &["smudge", "post-checkout"],
    );
    executed(&["fetch", "ssh://example.org/x"], &["ssh"]);
    // The head is checked out, and nothing can be run on it.
    repository.gate("").expect(120);
    assert_eq!(marks.taken(), [""; 0]);
}

#[test]
fn a_transport_that_a_partial_clone_names_is_not_started() {
    let marks = Marks::new();
    let repository = TestRepository::new(CONFIG);
    repository.commit(&format!("m\n\n{WRITTEN}"), &[("a", "x")]);
    let url = format!("ext::{}", marks.leaving("transport"));
    for (key, value) in [
        ("core.repositoryFormatVersion", "1"),
        ("extensions.partialClone", "origin"),
        ("remote.origin.promisor", "true"),
        ("remote.origin.partialclonefilter", "blob:none"),
        ("remote.origin.url", &url),
        ("protocol.ext.allow", "always"),
    ] {
        repository.git(&["config", key, value]);
    }
    let object = repository.git(&["rev-parse", "HEAD:a"]);
    let object = object.trim();
    let file = format!(".git/objects/{}/{}", &object[..2], &object[2..]);
    std::fs::remove_file(repository.at(&file)).expect("a loose object");
    let _ = repository.git_command(&["cat-file", "-p", object]).output();
    assert_eq!(marks.taken(), ["transport"], "the control");
    let gated = repository.gate("");
    // What is not there is not checked.
    gated.expect(120);
    assert_eq!(marks.taken(), [""; 0]);
    // The name of a commit is looked for by way of the repository itself.
    repository.gate(&format!("--head {object}")).expect(125);
    assert_eq!(marks.taken(), [""; 0]);
}

#[test]
fn replaced_commits_and_grafts_hide_nothing() {
    let repository = TestRepository::new(&unrunnable());
    repository.commit(&format!("m\n\n{WRITTEN}"), &[("broken", "x")]);
    let head = repository.git(&["rev-parse", "HEAD"]);
    let tree = repository.git(&["rev-parse", "base^{tree}"]);
    let harmless = ["commit-tree", tree.trim(), "-p", "base", "-m", "harmless"];
    let harmless = repository.git(&harmless);
    let found = || {
        let result = repository.gate("--json").result();
        let commits = result["model_commits"].as_array().expect("a list");
        let files = result["files"].as_array().expect("a list").len();
        (commits.len(), files)
    };
    repository.git(&["replace", head.trim(), harmless.trim()]);
    let shown = repository.git(&["log", "-1", "--format=%s", "HEAD"]);
    assert_eq!(shown.trim(), "harmless", "the control");
    assert_eq!(found(), (1, 1));
    repository.git(&["replace", "-d", head.trim()]);
    // The commit has no parent that the base lacks: so a graft says.
    repository.commit("by hand", &[("other", "x")]);
    let last = repository.git(&["rev-parse", "HEAD"]);
    let base = repository.git(&["rev-parse", "base"]);
    let grafts = repository.at(".git/info/grafts");
    let graft = format!("{} {}\n", last.trim(), base.trim());
    std::fs::write(&grafts, graft).expect("it can be written");
    let count = repository.git(&["rev-list", "--count", "base..HEAD"]);
    assert_eq!(count.trim(), "1", "the control");
    assert_eq!(found(), (1, 1));
}

#[test]
fn a_repository_of_another_user_is_judged_and_not_obeyed() {
    let marks = Marks::new();
    let repository = armed(&marks);
    hand_over(repository.path(), NOBODY);
    marks.taken();
    let refused = repository.git_command(&["log", "-1"]).output();
    let refused = refused.expect("git is here").stderr;
    let refused = String::from_utf8_lossy(&refused).into_owned();
    assert!(
        refused.contains("dubious ownership"),
        "the control: {refused}"
    );
    // The head is checked out, and nothing can be run on it.
    repository.gate("").expect(120);
    assert_eq!(marks.taken(), [""; 0]);
}

#[test]
fn a_submodule_is_not_fetched_and_never_a_pass_of_the_scan() {
    let marks = Marks::new();
    let config = unrunnable().replace("[[tests]]", "[scan]\nfail_at = 50\n[[tests]]");
    let repository = TestRepository::new(&config);
    let url = format!("ext::{}", marks.leaving("transport"));
    let modules = format!("[submodule \"s\"]\npath = s\nurl = {url}\n");
    std::fs::write(repository.at(".gitmodules"), modules).expect("it can be written");
    let head = repository.git(&["rev-parse", "HEAD"]);
    let entry = format!("160000,{},s", head.trim());
    repository.git(&["add", ".gitmodules"]);
    repository.git(&["update-index", "--add", "--cacheinfo", &entry]);
    repository.git(&["commit", "-q", "-m", &format!("m\n\n{WRITTEN}")]);
    let gated = repository.gate("--json");
    gated.expect(120);
    assert_eq!(gated.result()["checks"][0]["verdict"], "inconclusive");
    assert_eq!(marks.taken(), [""; 0]);
}

/// A line of padding makes it too large, a zero no text, and brackets too deep for the parser.
#[test]
fn a_script_that_is_not_looked_at_whole_is_never_a_pass_of_the_scan() {
    let acts = "import os\nos.system('rm -rf /')\n";
    let large = format!("{acts}#{}\n", "#".repeat(1 << 20));
    let nested = format!("{acts}x = {}\n", "(".repeat(100_000));
    for text in [large, format!("{acts}\0"), nested] {
        let config = unrunnable().replace("[[tests]]", "[scan]\nfail_at = 50\n[[tests]]");
        let repository = TestRepository::new(&config);
        std::fs::write(repository.at("job.py"), text).expect("it can be written");
        repository.git(&["add", "job.py"]);
        repository.git(&["commit", "-q", "-m", &format!("m\n\n{WRITTEN}")]);
        let gated = repository.gate("--json");
        gated.expect(120);
        let scan = &gated.result()["checks"][0];
        assert_eq!(scan["verdict"], "inconclusive");
        let why = scan["why"].as_str().expect("the reason");
        assert!(why.contains("job.py could not be looked at whole"), "{why}");
    }
}

#[test]
fn a_checkout_has_the_bytes_of_the_commit() {
    // What is looked at would differ from what is stored: other line ends, a word that is filled in.
    let test = "test $(wc -c < a.txt) = 5";
    let repository = TestRepository::new(&CONFIG.replace("test ! -e broken", test));
    let files = [
        (".gitattributes", "*.txt ident text eol=crlf\n"),
        ("a.txt", "$Id$\n"),
    ];
    repository.commit(&format!("m\n\n{WRITTEN}"), &files);
    std::fs::remove_file(repository.at("a.txt")).expect("it is there");
    repository.git(&["checkout", "--", "a.txt"]);
    let length = std::fs::metadata(repository.at("a.txt"))
        .expect("it is there")
        .len();
    assert!(length > 5, "the control: {length}");
    repository.gate("").expect(0);
}
