//! Links of documents to files of the tree, and to headings in them: what was moved or renamed is found.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use anyhow::Result;
use regex_lite::Regex;

use super::TidyProblem;
use super::tree::TextFile;

/// Finds links that lead nowhere. Those to other hosts are not followed: tidy works without a network.
pub fn check(files: &[TextFile], exists: impl Fn(&Path) -> bool) -> Result<Vec<TidyProblem>> {
    let link = Regex::new(r"\]\(\s*([^)\s]*)[^)]*\)")?;
    let documents = files.iter().filter(|file| file.has_extension(&["md"]));
    let headings: BTreeMap<&Path, BTreeSet<String>> = documents
        .clone()
        .map(|file| (file.path.as_path(), anchors(&file.text)))
        .collect();
    let mut problems = Vec::new();
    for file in documents {
        for (line, target) in links(&file.text, &link) {
            if let Some(wrong) = wrong(file, &target, &headings, &exists) {
                problems.push(TidyProblem::new(&file.path, line, wrong));
            }
        }
    }
    Ok(problems)
}

/// The fault of a link, if it has one.
fn wrong(
    file: &TextFile,
    target: &str,
    headings: &BTreeMap<&Path, BTreeSet<String>>,
    exists: impl Fn(&Path) -> bool,
) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let folder = file.path.parent().unwrap_or(Path::new(""));
    let path = match path {
        "" => file.path.clone(),
        path => normal(&folder.join(path)),
    };
    if !exists(&path) {
        return Some(format!("the link to {target} leads to no file"));
    }
    let known = headings.get(path.as_path());
    let leads = anchor.is_empty() || known.is_none_or(|known| known.contains(anchor));
    (!leads).then(|| format!("{target}: no heading there is called so"))
}

/// Without `.` and `..`, which the tree has no names for.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                normal.pop();
            }
            Component::CurDir => {}
            other => normal.push(other),
        }
    }
    normal
}

/// The lines outside of fenced blocks, with their numbers from 1.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
            return None;
        }
        (!fenced).then_some((index + 1, line))
    })
}

/// Every `](target)`, with its line. What stands between backticks is code.
fn links<'a>(text: &'a str, link: &'a Regex) -> impl Iterator<Item = (usize, String)> + 'a {
    prose(text).flat_map(|(number, line)| {
        let bare = line.split('`').step_by(2).collect::<Vec<_>>().join("code");
        let targets = link.captures_iter(&bare).map(|found| found[1].to_owned());
        targets.map(|target| (number, target)).collect::<Vec<_>>()
    })
}

/// The names of headings in a link, as code hosts make them. A heading that is there again gets a number.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut known = BTreeSet::new();
    for (_, line) in prose(text) {
        let title = line.trim_start_matches('#');
        if title.len() == line.len() || !title.starts_with(' ') {
            continue;
        }
        let slug = slug(title.trim());
        let mut name = slug.clone();
        let mut number = 0;
        while !known.insert(name.clone()) {
            number += 1;
            name = format!("{slug}-{number}");
        }
    }
    known
}

fn slug(title: &str) -> String {
    let title = title.to_ascii_lowercase().replace(' ', "-");
    title.replace(
        |letter: char| !letter.is_alphanumeric() && !"-_".contains(letter),
        "",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(text: &str) -> Vec<String> {
        let files = [
            TextFile::new("docs/a.md", text),
            TextFile::new(
                "README.md",
                "# Name\n## What it *is*, `really`\n## Same\n## Same\n",
            ),
        ];
        let exists =
            |path: &Path| ["docs/a.md", "README.md", "docs"].contains(&&*path.to_string_lossy());
        let found = check(&files, exists).expect("a pattern");
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn links_to_what_is_there_pass() {
        for link in [
            "[a](../README.md)",
            "[a](../README.md#what-it-is-really) and [b](#here)\n# Here",
            "[a](../README.md#same-1)",
            "[a](./../docs/a.md)",
            "[a](https://example.org/x#y)",
            "`[a](nowhere.md)`",
            "```\n[a](nowhere.md)\n```",
        ] {
            assert_eq!(problems(link), [""; 0], "{link}");
        }
    }

    #[test]
    fn links_that_lead_nowhere_are_found_with_their_line() {
        let found = problems("\n[a](../README.md#gone)\n[b](gone.md) ![c](gone.png)\n");
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[0].starts_with("docs/a.md:2: "), "{found:?}");
        assert!(found[1].starts_with("docs/a.md:3: "), "{found:?}");
        assert_eq!(problems("[a](../README.md#same-2)").len(), 1);
    }

    #[test]
    fn every_link_of_the_documents_leads_somewhere() {
        let root = crate::workspace::root();
        let files = crate::tidy::tree::tracked(&root).expect("git lists the files");
        let problems = check(&files, |path| root.join(path).exists()).expect("a pattern");
        assert_eq!(problems, []);
    }
}
