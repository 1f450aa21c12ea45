//! All that stands beside a jail for its connections: a gateway to allowed hosts, answers in a sinkhole, and ports that lead in.

use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use anyhow::Context;
use turnkey_facts::{Passage, Publication, SinkholeTraffic};
use turnkey_jailer::{Held, Plan, decoy};
use turnkey_policy::Policy;

use crate::event_sink::RunObserver;
use crate::gateway::{AllowList, Gateway, Service};
use crate::publish::{Publisher, TakenPort};
use crate::sinkhole::{Authority, Sinkhole};

/// The threads that pass the connections of one jail on, or answer them.
pub struct JailConnections {
    publisher: Publisher,
    sinkhole: Option<Sinkhole>,
    gateway: Gateway,
}

/// The traffic of one jail.
pub struct JailTraffic {
    /// Passed on to allowed hosts.
    pub passages: Vec<Passage>,
    /// Led in by published ports.
    pub published: Vec<Publication>,
    /// Answered by the sinkhole.
    pub sunk: Option<SinkholeTraffic>,
}

impl JailConnections {
    /// Begins for a jail whose program does not run yet. With an authority, everybody is answered in its place.
    pub fn open(
        held: &mut Held,
        plan: &Plan,
        memory: u64,
        (ports, authority): (Vec<TakenPort>, Option<Authority>),
        observer: &mut dyn RunObserver,
    ) -> anyhow::Result<JailConnections> {
        let allowed = Service::Allowed(allow_list(plan));
        let gateway = Gateway::start(held.take_listeners(), allowed, (memory, None))
            .context("could not start the thread that passes the program's connections on")?;
        tell_of_ports(&ports, observer);
        let network = held.take_network();
        let sinkhole = authority
            .map(|authority| answer_in(network.as_ref(), authority))
            .transpose()?;
        if let Some(sinkhole) = &sinkhole {
            held.answered_by(sinkhole.thread().as_raw());
        }
        let publisher = Publisher::start(ports, memory, network)
            .context("could not start the thread that leads connections to the program's ports")?;
        Ok(JailConnections {
            publisher,
            sinkhole,
            gateway,
        })
    }

    /// Ends when the program has; what is on its way is passed on before with `drain`.
    pub fn finish(self, drain: bool, policy: &Policy) -> JailTraffic {
        let sunk = |sinkhole: Sinkhole| with_decoys(sinkhole.finish(), policy);
        JailTraffic {
            passages: self.gateway.finish(drain),
            published: self.publisher.finish(drain),
            sunk: self.sinkhole.map(sunk),
        }
    }
}

fn answer_in(network: Option<&OwnedFd>, authority: Authority) -> anyhow::Result<Sinkhole> {
    let network = network.context("the jail has no network to answer in")?;
    Sinkhole::start(network.try_clone()?, authority)
        .context("could not start the thread that answers the program's connections")
}

/// The traffic with what the decoys of the jail hold, by which they are recognised in it.
fn with_decoys(mut traffic: SinkholeTraffic, policy: &Policy) -> SinkholeTraffic {
    let decoys = policy.filesystem.decoys.iter();
    let content = |path: &PathBuf| (path.as_os_str().as_bytes().to_vec(), decoy(path));
    traffic.decoys = decoys.map(content).collect();
    traffic
}

/// The ports as they were chosen, for who is to connect.
fn tell_of_ports(ports: &[TakenPort], observer: &mut dyn RunObserver) {
    for TakenPort { port, .. } in ports {
        observer.notice(&format!(
            "localhost:{} leads to port {} of the jail",
            port.host, port.inside
        ));
    }
}

/// The list that connections are held against.
fn allow_list(plan: &Plan) -> AllowList {
    AllowList {
        allowed: plan.policy.network.allow.clone(),
        own: plan.host.addresses.clone(),
    }
}
