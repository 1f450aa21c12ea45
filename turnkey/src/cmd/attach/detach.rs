//! `turnkey attach --detach`: the same command once more in the background, and an answer when it watches.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

use anyhow::Context;

use super::WATCHING;
use crate::output;

/// Starts this command anew with `--detached`, and waits until it watches or has failed; its status
/// is the answer then.
pub fn detach() -> anyhow::Result<u8> {
    let own = std::env::current_exe().context("turnkey does not find itself")?;
    let arguments = std::env::args_os().skip(1);
    let again = arguments.map(|argument| match argument == "--detach" {
        true => "--detached".into(),
        false => argument,
    });
    let mut command = Command::new(own);
    command
        .args(again)
        .stdin(Stdio::null())
        // Whoever waits for the end of this process may wait for its pipes as well.
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut child = command
        .spawn()
        .context("turnkey could not be started once more")?;
    first_line(&mut child)
}

/// Passes on what it says, until it watches.
fn first_line(child: &mut Child) -> anyhow::Result<u8> {
    let errors = child.stderr.take().context("the pipe to it is gone")?;
    let mut errors = BufReader::new(errors);
    let mut line = String::new();
    while errors.read_line(&mut line)? != 0 {
        output::text(&line);
        if line.starts_with(WATCHING) {
            return Ok(0);
        }
        line.clear();
    }
    let mut rest = Vec::new();
    errors.read_to_end(&mut rest)?;
    let status = child.wait().context("it could not be waited for")?;
    Ok(status
        .code()
        .and_then(|code| u8::try_from(code).ok())
        .unwrap_or(crate::FAILED))
}
