//! The monitor, or the reason why nothing watches the run.
//!
//! A profile that does not require the monitor gets it where it can be had; `--unmonitored` does
//! without it. Either way the report says so, and what was not watched is never called clean.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use turnkey_facts::Event;
use turnkey_facts::LayerReport;
use turnkey_jailer::{Held, JailCgroups};
use turnkey_monitor::{Available, FileId, Monitor, Origin, Residence, Tier, WatchedPath};
use turnkey_policy::{Layer, Policy};

use crate::advice;
use crate::attachment::group::{CanaryGroup, ForeignGroup};
use crate::object::object;
use crate::required_layers::Strictness;
use turnkey_report::{Evidence, escape};

const NO_GROUP: &str = "the monitor knows a jail by its control group, and there is none";

/// The group of a jail that has no process yet.
pub struct EmptyGroup {
    directory: OwnedFd,
    id: u64,
}

impl EmptyGroup {
    /// By a descriptor of its own: the groups are their maker's.
    pub fn from_jail_cgroups(groups: &JailCgroups) -> io::Result<EmptyGroup> {
        Ok(EmptyGroup {
            directory: groups.directory().try_clone_to_owned()?,
            id: groups.id(),
        })
    }
}

/// The eyes on one jail.
#[derive(Debug)]
pub struct MonitorHandle {
    monitor: Option<Monitor>,
    report: LayerReport,
}

