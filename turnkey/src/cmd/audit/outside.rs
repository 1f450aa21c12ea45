//! The outside of a sandbox: baits, and whoever sees what becomes of them.

mod listeners;
mod made;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::Error;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::io::FdFlags;

use super::finding::{Bait, HOST_FACTS, NAMESPACES};
use super::probe::{LATER, all, digest, left_name, namespace};
use listeners::Listeners;
use made::Made;

/// The baits and the listeners, taken away when this is dropped.
pub struct Outside {
    bait: Bait,
    listeners: Listeners,
    secret: File,
    /// The file that the neighbour makes when it has a signal.
    signalled: PathBuf,
    neighbour: Child,
    /// Places where a file could be left behind.
    places: Vec<PathBuf>,
    made: Made,
}

/// A process that speaks when SIGWINCH arrives, which ends nobody who gets it by mistake.
const NEIGHBOUR: &str = "trap ': > \"$1\"' WINCH; while :; do sleep 0.1; done";
/// The longest time in which a message of the same host arrives, and the neighbour speaks.
const ARRIVAL: Duration = Duration::from_millis(700);
/// The time between two looks at what has arrived.
const BETWEEN: Duration = Duration::from_millis(20);

impl Outside {
    /// Lays out the baits of one measurement.
    pub fn new() -> anyhow::Result<Self> {
        let token = random();
        let name = format!("turnkey-audit-{token}");
        let mut made = Made::default();
        let folder = made.folder(&std::env::temp_dir().join(&name), 0o777)?;
        let secret = made.file(&folder.join("secret"), &token, 0o644)?;
        made.file(&folder.join("private"), &token, 0o600)?;
        // Both are there at most places; a probe that finds none says so.
        let _ = made.file(&Path::new("/dev/shm").join(&name), &token, 0o644);
        let home = std::env::home_dir().map(|home| home.join(format!(".{name}")));
        let home = home.and_then(|home| made.folder(&home, 0o700).ok());
        if let Some(home) = &home {
            made.file(&home.join("secret"), &token, 0o600)?;
        }
        let listeners = Listeners::new(&token, &name, &folder.join("socket"))
            .context("nobody can listen outside of the sandbox")?;
        let signalled = folder.join("signalled");
        let neighbour = neighbour(&signalled, &token).context("no neighbour can be started")?;
        let here = std::env::current_dir().context("there is no current directory")?;
        let mut places = vec![folder.clone(), here];
        places.extend(home.clone());
        let bait = Bait {
            addresses: listeners.addresses().to_vec(),
            neighbour: i32::try_from(neighbour.id()).unwrap_or_default(),
            descriptor: secret.as_raw_fd(),
            variable: "TURNKEY_AUDIT_SECRET".into(),
            namespaces: known(NAMESPACES, namespace),
            host: known(HOST_FACTS, digest),
            token,
            folder,
            home,
            name,
        };
        Ok(Self {
            bait,
            listeners,
            secret,
            signalled,
            neighbour,
            places,
            made,
        })
    }

    /// The description that the probe is given.
    pub fn bait(&self) -> &Bait {
        &self.bait
    }

    /// Starts something that inherits the descriptor of the secret.
    pub fn with_descriptor<T>(&self, start: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
        rustix::io::fcntl_setfd(&self.secret, FdFlags::empty())?;
        let started = start();
        rustix::io::fcntl_setfd(&self.secret, FdFlags::CLOEXEC)?;
        started
    }

    /// Names of the probes whose effect arrived. Those that are expected are waited for, as long as they could be under way.
    pub fn seen(&self, expected: &BTreeSet<&str>) -> BTreeSet<String> {
        let until = Instant::now() + LATER + ARRIVAL;
        loop {
            let seen = self.seen_now();
            let all = expected.iter().all(|name| seen.contains(*name));
            if all || Instant::now() >= until {
                self.clear_places();
                return seen;
            }
            std::thread::sleep(BETWEEN);
        }
    }

    fn seen_now(&self) -> BTreeSet<String> {
        let mut seen = self.listeners.heard();
        if self.signalled.exists() {
            seen.insert("signals".into());
        }
        let left = all()
            .into_iter()
            .filter(|probe| self.left(probe.name).any(|path| path.exists()));
        seen.extend(left.map(|probe| probe.name.to_owned()));
        seen
    }

    fn clear_places(&self) {
        for path in all().iter().flat_map(|probe| self.left(probe.name)) {
            // It is there for a few of them.
            let _ = std::fs::remove_file(path);
        }
    }

    /// The files that a probe could have left behind.
    fn left(&self, probe: &str) -> impl Iterator<Item = PathBuf> {
        let name = left_name(&self.bait.token, probe);
        self.places.iter().map(move |place| place.join(&name))
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        let _ = self.neighbour.kill();
        let _ = self.neighbour.wait();
        self.made.remove();
    }
}

fn neighbour(signalled: &Path, token: &str) -> Result<Child, Error> {
    let mut command = Command::new("/bin/sh");
    command
        .args(["-c", NEIGHBOUR, "turnkey-audit"])
        .arg(signalled)
        .arg(token);
    command.env("TURNKEY_AUDIT_NEIGHBOUR", token);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.spawn()
}

/// 128 random bits.
fn random() -> String {
    let half = || RandomState::new().build_hasher().finish();
    format!("{:016x}{:016x}", half(), half())
}

/// The answers that can be had for these, by their names.
fn known<const N: usize>(
    of: [&str; N],
    find: impl Fn(&str) -> Result<String, Error>,
) -> BTreeMap<String, String> {
    let found = of
        .into_iter()
        .filter_map(|each| Some((each.to_owned(), find(each).ok()?)));
    found.collect()
}
