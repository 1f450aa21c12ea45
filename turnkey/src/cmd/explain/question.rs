//! The question of `explain --path P --on KIND`.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;

use anyhow::{Context, bail, ensure};
use turnkey_policy::names::NamedVariants;
use turnkey_policy::{ActorPaths, Attempt, AttemptKind, FileFlag, OpenAccess, WORKSPACE};

use crate::cli::QuestionArguments;

/// An attempt that somebody asks about.
#[derive(Debug)]
pub struct ExplainQuestion {
    pub on: AttemptKind,
    pub path: Option<Vec<u8>>,
    pub address: Option<SocketAddr>,
    /// Each is decided by itself; empty for kinds that have none.
    pub access: Vec<OpenAccess>,
    pub flag: Option<FileFlag>,
    /// The program that acts, as far as it is known; `script` is the script that it interprets.
    pub exe: Option<Vec<u8>>,
    pub script: Option<Vec<u8>>,
}

impl ExplainQuestion {
    /// `None` when nothing is asked.
    ///
    /// # Errors
    /// When a word is not known, or parts of the question do not go together.
    pub fn new(arguments: &QuestionArguments) -> anyhow::Result<Option<Self>> {
        let on = match (&arguments.on, &arguments.path, &arguments.address) {
            (Some(on), ..) => word("--on", on)?,
            (None, Some(_), _) => AttemptKind::Open,
            (None, None, Some(_)) => AttemptKind::Connect,
            (None, None, None) => {
                let lost = !arguments.access.is_empty()
                    || arguments.flag.is_some()
                    || arguments.exe.is_some();
                ensure!(
                    !lost,
                    "--access, --flag and --exe say more of an attempt: name it with --path, --address or --on"
                );
                return Ok(None);
            }
        };
        let path = arguments.path.as_ref();
        let question = Self {
            on,
            path: path.map(|path| spelled_out(path.as_bytes())),
            address: arguments.address.as_deref().map(peer).transpose()?,
            access: accesses(on, &arguments.access)?,
            flag: arguments
                .flag
                .as_ref()
                .map(|flag| word("--flag", flag))
                .transpose()?,
            exe: given(&arguments.exe),
            script: given(&arguments.script),
        };
        question.check()?;
        Ok(Some(question))
    }

    /// Parts that do not go together would be answered about something else than what was meant.
    fn check(&self) -> anyhow::Result<()> {
        let on = self.on;
        match &self.path {
            Some(_) if !on.has_path() => bail!("an attempt to {on} has no path: leave --path out"),
            Some(_) if self.flag == Some(FileFlag::Truncated) => {
                bail!("--flag truncated is of a file whose path is not known: leave --path out")
            }
            None if self.flag == Some(FileFlag::Truncated) => {}
            None if on.has_path() && on != AttemptKind::Map => {
                bail!("an attempt to {on} is on a file: name it with --path")
            }
            Some(path) if !path.starts_with(b"/") && !path.starts_with(b"memfd:") => {
                bail!("--path is to be as the kernel writes it: absolute, or memfd:NAME")
            }
            Some(path) if leads_elsewhere(path) => {
                bail!(
                    "--path is to be as the kernel writes it: without `.`, `..` and empty names, and with every symlink followed"
                )
            }
            _ => {}
        }
        ensure!(
            self.address.is_none() || on.has_address(),
            "--address goes with connect, bind and send alone"
        );
        let is_program = |path: &Vec<u8>| path.starts_with(b"/") || path.starts_with(b"memfd:");
        ensure!(
            self.exe.as_ref().is_none_or(is_program),
            "--exe is to be as the kernel writes it: absolute, or memfd:NAME"
        );
        ensure!(
            self.script
                .as_ref()
                .is_none_or(|path| path.starts_with(b"/")),
            "--script is to be absolute"
        );
        ensure!(
            self.flag.is_none() || on.has_flags(),
            "--flag goes with open and exec alone"
        );
        Ok(())
    }

    /// The actor, if the program is known.
    fn actor(&self) -> Option<ActorPaths<'_>> {
        let exe = self.exe.as_deref()?;
        let script = self.script.as_deref();
        Some(ActorPaths { exe, script })
    }

    /// The same, as the rules are asked.
    pub fn attempt<'q>(&'q self, was: &'q [&'q [u8]]) -> Attempt<'q> {
        Attempt {
            path: self.path.as_deref(),
            address: self.address,
            access: &self.access,
            flag: self.flag,
            actor: self.actor(),
            was,
            ..Attempt::new(self.on)
        }
    }
}

fn given(path: &Option<OsString>) -> Option<Vec<u8>> {
    path.as_ref().map(|path| spelled_out(path.as_bytes()))
}

/// As rules spell the program's home.
fn spelled_out(path: &[u8]) -> Vec<u8> {
    let rest = ["~", "$HOME", "$WORKDIR"]
        .iter()
        .find_map(|name| path.strip_prefix(name.as_bytes()))
        .filter(|rest| rest.is_empty() || rest.starts_with(b"/"));
    rest.map_or_else(
        || path.to_vec(),
        |rest| [WORKSPACE.as_bytes(), rest].concat(),
    )
}

fn peer(text: &str) -> anyhow::Result<SocketAddr> {
    text.parse().with_context(|| {
        format!("--address: {text:?} is no address with a port; write one such as 10.0.0.1:443 or [2001:db8::1]:443")
    })
}

fn accesses(on: AttemptKind, given: &[String]) -> anyhow::Result<Vec<OpenAccess>> {
    if on != AttemptKind::Open {
        ensure!(given.is_empty(), "--access goes with open alone");
        return Ok(Vec::new());
    }
    if given.is_empty() {
        return Ok(OpenAccess::ALL.to_vec());
    }
    let named: Vec<OpenAccess> = given
        .iter()
        .map(|name| word("--access", name))
        .collect::<anyhow::Result<_>>()?;
    Ok(OpenAccess::ALL
        .iter()
        .copied()
        .filter(|access| named.contains(access))
        .collect())
}

fn word<T: NamedVariants>(flag: &str, name: &str) -> anyhow::Result<T> {
    T::from_name(name).with_context(|| {
        let names: Vec<&str> = T::NAMES.iter().map(|(_, name)| *name).collect();
        format!(
            "{flag}: {name:?} is not known; write one of {}",
            names.join(", ")
        )
    })
}
/// True for a path with a name in it that names no file: rules match none of them.
fn leads_elsewhere(path: &[u8]) -> bool {
    let mut names = path.split(|byte| *byte == b'/').skip(1);
    path.len() > 1 && path.starts_with(b"/") && names.any(|name| matches!(name, b"" | b"." | b".."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_names_no_file_leads_elsewhere() {
        for path in ["/a/../etc/shadow", "/./a", "//a", "/a//b", "/a/", "/.."] {
            assert!(leads_elsewhere(path.as_bytes()), "{path}");
        }
        for path in ["/", "/a", "/a/..b/.c", "memfd:a/../b"] {
            assert!(!leads_elsewhere(path.as_bytes()), "{path}");
        }
    }
}
