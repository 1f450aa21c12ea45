//! The monitor of one run.

mod interference;

use std::num::NonZeroU32;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Instant;

use aya::maps::MapError;
use nix::errno::Errno;
use turnkey_abi::{FILTERED_WORDS, Jail, column, hooks, network, started};

use crate::canary::{self, Proof};
use crate::compile::Rules;
use crate::decode::untold;
use crate::error::{CanaryError, FinishError, OpenError, answered};
use crate::evidence::{must_end_for_loss, sum_up};
use crate::hooks::{Hooks, Need};
use crate::identity::{FileId, WatchedPath};
use crate::load::GROUP_HOOKS;
use crate::maps::Maps;
use crate::object::ObjectFile;
use crate::open::{self, Loaded, Origin, Residence};
use crate::own_network;
use crate::rule_table::RuleTable;
use crate::shared::{self, LETTING_GO};
use crate::slot::{Slot, SlotMaps};
use crate::sys::{CanaryEnd, link_to, number_of_program};
use crate::tier::Tier;
use turnkey_facts::{Event, Evidence};
use turnkey_policy::RuleAction;

pub use self::interference::Interference;

/// Errors of taking a jail under watch.
#[derive(Debug, thiserror::Error)]
pub enum AdoptError {
    /// The map of jails does not take it.
    #[error("the kernel does not take the jail")]
    Map(#[from] MapError),
    /// A hook could not be attached to the cgroup.
    #[error(
        "the program `{name}` cannot be attached to the jail's cgroup: turnkey needs cgroup v2 with CONFIG_CGROUP_BPF=y, and another program that forbids more on this cgroup's parents must be taken off"
    )]
    Attach {
        /// The program's name.
        name: &'static str,
        /// The kernel's error.
        #[source]
        source: Errno,
    },
    /// The object lacks a program.
    #[error(transparent)]
    Object(#[from] OpenError),
    /// Another monitor watches the group by the same programs since a moment ago.
    #[error("another turnkey has attached to this group in the same moment: try again")]
    Taken,
    /// One monitor watches one jail.
    #[error("this monitor watches a jail already")]
    Adopted,
}

/// The programs in the kernel, and the rings they tell one jail's events through.
///
/// Programs that were loaded for this run alone leave the kernel with it, or with this process.
/// Those that are loaded for all keep a jail's rules until [`Monitor::finish`]; when that is never
/// called, until another run takes the slot and finds the jail's cgroup gone.
pub struct Monitor {
    loaded: Loaded,
    rules: Rules,
    /// Rules of the canary.
    canary: RuleTable,
    adopted: Option<u64>,
    /// Links of the cgroup programs.
    hooks: Vec<OwnedFd>,
    /// The level of the group that the programs watch with all below it, which is nobody's jail; `None` of jails.
    tree: Option<u32>,
    /// The state of a group that was let go.
    let_go: Option<Jail>,
    /// The last known state of a group, where somebody takes it out of the kernel's table.
    last: Option<Jail>,
    /// True when an event told of a kill, which the kernel's table need not say any more.
    told_of_kill: bool,
    /// Made blind by somebody.
    interference: Option<Interference>,
    /// True when the numbers of system calls are to be noted.
    notes_calls: bool,
    /// Runs of the programs that the kernel had left out before.
    missed_before: u64,
    /// The same when they were taken off.
    missed_after: Option<u64>,
}

/// Most events that one call of [`Monitor::drain`] hands over: a program that does more than can be told must not keep
/// its watcher from the clock.
const AT_ONCE: usize = 4096;

