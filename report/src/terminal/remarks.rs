//! Ways between a jail and its host beyond what every jail has, each in a line.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use turnkey_policy::{AttemptKind, Layer};

use crate::model::{self, Report, SocketType, Status, WatcherPlace};
use crate::peers;
use crate::text::quote;

/// Every remark, each in a line.
pub fn all(report: &Report) -> impl Iterator<Item = String> {
    let all = [
        host_network(report),
        brought_in(report),
        mounts_hidden(report),
        published(report),
        unreached(report),
        datagrams(report),
        unanswered(report),
        watchers(report),
        static_look(report),
    ];
    all.into_iter().flatten()
}

/// Other turnkeys that watched the same, in a line.
fn watchers(report: &Report) -> Option<String> {
    const NAMED: usize = 3;
    let others = &report.watchers;
    let place = |place| match place {
        WatcherPlace::Above => "above",
        WatcherPlace::Same => "the same group",
        WatcherPlace::Below => "below",
    };
    let named = others.iter().take(NAMED);
    let named: Vec<_> = named
        .map(|other| format!("{} ({})", other.name(), place(other.place)))
        .collect();
    let more = match others.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let words = || format!("also watched, by other rules: {}{more}", named.join(", "));
    (!others.is_empty()).then(words)
}

/// The score of the script's text, in a line.
fn static_look(report: &Report) -> Option<String> {
    let look = report.static_look.as_ref()?;
    let of = quote(&look.of);
    Some(format!(
        "by the text of {of} alone, which decides nothing: score {} of 100",
        look.score
    ))
}

/// The network that is none of the jail's own, in a line.
fn host_network(report: &Report) -> Option<String> {
    let mut layers = report.enforcement.iter();
    let is_shared = layers
        .any(|layer| layer.layer == Layer::NetworkNamespace && layer.effective == "the host's");
    is_shared.then(|| {
        "in the host's network: it reached whatever this host reaches, its own services too, but for rules"
            .to_owned()
    })
}

/// Places beyond the profile, and who named them, in a line.
fn brought_in(report: &Report) -> Option<String> {
    let told = report.brought_in.iter();
    let told: Vec<_> = told
        .map(|one| format!("{} (by {})", one.path, one.by))
        .collect();
    (!told.is_empty()).then(|| format!("brought in, read-only: {}", told.join(", ")))
}

/// Mount points of the working directory that were not mounted inside, in a line.
fn mounts_hidden(report: &Report) -> Option<String> {
    const NAMED: usize = 3;
    let hidden = &report.mounts_hidden;
    let named: Vec<String> = hidden
        .iter()
        .take(NAMED)
        .map(|place| quote(place))
        .collect();
    let more = match hidden.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    (!hidden.is_empty()).then(|| {
        format!(
            "not in the jail: what is mounted at {}{more}; --workdir-mode read-only shows it",
            named.join(", ")
        )
    })
}

/// Published ports with what came, in a line.
fn published(report: &Report) -> Option<String> {
    let told = report.published.iter().map(|one| {
        let failed: u64 = one.passed.failed.values().sum();
        let failed = match failed {
            0 => String::new(),
            failed => format!(", and {failed} while nobody waited there"),
        };
        let (from, to, made) = (one.host_port, one.port, one.passed.connections);
        format!("localhost:{from} to port {to}: {made} connections{failed}")
    });
    let told: Vec<_> = told.collect();
    (!told.is_empty()).then(|| format!("published: {}", told.join("; ")))
}

/// Allowed hosts that the program would have sent datagrams to, in a line: its socket was connected, and nothing arrives.
fn datagrams(report: &Report) -> Option<String> {
    const NAMED: usize = 3;
    let connected = report.network_attempts.iter().filter(|row| {
        row.socket == Some(SocketType::Datagram)
            && row.act == AttemptKind::Connect
            && row.result == model::Result::Allowed
            && row.rule.as_deref() == Some("network-allow")
            && !peers::is_nobody(row)
    });
    let addresses: BTreeSet<&str> = connected.map(|row| row.address.as_str()).collect();
    let named: Vec<&str> = addresses.iter().take(NAMED).copied().collect();
    let more = match addresses.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    (!named.is_empty()).then(|| {
        format!(
            "over UDP nobody is reached at {}{more}: --allow is for TCP alone",
            named.join(", ")
        )
    })
}

/// Allowed hosts that this host could not reach for the program, which saw a reset, in a line.
fn unanswered(report: &Report) -> Option<String> {
    const NAMED: usize = 3;
    let failed = report.network_attempts.iter().filter_map(|row| {
        let passed = row
            .passed
            .as_ref()
            .filter(|passed| passed.connections == 0)?;
        let (errno, _) = passed.failed.first_key_value()?;
        Some((row.address.as_str(), errno.as_str()))
    });
    let failed: BTreeSet<(&str, &str)> = failed.collect();
    let named = failed.iter().take(NAMED);
    let named: Vec<String> = named
        .map(|(address, errno)| format!("{address} ({errno})"))
        .collect();
    let more = match failed.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let words = || {
        format!(
            "this host did not reach {}{more} for the program",
            named.join(", ")
        )
    };
    (!failed.is_empty()).then(words)
}

/// Ports at which the program waited until it was ended, and nobody but the jail itself could come, in a line.
fn unreached(report: &Report) -> Option<String> {
    const NAMED: usize = 3;
    let is_ended = matches!(report.status, Status::TimedOut | Status::Signaled);
    if !is_ended || !report.published.is_empty() || host_network(report).is_some() {
        return None;
    }
    let waited = report.network_attempts.iter().filter(|row| {
        row.act == AttemptKind::Bind
            && row.socket == Some(SocketType::Stream)
            && row.result == model::Result::Allowed
    });
    let ports = waited.filter_map(|row| Some(row.address.parse::<SocketAddr>().ok()?.port()));
    let ports: BTreeSet<u16> = ports.filter(|port| *port != 0).collect();
    let flags: Vec<String> = ports
        .iter()
        .take(NAMED)
        .map(|port| format!("--publish {port}"))
        .collect();
    (!flags.is_empty()).then(|| {
        format!(
            "it waited for connections, and nobody outside of the jail reaches it: {} leads there from this host's loopback",
            flags.join(" ")
        )
    })
}
