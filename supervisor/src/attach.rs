//! From a jail that is made ready to one that the kernel watches, and that waits before its program's first instruction.

use anyhow::Context;
use turnkey_jailer::{Confining, Held, JailError, Plan, StandardStreams};

use crate::filter_cache;
use crate::monitor_handle::{EmptyGroup, MonitorHandle};

/// The number of times a jail is made, in all, when files of the host are replaced meanwhile. A package manager
/// replaces the same one a few times in a second, making a jail takes milliseconds, and more of them on a busy
/// machine.
const TRIES: usize = 20;

/// The program's streams once more, for a jail that is made anew.
pub fn copies(streams: &StandardStreams) -> anyhow::Result<StandardStreams> {
    let copies = streams.try_clone();
    copies.context("could not copy the pipes to the program")
}

/// Waits until the jail has confined itself; when a file of the host was replaced under its tree, makes it anew from the plan.
///
/// The new one follows nothing that the first would not have followed: every path is walked again from its start, by the same
/// rules, and all layers are proved again, the monitor's among them. `streams` are gone with the last try, so that
/// nobody but the program keeps them open.
pub fn held(
    confining: Confining,
    plan: &Plan,
    monitor: &mut MonitorHandle,
    streams: StandardStreams,
) -> anyhow::Result<Held> {
    let mut held = confining.held();
    for _ in 1..TRIES {
        match held {
            Err(error) if error.is_of_a_replaced_file() => held = anew(plan, monitor, &streams)?,
            other => return Ok(other?),
        }
    }
    Ok(held?)
}

/// From here the kernel holds the rules over the jail; `note_calls` has it note the numbers of all calls as well.
pub fn adopt(held: &Held, monitor: &mut MonitorHandle, note_calls: bool) -> anyhow::Result<()> {
    monitor.know_files(held)?;
    if note_calls {
        monitor.note_calls();
    }
    monitor.adopt(held.cgroup())
}

fn anew(
    plan: &Plan,
    monitor: &mut MonitorHandle,
    streams: &StandardStreams,
) -> anyhow::Result<Result<Held, JailError>> {
    let mut proved = Ok(());
    // Before the tree is opened: between that and its mounting as little time passes as can be.
    let prepared = plan.prepare_with(copies(streams)?, filter_cache::filters_for, |groups| {
        let group = groups.map(EmptyGroup::from_jail_cgroups).transpose();
        let group = group.map_err(anyhow::Error::from);
        proved = group.and_then(|group| monitor.prove(&plan.policy, group.as_ref()));
    });
    proved?;
    Ok(prepared?.start()?.held())
}
