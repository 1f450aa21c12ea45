//! Where a command of the caller's PATH is installed, when that is outside of what the jail shows:
//! pyenv, nvm, conda, a venv, or a directory of one's own.
//!
//! Nothing is run to find out. Symlinks, the first line of scripts and `pyvenv.cfg` are followed
//! from the command on; each place they pass needs its installation, the directory above `bin`.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use turnkey_policy::{HostPath, Policy, Toolchain};

/// The longest chain of symlinks and interpreters that is followed.
const LONGEST: usize = 16;
/// Directories of programs, below what is installed.
const PROGRAMS: [&str; 5] = ["bin", "sbin", "shims", "condabin", "libexec"];
/// What lies in somebody's home or configuration, and never in an installation.
const CREDENTIALS: [&str; 12] = [
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".kube",
    ".docker",
    ".netrc",
    ".git-credentials",
    ".password-store",
    "credentials",
    "credentials.toml",
    "share/keyrings",
];

/// What a command needs that the jail does not show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Need {
    /// Where the command is.
    pub program: PathBuf,
    /// Installations.
    pub prefixes: Vec<PathBuf>,
    /// Directories of programs, for PATH.
    pub directories: Vec<PathBuf>,
}

/// An installation that is more than one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the toolchain of {} would bring in {}, which {why}; name what it needs instead, such as `--read {}`",
    program.display(), prefix.display(), program.display()
)]
pub struct TooMuch {
    program: PathBuf,
    prefix: PathBuf,
    why: &'static str,
}

/// With `toolchain = "auto"`, adds to the policy what `program` needs. What was added is the
/// answer.
///
/// # Errors
/// When that would be more than an installation.
pub fn bring_in(policy: &mut Policy, program: &OsStr) -> Result<Option<Need>, TooMuch> {
    if policy.filesystem.toolchain != Toolchain::Auto {
        return Ok(None);
    }
    let Some(need) = find(policy, program, &Caller::of_this_process())? else {
        return Ok(None);
    };
    for prefix in &need.prefixes {
        policy.filesystem.read.push(HostPath {
            path: prefix.clone(),
            optional: false,
            list: true,
            why: format!("the toolchain of {}", need.program.display()),
        });
    }
    let front = need.directories.iter().map(|path| path.to_string_lossy());
    let before = policy.environment.set.get("PATH").cloned();
    let before = before.unwrap_or_else(|| turnkey_jailer::plan::DEFAULT_PATH.to_owned());
    let path: Vec<_> = front.chain([before.as_str().into()]).collect();
    let path = path.join(":");
    policy.environment.set.insert("PATH".to_owned(), path);
    policy.settle_shown();
    Ok(Some(need))
}

/// What of the caller decides where a command is.
#[derive(Debug)]
pub struct Caller {
    path: Vec<PathBuf>,
    home: Option<PathBuf>,
}

impl Caller {
    /// From this process's environment.
    pub fn of_this_process() -> Caller {
        let path = std::env::var_os("PATH").unwrap_or_default();
        Caller {
            path: std::env::split_paths(&path).collect(),
            home: std::env::var_os("HOME").map(PathBuf::from),
        }
    }

    fn look_up(&self, name: &OsStr) -> Option<PathBuf> {
        let directories = self.path.iter().filter(|directory| directory.is_absolute());
        let candidates = directories.map(|directory| directory.join(name));
        candidates.into_iter().find(|file| is_program(file))
    }
}

fn is_program(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    let metadata = std::fs::metadata(file);
    metadata.is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

/// What `program` needs beyond what `policy` shows; `None` when it needs nothing, or is nowhere.
///
/// # Errors
/// When that would be more than an installation.
pub fn find(policy: &Policy, program: &OsStr, caller: &Caller) -> Result<Option<Need>, TooMuch> {
    let named = Path::new(program);
    let by_name = !program.as_bytes().contains(&b'/');
    let found = if by_name {
        caller.look_up(program)
    } else {
        Some(named.to_owned()).filter(|file| is_program(file))
    };
    let Some(found) = found else {
        return Ok(None);
    };
    let mut search = Search {
        policy,
        caller,
        need: Need {
            program: found.clone(),
            ..Need::default()
        },
        open: VecDeque::from([Step {
            file: found,
            by_name,
        }]),
    };
    search.run()?;
    Ok(Some(search.need).filter(|need| !need.prefixes.is_empty()))
}

/// A file on the way from the command to what runs it.
struct Step {
    file: PathBuf,
    by_name: bool,
}

struct Search<'a> {
    policy: &'a Policy,
    caller: &'a Caller,
    need: Need,
    open: VecDeque<Step>,
}

