//! The content of the guests' disks: files of packages that the host has, and of its compiler of Rust.
//!
//! The lists of packages grow with what tests need; one that the host lacks belongs to
//! `xtask/src/setup/packages.toml` too.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use xtask::{command, workspace};

/// A disk with a root file system.
pub struct Disk {
    /// The disk's file, below the folder of the machines.
    pub file: &'static str,
    /// Room for everything with some to spare; the file is sparse.
    pub size: &'static str,
    packages: &'static [&'static [&'static str]],
    alternatives: &'static [&'static [&'static str]],
    folders: &'static [&'static str],
    /// With what Python's packages leave beside their modules when they are installed.
    pub has_compiled_modules: bool,
    /// With the compiler of Rust that builds this checkout, and those of its files that tests read.
    pub has_checkout: bool,
    /// With systemd as the machine's first process, and the package of turnkey to install.
    pub has_systemd_first: bool,
}

/// For every machine that does not need more: copying it is part of every run.
pub const ORDINARY: Disk = Disk {
    file: "root.ext4",
    size: "2G",
    packages: &[PACKAGES],
    alternatives: &[ALTERNATIVES],
    folders: &["/usr/share/zoneinfo"],
    has_compiled_modules: false,
    has_checkout: false,
    has_systemd_first: false,
};

/// With what the tests of the shipped profiles run.
pub const PROGRAMS: Disk = Disk {
    file: "programs.ext4",
    size: "5G",
    packages: &[PACKAGES, PROGRAM_PACKAGES],
    alternatives: &[ALTERNATIVES, PROGRAM_ALTERNATIVES],
    // npm renews itself where it lies, and is not what its package lists any more.
    folders: &["/usr/lib/node_modules/npm", "/usr/share/zoneinfo"],
    has_compiled_modules: true,
    has_checkout: true,
    has_systemd_first: false,
};

/// With what installs a package on a host that systemd runs.
pub const PACKAGED: Disk = Disk {
    file: "packaged.ext4",
    size: "2G",
    packages: &[PACKAGES, INSTALLING_PACKAGES],
    alternatives: &[ALTERNATIVES],
    // Left out of the others with the rest of Perl.
    folders: &["/usr/lib/x86_64-linux-gnu/perl-base"],
    has_compiled_modules: false,
    has_checkout: false,
    has_systemd_first: true,
};

/// The packages whose files the guest has, with those of everything they depend on.
const PACKAGES: &[&str] = &[
    "base-files",
    "bash",
    "bsdutils",
    "coreutils",
    "crun",
    "dash",
    "dbus",
    "diffutils",
    "findutils",
    "gcc",
    "grep",
    "gzip",
    "iproute2",
    "libc-bin",
    "libc6-dev",
    "libgcc-s1",
    "make",
    "mawk",
    "mount",
    "perl-base",
    "procps",
    "python3",
    "runc",
    "sed",
    "systemd",
    "tar",
    "uidmap",
    "util-linux",
];

/// The package manager, the scripts that packages call for their units, and the engine that the package has files for.
const INSTALLING_PACKAGES: &[&str] = &["dpkg", "init-system-helpers", "perl-base", "podman"];

/// The other programs that run under the shipped profiles, and those that look at reports. `npm` is part of some
/// builds of `nodejs`.
const PROGRAM_PACKAGES: &[&str] = &[
    "git",
    "libxml2-utils",
    "nodejs",
    "npm",
    "python3-matplotlib",
    "python3-numpy",
    "python3-pandas",
    "python3-pip",
    "python3-venv",
];

/// Links that no package lists: one chooses between several packages.
const ALTERNATIVES: &[&str] = &[
    "/etc/alternatives/awk",
    "/etc/alternatives/cc",
    "/usr/bin/awk",
    "/usr/bin/cc",
];

/// The libraries that compute, and what is left out with its folder below and needed here.
const PROGRAM_ALTERNATIVES: &[&str] = &[
    "/etc/alternatives/libblas.so.3-x86_64-linux-gnu",
    "/etc/alternatives/liblapack.so.3-x86_64-linux-gnu",
    "/etc/alternatives/libopenblas.so.0-x86_64-linux-gnu",
    "/etc/matplotlibrc",
    "/usr/lib/gcc/x86_64-linux-gnu/12/lto-wrapper",
    "/usr/lib/x86_64-linux-gnu/libblas.so.3",
    "/usr/lib/x86_64-linux-gnu/liblapack.so.3",
    "/usr/lib/x86_64-linux-gnu/libopenblas.so.0",
];

/// Parts of packages that no test looks at.
const NOT_NEEDED: &[&str] = &[
    "/etc/",
    "/usr/lib/gcc/x86_64-linux-gnu/12/lto",
    "/usr/lib/python3/dist-packages/pandas/tests/",
    "/usr/lib/x86_64-linux-gnu/gconv/",
    "/usr/lib/x86_64-linux-gnu/openblas-pthread/libopenblasp",
    "/usr/lib/x86_64-linux-gnu/perl",
    "/usr/share/bash-completion/",
    "/usr/share/doc/",
    "/usr/share/info/",
    "/usr/share/lintian/",
    "/usr/share/locale/",
    "/usr/share/man/",
    "/usr/share/perl",
    "/usr/share/unicode/",
    "/usr/share/zoneinfo/",
    "/var/",
];

/// The folder of the guest's compiler of Rust: in somebody's home, as rustup puts it.
const TOOLCHAIN: &str = "root/.rustup/toolchains/rust";

/// The files of the packages, and the links that choose between them.
pub fn package_files(disk: &Disk) -> Result<BTreeSet<PathBuf>> {
    let installed = dpkg_query(&[
        "--show",
        "--showformat",
        "${Package}\t${Pre-Depends}, ${Depends}\n",
    ])?;
    let packages = closure(&disk.packages.concat(), &installed);
    let mut arguments = vec!["--listfiles"];
    arguments.extend(packages.iter().copied());
    let listed = dpkg_query(&arguments)?;
    let wanted = listed.lines().filter(|line| {
        line.starts_with('/') && !NOT_NEEDED.iter().any(|prefix| line.starts_with(prefix))
    });
    let mut files: BTreeSet<PathBuf> = wanted.map(PathBuf::from).collect();
    files.extend(disk.alternatives.concat().iter().map(PathBuf::from));
    for folder in disk.folders {
        let mut whole = Vec::new();
        // Where the program is packed otherwise, its packages are all of it.
        if Path::new(folder).exists() {
            files_below(Path::new(folder), &mut whole)?;
        }
        files.extend(whole);
    }
    Ok(files)
}

fn dpkg_query(arguments: &[&str]) -> Result<String> {
    command::output(Command::new("dpkg-query").args(arguments))
        .context("the guest is made of Debian packages that the host has")
}

/// The packages of these names and whatever they depend on, among those installed: one per line, its name, a tab
/// and what it depends on.
fn closure<'a>(names: &[&'a str], installed: &'a str) -> BTreeSet<&'a str> {
    let table: BTreeMap<&str, &str> = installed
        .lines()
        .filter_map(|line| line.split_once('\t'))
        .collect();
    let mut found = BTreeSet::new();
    let mut open = names.to_vec();
    while let Some(name) = open.pop() {
        // A name that is not installed is another one's alternative, or provided by another.
        let Some(depends) = table.get(name) else {
            continue;
        };
        if found.insert(name) {
            open.extend(depends.split([',', '|']).map(package_name));
        }
    }
    found
}

