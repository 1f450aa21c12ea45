//! The walks of `docs/guide`: what a page says is done, and what it shows is what is seen.
//!
//! A block that names a `file=` is written there. In a block of a console, a line that begins with `$ ` is
//! run by sh(1), and the lines behind it are what it prints, standard error included; `…` stands for
//! anything within a line, and alone on a line for any lines. A command that ends in `&` goes on in the
//! background, and is waited for where it names the port. A block with `if=FILE` is for machines that have the file, one with
//! `as=user` is what an ordinary user does, in a directory of its own.

use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use turnkey_expectations::expected;
use turnkey_tests::{
    SERVED, binary, binary_for_everybody, eventually, hand_over, measured, network_of_its_own,
    open_to_all, scratch,
};

expected!(
    not_on[ORDINARY_6_12],
    "pages show what a run of Python tells; this guest's has no compiled modules, and tells \
     besides that it tries to write them: on 6.12 programs"
);

expected!(on[PROGRAMS_6_12]);

/// Where a page's reader is at home.
const HOME: &str = "/home/you";
/// The control group that pages make.
const GROUP: &str = "web-guide";
/// The port that pages speak of.
const PORT: &str = "8080";
/// The directory of a service's socket, and the group that may connect to it.
const SOCKETS: &str = "/run/turnkey";
const USERS: &str = "turnkey-users";

#[test]
fn a_first_profile() {
    walk(include_str!("../../docs/guide/first-profile.md"));
}

expected!(
    profiles_from_what_programs_do: at_night,
    "every command of a long walk; `guide::` has the other one"
);
#[test]
fn profiles_from_what_programs_do() {
    walk(include_str!("../../docs/guide/learn.md"));
}

#[test]
fn groups_that_others_fill() {
    walk(include_str!("../../docs/guide/attach.md"));
}

expected!(
    packages_in_a_layer: at_night,
    "an installer reads the database of packages at each step; `layers::packages::` has a small one"
);
expected!(
    packages_in_a_layer: not_on [ORDINARY_6_12, PROGRAMS_6_12],
    "the tools of packages are programs as others"
);
#[test]
fn packages_in_a_layer() {
    walk(include_str!("../../docs/guide/packages.md"));
}

#[test]
fn a_network_that_answers() {
    walk(include_str!("../../docs/guide/sinkhole.md"));
}

#[test]
fn receivers_of_alerts() {
    walk(include_str!("../../docs/guide/sinks.md"));
}

expected!(
    a_sandbox_from_inside: at_night,
    "a run for each probe that a rule ends; `audit::` has what it says by day"
);
#[test]
fn a_sandbox_from_inside() {
    network_of_its_own();
    walk(include_str!("../../docs/guide/audit.md"));
}

#[test]
fn a_service_for_users_without_privileges() {
    walk(include_str!("../../docs/guide/service.md"));
}

/// The names behind `test=` of the blocks that are not walked.
const TRIED_ELSEWHERE: [&str; 2] = [
    "guide::the_group_is_made_as_the_page_has_it",
    // Of tests/guest, where systemd runs the machine.
    "packaged::served",
];

#[test]
fn every_command_of_the_service_s_page_is_tried() {
    let page = include_str!("../../docs/guide/service.md");
    let fences = page.lines().filter_map(|line| line.strip_prefix("```"));
    let mut tried = 0;
    for info in fences.step_by(2) {
        let test = info.strip_prefix("sh test=");
        tried += usize::from(test.is_some());
        let is_walked = info.starts_with("console") || info.contains(" file=");
        let is_known = test.is_some_and(|test| TRIED_ELSEWHERE.contains(&test));
        // What turnkey prints, quoted.
        assert!(is_walked || is_known || info == "text", "```{info}");
    }
    assert!(tried >= 4, "{tried}");
}

#[test]
fn the_group_is_made_as_the_page_has_it() {
    let page = include_str!("../../docs/guide/service.md");
    let fence = format!("```sh test={}\n", TRIED_ELSEWHERE[0]);
    let (_, behind) = page.split_once(&fence).expect("the page has the block");
    let (commands, _) = behind.split_once("```").expect("it ends");
    // With files of accounts that no other program of this host sees.
    let script = format!(
        "set -e; mkdir etc; cp -a /etc/. etc; mount --bind etc /etc
         id alice >&2 && exit 9 || useradd --no-create-home alice
         id -nG alice; {commands}id -nG alice"
    );
    let place = scratch();
    let output = Command::new("unshare")
        .args(["-m", "sh", "-c", &script])
        .current_dir(place.path())
        .output()
        .expect("unshare is part of every system");
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(told, "alice\nalice turnkey-users\n", "{output:?}");
}

