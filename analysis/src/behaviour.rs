//! Courses of acts that have a name: which of them a jail was seen at, and by what.
//!
//! Each detector is a pure observer of the ordered stream of events. It decides nothing about a single
//! act, which is the kernel's part; it names what several of them amount to. Definitions, thresholds
//! and near misses stand in docs/behaviours.md, and beside each detector.
//!
//! Memory is bounded: every detector keeps at most some thousand short texts, whatever the jail does.

mod accounts;
mod act;
mod credential;
mod discovery;
mod download;
mod escape;
mod evasion;
mod exfiltration;
mod exhaustion;
mod fileless;
mod history;
mod injection;
mod interpreter;
mod killing;
mod listing;
mod mass;
mod operands;
mod path_classes;
mod persistence;
mod privilege;
mod process_state;
mod purpose;
mod ransom;
mod scan;
mod settings;
mod shell;
mod stores;
mod system;
mod tunnel;
mod versions;

use std::collections::BTreeMap;

use turnkey_policy::{Behaviour, BehaviourResponse, Policy};

use act::ObservedAct;
use process_state::ProcessState;
use turnkey_facts::Event;
use turnkey_facts::symlinks::Symlinks;

pub use exhaustion::End;
pub use interpreter::is_interpreter;
pub use path_classes::{PathClasses, Reach, SECRETS, Traits, is_system, telling_directory};

/// Steps of the evidence that are kept for one behaviour.
const STEPS: usize = 8;

/// A recognised behaviour: the act that completes it, and what led there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sighting {
    behaviour: Behaviour,
    steps: Vec<Step>,
}

impl Sighting {
    fn new(behaviour: Behaviour, steps: Vec<Step>) -> Self {
        Self { behaviour, steps }
    }
}

/// The words for an act that was done, and for one that was only tried.
type Verb = (&'static str, &'static str);

const OPENED: Verb = ("opened ", "tried to open ");
const SPOKE: Verb = ("spoke to ", "tried to speak to ");
const EXECUTED: Verb = ("executed ", "tried to execute ");

/// One act of the evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// `CLOCK_BOOTTIME`, nanoseconds; `None` for what is known of the run as a whole.
    pub time_ns: Option<u64>,
    /// The process in the jail that acted, and its short name.
    pub process: Option<(u32, Vec<u8>)>,
    /// The act, in words; names of the jail in it are bytes as it gave them.
    pub what: Vec<u8>,
}

impl Step {
    fn from_event(event: &Event, parts: &[&[u8]]) -> Self {
        Self {
            time_ns: Some(event.time_ns),
            process: Some((event.task.jail_pid, event.task.comm.clone())),
            what: parts.concat(),
        }
    }

    /// A step in the words for what was done, where the kernel did it, or for what was tried: of what a file system, a permission or a rule has
    /// refused nobody may read that it happened.
    fn by_outcome(act: &ObservedAct<'_>, (done, tried): Verb, parts: &[&[u8]]) -> Self {
        let verb = if act.is_done() { done } else { tried };
        Self::from_event(act.event, &[verb.as_bytes(), &parts.concat()])
    }

    fn of_run(what: impl Into<Vec<u8>>) -> Self {
        Self {
            time_ns: None,
            process: None,
            what: what.into(),
        }
    }
}

/// A behaviour that was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The behaviour.
    pub behaviour: Behaviour,
    /// The number of times that it was recognised.
    pub count: u64,
    /// The acts that show it: of the first sightings, at most eight.
    pub steps: Vec<Step>,
}

/// Looks at a jail's events in their order.
pub trait Detector: std::fmt::Debug {
    /// Takes in one act and tells what it completes.
    fn observe(
        &mut self,
        act: &ObservedAct<'_>,
        state: &ProcessState,
        tell: &mut dyn FnMut(Sighting),
    );

    /// Takes in the end of the run and tells what it completes.
    fn end(&mut self, _end: &End, _tell: &mut dyn FnMut(Sighting)) {}
}

