//! The guest's root file system: what `contents.rs` names, the command under test and the test
//! binaries. Made without mounting anything.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::contents::{self, Disk};
use xtask::command;

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

/// Makes a disk's image at `image`, with `programs` as (place in the guest, file of the host).
pub fn make(disk: &Disk, image: &Path, programs: &[(PathBuf, PathBuf)]) -> Result<()> {
    let stage = tempfile::tempdir().context("no room for the guest's files")?;
    let root = stage.path();
    make_folders(root)?;
    for file in &contents::package_files(disk)? {
        copy_from_host(file, root)?;
        if disk.has_compiled_modules {
            for module in contents::compiled_modules(file) {
                copy_from_host(&module, root)?;
            }
        }
    }
    if disk.has_checkout {
        copy_rust(root)?;
        // A test puts another one in its place, which then has to be there.
        write(&root.join("etc/resolv.conf"), "nameserver 127.0.0.1\n")?;
        for file in contents::checkout_files()? {
            copy(&file, &inside(root, &file))?;
        }
    }
    for (place, program) in programs {
        copy(program, &root.join(place))?;
    }
    for (place, text) in FILES {
        write(&root.join(place), text)?;
    }
    make_file_system(root, image, disk.size)
}

fn copy_rust(root: &Path) -> Result<()> {
    for (place, file) in contents::rust_files()? {
        copy(&file, &root.join(place))?;
    }
    for (place, program) in contents::rust_links() {
        let place = root.join(place);
        make_parent(&place)?;
        symlink(program, place)?;
    }
    Ok(())
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
    let told = || format!("cannot copy {} for the guest", file.display());
    fs::copy(file, place).with_context(told)?;
    // Modules that Python has compiled are those of sources of this time.
    let modified = file.metadata().and_then(|metadata| metadata.modified());
    let copied = fs::File::open(place).with_context(told)?;
    copied
        .set_modified(modified.with_context(told)?)
        .with_context(told)
}

fn write(place: &Path, text: &str) -> Result<()> {
    make_parent(place)?;
    fs::write(place, text).with_context(|| format!("cannot write {}", place.display()))
}

/// mke2fs fills it while making it: no mount, no loop device.
fn make_file_system(root: &Path, image: &Path, size: &str) -> Result<()> {
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
            .arg(size),
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
