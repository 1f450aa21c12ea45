use super::*;
use std::os::unix::fs::{PermissionsExt, symlink};

struct TestHome {
    keep: tempfile::TempDir,
}

impl TestHome {
    fn new() -> TestHome {
        TestHome {
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

    fn find(&self, program: &str, path: &[&str]) -> Result<Option<ToolchainNeed>, NoInstallation> {
        let caller = CallerPaths {
            rustup: Default::default(),
            path: path.iter().map(|name| self.path(name)).collect(),
            home: Some(self.path("")),
            venv: None,
        };
        find(
            &policy(),
            OsStr::new(program),
            &in_directory(self.path("").join("work")),
            &caller,
        )
    }
}

fn in_directory(workdir: PathBuf) -> RunDirectory {
    RunDirectory {
        workdir: Some(workdir),
        ..RunDirectory::default()
    }
}

fn policy() -> Policy {
    let no_files = |path: &str| Err(path.to_owned());
    let flags = turnkey_policy::Overrides::default();
    turnkey_policy::load("untrusted", &no_files, &flags).expect("a shipped profile")
}

fn prefixes(need: Result<Option<ToolchainNeed>, NoInstallation>) -> Vec<PathBuf> {
    need.unwrap().unwrap_or_default().prefixes
}

#[test]
fn a_program_of_nvm_needs_its_version_and_nothing_more() {
    let home = TestHome::new();
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

/// A venv that happens to lie in the workspace is no advice for a program that has nothing to do with it.
#[test]
fn a_program_does_not_require_the_venvs_beside_it() {
    let home = TestHome::new();
    let python = home.file("python/3.12/bin/python3", "");
    home.file(
        "work/.venv/pyvenv.cfg",
        &format!("home = {}\n", home.path("python/3.12/bin").display()),
    );
    std::fs::create_dir(home.path("work/.venv/bin")).unwrap();
    symlink(python, home.path("work/.venv/bin/python")).unwrap();
    let caller = CallerPaths {
        rustup: Default::default(),
        path: vec!["/usr/bin".into(), home.path("python/3.12/bin")],
        home: Some(home.path("")),
        venv: Some(home.path("work/.venv")),
    };
    let (policy, directory) = (policy(), in_directory(home.path("work")));
    let program = OsStr::new("true");
    let all = find(&policy, program, &directory, &caller).unwrap();
    assert!(
        all.is_some_and(|need| !need.prefixes.is_empty()),
        "the control"
    );
    let required = find_required(&policy, program, &directory, &caller);
    assert_eq!(required, Ok(None));
}

#[test]
fn a_venv_needs_itself_and_the_python_it_was_made_with() {
    let home = TestHome::new();
    home.file("python/3.12/bin/python3", "\x7fELF");
    home.file("python/3.12/lib/python3.12/os.py", "");
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
    let home = TestHome::new();
    home.file(".pyenv/shims/python", "#!/usr/bin/env bash\n");
    assert_eq!(
        prefixes(home.find("python", &[".pyenv/shims"])),
        [home.path(".pyenv")]
    );
}

#[test]
fn a_program_that_the_jail_shows_needs_nothing() {
    let home = TestHome::new();
    let caller = CallerPaths {
        rustup: Default::default(),
        path: vec!["/usr/bin".into()],
        home: None,
        venv: None,
    };
    assert_eq!(
        find(
            &policy(),
            OsStr::new("env"),
            &RunDirectory::default(),
            &caller
        ),
        Ok(None)
    );
    assert_eq!(home.find("nothing-of-this-name", &["bin"]), Ok(None));
}

#[test]
fn a_home_and_what_holds_credentials_are_too_much() {
    let home = TestHome::new();
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
    let home = TestHome::new();
    let tool = home.file("a/bin/tool", "#!/usr/bin/env tool\n");
    assert!(tool.exists());
    assert_eq!(prefixes(home.find("tool", &["a/bin"])), [home.path("a")]);
}
