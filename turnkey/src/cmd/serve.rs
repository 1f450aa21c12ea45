//! `turnkey serve`: makes runs for callers without privileges.

mod caller_process;
mod check;
mod config;
mod config_file;
mod counters;
mod ending;
mod first_half;
mod heeding;
mod line_allowance;
mod listener;
mod log;
mod maker;
mod patience;
mod queue;
mod refusals;
mod remains;
mod run_maker;
mod socket;
mod turned_away;

use anyhow::ensure;
use turnkey_supervisor::service::{self, ServedPeer};

use crate::cli::ServeArguments;
use crate::failure::Failure;
use crate::output;
use crate::own_process;
use check::ServingHost;
use config::ServeConfig;
use listener::Listener;
use log::{ServiceEvent, ServiceLog};
pub use maker::make;
pub use refusals::unserved;

/// Serves until it is asked to end.
pub fn serve(arguments: &ServeArguments) -> Result<u8, Failure> {
    own_process::heed_what_is_ignored();
    // Those who make the runs read it elsewhere.
    let file = arguments.config.as_deref().map(std::path::absolute);
    let file = file.transpose()?;
    let file = file.as_deref();
    let config = ServeConfig::load(file)?;
    ServedPeer::require_kernel().map_err(anyhow::Error::from)?;
    if arguments.check {
        return check(&config);
    }
    require_root()?;
    let directory = arguments.socket_dir.clone();
    let directory = directory.unwrap_or_else(service::socket_directory);
    let mut listener = Listener::bind(&directory, &config, file)?;
    let socket = directory.join(service::SOCKET).display().to_string();
    let log = ServiceLog::open()?;
    log.tell(ServiceEvent::Serving { socket: &socket });
    let served = listener.serve(&log);
    log.tell(ServiceEvent::Ending);
    listener.end(&log);
    Ok(served.map(|()| 0)?)
}

/// Prints what the configuration and this host give.
fn check(config: &ServeConfig) -> Result<u8, Failure> {
    let is_root = nix::unistd::geteuid().is_root();
    let findings = is_root.then(super::doctor::look).transpose()?;
    let host = ServingHost::look(config, findings)?;
    output::page(check::page(config, &host)?.as_bytes())?;
    if let Some(reason) = check::impossible(config)? {
        return Err(anyhow::anyhow!("a service could make no run here: {reason}").into());
    }
    match host.missing().as_slice() {
        [] => Ok(0),
        missing => Err(anyhow::anyhow!(
            "a service could make no run here, for lack of: {}; what helps stands behind each of them above",
            missing.join(", ")
        )
        .into()),
    }
}

fn require_root() -> anyhow::Result<()> {
    ensure!(
        nix::unistd::geteuid().is_root(),
        "a service makes jails for others, which takes root; start `turnkey serve` as root"
    );
    Ok(())
}
