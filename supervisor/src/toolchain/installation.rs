//! Tells an installation from any other directory: by marks of its own, by where it lies, and by whose it is.
//!
//! All of it is asked of canonical paths.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use turnkey_analysis::behaviour::SECRETS;
use turnkey_jailer::paths;
use turnkey_policy::Glob;
use turnkey_policy::is_reserved;

/// Directories of programs, below what is installed.
const PROGRAMS: [&str; 5] = ["bin", "sbin", "shims", "condabin", "libexec"];

/// Files and directories that only an installation has, all of a line; `*` is any one name.
const MARKS: [&[&str]; 14] = [
    &["pyvenv.cfg"],
    &["conda-meta"],
    &["lib/python*/os.py"],
    &["include/node/node.h"],
    &["lib/node_modules/npm/package.json"],
    &["lib/rustlib"],
    &["libexec/pyenv", "versions"],
    &["libexec/rbenv", "versions"],
    &["lib/gcc"],
    &["lib/clang"],
    &["lib/ruby"],
    &["lib/modules", "release"],
    &["pkg/tool", "src/runtime"],
    &["Cellar", "bin/brew"],
];

/// Places where installers put installations, from a home; `*` is any one name.
const LAYOUTS_OF_A_HOME: [&str; 28] = [
    ".pyenv",
    ".pyenv/versions/*",
    ".rbenv",
    ".rbenv/versions/*",
    ".nvm/versions/node/*",
    ".config/nvm/versions/node/*",
    ".nodenv/versions/*",
    ".fnm/node-versions/*/installation",
    ".local/share/fnm/node-versions/*/installation",
    ".volta/tools/image/*/*",
    ".asdf/installs/*/*",
    ".local/share/mise/installs/*/*",
    ".local/share/uv/python/*",
    ".local/share/uv/tools/*",
    ".local/share/pipx/venvs/*",
    ".local/pipx/venvs/*",
    ".virtualenvs/*",
    ".local/share/virtualenvs/*",
    ".rye/py/*",
    ".rustup/toolchains/*",
    ".cargo",
    ".linuxbrew",
    ".sdkman/candidates/*/*",
    "{miniconda3,anaconda3,miniforge3,mambaforge,micromamba}",
    "{miniconda3,anaconda3,miniforge3,mambaforge,micromamba}/envs/*",
    ".conda/envs/*",
    "go",
    "sdk/go*",
];

/// Places where root puts them.
const LAYOUTS_OF_THE_SYSTEM: [&str; 6] = [
    "/opt/*",
    "/opt/*/*",
    "/usr/local",
    "/usr/local/*",
    "/nix/store/*",
    HOMEBREW,
];

/// The one home that is nobody's.
const HOMEBREW: &str = "/home/linuxbrew/.linuxbrew";

/// Places where the system keeps programs that no caller and no workspace has put there.
const SYSTEM: [&str; 7] = ["/usr", "/bin", "/sbin", "/lib", "/lib64", "/opt", "/nix"];

/// Directories in which a home keeps everything, beside programs.
const CATCH_ALL: [&str; 5] = [
    ".config",
    ".cache",
    ".local",
    ".local/share",
    ".local/state",
];

/// Credentials that the table of secrets does not know of in every place.
const CREDENTIALS: [&str; 3] = ["credentials", "credentials.toml", "share/keyrings"];

/// Names below a directory that are looked at for credentials; one with more is judged by these.
const MOST_NAMES: usize = 20_000;

/// The directory above one of programs, or the one the file is in.
pub fn prefix(file: &Path) -> &Path {
    prefix_of(file.parent().unwrap_or(Path::new("/")))
}

/// The same, of a directory.
pub fn prefix_of(directory: &Path) -> &Path {
    let of_programs = PROGRAMS.iter().any(|name| directory.ends_with(name));
    let above = directory.parent().filter(|_| of_programs);
    above.unwrap_or(directory)
}