/// The name in `name:any (>= 1.2)`.
fn package_name(dependency: &str) -> &str {
    let words = dependency.trim().split([' ', ':', '(']);
    words.into_iter().next().unwrap_or_default()
}

/// The module that Python has compiled beside its source, when there is one: the sources' time is
/// written into it.
pub fn compiled_modules(source: &Path) -> Vec<PathBuf> {
    let (Some(folder), Some(stem)) = (source.parent(), source.file_stem()) else {
        return Vec::new();
    };
    if source.extension().is_none_or(|ending| ending != "py") {
        return Vec::new();
    }
    let begin = format!("{}.cpython-", stem.to_string_lossy());
    let entries = std::fs::read_dir(folder.join("__pycache__"));
    let entries = entries.into_iter().flatten().flatten();
    let is_its = |name: &std::ffi::OsStr| name.to_string_lossy().starts_with(&begin);
    entries
        .filter(|entry| is_its(&entry.file_name()))
        .map(|entry| entry.path())
        .collect()
}

/// Of the compiler of Rust.
const RUST_PROGRAMS: [&str; 3] = ["cargo", "rustc", "rustdoc"];

/// The files of the compiler of Rust that builds this checkout, as (place in the guest, file of the
/// host): the compiler, cargo, what tests the examples in comments, and the libraries for this CPU.
pub fn rust_files() -> Result<Vec<(PathBuf, PathBuf)>> {
    let mut rustc = Command::new("rustc");
    rustc
        .args(["--print", "sysroot"])
        .current_dir(workspace::root());
    let sysroot = command::output(&mut rustc).context("rustc is on the search path")?;
    let sysroot = Path::new(sysroot.trim());
    let mut files = Vec::new();
    for name in RUST_PROGRAMS {
        files.push(sysroot.join("bin").join(name));
    }
    files_below(&sysroot.join("lib"), &mut files)?;
    let place = |file: PathBuf| {
        let below = file.strip_prefix(sysroot).map(Path::to_path_buf)?;
        anyhow::Ok((Path::new(TOOLCHAIN).join(below), file))
    };
    files.into_iter().map(place).collect()
}

