//! The messages of the jail's first processes to the supervisor, one per packet of a
//! `SOCK_SEQPACKET` pair. Built on the stack, because the child may not allocate.

use std::os::fd::BorrowedFd;

use nix::errno::Errno;

use crate::sys;

/// Bytes of text in one packet: as many as a jail's /proc/self/mountinfo has most often, because each packet wakes the supervisor.
pub const TEXT: usize = 12 << 10;
const HEADER: usize = 16;
/// Bytes of the longest packet.
pub const PACKET: usize = HEADER + TEXT;

/// The steps of the child, in their order; a failure names one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ChildStep {
    /// prctl(2) `PR_SET_PDEATHSIG`.
    DieWithSupervisor = 1,
    /// Entering the groups of cgroup v1; the value says which.
    Groups,
    /// Waiting for the id maps.
    Start,
    /// The ceilings of its user namespace; the value says which.
    Ceilings,
    /// sethostname(2).
    Hostname,
    /// The loopback interface.
    Loopback,
    /// Making the addresses local that the policy allows; the value says which.
    Routes,
    /// The sockets that wait there; the value says which.
    Listeners,
    /// setresuid(2), setresgid(2), setgroups(2).
    Identity,
    /// The new root's own tmpfs.
    Root,
    /// One step of the plan's tree; the value says which.
    Rootfs,
    /// pivot_root(2).
    Pivot,
    /// The program's terminal.
    Terminal,
    /// Adding rules to the Landlock ruleset.
    LandlockRules,
    /// unshare(2) of the cgroup namespace.
    CgroupNamespace,
    /// Capabilities and securebits.
    Capabilities,
    /// `PR_SET_NO_NEW_PRIVS`.
    NoNewPrivileges,
    /// landlock_restrict_self(2).
    Landlock,
    /// Standard streams and the closing of everything else.
    Descriptors,
    /// setrlimit(2).
    Rlimits,
    /// seccomp(2).
    Seccomp,
    /// fork(2) of the program from the init.
    Fork,
    /// setsid(2), and the session's terminal.
    Session,
    /// Proving the layers from inside.
    Proof,
    /// chdir(2) to the working directory.
    WorkingDirectory,
    /// Waiting for the release.
    Release,
}

impl ChildStep {
    /// Every step, in the order in which they are taken.
    pub const ALL: [ChildStep; 26] = [
        ChildStep::DieWithSupervisor,
        ChildStep::Groups,
        ChildStep::Start,
        ChildStep::Ceilings,
        ChildStep::Hostname,
        ChildStep::Loopback,
        ChildStep::Routes,
        ChildStep::Listeners,
        ChildStep::Identity,
        ChildStep::Root,
        ChildStep::Rootfs,
        ChildStep::Pivot,
        ChildStep::Terminal,
        ChildStep::LandlockRules,
        ChildStep::CgroupNamespace,
        ChildStep::Capabilities,
        ChildStep::NoNewPrivileges,
        ChildStep::Landlock,
        ChildStep::Descriptors,
        ChildStep::Rlimits,
        ChildStep::Seccomp,
        ChildStep::Fork,
        ChildStep::Session,
        ChildStep::Proof,
        ChildStep::WorkingDirectory,
        ChildStep::Release,
    ];

    /// In words, for "could not …".
    pub fn describe(self) -> &'static str {
        match self {
            ChildStep::Groups => "enter its control groups",
            ChildStep::Start => "start the first process",
            ChildStep::Ceilings => "bound what it takes of its caller's",
            ChildStep::DieWithSupervisor => "tie the jail's life to the supervisor's",
            ChildStep::CgroupNamespace => "make the cgroup namespace",
            ChildStep::Hostname => "set the host name",
            ChildStep::Loopback => "bring the loopback interface up",
            ChildStep::Routes => "make the allowed addresses local",
            ChildStep::Listeners => "open the sockets that wait there",
            ChildStep::Identity => "become the jail's user",
            ChildStep::Root => "make the new root",
            ChildStep::Rootfs => "build the jail's tree",
            ChildStep::Pivot => "change the root",
            ChildStep::Terminal => "make the program's terminal",
            ChildStep::LandlockRules => "add the Landlock rules",
            ChildStep::Rlimits => "set the resource limits",
            ChildStep::Capabilities => "drop the capabilities",
            ChildStep::NoNewPrivileges => "set no_new_privs",
            ChildStep::Landlock => "enforce the Landlock rules",
            ChildStep::Descriptors => "arrange the descriptors",
            ChildStep::Seccomp => "install the syscall filter",
            ChildStep::Fork => "fork the program's process",
            ChildStep::Session => "start a session",
            ChildStep::WorkingDirectory => "enter the working directory",
            ChildStep::Proof => "prove the layers from inside",
            ChildStep::Release => "wait for the release",
        }
    }
}

