//! `run --scan`: a look at the script that a command names, before it runs. It is told and kept, and decides nothing.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use turnkey_policy::ScanPolicy;
use turnkey_report::model::{StaticFinding, StaticGround, StaticImport, StaticLook};
use turnkey_report::{escape, redact};
use turnkey_scan::{LARGEST, Language, Scan, ScanOptions};
use turnkey_supervisor::files;

use crate::cli::RunArguments;
use crate::cmd::scan::{self, ScannedScript, text};
use crate::{colour, output};

/// The place where the jail shows the caller's directory.
const WORKSPACE: &str = "/workspace";

/// The words for a script that stands on the command line.
const AFTER_C: &str = "the text after -c";

/// The script that a command runs.
#[derive(Debug, PartialEq, Eq)]
enum Named<'c> {
    /// A text, after `-c`.
    Text(Language, &'c OsString),
    /// A file, and the language of the interpreter that was named.
    File(Option<Language>, &'c OsString),
}

/// Looks at the script and says what it saw. `None` where there is nothing to look at, which is said, too.
pub fn at(arguments: &RunArguments, policy: &ScanPolicy) -> Option<StaticLook> {
    match seen(arguments, policy) {
        Ok(script) => {
            tell(&script, arguments);
            Some(kept(&script, !arguments.no_redact))
        }
        Err(why) => {
            output::line(&format!("--scan: {why}; nothing was looked at"));
            None
        }
    }
}

fn seen(arguments: &RunArguments, policy: &ScanPolicy) -> Result<ScannedScript, String> {
    let named = named(&arguments.command).ok_or("the command names no Python or shell script")?;
    let (path, language, code) = match named {
        Named::Text(language, text) => (
            AFTER_C.to_owned(),
            Some(language),
            text.as_encoded_bytes().to_vec(),
        ),
        Named::File(language, path) => {
            let shown = escape(path.as_encoded_bytes());
            let code = files::read(&on_host(Path::new(path), arguments), LARGEST);
            let code = code.map_err(|error| format!("could not read {shown}: {error}"))?;
            (shown, language, code)
        }
    };
    let options = ScanOptions {
        language,
        allowed_imports: scan::allowed_by(policy),
    };
    let scan = turnkey_scan::scan(&path, &code, &options);
    match scan.language {
        Some(_) => Ok(ScannedScript::new(path, scan)),
        None => Err(format!("{path} is neither Python nor shell")),
    }
}

/// The script of a command: after an interpreter, or as the program itself.
fn named(command: &[OsString]) -> Option<Named<'_>> {
    let (program, arguments) = command.split_first()?;
    let Some(language) = Language::of_interpreter(&program.to_string_lossy()) else {
        let is_path = program.as_encoded_bytes().contains(&b'/');
        return is_path.then_some(Named::File(None, program));
    };
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let text = word.to_string_lossy();
        match option(&text, language) {
            Optional::Code => return words.next().map(|code| Named::Text(language, code)),
            Optional::Module => return None,
            Optional::Valued => drop(words.next()),
            Optional::Plain => {}
            Optional::No => return Some(Named::File(Some(language), word)),
        }
    }
    None
}

/// A word of an interpreter's command.
enum Optional {
    /// The next word is code.
    Code,
    /// The next word is a module, or the code comes by standard input.
    Module,
    /// The next word belongs to it.
    Valued,
    Plain,
    No,
}

fn option(word: &str, language: Language) -> Optional {
    let letters = match word.strip_prefix('-') {
        None => return Optional::No,
        Some("" | "s") => return Optional::Module,
        Some(letters) => letters,
    };
    match (language, letters) {
        (_, long) if long.starts_with('-') => Optional::Plain,
        (Language::Python, "m") => Optional::Module,
        (Language::Python, "W" | "X") | (Language::Shell, "o" | "O") => Optional::Valued,
        (_, letters) if letters.ends_with('c') => Optional::Code,
        _ => Optional::Plain,
    }
}

/// The file that the jail will show by this path.
fn on_host(path: &Path, arguments: &RunArguments) -> PathBuf {
    let directory = &arguments.directory;
    let workdir = directory.workdir.as_deref().unwrap_or(Path::new("."));
    if let Ok(below) = path.strip_prefix(WORKSPACE) {
        return workdir.join(below);
    }
    match (path.is_absolute(), &directory.chdir) {
        (true, _) => path.to_owned(),
        (false, Some(start)) => workdir.join(start).join(path),
        (false, None) => workdir.join(path),
    }
}

fn tell(script: &ScannedScript, arguments: &RunArguments) {
    if arguments.quiet {
        return;
    }
    let mut page = b"turnkey: by its text alone, before it runs: ".to_vec();
    let is_coloured = colour::wanted(arguments.colour, &std::io::stderr());
    // Into memory, which does not fail.
    let _ = text::write_script(script, &mut page, is_coloured);
    output::text(&redacted(
        &String::from_utf8_lossy(&page),
        !arguments.no_redact,
    ));
}

fn redacted(text: &str, redacts: bool) -> String {
    match redacts {
        true => redact::text(text).into_owned(),
        false => text.to_owned(),
    }
}

/// As the report keeps it.
fn kept(script: &ScannedScript, redacts: bool) -> StaticLook {
    let Scan {
        language,
        score,
        findings,
        left_out,
        imports,
        ..
    } = &script.scan;
    let shown = |text: &str| redacted(&escape(text.as_bytes()), redacts);
    let finding = |finding: &turnkey_scan::Finding| StaticFinding {
        rule: finding.rule.to_owned(),
        line: finding.line,
        column: finding.column,
        technique: finding.technique.map(str::to_owned),
        weight: finding.weight,
        says: shown(&finding.says),
    };
    let import = |import: &turnkey_scan::Import| StaticImport {
        module: shown(&import.module),
        line: import.line,
    };
    StaticLook {
        stands_on: StaticGround::Text,
        of: script.path.clone(),
        language: language.map_or("", Language::name).to_owned(),
        score: *score,
        findings: findings.iter().map(finding).collect(),
        findings_left_out: *left_out,
        imports: imports.iter().map(import).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(words: &str) -> Vec<OsString> {
        words.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn the_script_of_a_command_is_found() {
        for (words, file) in [
            ("python3 x.py -c", Some("x.py")),
            ("python3 -u -W ignore x.py", Some("x.py")),
            ("/bin/sh -e x.sh", Some("x.sh")),
            ("bash -o pipefail x.sh", Some("x.sh")),
            ("./x", Some("./x")),
            ("python3 -m http.server", None),
            ("python3 -", None),
            ("ls -l", None),
        ] {
            let words = command(words);
            let is = match named(&words) {
                Some(Named::File(_, file)) => Some(file.to_string_lossy().into_owned()),
                _ => None,
            };
            assert_eq!(is.as_deref(), file, "{words:?}");
        }
        let code = command("sh -ec id");
        assert_eq!(named(&code), Some(Named::Text(Language::Shell, &code[2])));
    }
}
