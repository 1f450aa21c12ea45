//! The machine that runs are made on.

use std::ffi::OsStr;

use turnkey_report::Host;

/// The machine, as a report names it.
///
/// # Errors
/// When the kernel does not say.
pub fn host() -> anyhow::Result<Host> {
    let uname = nix::sys::utsname::uname()?;
    let text = |field: &OsStr| field.to_string_lossy().into_owned();
    Ok(Host {
        kernel: text(uname.release()),
        arch: text(uname.machine()),
    })
}