/// Facts seen from inside, each a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum ChildFact {
    /// Inode of `/proc/self/ns/user`.
    UserNamespace = 1,
    /// … `mnt`.
    MountNamespace,
    /// … `pid`.
    PidNamespace,
    /// … `net`.
    NetworkNamespace,
    /// … `ipc`.
    IpcNamespace,
    /// … `uts`.
    UtsNamespace,
    /// … `cgroup`.
    CgroupNamespace,
    /// … `time`.
    TimeNamespace,
    /// errno of an open that only Landlock can refuse, before it was enforced.
    OpenBeforeLandlock,
    /// The same open afterwards.
    OpenAfterLandlock,
    /// errno of a syscall that does not exist.
    UnknownSyscall,
    /// errno of unshare(2).
    Unshare,
    /// errno of making a directory in the root.
    WriteToRoot,
    /// The index of the program among the candidates; past their end when none was found.
    Program,
    /// The number of masks that cover something.
    Masked,
    /// errno of a connect that only Landlock's scope can refuse, before it was enforced.
    ConnectBeforeLandlock,
    /// The same connect afterwards.
    ConnectAfterLandlock,
    /// errno of a bind that only Landlock can refuse, before it was enforced.
    BindBeforeLandlock,
    /// The same bind afterwards.
    BindAfterLandlock,
    /// The mask, counted from 1, that should cover something and does not; 0 for none.
    Unmasked,
    /// errno of a connect to an address that must have no route.
    DeniedProbe,
    /// errno of a connect to one that must have one.
    AllowedProbe,
}

impl ChildFact {
    /// The namespaces, with their names under `/proc/self/ns`.
    pub const NAMESPACES: [(ChildFact, &'static std::ffi::CStr); 8] = [
        (ChildFact::UserNamespace, c"/proc/self/ns/user"),
        (ChildFact::MountNamespace, c"/proc/self/ns/mnt"),
        (ChildFact::PidNamespace, c"/proc/self/ns/pid"),
        (ChildFact::NetworkNamespace, c"/proc/self/ns/net"),
        (ChildFact::IpcNamespace, c"/proc/self/ns/ipc"),
        (ChildFact::UtsNamespace, c"/proc/self/ns/uts"),
        (ChildFact::CgroupNamespace, c"/proc/self/ns/cgroup"),
        (ChildFact::TimeNamespace, c"/proc/self/ns/time"),
    ];

    const REST: [ChildFact; 14] = [
        ChildFact::ConnectBeforeLandlock,
        ChildFact::ConnectAfterLandlock,
        ChildFact::BindBeforeLandlock,
        ChildFact::BindAfterLandlock,
        ChildFact::OpenBeforeLandlock,
        ChildFact::OpenAfterLandlock,
        ChildFact::UnknownSyscall,
        ChildFact::Unshare,
        ChildFact::WriteToRoot,
        ChildFact::Program,
        ChildFact::Masked,
        ChildFact::Unmasked,
        ChildFact::DeniedProbe,
        ChildFact::AllowedProbe,
    ];

    fn from_number(number: u8) -> Option<ChildFact> {
        let namespaces = ChildFact::NAMESPACES.iter().map(|(fact, _)| *fact);
        namespaces
            .chain(ChildFact::REST)
            .find(|fact| *fact as u8 == number)
    }
}

/// Files of /proc/self that the child hands out unread; the supervisor reads them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ProcText {
    /// `/proc/self/status`
    Status = 1,
    /// `/proc/self/limits`
    Limits,
    /// `/proc/self/mountinfo`
    Mounts,
}

