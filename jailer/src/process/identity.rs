//! The identity of the file that a path of the jail leads to, as the kernel knows it, whatever else leads there.
//!
//! Runs as: the supervisor, outside the jail, when its tree stands and before its program runs.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;

use nix::errno::Errno;
use nix::libc;

use crate::error::JailError;
use crate::kernel_file;
use crate::mountinfo::{self, MountinfoLine, has_option};
use crate::sys;

/// A file, while it exists: no other has this device and inode.
///
/// Both are the kernel's own. stat(2) may say something else: the device of a subvolume, the inode
/// behind an overlay's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileIdentity {
    /// Major and minor number of its file system.
    pub device: (u32, u32),
    /// The inode number.
    pub inode: u64,
    /// True when it stays the same file whatever the program does with it. One that lies below a
    /// writable overlay does not: linked or changed, it is copied, and by a new name another file.
    pub stays: bool,
}

/// The file that `path` leads to in the file system of the process `pid`, links followed; `None` when nothing is
/// there.
pub(crate) fn file_identity(
    pid: libc::pid_t,
    path: &[u8],
) -> Result<Option<FileIdentity>, JailError> {
    let failed = |source| JailError::System {
        act: "look for the files that rules mean by `same_file`",
        source,
    };
    match open(pid, path) {
        Ok(file) => identify(pid, &file).map(Some),
        Err(Errno::ENOENT | Errno::ENOTDIR) => Ok(None),
        Err(errno) => Err(failed(errno)),
    }
}

#[expect(clippy::disallowed_methods, reason = "of /proc, which nobody turns")]
fn open(pid: libc::pid_t, path: &[u8]) -> Result<OwnedFd, Errno> {
    let root = File::open(format!("/proc/{pid}/root")).map_err(errno)?;
    let path = CString::new(path).map_err(|_| Errno::ENOENT)?;
    sys::open_in_root(root.as_fd(), &path, libc::O_PATH)
}

fn errno(error: io::Error) -> Errno {
    Errno::from_raw(error.raw_os_error().unwrap_or(0))
}

/// proc_pid_fdinfo(5) tells mount and inode of an open file, and proc_pid_mountinfo(5) the device of
/// a mount.
fn identify(pid: libc::pid_t, file: &OwnedFd) -> Result<FileIdentity, JailError> {
    let failed = |error: io::Error| JailError::System {
        act: "tell which file a rule means by `same_file`",
        source: errno(error),
    };
    let info = format!("/proc/self/fdinfo/{}", file.as_raw_fd());
    let info = kernel_file::read(info).map_err(failed)?;
    let mounts = kernel_file::read_bytes(format!("/proc/{pid}/mountinfo")).map_err(failed)?;
    let found = parse(&info, &mounts).ok_or_else(|| failed(Errno::ENODATA.into()))?;
    let metadata = File::from(file.try_clone().map_err(failed)?).metadata();
    let device = metadata.map_err(failed)?.dev();
    let shown = (libc::major(device), libc::minor(device));
    if shown != found.device {
        return Err(JailError::NoIdentity {
            shown,
            mounted: found.device,
        });
    }
    Ok(found)
}

fn parse(fdinfo: &str, mounts: impl AsRef<[u8]>) -> Option<FileIdentity> {
    let field = |name: &str| {
        let line = fdinfo.lines().find_map(|line| line.strip_prefix(name));
        line.map(str::trim)
    };
    let inode = field("ino:")?.parse().ok()?;
    let id: u64 = field("mnt_id:")?.parse().ok()?;
    let mut mounts = mountinfo::lines(mounts.as_ref());
    let mount = mounts.find(|mount| mount.id == id)?;
    Some(FileIdentity {
        device: mount.device,
        inode,
        stays: !copies(&mount, inode),
    })
}

/// True when the file of this number is a copy as soon as it is changed. With `xino=on` the highest
/// bits tell what lies below.
fn copies(mount: &MountinfoLine, inode: u64) -> bool {
    let read_only = has_option(&mount.options, "ro") || has_option(&mount.super_options, "ro");
    let is_above = has_option(&mount.super_options, "xino=on") && inode >> 62 == 0;
    mount.kind == "overlay" && !read_only && !is_above
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_and_inode_are_found_in_what_the_kernel_tells() {
        let fdinfo = "pos:\t0\nflags:\t012000000\nmnt_id:\t66\nino:\t9223372036864925702\n";
        let mountinfo = "6 43 0:39 / /x rw - tmpfs none rw\n\
            66 43 0:40 / /workspace rw,nosuid - overlay overlay rw\n";
        let expected = FileIdentity {
            device: (0, 40),
            inode: 9_223_372_036_864_925_702,
            stays: false,
        };
        assert_eq!(parse(fdinfo, mountinfo), Some(expected));
        let fdinfo_of = |inode: &str| fdinfo.replace("9223372036864925702", inode);
        let stays = |fdinfo: &str, options: &str, more: &str| {
            let mountinfo = mountinfo.replace("rw,nosuid", options);
            let mountinfo = mountinfo.replace("overlay rw", &format!("overlay rw{more}"));
            parse(fdinfo, &mountinfo).map(|file| file.stays)
        };
        assert_eq!(stays(fdinfo, "rw,nosuid", ",xino=on"), Some(false));
        assert_eq!(stays(fdinfo, "ro,nosuid", ",xino=on"), Some(true));
        assert_eq!(stays(&fdinfo_of("7"), "rw", ",xino=on"), Some(true));
        assert_eq!(stays(&fdinfo_of("7"), "rw", ""), Some(false));
        assert_eq!(parse(fdinfo, "6 43 0:39 / /x rw - tmpfs none rw\n"), None);
        assert_eq!(parse("mnt_id:\t66\n", mountinfo), None);
    }

    #[test]
    fn two_names_of_a_file_are_the_same_file_and_a_copy_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let place = |name: &str| directory.path().join(name);
        std::fs::write(place("file"), "text").unwrap();
        std::fs::hard_link(place("file"), place("link")).unwrap();
        std::os::unix::fs::symlink("file", place("symlink")).unwrap();
        std::fs::copy(place("file"), place("copy")).unwrap();
        let me = nix::unistd::getpid().as_raw();
        let identity = |name: &str| {
            let path = place(name).canonicalize().unwrap_or_else(|_| place(name));
            file_identity(me, path.as_os_str().as_encoded_bytes()).unwrap()
        };
        let file = identity("file");
        assert_eq!(
            file.map(|file| file.inode),
            Some(std::fs::metadata(place("file")).unwrap().ino())
        );
        assert_eq!(identity("link"), file);
        assert_eq!(identity("symlink"), file);
        assert_ne!(identity("copy"), file);
        assert_eq!(identity("nothing"), None);
        assert_eq!(identity("file/below"), None);
    }
}
