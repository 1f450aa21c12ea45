//! No import cycle inside a crate is longer than three files: who changes one of them can keep the others in mind.
//!
//! A file imports what its paths from `crate`, `super` and `self` name, and by a name that another file only passes on, it imports
//! the file that has the item. A module's own folder is no cycle: the file beside the folder is its entrance, and names what is in
//! it without such a path.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;

use proc_macro2::{TokenStream, TokenTree};

use super::TidyProblem;
use super::tree::TextFile;

const LONGEST: usize = 3;

/// The path of a module in its crate; empty for the root.
type Module = Vec<String>;

/// A source file, without its tests.
struct SourceFile<'t> {
    path: &'t Path,
    tokens: TokenStream,
    /// The names that its `use` declarations bring in, each with the path behind it.
    bound: BTreeMap<String, Vec<String>>,
}

/// The files of a crate.
type CrateFiles<'t> = BTreeMap<Module, SourceFile<'t>>;

/// Finds imports that lead back only by way of more files.
pub fn check(files: &[TextFile]) -> Vec<TidyProblem> {
    let mut crates: BTreeMap<&Path, CrateFiles<'_>> = BTreeMap::new();
    for file in files {
        if let Some((root, module)) = module_of(&file.path) {
            let file = SourceFile::read(file);
            crates.entry(root).or_default().insert(module, file);
        }
    }
    crates.values().flat_map(of_crate).collect()
}

impl SourceFile<'_> {
    fn read(file: &TextFile) -> SourceFile<'_> {
        let text = file.text.split("#[cfg(test)]\nmod ").next();
        // What is no Rust, clippy reports.
        let tokens: TokenStream = text.unwrap_or_default().parse().unwrap_or_default();
        let mut bound = BTreeMap::new();
        let mut items = tokens.clone().into_iter();
        while let Some(token) = items.next() {
            if matches!(&token, TokenTree::Ident(word) if word == "use") {
                let tree = items.by_ref().take_while(|token| !is_punct(token, ';'));
                bind(&[], tree.collect(), &mut bound);
            }
        }
        SourceFile {
            path: &file.path,
            tokens,
            bound,
        }
    }
}

fn is_punct(token: &TokenTree, character: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == character)
}

/// Collects the names that the tree of a `use` declaration binds behind a prefix.
fn bind(prefix: &[String], tree: TokenStream, bound: &mut BTreeMap<String, Vec<String>>) {
    let tree: Vec<TokenTree> = tree.into_iter().collect();
    for branch in tree.split(|token| is_punct(token, ',')) {
        let words = branch.iter().filter_map(|token| match token {
            TokenTree::Ident(word) => Some(word.to_string()),
            _ => None,
        });
        let mut path: Vec<String> = prefix.iter().cloned().chain(words).collect();
        match branch.last() {
            Some(TokenTree::Group(group)) => {
                bind(&path, group.stream(), bound);
                continue;
            }
            Some(TokenTree::Ident(last)) if last == "self" => path.truncate(path.len() - 1),
            Some(TokenTree::Ident(_)) => {}
            _ => continue,
        }
        let name = path.last().cloned().unwrap_or_default();
        if let Some(renamed) = path.iter().position(|word| word == "as") {
            path.truncate(renamed);
        }
        bound.insert(name, path);
    }
}

/// The crate's folder and the module of a source file; `None` for tests, which may know everybody.
fn module_of(path: &Path) -> Option<(&Path, Module)> {
    let source = path.ancestors().find(|folder| folder.ends_with("src"))?;
    let inner = path.strip_prefix(source).ok()?;
    if inner.extension()? != "rs" || inner.to_str()?.contains("tests") {
        return None;
    }
    let inner = inner.with_extension("");
    let mut module: Module = inner
        .iter()
        .filter_map(|name| Some(name.to_str()?.to_owned()))
        .collect();
    module.pop_if(|last| ["mod", "lib", "main"].contains(&last.as_str()));
    Some((source, module))
}