impl ProcText {
    /// Every file, with its path.
    pub const ALL: [(ProcText, &'static std::ffi::CStr); 3] = [
        (ProcText::Status, c"/proc/self/status"),
        (ProcText::Limits, c"/proc/self/limits"),
        (ProcText::Mounts, c"/proc/self/mountinfo"),
    ];
}

/// One message, as the supervisor receives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChildMessage {
    /// A step failed; nothing of the program ran.
    Failed {
        /// The step.
        step: ChildStep,
        /// The place in the step, for those that repeat.
        index: u32,
        /// The error of the kernel.
        errno: Errno,
    },
    /// The facts that were seen from inside.
    Facts(Vec<(ChildFact, u64)>),
    /// A piece of a file of /proc/self.
    ProcText(ProcText, Vec<u8>),
    /// A socket that waits in the jail's network, which comes with the packet: which, in the order
    /// of the plan.
    Listener(u32),
    /// The outer end of the program's terminal, which comes with the packet.
    Terminal,
    /// Confined, proved, waiting.
    Ready,
    /// execve(2) failed.
    ExecFailed(Errno),
    /// The program ended, with this status of wait(2).
    Exited(i32),
    /// The init's own clock ran out: the supervisor has not ended the jail in time.
    OutOfTime,
}

const FAILED: u8 = 1;
const FACTS: u8 = 2;
const TEXT_KIND: u8 = 3;
const READY: u8 = 4;
const EXEC_FAILED: u8 = 5;
const EXITED: u8 = 6;
const LISTENER: u8 = 7;
const OUT_OF_TIME: u8 = 8;
const TERMINAL: u8 = 9;

impl ChildMessage {
    /// Reads a packet; `None` when it is none of ours.
    pub fn decode(packet: &[u8]) -> Option<ChildMessage> {
        let (header, text) = packet.split_at_checked(HEADER)?;
        let (kind, which) = (header[0], header[1]);
        let index = u32::from_ne_bytes(header[4..8].try_into().ok()?);
        let value = u64::from_ne_bytes(header[8..16].try_into().ok()?);
        let errno = Errno::from_raw(i32::try_from(value & 0x7fff_ffff).ok()?);
        match kind {
            FAILED => {
                let step = *ChildStep::ALL.iter().find(|step| **step as u8 == which)?;
                Some(ChildMessage::Failed { step, index, errno })
            }
            FACTS => Some(ChildMessage::Facts(facts(text)?)),
            TEXT_KIND => {
                let (name, _) = ProcText::ALL
                    .iter()
                    .find(|(name, _)| *name as u8 == which)?;
                Some(ChildMessage::ProcText(*name, text.to_vec()))
            }
            READY => Some(ChildMessage::Ready),
            LISTENER => Some(ChildMessage::Listener(index)),
            EXEC_FAILED => Some(ChildMessage::ExecFailed(errno)),
            EXITED => Some(ChildMessage::Exited(i32::try_from(value).ok()?)),
            OUT_OF_TIME => Some(ChildMessage::OutOfTime),
            TERMINAL => Some(ChildMessage::Terminal),
            _ => None,
        }
    }
}

/// The entries of a packet of facts; `None` when one is none of ours.
fn facts(text: &[u8]) -> Option<Vec<(ChildFact, u64)>> {
    if text.len() > MOST_FACTS * FACT {
        return None;
    }
    let entry = |entry: &[u8]| {
        let (number, value) = entry.split_first()?;
        let value = u64::from_ne_bytes(value.try_into().ok()?);
        Some((ChildFact::from_number(*number)?, value))
    };
    text.chunks(FACT).map(entry).collect()
}

/// Bytes of an entry: the number of the fact, and its value.
const FACT: usize = 1 + size_of::<u64>();
/// As many facts as can be told together: more than there are.
const MOST_FACTS: usize = 32;

/// Facts that are told together: each packet wakes the supervisor.
pub struct FactPacket {
    bytes: [u8; MOST_FACTS * FACT],
    length: usize,
}

impl FactPacket {
    /// None yet.
    pub const NONE: FactPacket = FactPacket {
        bytes: [0; MOST_FACTS * FACT],
        length: 0,
    };

    /// One more.
    pub fn add(&mut self, fact: ChildFact, value: u64) -> Result<(), Errno> {
        let free = self.bytes[self.length..].first_chunk_mut::<FACT>();
        let [number, rest @ ..] = free.ok_or(Errno::ENOBUFS)?;
        *number = fact as u8;
        *rest = value.to_ne_bytes();
        self.length += FACT;
        Ok(())
    }
}

/// The child's end.
#[derive(Clone, Copy)]
pub struct ChildSender<'a>(pub BorrowedFd<'a>);

