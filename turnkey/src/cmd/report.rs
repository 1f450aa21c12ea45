//! `turnkey report`: a stored report rendered again, for people, browsers and other programs.

use std::io::{Read, Write};
use std::path::Path;

use anyhow::Context;

use crate::cli::{ColourWhen, ReportArguments, ReportFormat};
use crate::failure::Failure;
use crate::{colour, output};
use turnkey_report::formats::sarif::SourceRoot;
use turnkey_report::{LARGEST, Report, Stored, escape, formats};
use turnkey_supervisor::files;
use turnkey_supervisor::files::{CallerOutput, OpenOutput};

/// Renders the report to standard output or to a file.
pub fn report(arguments: &ReportArguments) -> Result<u8, Failure> {
    let out = arguments
        .out
        .as_deref()
        .filter(|out| *out != Path::new("-"));
    let file = out.map(|out| open(out, &arguments.file)).transpose()?;
    let name = escape(arguments.file.as_os_str().as_encoded_bytes());
    let bytes = read(&arguments.file).with_context(|| format!("could not read {name}"))?;
    let stored = Stored::read(&bytes).with_context(|| format!("{name} is no report"))?;
    if let Some(words) = stored.left_out() {
        output::line(&words);
    }
    let root = arguments.source_root.as_deref().unwrap_or(Path::new(""));
    let root = escape(root.as_os_str().as_encoded_bytes());
    let page = render(
        &stored.report,
        (arguments.format, SourceRoot::new(&root)),
        colour(arguments.colour, out.is_none()),
    );
    match file {
        Some(file) => file.write(&page),
        None => output::page(&page),
    }
    .context("could not write what was rendered")?;
    Ok(0)
}

fn open(path: &Path, stored: &Path) -> anyhow::Result<OpenOutput> {
    let found = CallerOutput::find_beside(path, &[("the stored report", stored)]);
    let opened = found.and_then(|found| Ok(found.open()?));
    opened.with_context(|| format!("could not write to {}", path.display()))
}

/// The file, or of a larger one what shows that it is too large.
fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    if path != Path::new("-") {
        return files::read(path, LARGEST);
    }
    let mut bytes = Vec::new();
    let stdin = std::io::stdin().lock();
    stdin.take(LARGEST as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A file is no terminal, whatever standard output is.
fn colour(when: ColourWhen, to_stdout: bool) -> bool {
    match (when, to_stdout) {
        (ColourWhen::Auto, false) => false,
        (when, _) => colour::wanted(when, &std::io::stdout()),
    }
}

/// Into memory, which does not fail.
fn render(
    report: &Report,
    (format, root): (ReportFormat, SourceRoot<'_>),
    colour: bool,
) -> Vec<u8> {
    let mut page = Vec::new();
    let _ = match format {
        ReportFormat::Text => turnkey_report::terminal::story(report, &mut page, colour),
        ReportFormat::Json => turnkey_report::json::write(report, &mut page),
        ReportFormat::Html => page.write_all(formats::html::document(report).as_bytes()),
        ReportFormat::Sarif => {
            turnkey_report::json::write(&formats::sarif::log(report, root), &mut page)
        }
        ReportFormat::Ocsf => formats::ocsf::events(report)
            .iter()
            .try_for_each(|event| turnkey_report::json::write_line(event, &mut page)),
        ReportFormat::Profile => {
            page.write_all(formats::suggested_profile::document(report).as_bytes())
        }
        ReportFormat::Junit => page.write_all(formats::junit::document(report).as_bytes()),
    };
    page
}
