//! Adds the traffic that turnkey passed on for the program to the attempts that it was seen to make.

use std::collections::BTreeMap;

use turnkey_policy::AttemptKind;

use turnkey_facts::{Passage, Publication};

use super::clock::Clock;
use super::errno::errno_name;
use super::model::{NetworkAttempt, Passed, PublishedPort, Result, SocketType};

/// Puts each beside the allowed connects to its address. Where nobody watched there are none, and
/// it has a row of its own.
pub fn add(rows: &mut Vec<NetworkAttempt>, passages: &[Passage], clock: &Clock) {
    for passage in passages {
        let address = passage.to.to_string();
        let seen = rows.iter_mut().find(|row| {
            row.act == AttemptKind::Connect
                && row.address == address
                && row.socket != Some(SocketType::Datagram)
                && row.result == Result::Allowed
        });
        match seen {
            Some(row) => row.passed = Some(passed(passage)),
            None => rows.push(row(passage, address, clock)),
        }
    }
}

/// The rows of published ports.
#[must_use]
pub fn published(ports: &[Publication]) -> Vec<PublishedPort> {
    let row = |port: &Publication| PublishedPort {
        host_port: port.host,
        port: port.inside,
        passed: port.passage.as_ref().map(passed).unwrap_or_default(),
    };
    ports.iter().map(row).collect()
}

fn passed(passage: &Passage) -> Passed {
    let failed: BTreeMap<String, u64> = passage
        .failures
        .iter()
        .map(|(errno, count)| {
            let name = errno_name(*errno).unwrap_or_else(|| "unknown".to_owned());
            (name, *count)
        })
        .collect();
    Passed {
        connections: passage.connections,
        sent_bytes: passage.sent,
        received_bytes: passage.received,
        failed,
        refused: passage.refused,
    }
}

fn row(passage: &Passage, address: String, clock: &Clock) -> NetworkAttempt {
    let failed: u64 = passage.failures.values().sum();
    let result = match passage.connections {
        0 => Result::Failed,
        _ => Result::Allowed,
    };
    NetworkAttempt {
        act: AttemptKind::Connect,
        address,
        socket: Some(SocketType::Stream),
        name: None,
        count: passage.connections + failed + passage.refused,
        first_time: clock.date(passage.first_ns),
        last_time: clock.date(passage.last_ns),
        first_exec_id: None,
        programs: Vec::new(),
        more_programs: false,
        result,
        stopped_by: None,
        errno: None,
        rule: None,
        passed: Some(passed(passage)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::clock;
    use super::*;

    fn passage() -> Passage {
        Passage {
            to: "[2001:db8::7]:443".parse().unwrap(),
            connections: 2,
            sent: 10,
            received: 1 << 20,
            failures: [(libc::ECONNREFUSED, 3)].into(),
            refused: 0,
            first_ns: 1,
            last_ns: 2,
        }
    }

    #[test]
    fn what_nobody_saw_has_a_row_of_its_own_and_is_put_beside_what_was_seen() {
        let mut rows = Vec::new();
        add(&mut rows, &[passage()], &clock());
        assert_eq!(rows.len(), 1);
        assert_eq!((rows[0].count, rows[0].result), (5, Result::Allowed));
        rows[0].passed = None;
        rows[0].first_exec_id = Some(1);
        add(&mut rows, &[passage()], &clock());
        let [row] = rows.as_slice() else {
            panic!("{rows:?}")
        };
        let passed = row.passed.as_ref().unwrap();
        assert_eq!((passed.sent_bytes, passed.received_bytes), (10, 1 << 20));
        assert_eq!(passed.failed, [("ECONNREFUSED".to_owned(), 3)].into());
        assert_eq!(row.first_exec_id, Some(1));
    }

    #[test]
    fn a_denied_connect_passed_nothing_on() {
        let mut rows = Vec::new();
        add(&mut rows, &[passage()], &clock());
        rows[0].result = Result::Denied;
        rows[0].passed = None;
        add(&mut rows, &[passage()], &clock());
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[0].passed, None);
    }
}
