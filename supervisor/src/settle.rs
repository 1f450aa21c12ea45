//! Settles a policy for this host and this command, once: nothing changes it afterwards.

use std::ffi::OsString;
use std::path::Path;

use anyhow::Context;
use turnkey_jailer::{Host, JailCommand, Plan};
use turnkey_policy::Policy;

use crate::required_layers::{self, Strictness};
use crate::toolchain::{NoInstallation, ToolchainNeed};
use crate::{home, names, toolchain};

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
        workdir: Option<&Path>,
        strictness: Strictness,
    ) -> Result<SettledPolicy, NoInstallation> {
        let brought_in = match command.first() {
            Some(program) => toolchain::bring_in(&mut policy, program, workdir)?,
            None => None,
        };
        home::settle(&mut policy, workdir);
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
    workdir: Option<&Path>,
) -> anyhow::Result<Plan> {
    let host = Host::probe(policy)?;
    let plan = Plan::new(policy, &host, self::command(command, workdir)?)?;
    let watched = required_layers::can_be_watched(strictness, &plan.host.ids);
    Ok(watched_or_not(plan, watched))
}

/// The plan of a jail that somebody watches, or that nobody does.
pub(crate) fn watched_or_not(plan: Plan, watched: bool) -> Plan {
    if watched { plan } else { plan.unwatched() }
}

/// The command with its place: the current directory unless one is named.
fn command(arguments: &[OsString], workdir: Option<&Path>) -> anyhow::Result<JailCommand> {
    let workdir = workdir.unwrap_or(Path::new("."));
    let workdir = turnkey_jailer::paths::canonical(workdir).with_context(|| {
        let workdir = workdir.display();
        format!("could not open the working directory {workdir}; name another with --workdir DIR")
    })?;
    anyhow::ensure!(
        workdir.is_dir(),
        "the working directory {} is not a directory",
        workdir.display()
    );
    Ok(JailCommand {
        arguments: arguments.to_vec(),
        environment: std::env::vars_os().collect(),
        workdir,
    })
}
