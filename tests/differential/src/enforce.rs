//! What has to be under `enforce`: a forbidden attempt is the last thing that its thread does, and the jail is dead.

use crate::compare::{context, counted, line, pair};
use crate::expect::{Context, expected};
use crate::jail::{FORBIDDEN, Outcome};
use crate::program::Program;
use crate::rules::decide;
use crate::shape::{Class, shape};
use crate::stops::Looked;
use crate::trace::Seen;
use crate::width::int;

/// turnkey's status when a rule has killed the jail.
const KILLED: i32 = 121;

/// What went on although a rule forbids it; nothing when nothing did.
pub fn escape(program: &Program, outcome: &Outcome) -> Option<String> {
    let context = context(program, outcome);
    let mut is_forbidden = false;
    for (thread, calls) in &outcome.calls {
        let looked = outcome.stopped.as_ref().and_then(|it| it.calls.get(thread));
        let pairs = calls.iter().zip(pair(calls, looked));
        let forbidden = pairs
            .map(|(seen, looked)| names(seen, looked, &context) || reaches(seen, looked))
            .position(|is_forbidden| is_forbidden);
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
    counted(outcome)
}

/// True when a call names what the rules kill for, as far as its names are known: trying is enough.
fn names(seen: &Seen, looked: Option<&Looked>, context: &Context<'_>) -> bool {
    // What the kernel found no name in, did nothing.
    const EFAULT: i64 = -14;
    if seen.args.is_none() || seen.result == Some(EFAULT) {
        return false;
    }
    // An open that waits is killed for before it is over.
    if seen.result.is_none() && shape(seen.number).class != Class::Open {
        return false;
    }
    let seen = Seen {
        result: seen.result.or(Some(0)),
        ..seen.clone()
    };
    let all = expected(&seen, looked, context);
    all.iter()
        .filter_map(|one| one.act.as_ref())
        .any(|act| decide(act).kills())
}

/// True when a call has opened what is forbidden, by whatever name: what stands in it tells.
fn reaches(seen: &Seen, looked: Option<&Looked>) -> bool {
    let flags = match seen.number {
        2 => seen.args.map(|args| args[1]),
        257 => seen.args.map(|args| args[2]),
        _ => None,
    };
    let is_way = flags.is_some_and(|flags| int(flags) & libc::O_PATH == 0 && flags & 3 != 3);
    is_way && looked.is_some_and(|it| it.content == FORBIDDEN.as_bytes())
}