/// All detectors that a policy does not switch off.
#[derive(Debug)]
pub struct BehaviourEngine {
    state: ProcessState,
    symlinks: Symlinks,
    detectors: Vec<Box<dyn Detector + Send>>,
    responses: BTreeMap<Behaviour, BehaviourResponse>,
    found: BTreeMap<Behaviour, Found>,
    /// The order of the first sightings.
    order: Vec<Behaviour>,
}

impl BehaviourEngine {
    /// For a run under `policy`.
    #[must_use]
    pub fn new(policy: &Policy) -> Self {
        let all = Behaviour::ALL.iter();
        Self {
            state: ProcessState::new(policy.network.mode),
            detectors: vec![
                Box::new(credential::Credentials::new(policy)),
                Box::new(stores::Stores::default()),
                Box::new(discovery::Discovery::default()),
                Box::new(shell::ReverseShell::default()),
                Box::new(download::Download::default()),
                Box::new(fileless::Fileless::default()),
                Box::new(scan::Scan::default()),
                Box::new(exfiltration::Exfiltration::default()),
                Box::new(tunnel::Tunnel::default()),
                Box::new(mass::MassChange::new(policy)),
                Box::new(persistence::Persistence::default()),
                Box::new(privilege::Privilege),
                Box::new(escape::Escape),
                Box::new(exhaustion::Exhaustion::default()),
                Box::new(evasion::Evasion::default()),
                Box::new(killing::Killing::new(policy)),
                Box::new(history::Histories::default()),
                Box::new(purpose::Purposes::default()),
                Box::new(ransom::Ransom::default()),
                Box::new(injection::Injection::default()),
                Box::new(system::SystemChange::new(policy)),
                Box::new(listing::FileDiscovery::new(policy)),
                Box::new(settings::SystemSettings::new(policy)),
                Box::new(accounts::AccountDiscovery),
            ],
            symlinks: Symlinks::default(),
            responses: all.map(|one| (*one, policy.response(*one))).collect(),
            found: BTreeMap::new(),
            order: Vec::new(),
        }
    }

    /// Takes in the next event; whether the jail is to die of what it completes.
    pub fn take_event(&mut self, event: &Event) -> bool {
        let followed = self.symlinks.followed(event);
        self.symlinks.note(event);
        let event = followed.as_ref().unwrap_or(event);
        let act = ObservedAct::from_event(event, &mut self.state);
        let mut sightings = Vec::new();
        for detector in &mut self.detectors {
            detector.observe(&act, &self.state, &mut |sighting| sightings.push(sighting));
        }
        self.state.follow(&act);
        let kills = sightings.into_iter().map(|sighting| self.note(sighting));
        kills.fold(false, |kills, one| kills | one)
    }

    /// The behaviours that were found first after `known` others, as far as they are known now.
    pub fn found_after(&self, known: usize) -> impl Iterator<Item = &Found> {
        let later = self.order.iter().skip(known);
        later.filter_map(|one| self.found.get(one))
    }

    /// Ends the run and gives the behaviours found, in the order of the first sightings.
    #[must_use]
    pub fn finish(mut self, end: &End) -> Vec<Found> {
        let mut sightings = Vec::new();
        for detector in &mut self.detectors {
            detector.end(end, &mut |sighting| sightings.push(sighting));
        }
        for sighting in sightings {
            self.note(sighting);
        }
        let order = self.order.iter();
        order.filter_map(|one| self.found.remove(one)).collect()
    }

    /// Notes a sighting; true when the policy has the jail die of it.
    fn note(&mut self, sighting: Sighting) -> bool {
        let response = self.responses.get(&sighting.behaviour);
        let response = response.copied().unwrap_or(BehaviourResponse::Log);
        if response == BehaviourResponse::Off {
            return false;
        }
        let kills = response == BehaviourResponse::Kill;
        let order = &mut self.order;
        let found = self.found.entry(sighting.behaviour).or_insert_with(|| {
            order.push(sighting.behaviour);
            Found {
                behaviour: sighting.behaviour,
                count: 0,
                steps: Vec::new(),
            }
        });
        found.count += 1;
        let room = STEPS.saturating_sub(found.steps.len());
        found.steps.extend(sighting.steps.into_iter().take(room));
        kills
    }
}

#[cfg(test)]
mod fixture;
#[cfg(test)]
mod tests;