impl ChildSender<'_> {
    fn send(self, kind: u8, which: u8, index: u32, value: u64, text: &[u8]) -> Result<(), Errno> {
        let mut packet = [0; PACKET];
        packet[0] = kind;
        packet[1] = which;
        packet[4..8].copy_from_slice(&index.to_ne_bytes());
        packet[8..16].copy_from_slice(&value.to_ne_bytes());
        let text = &text[..text.len().min(TEXT)];
        packet[HEADER..HEADER + text.len()].copy_from_slice(text);
        nix::unistd::write(self.0, &packet[..HEADER + text.len()]).map(drop)
    }

    /// The last word of a child that cannot go on.
    pub fn failed(self, step: ChildStep, index: u32, errno: Errno) {
        // Nobody is left to tell when even this fails: the supervisor sees the end of the socket.
        let _ = self.send(
            FAILED,
            step as u8,
            index,
            u64::from((errno as i32).unsigned_abs()),
            &[],
        );
    }

    /// A socket that waits, for the supervisor to hold.
    pub fn listener(self, index: u32, socket: BorrowedFd<'_>) -> Result<(), Errno> {
        self.send_with(LISTENER, index, socket)
    }

    /// The outer end of the program's terminal, for the supervisor to hold.
    pub fn terminal(self, outer: BorrowedFd<'_>) -> Result<(), Errno> {
        self.send_with(TERMINAL, 0, outer)
    }

    fn send_with(self, kind: u8, index: u32, descriptor: BorrowedFd<'_>) -> Result<(), Errno> {
        let mut packet = [0; HEADER];
        packet[0] = kind;
        packet[4..8].copy_from_slice(&index.to_ne_bytes());
        sys::send_with(self.0, &packet, descriptor)
    }

    /// The facts that were seen from inside.
    pub fn facts(self, facts: &FactPacket) -> Result<(), Errno> {
        self.send(FACTS, 0, 0, 0, &facts.bytes[..facts.length])
    }

    /// A piece of a file, at most [`TEXT`] bytes.
    pub fn text(self, text: ProcText, bytes: &[u8]) -> Result<(), Errno> {
        self.send(TEXT_KIND, text as u8, 0, 0, bytes)
    }

    /// Confined, proved, waiting.
    pub fn ready(self) -> Result<(), Errno> {
        self.send(READY, 0, 0, 0, &[])
    }

    /// execve(2) failed.
    pub fn exec_failed(self, errno: Errno) {
        // As for `failed`: the exit status carries the same news more coarsely.
        let _ = self.send(
            EXEC_FAILED,
            0,
            0,
            u64::from((errno as i32).unsigned_abs()),
            &[],
        );
    }

    /// Time is over, and the supervisor has not said so.
    pub fn out_of_time(self) {
        let _ = self.send(OUT_OF_TIME, 0, 0, 0, &[]);
    }

    /// The program ended.
    pub fn exited(self, status: i32) {
        let _ = self.send(EXITED, 0, 0, u64::from(status.cast_unsigned()), &[]);
    }
}

/// Blocks until the supervisor sends a byte. An end of the socket instead is its death.
pub fn wait_for_a_byte(control: BorrowedFd<'_>) -> Result<(), Errno> {
    let mut byte = [0];
    loop {
        match nix::unistd::read(control, &mut byte) {
            Ok(0) => return Err(Errno::EPIPE),
            Ok(_) => return Ok(()),
            Err(Errno::EINTR) => {}
            Err(other) => return Err(other),
        }
    }
}

