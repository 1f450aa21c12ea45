//! No import cycle inside a crate is longer than three files: who changes one of them can keep the others in mind.
//!
//! A file imports what its paths from `crate`, `super` and `self` name. A module's own folder is no cycle: the file beside the folder
//! is its entrance, and names what is in it without such a path.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;

use proc_macro2::{TokenStream, TokenTree};

use super::TidyProblem;
use super::tree::TextFile;

const LONGEST: usize = 3;

/// The path of a module in its crate; empty for the root.
type Module = Vec<String>;

/// Finds imports that lead back only by way of more files.
pub fn check(files: &[TextFile]) -> Vec<TidyProblem> {
    let mut crates: BTreeMap<&Path, BTreeMap<Module, &TextFile>> = BTreeMap::new();
    for file in files {
        if let Some((root, module)) = module_of(&file.path) {
            crates.entry(root).or_default().insert(module, file);
        }
    }
    crates.values().flat_map(of_crate).collect()
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

fn of_crate(files: &BTreeMap<Module, &TextFile>) -> Vec<TidyProblem> {
    let imports: BTreeMap<&Module, BTreeSet<&Module>> = files
        .iter()
        .map(|(module, file)| (module, imports(module, &file.text, files)))
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
            problems.push(TidyProblem::new(&files[*from].path, 0, message));
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

/// The modules that a file's paths name, but for itself and the root.
fn imports<'m>(
    module: &Module,
    text: &str,
    all: &'m BTreeMap<Module, &TextFile>,
) -> BTreeSet<&'m Module> {
    let text = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let mut paths = Vec::new();
    // What is no Rust, clippy reports.
    let tokens: TokenStream = text.parse().unwrap_or_default();
    named(&[], tokens, &mut paths);
    let modules = paths.iter().filter_map(|path| {
        let absolute = absolute(module, path);
        let prefixes = (1..=absolute.len()).rev().map(|length| &absolute[..length]);
        prefixes
            .filter_map(|prefix| all.get_key_value(prefix))
            .map(|(found, _)| found)
            .next()
    });
    modules.filter(|found| *found != module).collect()
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
            _ => finish(&mut path, paths),
        }
        (is_half, is_joined) = (false, path == prefix && !prefix.is_empty());
    }
    finish(&mut path, paths);
}

fn finish(path: &mut Vec<String>, paths: &mut Vec<Vec<String>>) {
    let path = std::mem::take(path);
    if path
        .first()
        .is_some_and(|first| ["crate", "super", "self"].contains(&first.as_str()))
    {
        paths.push(path);
    }
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
    fn tests_other_crates_and_names_alike_are_no_imports() {
        let with = |text: &'static str| {
            messages(&[CIRCLE[0], CIRCLE[1], CIRCLE[2], ("one/src/d.rs", text)])
        };
        assert_eq!(with("use super::a::A;").len(), 4);
        for text in [
            "#[cfg(test)]\nmod tests { use crate::a::A; }",
            "use other::crate_a::a;",
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
