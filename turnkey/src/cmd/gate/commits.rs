//! Commits that are model-written, by the rules of the config, and the files that they changed.

use std::collections::BTreeSet;

use anyhow::{Context, bail, ensure};
use turnkey_report::{escape, shortened};

use super::config::ModelRule;
use super::repository::Repository;
use super::result::ModelCommit;

/// Commits between base and head at most.
const MOST_COMMITS: usize = 10_000;
/// Characters of a message's first line that are shown.
const SUBJECT: usize = 200;

/// The changes that the checks are about.
pub struct Changes {
    /// The number of commits that the head has and the base has not.
    pub commits: usize,
    /// The commits that are model-written.
    pub model_commits: Vec<ModelCommit>,
    /// Files of the head or the base that are not the same in both and are model-written, in order.
    pub files: Vec<ChangedFile>,
}

/// A file that head and base do not have alike.
pub struct ChangedFile {
    /// Relative to the working tree.
    pub path: Vec<u8>,
    /// The kind of it.
    pub kind: FileKind,
}

/// The kinds of entries of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A file with content.
    File,
    /// A symlink.
    Symlink,
    /// A commit of another repository.
    Submodule,
    /// A file of the base that the head has not.
    Deleted,
}

impl Changes {
    /// The changes from base to head.
    ///
    /// # Errors
    /// When the history between them is not all there, or git fails.
    pub fn between(
        repository: &Repository<'_>,
        (base, head): (&str, &str),
        rules: &[ModelRule],
    ) -> anyhow::Result<Changes> {
        let most = format!("--max-count={}", MOST_COMMITS + 1);
        let listed = repository.ask(&["rev-list", &most, head, &format!("^{base}")]);
        let listed = listed.context(
            "the history between base and head is not all there; fix: fetch it whole (fetch-depth: 0, or git fetch --unshallow)",
        )?;
        let ids: Vec<&str> = std::str::from_utf8(&listed)?.lines().collect();
        ensure!(
            ids.len() <= MOST_COMMITS,
            "more than {MOST_COMMITS} commits lie between base and head: name a base that is nearer"
        );
        let mut model_commits = Vec::new();
        for (id, commit) in ids.iter().zip(commits(repository, &listed)?) {
            if let Some(why) = rules.iter().find_map(|rule| rule.reason(&commit)) {
                model_commits.push(ModelCommit {
                    id: (*id).to_owned(),
                    subject: shortened(&escape(commit.subject()), SUBJECT),
                    why,
                });
            }
        }
        let touched = touched(repository, &model_commits)?;
        let mut files = changed(repository, base, head)?;
        files.retain(|file| {
            touched.contains(&file.path) || rules.iter().any(|rule| rule.is_about(&file.path))
        });
        Ok(Changes {
            commits: ids.len(),
            model_commits,
            files,
        })
    }

    /// True when there is something for the checks to look at.
    pub fn any(&self) -> bool {
        !self.model_commits.is_empty() || !self.files.is_empty()
    }
}

/// Every path that one of the commits has otherwise than one of its parents.
fn touched(
    repository: &Repository<'_>,
    commits: &[ModelCommit],
) -> anyhow::Result<BTreeSet<Vec<u8>>> {
    let ids: String = commits.iter().map(|it| format!("{}\n", it.id)).collect();
    let question = "diff-tree --stdin -r -z -m --root --no-renames --no-commit-id --name-only";
    let question: Vec<&str> = question.split(' ').collect();
    let answer = repository.ask_about(ids.as_bytes(), &question)?;
    let paths = answer.split(|byte| *byte == 0);
    Ok(paths.map(<[u8]>::to_vec).collect())
}

/// The entries that head and base do not have alike.
fn changed(
    repository: &Repository<'_>,
    base: &str,
    head: &str,
) -> anyhow::Result<Vec<ChangedFile>> {
    let answer = repository.ask(&["diff-tree", "-r", "-z", "--no-renames", "--raw", base, head])?;
    let mut files = Vec::new();
    // `:OLD-MODE NEW-MODE OLD-ID NEW-ID STATUS`, and the path.
    let mut words = answer.split(|byte| *byte == 0);
    while let (Some(entry), Some(path)) = (words.next(), words.next()) {
        let entry = std::str::from_utf8(entry).context("git's list of changes is no text")?;
        let kind = match entry.split(' ').nth(1) {
            Some("100644" | "100755") => FileKind::File,
            Some("120000") => FileKind::Symlink,
            Some("160000") => FileKind::Submodule,
            Some("000000") => FileKind::Deleted,
            _ => bail!("git's list of changes has the unknown entry {entry:?}"),
        };
        let path = path.to_vec();
        files.push(ChangedFile { path, kind });
    }
    Ok(files)
}

/// A commit as it is stored.
struct Commit {
    /// `NAME <ADDRESS>` of author and committer.
    people: Vec<Vec<u8>>,
    message: Vec<u8>,
}