expected!(
    the_group_is_made_as_the_page_has_it: not_on [ORDINARY_6_12, PROGRAMS_6_12],
    "it has no programs that make accounts"
);

expected!(
    one_program_in_several_worlds: not_on [ORDINARY_6_12, PROGRAMS_6_12],
    "two dozen runs, which an emulated CPU takes minutes for: on this host"
);
#[test]
fn one_program_in_several_worlds() {
    walk(include_str!("../../docs/guide/worlds.md"));
}

expected!(
    a_gate_and_an_attestation: not_on [ORDINARY_6_12, PROGRAMS_6_12],
    "git and keys have nothing of the kernel"
);
#[test]
fn scripts_before_they_run() {
    walk(include_str!("../../docs/guide/scan.md"));
}

#[test]
fn a_gate_and_an_attestation() {
    walk(include_str!("../../docs/guide/gate.md"));
}

#[test]
fn runs_that_live() {
    // Other runs of this host would be in the lists.
    network_of_its_own();
    walk(include_str!("../../docs/guide/live.md"));
}

/// Does what a page says, in a home and with a port of its own.
fn walk(page: &str) {
    let home = scratch();
    let home = home.path().canonicalize().expect("it is there");
    let port = free_port().to_string();
    let group = format!("{GROUP}-{}", std::process::id());
    let here = |text: &str| {
        text.replace(HOME, home.to_str().expect("UTF-8"))
            .replace(PORT, &port)
            .replace(GROUP, &group)
            .replace(SOCKETS, &home.join("sockets").to_string_lossy())
            .replace(USERS, &SERVED.to_string())
    };
    let mut walker = Walker {
        directory: home.clone(),
        background: Vec::new(),
        user: None,
        sockets: home.join("sockets"),
        group: Path::new("/sys/fs/cgroup/unified").join(&group),
    };
    let mut steps = 0;
    for block in blocks(&here(page)) {
        match block {
            Block::File { path, content } => {
                std::fs::write(&path, content).expect("it can be written")
            }
            Block::Console(lines) => steps += walker.follow(&lines, port.parse().expect("a port")),
            Block::User(lines) => {
                let root = walker.directory.clone();
                walker.become_user(&home.join("user"));
                steps += walker.follow(&lines, port.parse().expect("a port"));
                (walker.directory, walker.user) = (root, None);
            }
            Block::Other => {}
        }
    }
    assert!(steps > 0, "the page does nothing");
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("it has one").port()
}

enum Block {
    File {
        path: PathBuf,
        content: String,
    },
    Console(Vec<String>),
    /// By an ordinary user.
    User(Vec<String>),
    Other,
}

fn blocks(text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let Some(info) = line.strip_prefix("```") else {
            continue;
        };
        let inside: Vec<String> = lines
            .by_ref()
            .take_while(|line| *line != "```")
            .map(str::to_owned)
            .collect();
        if let Some((_, needed)) = info.split_once(" if=")
            && !Path::new(needed).exists()
        {
            measured(&format!("a block is left out, as there is no {needed}"));
            continue;
        }
        let kind = info.split(" if=").next().unwrap_or_default();
        blocks.push(match info.split_once(" file=") {
            Some((_, path)) => Block::File {
                path: path.into(),
                content: inside.join("\n") + "\n",
            },
            None if kind == "console" => Block::Console(inside),
            None if kind == "console as=user" => Block::User(inside),
            None => Block::Other,
        });
    }
    blocks
}

/// Somebody at a shell.
struct Walker {
    directory: PathBuf,
    background: Vec<Child>,
    /// The directory of an ordinary user with the command, while one acts.
    user: Option<PathBuf>,
    sockets: PathBuf,
    /// The group that the page may have made, and removes in its end.
    group: PathBuf,
}

impl Drop for Walker {
    fn drop(&mut self) {
        for child in &mut self.background {
            let _ = child.kill();
            let _ = child.wait();
        }
        let _ = std::fs::write(self.group.join("cgroup.kill"), "1");
        let _ = std::fs::remove_dir(&self.group);
    }
}

