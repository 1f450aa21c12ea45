//! Paths that are other ones in another version: a tree at another place, a version in a name.

use std::collections::{BTreeMap, BTreeSet};

use crate::cli::Moved;

/// Trees that are found to have moved at most.
const MOST_TREES: usize = 8;
/// Files that a tree has in common at both places, at least.
const FEWEST_FILES: usize = 2;
/// Paths with the same last name that are compared; more say nothing.
const MOST_ALIKE: usize = 64;

type Paths = BTreeSet<Vec<u8>>;

/// The moves between two sets of paths: names that differ by a version alone, then trees whose files are the same.
pub fn find(mut before: Paths, after: &Paths) -> Vec<Moved> {
    let mut moved = versions(&before, after);
    for one in &moved {
        before = before.iter().map(|path| one.apply(path)).collect();
    }
    while moved.len() < MOST_TREES
        && let Some(tree) = tree(&before, after)
    {
        before = before.iter().map(|path| tree.apply(path)).collect();
        moved.push(tree);
    }
    moved
}

/// Names of one side each that are the same but for the version, where there is no other such name.
fn versions(before: &Paths, after: &Paths) -> Vec<Moved> {
    let names = |paths: &Paths| -> Paths {
        let names = paths
            .iter()
            .flat_map(|path| path.split(|byte| *byte == b'/'));
        names.map(<[u8]>::to_vec).collect()
    };
    let (before, after) = (names(before), names(after));
    let by_form = |names: &Paths, others: &Paths| {
        let mut forms: BTreeMap<Vec<u8>, Vec<Vec<u8>>> = BTreeMap::new();
        for name in names.difference(others) {
            if let Some(form) = without_version(name) {
                forms.entry(form).or_default().push(name.clone());
            }
        }
        forms
    };
    let (old, new) = (by_form(&before, &after), by_form(&after, &before));
    let pairs = old
        .iter()
        .filter_map(|(form, old)| Some((old, new.get(form)?)));
    let moved = pairs.filter_map(|(old, new)| match (&old[..], &new[..]) {
        ([old], [new]) => Some(Moved::new(old, new)),
        _ => None,
    });
    moved.collect()
}

/// The name with a mark in the place of each number and each row of numbers with dots between; `None` without any.
fn without_version(name: &[u8]) -> Option<Vec<u8>> {
    let mut form: Vec<u8> = Vec::with_capacity(name.len());
    for (at, byte) in name.iter().enumerate() {
        let goes_on = *byte == b'.'
            && form.last() == Some(&0)
            && name.get(at + 1).is_some_and(u8::is_ascii_digit);
        match byte.is_ascii_digit() || goes_on {
            true if form.last() == Some(&0) => {}
            true => form.push(0),
            false => form.push(*byte),
        }
    }
    form.contains(&0).then_some(form)
}

/// The tree that most files moved with, if it is at one place before and at one place after.
fn tree(before: &Paths, after: &Paths) -> Option<Moved> {
    let last = |path: &Vec<u8>| path.rsplit(|byte| *byte == b'/').next().map(<[u8]>::to_vec);
    let mut by_name: BTreeMap<Vec<u8>, Vec<&[u8]>> = BTreeMap::new();
    for path in after.difference(before) {
        by_name.entry(last(path)?).or_default().push(path);
    }
    let mut votes: BTreeMap<(&[u8], &[u8]), usize> = BTreeMap::new();
    for old in before.difference(after) {
        let alike = by_name.get(&last(old)?).into_iter().flatten();
        for new in alike.take(MOST_ALIKE) {
            *votes.entry(heads(old, new)).or_default() += 1;
        }
    }
    let is_below = |paths: &Paths, head: &[u8]| {
        let mut rests = paths.iter().filter_map(|path| path.strip_prefix(head));
        rests.any(|rest| rest.is_empty() || rest.starts_with(b"/"))
    };
    let votes = votes.into_iter().filter(|((old, new), files)| {
        let are_places = !old.is_empty() && !new.is_empty();
        *files >= FEWEST_FILES && are_places && !is_below(after, old) && !is_below(before, new)
    });
    let ((old, new), _) = votes.max_by_key(|(_, files)| *files)?;
    Some(Moved::new(old, new))
}

/// Both paths without the names that they end with alike.
fn heads<'p>(mut old: &'p [u8], mut new: &'p [u8]) -> (&'p [u8], &'p [u8]) {
    let split = |path: &'p [u8]| {
        let at = path.iter().rposition(|byte| *byte == b'/')?;
        Some((&path[..at], &path[at..]))
    };
    while let (Some((old_head, old_name)), Some((new_head, new_name))) = (split(old), split(new))
        && old_name == new_name
    {
        (old, new) = (old_head, new_head);
    }
    (old, new)
}

#[cfg(test)]
mod tests {
    use turnkey_report::escape;

    use super::*;

    fn paths(texts: &[&str]) -> Paths {
        texts.iter().map(|text| text.as_bytes().to_vec()).collect()
    }

    fn found(before: &[&str], after: &[&str]) -> Vec<String> {
        let moved = find(paths(before), &paths(after)).into_iter();
        moved
            .map(|one| format!("{}={}", escape(&one.from), escape(&one.to)))
            .collect()
    }

    #[test]
    fn a_version_in_a_name_is_found() {
        let before = [
            "/workspace/r2.31.0/a.py",
            "/lib/requests-2.31.0.dist-info/METADATA",
        ];
        let after = [
            "/workspace/r2.32.3/a.py",
            "/lib/requests-2.32.3.dist-info/METADATA",
        ];
        let expected = [
            "r2.31.0=r2.32.3",
            "requests-2.31.0.dist-info=requests-2.32.3.dist-info",
        ];
        assert_eq!(found(&before, &after), expected);
        // Two that it could be, and one that both have.
        assert_eq!(found(&["/v1/a"], &["/v2/a", "/v3/a"]), [""; 0]);
        assert_eq!(found(&["/v1/a", "/v2/b"], &["/v2/a"]), [""; 0]);
    }

    #[test]
    fn a_tree_at_another_place_is_found() {
        let before = ["/opt/old/lib/a", "/opt/old/lib/b", "/opt/old/c", "/etc/x"];
        let after = [
            "/srv/new/lib/a",
            "/srv/new/lib/b",
            "/srv/new/c",
            "/etc/x",
            "/etc/shadow",
        ];
        assert_eq!(found(&before, &after), ["/opt/old=/srv/new"]);
        // One file is no tree, and what is still there has not moved.
        assert_eq!(
            found(&["/workspace/credentials"], &["/root/.aws/credentials"]),
            [""; 0]
        );
        let grown = ["/a/x", "/a/y", "/b/x", "/b/y", "/a/z"];
        assert_eq!(found(&["/a/x", "/a/y", "/a/z"], &grown), [""; 0]);
    }

    #[test]
    fn a_path_or_a_name_is_replaced_whole() {
        let path = Moved::new("/opt/a", "/srv/b");
        assert_eq!(path.apply(b"/opt/a/x/opt/a"), b"/srv/b/x/opt/a");
        assert_eq!(path.apply(b"/opt/ab"), b"/opt/ab");
        let name = Moved::new("v1", "v2");
        assert_eq!(name.apply(b"/v1/xv1/v1"), b"/v2/xv1/v2");
    }
}
