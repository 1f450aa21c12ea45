//! Mounts for as long as a test lasts, where nobody but the test sees them.

use std::cell::Cell;
use std::path::{Path, PathBuf};

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};

use crate::outside;

std::thread_local! {
    static APART: Cell<bool> = const { Cell::new(false) };
}

/// Gives this thread, and what it starts, mounts of its own. What is mounted from here on the host does
/// not see, and it is gone with the test, however that ends. More than once it does nothing.
pub fn mounts_of_its_own() {
    if APART.replace(true) {
        return;
    }
    unshare(CloneFlags::CLONE_NEWNS).expect("a test runs as root");
    let none: Option<&str> = None;
    let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    mount(none, "/", none, private, none).expect("mounts can be private");
}

/// A mount among a test's [own](mounts_of_its_own). It goes before the directory that it is in, when it
/// was made after it: a test that panics leaves neither.
pub struct Mount(PathBuf);

impl Mount {
    /// Makes it by mount(8), with these arguments and the place as the last one.
    pub fn new(arguments: &[&str], place: &Path) -> Mount {
        mounts_of_its_own();
        let last = place.display().to_string();
        let (status, _) = outside("mount", &[arguments, &[&last]].concat());
        assert!(status.success(), "a test runs as root");
        Mount(place.to_path_buf())
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // Of what a test that panics holds open in it, too.
        let _ = umount2(&self.0, MntFlags::MNT_DETACH);
    }
}
