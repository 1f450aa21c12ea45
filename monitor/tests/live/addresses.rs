//! Random rules about addresses and random attempts: the running kernel decides as the reference does.

use std::net::{IpAddr, SocketAddr};

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use turnkey_facts::{Event, Kind};
use turnkey_monitor::compile;
use turnkey_policy::{
    ActorPaths, Attempt, AttemptKind, EnforcementMode, NetworkMode, Policy, RuleAction, address,
    decide,
};

use super::harness::{ACTORS, policy, python, python_executed, the_system_is_read_only, tier};
use crate::random::actors::acting;
use crate::random::peers::{any_peer_rule, peer};

const POLICIES: usize = 5;
const ATTEMPTS: usize = 400;

/// Calls that are tried with an address.
#[derive(Clone, Copy, Debug)]
enum How {
    Connect,
    ConnectDatagrams,
    Bind,
    SendTo,
    SendMessage,
}

const WAYS: [How; 5] = [
    How::Connect,
    How::ConnectDatagrams,
    How::Bind,
    How::SendTo,
    How::SendMessage,
];

#[derive(Debug)]
struct Try {
    peer: SocketAddr,
    how: How,
}

impl Try {
    fn any(runner: &mut TestRunner, number: usize) -> Self {
        let how = WAYS[number % WAYS.len()];
        let mut peer = any(&peer(), runner);
        if matches!(how, How::SendTo | How::SendMessage) && peer.port() == 0 {
            // The kernel refuses it before it asks anybody.
            peer.set_port(1);
        }
        Self { peer, how }
    }

    fn on(&self) -> AttemptKind {
        match self.how {
            How::Connect | How::ConnectDatagrams => AttemptKind::Connect,
            How::Bind => AttemptKind::Bind,
            How::SendTo | How::SendMessage => AttemptKind::Send,
        }
    }

    /// The deciding rule by the reference.
    fn expected(&self, policy: &Policy) -> Option<usize> {
        if matches!(self.how, How::ConnectDatagrams) && self.peer.port() == 0 {
            // A look-up, and no attempt.
            return None;
        }
        let on = self.on();
        let has_loopback = policy.network.mode == NetworkMode::Loopback;
        let python = python_executed();
        let attempt = Attempt {
            actor: Some(ActorPaths {
                exe: python.as_os_str().as_encoded_bytes(),
                script: None,
            }),
            address: Some(self.peer),
            to_itself: has_loopback && address::is_own(self.peer.ip()) && on != AttemptKind::Bind,
            ..Attempt::new(on)
        };
        decide(&policy.rules, &attempt)
    }

    /// For Python: two sockets for each kind, and never one that waits.
    fn statement(&self) -> String {
        let (ip, port) = (self.peer.ip(), self.peer.port());
        let family = match ip {
            IpAddr::V4(_) => "AF_INET",
            IpAddr::V6(_) => "AF_INET6",
        };
        let kind = match self.how {
            How::Connect | How::Bind => "SOCK_STREAM",
            _ => "SOCK_DGRAM",
        };
        let peer = format!("('{ip}', {port})");
        let act = match self.how {
            How::Connect | How::ConnectDatagrams => format!("connect({peer})"),
            How::Bind => format!("bind({peer})"),
            How::SendTo => format!("sendto(b'x', {peer})"),
            How::SendMessage => format!("sendmsg([b'x'], [], 0, {peer})"),
        };
        format!("lambda: made(socket.{family}, socket.{kind}).{act}")
    }
}

fn any<S: Strategy>(strategy: &S, runner: &mut TestRunner) -> S::Value {
    let tree = strategy.new_tree(runner);
    tree.expect("there is always a value").current()
}

fn any_policy(runner: &mut TestRunner, number: usize) -> Policy {
    let rules = (0..6)
        .map(|_| any(&acting(any_peer_rule(), ACTORS), runner))
        .collect();
    let network = match number % 2 {
        0 => NetworkMode::None,
        _ => NetworkMode::Loopback,
    };
    Policy {
        rules,
        network: network.into(),
        ..policy("")
    }
}

/// Makes every attempt, counting on standard output.
fn program(tries: &[Try]) -> String {
    let statements: Vec<String> = tries.iter().map(Try::statement).collect();
    format!(
        "import os, socket\ndef made(family, kind):\n s = socket.socket(family, kind)\n s.setblocking(False)\n return s\nfor attempt in [{}]:\n try: attempt()\n except OSError: pass\n os.write(1, b'.')\nos._exit(0)",
        statements.join(", ")
    )
}

/// The rule that decided on each attempt, in their order.
fn decided(events: &[Event]) -> Vec<Option<usize>> {
    let attempts = events
        .iter()
        .filter(|event| matches!(event.kind, Kind::Network { .. }));
    let each = attempts.flat_map(|event| {
        let times = usize::try_from(1 + event.repeated).expect("few");
        std::iter::repeat_n(event.decision.map(|decision| decision.rule), times)
    });
    each.collect()
}

#[test]
fn the_kernel_decides_on_random_addresses_as_the_reference_does() {
    the_system_is_read_only();
    let mut runner = TestRunner::deterministic();
    let (mut tried, mut ruled, mut killed) = (0, 0, 0);
    for number in 0..POLICIES {
        let mut policy = any_policy(&mut runner, number);
        compile(&policy, tier()).expect("few rules fit");
        let tries: Vec<Try> = (0..ATTEMPTS)
            .map(|number| Try::any(&mut runner, number))
            .collect();
        let program = program(&tries);
        let expected: Vec<Option<usize>> = tries.iter().map(|one| one.expected(&policy)).collect();

        policy.enforcement.mode = EnforcementMode::Observe;
        let seen = python(&policy, &program);
        seen.assert_lived();
        assert_eq!(seen.stdout().len(), ATTEMPTS);
        let told = decided(&seen.events);
        assert_eq!(told.len(), ATTEMPTS, "{}", seen.tell());
        for ((one, told), expected) in tries.iter().zip(&told).zip(&expected) {
            assert_eq!(told, expected, "{one:?} in {:#?}", policy.rules);
        }
        tried += ATTEMPTS;
        ruled += expected.iter().flatten().count();

        // Enforced, it lives until the first that kills, and not longer.
        policy.enforcement.mode = EnforcementMode::Enforce;
        let kills = |rule: &Option<usize>| {
            rule.is_some_and(|rule| policy.rules[rule].action == RuleAction::Kill)
        };
        let until = expected.iter().position(kills);
        let seen = python(&policy, &program);
        assert_eq!(seen.condemned, until.is_some(), "{}", seen.tell());
        let lived = until.unwrap_or(ATTEMPTS);
        assert_eq!(seen.stdout().len(), lived, "{}", seen.tell());
        killed += usize::from(until.is_some_and(|until| until > 0));
    }
    eprintln!(
        "{tried} pairs of a policy and an address, {ruled} met a rule; {killed} of {POLICIES} policies killed"
    );
    assert!(ruled > 400 && killed > 0);
}
