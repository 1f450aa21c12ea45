//! The scripts that are looked at: files that are named, and those below directories, within bounds.

use std::collections::BTreeMap;
use std::fs::{self, DirEntry};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use turnkey_report::escape;
use turnkey_scan::{LARGEST, Language};
use turnkey_supervisor::files;

/// Scripts of one call.
const SCRIPTS: usize = 10_000;

/// Entries of directories of one call.
const ENTRIES: usize = 500_000;

/// Directories within directories.
const DEPTH: usize = 40;

/// A script to look at.
pub struct Source {
    /// The script's path, escaped; `-` for standard input.
    pub path: String,
    pub code: Vec<u8>,
}

/// The files that were not looked at, by the reason, with how many.
pub type LeftOut = BTreeMap<&'static str, usize>;

/// The scripts that are looked at, and what is not.
pub struct Gathered {
    pub sources: Vec<Source>,
    pub left_out: LeftOut,
    /// The errors of paths that were named, of which nothing else is known.
    pub failed: Vec<anyhow::Error>,
}

/// The reasons for which nothing is known of what may be a script.
pub const UNKNOWN: [&str; 4] = [UNREADABLE, UNLISTED, TOO_DEEP, BEYOND];

const UNREADABLE: &str = "files that cannot be read";
const UNLISTED: &str = "directories that cannot be listed";
const TOO_DEEP: &str = "directories that lie too deep";
const BEYOND: &str = "beyond the bound of one scan";

/// Reads what the caller names. A file that is named is a script, or an error; the others are looked at all the same.
pub fn gather(paths: &[PathBuf], language: Option<Language>) -> Gathered {
    let mut gatherer = Gatherer {
        language,
        sources: Vec::new(),
        left_out: LeftOut::new(),
        entries: 0,
    };
    let failed = paths.iter().filter_map(|path| gatherer.add(path).err());
    let failed = failed.collect();
    Gathered {
        sources: gatherer.sources,
        left_out: gatherer.left_out,
        failed,
    }
}

fn standard_input() -> anyhow::Result<Vec<u8>> {
    let mut code = Vec::new();
    let stdin = std::io::stdin().lock().take(LARGEST as u64 + 1);
    stdin
        .take(LARGEST as u64 + 1)
        .read_to_end(&mut code)
        .context("could not read standard input")?;
    Ok(code)
}

fn shown(path: &Path) -> String {
    escape(path.as_os_str().as_encoded_bytes())
}

struct Gatherer {
    language: Option<Language>,
    sources: Vec<Source>,
    left_out: LeftOut,
    entries: usize,
}

impl Gatherer {
    /// Adds what a path of the caller's names.
    fn add(&mut self, path: &Path) -> anyhow::Result<()> {
        let name = shown(path);
        if path == Path::new("-") {
            return self.named("-", standard_input()?);
        }
        if path.is_dir() {
            let listed = self.directory(path, 0);
            return listed.with_context(|| format!("could not list {name}"));
        }
        let code = files::read(path, LARGEST).with_context(|| format!("could not read {name}"))?;
        self.named(&name, code)
    }

    fn named(&mut self, path: &str, code: Vec<u8>) -> anyhow::Result<()> {
        if self
            .language
            .or_else(|| Language::of(path, &code))
            .is_none()
        {
            bail!(
                "neither the name nor the first line of {path} tells its language: name it, by --language python or --language shell"
            );
        }
        self.sources.push(Source {
            path: path.to_owned(),
            code,
        });
        Ok(())
    }

    /// In the order of names, so that the same directory gives the same page.
    fn directory(&mut self, directory: &Path, depth: usize) -> std::io::Result<()> {
        let entries = fs::read_dir(directory)?.take(ENTRIES);
        let mut entries: Vec<DirEntry> = entries.filter_map(Result::ok).collect();
        entries.sort_by_key(DirEntry::file_name);
        for entry in entries {
            self.entries += 1;
            if self.entries > ENTRIES || self.sources.len() >= SCRIPTS {
                self.leave_out(BEYOND);
                continue;
            }
            self.entry(directory, &entry, depth);
        }
        Ok(())
    }

    fn entry(&mut self, directory: &Path, entry: &DirEntry, depth: usize) {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_symlink() => self.leave_out("symbolic links"),
            Ok(kind) if kind.is_dir() && depth >= DEPTH => self.leave_out(TOO_DEEP),
            Ok(kind) if kind.is_dir() => {
                if self.directory(&path, depth + 1).is_err() {
                    self.leave_out(UNLISTED);
                }
            }
            Ok(kind) if kind.is_file() => self.file(directory, entry, &path),
            _ => self.leave_out("neither files nor directories"),
        }
    }

    fn file(&mut self, directory: &Path, entry: &DirEntry, path: &Path) {
        let name = shown(path);
        let Ok(code) = files::read_below(directory, Path::new(&entry.file_name()), LARGEST) else {
            return self.leave_out(UNREADABLE);
        };
        match self.language.or_else(|| Language::of(&name, &code)) {
            Some(_) => self.sources.push(Source { path: name, code }),
            None => self.leave_out("files that are neither Python nor shell"),
        }
    }

    fn leave_out(&mut self, why: &'static str) {
        *self.left_out.entry(why).or_default() += 1;
    }
}