impl MonitorHandle {
    /// Loads and attaches the monitor. A failure is an error only where the policy requires it. For a jail that will
    /// have no group nothing is loaded.
    pub fn open(
        policy: &Policy,
        (strictness, has_group): (Strictness, bool),
        residence: Residence,
    ) -> anyhow::Result<MonitorHandle> {
        if strictness == Strictness::Unmonitored {
            return Ok(MonitorHandle::nobody(
                "not loaded: --unmonitored".to_owned(),
            ));
        }
        if !has_group && is_optional(policy) {
            return Ok(MonitorHandle::nobody(NO_GROUP.to_owned()));
        }
        let tier = Available::here().tier;
        let rules = turnkey_monitor::compile_for(object(), policy, tier)
            .or_else(|_| turnkey_monitor::compile_for(object(), &policy.without_advice(), tier))?;
        match Monitor::open_in(residence, object(), rules) {
            Ok(monitor) => {
                let effective = effective(tier, &monitor);
                Ok(MonitorHandle {
                    report: layer(&effective, None),
                    monitor: Some(monitor),
                })
            }
            Err(error) if is_optional(policy) => {
                Ok(MonitorHandle::nobody(advice::in_one_line(&error.into())))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Loads the monitor for a group that others fill, with all groups below it.
    pub fn open_tree(
        policy: &Policy,
        group: &ForeignGroup,
        residence: Residence,
    ) -> anyhow::Result<MonitorHandle> {
        let tier = Available::here().tier;
        let rules = turnkey_monitor::compile_for_others(object(), policy, tier)?;
        let monitor = Monitor::open_tree(residence, object(), rules, (group.level(), group.id()))?;
        Ok(MonitorHandle {
            report: layer(&effective(tier, &monitor), None),
            monitor: Some(monitor),
        })
    }

    /// Shows that the kernel's programs refuse and kill at the level of a group, in another one there.
    pub fn prove_in(&mut self, group: &CanaryGroup) -> anyhow::Result<()> {
        if let Some(monitor) = &mut self.monitor {
            let proof = monitor.canary_below(group.watched()?, group.leaf())?;
            self.report.proof = Some(proof.0);
        }
        Ok(())
    }

    /// Refuses rules on a file itself that must be found: whose tree it would be looked for in is not known.
    pub fn require_no_files(&mut self) -> anyhow::Result<()> {
        let Some(monitor) = &mut self.monitor else {
            return Ok(());
        };
        let watched = monitor.watched_paths();
        if let Some(watched) = watched.iter().find(|watched| watched.required) {
            anyhow::bail!(
                "rule `{}` means the file at {} by `same_file = \"required\"`, and the processes of a group may each have a \
                 tree of their own: write `same_file = \"optional\"`, which goes by the path here",
                watched.rule,
                escape(&watched.path)
            );
        }
        let unknown = vec![None; watched.len()];
        monitor.know(&unknown);
        Ok(())
    }

    /// From here the kernel holds the rules over everything in the group and below it.
    pub fn adopt_tree(&mut self, group: &ForeignGroup) -> anyhow::Result<()> {
        match &mut self.monitor {
            Some(monitor) => Ok(monitor.adopt(group.as_fd(), group.id())?),
            None => Ok(()),
        }
    }

    /// Takes off the rules of other attachments whose watchers were killed.
    pub fn forget_orphans(&mut self) -> anyhow::Result<()> {
        match &mut self.monitor {
            Some(monitor) => Ok(monitor.forget_orphans(object())?),
            None => Ok(()),
        }
    }

    /// The way in which somebody made the monitor of a group blind, in words; `is_there` tells whether the group is.
    pub fn interference(&mut self, is_there: impl FnOnce() -> bool) -> Option<String> {
        let found = self.monitor.as_mut()?.interference(is_there)?;
        Some(found.to_string())
    }

    /// Lets the group go, in which tasks live on.
    pub fn detach(&mut self) -> anyhow::Result<()> {
        match &mut self.monitor {
            Some(monitor) => Ok(monitor.detach()?),
            None => Ok(()),
        }
    }

    /// The number of the program by which others find this monitor; `None` where there is none.
    pub fn number(&self) -> anyhow::Result<Option<u32>> {
        Ok(self.monitor.as_ref().map(Monitor::number).transpose()?)
    }

    fn nobody(reason: String) -> MonitorHandle {
        MonitorHandle {
            monitor: None,
            report: layer("nothing", Some(reason)),
        }
    }

    /// The reason why programs that others have loaded were not used, where there are some: they could be anybody's.
    pub fn distrusted(&self) -> Option<String> {
        match self.monitor.as_ref()?.origin() {
            Origin::Alone(Some(error)) if error.is_distrust() => Some(format!(
                "the programs are loaded for this run alone: {error}"
            )),
            _ => None,
        }
    }

    /// True when this run has loaded the programs, and they stay.
    pub fn stays(&self) -> bool {
        let origin = self.monitor.as_ref().map(Monitor::origin);
        matches!(origin, Some(Origin::LoadedToStay))
    }

    /// True when the monitor watches.
    pub fn watches(&self) -> bool {
        self.monitor.is_some()
    }

    /// Shows, in the very group the jail will be in, that the kernel's programs refuse and kill.
    pub fn prove(&mut self, policy: &Policy, group: Option<&EmptyGroup>) -> anyhow::Result<()> {
        let Some(monitor) = &mut self.monitor else {
            return Ok(());
        };
        let Some(group) = group else {
            anyhow::ensure!(is_optional(policy), NO_GROUP);
            *self = MonitorHandle::nobody(NO_GROUP.to_owned());
            return Ok(());
        };
        match monitor.canary(group.directory.as_fd(), group.id) {
            Ok(proof) => self.report.proof = Some(proof.0),
            Err(error) if is_optional(policy) => {
                *self = MonitorHandle::nobody(advice::in_one_line(&error.into()));
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Tells the kernel which files the rules mean that speak of files and not of names.
    pub fn know_files(&mut self, held: &Held) -> anyhow::Result<()> {
        let Some(monitor) = &mut self.monitor else {
            return Ok(());
        };
        let found = monitor.watched_paths().iter();
        let found = found.map(|path| look_for(path, held));
        let found = found.collect::<anyhow::Result<Vec<_>>>()?;
        monitor.know(&found);
        Ok(())
    }

    /// Asks for [`MonitorHandle::calls`], before [`MonitorHandle::adopt`].
    pub fn note_calls(&mut self) {
        if let Some(monitor) = &mut self.monitor {
            monitor.note_calls();
        }
    }

    /// The numbers of the system calls that were made, where that was asked for and somebody watched.
    pub fn calls(&self) -> anyhow::Result<Option<Vec<u32>>> {
        let calls = self.monitor.as_ref().map(Monitor::calls);
        Ok(calls.transpose()?)
    }

    /// From here the kernel holds the rules over everything in the group.
    pub fn adopt(&mut self, group: Option<&JailCgroups>) -> anyhow::Result<()> {
        match (&mut self.monitor, group) {
            (Some(monitor), Some(group)) => Ok(monitor.adopt(group.directory(), group.id())?),
            _ => Ok(()),
        }
    }

    /// Hands out events that wait; whether there may be more at once.
    pub fn drain(&mut self, on_event: impl FnMut(Event)) -> bool {
        self.monitor
            .as_mut()
            .is_some_and(|monitor| monitor.drain(on_event))
    }

    /// True when the kernel has killed the jail for a rule.
    pub fn condemned(&self) -> bool {
        self.monitor.as_ref().is_some_and(Monitor::condemned)
    }

    /// True when the kernel has killed the jail for lost evidence, as the policy wants it.
    pub fn condemned_for_loss(&self) -> bool {
        self.monitor
            .as_ref()
            .is_some_and(Monitor::condemned_for_loss)
    }

    /// Readable when events wait; `None` when there will never be any.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.monitor.as_ref().map(Monitor::as_fd)
    }

    /// Readable when events wait that must not; `None` when there will never be any.
    pub fn verdicts(&self) -> Option<BorrowedFd<'_>> {
        self.monitor.as_ref().map(Monitor::verdicts)
    }

    /// Hands out the events that are left. What the monitor's layer was, and what it can vouch for.
    pub fn finish(self, on_event: impl FnMut(Event)) -> anyhow::Result<(LayerReport, Evidence)> {
        let evidence = match self.monitor {
            Some(monitor) => monitor.finish(on_event)?.into(),
            None => Evidence::default(),
        };
        Ok((self.report, evidence))
    }
}

/// The file at a path of the jail, which must be there unless the rule says otherwise.
fn look_for(watched: &WatchedPath, held: &Held) -> anyhow::Result<Option<FileId>> {
    let found = held.identify(&watched.path)?;
    anyhow::ensure!(
        found.is_some() || !watched.required,
        "rule `{}` means the file at {} by `same_file = \"required\"`, and nothing is there in the jail when it starts: \
         create it, correct the path, or write `same_file = \"optional\"`",
        watched.rule,
        escape(&watched.path)
    );
    anyhow::ensure!(
        found.is_none_or(|file| file.stays) || !watched.required,
        "rule `{}` means the file at {} by `same_file = \"required\"`, and in a writable overlay it is copied, and by a new \
         name another file, as soon as the program links or changes it: use `workdir = {{ mode = \"read-only\" }}`, or write \
         `same_file = \"optional\"`, which follows the file as far as the kernel does",
        watched.rule,
        escape(&watched.path)
    );
    Ok(found.map(|file| FileId::new(file.device, file.inode)))
}

/// True when a run goes on without the monitor.
pub fn is_optional(policy: &Policy) -> bool {
    !policy.enforcement.required.contains(&Layer::Monitor)
}

/// The tier, what is missing in it, and since when it is there.
fn effective(tier: Tier, monitor: &Monitor) -> String {
    let hooks = monitor.hooks();
    let mut told = tier.name().to_owned();
    if !hooks.attached.is_empty() {
        told += &format!(", {} hooks", hooks.attached.len());
    }
    match monitor.origin() {
        Origin::Found => told += ", programs loaded before",
        Origin::Alone(Some(error)) => {
            told += &format!(", programs loaded for this run alone: {error}");
        }
        Origin::LoadedToStay => told += ", programs loaded to stay",
        Origin::Alone(None) => {}
    }
    if let Some(lack) = hooks.lack(tier) {
        told += &format!("; {lack}");
    }
    told
}

fn layer(effective: &str, degraded: Option<String>) -> LayerReport {
    LayerReport {
        layer: Layer::Monitor,
        requested: "lsm, or tracepoint".into(),
        effective: effective.into(),
        proof: None,
        degraded,
    }
}
