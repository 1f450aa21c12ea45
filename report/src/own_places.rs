//! Settings that an installed program looks for where it was built to, and does not find: whoever started it did not ask for them.

use turnkey_analysis::behaviour::{is_interpreter, is_system};
use turnkey_facts::{Event, Kind};
use turnkey_policy::{AttemptKind, Rule, RuleAction};

use super::processes::ProgramWords;

/// `ENOENT`
const ABSENT: i32 = 2;

/// True when a decision of a rule on what the profile does not show is about such a look: for a path that is not there, by a program of
/// the system that runs nothing of others, and of whose words none leads there.
pub fn explain(rules: &[Rule], event: &Event, program: Option<ProgramWords<'_>>) -> bool {
    let rule = event.decision.and_then(|decision| rules.get(decision.rule));
    let (Some(rule), Some(program)) = (rule, program) else {
        return false;
    };
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

/// True for a word that has what the path is called, or ends in a directory that it is in, from wherever that is named. Who walks
/// through a directory asks for nothing that is not there.
fn may_lead(word: &[u8], path: &[u8]) -> bool {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let holds = |part: &[u8]| word.windows(part.len().max(1)).any(|one| one == part);
    let value = word.rsplit(|byte| *byte == b'=').next().unwrap_or_default();
    let parts: Vec<&[u8]> = value.split(|byte| *byte == b'/').collect();
    let begin = parts.iter().rposition(|part| *part == b"..");
    let folder = parts[begin.map_or(0, |at| at + 1)..].join(&b'/');
    let is_rooted = folder.starts_with(b"/");
    let folder = folder.strip_prefix(b"/").unwrap_or(&folder);
    let folder = folder.strip_suffix(b"/").unwrap_or(folder);
    let below = [b"/", folder, b"/"].concat();
    let mut places = path.windows(below.len());
    let is_below = match is_rooted {
        true => path.starts_with(&below),
        false => places.any(|place| place == below),
    };
    holds(name) || !folder.is_empty() && is_below
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
            "--from=/etc/gnutls/",
            "/etc/gnutls",
            "/etc/",
            "etc",
            "config",
            "-c.file=config",
            "../gnutls",
            "../../etc",
        ] {
            assert!(may_lead(word.as_bytes(), path), "{word}");
        }
        for word in [
            "-s",
            "http://127.0.0.1:80/x",
            "/etc/gnu",
            "/gnutls",
            "/workspace",
            "../clone",
            ".",
            "..",
            "/",
            "",
        ] {
            assert!(!may_lead(word.as_bytes(), path), "{word}");
        }
    }
}