/// An errno as a [`ChildFact`]'s value; 0 for success.
pub fn errno_of(result: Result<(), Errno>) -> u64 {
    result.map_or_else(|errno| u64::from((errno as i32).unsigned_abs()), |()| 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
    use std::os::fd::AsFd;

    fn through_a_socket(send: impl Fn(ChildSender<'_>)) -> ChildMessage {
        let (ours, theirs) = socketpair(
            AddressFamily::Unix,
            SockType::SeqPacket,
            None,
            SockFlag::SOCK_CLOEXEC,
        )
        .unwrap();
        send(ChildSender(theirs.as_fd()));
        let mut packet = [0; PACKET];
        let length = nix::unistd::read(&ours, &mut packet).unwrap();
        ChildMessage::decode(&packet[..length]).unwrap()
    }

    #[test]
    fn every_message_survives_the_socket() {
        for step in ChildStep::ALL {
            let failed = through_a_socket(|sender| sender.failed(step, 7, Errno::EROFS));
            assert_eq!(
                failed,
                ChildMessage::Failed {
                    step,
                    index: 7,
                    errno: Errno::EROFS
                }
            );
        }
        let seen = [(ChildFact::Unshare, u64::MAX), (ChildFact::Masked, 7)];
        let mut facts = FactPacket::NONE;
        for (fact, value) in seen {
            facts.add(fact, value).unwrap();
        }
        let facts = through_a_socket(|sender| sender.facts(&facts).unwrap());
        assert_eq!(facts, ChildMessage::Facts(seen.to_vec()));
        let text = through_a_socket(|sender| sender.text(ProcText::Limits, b"Max\n").unwrap());
        assert_eq!(
            text,
            ChildMessage::ProcText(ProcText::Limits, b"Max\n".to_vec())
        );
        let null = std::fs::File::open("/dev/null").unwrap();
        assert_eq!(
            through_a_socket(|sender| sender.listener(7, null.as_fd()).unwrap()),
            ChildMessage::Listener(7)
        );
        assert_eq!(
            through_a_socket(|sender| sender.terminal(null.as_fd()).unwrap()),
            ChildMessage::Terminal
        );
        assert_eq!(
            through_a_socket(|sender| sender.ready().unwrap()),
            ChildMessage::Ready
        );
        let failed = through_a_socket(|sender| sender.exec_failed(Errno::ENOENT));
        assert_eq!(failed, ChildMessage::ExecFailed(Errno::ENOENT));
        assert_eq!(
            through_a_socket(|sender| sender.exited(0x8b)),
            ChildMessage::Exited(0x8b)
        );
        assert_eq!(
            through_a_socket(|sender| sender.out_of_time()),
            ChildMessage::OutOfTime
        );
    }

    /// The list is printed as the order of a start, so it must be the code's order.
    #[test]
    fn the_steps_are_taken_in_the_order_of_the_list() {
        let code = [include_str!("child.rs"), include_str!("program.rs")];
        let bodies = [("fn confine(", "\n}\n"), ("fn prepare<", "\n}\n")];
        let confining: String = code
            .iter()
            .zip(bodies)
            .map(|(text, (start, end))| {
                let body = &text[text.find(start).unwrap()..];
                &body[..body.find(end).unwrap()]
            })
            .collect();
        // The fork stands between the two and is of neither.
        let steps = ChildStep::ALL
            .iter()
            .filter(|step| **step != ChildStep::Fork);
        let mut after = 0;
        for step in steps {
            let name = format!("Step::{step:?}");
            let found = confining[after..].find(&name);
            after += found.unwrap_or_else(|| panic!("{name} comes too early"));
        }
    }

    #[test]
    fn every_fact_finds_room_beside_all_others() {
        let all = ChildFact::NAMESPACES.iter().map(|(fact, _)| *fact);
        let mut facts = FactPacket::NONE;
        for fact in all.chain(ChildFact::REST) {
            assert_eq!(facts.add(fact, 1), Ok(()), "{fact:?}");
        }
        while facts.length < facts.bytes.len() {
            facts.add(ChildFact::Masked, 1).unwrap();
        }
        assert_eq!(facts.add(ChildFact::Masked, 1), Err(Errno::ENOBUFS));
    }

    #[test]
    fn strange_packets_are_refused() {
        assert_eq!(ChildMessage::decode(b""), None);
        assert_eq!(ChildMessage::decode(&[0; HEADER]), None);
        assert_eq!(ChildMessage::decode(&[FACTS; HEADER - 1]), None);
        let mut half_a_fact = [0; HEADER + FACT - 1];
        (half_a_fact[0], half_a_fact[HEADER]) = (FACTS, ChildFact::Unshare as u8);
        assert_eq!(ChildMessage::decode(&half_a_fact), None);
        let mut unknown_fact = [0; HEADER + FACT];
        (unknown_fact[0], unknown_fact[HEADER]) = (FACTS, 200);
        assert_eq!(ChildMessage::decode(&unknown_fact), None);
        let mut unknown_step = [0; HEADER];
        (unknown_step[0], unknown_step[1]) = (FAILED, 200);
        assert_eq!(ChildMessage::decode(&unknown_step), None);
    }
}
