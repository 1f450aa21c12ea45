//! Settings that an installed program looks for where it was built to, and does not find: whoever started it did not ask for them.

use turnkey_analysis::behaviour::{is_interpreter, is_system};
use turnkey_facts::{Event, Kind};
use turnkey_policy::{AttemptKind, Rule, RuleAction};

use super::processes::ProgramWords;

/// `ENOENT`
const ABSENT: i32 = 2;

/// True when a decision of a rule on what the profile does not show is about such a look: for a path that is not there, by a program of
/// the system that runs nothing of others, and of whose words none leads there.
pub fn explain(rule: &Rule, event: &Event, program: &ProgramWords<'_>) -> bool {
    let path = match &event.kind {
        Kind::Open {
            raw, errno: ABSENT, ..
        } => raw.path(),
        Kind::Change {
            on: AttemptKind::Stat,
            object,
            errno: ABSENT,
            ..
        } => object.path(),
        _ => return false,
    };
    let is_its_own = is_system(program.exe) && !is_interpreter(program.exe);
    let mut words = program.argv.iter().skip(1);
    rule.hidden
        && rule.action == RuleAction::Log
        && is_its_own
        && !words.any(|word| may_lead(word, &path))
}

/// True for a word that names the path, or a directory that it is in, or what it is called; or that nobody can say it of.
fn may_lead(word: &[u8], path: &[u8]) -> bool {
    let holds = |part: &[u8]| word.windows(part.len().max(1)).any(|one| one == part);
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let folders = path.iter().enumerate().skip(1);
    let mut folders = folders.filter(|(_, byte)| **byte == b'/');
    let is_below = folders.any(|(end, _)| {
        let folder = &path[..end];
        word.ends_with(folder) || word.ends_with(&[folder, b"/"].concat())
    });
    is_below || holds(name) || holds(b"..") || word.ends_with(b"/") && word.len() == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_leads_to_a_path_is_known() {
        let path = b"/etc/gnutls/config";
        for word in [
            "/etc/gnutls/config",
            "--file=/etc/gnutls/config",
            "/etc/gnutls",
            "/etc/",
            "/",
            "config",
            "-c.file=config",
            "../gnutls",
        ] {
            assert!(may_lead(word.as_bytes(), path), "{word}");
        }
        for word in ["-s", "http://127.0.0.1:80/x", "/etc/gnu", "/workspace", ""] {
            assert!(!may_lead(word.as_bytes(), path), "{word}");
        }
    }
}
