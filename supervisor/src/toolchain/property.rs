//! Whatever lies in a workspace, what is brought in is an installation that the caller has.
//!
//! Homes are made with installations and with places that are none, and workspaces of symlinks, scripts and
//! `pyvenv.cfg` that name all of them. The list of what may come in is the one that the homes were made from,
//! and not what the search thinks of them.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::sync::LazyLock;

use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};

use super::*;
use turnkey_policy::WORKSPACE;

/// Worlds that are tried.
const CASES: u32 = 300;

/// A directory of the home, and when it may be brought in.
struct MadeDirectory {
    place: &'static str,
    marks: &'static [&'static str],
    may: MayBring,
}

#[derive(Clone, Copy, PartialEq)]
enum MayBring {
    /// A place where installers put one.
    Always,
    /// A place whose programs the caller's PATH lists.
    Listed,
    Never,
}

const fn made(place: &'static str, marks: &'static [&'static str], may: MayBring) -> MadeDirectory {
    MadeDirectory { place, marks, may }
}

/// Each has a program `bin/python3`, and one without a directory, `tool`.
const HOME: [MadeDirectory; 12] = [
    made(
        ".pyenv/versions/3.12",
        &["lib/python3.12/os.py"],
        MayBring::Always,
    ),
    made(
        ".nvm/versions/node/v20",
        &["include/node/node.h"],
        MayBring::Always,
    ),
    made(".virtualenvs/honest", &["pyvenv.cfg"], MayBring::Always),
    // Its `home` is `private`, which is no installation: nothing comes in, then.
    made(".virtualenvs/liar", &["pyvenv.cfg"], MayBring::Never),
    made(
        "elsewhere/python",
        &["lib/python3.12/os.py"],
        MayBring::Listed,
    ),
    made("own", &[], MayBring::Listed),
    made("private", &[], MayBring::Never),
    made(".ssh", &["id_ed25519"], MayBring::Never),
    made(".ssh/python", &["lib/python3.12/os.py"], MayBring::Never),
    made(".config", &["gh/hosts.yml"], MayBring::Never),
    made(".aws/keys", &["pyvenv.cfg"], MayBring::Never),
    made(".local/share", &["lib/python3.12/os.py"], MayBring::Never),
];

/// Files of the workspace.
const NODES: [&str; 8] = [
    "n0",
    "n1",
    "sub/n2",
    "-x",
    ".venv/bin/python3",
    ".venv/bin/tool",
    "bin/n3",
    "a=b",
];
/// Names of directories, for links to them.
const LINKS: [&str; 3] = ["d0", "sub/d1", ".venv/lib"];

#[derive(Clone, Debug)]
enum TreeNode {
    Link(NamedTarget),
    Script(String, NamedTarget, String),
    Program,
}

/// A target that a file of the workspace names.
#[derive(Clone, Debug)]
enum NamedTarget {
    /// A file of a place in the home.
    There(usize, &'static str),
    /// Another file of the workspace.
    Here(usize),
    /// Over a link to a directory.
    Over(usize, &'static str),
    /// A program of the system.
    System,
    /// The home itself, and what is above it.
    Up(usize),
}

#[derive(Clone, Debug)]
struct RandomHome {
    nodes: Vec<TreeNode>,
    links: Vec<NamedTarget>,
    venv: Option<NamedTarget>,
    path: Vec<bool>,
    workspace_first: bool,
    command: String,
}

fn target() -> impl Strategy<Value = NamedTarget> {
    let file = prop::sample::select(vec![
        "bin/python3",
        "tool",
        "bin",
        "",
        "nothing",
        "bin/../tool",
    ]);
    prop_oneof![
        6 => (0..HOME.len(), file.clone()).prop_map(|(place, file)| NamedTarget::There(place, file)),
        2 => (0..NODES.len()).prop_map(NamedTarget::Here),
        2 => (0..LINKS.len(), file).prop_map(|(link, file)| NamedTarget::Over(link, file)),
        1 => Just(NamedTarget::System),
        1 => (0..3_usize).prop_map(NamedTarget::Up),
    ]
}

fn node() -> impl Strategy<Value = TreeNode> {
    let start = prop::sample::select(vec![
        "#!",
        "#! ",
        "#!\t",
        "#!-x ",
        "#!a=b ",
        "#!/usr/bin/env ",
        "#!/usr/bin/env -S ",
    ]);
    let rest = prop::sample::select(vec!["", " ", " -x", " python3", " a=b tool", "\r", "\0"]);
    prop_oneof![
        4 => target().prop_map(TreeNode::Link),
        6 => (start, target(), rest).prop_map(|(start, target, rest)| {
            TreeNode::Script(start.to_owned(), target, rest.to_owned())
        }),
        1 => Just(TreeNode::Program),
    ]
}

fn world() -> impl Strategy<Value = RandomHome> {
    let command = prop::sample::select(vec![
        "python3",
        "tool",
        "n3",
        "./n0",
        "./-x",
        "sub/n2",
        "/workspace/n1",
        ".venv/bin/tool",
        "WORK/n0",
        "WORK/.venv/bin/python3",
    ]);
    (
        prop::collection::vec(node(), NODES.len()),
        prop::collection::vec(target(), LINKS.len()),
        prop::option::of(target()),
        prop::collection::vec(any::<bool>(), HOME.len()),
        any::<bool>(),
        command,
    )
        .prop_map(
            |(nodes, links, venv, path, workspace_first, command)| RandomHome {
                nodes,
                links,
                venv,
                path,
                workspace_first,
                command: command.to_owned(),
            },
        )
}

fn write(path: &Path, content: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, content).unwrap();
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
}

/// A home with all that may and may not be brought in.
struct KnownHome {
    keep: tempfile::TempDir,
}

impl KnownHome {
    fn new() -> KnownHome {
        let people = KnownHome {
            keep: tempfile::tempdir().unwrap(),
        };
        for made in &HOME {
            install(&people.home(), made);
        }
        people
    }

    fn home(&self) -> PathBuf {
        self.keep.path().canonicalize().unwrap().join("people/me")
    }
}

fn install(home: &Path, made: &MadeDirectory) {
    let place = home.join(made.place);
    write(&place.join("bin/python3"), "\x7fELF");
    write(&place.join("tool"), "\x7fELF");
    let base = match made.place {
        ".virtualenvs/liar" => "private/bin",
        _ => ".pyenv/versions/3.12/bin",
    };
    let text = format!("home = {}\n", home.join(base).display());
    for mark in made.marks {
        write(&place.join(mark), &text);
    }
}

/// A workspace in it, gone afterwards.
struct LaidWorkspace {
    home: PathBuf,
    work: PathBuf,
}

impl Drop for LaidWorkspace {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.work);
    }
}

