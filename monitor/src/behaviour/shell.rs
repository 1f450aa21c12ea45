//! Reverse shell: the process that spoke to an address of the internet becomes a shell, or forks one,
//! that has nothing to run but what it is told: without a script and without `-c`.
//!
//! A program that fetched something and then has a shell run one command is no such: that shell has
//! `-c` or a script.

use turnkey_policy::Behaviour;

use super::act::{Act, What};
use super::scene::{Scene, base_name};
use super::{Detector, Sighting, Step};

const SHELLS: &[&str] = &[
    "sh", "bash", "dash", "zsh", "ksh", "ash", "busybox", "csh", "tcsh", "fish",
];

/// Remembers nothing: the scene knows who spoke to whom.
#[derive(Debug)]
pub struct ReverseShell;

impl Detector for ReverseShell {
    fn see(&mut self, act: &Act<'_>, scene: &Scene, tell: &mut dyn FnMut(Sighting)) {
        let What::Executed { file, script, argv } = &act.what else {
            return;
        };
        let peer = scene
            .process(&act.event.task)
            .and_then(|process| process.network.as_deref());
        let Some(peer) = peer else {
            return;
        };
        if is_shell(&file.path) && script.is_none() && waits_for_orders(argv) {
            let steps = vec![
                Step::of(act.event, &[b"spoke to ", peer]),
                Step::of(
                    act.event,
                    &[b"became the shell ", &file.path, b" without a script"],
                ),
            ];
            tell(Sighting::new(Behaviour::ReverseShell, steps));
        }
    }
}

/// Whether a program is a shell.
pub fn is_shell(path: &[u8]) -> bool {
    let name = base_name(path);
    SHELLS.iter().any(|shell| shell.as_bytes() == name)
}

/// Whether a shell with these arguments runs what it reads from its input: only options, none of them
/// with `c`, and none that it answers and ends.
pub fn waits_for_orders(argv: &[Vec<u8>]) -> bool {
    let mut rest = argv.iter().skip(1);
    rest.all(|argument| {
        if matches!(&argument[..], b"--version" | b"--help") {
            return false;
        }
        let word = argument.starts_with(b"--");
        let letters = argument.first() == Some(&b'-') && !argument.contains(&b'c');
        word || letters
    })
}
