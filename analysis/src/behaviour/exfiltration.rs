//! Exfiltration: a secret or a decoy was read, and later the jail spoke to an address of the internet,
//! or tried: one where it does not answer itself.
//!
//! Or, at the end, a sinkhole has taken something in which a secret was recognised.
//!
//! Reading is what counts: a secret that could not be opened cannot leave. What the run made itself is no secret of anybody's.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use turnkey_policy::Behaviour;

use super::act::{ObservedAct, Operation};
use super::process_state::ProcessState;
use super::{Detector, End, SPOKE, Sighting, Step};
use turnkey_facts::{Address, Kind, NetworkAct};

/// Addresses that are remembered.
const REMEMBERED: usize = 256;

/// The first secret that was read, and who was spoken to.
#[derive(Debug, Default)]
pub struct Exfiltration {
    read: Option<Step>,
    told: BTreeSet<SocketAddr>,
}

impl Detector for Exfiltration {
    fn observe(
        &mut self,
        act: &ObservedAct<'_>,
        state: &ProcessState,
        tell: &mut dyn FnMut(Sighting),
    ) {
        match &act.what {
            Operation::Opened(opened)
                if opened.done()
                    && opened.reads
                    && self.read.is_none()
                    && !state.made(&opened.path) =>
            {
                let kind = state.traits(&opened.path).secret;
                self.read = kind.map(|kind| {
                    Step::from_event(act.event, &[b"read ", kind.as_bytes(), b": ", &opened.path])
                });
            }
            Operation::Spoke {
                address: Address::Inet(address),
                done,
            } => {
                let Some(read) = &self.read else {
                    return;
                };
                let own = is_order(&act.event.kind)
                    || *done && state.is_own(*address)
                    || state.looks_up(*address);
                if !own && self.told.len() < REMEMBERED && self.told.insert(*address) {
                    let spoke = Step::by_outcome(act, SPOKE, &[address.to_string().as_bytes()]);
                    let steps = vec![read.clone(), spoke];
                    tell(Sighting::new(Behaviour::Exfiltration, steps));
                }
            }
            _ => {}
        }
    }

    fn end(&mut self, end: &End, tell: &mut dyn FnMut(Sighting)) {
        for sent in &end.sent {
            let steps = vec![Step::of_run(sent.as_str())];
            tell(Sighting::new(Behaviour::Exfiltration, steps));
        }
    }
}

/// True for a datagram socket that is connected to any address, which says nothing to anybody: the C library puts that one in order so.
fn is_order(kind: &Kind) -> bool {
    const DATAGRAM: u32 = 2;
    matches!(
        kind,
        Kind::Network {
            act: NetworkAct::Connect,
            address: Address::Inet(any),
            socket_type: DATAGRAM,
            ..
        } if any.ip().is_unspecified()
    )
}
