//! `turnkey scan`: what scripts would do, by their text alone. Nothing is run, and nothing is kept from running.

mod gather;
mod page;
mod plugin;
mod proposal;
mod sarif;
pub mod text;

use anyhow::Context;
use turnkey_policy::{Overrides, ScanPolicy};
use turnkey_report::json;
use turnkey_scan::{Language, Scan, ScanOptions};
use turnkey_supervisor::files;

use crate::cli::{ScanArguments, ScanLanguage};
use crate::failure::Failure;
use crate::{colour, output};
use gather::{Gathered, LeftOut, Source};
use plugin::PluginWord;

/// The exit status when a script has the score that was named.
const TOO_GRAVE: u8 = 1;

/// A script that was looked at.
pub struct ScannedScript {
    /// The script's path, escaped; `-` for standard input.
    pub path: String,
    /// The findings in it, and the rest of what its text tells.
    pub scan: Scan,
    /// The command that runs it in a fitting jail.
    command: Option<String>,
    /// The words of other scanners.
    others: Vec<PluginWord>,
}

impl ScannedScript {
    /// A script whose command is there already.
    pub fn new(path: String, scan: Scan) -> Self {
        ScannedScript {
            path,
            scan,
            command: None,
            others: Vec::new(),
        }
    }

    /// The highest score that anybody gives it.
    fn score(&self) -> u32 {
        let others = self.others.iter().map(|word| word.score);
        others.fold(self.scan.score, u32::max)
    }
}

/// All that was looked at, and what was not.
struct Scanned {
    scripts: Vec<ScannedScript>,
    left_out: LeftOut,
}

impl Scanned {
    /// A command of `--with` that gave no answer, and on which script.
    fn failed(&self) -> Option<(String, &str)> {
        self.scripts.iter().find_map(|script| {
            let failed = script.others.iter().find(|word| word.failed.is_some())?;
            Some((plugin::shown(&failed.by), script.path.as_str()))
        })
    }

    fn score(&self) -> u32 {
        self.scripts
            .iter()
            .map(|script| script.scan.score)
            .max()
            .unwrap_or(0)
    }
}

/// Looks at the scripts and prints what they would do to standard output.
pub fn scan(arguments: &ScanArguments) -> Result<u8, Failure> {
    let options = ScanOptions {
        language: arguments.language.map(language),
        allowed_imports: match &arguments.allowed_imports {
            Some(given) => Some(given.clone()),
            None => of_profile(arguments)?,
        },
    };
    let Gathered {
        sources,
        left_out,
        mut failed,
    } = gather::gather(&arguments.paths, options.language);
    if failed.len() == arguments.paths.len() && failed.len() == 1 {
        // There is nothing to show.
        return Err(failed.remove(0).into());
    }
    let scripts = sources
        .into_iter()
        .map(|source| looked_at(source, arguments, &options));
    let scanned = Scanned {
        scripts: scripts.collect(),
        left_out,
    };
    let page = render(arguments, &scanned).context("could not render what was found")?;
    output::page(&page).context("could not write what was found")?;
    if let Some((by, path)) = scanned.failed() {
        let message = format!("{by} failed on {path}, which the page tells of");
        return Err(anyhow::Error::msg(message).into());
    }
    if let Some(last) = failed.pop() {
        for error in failed {
            output::lines(&turnkey_supervisor::advice::explain(&error));
        }
        return Err(last.into());
    }
    let is_grave = arguments.fail_at.is_some_and(|at| {
        let mut scripts = scanned.scripts.iter();
        // What was not read, or not to its end, may hold anything.
        scripts.any(|script| script.score() >= at || !script.scan.whole)
            || gather::UNKNOWN
                .iter()
                .any(|why| scanned.left_out.contains_key(why))
    });
    Ok(if is_grave { TOO_GRAVE } else { 0 })
}

/// The modules that the profile allows, where one is named.
fn of_profile(arguments: &ScanArguments) -> Result<Option<Vec<String>>, Failure> {
    let Some(profile) = &arguments.profile else {
        return Ok(None);
    };
    let policy = turnkey_policy::load(profile, &files::read_text, &Overrides::default())
        .map_err(|error| Failure::Profile(Box::new(error)))?;
    Ok(allowed_by(&policy.scan))
}

/// The modules that a policy allows; `None`: all.
pub fn allowed_by(policy: &ScanPolicy) -> Option<Vec<String>> {
    let allowed: Vec<String> = policy.allowed_imports.iter().cloned().collect();
    (!allowed.is_empty()).then_some(allowed)
}

fn looked_at(source: Source, arguments: &ScanArguments, options: &ScanOptions) -> ScannedScript {
    let scan = turnkey_scan::scan(&source.path, &source.code, options);
    let command = proposal::command(&source.path, &scan);
    let ask = |command: &String| plugin::ask(command, &source);
    let others = arguments.with.iter().map(ask).collect();
    ScannedScript {
        path: source.path,
        scan,
        command,
        others,
    }
}

fn render(arguments: &ScanArguments, scanned: &Scanned) -> std::io::Result<Vec<u8>> {
    let mut page = Vec::new();
    if arguments.json {
        json::write(&page::page(scanned), &mut page)?;
    } else if arguments.sarif {
        json::write(&sarif::log(scanned), &mut page)?;
    } else {
        let colour = colour::wanted(arguments.colour, &std::io::stdout());
        text::write(scanned, &mut page, colour)?;
    }
    Ok(page)
}

fn language(language: ScanLanguage) -> Language {
    match language {
        ScanLanguage::Python => Language::Python,
        ScanLanguage::Shell => Language::Shell,
    }
}

#[cfg(test)]
mod tests {
    use turnkey_report::formats::attack;

    #[test]
    fn every_technique_of_a_rule_has_a_name() {
        for rule in turnkey_scan::rule::ALL {
            let technique = rule.technique.unwrap_or("T1059");
            assert_ne!(attack::name(technique), technique, "{}", rule.id);
        }
    }
}
