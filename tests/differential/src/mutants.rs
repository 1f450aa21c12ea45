//! The strength of the observers: programs of the kernel side with one comparison or one read removed, and how long it
//! takes until somebody sees that they tell something else.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use miniz_oxide::deflate::compress_to_vec;
use serde::Deserialize;

use xtask::workspace::Programs;
use xtask::{ebpf, test, workspace};

use super::Arguments;

/// The list.
#[derive(Deserialize)]
struct MutantList {
    mutant: Vec<Mutant>,
}

/// One of the changes.
#[derive(Deserialize)]
struct Mutant {
    name: String,
    /// Below `monitor-ebpf/src`.
    file: String,
    /// The text that stands there once.
    old: String,
    /// The text that takes its place.
    new: String,
}

/// Builds each, looks until something does not agree, and prints what came of it.
pub fn run(arguments: &Arguments) -> Result<()> {
    let list = list()?;
    let only = &arguments.only;
    let chosen = |mutant: &&Mutant| only.is_empty() || only.contains(&mutant.name);
    let chosen: Vec<&Mutant> = list.mutant.iter().filter(chosen).collect();
    ensure!(!chosen.is_empty(), "no mutant is named {}", only.join(", "));
    let roomy = &RoomyCommand::build()?;
    let mut not_built = 0;
    for mutant in chosen {
        let told = match build(mutant, roomy) {
            Ok(turnkey) => look(arguments, &turnkey)?,
            Err(error) => {
                not_built += 1;
                format!("is not built: {error:#}")
            }
        };
        eprintln!("mutant {}: {told}", mutant.name);
    }
    ensure!(
        not_built == 0,
        "{not_built} are not built: nothing is known of them"
    );
    Ok(())
}

/// Reads the list.
fn list() -> Result<MutantList> {
    let path = workspace::root().join("tests/differential/mutants.toml");
    let text = fs::read_to_string(&path).with_context(|| format!("no {}", path.display()))?;
    toml::from_str(&text).context("the list cannot be read")
}

/// So much longer than the committed programs may others be.
const ROOM: usize = 1 << 16;

/// A turnkey with room behind its programs: it is compiled once for all mutants.
struct RoomyCommand {
    /// The whole file.
    bytes: Vec<u8>,
    /// The place of the programs in it.
    place: usize,
    /// The length of the programs with the room.
    length: usize,
}

impl RoomyCommand {
    fn build() -> Result<Self> {
        let folder = workspace::target_folder().join("mutants");
        fs::create_dir_all(&folder)?;
        let mut object = ebpf::committed()?;
        object.resize(object.len() + ROOM, 0);
        let path = folder.join("object");
        fs::write(&path, &object).with_context(|| format!("cannot write {}", path.display()))?;
        let mut build = workspace::cargo_build();
        build
            .args(["--package", "turnkey", "--features", "probe-log"])
            .env("TURNKEY_LOG_OBJECT", &path);
        let turnkey = Programs::build(&mut build)?.named("turnkey")?;
        let bytes = fs::read(&turnkey).with_context(|| format!("no {}", turnkey.display()))?;
        let place = last_place(&bytes, &as_carried(&object));
        Ok(Self {
            bytes,
            place: place.context("turnkey does not carry its programs as they are")?,
            length: object.len(),
        })
    }
}

/// The bytes of an object in a command that is built for work on it: of one length for objects of one length.
fn as_carried(object: &[u8]) -> Vec<u8> {
    compress_to_vec(object, 0)
}

/// A turnkey with the change: a copy, in which other programs lie in the place of its own.
fn build(mutant: &Mutant, roomy: &RoomyCommand) -> Result<PathBuf> {
    let mut other = ebpf::changed(|stage| {
        let path = stage.join("src").join(&mutant.file);
        let text = fs::read_to_string(&path)?;
        if text.matches(&mutant.old).count() != 1 {
            bail!("{} does not stand once in {}", mutant.old, mutant.file);
        }
        fs::write(&path, text.replace(&mutant.old, &mutant.new))?;
        Ok(())
    })?;
    ensure!(
        other.len() <= roomy.length,
        "{} bytes are too many",
        other.len()
    );
    // What is behind its end is nothing to a reader of ELF.
    other.resize(roomy.length, 0);
    let carried = as_carried(&other);
    let mut whole = roomy.bytes.clone();
    whole[roomy.place..roomy.place + carried.len()].copy_from_slice(&carried);
    let path = workspace::target_folder().join("mutants/turnkey");
    fs::write(&path, whole).with_context(|| format!("cannot write {}", path.display()))?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    Ok(path)
}

/// The last place where some bytes begin among others.
fn last_place(bytes: &[u8], sought: &[u8]) -> Option<usize> {
    (0..bytes.len())
        .rev()
        .find(|at| bytes[*at..].starts_with(sought))
}

/// The summary of the observers.
fn look(arguments: &Arguments, turnkey: &Path) -> Result<String> {
    let mut look = Command::new(std::env::current_exe()?);
    look.arg("--turnkey").arg(turnkey);
    look.args(["--seconds", &arguments.seconds.to_string()]);
    look.args(["--seed", &arguments.seed.to_string()]);
    let mut look = test::loaded_once(turnkey, look);
    let output = look.stdin(Stdio::null()).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    let line = |wanted: &str| said.lines().find(|line| line.contains(wanted));
    let Some(summary) = line(" programs, ") else {
        let why = line(" was not seen: ").or_else(|| said.lines().next_back());
        return Ok(format!("no program begins: {}", why.unwrap_or_default()));
    };
    let what = line(" Way {").unwrap_or("nothing is found");
    Ok(format!("{summary}; {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mutant_is_one_of_the_sources_as_they_are() {
        let sources = workspace::root().join("monitor-ebpf/src");
        for mutant in list().expect("the list").mutant {
            let source = fs::read_to_string(sources.join(&mutant.file)).expect("a source");
            assert_eq!(source.matches(&mutant.old).count(), 1, "{}", mutant.name);
        }
    }
}