/// The commits of a list of ids, in its order.
fn commits(repository: &Repository<'_>, ids: &[u8]) -> anyhow::Result<Vec<Commit>> {
    let answer = repository.ask_about(ids, &["cat-file", "--batch"])?;
    let mut commits = Vec::new();
    // `ID commit SIZE`, that many bytes, and a line's end: what a message says cannot be taken for the next one.
    let mut rest = answer.as_slice();
    while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
        let head = std::str::from_utf8(&rest[..end])?;
        let size = head.split(' ').nth(2).and_then(|size| size.parse().ok());
        let size: usize = size.with_context(|| format!("git says of a commit: {head:?}"))?;
        let body = rest.get(end + 1..end + 1 + size);
        commits.push(Commit::read(body.context("git's answer is cut off")?));
        rest = rest.get(end + 2 + size..).unwrap_or_default();
    }
    Ok(commits)
}

impl Commit {
    fn read(bytes: &[u8]) -> Commit {
        let end = bytes.windows(2).position(|two| two == b"\n\n");
        let (head, message) = bytes.split_at(end.unwrap_or(bytes.len()));
        let people = head.split(|byte| *byte == b'\n').filter_map(|line| {
            let who = [&b"author "[..], b"committer "]
                .iter()
                .find_map(|key| line.strip_prefix(*key))?;
            // Behind it, seconds and a zone.
            let end = who.iter().rposition(|byte| *byte == b'>');
            Some(who[..end.map_or(who.len(), |end| end + 1)].to_vec())
        });
        Commit {
            people: people.collect(),
            message: message.get(2..).unwrap_or_default().to_vec(),
        }
    }

    fn subject(&self) -> &[u8] {
        let mut lines = self.message.split(|byte| *byte == b'\n');
        lines.next().unwrap_or_default()
    }

    /// The values of a trailer. git wants trailers at the end of a message; here a line anywhere is one, since a commit that is
    /// checked too often does no harm.
    fn trailers(&self, name: &str) -> Vec<Vec<u8>> {
        let mut values: Vec<Vec<u8>> = Vec::new();
        let mut inside = false;
        for line in self.message.split(|byte| *byte == b'\n') {
            let folded = line.first().is_some_and(|byte| b" \t".contains(byte));
            if let (true, true, Some(value)) = (inside, folded, values.last_mut()) {
                value.push(b' ');
                value.extend(line.trim_ascii());
                continue;
            }
            let colon = line.iter().position(|byte| *byte == b':');
            let (key, value) = line.split_at(colon.unwrap_or(0));
            inside = key.trim_ascii().eq_ignore_ascii_case(name.as_bytes());
            if inside {
                values.push(value.get(1..).unwrap_or_default().trim_ascii().to_vec());
            }
        }
        values
    }
}

impl ModelRule {
    /// The sign by which a commit is model-written, if it is.
    fn reason(&self, commit: &Commit) -> Option<String> {
        if let (Some(name), Some(pattern)) = (&self.trailer, &self.value) {
            let values = commit.trailers(name);
            let found = values.iter().find(|value| pattern.matches(value))?;
            return Some(format!("{}: {}", escape(name.as_bytes()), shown(found)));
        }
        if let Some(pattern) = &self.author {
            let found = commit.people.iter().find(|who| pattern.matches(who))?;
            return Some(format!("by {}", shown(found)));
        }
        let message = self.message.as_ref()?;
        message
            .matches(&commit.message)
            .then(|| "its message".to_owned())
    }

    /// True when the path of a file is a sign.
    fn is_about(&self, path: &[u8]) -> bool {
        self.path
            .as_ref()
            .is_some_and(|pattern| pattern.matches(path))
    }
}

fn shown(text: &[u8]) -> String {
    shortened(&escape(text), SUBJECT)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commit(message: &str) -> Commit {
        let head = "tree 1\nauthor A [bot] <a@b> 1 +0000\ncommitter C <c@d> 1 +0000\n\n";
        Commit::read(format!("{head}{message}").as_bytes())
    }

    fn rule(text: &str) -> ModelRule {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn signs_are_found_wherever_a_commit_has_them() {
        let trailer = rule("trailer = \"Co-Authored-By\"\nvalue = \"*[bot]*\"");
        for message in [
            "s\n\nco-authored-by: Helper[bot] <x@y>",
            "s\n\nCO-AUTHORED-BY : Helper\n [bot]",
            "s\n\nCo-Authored-By: other\nCo-Authored-By: x[bot]\n\nand more text\n",
            "Co-Authored-By: x[bot]",
        ] {
            assert!(trailer.reason(&commit(message)).is_some(), "{message}");
        }
        for message in [
            "",
            "s\n\nNot-Co-Authored-By: x[bot]",
            "s\n\nCo-Authored-By: x\n\n [bot] y",
        ] {
            assert!(trailer.reason(&commit(message)).is_none(), "{message}");
        }
        let author = rule("author = \"*[bot] <*>\"");
        assert_eq!(author.reason(&commit("s")).unwrap(), "by A [bot] <a@b>");
        assert!(
            rule("author = \"c *\"").reason(&commit("s")).is_some(),
            "the committer"
        );
        assert!(
            rule("message = \"*made with*\"")
                .reason(&commit("s\n\nMade with X"))
                .is_some()
        );
    }
}
