//! A whole watched run inside another program: jail, monitor and report, as `turnkey run` has them, under a profile and
//! with outputs of the caller's own.
//!
//!     cargo run --package turnkey-supervisor --example embed -- /usr/bin/cat /etc/shadow

use std::ffi::OsString;
use std::sync::{Arc, Mutex, PoisonError};

use turnkey_facts::Event;
use turnkey_policy::Overrides;
use turnkey_report::Report;
use turnkey_supervisor::{
    RunObserver, RunPlace, RunRequest, SettledPolicy, Sink, Strictness, enter, run,
};

/// The rules of this runner. Keys that are not here come from `untrusted`.
const PROFILE: &str = r#"
schema = "turnkey.profile/v1"
name = "tool"
extends = ["untrusted"]
description = "Tool calls: they see the system's files and no network"

[limits]
wall = "10s"
"#;

/// The result of one run.
pub struct Outcome {
    /// The report, as `turnkey run --report` writes it.
    pub report: Report,
    /// Standard output and error, in the order in which they came.
    pub output: Vec<u8>,
    /// Events that the run had.
    pub events: u64,
}

/// Counts what happens, and tells what the caller should know.
#[derive(Default)]
struct Follower {
    events: u64,
}

impl RunObserver for Follower {
    fn notice(&mut self, line: &str) {
        eprintln!("embed: {line}");
    }

    fn event(&mut self, event: &Event) {
        self.events += 1 + event.repeated;
    }
}

/// Runs `command` in the current directory. `entered` comes from [`enter`], called before this process had a second thread.
pub fn tool_call(command: Vec<OsString>, entered: RunPlace) -> anyhow::Result<Outcome> {
    let read = |name: &str| match name {
        "tool.toml" => Ok(PROFILE.to_owned()),
        other => Err(format!("{other}: this program reads no files")),
    };
    let policy = turnkey_policy::load("tool.toml", &read, &Overrides::default())?;
    let kept = Arc::new(Mutex::new(Vec::new()));
    let request = RunRequest {
        output: [keeper(&kept), keeper(&kept)],
        ..RunRequest::new(command)
    };
    let settled = SettledPolicy::new(
        policy,
        &request.command,
        &request.directory,
        Strictness::Whole,
    )?;
    let mut follower = Follower::default();
    let done = run(request, settled, entered, &mut follower)?;
    let output = std::mem::take(&mut *kept.lock().unwrap_or_else(PoisonError::into_inner));
    Ok(Outcome {
        report: done.report,
        output,
        events: follower.events,
    })
}

/// Keeps what the program writes. A profile bounds it: `limits.output`.
fn keeper(kept: &Arc<Mutex<Vec<u8>>>) -> Sink {
    let kept = Arc::clone(kept);
    Arc::new(move |bytes| {
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend_from_slice(bytes);
        Ok(())
    })
}

#[allow(
    dead_code,
    clippy::print_stdout,
    reason = "the test that runs this example has a `main` of its own"
)]
fn main() -> anyhow::Result<()> {
    let entered = enter();
    let command: Vec<OsString> = std::env::args_os().skip(1).collect();
    anyhow::ensure!(!command.is_empty(), "name a command");
    let outcome = tool_call(command, entered)?;
    print!("{}", String::from_utf8_lossy(&outcome.output));
    for violation in &outcome.report.violations {
        println!("rule {}: {:?}", violation.rule, violation.path);
    }
    println!(
        "{:?} after {} events, exit code {}",
        outcome.report.verdict,
        outcome.events,
        outcome.report.exit_code()
    );
    Ok(())
}
