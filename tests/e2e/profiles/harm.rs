//! The same harm for programs of every language: what they would do is looked at on the host.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use turnkey_tests::{Ran, Run, scratch};

use super::{killed_by, told};

/// What a directory holds before a harmful program comes.
const HOME: &[(&str, &str)] = &[
    (".bashrc", "# as it was\n"),
    (".ssh/id_ed25519", "the private key\n"),
    (".aws/credentials", "the token\n"),
];

fn fill(place: &Path) {
    for (name, content) in HOME {
        let file = place.join(name);
        std::fs::create_dir_all(file.parent().expect("it has one")).expect("a folder");
        std::fs::write(file, content).expect("a file");
    }
}

/// A program that does harm: what is called, and the files that it consists of.
pub(super) struct Harmful<'a> {
    pub(super) profile: &'a str,
    pub(super) command: &'a [&'a str],
    pub(super) files: Vec<(&'a str, String)>,
}

impl Harmful<'_> {
    /// The control: what it prints outside of any jail, in a directory that is its home.
    fn outside(&self) -> (String, tempfile::TempDir) {
        let home = scratch();
        fill(home.path());
        self.write(home.path());
        let output = Command::new(self.command[0])
            .args(&self.command[1..])
            .current_dir(home.path())
            .env("HOME", home.path())
            .env("PATH", "/usr/bin:/bin")
            .stdin(Stdio::null())
            .output()
            .expect("a program of the host");
        (String::from_utf8_lossy(&output.stdout).into_owned(), home)
    }

    fn write(&self, place: &Path) {
        for (name, content) in &self.files {
            std::fs::write(place.join(name), content).expect("a test can write its own directory");
        }
    }

    fn jailed(&self) -> Ran {
        let run: Run = super::under(self.profile);
        fill(run.path());
        self.write(run.path());
        run.run(self.command)
    }

    /// It prints `secret` of the file it reads outside, and dies for reading it inside.
    #[track_caller]
    pub(super) fn reads_no_secret(&self, secret: &str, rule: &str) {
        let (printed, _home) = self.outside();
        assert!(printed.contains(secret), "the control: {printed}");
        let ran = self.jailed();
        killed_by(&ran, rule);
        ran.expect(!ran.stdout.contains(secret), "the secret is not out");
    }

    /// It changes `name` outside; inside it dies for it, and the file is as it was.
    #[track_caller]
    pub(super) fn changes_no_startup_file(&self, name: &str) {
        let (printed, home) = self.outside();
        let changed = |place: PathBuf| {
            std::fs::read_to_string(place).expect("it is there") != "# as it was\n"
        };
        assert!(changed(home.path().join(name)), "the control: {printed}");
        let ran = self.jailed();
        killed_by(&ran, "shell-startup");
        ran.expect(!changed(ran.directory.path().join(name)), "as it was");
    }
}

/// A program that connects to a port of the host: outside it does, inside nobody comes and the attempt
/// is told.
#[track_caller]
pub(super) fn reaches_nobody(profile: &str, program: &dyn Fn(u16) -> Vec<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = listener.local_addr().expect("it is bound").port();
    let words = program(port);
    let command: Vec<&str> = words.iter().map(String::as_str).collect();
    let harmful = Harmful {
        profile,
        command: &command,
        files: Vec::new(),
    };
    listener.set_nonblocking(true).expect("it can be set");
    let (printed, _home) = harmful.outside();
    assert!(
        listener.accept().is_ok(),
        "the control: somebody came: {printed}"
    );
    let ran = harmful.jailed();
    ran.expect(listener.accept().is_err(), "nobody came");
    told(&ran, "network-connect");
}
