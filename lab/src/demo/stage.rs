//! The stage of one run: a caller's directory with things worth stealing and services worth
//! reaching, all made for the run, and a look at them afterwards.

mod services;
mod tree;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use tempfile::TempDir;

use super::expectation::contains;
use super::header::Header;
use crate::command;
use services::Services;
use tree::StageTree;

/// The files in the caller's directory besides the program. It is the caller's home as well, and
/// everybody may read it: nothing but the jail stands between the program and the secrets.
const PLANTED: [(&str, &str); 5] = [
    (".bashrc", "alias ll='ls -l'\n"),
    (
        ".ssh/id_rsa",
        "-----BEGIN OPENSSH PRIVATE KEY-----\nplanted, worthless\n",
    ),
    (
        ".aws/credentials",
        "[default]\naws_secret_access_key = planted, worthless\n",
    ),
    ("todo.txt", "buy eggs\n"),
    ("draft.txt", "an unfinished sentence\n"),
];

/// Files of the host that no run may change.
const GUARDED: [&str; 5] = [
    "/etc/passwd",
    "/etc/shadow",
    "/proc/sys/kernel/core_pattern",
    "/proc/sys/kernel/modprobe",
    "/proc/sys/kernel/hostname",
];

/// Everything made for one run. Dropping it takes it away again.
pub struct DemoStage<'a> {
    /// The program that is played.
    pub program: &'a Header,
    folder: TempDir,
    services: Services,
    /// Stands in the arguments of programs that may stay behind, and nowhere else on the machine.
    marker: String,
    /// Stands in the caller's environment and in an inherited descriptor.
    secret: String,
    before: StageTree,
    guarded: Vec<Option<Vec<u8>>>,
}

impl<'a> DemoStage<'a> {
    /// Makes everything the program may look for, and compiles it if it is C.
    pub fn set(program: &'a Header) -> Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix("turnkey-demo-")
            .tempdir()
            .context("cannot make a temporary folder")?;
        // The jail is another user, and has to pass.
        allow_all_to_enter(folder.path())?;
        let name = folder.path().file_name().unwrap_or_default();
        let unique = name.to_string_lossy().replace("turnkey-demo-", "");
        let services = Services::open(folder.path(), &unique)?;
        let workdir = folder.path().join("workdir");
        plant(&workdir, program)?;
        let secret = format!("secret-of-the-caller-{unique}");
        fs::write(folder.path().join("secret"), &secret)?;
        Ok(Self {
            program,
            services,
            marker: format!("marked-by-the-demo-{unique}"),
            secret,
            before: StageTree::read(&workdir)?,
            guarded: guarded_files(),
            folder,
        })
    }

    /// The caller's working directory and home.
    pub fn workdir(&self) -> PathBuf {
        self.folder.path().join("workdir")
    }

    /// A place for the demo's own files, out of the program's sight.
    pub fn backstage(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The value of a variable that the caller has and never meant to hand over.
    pub fn secret(&self) -> &str {
        &self.secret
    }

    /// `text` with the words in braces replaced:
    /// `{file}` and `{stem}` the program's name with and without its ending,
    /// `{port}` where services listen on the host's loopback, over TCP and UDP,
    /// `{socket}` the path and `{abstract}` the abstract name of Unix sockets of the host,
    /// `{marker}` what survivors are known by, `{secret}` what the caller keeps.
    pub fn fill(&self, text: &str) -> String {
        let file = &self.program.file;
        let lossy = |name: Option<&OsStr>| name.unwrap_or_default().to_string_lossy().into_owned();
        text.replace("{file}", &lossy(file.file_name()))
            .replace("{stem}", &lossy(file.file_stem()))
            .replace("{port}", &self.services.port().to_string())
            .replace("{socket}", &self.services.socket().to_string_lossy())
            .replace("{abstract}", self.services.abstract_name())
            .replace("{marker}", &self.marker)
            .replace("{secret}", &self.secret)
    }

    /// Whether anything arrived at one of the services.
    pub fn listener_reached(&self) -> Result<bool> {
        self.services.reached()
    }

    /// Whether the caller's directory is not what it was.
    pub fn workdir_changed(&self) -> Result<bool> {
        Ok(StageTree::read(&self.workdir())? != self.before)
    }

    /// The processes of the program that are still there.
    pub fn survivors(&self) -> Result<Vec<u32>> {
        let processes = fs::read_dir("/proc").context("cannot list the processes")?;
        let ids = processes
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok())
            .filter(|id| {
                // A process that ends while we look has no arguments any more.
                let arguments = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
                contains(&arguments, self.marker.as_bytes())
            });
        Ok(ids.collect())
    }

