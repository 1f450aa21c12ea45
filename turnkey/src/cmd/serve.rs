//! `turnkey serve`: makes runs for callers without privileges.

mod config;
mod counters;
mod listener;
mod log;
mod maker;
mod queue;
mod run_maker;

use anyhow::ensure;
use turnkey_supervisor::service::{self, ServedPeer};

use crate::cli::ServeArguments;
use crate::failure::Failure;
use crate::output;
use config::ServeConfig;
use listener::Listener;
use log::{ServiceEvent, ServiceLog};
pub use maker::{make, unserved};

/// Serves until it is asked to end.
pub fn serve(arguments: &ServeArguments) -> Result<u8, Failure> {
    // Those who make the runs read it elsewhere.
    let file = arguments.config.as_deref().map(std::path::absolute);
    let file = file.transpose()?;
    let file = file.as_deref();
    let config = ServeConfig::load(file)?;
    ServedPeer::require_kernel().map_err(anyhow::Error::from)?;
    if arguments.check {
        output::page(page(&config).as_bytes())?;
        return Ok(0);
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

fn require_root() -> anyhow::Result<()> {
    ensure!(
        nix::unistd::geteuid().is_root(),
        "a service makes jails for others, which takes root; start `turnkey serve` as root"
    );
    Ok(())
}

/// The configuration as it holds, in the form of its file.
fn page(config: &ServeConfig) -> String {
    let list = |names: &[String]| {
        let names: Vec<_> = names.iter().map(|name| format!("{name:?}")).collect();
        format!("[{}]", names.join(", "))
    };
    let mut page = format!(
        "group = {:?}\nmax_running = {}\nmax_running_per_user = {}\nqueue = {}\nready = {}\nprofiles = {}\nnetworks = {}\nwrite = {}\n\n[limits]\n",
        config.group,
        config.max_running,
        config.max_running_per_user,
        config.queue,
        config.ready,
        list(&config.profiles),
        list(&config.networks),
        config.write,
    );
    let line = |(name, text): (&str, &str)| format!("{name} = {text:?}\n");
    page.extend(config.limits.named().map(line));
    page.push_str("\n[per_user]\n");
    page.extend(config.per_user.named().map(line));
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_is_a_configuration() {
        let config = ServeConfig::default();
        let again: ServeConfig = toml::from_str(&page(&config)).unwrap();
        assert_eq!(again, config);
    }
}
