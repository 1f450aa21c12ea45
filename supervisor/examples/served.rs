//! A runner without privileges: has the service of this host make a run, and reads its report.
//!
//!     cargo run --package turnkey-supervisor --example served -- /usr/bin/cat /etc/shadow

use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use turnkey_report::{Report, Stored};
use turnkey_supervisor::service::{self, RunOrder};

/// Has the service with its socket in `directory` run `command` in the current directory, with these two outputs; the answer is the exit
/// code of `turnkey run` and the report. Signals to this process are the run's from here on: call it before the first thread.
#[expect(
    clippy::disallowed_methods,
    reason = "a program of its own, which opens what is its caller's"
)]
pub fn tool_call(
    directory: &Path,
    command: impl IntoIterator<Item = OsString>,
    [stdout, stderr]: [BorrowedFd<'_>; 2],
) -> anyhow::Result<(u8, Report)> {
    // The words of `turnkey run`; the service has a list of those that it does not do.
    let options = ["run", "--no-tty", "--quiet", "--memory", "128M", "--"].map(OsString::from);
    let order = RunOrder {
        arguments: options.into_iter().chain(command).collect(),
        variables: std::env::vars_os().collect(),
    };
    let null = std::fs::File::open("/dev/null")?;
    let here = std::fs::File::open(".")?;
    let descriptors = [null.as_fd(), stdout, stderr, here.as_fd()];
    let end = service::run(directory, order, &descriptors, false, |reason| {
        eprintln!("it waits: {reason}");
    })?;
    Ok((end.code, Stored::read(&end.report)?.report))
}

#[allow(
    dead_code,
    reason = "the test that runs this example has a `main` of its own"
)]
fn main() -> anyhow::Result<()> {
    let command = std::env::args_os().skip(1);
    let (stdout, stderr) = (std::io::stdout(), std::io::stderr());
    let outputs = [stdout.as_fd(), stderr.as_fd()];
    let (code, report) = tool_call(&service::socket_directory(), command, outputs)?;
    eprintln!("{:?}, exit code {code}", report.verdict);
    std::process::exit(code.into())
}
