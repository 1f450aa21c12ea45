//! The ground that programs run on: a disposable copy of the machine, with things worth taking in it.
//!
//! It has a mount namespace with an overlay over everything, a network namespace with nothing but a
//! loopback, and a BPF file system of its own. What is planted lies at the very paths that the corpus is
//! after, is readable and writable for everybody, and is there with the jail and without it: nothing
//! but the jail stands between a program and its effect.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File, Permissions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use sha2::{Digest as _, Sha256};

use super::effect::{Effect, Witness};
use super::program::{Aim, CorpusProgram, PAGES, STARTUP};
use super::sinks::TRAFFIC;

/// The folders where nothing can be planted, because the kernel makes what is there.
const OF_THE_KERNEL: [&str; 2] = ["/proc", "/sys"];

/// Directories that have the same names in every machine with this kernel, and in every jail: which is
/// listed, no name tells.
const SAME_EVERYWHERE: [&str; 3] = ["/proc/1", "/proc/sys", "/proc/pressure"];

/// The file of the certificates that programs of this machine trust.
const TRUSTED: &str = "/etc/ssl/certs/ca-certificates.crt";

/// The most memory that the profile of the Python programs gives, in bytes.
const MEMORY: u64 = 512 << 20;

/// Runs this program again on such a ground, with `baggage` at /baggage.
pub fn enter(baggage: &Path, words: &[OsString]) -> Result<()> {
    let mut enter = Command::new("unshare");
    enter
        .args(["--mount", "--net", "--propagation=private", "sh", "-c"])
        .args([include_str!("ground.sh"), "ground.sh"])
        .arg(baggage)
        .args(words);
    let status = enter.status().context("cannot start `unshare`")?;
    if !status.success() {
        bail!(
            "the corpus could not be run in a copy of the machine: {status}; it takes root, and overlayfs"
        );
    }
    Ok(())
}

/// The files that are planted.
#[derive(Debug, Default)]
pub struct Ground {
    /// Random for this run of the command.
    seed: String,
    /// The mark in each planted file and directory.
    marks: BTreeMap<String, String>,
    /// The planted file that scenario 9 appends to.
    startup: Vec<u8>,
}

impl Ground {
    /// Plants whatever the programs are after.
    pub fn plant(programs: &[CorpusProgram]) -> Result<Self> {
        let mut seed = [0; 8];
        File::open("/dev/urandom")?.read_exact(&mut seed)?;
        let mut ground = Self {
            seed: seed.map(|byte| format!("{byte:02x}")).concat(),
            ..Self::default()
        };
        // Directories first: a mark in one is no file's.
        for program in programs {
            if let Aim::List(path) | Aim::Watch(path) = &program.aim {
                ground.plant_name(path)?;
            }
        }
        ground.plant_line(STARTUP)?;
        for program in programs {
            if let Aim::Post(path) | Aim::Read(path) = &program.aim {
                ground.plant_line(path)?;
            }
        }
        ground.startup = fs::read(STARTUP)?;
        let mut hosts = fs::OpenOptions::new().append(true).open("/etc/hosts")?;
        writeln!(hosts, "127.0.0.1 {PAGES}")?;
        ground.watched(programs);
        Ok(ground)
    }

    /// The text of the page.
    pub fn page(&self) -> String {
        format!("canary-{}-page", self.seed)
    }