impl Search<'_> {
    fn run(&mut self) -> Result<(), TooMuch> {
        for _ in 0..LONGEST {
            let Some(step) = self.open.pop_front() else {
                break;
            };
            self.step(step)?;
        }
        Ok(())
    }

    fn step(&mut self, Step { file, by_name }: Step) -> Result<(), TooMuch> {
        // A file named relative to the working directory is in the workspace.
        if file.is_absolute() {
            let hidden = self.require(&file)?;
            if let Some(directory) = file.parent().filter(|_| hidden && by_name) {
                push_new(&mut self.need.directories, directory);
            }
            self.follow(&file);
        }
        self.interpreter(&file);
        Ok(())
    }

    /// Adds the installation of `file` when the jail does not show it.
    fn require(&mut self, file: &Path) -> Result<bool, TooMuch> {
        if self.is_shown(file) {
            return Ok(false);
        }
        let prefix = prefix(file);
        self.refuse_too_much(prefix)?;
        push_new(&mut self.need.prefixes, prefix);
        Ok(true)
    }

    fn is_shown(&self, file: &Path) -> bool {
        let filesystem = &self.policy.filesystem;
        let given = filesystem.read.iter().chain(&filesystem.write);
        let mut shown = given.map(|given| given.path.as_path());
        let mut found = self.need.prefixes.iter().map(PathBuf::as_path);
        shown.any(|path| file.starts_with(path)) || found.any(|path| file.starts_with(path))
    }

    /// One symlink further, and where that lies when its directories are symlinks themselves; and
    /// the Python that a venv stands on.
    fn follow(&mut self, file: &Path) {
        let mut ahead = Vec::new();
        if let Ok(text) = std::fs::read_link(file) {
            ahead.push(file.parent().unwrap_or(file).join(text));
        }
        ahead.extend(std::fs::canonicalize(file).ok().filter(|real| real != file));
        ahead.extend(home_of_venv(prefix(file)));
        let ahead = ahead.into_iter().filter_map(|file| normal(&file));
        self.open.extend(ahead.map(|file| Step {
            file,
            by_name: false,
        }));
    }

    /// What runs a script.
    fn interpreter(&mut self, file: &Path) {
        let Some(words) = first_line(file) else {
            return;
        };
        let mut words = words
            .iter()
            .filter(|word| !word.as_bytes().starts_with(b"-"));
        let Some(interpreter) = words.next() else {
            return;
        };
        self.open.push_back(Step {
            file: PathBuf::from(interpreter),
            by_name: false,
        });
        let is_env = Path::new(interpreter).file_name() == Some(OsStr::new("env"));
        let name = words
            .find(|word| !word.as_bytes().contains(&b'='))
            .filter(|_| is_env);
        let by_name = name.and_then(|name| self.caller.look_up(name));
        self.open.extend(by_name.map(|file| Step {
            file,
            by_name: true,
        }));
    }

    fn refuse_too_much(&self, prefix: &Path) -> Result<(), TooMuch> {
        let home = self.caller.home.as_deref();
        let why = if prefix.components().count() <= 2 {
            "is a top directory of this host"
        } else if home.is_some_and(|home| home.starts_with(prefix)) {
            "is your home directory"
        } else if prefix.parent() == Some(Path::new("/home")) {
            "is a home directory"
        } else if CREDENTIALS.iter().any(|name| prefix.join(name).exists()) {
            "holds credentials"
        } else {
            return Ok(());
        };
        Err(TooMuch {
            program: self.need.program.clone(),
            prefix: prefix.to_owned(),
            why,
        })
    }
}

fn push_new(list: &mut Vec<PathBuf>, path: &Path) {
    if !list.iter().any(|known| known == path) {
        list.push(path.to_owned());
    }
}

/// The directory above one of programs, or the one the file is in.
fn prefix(file: &Path) -> &Path {
    let directory = file.parent().unwrap_or(Path::new("/"));
    let of_programs = PROGRAMS.iter().any(|name| directory.ends_with(name));
    let above = directory.parent().filter(|_| of_programs);
    above.unwrap_or(directory)
}

/// Without `.` and `..`, which is right because what it is asked for has been looked at as it is,
/// too: what a symlink of a directory changes about it comes with the canonical path.
fn normal(path: &Path) -> Option<PathBuf> {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            std::path::Component::ParentDir => {
                plain.pop();
            }
            std::path::Component::CurDir => {}
            other => plain.push(other),
        }
    }
    plain.is_absolute().then_some(plain)
}

/// `home = …` of a pyvenv.cfg: where the Python is that a venv was made with.
fn home_of_venv(prefix: &Path) -> Option<PathBuf> {
    let text = std::fs::read_to_string(prefix.join("pyvenv.cfg")).ok()?;
    let home = text.lines().find_map(|line| {
        let (key, value) = line.split_once('=')?;
        (key.trim() == "home").then(|| value.trim().to_owned())
    })?;
    Some(PathBuf::from(home).join("python3")).filter(|python| python.exists())
}