/// True when a file is part of the system, whoever calls.
pub fn is_of_the_system(file: &Path) -> bool {
    SYSTEM.iter().any(|place| file.starts_with(place))
}

/// True when an installer made this directory.
pub fn is_one(place: &Path) -> bool {
    is_layout_of_the_system(place) || MARKS.iter().any(|marks| bears(place, marks))
}

/// True for a place where installers put such things, which the caller has anyway.
pub fn is_in_a_layout(place: &Path, home: Option<&Path>) -> bool {
    let below = home.and_then(|home| place.strip_prefix(home).ok());
    let in_home = |below: &Path| layouts(&LAYOUTS_OF_A_HOME, below);
    is_layout_of_the_system(place) || below.is_some_and(in_home)
}

fn is_layout_of_the_system(place: &Path) -> bool {
    layouts(&LAYOUTS_OF_THE_SYSTEM, place)
}

fn layouts(known: &[&str], place: &Path) -> bool {
    let matches = |text: &&str| {
        let glob = Glob::parse(text);
        glob.is_ok_and(|glob| glob.matches(place.as_os_str().as_bytes()))
    };
    known.iter().any(matches)
}

fn bears(place: &Path, marks: &[&str]) -> bool {
    marks.iter().all(|mark| has(place, mark))
}

/// True when there is such a path below `place`, in which one name may be a pattern.
fn has(place: &Path, mark: &str) -> bool {
    let Some((before, after)) = mark.split_once("*/") else {
        return place.join(mark).exists();
    };
    let (directory, start) = before.rsplit_once('/').unwrap_or((".", before));
    let names = fs::read_dir(place.join(directory)).into_iter().flatten();
    let mut names = names.flatten().map(|entry| entry.file_name());
    names.any(|name| {
        name.as_bytes().starts_with(start.as_bytes())
            && place.join(directory).join(&name).join(after).exists()
    })
}

/// The reason why a place is more than an installation, or lies where none is.
pub fn too_much(place: &Path, home: Option<&Path>) -> Option<&'static str> {
    let by_path = if place.components().count() <= 2 {
        Some("is a top directory of this host")
    } else if is_reserved(place) || place.starts_with("/etc") {
        Some("is the host's own, which no jail is given")
    } else if home.is_some_and(|home| home.starts_with(place)) {
        Some("is your home directory")
    } else if place.parent() == Some(Path::new("/home")) {
        Some("is a home directory")
    } else if is_in_another_home(place, home) {
        Some("lies in the home directory of another user")
    } else if is_catch_all(place, home) {
        Some("is where your home directory keeps everything")
    } else if is_among_credentials(place, home) {
        Some("lies where credentials are kept")
    } else {
        None
    };
    by_path
        .or_else(|| holds_credentials(place).then_some("holds credentials"))
        .or_else(|| another_writes(place).then_some("another user can write to"))
}

fn is_in_another_home(place: &Path, own: Option<&Path>) -> bool {
    if own.is_some_and(|own| place.starts_with(own)) || place.starts_with(HOMEBREW) {
        return false;
    }
    let named = place.starts_with("/home") || place.starts_with("/root");
    named || homes().iter().any(|home| place.starts_with(home))
}

/// The homes of people.
fn homes() -> Vec<PathBuf> {
    const FIRST_PERSON: u32 = 1000;
    let accounts = crate::home::accounts().into_iter();
    let is_a_place = |home: &PathBuf| home.components().count() > 2;
    let people = accounts.filter(|(user, home)| *user >= FIRST_PERSON && is_a_place(home));
    people
        .map(|(_, home)| paths::canonical(&home).unwrap_or(home))
        .collect()
}

fn is_catch_all(place: &Path, home: Option<&Path>) -> bool {
    home.is_some_and(|home| CATCH_ALL.iter().any(|name| place == home.join(name)))
}