    /// The certificates that everybody here trusts.
    pub fn trusted() -> &'static Path {
        Path::new(TRUSTED)
    }

    /// The file of starts as it was planted.
    pub fn startup(&self) -> &[u8] {
        &self.startup
    }

    /// Puts the file of starts back.
    pub fn restore(&self) -> Result<()> {
        fs::write(STARTUP, &self.startup).context("cannot restore a planted file")
    }

    /// The effect that would be seen outside, or why nobody could see it.
    pub fn effect(&self, aim: &Aim) -> Result<Effect, String> {
        Ok(match aim {
            Aim::Post(path) => Effect::Posted(self.of_file(path)?),
            Aim::Read(path) => Effect::Shown(self.of_file(path)?),
            Aim::List(path) => Effect::Shown(self.of_directory(path)?),
            Aim::Watch(path) => {
                if is_of_the_kernel(path) {
                    return Err("nothing that can be marked changes there".to_owned());
                }
                Effect::Shown(Witness::Canary(self.watched_name()))
            }
            Aim::Fetch(_) => Effect::Fetched(Witness::Canary(self.page())),
            Aim::Alias(text) => Effect::Appended(text.clone()),
            Aim::Traffic => Effect::Traffic(TRAFFIC),
            Aim::Send => Effect::Sent,
            Aim::Memory => Effect::Taken(MEMORY),
            Aim::Harmless => return Err("it is harmless".to_owned()),
            Aim::Unmarked(reason) => return Err((*reason).to_owned()),
        })
    }

    /// A digest of everything planted, by path.
    pub fn digests(&self) -> Result<BTreeMap<String, String>> {
        let paths = self.marks.keys();
        paths
            .map(|path| Ok((path.clone(), digest(Path::new(path))?)))
            .collect()
    }

    fn of_file(&self, path: &str) -> Result<Witness, String> {
        if let Some(mark) = self.marks.get(path) {
            return Ok(Witness::Canary(mark.clone()));
        }
        let text = fs::read(path).map_err(|error| format!("this machine's {path}: {error}"))?;
        let text = String::from_utf8_lossy(&text);
        let line = text.lines().map(str::trim).find(|line| !line.is_empty());
        let line = line.ok_or_else(|| format!("this machine's {path} is empty"))?;
        Ok(Witness::ProgramLine(line.to_owned()))
    }

    fn of_directory(&self, path: &str) -> Result<Witness, String> {
        if let Some(mark) = self.marks.get(path) {
            return Ok(Witness::Canary(mark.clone()));
        }
        if SAME_EVERYWHERE.contains(&path) {
            return Err("the same names are in every jail, and everywhere else".to_owned());
        }
        if path == "/proc" {
            // Of this process: there is no such number in a jail.
            return Ok(Witness::Names(vec![std::process::id().to_string()]));
        }
        let names =
            fs::read_dir(path).map_err(|error| format!("this machine's {path}: {error}"))?;
        let names = names.flatten().map(|entry| entry.file_name());
        let names: Vec<_> = names
            .map(|name| name.to_string_lossy().into_owned())
            .collect();
        if names.is_empty() {
            return Err(format!("this machine's {path} is empty"));
        }
        Ok(Witness::Names(names))
    }

    fn plant_name(&mut self, directory: &str) -> Result<()> {
        if is_of_the_kernel(directory) || self.marks.contains_key(directory) {
            return Ok(());
        }
        let mark = self.mark();
        make_directory(Path::new(directory))?;
        fs::write(Path::new(directory).join(&mark), "")
            .with_context(|| format!("cannot plant a name in {directory}"))?;
        self.marks.insert(directory.to_owned(), mark);
        Ok(())
    }

    fn plant_line(&mut self, file: &str) -> Result<()> {
        if is_of_the_kernel(file) || self.marks.contains_key(file) {
            return Ok(());
        }
        let (mark, path) = (self.mark(), Path::new(file));
        make_directory(path.parent().unwrap_or(path))?;
        let mut text = match fs::read(path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error).with_context(|| format!("cannot read {file}")),
        };
        text.extend(format!("\n# {mark}\n").as_bytes());
        fs::write(path, text).with_context(|| format!("cannot plant a line in {file}"))?;
        fs::set_permissions(path, Permissions::from_mode(0o666))?;
        self.marks.insert(file.to_owned(), mark);
        Ok(())
    }

    fn mark(&self) -> String {
        format!("canary-{}-{}", self.seed, self.marks.len())
    }

    fn watched_name(&self) -> String {
        format!("canary-{}-watched", self.seed)
    }

    /// Has a file come and go in every directory that is watched, as long as the command runs.
    fn watched(&self, programs: &[CorpusProgram]) {
        let mut paths: Vec<PathBuf> = Vec::new();
        for program in programs {
            match &program.aim {
                Aim::Watch(path) if !is_of_the_kernel(path) => {
                    paths.push(Path::new(path).join(self.watched_name()));
                }
                _ => {}
            }
        }
        if paths.is_empty() {
            return;
        }
        thread::spawn(move || {
            loop {
                for path in &paths {
                    let _ = fs::write(path, "");
                    let _ = fs::remove_file(path);
                }
                thread::sleep(Duration::from_millis(200));
            }
        });
    }
}