impl LaidWorkspace {
    fn out(people: &KnownHome, world: &RandomHome) -> LaidWorkspace {
        let home = people.home();
        let work = home.join("src/project");
        let laid = LaidWorkspace { home, work };
        let mut names = NODES.iter().zip(&world.nodes);
        names.all(|(name, node)| laid.node(name, node));
        for (name, target) in LINKS.iter().zip(&world.links) {
            let link = laid.work.join(name);
            std::fs::create_dir_all(link.parent().unwrap()).unwrap();
            symlink(laid.path(target).parent().unwrap(), link).unwrap();
        }
        if let Some(target) = &world.venv {
            let home = laid.path(target);
            write(
                &laid.work.join(".venv/pyvenv.cfg"),
                &format!("home = {}\n", home.display()),
            );
        }
        laid
    }

    fn node(&self, name: &str, node: &TreeNode) -> bool {
        let path = self.work.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        match node {
            TreeNode::Link(target) => symlink(self.path(target), &path).unwrap(),
            TreeNode::Script(start, target, rest) => {
                let line = format!("{start}{}{rest}\n", self.path(target).display());
                write(&path, &line);
            }
            TreeNode::Program => write(&path, "\x7fELF"),
        }
        true
    }

    fn path(&self, target: &NamedTarget) -> PathBuf {
        match target {
            NamedTarget::There(place, file) => self.home.join(HOME[*place].place).join(file),
            NamedTarget::Here(node) => self.work.join(NODES[*node]),
            NamedTarget::Over(link, file) => self.work.join(LINKS[*link]).join(file),
            NamedTarget::System => PathBuf::from("/usr/bin/env"),
            NamedTarget::Up(names) => self
                .home
                .ancestors()
                .nth(*names)
                .unwrap()
                .join("bin/python3"),
        }
    }