    /// The guarded files that are not what they were.
    pub fn changes_of_the_host(&self) -> Vec<&'static str> {
        let now = guarded_files();
        let before_and_now = self.guarded.iter().zip(&now);
        let changed = GUARDED.iter().zip(before_and_now);
        changed
            .filter(|(_, (before, now))| before != now)
            .map(|(file, _)| *file)
            .collect()
    }
}

/// The contents of the guarded files, where we may read them.
fn guarded_files() -> Vec<Option<Vec<u8>>> {
    GUARDED.iter().map(|file| fs::read(file).ok()).collect()
}

/// The program and the planted files.
fn plant(workdir: &Path, program: &Header) -> Result<()> {
    for (name, content) in PLANTED {
        let file = workdir.join(name);
        let folder = file.parent().unwrap_or(workdir);
        fs::create_dir_all(folder)?;
        allow_all_to_enter(folder)?;
        fs::write(file, content)?;
    }
    let source = &program.file;
    if source.extension() == Some(OsStr::new("c")) {
        return compile(
            source,
            &workdir.join(source.file_stem().unwrap_or_default()),
        );
    }
    let copy = workdir.join(source.file_name().unwrap_or_default());
    fs::copy(source, copy).with_context(|| format!("cannot copy {}", source.display()))?;
    Ok(())
}

fn compile(source: &Path, program: &Path) -> Result<()> {
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-Wall", "-Werror", "-pthread", "-o"]);
    command::output(compiler.args([program, source]))?;
    Ok(())
}

fn allow_all_to_enter(folder: &Path) -> Result<()> {
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755))
        .with_context(|| format!("cannot open the folder {} to all", folder.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program that does nothing, in a folder that goes with it.
    fn program() -> (TempDir, Header) {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("nothing.sh");
        fs::write(&file, "# tries: a\n# must: b\n# expect: exit=0\n").expect("it writes");
        let header = Header::load(&file).expect("it reads");
        (folder, header)
    }

    #[test]
    fn words_in_braces_are_replaced_and_unique() {
        let (_folder, program) = program();
        let one = DemoStage::set(&program).expect("a stage");
        let other = DemoStage::set(&program).expect("another");
        for word in ["{port}", "{socket}", "{abstract}", "{marker}", "{secret}"] {
            assert_ne!(one.fill(word), word);
            assert_ne!(one.fill(word), other.fill(word), "{word}");
        }
        assert_eq!(one.fill("{file} {stem}"), "nothing.sh nothing");
    }

    #[test]
    fn change_of_the_working_directory_is_seen() {
        let (_folder, program) = program();
        let stage = DemoStage::set(&program).expect("a stage");
        assert!(!stage.workdir_changed().expect("it is readable"));
        fs::write(stage.workdir().join(".bashrc"), "curl").expect("it writes");
        assert!(stage.workdir_changed().expect("it is readable"));
    }

    #[test]
    fn process_with_the_marker_is_a_survivor() {
        let (_folder, program) = program();
        let stage = DemoStage::set(&program).expect("a stage");
        assert!(stage.survivors().expect("a list").is_empty());
        let mut sleeper = Command::new("sh")
            .args(["-c", "read line", &stage.fill("{marker}")])
            .stdin(std::process::Stdio::piped())
            .spawn()
            .expect("it starts");
        // The kernel sets the new arguments a moment after it wakes the parent.
        let appeared = (0..500).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(2));
            stage.survivors().expect("a list") == [sleeper.id()]
        });
        sleeper.kill().expect("it ends");
        sleeper.wait().expect("it is reaped");
        assert!(appeared);
        assert!(stage.survivors().expect("a list").is_empty());
    }
}
