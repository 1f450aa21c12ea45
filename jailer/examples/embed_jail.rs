//! A jail inside another program: what a runner with a queue and a report of its own would write.
//! Every call of [`run`] is a jail by itself; call it from as many threads as you like.
//!
//!     cargo run --package turnkey-jailer --example embed_jail -- /usr/bin/wc -c

use std::error::Error;
use std::ffi::OsString;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use turnkey_facts::{LayerReport, Limit};
use turnkey_jailer::{Host, JailCommand, JailError, JailExit, JailNews, Plan, Running};
use turnkey_policy::{Overrides, Policy};

/// The profile of this runner. Keys that are not here come from `untrusted`.
const PROFILE: &str = r#"
schema = "turnkey.profile/v1"
name = "grader"
extends = ["untrusted"]
description = "Submissions: they read standard input and write standard output"

[limits]
memory = "128M"
wall = "10s"
output = "64K"
"#;

/// The time between two looks at what the jail uses.
const LOOK: Duration = Duration::from_millis(20);

/// The outcome of one run.
#[derive(Debug)]
pub struct RunOutcome {
    /// Standard output and error, as one.
    pub output: Vec<u8>,
    /// The limit that ended it, if one did.
    pub limit: Option<Limit>,
    /// The end of the run, what it used and changed, and what held it.
    pub exit: JailExit,
}

/// Reads the profile. A policy is plain data: read it once, share it between threads.
pub fn policy() -> Result<Policy, Box<dyn Error + Send + Sync>> {
    let read = |name: &str| match name {
        "grader.toml" => Ok(PROFILE.to_owned()),
        other => Err(format!("{other}: this program reads no files")),
    };
    Ok(turnkey_policy::load(
        "grader.toml",
        &read,
        &Overrides::default(),
    )?)
}

/// Runs one command in a jail of its own, with `input` on its standard input.
pub fn run(
    policy: &Policy,
    arguments: Vec<OsString>,
    workdir: PathBuf,
    input: Vec<u8>,
) -> Result<RunOutcome, Box<dyn Error + Send + Sync>> {
    let command = JailCommand {
        arguments,
        // Nothing of this process's environment is the program's business.
        environment: Vec::new(),
        workdir,
        ..JailCommand::default()
    };
    // Looks at the host, then plans: until here nothing is made.
    let plan = Plan::new(policy, &Host::probe(policy)?, command)?;

    let (their_input, our_input) = std::io::pipe()?;
    let (our_output, their_output) = std::io::pipe()?;
    let their_error = their_output.try_clone()?;
    let streams: [OwnedFd; 3] = [their_input.into(), their_output.into(), their_error.into()];
    // Everything that can be made without a process, then the process: confined, every layer proved
    // from inside, one step before its program. Whatever is missing is an error here.
    let held = plan.prepare(streams)?.spawn()?;
    require_proofs(held.enforcement())?;
    // Whoever watches jails by their control group takes its place now.
    let mut running = held.release()?;

    let writer = std::thread::spawn(move || feed(our_input, &input));
    let most = policy.limits.output;
    let reader = std::thread::spawn(move || collect(our_output, most));
    let limit = wait(&mut running, policy.limits.wall)?;
    // Kills what is left of the tree, so both threads come to their end.
    let exit = running.finish()?;
    let _ = writer.join();
    let output = reader
        .join()
        .map_err(|_| "the reader of the output failed")??;
    Ok(RunOutcome {
        output,
        limit,
        exit,
    })
}

/// A profile can make layers optional; this runner wants to see every one of them proved.
fn require_proofs(layers: &[LayerReport]) -> Result<(), String> {
    let weak = layers
        .iter()
        .find(|layer| layer.proof.is_none() || layer.degraded.is_some());
    weak.map_or(Ok(()), |layer| Err(format!("not as planned: {layer:?}")))
}

/// A program that does not read is no error of the runner.
fn feed(mut input: impl Write, bytes: &[u8]) {
    let _ = input.write_all(bytes);
}

/// Reads output up to the limit; what is over it meets a closed pipe.
fn collect(output: impl Read, limit: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    output.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Waits for the end, or for the first limit that is passed.
fn wait(running: &mut Running, wall: Duration) -> Result<Option<Limit>, JailError> {
    let deadline = Instant::now() + wall;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let gone = running.news_within(left.min(LOOK))? == Some(JailNews::Gone);
        let limit = running.exceeded();
        if gone || limit.is_some() {
            return Ok(limit);
        }
        if left.is_zero() {
            return Ok(Some(Limit::Wall));
        }
    }
}

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    // Before any thread is started: without privileges, the process moves into a user namespace.
    turnkey_jailer::rootless::enter()?;
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let outcome = run(
        &policy()?,
        arguments,
        std::env::current_dir()?,
        b"through the jail\n".to_vec(),
    )?;
    std::io::stdout().write_all(&outcome.output)?;
    eprintln!("{:?}, limit {:?}", outcome.exit.status, outcome.limit);
    eprintln!("{:?}", outcome.exit.usage);
    for change in &outcome.exit.changed {
        eprintln!("{change:?}");
    }
    for layer in &outcome.exit.enforcement {
        let proof = layer.proof.as_deref().unwrap_or("-");
        eprintln!("{}: {proof}", layer.layer);
    }
    Ok(())
}