impl Monitor {
    /// Takes the programs that are loaded for all ([`crate::shared`]), or loads the object of
    /// `monitor-ebpf` for this process, and attaches its tracepoints. Nothing is watched yet.
    ///
    /// # Errors
    /// When the kernel cannot run the programs; the error names the cause and the fix. Nothing is left behind then.
    pub fn open<'o>(object: impl Into<ObjectFile<'o>>, rules: Rules) -> Result<Self, OpenError> {
        Self::open_in(Residence::Process, object, rules)
    }

    /// As [`Monitor::open`], with a residence for programs that have to be loaded.
    ///
    /// # Errors
    /// As [`Monitor::open`]. Programs that cannot stay are loaded for this process, and [`Monitor::origin`] has the reason.
    pub fn open_in<'o>(
        residence: Residence,
        object: impl Into<ObjectFile<'o>>,
        rules: Rules,
    ) -> Result<Self, OpenError> {
        let object = object.into();
        let loaded = open::open(&object, &rules, residence)?;
        Self::from_loaded(loaded, rules, &object)
    }

    /// Takes or loads the programs for the group with this id at `level` of the hierarchy (its root is at 0), and all groups
    /// below it, those that are made later among them. Programs find the group of a task by
    /// `bpf_get_current_ancestor_cgroup_id`, so no group has to be made known. They act for this group as long as
    /// the monitor lives; when its process is killed, until another monitor of that level looks
    /// ([`Monitor::forget_orphans`]) or none is left.
    ///
    /// # Errors
    /// As [`Monitor::open`].
    pub fn open_tree<'o>(
        residence: Residence,
        object: impl Into<ObjectFile<'o>>,
        rules: Rules,
        (level, group): (NonZeroU32, u64),
    ) -> Result<Self, OpenError> {
        let object = object.into();
        let level = level.get();
        let loaded = open::open_tree(&object, &rules, residence, (level, group))?;
        let monitor = Self::from_loaded(loaded, rules, &object)?;
        Ok(Self {
            tree: Some(level),
            ..monitor
        })
    }

    /// Takes the rules of attachments at this level off their groups whose watchers were killed: while others watch, the
    /// kernel does not.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn forget_orphans<'o>(
        &mut self,
        object: impl Into<ObjectFile<'o>>,
    ) -> Result<(), OpenError> {
        match self.tree {
            Some(level) if self.is_shared() => {
                shared::forget_orphans((&object.into(), level), &mut self.loaded.maps)
            }
            _ => Ok(()),
        }
    }

    fn from_loaded(
        loaded: Loaded,
        rules: Rules,
        object: &ObjectFile<'_>,
    ) -> Result<Self, OpenError> {
        Ok(Self {
            canary: canary::table(object).map_err(|error| OpenError::Canary(Box::new(error)))?,
            missed_before: loaded.programs.missed().map_err(OpenError::Missed)?,
            missed_after: None,
            loaded,
            rules,
            adopted: None,
            hooks: Vec::new(),
            tree: None,
            let_go: None,
            last: None,
            told_of_kill: false,
            interference: None,
            notes_calls: false,
        })
    }

    /// The origin of the programs.
    #[must_use]
    pub fn origin(&self) -> &Origin {
        &self.loaded.origin
    }

    /// The number of the program by which [`watching`](crate::watching()) finds this monitor.
    ///
    /// # Errors
    /// When the kernel does not tell.
    pub fn number(&self) -> Result<u32, OpenError> {
        let [(name, _), ..] = GROUP_HOOKS;
        let number = number_of_program(self.loaded.programs.descriptor(name)?);
        number.map_err(|error| OpenError::Missed(FinishError::Proc(error.into())))
    }

    /// True when the programs stay in the kernel.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.loaded.slot.claim.is_some()
    }

    /// The paths of which the rules mean the files. They are looked for when the jail's tree stands,
    /// and told with [`Monitor::know`] before [`Monitor::adopt`].
    #[must_use]
    pub fn watched_paths(&self) -> &[WatchedPath] {
        self.rules.watched_paths()
    }

    /// Says what was found at the [watched paths](Self::watched_paths), in their order. Rules know
    /// files that were not said by their paths alone.
    pub fn know(&mut self, found: &[Option<FileId>]) {
        self.rules.know(found);
    }

    /// The kernel's hooks that are asked, of those that the rules need.
    #[must_use]
    pub fn hooks(&self) -> &Hooks {
        &self.loaded.hooks
    }

    /// True when the kernel heeds what hooks answer.
    fn prevents(&self) -> bool {
        self.rules.tier == Tier::Lsm
    }

    /// Proves that rules act: under built-in rules, a child in the given cgroup is refused whatever
    /// the cgroup's programs guard, and on the tier that can refuse them an open and an exec, and is killed for an open;
    /// another is killed for an exec, and where rules speak of mappings a third for one.
    ///
    /// The cgroup is a leaf of the v2 hierarchy without processes, and its id that of the kernel
    /// (its inode number). It is as before afterwards, and may be the jail's own.
    ///
    /// # Errors
    /// When any of it does not happen, or is not recorded.
    pub fn canary(&mut self, cgroup: BorrowedFd<'_>, cgroup_id: u64) -> Result<Proof, CanaryError> {
        self.canary_below((cgroup, cgroup_id), cgroup)
    }

    /// As [`Monitor::canary`], for [`Monitor::open_tree`]: the canaries are in `leaf`, a group below the given one, which
    /// is at the level that is watched.
    ///
    /// # Errors
    /// As [`Monitor::canary`].
    pub fn canary_below(
        &mut self,
        (cgroup, cgroup_id): (BorrowedFd<'_>, u64),
        leaf: BorrowedFd<'_>,
    ) -> Result<Proof, CanaryError> {
        self.loaded.slot.set_rules(&self.canary);
        let links = self
            .attach_hooks(cgroup)
            .map_err(canary::prepare("attaching the hooks"))?;
        let seen = self.fly_all(leaf, cgroup_id);
        drop(links);
        let seen = seen.and_then(|seen| self.prove_single(leaf, cgroup_id).map(|()| seen));
        let mapped = self.rules.need(Need::Map);
        canary::recorded(&seen?, self.prevents(), mapped)
    }

    /// The ends of the canaries: by an open, by an exec, and by a mapping where rules speak of one.
    fn flights(&self) -> Vec<CanaryEnd> {
        let mut ends = vec![CanaryEnd::Open, CanaryEnd::Exec];
        ends.extend(self.rules.need(Need::Map).then_some(CanaryEnd::Map));
        ends
    }

    /// Each in a jail of its own making: the first one's is condemned when it is dead.
    fn fly_all(
        &mut self,
        cgroup: BorrowedFd<'_>,
        cgroup_id: u64,
    ) -> Result<Vec<Event>, CanaryError> {
        let mut seen = Vec::new();
        for end in self.flights() {
            seen.append(&mut self.fly(cgroup, cgroup_id, end)?);
        }
        Ok(seen)
    }

    fn fly(
        &mut self,
        cgroup: BorrowedFd<'_>,
        cgroup_id: u64,
        end: CanaryEnd,
    ) -> Result<Vec<Event>, CanaryError> {
        let jail = Jail {
            started: started::TOLD,
            canary: 1,
            ..Jail::new(self.loaded.slot.index, network::NONE)
        };
        self.enter(cgroup_id, jail)
            .map_err(canary::prepare("watching its cgroup"))?;
        let flown = canary::fly(cgroup, end, self.prevents());
        let left = self.loaded.maps.leave(cgroup_id);
        let seen = self.take_canary_events();
        flown?;
        left.map_err(canary::prepare("forgetting its cgroup"))?;
        Ok(seen)
    }

    /// Has canaries fly until one act is told once, where programs may still be called for links of a run that was killed.
    fn prove_single(&mut self, cgroup: BorrowedFd<'_>, cgroup_id: u64) -> Result<(), CanaryError> {
        let doubted = |error| canary::prepare("asking who else has attached")(error);
        if !self.loaded.programs.are_doubted().map_err(doubted)? {
            return Ok(());
        }
        let program = canary::single::program()?;
        let begun = Instant::now();
        loop {
            let end = CanaryEnd::Natural(program.as_raw_fd());
            let seen = self.fly(cgroup, cgroup_id, end)?;
            match canary::single::told_once(&seen) {
                Err(CanaryError::Twice(_)) if begun.elapsed() < LETTING_GO => {}
                told => break told?,
            }
        }
        self.loaded.programs.are_single().map_err(doubted)
    }

    /// The canary's records are proof, not evidence of the run.
    fn take_canary_events(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        while self.drain(|event| events.push(event)) {}
        self.loaded.slot.stream.restart();
        events
    }

    /// Asks for [`Monitor::calls`]. As long as the jail runs, every system call of the host then looks for
    /// its jail. Ask before [`Monitor::adopt`].
    pub fn note_calls(&mut self) {
        self.notes_calls = true;
    }

    /// The numbers of the system calls that tasks of the jail have made since the command was started,
    /// ascending; those that seccomp refused are none of them. Empty when they were not asked for. All of
    /// them when no task of the jail is left.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn calls(&self) -> Result<Vec<u32>, FinishError> {
        let called = self.jail()?.called;
        let numbers = (0..).zip(called);
        Ok(numbers
            .filter_map(|(number, made)| (made != 0).then_some(number))
            .collect())
    }

    /// Puts a jail under the rules. From here on, every task in this cgroup is watched, and the
    /// next exec in it counts as the start of the command.
    ///
    /// # Errors
    /// When the kernel does not take the jail or its hooks. It is not watched then.
    pub fn adopt(&mut self, cgroup: BorrowedFd<'_>, cgroup_id: u64) -> Result<(), AdoptError> {
        if self.adopted.is_some() {
            return Err(AdoptError::Adopted);
        }
        self.loaded.slot.set_rules(&self.rules.table);
        let jail = Jail {
            kill_on_loss: self.rules.kill_on_loss.into(),
            strict: self.rules.strict.into(),
            notes_calls: self.notes_calls.into(),
            has_roles: self.rules.have_roles().into(),
            hooks: match self.rules.tier {
                Tier::Lsm => hooks::HEEDED,
                Tier::Tracepoint if self.loaded.hooks.know_names() => hooks::SEEN,
                Tier::Tracepoint => hooks::NONE,
            },
            // In a group that is nobody's jail no exec is the start of a command, and no filter of turnkey's answers.
            started: if self.tree.is_some() {
                started::TOLD
            } else {
                started::NOT
            },
            roams: self.tree.is_some().into(),
            outside: own_network::cookie().unwrap_or(0),
            advisory: self.rules.advisory(),
            aliased: self.rules.aliased(),
            sockets: self.rules.sockets(self.tree.is_some()),
            asks_of_looks: self.rules.need(Need::Columns(&[column::STAT])).into(),
            filtered: if self.tree.is_some() {
                [0; FILTERED_WORDS]
            } else {
                self.rules.filtered
            },
            ..Jail::new(self.loaded.slot.index, self.rules.network)
        };
        match self.tree {
            Some(_) => {
                self.enter_group(cgroup_id, jail)?;
                self.last = Some(jail);
            }
            None => self.enter(cgroup_id, jail)?,
        }
        if self.notes_calls {
            self.loaded.maps.look_at_every_call()?;
        }
        self.hooks = self.attach_hooks(cgroup)?;
        self.adopted = Some(cgroup_id);
        // The canary's are none of this jail's.
        self.told_of_kill = false;
        Ok(())
    }

    /// Asks for it back, too: a jail that the kernel does not know is not watched.
    fn enter(&mut self, cgroup_id: u64, jail: Jail) -> Result<(), MapError> {
        self.note(cgroup_id)?;
        let maps = &mut self.loaded.maps;
        maps.enter(cgroup_id, jail)?;
        maps.jail(cgroup_id).map(drop)
    }

    /// Leaves word of the jail, before the kernel knows it: whoever takes the slot of a process that is killed finds it by that.
    fn note(&mut self, cgroup_id: u64) -> Result<(), MapError> {
        match &mut self.loaded.slot.claim {
            Some(claim) => claim.note(cgroup_id),
            None => Ok(()),
        }
    }

    /// As [`Self::enter`], unless another monitor has the group.
    fn enter_group(&mut self, cgroup_id: u64, jail: Jail) -> Result<(), AdoptError> {
        self.note(cgroup_id)?;
        let maps = &mut self.loaded.maps;
        maps.enter_new(cgroup_id, jail)
            .map_err(|error| match answered(&error, Errno::EEXIST) {
                true => AdoptError::Taken,
                false => error.into(),
            })?;
        Ok(maps.jail(cgroup_id).map(drop)?)
    }

    /// Has the group call its programs, until the links are dropped.
    fn attach_hooks(&self, cgroup: BorrowedFd<'_>) -> Result<Vec<OwnedFd>, AdoptError> {
        let attach = |(name, hook)| {
            let program = self.loaded.programs.descriptor(name)?;
            link_to(program, cgroup, hook).map_err(|source| AdoptError::Attach { name, source })
        };
        GROUP_HOOKS.into_iter().map(attach).collect()
    }

    /// Hands over events that wait, in the order of their numbers, without waiting for more.
    /// `true`: there may be more at once. Otherwise the descriptor is readable when there is.
    pub fn drain(&mut self, mut on_event: impl FnMut(Event)) -> bool {
        #[cfg(feature = "log")]
        if let Some(lines) = &mut self.loaded.lines {
            lines.print();
        }
        let Loaded { maps, slot, .. } = &mut self.loaded;
        let lost = || jail(maps, self.adopted).map_or(0, |jail| jail.lost_records);
        let told_of_kill = &mut self.told_of_kill;
        slot.stream.drain(AT_ONCE, lost, |event| {
            let action = event.decision.map(|decision| decision.action);
            *told_of_kill |= action == Some(RuleAction::Kill);
            on_event(event);
        })
    }

    /// Readable when verdicts wait: what a rule speaks of, and every kill. Other events can be left waiting for a
    /// while; as long as they are, those that follow do not wake the reader, and cost the jail less. Forks,
    /// execs and exits do not wake the reader at all: call [`Monitor::drain`] every now and then.
    #[must_use]
    pub fn verdicts(&self) -> BorrowedFd<'_> {
        self.loaded.slot.stream.verdicts()
    }

    /// True when the kernel has condemned the jail, for a rule or because it could not say whether one was broken. It
    /// then kills each of its tasks at that task's next system call; a caller that wants them dead at once uses
    /// `cgroup.kill`.
    #[must_use]
    pub fn condemned(&self) -> bool {
        let broken =
            |jail: Jail| jail.condemned_thread != 0 || jail.strict != 0 && jail.faults != 0;
        self.is_killed_unknown_to_the_kernel() || self.jail().is_ok_and(broken)
    }

    /// True when the jail must end because evidence is lost, as the policy wants it. For a lost record the kernel has
    /// condemned it already; of a run of a program that it left out it tells when asked.
    #[must_use]
    pub fn condemned_for_loss(&self) -> bool {
        let missed = || self.missed().unwrap_or(0);
        self.jail()
            .is_ok_and(|jail| must_end_for_loss(&jail, missed))
    }

    /// Runs of the programs that the kernel has left out since they were taken.
    fn missed(&self) -> Result<u64, FinishError> {
        let missed = match self.missed_after {
            Some(missed) => missed,
            None => self.loaded.programs.missed()?,
        };
        Ok(missed.saturating_sub(self.missed_before))
    }

    /// Acts in records that have not fitted the ring so far.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.jail().map_or(0, |jail| jail.lost.iter().sum())
    }

    fn jail(&self) -> Result<Jail, FinishError> {
        self.let_go.map_or_else(|| self.known_jail(), Ok)
    }

    /// Takes the programs of [`Monitor::open_tree`] off a group in which tasks live on, before [`Monitor::finish`]: what
    /// they do from here on is not watched, and what they did before is told whole.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn detach(&mut self) -> Result<(), FinishError> {
        self.look_at_tables();
        self.missed_after = Some(self.loaded.programs.missed()?);
        self.hooks.clear();
        self.loaded.programs.unload()?;
        if let Some(cgroup_id) = self.adopted {
            // From here on its tables are no longer as they were put there, and that is nobody's interference.
            self.let_go = Some(self.known_jail()?);
            // What happens between the two is told where a record comes: see `sum_up`.
            if self.is_shared() {
                self.forget(cgroup_id)?;
            }
        }
        if let (Some(claim), Some(_)) = (&mut self.loaded.slot.claim, self.adopted) {
            claim.note(0)?;
            let spent = claim.spend().map_err(OpenError::from);
            spent.map_err(|error| FinishError::Slot(Box::new(error)))?;
        }
        // The kernel waits until no program runs that could still see what was there before, and so do we: from here on
        // nobody counts any more.
        let Loaded { slot, maps, .. } = &mut self.loaded;
        let placed = SlotMaps::make().map_err(OpenError::from);
        placed
            .and_then(|unused| unused.place(slot.index, maps))
            .map_err(|error| FinishError::Slot(Box::new(error)))
    }

    /// Hands over all events that are left, takes the jail's rules out of the kernel and says how
    /// complete the evidence is. Call it when no task of the jail is left.
    ///
    /// # Errors
    /// When the kernel does not answer. The evidence is then not complete.
    pub fn finish(mut self, mut on_event: impl FnMut(Event)) -> Result<Evidence, FinishError> {
        while self.drain(&mut on_event) {}
        let is_blind = self.look_at_tables().is_some();
        let mut jail = self.jail()?;
        let (missed, has_ended) = (self.missed()?, self.missed_after.is_none() && !is_blind);
        if let (true, Some(cgroup_id), None) = (self.is_shared(), self.adopted, self.let_go) {
            self.forget(cgroup_id)?;
        }
        let Slot {
            data,
            mut stream,
            claim,
            ..
        } = self.loaded.slot;
        for event in data.repeats().slots.iter().filter_map(untold) {
            stream.add(event, &mut jail.seq);
        }
        let arrived = stream.finish(on_event);
        if let (Some(claim), Some(_)) = (claim, self.adopted) {
            claim
                .give_back()
                .map_err(|error| FinishError::Slot(Box::new(error)))?;
        }
        let mut evidence = sum_up(&jail, missed, &arrived, has_ended);
        evidence.complete &= !is_blind;
        Ok(evidence)
    }
}

/// Reads the jail's state from the kernel.
fn jail(maps: &Maps, adopted: Option<u64>) -> Result<Jail, FinishError> {
    let id = adopted.ok_or(FinishError::NotAdopted)?;
    Ok(maps.jail(id)?)
}

impl std::fmt::Debug for Monitor {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Monitor")
            .field("adopted", &self.adopted)
            .finish_non_exhaustive()
    }
}

impl AsFd for Monitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.loaded.slot.stream.as_fd()
    }
}

impl AsRawFd for Monitor {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}
