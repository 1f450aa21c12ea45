//! Exhaustion: when the run ended, a limit of memory, processes or disk had been reached; and fork bombs, which are refused
//! tasks again and again.

use turnkey_policy::Behaviour;

use super::act::ObservedAct;
use super::process_state::ProcessState;
use super::{Detector, Sighting, Step};

/// The facts known at the end of a run besides its events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct End {
    /// The limits that the run reached, each in words.
    pub reached: Vec<String>,
    /// The limit of tasks in words, if as many again were refused as there may be.
    pub bombed: Option<String>,
    /// The wall clock ended the run, and it had used less than a hundredth of that time on a
    /// processor; in words.
    pub idle: Option<String>,
    /// The secrets that a sinkhole took, each sending in words.
    pub sent: Vec<String>,
}

/// Remembers nothing.
#[derive(Debug)]
pub struct Exhaustion;

impl Detector for Exhaustion {
    fn see(&mut self, _: &ObservedAct<'_>, _: &ProcessState, _: &mut dyn FnMut(Sighting)) {}

    fn end(&mut self, end: &End, tell: &mut dyn FnMut(Sighting)) {
        let steps: Vec<Step> = end
            .reached
            .iter()
            .map(|what| Step::of_run(what.clone()))
            .collect();
        if !steps.is_empty() {
            tell(Sighting::new(Behaviour::Exhaustion, steps));
        }
        if let Some(bombed) = &end.bombed {
            tell(Sighting::new(
                Behaviour::ForkBomb,
                vec![Step::of_run(bombed.clone())],
            ));
        }
    }
}
