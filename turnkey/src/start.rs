//! From a jail that is made ready to one that waits before its program's first instruction.

use std::io;
use std::os::fd::OwnedFd;

use anyhow::Context;
use turnkey_jailer::{Confining, Held, JailError, Plan};

use crate::filters;
use crate::watch::{EmptyGroup, Watch};

/// How often a jail is made, in all, when files of the host are replaced meanwhile. A package manager replaces the
/// same one a few times in a second, making a jail takes milliseconds, and more of them on a busy machine.
const TRIES: usize = 20;

/// The program's streams once more, for a jail that is made anew.
pub fn copies(streams: &[OwnedFd; 3]) -> anyhow::Result<[OwnedFd; 3]> {
    let [input, output, error] = streams;
    let copies =
        || -> io::Result<_> { Ok([input.try_clone()?, output.try_clone()?, error.try_clone()?]) };
    copies().context("could not copy the pipes to the program")
}

/// Waits until the jail has confined itself; when a file of the host was replaced under its tree, makes it anew from the plan.
///
/// The new one follows nothing that the first would not have followed: every path is walked again from its start, by the same
/// rules, and all layers are proved again, the monitor's among them. `streams` are gone with the last try, so that
/// nobody but the program keeps them open.
pub fn held(
    confining: Confining,
    plan: &Plan,
    watch: &mut Watch,
    streams: [OwnedFd; 3],
) -> anyhow::Result<Held> {
    let mut held = confining.held();
    for _ in 1..TRIES {
        match held {
            Err(error) if error.is_of_a_replaced_file() => held = anew(plan, watch, &streams)?,
            other => return Ok(other?),
        }
    }
    Ok(held?)
}

fn anew(
    plan: &Plan,
    watch: &mut Watch,
    streams: &[OwnedFd; 3],
) -> anyhow::Result<Result<Held, JailError>> {
    let mut proved = Ok(());
    // Before the tree is opened: between that and its mounting as little time passes as can be.
    let prepared = plan.prepare_with(copies(streams)?, filters::of, |groups| {
        let group = groups.map(EmptyGroup::of).transpose();
        let group = group.map_err(anyhow::Error::from);
        proved = group.and_then(|group| watch.prove(&plan.policy, group.as_ref()));
    });
    proved?;
    Ok(prepared?.start()?.held())
}