/// The patterns of directories in which secrets lie, from the one table of secrets: each as far as it names
/// directories.
static AMONG_CREDENTIALS: LazyLock<Vec<Glob>> = LazyLock::new(|| {
    let patterns = SECRETS.iter().flat_map(|(_, patterns)| patterns.iter());
    let directories = patterns.filter_map(|pattern| directory_of(pattern));
    directories
        .filter_map(|text| Glob::parse(&text).ok())
        .collect()
});

fn directory_of(pattern: &str) -> Option<String> {
    let (start, rest) = match pattern.strip_prefix("**/") {
        Some(rest) => ("**/", rest),
        None => ("/", pattern.strip_prefix('/')?),
    };
    let (directories, _) = rest.rsplit_once('/')?;
    let is_whole =
        |name: &&str| !name.contains('*') && name.matches('{').count() == name.matches('}').count();
    let names: Vec<&str> = directories.split('/').take_while(is_whole).collect();
    (!names.is_empty()).then(|| format!("{start}{}", names.join("/")))
}

/// One that installers use as well, such as cargo's, is among credentials only when it holds some.
fn is_among_credentials(place: &Path, home: Option<&Path>) -> bool {
    let mut above = place.ancestors();
    above.any(|place| {
        let path = place.as_os_str().as_bytes();
        let named = AMONG_CREDENTIALS.iter().any(|glob| glob.matches(path));
        named && !is_in_a_layout(place, home)
    })
}

/// The patterns of secrets themselves.
static SECRET_FILES: LazyLock<Vec<Glob>> = LazyLock::new(|| {
    let patterns = SECRETS.iter().flat_map(|(_, patterns)| patterns.iter());
    patterns.filter_map(|text| Glob::parse(text).ok()).collect()
});

/// True when credentials lie in a place, or directly in a directory of it.
fn holds_credentials(place: &Path) -> bool {
    if CREDENTIALS.iter().any(|name| place.join(name).exists()) {
        return true;
    }
    let mut left = MOST_NAMES;
    let mut names = |directory: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        let entries: Vec<_> = entries.take(left).map(|entry| entry.path()).collect();
        left -= entries.len();
        entries
    };
    let is_one = |path: &PathBuf| {
        let path = path.as_os_str().as_bytes();
        let known = AMONG_CREDENTIALS.iter().chain(SECRET_FILES.iter());
        !path.ends_with(b".pub") && known.clone().any(|glob| glob.matches(path))
    };
    let first = names(place);
    first.iter().any(is_one) || first.iter().any(|below| names(below).iter().any(is_one))
}

/// True when anybody but root and the caller could have put something else in its place, or into it.
fn another_writes(place: &Path) -> bool {
    let mut above = place.ancestors().skip(1);
    is_open(place, false) || above.any(|directory| is_open(directory, true))
}

