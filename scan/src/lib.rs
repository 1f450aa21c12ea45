//! A look at scripts: their acts, by the text alone. Bytes in, findings out: nothing is run, opened or asked for.
//!
//! `python` and `shell` each read a language: they fold constants, follow what a variable holds, and tell the `judge` what is
//! done with it. The judge alone knows the rules, so that `open("/etc/shadow")` and `cat /etc/shadow` come to the same.

mod bounded;
mod codec;
mod decode;
mod expand;
mod judge;
mod language;
mod place;
mod python;
pub mod rule;
mod shell;
mod value;

pub use bounded::{LARGEST, STEPS};
pub use judge::{Finding, Import, Needs};
pub use language::Language;

use judge::Judge;

/// Options of a look.
#[derive(Clone, Debug, Default)]
pub struct ScanOptions {
    /// The language, where the caller knows it.
    pub language: Option<Language>,
    /// The modules that may be imported; `None`: all.
    pub allowed_imports: Option<Vec<String>>,
}

/// All that the text of one script tells.
#[derive(Clone, Debug, Default)]
pub struct Scan {
    /// The language that it was read as.
    pub language: Option<Language>,
    /// False where something of the text was not looked at, as [`rule::UNREAD`] say.
    pub whole: bool,
    /// From 0 to 99: how little there is left to doubt that it is risky.
    pub score: u32,
    /// Gravest first.
    pub findings: Vec<Finding>,
    /// Findings of the same kinds that are not listed.
    pub left_out: usize,
    /// The modules that it imports, each once. None of them is a finding by itself.
    pub imports: Vec<Import>,
    /// The wants of the script from a profile.
    pub needs: Needs,
}

/// Looks at one script. `name` is its file name, by which its language is known where its first line does not tell it.
pub fn scan(name: &str, code: &[u8], options: &ScanOptions) -> Scan {
    let language = options.language.or_else(|| Language::of(name, code));
    let options = options.clone();
    let scanned = match language {
        Some(language) => bounded::looked_at(code, move |text| {
            let mut judge = Judge::new(options.allowed_imports);
            language.read(text, &mut judge);
            judge.finish()
        }),
        None => Scan {
            whole: true,
            ..Scan::default()
        },
    };
    Scan {
        language,
        ..scanned
    }
}