    fn caller(&self, world: &RandomHome) -> CallerPaths {
        let listed = HOME.iter().zip(&world.path);
        // A caller does not list what is nobody's business.
        let listed = listed.filter(|(made, listed)| **listed && made.may != MayBring::Never);
        let mut path: Vec<_> = listed
            .map(|(made, _)| self.home.join(made.place).join("bin"))
            .collect();
        let at = if world.workspace_first { 0 } else { path.len() };
        path.splice(at..at, [self.work.join(".venv/bin"), self.work.join("bin")]);
        path.push("/usr/bin".into());
        CallerPaths {
            rustup: Default::default(),
            path,
            home: Some(self.home.clone()),
            venv: None,
        }
    }

    fn may_come_in(&self, real: &Path, world: &RandomHome) -> bool {
        let mut known = HOME.iter().zip(&world.path);
        let in_work = real.starts_with(&self.work) && real != self.work;
        in_work
            || known.any(|(made, listed)| {
                let may = made.may == MayBring::Always || (made.may == MayBring::Listed && *listed);
                may && real == self.home.join(made.place)
            })
    }
}

static POLICY: LazyLock<Policy> = LazyLock::new(|| {
    let no_files = |path: &str| Err(path.to_owned());
    let flags = turnkey_policy::Overrides::default();
    turnkey_policy::load("untrusted", &no_files, &flags).expect("a shipped profile")
});

/// The need that is found in a world.
fn needed(laid: &LaidWorkspace, world: &RandomHome) -> ToolchainNeed {
    let command = world.command.replace("WORK", laid.work.to_str().unwrap());
    let caller = laid.caller(world);
    let directory = RunDirectory {
        workdir: Some(laid.work.clone()),
        ..RunDirectory::default()
    };
    let found = find(&POLICY, OsStr::new(&command), &directory, &caller);
    found.ok().flatten().unwrap_or_default()
}

#[test]
fn j67_what_is_brought_in_is_an_installation_that_the_caller_has() {
    let people = KnownHome::new();
    // The search is not right by finding nothing: each that may come in does, in some world.
    let brought = std::cell::RefCell::new(std::collections::BTreeSet::new());
    let config = ProptestConfig {
        cases: CASES,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let mut runner =
        TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let checked = runner.run(&world(), |world| {
        let laid = LaidWorkspace::out(&people, &world);
        let need = needed(&laid, &world);
        prop_assert_eq!(need.prefixes.len(), need.words.len());
        for place in &need.prefixes {
            let real = place.canonicalize().unwrap();
            prop_assert!(
                laid.may_come_in(&real, &world),
                "{} was brought in",
                real.display()
            );
            let below = real.strip_prefix(&laid.home).unwrap();
            brought.borrow_mut().insert(below.to_owned());
        }
        for directory in &need.directories {
            let shown = need
                .prefixes
                .iter()
                .any(|place| directory.starts_with(place));
            prop_assert!(
                shown || directory.starts_with(WORKSPACE),
                "{}",
                directory.display()
            );
        }
        Ok(())
    });
    checked.unwrap();
    let brought = brought.into_inner();
    for made in HOME.iter().filter(|made| made.may != MayBring::Never) {
        assert!(
            brought.contains(Path::new(made.place)),
            "{}: {brought:?}",
            made.place
        );
    }
}
