//! git, asked about a repository that nobody trusts.
//!
//! The repository's own settings, hooks and attributes can name programs: file system monitors, filters, drivers of differences,
//! transports. So it is asked for three names alone, and all else goes by a git directory of the gate's own, which has the
//! repository's objects and nothing of its settings. Of the machine and the user no setting is read either.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail, ensure};
use turnkey_report::visible;

use super::own_directory::OwnDirectory;

/// Settings of the own git directory, which win over all that could still be found.
const SETTINGS: [&str; 9] = [
    // No file of grafts is read, `GIT_GRAFT_FILE`: of one git tells in each of its errors.
    "advice.graftFileDeprecated=false",
    // Whoever calls the gate may judge a repository of somebody else: nothing of it is executed.
    "safe.directory=*",
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.attributesFile=/dev/null",
    // A file beside the objects, whose word on the parents of a commit git would believe.
    "core.commitGraph=false",
    "core.protectHFS=true",
    "core.protectNTFS=true",
    "protocol.allow=never",
];
/// The last word on attributes: no program, and no byte changed between a commit and its checkout.
const ATTRIBUTES: &str =
    "* -text -eol -filter -ident -working-tree-encoding -diff -merge -export-subst\n";

/// The repository around a directory, with a git directory of the gate's own.
pub struct Repository<'d> {
    own: &'d OwnDirectory,
    /// The repository's objects.
    objects: PathBuf,
    /// The working tree, where there is one.
    pub top: Option<PathBuf>,
}

impl<'d> Repository<'d> {
    /// The repository around the current directory.
    ///
    /// # Errors
    /// When there is none, or git cannot be started.
    pub fn around(own: &'d OwnDirectory) -> anyhow::Result<Repository<'d>> {
        let ask = |question: &[&str]| {
            let mut git = command(own);
            git.args(["rev-parse", "--path-format=absolute"])
                .args(question);
            line(git)
        };
        let objects = ask(&["--git-path", "objects"]).context("there is no repository here")?;
        let format = ask(&["--show-object-format"])?;
        let inside = ask(&["--is-inside-work-tree"])? == "true";
        let top = inside.then(|| ask(&["--show-toplevel"])).transpose()?;
        let mut git = command(own);
        git.args(["init", "--quiet", "--bare", "--template="]);
        git.arg(format!("--object-format={}", format.to_string_lossy()));
        run(git.arg(own.at("git")))?;
        own.directory("git/info")
            .context("could not make a git directory")?;
        own.write("git/info/attributes", ATTRIBUTES.as_bytes())?;
        Ok(Repository {
            own,
            objects: objects.into(),
            top: top.map(PathBuf::from),
        })
    }

    /// The id of a commit.
    ///
    /// # Errors
    /// When nothing has that name.
    pub fn commit(&self, name: &str) -> anyhow::Result<String> {
        let mut git = command(self.own);
        git.args(["rev-parse", "--verify", "--quiet", "--end-of-options"]);
        git.arg(format!("{name}^{{commit}}"));
        let found = line(git);
        let id = found.with_context(|| {
            format!("no commit has the name {name:?}; fix: where the clone is shallow, fetch it whole (fetch-depth: 0, or git fetch --unshallow)")
        })?;
        let id = id.to_string_lossy().into_owned();
        ensure!(
            id.len() >= 40 && id.bytes().all(|byte| byte.is_ascii_hexdigit()),
            "git answers {id:?} for the commit {name:?}"
        );
        Ok(id)
    }

    /// The answer of git, asked by way of the own git directory.
    ///
    /// # Errors
    /// With git's words.
    pub fn ask<I: AsRef<OsStr>>(&self, arguments: &[I]) -> anyhow::Result<Vec<u8>> {
        run(self.git().args(arguments))
    }

    /// The same, with an input.
    ///
    /// # Errors
    /// With git's words.
    pub fn ask_about(&self, input: &[u8], arguments: &[&str]) -> anyhow::Result<Vec<u8>> {
        self.own.write("input", input)?;
        let input = self.own.open("input")?;
        run(self.git().args(arguments).stdin(input))
    }

    /// A checkout of a commit in a new directory of the gate's own, of all files or of some.
    ///
    /// # Errors
    /// With git's words.
    pub fn checkout(
        &self,
        commit: &str,
        name: &str,
        only: Option<&[&[u8]]>,
    ) -> anyhow::Result<PathBuf> {
        let place = self.own.directory(name)?;
        let index = self.own.at(&format!("{name}.index"));
        let git = || {
            let mut git = self.git();
            git.env("GIT_INDEX_FILE", &index)
                .env("GIT_WORK_TREE", &place)
                .current_dir(&place);
            git
        };
        run(git().args(["read-tree", commit]))?;
        let mut checkout = git();
        checkout.args(["checkout-index", "--quiet"]);
        match only {
            None => checkout.arg("--all"),
            Some(paths) => {
                self.own.write("input", &paths.join(&0))?;
                checkout.args(["--stdin", "-z"]);
                checkout.stdin(self.own.open("input")?)
            }
        };
        run(&mut checkout)?;
        Ok(place)
    }

    fn git(&self) -> Command {
        let mut git = command(self.own);
        git.env("GIT_DIR", self.own.at("git"))
            .env("GIT_OBJECT_DIRECTORY", &self.objects);
        git
    }
}

/// git without any setting of the machine, the user or the caller's environment.
fn command(own: &OwnDirectory) -> Command {
    let mut git = Command::new("git");
    git.env_clear();
    if let Some(path) = std::env::var_os("PATH") {
        git.env("PATH", path);
    }
    git.env("HOME", own.path())
        .env("LC_ALL", "C")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_ATTR_NOSYSTEM", "1")
        .env("GIT_NO_REPLACE_OBJECTS", "1")
        .env("GIT_GRAFT_FILE", "/dev/null")
        // An object that a partial clone left away is fetched by a program that the settings name.
        .env("GIT_NO_LAZY_FETCH", "1")
        .env("GIT_ALLOW_PROTOCOL", "none")
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("GIT_OPTIONAL_LOCKS", "0");
    for setting in SETTINGS {
        git.args(["-c", setting]);
    }
    git.stdin(Stdio::null());
    git
}

fn run(git: &mut Command) -> anyhow::Result<Vec<u8>> {
    let output = git
        .output()
        .context("git could not be started; fix: install git")?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        let words = words.trim();
        let end = output.status;
        match words {
            "" => bail!("git ended with {end}"),
            words => bail!("git says: {}", visible(words)),
        }
    }
    Ok(output.stdout)
}

fn line(mut git: Command) -> anyhow::Result<OsString> {
    let mut text = run(&mut git)?;
    if text.last() == Some(&b'\n') {
        text.pop();
    }
    Ok(OsString::from_vec(text))
}

/// A path as git names it, relative to the working tree.
pub fn path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}
