//! Rust toolchains behind the proxies of rustup.
//!
//! The `cargo` and `rustc` that rustup puts on a PATH choose a toolchain and run its program of the same name. They
//! choose by the caller's settings, which no jail shows, so the choice is made here: by `RUSTUP_TOOLCHAIN`, or the default of
//! `settings.toml`. A `rust-toolchain.toml` is a file of the workspace and chooses nothing.

use std::ffi::{OsStr, OsString};
use std::path::{Component, Path, PathBuf};

use turnkey_jailer::paths;

use super::installation::is_program;
use crate::environment::CallerEnvironment;
use crate::files;

/// The caller's settings of rustup.
#[derive(Clone, Debug, Default)]
pub struct RustupSettings {
    /// `RUSTUP_HOME`, or its place in the caller's home.
    pub home: Option<PathBuf>,
    /// `RUSTUP_TOOLCHAIN`.
    pub toolchain: Option<OsString>,
}

impl RustupSettings {
    /// From the environment of a caller with this home.
    pub fn new(environment: &CallerEnvironment, home: Option<&Path>) -> RustupSettings {
        let given = environment.path("RUSTUP_HOME");
        RustupSettings {
            home: given.or_else(|| Some(home?.join(".rustup"))),
            toolchain: environment.get("RUSTUP_TOOLCHAIN").map(OsStr::to_owned),
        }
    }

    /// The program of the chosen toolchain that a proxy stands for; `None` for what is no proxy, and where none is chosen.
    pub fn behind(&self, proxy: &Path) -> Option<PathBuf> {
        let name = proxy.file_name().filter(|name| *name != "rustup")?;
        let real = paths::canonical(proxy).ok()?;
        let is_proxy = real.file_name().is_some_and(|name| name == "rustup");
        let home = self.home.as_ref().filter(|_| is_proxy)?;
        let chosen = self.toolchain.clone().or_else(|| default(home))?;
        let is_name = matches!(
            Path::new(&chosen).components().collect::<Vec<_>>()[..],
            [Component::Normal(_)]
        );
        let program = home.join("toolchains").join(chosen).join("bin").join(name);
        (is_name && is_program(&program)).then_some(program)
    }
}

/// `default_toolchain` of the settings.
fn default(home: &Path) -> Option<OsString> {
    let text = files::read_text(home.join("settings.toml").to_str()?).ok()?;
    let given = text.lines().find_map(|line| {
        let value = line.strip_prefix("default_toolchain")?.trim_start();
        value.strip_prefix('=')
    });
    Some(given?.trim().trim_matches('"').into())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    /// A home with two toolchains, and the proxies `cargo` and `rustc`.
    fn home() -> tempfile::TempDir {
        let home = tempfile::tempdir().unwrap();
        let program = |place: &str| {
            let path = home.path().join(place);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, "").unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        };
        for place in [
            "bin/rustup",
            "toolchains/one/bin/cargo",
            "toolchains/two/bin/cargo",
            "x/bin/cargo",
        ] {
            program(place);
        }
        for proxy in ["cargo", "rustc"] {
            symlink("rustup", home.path().join("bin").join(proxy)).unwrap();
        }
        let settings = "version = \"12\"\ndefault_toolchain = \"one\"\n";
        std::fs::write(home.path().join("settings.toml"), settings).unwrap();
        home
    }

    #[test]
    fn a_proxy_stands_for_the_program_of_the_chosen_toolchain() {
        let home = home();
        let at = |place: &str| home.path().join(place);
        let behind = |toolchain: Option<&str>, program: &str| {
            let settings = RustupSettings {
                home: Some(home.path().to_owned()),
                toolchain: toolchain.map(OsString::from),
            };
            settings.behind(&at(program))
        };
        assert_eq!(
            behind(None, "bin/cargo"),
            Some(at("toolchains/one/bin/cargo"))
        );
        assert_eq!(
            behind(Some("two"), "bin/cargo"),
            Some(at("toolchains/two/bin/cargo"))
        );
        // No such program, no such toolchain, no name of one, no proxy.
        assert_eq!(behind(None, "bin/rustc"), None);
        assert_eq!(behind(Some("three"), "bin/cargo"), None);
        assert_eq!(behind(Some("../x"), "bin/cargo"), None);
        assert_eq!(behind(None, "toolchains/two/bin/cargo"), None);
        std::fs::remove_file(at("settings.toml")).unwrap();
        assert_eq!(behind(None, "bin/cargo"), None);
    }
}
