//! What has to be under `enforce`: a forbidden attempt is the last thing that its thread does, and the jail is dead.

use crate::compare::line;
use crate::encode::{Encoded, Placed};
use crate::jail::{FORBIDDEN, Outcome};
use crate::shape::{Class, shape};
use crate::stops::Looked;
use crate::trace::Seen;
use crate::width::int;

/// turnkey's status when a rule has killed the jail.
const KILLED: i32 = 121;

/// What went on although a rule forbids it; nothing when nothing did.
pub fn escape(outcome: &Outcome) -> Option<String> {
    let mut is_forbidden = false;
    for (thread, calls) in &outcome.calls {
        let looked = outcome.stopped.as_ref().and_then(|it| it.get(thread));
        let forbidden = calls
            .iter()
            .position(|seen| names(&outcome.encoded, seen) || reaches(seen, looked));
        let Some(at) = forbidden else {
            continue;
        };
        is_forbidden = true;
        // The end of a call that was begun before is no further one.
        if let Some(after) = calls[at + 1..].iter().find(|seen| seen.args.is_some()) {
            return Some(format!(
                "thread {thread}: after {} comes {}",
                line(&calls[at]),
                line(after)
            ));
        }
    }
    if is_forbidden && outcome.code != Some(KILLED) {
        return Some(format!(
            "turnkey ended with {:?}, not {KILLED}",
            outcome.code
        ));
    }
    if outcome.code == Some(KILLED)
        && !outcome
            .events
            .iter()
            .any(|event| event["decision"]["action"] == "kill")
    {
        return Some("the jail was killed, and no event says why".to_owned());
    }
    None
}

/// Whether a call names what is forbidden, by the letters of a whole path: trying is enough.
fn names(encoded: &Encoded, seen: &Seen) -> bool {
    let (Some(args), Some(result)) = (seen.args, seen.result) else {
        return false;
    };
    let shape = shape(seen.number);
    let is_text = |index: usize| match encoded.at(args[index]) {
        Some(Placed::Text(text)) => is_forbidden(text),
        _ => false,
    };
    match shape.class {
        Class::Open if seen.number != 437 => {
            let flags = match seen.number {
                2 => args[1],
                257 => args[2],
                _ => 1,
            };
            let flags = int(flags);
            // Which of both ways the third access mode is, nobody says.
            let is_way = flags & libc::O_PATH == 0 && flags & libc::O_ACCMODE != libc::O_ACCMODE;
            is_way && shape.texts().any(is_text)
        }
        // What the kernel found no name in, did nothing.
        Class::Change("link" | "rename" | "unlink") => {
            let is_plain = seen.number != 265 || args[4] & 0x1400 == 0;
            is_plain && result != -14 && shape.texts().any(is_text)
        }
        _ => false,
    }
}

/// Whether a call has opened what is forbidden, by whatever name: what stands in it tells.
fn reaches(seen: &Seen, looked: Option<&Vec<Looked>>) -> bool {
    let is_this = |looked: &&Looked| {
        looked.number == seen.number
            && looked.result == seen.result
            && Some(looked.args) == seen.args
    };
    let looked = looked.into_iter().flatten().find(is_this);
    let opened = looked.and_then(|it| it.object.as_ref());
    let flags = match seen.number {
        2 => seen.args.map(|args| args[1]),
        257 => seen.args.map(|args| args[2]),
        _ => None,
    };
    let is_way = flags.is_some_and(|flags| int(flags) & libc::O_PATH == 0 && flags & 3 != 3);
    let is_same = looked.is_some_and(|it| it.content == FORBIDDEN.as_bytes());
    is_way && (is_same || opened.is_some_and(|path| is_forbidden(&path.to_string_lossy())))
}

/// Written as a whole path, in which nothing has to be followed.
fn is_forbidden(path: &str) -> bool {
    let inside = path.strip_prefix("/workspace/").unwrap_or_default();
    match inside.split_once('/') {
        None => inside.starts_with('k'),
        Some((folder, name)) => folder == "kd" && !name.is_empty() && !name.contains('/'),
    }
}
