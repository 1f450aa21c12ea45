//! The guest's root file system: files of packages that the host has, the command under test and
//! the test binaries. Made without mounting anything.
//!
//! The list of packages grows with what tests need; one that the host lacks belongs to
//! `setup/needs.rs` too.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::command;

/// Whose files the guest has, and those of everything they depend on.
const PACKAGES: &[&str] = &[
    "base-files",
    "bash",
    "bsdutils",
    "coreutils",
    "dash",
    "dbus",
    "findutils",
    "gcc",
    "grep",
    "iproute2",
    "libc-bin",
    "libc6-dev",
    "libgcc-s1",
    "make",
    "mawk",
    "mount",
    "procps",
    "python3",
    "sed",
    "systemd",
    "uidmap",
    "util-linux",
];

/// Parts of packages that no test looks at.
const NOT_NEEDED: &[&str] = &[
    "/etc/",
    "/usr/lib/gcc/x86_64-linux-gnu/12/lto",
    "/usr/lib/x86_64-linux-gnu/gconv/",
    "/usr/lib/x86_64-linux-gnu/perl",
    "/usr/share/bash-completion/",
    "/usr/share/doc/",
    "/usr/share/info/",
    "/usr/share/lintian/",
    "/usr/share/locale/",
    "/usr/share/man/",
    "/usr/share/perl",
    "/usr/share/zoneinfo/",
    "/var/",
];

/// Empty folders that mounts and tests expect.
const FOLDERS: &[&str] = &[
    "dev", "home", "proc", "root", "run", "sys", "tmp", "var/tmp",
];

/// Files of the guest alone. Its accounts are not the host's, and its secrets are worth nothing.
const FILES: &[(&str, &str)] = &[
    (
        "etc/passwd",
        "root:x:0:0:root:/root:/bin/bash\nuser:x:1000:1000::/home/user:/bin/sh\n\
         messagebus:x:100:100::/nonexistent:/usr/sbin/nologin\n\
         nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
    ),
    (
        "etc/group",
        "root:x:0:\nmessagebus:x:100:\nuser:x:1000:\nnogroup:x:65534:\n",
    ),
    (
        "etc/shadow",
        "root:*:20000:0:99999:7:::\nnobody:*:20000:0:99999:7:::\n",
    ),
    ("etc/hosts", "127.0.0.1 localhost\n::1 localhost\n"),
    ("etc/subgid", "user:300000:65536\n"),
    ("etc/subuid", "user:300000:65536\n"),
    (
        "etc/nsswitch.conf",
        "passwd: files\ngroup: files\nhosts: files dns\n",
    ),
];

/// Room for everything with some to spare; the file is sparse.
const SIZE: &str = "2G";

/// Makes the image at `image`, with `programs` as (place in the guest, file of the host).
pub fn make(image: &Path, programs: &[(PathBuf, PathBuf)]) -> Result<()> {
    let stage = tempfile::tempdir().context("no room for the guest's files")?;
    let root = stage.path();
    make_folders(root)?;
    for file in &package_files()? {
        copy_from_host(file, root)?;
    }
    for (place, program) in programs {
        copy(program, &root.join(place))?;
    }
    for (place, text) in FILES {
        write(&root.join(place), text)?;
    }
    make_file_system(root, image)
}

/// `/bin`, `/sbin` and the like are links on every Debian since 12, and the loader's path among
/// them is written into every program.
fn make_folders(root: &Path) -> Result<()> {
    for name in FOLDERS {
        fs::create_dir_all(root.join(name))?;
    }
    for name in ["bin", "sbin", "lib", "lib64"] {
        let target = Path::new("usr").join(name);
        fs::create_dir_all(root.join(&target))?;
        symlink(&target, root.join(name))?;
    }
    for name in ["tmp", "var/tmp"] {
        fs::set_permissions(root.join(name), fs::Permissions::from_mode(0o1777))?;
    }
    Ok(())
}

