//! Privilege escalation: a program that changes users was started, or was to be; or a call to become
//! root, to gain capabilities or to make a user namespace was refused.
//!
//! `make` sets the user that it is already, which succeeds and is no attempt.

use turnkey_policy::{AttemptKind, Behaviour};

use super::act::{ObservedAct, Operation};
use super::process_state::{ProcessState, base_name};
use super::{Detector, Sighting, Step};

/// Programs whose purpose is another user.
const PROGRAMS: &[&str] = &[
    "sudo", "sudoedit", "su", "doas", "pkexec", "runuser", "newgrp",
];

/// Remembers nothing.
#[derive(Debug)]
pub struct Privilege;

impl Detector for Privilege {
    fn observe(&mut self, act: &ObservedAct<'_>, _: &ProcessState, tell: &mut dyn FnMut(Sighting)) {
        let step = match &act.what {
            Operation::Executed { file, .. } if changes_users(&file.path) => {
                Step::from_event(act.event, &[b"ran ", &file.path])
            }
            Operation::Execution(path) if changes_users(path) => {
                Step::from_event(act.event, &[b"wanted to run ", path])
            }
            Operation::Called {
                name,
                on: Some(AttemptKind::Setuid),
                args,
            } if *name == "capset" || args.contains(&0) => Step::from_event(
                act.event,
                &[b"called ", name.as_bytes(), b" for privileges"],
            ),
            Operation::Called {
                name,
                on: Some(AttemptKind::Namespace),
                ..
            } => Step::from_event(
                act.event,
                &[b"called ", name.as_bytes(), b" for namespaces of its own"],
            ),
            _ => return,
        };
        tell(Sighting::new(Behaviour::PrivilegeEscalation, vec![step]));
    }
}

fn changes_users(path: &[u8]) -> bool {
    let name = base_name(path);
    PROGRAMS.iter().any(|one| one.as_bytes() == name)
}