/// The files of this checkout that tests read; they lie in the guest where they lie here: their paths are
/// part of the programs.
pub fn checkout_files() -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for folder in ["examples", "tests/data"] {
        files_below(&workspace::root().join(folder), &mut files)?;
    }
    Ok(files)
}

/// The links on the search path that lead to the compiler.
pub fn rust_links() -> [(PathBuf, PathBuf); RUST_PROGRAMS.len()] {
    RUST_PROGRAMS.map(|name| {
        let program = Path::new("/").join(TOOLCHAIN).join("bin").join(name);
        (Path::new("usr/local/bin").join(name), program)
    })
}

fn files_below(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() && !path.is_symlink() {
            files_below(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closure_follows_what_is_installed() {
        let installed = "python3\t, python3.11 (>= 3.11.2-1~), libpython3-stdlib:any (= 3.11) | other\n\
                         python3.11\tlibc6, media-types\nlibpython3-stdlib\t\nlibc6\t\nunrelated\t\n";
        let found = closure(&["python3", "not-installed"], installed);
        let expected = ["libc6", "libpython3-stdlib", "python3", "python3.11"];
        assert_eq!(found, BTreeSet::from(expected));
    }

    #[test]
    fn lists_are_sorted() {
        for list in [
            PACKAGES,
            INSTALLING_PACKAGES,
            PROGRAM_PACKAGES,
            ALTERNATIVES,
            NOT_NEEDED,
        ] {
            assert!(list.is_sorted(), "{list:?}");
        }
    }

    #[test]
    fn a_source_has_its_own_compiled_modules_and_no_others() {
        let host = tempfile::tempdir().expect("a folder");
        let cache = host.path().join("__pycache__");
        std::fs::create_dir(&cache).expect("a folder");
        for name in ["a.cpython-311.pyc", "ab.cpython-311.pyc"] {
            std::fs::write(cache.join(name), "").expect("a file");
        }
        let found = compiled_modules(&host.path().join("a.py"));
        assert_eq!(found, [cache.join("a.cpython-311.pyc")]);
        assert!(compiled_modules(&host.path().join("a.so")).is_empty());
    }
}