/// The files of the packages.
fn package_files() -> Result<BTreeSet<PathBuf>> {
    let installed = dpkg_query(&[
        "--show",
        "--showformat",
        "${Package}\t${Pre-Depends}, ${Depends}\n",
    ])?;
    let packages = closure(PACKAGES, &installed);
    let mut arguments = vec!["--listfiles"];
    arguments.extend(packages.iter().copied());
    let listed = dpkg_query(&arguments)?;
    let wanted = listed.lines().filter(|line| {
        line.starts_with('/') && !NOT_NEEDED.iter().any(|prefix| line.starts_with(prefix))
    });
    let mut files: BTreeSet<PathBuf> = wanted.map(PathBuf::from).collect();
    files.extend(
        [
            "/usr/bin/awk",
            "/usr/bin/cc",
            "/etc/alternatives/awk",
            "/etc/alternatives/cc",
        ]
        .map(PathBuf::from),
    );
    Ok(files)
}

fn dpkg_query(arguments: &[&str]) -> Result<String> {
    command::output(Command::new("dpkg-query").args(arguments))
        .context("the guest is made of Debian packages that the host has")
}

/// These packages and whatever they depend on, among those installed: one per line, its name, a tab
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

/// A file at the place where it really lies, and what it leads to when it is a link.
fn copy_from_host(path: &Path, root: &Path) -> Result<()> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Ok(());
    };
    let Ok(folder) = folder.canonicalize() else {
        return Ok(());
    };
    let real = folder.join(name);
    let Ok(metadata) = real.symlink_metadata() else {
        return Ok(());
    };
    let place = inside(root, &real);
    if metadata.is_symlink() && place.symlink_metadata().is_err() {
        make_parent(&place)?;
        symlink(fs::read_link(&real)?, &place)?;
        return match real.canonicalize() {
            Ok(target) if target.is_file() => copy(&target, &inside(root, &target)),
            _ => Ok(()),
        };
    }
    if metadata.is_file() {
        copy(&real, &place)
    } else {
        Ok(())
    }
}

fn inside(root: &Path, absolute: &Path) -> PathBuf {
    root.join(absolute.strip_prefix("/").unwrap_or(absolute))
}

fn make_parent(place: &Path) -> Result<()> {
    let parent = place.parent().context("a place in the guest")?;
    fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))
}

fn copy(file: &Path, place: &Path) -> Result<()> {
    make_parent(place)?;
    fs::copy(file, place)
        .map(|_| ())
        .with_context(|| format!("cannot copy {} for the guest", file.display()))
}

fn write(place: &Path, text: &str) -> Result<()> {
    make_parent(place)?;
    fs::write(place, text).with_context(|| format!("cannot write {}", place.display()))
}

/// mke2fs fills it while making it: no mount, no loop device.
fn make_file_system(root: &Path, image: &Path) -> Result<()> {
    let _ = fs::remove_file(image);
    fs::set_permissions(root, fs::Permissions::from_mode(0o755))?;
    let mke2fs = command::find_program("mke2fs").unwrap_or_else(|| "/usr/sbin/mke2fs".into());
    // Nothing survives the guest, so it needs no journal.
    command::check(
        Command::new(mke2fs)
            .args([
                "-q",
                "-t",
                "ext4",
                "-O",
                "^has_journal",
                "-E",
                "root_owner=0:0",
                "-d",
            ])
            .arg(root)
            .arg(image)
            .arg(SIZE),
    )
}

/// A disk that the guest swaps to, all of it empty.
pub fn make_swap(image: &Path) -> Result<()> {
    const BYTES: u64 = 512 << 20;
    let _ = fs::remove_file(image);
    fs::File::create(image)?.set_len(BYTES)?;
    let mkswap = Path::new("/usr/sbin/mkswap");
    if !mkswap.exists() {
        bail!("{} is missing: it is part of util-linux", mkswap.display());
    }
    command::check(Command::new(mkswap).arg("--quiet").arg(image))
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
        assert!(PACKAGES.is_sorted() && NOT_NEEDED.is_sorted());
    }

    #[test]
    fn link_brings_what_it_leads_to() {
        let host = tempfile::tempdir().expect("a folder");
        let root = tempfile::tempdir().expect("a folder");
        fs::write(host.path().join("real"), "x").expect("written");
        symlink("real", host.path().join("link")).expect("linked");
        copy_from_host(&host.path().join("link"), root.path()).expect("copied");
        let folder = host.path().canonicalize().expect("there");
        let copied = inside(root.path(), &folder.join("link"));
        assert_eq!(fs::read_to_string(copied).expect("through the link"), "x");
    }
}
