//! Running other programs: announced, and checked.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// Runs `command` to its end. Anything but success is an error that names it.
///
/// What it prints goes to our stderr: stdout belongs to the program that `run` starts.
pub fn check(command: &mut Command) -> Result<()> {
    eprintln!("$ {}", shown(command));
    let status = command
        .stdout(io::stderr())
        .status()
        .with_context(|| format!("cannot start `{}`", shown(command)))?;
    ensure!(status.success(), "`{}` failed: {status}", shown(command));
    Ok(())
}

/// Runs `command` to its end and returns what it printed on stdout. Its stderr is ours.
pub fn output(command: &mut Command) -> Result<String> {
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot start `{}`", shown(command)))?;
    let status = output.status;
    ensure!(status.success(), "`{}` failed: {status}", shown(command));
    String::from_utf8(output.stdout)
        .with_context(|| format!("`{}` printed what is not UTF-8", shown(command)))
}

/// Becomes `command`, so that its exit code, its signals and its last line are what the caller
/// sees. Returns only when that failed.
pub fn become_it(command: &mut Command) -> Result<()> {
    let error = command.exec();
    Err(error).with_context(|| format!("cannot start `{}`", shown(command)))
}

/// The cargo that runs us, or the one of the search path.
///
/// The variables in which `cargo run` has told us of our own package are not handed on: crates whose build asks for these variables, such as ring, would be
/// built again, and all that needs them, each time that another of our programs builds, or cargo is started by hand.
pub fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for (name, _) in std::env::vars_os() {
        let is_our_own = |name: &str| OF_PACKAGE.iter().any(|own| name.starts_with(own));
        if name.to_str().is_some_and(is_our_own) {
            cargo.env_remove(&name);
        }
    }
    cargo
}

/// The beginnings of the variables in which cargo tells a program of its package.
const OF_PACKAGE: [&str; 2] = ["CARGO_MANIFEST_", "CARGO_PKG_"];

/// The path of the program of that name, in the search path or where cargo installs programs.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(cargo_home().map(|home| home.join("bin")))
        .map(|folder| folder.join(name))
        .find(|candidate| candidate.is_file())
}

/// The folder of cargo's downloads and installed programs.
pub fn cargo_home() -> Option<PathBuf> {
    std::env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(std::env::home_dir()?.join(".cargo")))
}

/// The command as one would type it, with what it gets of its own by the environment.
pub fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let name = program.file_name().unwrap_or(program.as_os_str());
    let own = command
        .get_envs()
        .filter_map(|(name, value)| Some((name, value?)));
    let own = own.map(|(name, value)| format!("{}={}", name.display(), value.display()));
    let words = std::iter::once(name).chain(command.get_args());
    let words = words.map(|word| word.to_string_lossy().into_owned());
    own.chain(words).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_is_told_nothing_of_our_package() {
        let cargo = cargo();
        let mut taken = cargo.get_envs().filter(|(_, value)| value.is_none());
        assert!(
            std::env::var_os("CARGO_PKG_NAME").is_some(),
            "a test has it"
        );
        assert!(taken.any(|(name, _)| name == "CARGO_PKG_NAME"));
    }

    #[test]
    fn failure_names_the_command() {
        let error = check(Command::new("false").arg("of-course")).expect_err("false fails");
        assert!(error.to_string().contains("false of-course"), "{error}");
    }

    #[test]
    fn output_of_a_failed_command_is_not_taken() {
        let error = output(Command::new("sh").args(["-c", "echo half; exit 3"]))
            .expect_err("the status is 3");
        assert!(error.to_string().contains('3'), "{error}");
    }

    #[test]
    fn missing_program_is_an_error_and_not_found() {
        assert!(find_program("no-program-has-this-name").is_none());
        assert!(output(&mut Command::new("no-program-has-this-name")).is_err());
    }
}
