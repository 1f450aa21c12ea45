//! A jail inside another program: what a runner that brings its own watching would write.
//!
//!     cargo run --package turnkey-jailer --example embed -- /usr/bin/id

use std::os::fd::OwnedFd;

use turnkey_jailer::{Command, Host, News, Plan};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Before any thread is started: without privileges, the process moves into a user namespace.
    turnkey_jailer::rootless::enter()?;
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let no_files = |path: &str| Err(format!("{path}: this program reads no profiles"));
    let policy = turnkey_policy::load(
        "untrusted",
        &no_files,
        &turnkey_policy::Overrides::default(),
    )?;
    let host = Host::probe(&policy)?;
    let command = Command {
        arguments,
        environment: std::env::vars_os().collect(),
        workdir: std::env::current_dir()?,
    };
    let plan = Plan::new(&policy, &host, command)?;
    let inherit = |stream: std::os::fd::BorrowedFd<'_>| stream.try_clone_to_owned();
    let streams: [OwnedFd; 3] = [
        inherit(std::os::fd::AsFd::as_fd(&std::io::stdin()))?,
        inherit(std::os::fd::AsFd::as_fd(&std::io::stdout()))?,
        inherit(std::os::fd::AsFd::as_fd(&std::io::stderr()))?,
    ];
    let held = plan.prepare(streams)?.spawn()?;
    for layer in held.enforcement() {
        eprintln!(
            "{:?}: {}",
            layer.layer,
            layer.proof.as_deref().unwrap_or("-")
        );
    }
    let mut running = held.release()?;
    while running.news()? != News::Gone {}
    let exit = running.finish()?;
    eprintln!("{:?} {:?} {:?}", exit.status, exit.usage, exit.changed);
    Ok(())
}
