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

/// Worlds that are tried.
const CASES: u32 = 300;

/// A directory of the home, and when it may be brought in.
struct Made {
    place: &'static str,
    marks: &'static [&'static str],
    may: May,
}

#[derive(Clone, Copy, PartialEq)]
enum May {
    /// Where installers put one.
    Always,
    /// When the caller's PATH lists its programs.
    Listed,
    Never,
}

const fn made(place: &'static str, marks: &'static [&'static str], may: May) -> Made {
    Made { place, marks, may }
}

/// Each has a program `bin/python3`, and one without a directory, `tool`.
const HOME: [Made; 12] = [
    made(
        ".pyenv/versions/3.12",
        &["lib/python3.12/os.py"],
        May::Always,
    ),
    made(
        ".nvm/versions/node/v20",
        &["include/node/node.h"],
        May::Always,
    ),
    made(".virtualenvs/honest", &["pyvenv.cfg"], May::Always),
    // Its `home` is `private`, which is no installation: nothing comes in, then.
    made(".virtualenvs/liar", &["pyvenv.cfg"], May::Never),
    made("elsewhere/python", &["lib/python3.12/os.py"], May::Listed),
    made("own", &[], May::Listed),
    made("private", &[], May::Never),
    made(".ssh", &["id_ed25519"], May::Never),
    made(".ssh/python", &["lib/python3.12/os.py"], May::Never),
    made(".config", &["gh/hosts.yml"], May::Never),
    made(".aws/keys", &["pyvenv.cfg"], May::Never),
    made(".local/share", &["lib/python3.12/os.py"], May::Never),
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
enum Node {
    Link(Target),
    Script(String, Target, String),
    Program,
}

/// What a file of the workspace names.
#[derive(Clone, Debug)]
enum Target {
    /// A file of a place in the home.
    There(usize, &'static str),
    /// Something else of the workspace.
    Here(usize),
    /// Over a link to a directory.
    Over(usize, &'static str),
    /// A program of the system.
    System,
    /// The home itself, and what is above it.
    Up(usize),
}

#[derive(Clone, Debug)]
struct World {
    nodes: Vec<Node>,
    links: Vec<Target>,
    venv: Option<Target>,
    path: Vec<bool>,
    workspace_first: bool,
    command: String,
}

fn target() -> impl Strategy<Value = Target> {
    let file = prop::sample::select(vec![
        "bin/python3",
        "tool",
        "bin",
        "",
        "nothing",
        "bin/../tool",
    ]);
    prop_oneof![
        6 => (0..HOME.len(), file.clone()).prop_map(|(place, file)| Target::There(place, file)),
        2 => (0..NODES.len()).prop_map(Target::Here),
        2 => (0..LINKS.len(), file).prop_map(|(link, file)| Target::Over(link, file)),
        1 => Just(Target::System),
        1 => (0..3_usize).prop_map(Target::Up),
    ]
}

fn node() -> impl Strategy<Value = Node> {
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
        4 => target().prop_map(Node::Link),
        6 => (start, target(), rest).prop_map(|(start, target, rest)| {
            Node::Script(start.to_owned(), target, rest.to_owned())
        }),
        1 => Just(Node::Program),
    ]
}

fn world() -> impl Strategy<Value = World> {
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
            |(nodes, links, venv, path, workspace_first, command)| World {
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
struct People {
    keep: tempfile::TempDir,
}

impl People {
    fn new() -> People {
        let people = People {
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

fn install(home: &Path, made: &Made) {
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
struct Laid {
    home: PathBuf,
    work: PathBuf,
}

impl Drop for Laid {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.work);
    }
}

impl Laid {
    fn out(people: &People, world: &World) -> Laid {
        let home = people.home();
        let work = home.join("src/project");
        let laid = Laid { home, work };
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

    fn node(&self, name: &str, node: &Node) -> bool {
        let path = self.work.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        match node {
            Node::Link(target) => symlink(self.path(target), &path).unwrap(),
            Node::Script(start, target, rest) => {
                let line = format!("{start}{}{rest}\n", self.path(target).display());
                write(&path, &line);
            }
            Node::Program => write(&path, "\x7fELF"),
        }
        true
    }

    fn path(&self, target: &Target) -> PathBuf {
        match target {
            Target::There(place, file) => self.home.join(HOME[*place].place).join(file),
            Target::Here(node) => self.work.join(NODES[*node]),
            Target::Over(link, file) => self.work.join(LINKS[*link]).join(file),
            Target::System => PathBuf::from("/usr/bin/env"),
            Target::Up(names) => self
                .home
                .ancestors()
                .nth(*names)
                .unwrap()
                .join("bin/python3"),
        }
    }

    fn caller(&self, world: &World) -> Caller {
        let listed = HOME.iter().zip(&world.path);
        // A caller does not list what is nobody's business.
        let listed = listed.filter(|(made, listed)| **listed && made.may != May::Never);
        let mut path: Vec<_> = listed
            .map(|(made, _)| self.home.join(made.place).join("bin"))
            .collect();
        let at = if world.workspace_first { 0 } else { path.len() };
        path.splice(at..at, [self.work.join(".venv/bin"), self.work.join("bin")]);
        path.push("/usr/bin".into());
        Caller {
            path,
            home: Some(self.home.clone()),
        }
    }

    fn may_come_in(&self, real: &Path, world: &World) -> bool {
        let mut known = HOME.iter().zip(&world.path);
        let in_work = real.starts_with(&self.work) && real != self.work;
        in_work
            || known.any(|(made, listed)| {
                let may = made.may == May::Always || (made.may == May::Listed && *listed);
                may && real == self.home.join(made.place)
            })
    }
}

static POLICY: LazyLock<Policy> = LazyLock::new(|| {
    let no_files = |path: &str| Err(path.to_owned());
    let flags = turnkey_policy::Overrides::default();
    turnkey_policy::load("untrusted", &no_files, &flags).expect("a shipped profile")
});

/// What is brought in of a world.
fn needed(laid: &Laid, world: &World) -> Need {
    let command = world.command.replace("WORK", laid.work.to_str().unwrap());
    let caller = laid.caller(world);
    let found = find(&POLICY, OsStr::new(&command), Some(&laid.work), &caller);
    found.ok().flatten().unwrap_or_default()
}

#[test]
fn j67_what_is_brought_in_is_an_installation_that_the_caller_has() {
    let people = People::new();
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
        let laid = Laid::out(&people, &world);
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
    for made in HOME.iter().filter(|made| made.may != May::Never) {
        assert!(
            brought.contains(Path::new(made.place)),
            "{}: {brought:?}",
            made.place
        );
    }
}
