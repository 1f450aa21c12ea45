//! Repositories for tests of the gate.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use turnkey_tests::{binary, scratch};

/// A trailer that the config calls a model's.
pub const WRITTEN: &str = "Co-Authored-By: Helper[bot] <helper@example.org>";

/// A config with one test.
pub const CONFIG: &str = "schema = \"turnkey.gate-config/v1\"
[[model]]
trailer = \"Co-Authored-By\"
value = \"*[bot]*\"
[[tests]]
name = \"unit\"
command = [\"sh\", \"-c\", \"test ! -e broken\"]
profile = \"shell\"
";

/// The same with a test that cannot be made, which takes no time.
pub fn unrunnable() -> String {
    CONFIG.replace("\"shell\"", "\"no-such-profile\"")
}

/// A repository with the config in its branch `base`, on the branch `main`.
pub struct TestRepository {
    directory: tempfile::TempDir,
    outside: tempfile::TempDir,
}

/// The answer of a gate.
#[derive(Debug)]
pub struct Gated {
    code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Gated {
    /// Panics with everything known unless the exit status is `code`.
    #[track_caller]
    pub fn expect(&self, code: i32) {
        assert_eq!(self.code, Some(code), "{}{}", self.stdout, self.stderr);
    }

    /// The result, of a gate with `--json`.
    pub fn result(&self) -> Value {
        serde_json::from_str(&self.stdout).expect("JSON")
    }
}

impl TestRepository {
    /// With this config in its base.
    pub fn new(config: &str) -> TestRepository {
        let repository = TestRepository {
            directory: scratch(),
            outside: scratch(),
        };
        repository.git(&["init", "-q", "-b", "main"]);
        repository.commit("base", &[("turnkey.toml", config)]);
        repository.git(&["branch", "base"]);
        repository
    }

    /// The working tree.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// A path in its working tree.
    pub fn at(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// A file outside of it.
    pub fn outside(&self, name: &str, content: &str) -> String {
        let path = self.outside.path().join(name);
        std::fs::write(&path, content).expect("it can be written");
        path.display().to_string()
    }

    /// The answer of git, asked as its user does.
    #[track_caller]
    pub fn git(&self, arguments: &[&str]) -> String {
        let output = self.git_command(arguments).output().expect("git is here");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {errors}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// git, as its user starts it.
    pub fn git_command(&self, arguments: &[&str]) -> Command {
        let mut git = Command::new("git");
        git.current_dir(self.path()).args(arguments);
        for who in ["AUTHOR", "COMMITTER"] {
            git.env(format!("GIT_{who}_NAME"), "A. Person");
            git.env(format!("GIT_{who}_EMAIL"), "a@example.org");
        }
        git.env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1");
        git
    }

    /// A commit with these files.
    pub fn commit(&self, message: &str, files: &[(&str, &str)]) {
        for (name, content) in files {
            std::fs::write(self.at(name), content).expect("it can be written");
        }
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "-m", message]);
    }

    /// The gate with the branch `base`, unless another is named, ready to start; temporary files go to a place of its own.
    pub fn command(&self, line: &str) -> Command {
        let mut gate = Command::new(binary());
        gate.current_dir(self.path()).arg("gate");
        if !line.contains("--base") {
            gate.args(["--base", "base"]);
        }
        gate.args(line.split_whitespace())
            .env("TMPDIR", self.outside.path())
            .stdin(Stdio::null());
        gate
    }

    /// The answer of the gate.
    pub fn gate(&self, line: &str) -> Gated {
        let output = self.command(line).output().expect("turnkey can be started");
        Gated {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Temporary files of gates.
    pub fn temporary(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.outside.path()).expect("it is there");
        let names = entries
            .flatten()
            .map(|entry| entry.file_name().to_string_lossy().into_owned());
        names
            .filter(|name| name.starts_with("turnkey-gate"))
            .collect()
    }

    /// Every file of the repository with its content, that of git itself included.
    pub fn state(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let mut state = Vec::new();
        let mut open = vec![self.path().to_owned()];
        while let Some(directory) = open.pop() {
            for entry in std::fs::read_dir(directory).expect("it is there").flatten() {
                match entry.file_type().expect("it has one").is_dir() {
                    true => open.push(entry.path()),
                    false => state.push((
                        entry.path(),
                        std::fs::read(entry.path()).unwrap_or_default(),
                    )),
                }
            }
        }
        state.sort();
        state
    }
}