/// The words behind `#!`, when the file is a script.
fn first_line(file: &Path) -> Option<Vec<OsString>> {
    let mut start = Vec::new();
    let opened = std::fs::File::open(file).ok()?;
    opened.take(256).read_to_end(&mut start).ok()?;
    let line = start
        .strip_prefix(b"#!")?
        .split(|byte| *byte == b'\n')
        .next()?;
    let words = line.split(|byte| byte.is_ascii_whitespace());
    let words = words.filter(|word| !word.is_empty());
    Some(
        words
            .map(|word| OsStr::from_bytes(word).to_owned())
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    struct Home {
        keep: tempfile::TempDir,
    }

    impl Home {
        fn new() -> Home {
            Home {
                keep: tempfile::tempdir().expect("a directory"),
            }
        }

        fn path(&self, name: &str) -> PathBuf {
            let home = self.keep.path().canonicalize().expect("it is there");
            home.join(name)
        }

        fn file(&self, name: &str, content: &str) -> PathBuf {
            let path = self.path(name);
            std::fs::create_dir_all(path.parent().expect("it has one")).expect("directories");
            std::fs::write(&path, content).expect("a file");
            let mode = std::fs::Permissions::from_mode(0o755);
            std::fs::set_permissions(&path, mode).expect("its mode");
            path
        }

        fn find(&self, program: &str, path: &[&str]) -> Result<Option<Need>, TooMuch> {
            let caller = Caller {
                path: path.iter().map(|name| self.path(name)).collect(),
                home: Some(self.path("")),
            };
            find(&policy(), OsStr::new(program), &caller)
        }
    }

    fn policy() -> Policy {
        let no_files = |path: &str| Err(path.to_owned());
        let flags = turnkey_policy::Overrides::default();
        turnkey_policy::load("untrusted", &no_files, &flags).expect("a shipped profile")
    }

    fn prefixes(need: Result<Option<Need>, TooMuch>) -> Vec<PathBuf> {
        need.unwrap().unwrap_or_default().prefixes
    }

    #[test]
    fn a_program_of_nvm_needs_its_version_and_nothing_more() {
        let home = Home::new();
        home.file(".nvm/versions/node/v20/bin/node", "\x7fELF");
        let need = home
            .find("node", &[".nvm/versions/node/v20/bin"])
            .unwrap()
            .unwrap();
        assert_eq!(need.prefixes, [home.path(".nvm/versions/node/v20")]);
        assert_eq!(need.directories, [home.path(".nvm/versions/node/v20/bin")]);
        // npm: a script, through env, behind a symlink.
        home.file(
            ".nvm/versions/node/v20/lib/npm/cli.js",
            "#!/usr/bin/env node\n",
        );
        symlink(
            "../lib/npm/cli.js",
            home.path(".nvm/versions/node/v20/bin/npm"),
        )
        .unwrap();
        let need = home.find("npm", &[".nvm/versions/node/v20/bin"]);
        assert_eq!(prefixes(need), [home.path(".nvm/versions/node/v20")]);
    }

    #[test]
    fn a_venv_needs_itself_and_the_python_it_was_made_with() {
        let home = Home::new();
        home.file("python/3.12/bin/python3", "\x7fELF");
        let bin = home.path("python/3.12/bin");
        home.file(
            "project/.venv/pyvenv.cfg",
            &format!("home = {}\n", bin.display()),
        );
        let venv = home.path("project/.venv");
        std::fs::create_dir(venv.join("bin")).unwrap();
        symlink(bin.join("python3"), venv.join("bin/python3")).unwrap();
        let tool = format!("#!{}/bin/python3\n", venv.display());
        home.file("project/.venv/bin/tool", &tool);
        for program in ["python3", "tool"] {
            let need = home.find(program, &["project/.venv/bin"]);
            assert_eq!(
                prefixes(need),
                [venv.clone(), home.path("python/3.12")],
                "{program}"
            );
        }
    }

    #[test]
    fn a_shim_needs_all_that_it_chooses_from() {
        let home = Home::new();
        home.file(".pyenv/shims/python", "#!/usr/bin/env bash\n");
        assert_eq!(
            prefixes(home.find("python", &[".pyenv/shims"])),
            [home.path(".pyenv")]
        );
    }

    #[test]
    fn a_program_that_the_jail_shows_needs_nothing() {
        let home = Home::new();
        let caller = Caller {
            path: vec!["/usr/bin".into()],
            home: None,
        };
        assert_eq!(find(&policy(), OsStr::new("env"), &caller), Ok(None));
        assert_eq!(home.find("nothing-of-this-name", &["bin"]), Ok(None));
    }

    #[test]
    fn a_home_and_what_holds_credentials_are_too_much() {
        let home = Home::new();
        home.file("bin/tool", "\x7fELF");
        let refused = home.find("tool", &["bin"]).unwrap_err().to_string();
        assert!(refused.contains("your home directory"), "{refused}");
        assert!(refused.contains("--read "), "{refused}");
        home.file(".cargo/bin/cargo", "\x7fELF");
        assert!(home.find("cargo", &[".cargo/bin"]).is_ok(), "the control");
        home.file(".cargo/credentials.toml", "token");
        let refused = home.find("cargo", &[".cargo/bin"]).unwrap_err().to_string();
        assert!(refused.contains("holds credentials"), "{refused}");
    }

    #[test]
    fn links_in_a_circle_end() {
        let home = Home::new();
        let tool = home.file("a/bin/tool", "#!/usr/bin/env tool\n");
        assert!(tool.exists());
        assert_eq!(prefixes(home.find("tool", &["a/bin"])), [home.path("a")]);
    }
}
