//! `turnkey completions`, `man` and `version`: what packages carry beside the command, made from the command line
//! itself, so that neither names a flag that is not there.

use std::path::Path;

use anyhow::Context;
use clap::CommandFactory;

use crate::cli::{CommandLine, CompletionsArguments, ManArguments};
use crate::failure::Failure;
use crate::output;
use turnkey_supervisor::files::CallerOutput;

const NAME: &str = "turnkey";

/// Prints the completions of one shell.
pub fn completions(arguments: &CompletionsArguments) -> Result<u8, Failure> {
    let mut page = Vec::new();
    clap_complete::generate(
        arguments.shell,
        &mut CommandLine::command(),
        NAME,
        &mut page,
    );
    output::page(&page).context("could not write the completions")?;
    Ok(0)
}

/// Prints the page of turnkey, or writes that and one of each command.
pub fn man(arguments: &ManArguments) -> Result<u8, Failure> {
    let pages = pages().context("could not make the manual pages")?;
    match &arguments.directory {
        Some(directory) => write(directory, &pages)?,
        None => {
            let main = pages.first().map_or(&[][..], |(_, page)| page);
            output::page(main).context("could not write the manual page")?;
        }
    }
    Ok(0)
}

/// Prints what `--version` prints.
pub fn version() -> Result<u8, Failure> {
    let line = CommandLine::command().render_version();
    output::page(line.as_bytes()).context("could not write the version")?;
    Ok(0)
}

/// Every page with the name of its file, that of turnkey itself first.
fn pages() -> std::io::Result<Vec<(String, Vec<u8>)>> {
    // `help` is a command of clap's own, which says what these pages say.
    let mut command = CommandLine::command().disable_help_subcommand(true);
    // Only then does a command know that it is one of turnkey's.
    command.build();
    let mut pages = Vec::new();
    let mut open = vec![&command];
    while let Some(command) = open.pop() {
        let page = clap_mangen::Man::new(command.clone());
        let mut text = Vec::new();
        page.render(&mut text)?;
        pages.push((page.get_filename(), text));
        open.extend(command.get_subcommands());
    }
    Ok(pages)
}

fn write(directory: &Path, pages: &[(String, Vec<u8>)]) -> anyhow::Result<()> {
    let place = || directory.display().to_string();
    for (name, page) in pages {
        let written = CallerOutput::find(&directory.join(name)).and_then(CallerOutput::open);
        let written = written.and_then(|file| file.write(page));
        written.with_context(|| format!("could not write {name} to {}", place()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_page() {
        let pages = pages().unwrap();
        let names: Vec<&str> = pages.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names[0], "turnkey.1");
        for name in ["turnkey-run.1", "turnkey-monitor-load.1", "turnkey-man.1"] {
            assert!(names.contains(&name), "{name} in {names:?}");
        }
    }
}
