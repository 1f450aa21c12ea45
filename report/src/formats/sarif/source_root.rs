//! Places: those of the repository relative to its root, which a code host shows; all others absolute.

use serde_json::{Value, json};

use crate::model::{Process, Report, Violation};
use crate::unescape;

/// The name by which places refer to the repository's root.
pub const ROOT: &str = "%SRCROOT%";

/// The workspace, which is the repository as the jail shows it.
const WORKSPACE: &str = "/workspace";

/// The root of the repository, as paths of a report name it.
#[derive(Clone, Copy, Debug)]
pub struct SourceRoot<'a>(&'a str);

impl<'a> SourceRoot<'a> {
    /// A directory besides the workspace; the working directory has its own path in the jail as well.
    pub fn new(directory: &'a str) -> SourceRoot<'a> {
        SourceRoot(directory.trim_end_matches('/'))
    }

    /// The bases of relative places.
    pub fn bases(self) -> Value {
        let directory = match self.0 {
            "" => WORKSPACE,
            directory => directory,
        };
        let what = "the working directory of the run";
        json!({ ROOT: { "uri": format!("file://{}/", encoded(directory)), "description": { "text": what } } })
    }

    /// The part of a path below the root; a relative one is below it. `None` for all other paths.
    pub fn below(self, path: &str) -> Option<&str> {
        let below = match path.starts_with('/') {
            false => path,
            true => [self.0, WORKSPACE].iter().find_map(|root| {
                let below = path.strip_prefix(root)?.strip_prefix('/')?;
                (!root.is_empty()).then_some(below)
            })?,
        };
        let is_plain = |part: &str| !matches!(part, "" | "..");
        let below = below.trim_start_matches("./");
        (!below.is_empty() && below.split('/').all(is_plain)).then_some(below)
    }
}

/// An escaped path as the URI of its bytes: below the root relative to it, otherwise absolute as `file:`.
pub fn artifact(path: &str, root: SourceRoot<'_>) -> Value {
    match root.below(path) {
        Some(below) => json!({ "uri": encoded(below), "uriBaseId": ROOT }),
        None if path.starts_with('/') => json!({ "uri": format!("file://{}", encoded(path)) }),
        None => json!({ "uri": encoded(path) }),
    }
}

fn encoded(path: &str) -> String {
    let mut uri = String::new();
    for byte in unescape(path) {
        match byte {
            b'/' | b'-' | b'.' | b'_' | b'~' => uri.push(char::from(byte)),
            byte if byte.is_ascii_alphanumeric() => uri.push(char::from(byte)),
            byte => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri
}

/// The file of the repository that made an attempt: the nearest one among its process and those that started it.
pub fn source<'r>(
    report: &'r Report,
    violation: &Violation,
    root: SourceRoot<'_>,
) -> Option<&'r str> {
    let row = |id: Option<u32>| {
        let mut rows = report.processes.iter();
        id.and_then(|id| rows.find(|row| row.exec_id == id))
    };
    let mut next = row(violation.process.exec_id);
    // A stored report is hostile, and its parents may go in a circle.
    for _ in 0..report.processes.len() {
        let process = next?;
        if let Some(file) = file_of(process, root) {
            return Some(file);
        }
        next = row(process.parent);
    }
    None
}

/// The file of the repository that a process executes or interprets.
fn file_of<'r>(process: &'r Process, root: SourceRoot<'_>) -> Option<&'r str> {
    let exe = process.exe.as_ref().map(|exe| exe.path.as_str());
    let own = process.script.as_deref().into_iter().chain(exe);
    let own = own.chain(interpreted(process));
    own.into_iter().find(|path| root.below(path).is_some())
}

/// The first argument that is no option, where it looks like a script's name: `python3 -u tests/run.py`.
fn interpreted(process: &Process) -> Option<&str> {
    let mut words = process.argv.iter().skip(1).map(String::as_str);
    let first = words.find(|word| !word.starts_with('-'))?;
    let (stem, ending) = first.rsplit('/').next()?.rsplit_once('.')?;
    let is_ending = !ending.is_empty() && ending.len() <= 4;
    let is_plain = ending.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let has_blank = first.contains([' ', '\\']);
    (!stem.is_empty() && is_ending && is_plain && !has_blank).then_some(first)
}
