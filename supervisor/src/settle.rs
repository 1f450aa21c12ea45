//! Settles a policy for this host and this command, once: nothing changes it afterwards.

use std::ffi::OsString;

use turnkey_jailer::{Host, JailCommand, Plan};
use turnkey_policy::Policy;

use crate::directory::RunDirectory;
use crate::required_layers::{self, Strictness};
use crate::toolchain::{NoInstallation, ToolchainNeed};
use crate::{home, names, sinkhole, toolchain};

/// The policy of a run, with everything in it that this host and this command decide.
#[derive(Debug)]
pub struct SettledPolicy {
    /// The policy.
    pub policy: Policy,
    /// The need of the toolchain that `toolchain = "auto"` has added to it.
    pub brought_in: Option<ToolchainNeed>,
    /// The strictness it was settled for.
    pub strictness: Strictness,
    /// An error when names that it allows are not known here; such a policy can be shown and not run.
    pub names: anyhow::Result<()>,
}

impl SettledPolicy {
    /// Finds the toolchain of `command`, what the program's home holds and the addresses of allowed names, and takes out the layers that
    /// `strictness` does without. Names are looked up on the host; nothing is made.
    ///
    /// # Errors
    /// When the command's toolchain would be more than an installation.
    pub fn new(
        mut policy: Policy,
        command: &[OsString],
        directory: &RunDirectory,
        strictness: Strictness,
    ) -> Result<SettledPolicy, NoInstallation> {
        let brought_in = match command.first() {
            Some(program) => toolchain::bring_in(&mut policy, program, directory)?,
            None => None,
        };
        policy.filesystem.names = directory.own_paths(&policy, command);
        home::settle(&mut policy, directory);
        sinkhole::settle(&mut policy);
        let names = names::resolve(&mut policy);
        required_layers::leave_out(&mut policy, strictness);
        Ok(SettledPolicy {
            policy,
            brought_in,
            strictness,
            names,
        })
    }
}

/// Plans a run of `command` under a settled policy on this host; nothing is made yet.
///
/// # Errors
/// When the host cannot be looked at, or cannot give what the policy names.
pub fn plan(
    policy: &Policy,
    strictness: Strictness,
    command: &[OsString],
    directory: &RunDirectory,
) -> anyhow::Result<Plan> {
    anyhow::ensure!(
        !policy.makes_no_jail(),
        "the profile `{}` is for `turnkey attach`: it asks for a monitor and for no jail; choose another one, as \
         `turnkey profiles` lists them",
        policy.name
    );
    let host = Host::probe(policy)?;
    let plan = Plan::new(policy, &host, self::command(command, directory)?)?;
    let watched = required_layers::can_be_watched(strictness, &plan.host.ids);
    Ok(watched_or_not(plan, watched))
}

/// The plan of a jail that somebody watches, or that nobody does.
pub(crate) fn watched_or_not(plan: Plan, watched: bool) -> Plan {
    if watched { plan } else { plan.unwatched() }
}

/// The command with its place.
fn command(arguments: &[OsString], directory: &RunDirectory) -> anyhow::Result<JailCommand> {
    let environment = directory.environment.iter();
    let environment = environment.map(|(name, value)| (name.clone(), value.clone()));
    Ok(JailCommand {
        arguments: arguments.to_vec(),
        environment: environment.collect(),
        workdir: directory.canonical()?,
        start: directory.start()?,
    })
}