fn of_crate(files: &CrateFiles<'_>) -> Vec<TidyProblem> {
    let imports: BTreeMap<&Module, BTreeSet<&Module>> = files
        .keys()
        .map(|module| (module, imports(module, files)))
        .collect();
    let mut problems = Vec::new();
    for (from, targets) in &imports {
        for to in targets {
            let Some(back) = way(&imports, to, from).filter(|back| back.len() > LONGEST) else {
                continue;
            };
            let names: Vec<String> = back.iter().map(|module| module.join("::")).collect();
            let message = format!(
                "imports in a circle of {} files: {}",
                back.len(),
                names.join(" → ")
            );
            problems.push(TidyProblem::new(files[*from].path, 0, message));
        }
    }
    problems
}

/// The shortest way along imports, with both ends.
fn way<'m>(
    imports: &BTreeMap<&'m Module, BTreeSet<&'m Module>>,
    from: &'m Module,
    to: &Module,
) -> Option<Vec<&'m Module>> {
    let mut ways = VecDeque::from([vec![from]]);
    let mut seen = BTreeSet::from([from]);
    while let Some(way) = ways.pop_front() {
        let last = way.last()?;
        if *last == to {
            return Some(way);
        }
        let next = imports[*last].iter().filter(|next| seen.insert(**next));
        ways.extend(next.map(|next| [way.as_slice(), &[*next]].concat()));
    }
    None
}

/// The modules that have what a file's paths name, but for itself and the root.
fn imports<'m>(module: &Module, files: &'m CrateFiles<'_>) -> BTreeSet<&'m Module> {
    let mut paths = Vec::new();
    named(&[], files[module].tokens.clone(), &mut paths);
    let paths = paths.iter().map(|path| absolute(module, path));
    let owners = paths.filter_map(|path| owner(path, files));
    owners
        .filter(|owner| *owner != module && !owner.is_empty())
        .collect()
}

/// The module that has the item of a path, by whatever `use` of others the path leads there.
fn owner<'m>(mut path: Vec<String>, files: &'m CrateFiles<'_>) -> Option<&'m Module> {
    // More renames than that are a circle, which the compiler refuses.
    for _ in 0..8 {
        let mut lengths = (0..=path.len()).rev();
        let length = lengths.find(|length| files.contains_key(&path[..*length]))?;
        let (module, file) = files.get_key_value(&path[..length])?;
        let bound = path.get(length).and_then(|name| file.bound.get(name));
        let Some(bound) = bound.and_then(|bound| bound_in(module, bound, files)) else {
            return Some(module);
        };
        path = [&bound, &path[length + 1..]].concat();
    }
    None
}

/// The path of a `use` from the root on; `None` when it leads to another crate.
fn bound_in(module: &Module, path: &[String], files: &CrateFiles<'_>) -> Option<Module> {
    if is_own(path) {
        return Some(absolute(module, path));
    }
    let below = [module, path].concat();
    files.contains_key(&below[..=module.len()]).then_some(below)
}

fn absolute(module: &Module, path: &[String]) -> Module {
    let above = path.iter().take_while(|step| *step == "super").count();
    let base = if path[0] == "crate" {
        0
    } else {
        module.len().saturating_sub(above)
    };
    let rest = path
        .iter()
        .filter(|step| !["crate", "super", "self"].contains(&step.as_str()));
    module[..base].iter().chain(rest).cloned().collect()
}

/// Collects the paths of the tokens, those in braces behind what stands before the braces.
fn named(prefix: &[String], tokens: TokenStream, paths: &mut Vec<Vec<String>>) {
    let mut path = prefix.to_vec();
    let (mut is_half, mut is_joined) = (false, !prefix.is_empty());
    for token in tokens {
        if let TokenTree::Punct(punct) = &token
            && punct.as_char() == ':'
        {
            (is_half, is_joined) = (!is_half, is_half);
            continue;
        }
        if !is_joined {
            finish(&mut path, paths);
        }
        match token {
            TokenTree::Ident(name) => path.push(name.to_string()),
            TokenTree::Group(group) => named(&std::mem::take(&mut path), group.stream(), paths),
            TokenTree::Punct(punct) if punct.as_char() == ',' => path = prefix.to_vec(),
            TokenTree::Punct(punct) if punct.as_char() == '*' && is_joined => {
                path.push("*".to_owned());
            }
            _ => finish(&mut path, paths),
        }
        (is_half, is_joined) = (false, path == prefix && !prefix.is_empty());
    }
    finish(&mut path, paths);
}

