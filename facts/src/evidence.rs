//! Completeness of the evidence of a run.

/// A count for each kind of event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByKind {
    /// [`crate::Kind::Exec`]
    pub exec: u64,
    /// [`crate::Kind::ExecAttempt`]
    pub exec_attempt: u64,
    /// [`crate::Kind::Open`]
    pub open: u64,
    /// [`crate::NetworkAct::Connect`]
    pub connect: u64,
    /// [`crate::NetworkAct::Bind`]
    pub bind: u64,
    /// [`crate::NetworkAct::Send`]
    pub send: u64,
    /// [`crate::NetworkAct::Listen`]
    pub listen: u64,
    /// [`crate::Kind::Refused`]
    pub refused: u64,
    /// [`crate::Kind::Fork`]
    pub fork: u64,
    /// [`crate::Kind::Exit`]
    pub exit: u64,
    /// [`crate::Kind::Change`], other than a look
    pub change: u64,
    /// [`crate::Kind::Change`] that is a look: of `Stat`
    pub look: u64,
    /// [`crate::Kind::Map`]
    pub map: u64,
    /// [`crate::Kind::Question`]
    pub question: u64,
}

impl ByKind {
    /// Each kind's name, as in events and reports, with its count.
    #[must_use]
    pub fn named(&self) -> [(&'static str, u64); 14] {
        [
            ("exec", self.exec),
            ("exec_attempt", self.exec_attempt),
            ("open", self.open),
            ("connect", self.connect),
            ("bind", self.bind),
            ("send", self.send),
            ("listen", self.listen),
            ("refused", self.refused),
            ("fork", self.fork),
            ("exit", self.exit),
            ("change", self.change),
            ("look", self.look),
            ("map", self.map),
            ("question", self.question),
        ]
    }

    /// All kinds together.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.named().iter().map(|(_, count)| count).sum()
    }
}

/// A process outside of the jail that ended one in it by a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outsider {
    /// The signal.
    pub signal: i32,
    /// The process id that the ended process had in the jail.
    pub target: u32,
    /// The sender's process id on the host.
    pub pid: u32,
    /// The sender's user id on the host.
    pub uid: u32,
    /// The sender's name, as `comm`: padded with zeros, which its end need not have.
    pub comm: [u8; 16],
}

impl Outsider {
    /// The sender's name, without padding.
    #[must_use]
    pub fn name(&self) -> &[u8] {
        let end = self.comm.iter().position(|byte| *byte == 0);
        &self.comm[..end.unwrap_or(self.comm.len())]
    }
}

/// Completeness of the evidence of a run. Acts are counted, not records: one record stands for all
/// repetitions of an act.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    /// Acts that happened, whether or not their records arrived.
    pub seen: ByKind,
    /// Acts that events told of: `seen` less `lost`; otherwise the evidence is not complete.
    pub told: ByKind,
    /// Acts in records that found the ring full.
    pub lost: ByKind,
    /// Records that the kernel made: one more than the highest [`crate::Event::seq`] there was.
    pub records: u64,
    /// Records that found the ring full.
    pub lost_records: u64,
    /// Times that a program could not do its work.
    pub faults: u64,
    /// Arguments that user memory did not hold when they were looked at.
    pub unreadable: u64,
    /// Files whose path the kernel's structures did not yield.
    pub unresolved: u64,
    /// Runs of a program that the kernel left out because it was running already.
    pub missed: u64,
    /// Records that could not be decoded.
    pub malformed: u64,
    /// The first end of a process of the jail by a signal that a process outside of it sent; turnkey's own count as well.
    pub outsider: Option<Outsider>,
    /// The start of a command and the end of a process were seen, every record arrived and meant
    /// something, every act that was counted is in one of them, and no program failed or was left out.
    pub complete: bool,
}
