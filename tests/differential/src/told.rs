//! Reasons for which an event is not the one that has to be told.

use std::net::SocketAddr;

use serde_json::Value;

use crate::expect::{Expected, Text};
use crate::rules::{Decided, decide};
use crate::shape::refusal;
use crate::width::word;

/// Of an argument: what is longer is cut.
pub const LONGEST: usize = 4095;
/// `EINPROGRESS`: it goes on by itself.
const EINPROGRESS: i64 = -115;
const EPERM: i64 = -1;
/// `ERESTARTSYS` and, with a time that is set for the socket, `EINTR` of a connect that a signal interrupts: it goes on as well
/// (`sock_intr_errno` of include/net/sock.h).
const INTERRUPTED: [i64; 2] = [-512, -4];
/// `ECONNREFUSED`, now or, behind the others, later.
const REFUSED: [i64; 4] = [-111, EINPROGRESS, INTERRUPTED[0], INTERRUPTED[1]];
/// The last number that can be an error.
const LAST_ERROR: i64 = -4095;

/// The difference; nothing when there is none. With hooks, the kernel's own objects are asked about, too.
pub fn mismatch(expected: &Expected, told: &Value, has_hooks: bool) -> Option<String> {
    let kind = told["kind"].as_str().unwrap_or_default();
    if !expected.kinds.contains(&kind) {
        return Some(format!("the kind is {kind}"));
    }
    end(expected, told)
        .or_else(|| names(expected, told))
        .or_else(|| address(expected, told))
        .or_else(|| details(expected, told))
        .or_else(|| call(expected, told))
        .or_else(|| decision(expected, told, has_hooks))
        .or_else(|| network(expected, told))
}

/// The result, in numbers and in words.
fn end(expected: &Expected, told: &Value) -> Option<String> {
    let mut result = expected.result?;
    // Asked about before the kernel acts: what came of it when it was let through is not told.
    let is_let_through = expected.has_loopback.is_some() && !told["socket"].is_null();
    if is_let_through && result != EPERM {
        // But that nobody listens at its own loopback a jail without a network is told at once: a call that does not wait learns later.
        let is_unheard = told["errno"] == "ECONNREFUSED" && REFUSED.contains(&result);
        result = if is_unheard { REFUSED[0] } else { 0 };
    }
    if !is_errno(&told["errno"], result) {
        return Some(format!("the result is {result}, told {}", told["errno"]));
    }
    let word = told["result"].as_str().unwrap_or_default();
    let had_effect = !is_error(result) || result == EINPROGRESS;
    // What nobody answers to is told as kept from its effect, also where the call succeeds.
    let is_lost = ["connect", "send", "question"].contains(&told["kind"].as_str()?);
    let fits = match had_effect {
        true => word == "allowed" || is_lost && word == "denied",
        false => ["denied", "failed"].contains(&word),
    };
    (!fits).then(|| format!("with the result {result} it is told as {word}"))
}

fn is_error(result: i64) -> bool {
    (LAST_ERROR..0).contains(&result)
}

/// The argument, the path and the other name.
fn names(expected: &Expected, told: &Value) -> Option<String> {
    let kind = told["kind"].as_str().unwrap_or_default();
    let raw = &told["raw"];
    let path = told["path"].as_str().or(told["exe"]["path"].as_str());
    let argument = raw["text"].as_str().or(path);
    let is_unreadable = raw["unreadable"] == true;
    let is = |text: &String| match argument {
        // A text that is cut is told to be.
        Some(told) if raw["truncated"] == true => told.len() == LONGEST && text.starts_with(told),
        told => told == Some(text),
    };
    let fits = match &expected.argument {
        _ if kind == "refused" => true,
        Text::Any => true,
        // `compare` counts how often a text that was read is told as one that could not be.
        Text::OneOf(texts) | Text::Late(texts) => is_unreadable || texts.iter().any(is),
        Text::Unreadable => is_unreadable,
    };
    if !fits {
        return Some(format!("the argument is {:?}", expected.argument));
    }
    let differs = |text: &Text, key: &str| match text {
        // Both names may have been away together.
        Text::OneOf(_) if told[key].is_null() && is_unreadable => false,
        Text::OneOf(texts) => !told[key]
            .as_str()
            .is_some_and(|told| texts.iter().any(|text| is_cut(text, told))),
        Text::Unreadable => !told[key].is_null(),
        Text::Late(texts) => told[key]
            .as_str()
            .is_some_and(|told| !texts.iter().any(|text| is_cut(text, told))),
        Text::Any => false,
    };
    if differs(&expected.path, "path") {
        return Some(format!("the path is {:?}", expected.path));
    }
    if differs(&expected.to, "to") {
        return Some(format!("the new name is {:?}", expected.to));
    }
    // The flags of openat2(2) lie in memory, which may be away as its path is.
    let access = expected.access.as_ref()?;
    let told: Vec<&str> = (told["access"].as_array().into_iter().flatten())
        .filter_map(Value::as_str)
        .collect();
    (kind != "refused" && !is_unreadable && told != *access)
        .then(|| format!("the access is {access:?}"))
}

/// True when a text is told, as much of it as a record holds.
fn is_cut(text: &str, told: &str) -> bool {
    text == told || told.len() == LONGEST && text.starts_with(told)
}

/// The address.
fn address(expected: &Expected, told: &Value) -> Option<String> {
    let (written, port) = expected.address.as_ref()?;
    let address = told["address"].as_str().unwrap_or_default();
    let is_other = port.is_some_and(|port| {
        let parsed: Option<SocketAddr> = address.parse().ok();
        !told["socket"].is_null() && parsed.is_some_and(|parsed| parsed.port() == port)
    });
    (address != written && !is_other).then(|| format!("the address is {written}"))
}

