//! Callers that the listener turns away by itself.

use turnkey_supervisor::service::{Packet, Refusal, RefusalCode};

use super::log::{ServiceEvent, ServiceLog, request_id};
use super::queue::QueuedCaller;
use super::run_maker::{CallerLine, WaitingCaller};

/// A caller that is turned away, for the log.
pub struct RefusedCaller {
    /// The number of its request.
    pub request: u64,
    /// The user, where that is known.
    pub user: Option<u32>,
    /// The caller's process, where that is known.
    pub caller: Option<u32>,
}

impl From<&QueuedCaller<WaitingCaller>> for RefusedCaller {
    fn from(caller: &QueuedCaller<WaitingCaller>) -> Self {
        RefusedCaller {
            request: caller.number,
            user: Some(caller.user),
            caller: Some(caller.caller.process),
        }
    }
}

/// Tells a caller, and the log, that there is no run, and does not wait for it.
pub fn turn_away(
    line: &CallerLine,
    who: &RefusedCaller,
    (code, message): (RefusalCode, String),
    log: &ServiceLog,
) {
    log.tell(ServiceEvent::Refused {
        request: &request_id(std::process::id(), who.request),
        user: who.user,
        caller: who.caller,
        code: code as u32,
        reason: &message,
    });
    let fix = match code {
        RefusalCode::Busy => "come back later, or run without it: --local",
        _ => "run without it: --local",
    };
    let fix = fix.to_owned();
    let refusal = Refusal { code, message, fix };
    // Who does not take it at once does without.
    let _ = line.send(&Packet::Refused(refusal), &[], false);
}