impl Walker {
    /// Runs every command, and holds what it prints against what the page shows.
    fn follow(&mut self, lines: &[String], port: u16) -> usize {
        let mut steps = 0;
        let mut rest = lines;
        while let Some((command, behind)) = rest.split_first() {
            let command = command
                .strip_prefix("$ ")
                .expect("a block begins with a command");
            let shown = behind
                .iter()
                .take_while(|line| !line.starts_with("$ "))
                .count();
            self.step(command, &behind[..shown], port);
            rest = &behind[shown..];
            steps += 1;
        }
        steps
    }

    fn step(&mut self, command: &str, shown: &[String], port: u16) {
        if let Some(command) = command.strip_suffix('&') {
            let child = self.shell(&format!("exec {command}")).spawn();
            self.background.push(child.expect("sh can be started"));
            if command.contains(&port.to_string()) {
                eventually("somebody listens", || {
                    TcpStream::connect(("127.0.0.1", port)).is_ok()
                });
            }
            return;
        }
        let place = self.directory.join(".where");
        let script = format!("{{ {command}\n}} 2>&1; pwd > {}", place.display());
        let output = self.shell(&script).output().expect("sh can be started");
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        let place = std::fs::read_to_string(&place).expect("it was written");
        self.directory = place.trim_end().into();
        let printed: Vec<&str> = printed.lines().collect();
        assert!(
            is_shown(&printed, shown),
            "$ {command}\nprinted:\n{}\nthe page shows:\n{}",
            printed.join("\n"),
            shown.join("\n")
        );
    }

    /// From now on an ordinary user acts, in this directory.
    fn become_user(&mut self, directory: &Path) {
        let above = directory.parent().expect("it lies in the home");
        open_to_all(above);
        std::fs::create_dir_all(directory).expect("a home can be made");
        hand_over(directory, SERVED);
        let command = binary_for_everybody(above);
        self.user = Some(command.parent().expect("it lies in a folder").to_owned());
        self.directory = directory.to_owned();
    }

    fn shell(&self, script: &str) -> Command {
        let binary = binary();
        let folder = binary.parent().expect("it lies in a folder");
        let folder = self.user.as_deref().unwrap_or(folder).display();
        let mut shell = Command::new("sh");
        shell
            .args(["-c", script])
            .current_dir(&self.directory)
            // The system's own programs, whatever else this machine has.
            .env("PATH", format!("{folder}:/usr/local/bin:/usr/bin:/bin"))
            .env("TURNKEY_SOCKET_DIR", &self.sockets)
            .stdin(Stdio::null())
            .stderr(Stdio::null());
        if self.user.is_some() {
            shell.uid(SERVED).gid(SERVED);
        }
        shell
    }
}

/// Whether lines are as a page shows them.
fn is_shown(printed: &[&str], shown: &[String]) -> bool {
    match shown.split_first() {
        None => printed.is_empty(),
        Some((line, rest)) if line == "…" => {
            (0..=printed.len()).any(|skipped| is_shown(&printed[skipped..], rest))
        }
        Some((line, rest)) => {
            let first = printed.split_first();
            first.is_some_and(|(first, behind)| is_like(first, line) && is_shown(behind, rest))
        }
    }
}

/// Whether a line is as a page shows it.
fn is_like(printed: &str, shown: &str) -> bool {
    let mut parts = shown.split('…');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = printed.strip_prefix(first) else {
        return false;
    };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else {
        return rest.is_empty();
    };
    for part in parts {
        let Some(at) = rest.find(part) else {
            return false;
        };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[test]
fn a_page_shows_what_was_printed_and_nothing_else() {
    let shown = |lines: &[&str]| {
        lines
            .iter()
            .map(|line| (*line).to_owned())
            .collect::<Vec<_>>()
    };
    assert!(is_shown(
        &["a 12 b", "x", "y", "end"],
        &shown(&["a … b", "…", "end"])
    ));
    assert!(is_shown(&["end"], &shown(&["…", "end"])));
    assert!(!is_shown(&["a 12 c"], &shown(&["a … b"])));
    assert!(!is_shown(&["a", "b"], &shown(&["a"])));
    assert!(!is_shown(&["a"], &shown(&["a", "b"])));
    assert!(!is_shown(&[], &shown(&["a"])));
}