fn finish(path: &mut Vec<String>, paths: &mut Vec<Vec<String>>) {
    let path = std::mem::take(path);
    // One word alone says who may see an item.
    if path.len() > 1 && is_own(&path) {
        paths.push(path);
    }
}

/// True when a path starts in its own crate.
fn is_own(path: &[String]) -> bool {
    path.first()
        .is_some_and(|first| ["crate", "super", "self"].contains(&first.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<TextFile> = files
            .iter()
            .map(|(path, text)| TextFile::new(path, text))
            .collect();
        check(&files).iter().map(ToString::to_string).collect()
    }

    const CIRCLE: [(&str, &str); 4] = [
        ("one/src/a.rs", "use crate::{b::{self, B}, other};"),
        ("one/src/b.rs", "fn c() -> super::c::C { todo }"),
        ("one/src/c.rs", "struct C { field: crate::d::E::F }"),
        ("one/src/d/mod.rs", "use super::a::*;"),
    ];

    #[test]
    fn a_circle_of_four_is_told_at_each_and_one_of_three_is_not() {
        let found = messages(&CIRCLE);
        assert_eq!(found.len(), 4, "{found:?}");
        assert_eq!(
            found[0],
            "one/src/a.rs: imports in a circle of 4 files: b → c → d → a"
        );
        let mut shorter = CIRCLE;
        shorter[2].1 = "use crate::a::A;";
        assert_eq!(messages(&shorter), [""; 0]);
    }

    #[test]
    fn a_circle_by_names_that_others_pass_on_is_found() {
        let mut passed_on = CIRCLE;
        passed_on[0].1 = "use crate::{passes::B, other};";
        passed_on[3].1 = "use super::passes::Renamed;";
        let with = |text| messages(&[&passed_on[..], &[("one/src/passes.rs", text)]].concat());
        let found = with("use super::b::{self, B};\npub(crate) use crate::a::{A as Renamed, C};");
        assert_eq!(found.len(), 4, "{found:?}");
        assert_eq!(
            found[0],
            "one/src/a.rs: imports in a circle of 4 files: b → c → d → a"
        );
        assert_eq!(
            with("pub struct B; pub use crate::a::A as Renamed;"),
            [""; 0]
        );
        let by_the_root = ("one/src/lib.rs", "mod passes; pub use passes::Renamed;");
        passed_on[3].1 = "use crate::Renamed;";
        let passes = (
            "one/src/passes.rs",
            "pub use {super::b::B, crate::a::Renamed};",
        );
        let found = messages(&[&passed_on[..], &[by_the_root, passes]].concat());
        assert_eq!(found.len(), 4, "{found:?}");
    }

    #[test]
    fn tests_other_crates_and_names_alike_are_no_imports() {
        let with = |text: &'static str| {
            messages(&[CIRCLE[0], CIRCLE[1], CIRCLE[2], ("one/src/d.rs", text)])
        };
        assert_eq!(with("use super::a::A;").len(), 4);
        for text in [
            "#[cfg(test)]\nmod tests { use crate::a::A; }",
            "use other::crate_a::a;",
            "pub(in crate) struct A; pub(super) fn f(a: &Self) {}",
            "// use crate::a;",
        ] {
            assert_eq!(with(text), [""; 0], "{text}");
        }
        assert_eq!(
            messages(&[
                CIRCLE[0],
                CIRCLE[1],
                CIRCLE[2],
                ("two/src/d.rs", "use crate::a::A;")
            ]),
            [""; 0]
        );
    }
}
