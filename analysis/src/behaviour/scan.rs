//! Port scan: within ten seconds, ten different ports of one host were spoken to, or ten hosts at one
//! port that are not public. Attempts count, whatever came of them.
//!
//! A program that tries again speaks to the same port; a crawler speaks to public hosts at one port.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use turnkey_policy::Behaviour;

use super::act::{ObservedAct, Operation};
use super::process_state::ProcessState;
use super::{Detector, Sighting, Step};
use turnkey_facts::Address;

/// Different ports, or hosts.
const MANY: usize = 10;
/// Nanoseconds within which they are tried.
const WINDOW: u64 = 10_000_000_000;
/// Attempts that are remembered.
const REMEMBERED: usize = 256;
/// The port of name servers: asking several is no scan.
const NAME_SERVER: u16 = 53;

/// The attempts of the window.
#[derive(Debug, Default)]
pub struct Scan {
    tried: BTreeMap<SocketAddr, u64>,
    told: BTreeSet<IpAddr>,
}

impl Detector for Scan {
    fn observe(&mut self, act: &ObservedAct<'_>, _: &ProcessState, tell: &mut dyn FnMut(Sighting)) {
        let Operation::Spoke {
            address: Address::Inet(address),
            ..
        } = &act.what
        else {
            return;
        };
        let (host, port) = (address.ip().to_canonical(), address.port());
        if port == NAME_SERVER || port == 0 {
            return;
        }
        let now = act.event.time_ns;
        self.tried.retain(|_, then| *then + WINDOW >= now);
        if self.tried.len() < REMEMBERED {
            self.tried.insert(SocketAddr::new(host, port), now);
        }
        let ports = self.tried.keys().filter(|one| one.ip() == host).count();
        let hosts = self
            .tried
            .keys()
            .filter(|one| one.port() == port && !is_public(one.ip()));
        let hosts = hosts.count();
        let what = match (ports >= MANY, hosts >= MANY) {
            (true, _) => format!("tried {ports} ports of {host} within ten seconds"),
            (_, true) => format!("tried port {port} of {hosts} hosts within ten seconds"),
            _ => return,
        };
        // One scan goes on; it is told again only for another host.
        if self.told.len() < REMEMBERED && self.told.insert(host) {
            let step = Step::from_event(act.event, &[what.as_bytes()]);
            tell(Sighting::new(Behaviour::PortScan, vec![step]));
        }
        if hosts >= MANY {
            self.tried.clear();
        }
    }
}

fn is_public(host: IpAddr) -> bool {
    match host {
        IpAddr::V4(host) => !(host.is_private() || host.is_loopback() || host.is_link_local()),
        IpAddr::V6(host) => {
            !(host.is_loopback() || host.is_unique_local() || host.is_unicast_link_local())
        }
    }
}