/// A regular file that somebody may execute.
pub fn is_program(file: &Path) -> bool {
    let metadata = fs::metadata(file);
    metadata.is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

/// True when a place is another user's, or another may write to it. In a directory above it, one that is
/// sticky keeps what is root's or the caller's as it is.
fn is_open(place: &Path, may_be_sticky: bool) -> bool {
    let Ok(metadata) = fs::symlink_metadata(place) else {
        return true;
    };
    let sticky = may_be_sticky && metadata.mode() & 0o1000 != 0;
    let writable = metadata.mode() & 0o002 != 0
        || (metadata.mode() & 0o020 != 0 && !is_own_group(metadata.gid()));
    !paths::is_trusted(metadata.uid()) || (writable && !sticky)
}

/// The group that a user has alone, as distributions give one to each.
fn is_own_group(group: u32) -> bool {
    let effective = nix::unistd::getegid().as_raw();
    group == 0 || group == effective || paths::is_trusted(group)
}

#[cfg(test)]
mod tests {
    use super::*;
    use turnkey_expectations::expected;

    fn place(home: &Path, name: &str) -> PathBuf {
        let place = home.join(name);
        fs::create_dir_all(&place).unwrap();
        place
    }

    /// By each table that says no, whatever marks a place bears and whoever names it.
    #[test]
    fn j67_what_is_never_brought_in() {
        let keep = tempfile::tempdir().unwrap();
        let home = keep.path().canonicalize().unwrap();
        let why = |name: &str| {
            let place = place(&home, name);
            fs::write(place.join("pyvenv.cfg"), "").unwrap();
            assert!(is_one(&place), "it bears marks");
            too_much(&place, Some(&home))
        };
        assert_eq!(why("tools/python"), None, "the control");
        assert_eq!(why(".cargo"), None, "installers use it as well");
        let among = Some("lies where credentials are kept");
        for name in [
            ".ssh",
            ".ssh/python",
            ".gnupg",
            ".aws",
            ".azure/x/y",
            ".kube",
            ".docker/python",
            ".config/gh",
            ".config/gcloud/python",
            ".config/chromium",
            ".mozilla/firefox/x",
            ".password-store",
            ".ethereum/keystore",
            ".bitcoin",
        ] {
            assert_eq!(why(name), among, "{name}");
        }
        for name in CATCH_ALL {
            assert_eq!(
                why(name),
                Some("is where your home directory keeps everything"),
                "{name}"
            );
        }
        for (name, file) in [
            ("a", ".netrc"),
            ("b", ".ssh/config"),
            ("c", "credentials.toml"),
            ("d", "share/keyrings"),
            ("e", "x/keys.kdbx"),
            ("f", "home/.pgpass"),
        ] {
            let place = place(&home, name);
            assert_eq!(too_much(&place, Some(&home)), None, "{name}");
            fs::create_dir_all(place.join(file).parent().unwrap()).unwrap();
            fs::write(place.join(file), "secret").unwrap();
            assert_eq!(
                too_much(&place, Some(&home)),
                Some("holds credentials"),
                "{file}"
            );
        }
        assert_eq!(too_much(&home, Some(&home)), Some("is your home directory"));
        let reserved = Some("is the host's own, which no jail is given");
        for name in [
            "/run/python",
            "/proc/1/root",
            "/sys/kernel",
            "/dev/shm",
            "/etc/python/x",
        ] {
            assert_eq!(too_much(Path::new(name), Some(&home)), reserved, "{name}");
        }
        for name in ["/", "/usr", "/srv"] {
            let why = too_much(Path::new(name), Some(&home));
            assert_eq!(why, Some("is a top directory of this host"), "{name}");
        }
        for name in ["/home/turnkey-nobody/.pyenv", "/root/.pyenv"] {
            let why = too_much(Path::new(name), Some(&home));
            assert_eq!(
                why,
                Some("lies in the home directory of another user"),
                "{name}"
            );
        }
    }

    expected!(
        j67_what_another_can_write_to_is_not_brought_in: as_root,
        "act as another user, or make files of another's"
    );
    #[test]
    fn j67_what_another_can_write_to_is_not_brought_in() {
        let keep = tempfile::tempdir().unwrap();
        let home = keep.path().canonicalize().unwrap();
        let inner = place(&home, "outer/python");
        let outer = home.join("outer");
        let set = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        let why = || too_much(&inner, Some(&home));
        assert_eq!(why(), None, "the control");
        for (path, mode, refused) in [
            (&inner, 0o777, true),
            (&inner, 0o1777, true),
            (&outer, 0o777, true),
            (&outer, 0o1777, false),
        ] {
            set(path, mode);
            let expected = refused.then_some("another user can write to");
            assert_eq!(why(), expected, "{} {mode:o}", path.display());
            set(path, 0o755);
        }
        if nix::unistd::geteuid().is_root() {
            std::os::unix::fs::chown(&outer, Some(65_534), None).unwrap();
            assert_eq!(
                why(),
                Some("another user can write to"),
                "another's directory"
            );
        }
    }
}
