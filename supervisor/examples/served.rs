//! A runner without privileges: has the service of this host make a run, and reads its report.
//!
//!     cargo run --package turnkey-supervisor --example served -- /usr/bin/cat /etc/shadow

use std::ffi::OsString;
use std::os::fd::AsFd;

use turnkey_report::Stored;
use turnkey_supervisor::service::{self, RunOrder};

#[expect(
    clippy::disallowed_methods,
    reason = "a program of its own, which opens what is its caller's"
)]
fn main() -> anyhow::Result<()> {
    // The words of `turnkey run`; the service has a list of those that it does not do.
    let options = ["run", "--no-tty", "--quiet", "--memory", "128M", "--"].map(OsString::from);
    let order = RunOrder {
        arguments: options
            .into_iter()
            .chain(std::env::args_os().skip(1))
            .collect(),
        variables: std::env::vars_os().collect(),
    };
    let null = std::fs::File::open("/dev/null")?;
    let here = std::fs::File::open(".")?;
    let (stdout, stderr) = (std::io::stdout(), std::io::stderr());
    let descriptors = [null.as_fd(), stdout.as_fd(), stderr.as_fd(), here.as_fd()];
    // Signals to this process are the run's from here on: call it before the first thread.
    let end = service::run(&service::socket_directory(), order, &descriptors)?;
    let report = Stored::read(&end.report)?.report;
    eprintln!("{:?}, exit code {}", report.verdict, end.code);
    std::process::exit(end.code.into())
}