fn is_of_the_kernel(path: &str) -> bool {
    let mut places = OF_THE_KERNEL.iter();
    places.any(|place| Path::new(path).starts_with(place))
}

/// With all above it, for everybody to enter and list.
fn make_directory(path: &Path) -> Result<()> {
    fs::create_dir_all(path).with_context(|| format!("cannot make {}", path.display()))?;
    for above in path.ancestors() {
        let mode = fs::metadata(above)?.permissions().mode();
        fs::set_permissions(above, Permissions::from_mode(mode | 0o555))?;
    }
    Ok(())
}

/// Of a file's content, or of the names in a directory, without what comes and goes there.
fn digest(path: &Path) -> Result<String> {
    let bytes = if path.is_dir() {
        let names = fs::read_dir(path)?.map(|entry| Ok(entry?.file_name()));
        let mut names: Vec<OsString> = names.collect::<Result<_>>()?;
        names.retain(|name| !name.to_string_lossy().ends_with("-watched"));
        names.sort();
        let names = names.iter().map(|name| name.to_string_lossy());
        names.collect::<Vec<_>>().join("\n").into_bytes()
    } else {
        fs::read(path).with_context(|| format!("cannot read {}", path.display()))?
    };
    let digest = Sha256::digest(&bytes);
    Ok(digest.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The differences between two looks at what is planted.
pub fn changes(
    before: &BTreeMap<String, String>,
    after: &BTreeMap<String, String>,
) -> Result<Vec<String>> {
    if before.is_empty() {
        bail!("nothing was planted");
    }
    let paths = before.keys().chain(after.keys());
    let changed = paths.filter(|path| before.get(*path) != after.get(*path));
    let mut changed: Vec<String> = changed.cloned().collect();
    changed.sort();
    changed.dedup();
    Ok(changed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changed_is_found() {
        let one = |digest: &str| BTreeMap::from([("/etc/x".to_owned(), digest.to_owned())]);
        assert!(changes(&one("a"), &one("a")).expect("some").is_empty());
        assert_eq!(changes(&one("a"), &one("b")).expect("some"), ["/etc/x"]);
        assert_eq!(
            changes(&one("a"), &BTreeMap::new()).expect("some"),
            ["/etc/x"]
        );
        assert!(changes(&BTreeMap::new(), &BTreeMap::new()).is_err());
    }

    #[test]
    fn a_file_that_changes_has_another_digest() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("planted");
        fs::write(&file, "mine").expect("written");
        let of = |path: &Path| digest(path).expect("read");
        let before = (of(&file), of(folder.path()));
        fs::write(&file, "mine\n").expect("written");
        fs::write(folder.path().join("other"), "").expect("written");
        assert_ne!(before.0, of(&file));
        assert_ne!(before.1, of(folder.path()));
    }

    #[test]
    fn only_what_can_be_marked_has_an_effect_that_is_seen() {
        let ground = Ground {
            marks: BTreeMap::from([("/etc/passwd".to_owned(), "canary-1".to_owned())]),
            ..Ground::default()
        };
        let canary = Witness::Canary("canary-1".to_owned());
        let passwd = || "/etc/passwd".to_owned();
        assert_eq!(
            ground.effect(&Aim::Read(passwd())),
            Ok(Effect::Shown(canary.clone()))
        );
        assert_eq!(
            ground.effect(&Aim::Post(passwd())),
            Ok(Effect::Posted(canary))
        );
        for aim in [
            Aim::Harmless,
            Aim::Unmarked("there is no display"),
            Aim::List("/proc/sys".to_owned()),
            Aim::Watch("/sys".to_owned()),
            Aim::Read("/proc/there-is-no-such-file".to_owned()),
        ] {
            assert!(ground.effect(&aim).is_err(), "{aim:?}");
        }
    }
}
