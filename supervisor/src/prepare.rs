//! Preparation of all that needs no process of the jail: its plan, its groups, its detached mounts, and the monitor,
//! which has shown in the jail's own, still empty group that it acts.

use std::panic::resume_unwind;
use std::sync::mpsc;
use std::thread;

use anyhow::Context;
use turnkey_jailer::{Plan, Prepared, StandardStreams};
use turnkey_monitor::Residence;
use turnkey_policy::Policy;

use crate::filter_cache;
use crate::monitor_handle::{self, EmptyGroup, MonitorHandle};
use crate::others;
use crate::required_layers::{self, Strictness};
use crate::run::RunRequest;
use crate::settle::{self, SettledPolicy, watched_or_not};

/// A jail that waits for its first process, and the monitor that is to watch it.
pub struct ReadyJail {
    /// The plan that the jail is made from.
    pub plan: Plan,
    /// The monitor, or the reason why nothing watches.
    pub monitor: MonitorHandle,
    /// The jail.
    pub prepared: Prepared,
}

/// Makes the jail and the monitor ready. `streams` are the program's.
pub fn prepare(
    settled: &SettledPolicy,
    request: &RunRequest,
    streams: StandardStreams,
) -> anyhow::Result<ReadyJail> {
    let (policy, strictness) = (settled.policy(), settled.strictness());
    let planned = || {
        let (command, directory) = (&request.command, &request.directory);
        let plan = || settle::plan(policy, strictness, command, directory);
        let plan = request.by_its_rights(plan)??;
        required_layers::require(&plan)?;
        if !plan.host.hierarchies.closed {
            others::require_inside(&plan.host.hierarchies.unified)?;
        }
        let served = request.served.as_ref();
        let plan = match served {
            Some(caller) => plan.within(&caller.rlimits),
            None => plan,
        };
        Ok(Plan {
            layer: request.layer.clone(),
            clock: request.clock,
            served: served.map(|caller| caller.user),
            outlived: served.and_then(|caller| caller.outlived.clone()),
            ..plan
        })
    };
    match monitor_handle::is_optional(policy) {
        true => one_after_the_other(planned()?, (strictness, request.residence), streams),
        false => side_by_side((policy, request.residence), planned, streams),
    }
}

/// The monitor first, where the jail is another one when it cannot be had.
fn one_after_the_other(
    plan: Plan,
    (strictness, residence): (Strictness, Residence),
    streams: StandardStreams,
) -> anyhow::Result<ReadyJail> {
    let may_have_group = !plan.host.hierarchies.closed;
    let mut monitor = MonitorHandle::open(&plan.policy, (strictness, may_have_group), residence)?;
    let plan = watched_or_not(plan, monitor.watches());
    let prepared = plan.prepare_with(streams, filter_cache::filters_for, |_| ())?;
    let group = prepared
        .cgroup()
        .map(EmptyGroup::from_jail_cgroups)
        .transpose()?;
    monitor.prove(&plan.policy, group.as_ref())?;
    Ok(ReadyJail {
        plan,
        monitor,
        prepared,
    })
}

/// Both at the same time, where the jail is the same whether the monitor can be had or not: each takes milliseconds,
/// and neither needs more of the other than its empty group.
fn side_by_side(
    (policy, residence): (&Policy, Residence),
    planned: impl FnOnce() -> anyhow::Result<Plan>,
    streams: StandardStreams,
) -> anyhow::Result<ReadyJail> {
    thread::scope(|scope| {
        let (show, shown) = mpsc::channel();
        let body = move || {
            let mut monitor = MonitorHandle::open(policy, (Strictness::Whole, true), residence)?;
            // The channel is closed when there will be no jail, which is told as what it is.
            if let Ok(group) = shown.recv() {
                monitor.prove(policy, Option::transpose(group)?.as_ref())?;
            }
            anyhow::Ok(monitor)
        };
        // A host that has no thread left is an error and no panic.
        let monitor = thread::Builder::new()
            .spawn_scoped(scope, body)
            .context("could not start the thread that opens the monitor")?;
        // Moved there, `show` is gone when no group can be shown any more, and the thread does not wait for one.
        let made = planned().map(move |plan| {
            // Here, and not there: what it starts lives no longer than the thread that started it.
            let prepared = plan.prepare_with(streams, filter_cache::filters_for, |groups| {
                // A monitor that has failed meanwhile does not listen.
                let _ = show.send(groups.map(EmptyGroup::from_jail_cgroups));
            });
            (plan, prepared)
        });
        let monitor = monitor.join().unwrap_or_else(|panic| resume_unwind(panic));
        let (plan, prepared) = made?;
        // First the jail, which needs nothing of the monitor: where it cannot be made, its group is gone, and a
        // monitor that was still to prove itself there fails for that alone.
        let prepared = prepared?;
        Ok(ReadyJail {
            plan,
            monitor: monitor?,
            prepared,
        })
    })
}