/// The fields that an event has and others have not.
fn details(expected: &Expected, told: &Value) -> Option<String> {
    if let Some(child) = expected.child
        && told["child"]["pid"].as_i64() != Some(child)
    {
        return Some(format!("the child is {child}"));
    }
    // Over a stream a question has its length before it, which nobody sent.
    let is_other = |key: &str| key == "/questions" && told["socket"] == "stream";
    for (key, value) in expected.fields.iter().filter(|(key, _)| !is_other(key)) {
        let found = told.pointer(key).unwrap_or(&Value::Null);
        if found != value {
            return Some(format!("{key} is {value}"));
        }
    }
    None
}

fn call(expected: &Expected, told: &Value) -> Option<String> {
    let (number, args) = expected.call?;
    let number = word(number.cast_unsigned());
    let name = turnkey_policy::syscalls::name(number);
    let name = name.map_or_else(|| format!("syscall {number}"), str::to_owned);
    if told["syscall"].as_str() != Some(&name) {
        return Some(format!("the call is {name}"));
    }
    // Of flags that nobody saw, turnkey says whether they ask for a namespace.
    let first = args.map(|args| args[0]);
    let first = first.or(told["on"].is_null().then_some(0));
    let result = expected.result.unwrap_or_default();
    let (on, rule) = refusal(i64::from(number), first, result);
    if told["on"].as_str() != on || told["decision"]["rule"].as_str() != rule {
        return Some(format!("it is {on:?}, by the rule {rule:?}"));
    }
    let args = args?.map(|arg| Value::from(format!("{arg:#x}")));
    (told["args"] != Value::from(args.to_vec())).then(|| format!("the arguments are {args:?}"))
}

/// The rule, where it follows from the names.
fn decision(expected: &Expected, told: &Value, has_hooks: bool) -> Option<String> {
    let mut act = expected.act.clone()?;
    // Names that could not be read were not asked about.
    if told["raw"]["unreadable"] == true || told["kind"] == "refused" {
        return None;
    }
    // What was opened is asked about, too; whether it is that, the path says.
    if act.is_open && expected.result.is_some_and(|result| result >= 0) && !act.is_vague {
        act.objects.push(told["path"].as_str().map(str::to_owned));
    }
    let mut decided: Decided = decide(&act);
    // By whatever symlink and link they were reached.
    decided.is_open |= has_hooks;
    // Another thread of the same descriptors may have closed it before turnkey looked.
    decided.is_open |= act.may_be_gone && told["decision"]["file_unknown"] == true;
    let rule = told["decision"]["rule"].as_str();
    (!decided.allows(rule)).then(|| format!("the rule is {decided:?}, told {rule:?}, by {act:?}"))
}

/// The rule on an internet address: all that leads out, which is everything where there is no loopback.
fn network(expected: &Expected, told: &Value) -> Option<String> {
    const REFUSALS: [&str; 3] = ["EPERM", "EACCES", "ENOSYS"];
    let has_loopback = expected.has_loopback?;
    let kind = told["kind"].as_str().unwrap_or_default();
    let peer: Option<SocketAddr> = told["address"].as_str().and_then(|it| it.parse().ok());
    let errno = told["errno"].as_str().unwrap_or_default();
    // Nobody was asked on the way, and the argument is asked about when it was refused.
    let is_asked = !told["socket"].is_null() || REFUSALS.contains(&errno);
    // Nobody is reached so, and libraries do it.
    let is_nobody =
        |peer: SocketAddr| kind == "connect" && told["socket"] == "datagram" && peer.port() == 0;
    // Without a loopback that is asked for, only where somebody listens: nothing refuses that.
    // No name server is there, whatever the loopback; without one a send is refused.
    let asks = kind == "connect" || kind == "send" && has_loopback;
    // Over a stream it is one where nobody listens.
    let is_unheard = kind == "connect" && errno == "ECONNREFUSED";
    let is_question =
        told["socket"] == "datagram" && asks || told["socket"] == "stream" && is_unheard;
    let asks_names = |peer: SocketAddr| is_question && peer.port() == 53;
    let is_own = |peer: SocketAddr| {
        let ip = peer.ip().to_canonical();
        let is_there = (has_loopback || errno.is_empty()) && !asks_names(peer);
        is_there && (ip.is_loopback() || ip.is_unspecified())
    };
    let leads_out = peer.is_some_and(|peer| !is_nobody(peer) && !is_own(peer));
    let rule = match kind {
        "connect" => "network-connect",
        "send" => "network-send",
        _ => return None,
    };
    let expected = (is_asked && leads_out).then_some(rule);
    // Of one that is too short, the worst is taken.
    let is_short = peer.is_none() && is_asked;
    let found = told["decision"]["rule"].as_str();
    (found != expected && !is_short).then(|| format!("the rule is {expected:?}"))
}

/// True when the errno that is told is that of a result.
fn is_errno(told: &Value, result: i64) -> bool {
    if !is_error(result) {
        return told.is_null();
    }
    let number = i32::try_from(-result).unwrap_or_default();
    // linux/errno.h; nobody but the kernel sees them.
    let name = match number {
        512 => "ERESTARTSYS".to_owned(),
        513 => "ERESTARTNOINTR".to_owned(),
        514 => "ERESTARTNOHAND".to_owned(),
        516 => "ERESTART_RESTARTBLOCK".to_owned(),
        number => format!("{:?}", nix::errno::Errno::from_raw(number)),
    };
    told.as_str() == Some(&name)
}
