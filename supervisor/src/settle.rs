//! Settles a policy for this host and this command, once: nothing changes it afterwards.

use std::ffi::OsString;

use turnkey_jailer::{Host, JailCommand, Plan};
use turnkey_policy::Policy;

use crate::directory::RunDirectory;
use crate::required_layers::{self, Strictness};
use crate::toolchain::{NoInstallation, ToolchainNeed};
use crate::{home, missing_hint, names, sinkhole, toolchain};

/// The policy of a run, with everything in it that this host and this command decide. Nobody can change it:
///
/// ```compile_fail,E0616
/// fn loosen(settled: &mut turnkey_supervisor::SettledPolicy) {
///     settled.policy.limits.memory = u64::MAX;
/// }
/// ```
#[derive(Debug)]
pub struct SettledPolicy {
    policy: Policy,
    brought_in: Option<ToolchainNeed>,
    strictness: Strictness,
    names: anyhow::Result<()>,
}

impl SettledPolicy {
    /// Finds the toolchain of `command`, what the program's home holds and the addresses of allowed names, and takes out the layers that
    /// `strictness` does without; last, the kernel is to tell what the program asks about in vain. Names are looked up on the host; nothing
    /// is made.
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
        missing_hint::ask(&mut policy);
        Ok(SettledPolicy {
            policy,
            brought_in,
            strictness,
            names,
        })
    }

    /// The policy.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The need of the toolchain that `toolchain = "auto"` has added to it.
    pub fn brought_in(&self) -> Option<&ToolchainNeed> {
        self.brought_in.as_ref()
    }

    /// The strictness it was settled for.
    pub fn strictness(&self) -> Strictness {
        self.strictness
    }

    /// The same, and apart from it an error when names that it allows are not known here; such a policy can be shown and not run.
    pub fn apart_from_names(self) -> (SettledPolicy, anyhow::Result<()>) {
        let names = self.names;
        let settled = SettledPolicy {
            names: Ok(()),
            ..self
        };
        (settled, names)
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
