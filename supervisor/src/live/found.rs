//! Runs that live, found by the names of their sockets, and read without waiting for any of them.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind, IoSliceMut, Read};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use anyhow::Context;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket};
use nix::unistd::{Uid, geteuid, seteuid};
use rustix::net::{RecvAncillaryBuffer, RecvFlags, ReturnFlags, recvmsg};
use turnkey_jailer::foreign;

use super::listener::name;
use super::peer::{Peer, sockets_of};
use super::{PREFIX, Visitor};

/// The names of the network namespace's sockets, proc_net(5).
const SOCKETS: &str = "/proc/net/unix";
/// The flag of one that listens: `__SO_ACCEPTCON`.
const LISTENS: u32 = 1 << 16;
/// The longest line that is taken. An alert with every field at its bound is shorter.
const LINE: usize = 1 << 20;
/// The time in which the descriptors of another user's processes are read in a look.
const A_WHILE: Duration = Duration::from_millis(50);
/// The most runs of another user that are followed at the same time; the next one is when one of these is over.
const OF_A_USER: usize = 256;
/// The longest id of a run.
const ID: usize = 64;

/// A socket of a run's name.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Named {
    run: String,
    /// The control group that it watches.
    group: Option<u64>,
    inode: u64,
}

impl Named {
    fn address(&self) -> nix::Result<UnixAddr> {
        UnixAddr::new_abstract(&name(&self.run, self.group))
    }
}

/// A run that watches a control group, by the name of its socket, which anybody can have made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedRun {
    /// The run's id.
    pub run: String,
    /// The control group's id.
    pub group: u64,
    inode: u64,
}

/// The runs that watch control groups, as far as this process can see their names; none where it sees no names.
pub fn runs_that_watch() -> Vec<NamedRun> {
    let named = sockets().unwrap_or_default().into_iter();
    let watching = named.filter_map(|named| {
        Some(NamedRun {
            run: named.run,
            group: named.group?,
            inode: named.inode,
        })
    });
    watching.collect()
}

impl NamedRun {
    /// Connects a socket to the run; whether the socket of that name is held by a process of this user, outside of all jails.
    pub fn connect(&self, socket: &UnixStream) -> bool {
        let address = UnixAddr::new_abstract(&name(&self.run, Some(self.group)));
        let connected = address.and_then(|address| connect(socket.as_raw_fd(), &address));
        let peer = connected.ok().and_then(|()| Peer::of(socket));
        peer.is_some_and(|peer| {
            peer.is_own() && peer.is_outside_of_jails() && peer.holds(self.inode)
        })
    }
}

/// A run that is followed.
pub struct FollowedRun {
    /// The id.
    pub run: String,
    /// The user whose run it is.
    pub uid: u32,
    /// The process that listens.
    pub pid: u32,
    stream: Visitor,
    read: Vec<u8>,
    over: bool,
    /// True once it is certain that it may be followed: one of root's answers whom it was made for, and nobody else.
    is_known: bool,
}

/// The runs that are followed by one process, which has no other thread: it changes its user for moments.
#[derive(Default)]
pub struct Followed {
    /// The runs, until they are over and read to their end.
    pub runs: Vec<FollowedRun>,
    /// The names that were tried.
    tried: BTreeSet<String>,
    /// The names that are for a later look, each with the user whose process had it.
    late: BTreeMap<String, u32>,
}

impl Followed {
    /// Connects to every run of this user, or of any where this is root, that was not tried before.
    ///
    /// # Errors
    /// When the names cannot be read.
    pub fn find(&mut self) -> anyhow::Result<()> {
        foreign::close_dropped();
        let named = sockets()?;
        // A name that is gone may be forgotten: no two runs share one.
        let there: BTreeSet<&str> = named.iter().map(|it| it.run.as_str()).collect();
        self.tried.retain(|run| there.contains(run.as_str()));
        self.late.retain(|run, _| there.contains(run.as_str()));
        let mut holders = Holders::new(&self.runs);
        for named in &named {
            self.try_to_follow(named, &mut holders);
        }
        Ok(())
    }

    fn try_to_follow(&mut self, named: &Named, holders: &mut Holders) {
        let late = self.late.get(&named.run);
        let waits = late.is_some_and(|uid| holders.is_over(*uid));
        if waits || self.tried.contains(&named.run) {
            return;
        }
        match follow(named, holders) {
            Some(Err(NotYet(uid))) => {
                self.late.insert(named.run.clone(), uid);
                return;
            }
            Some(Ok(run)) => {
                *holders.followed.entry(run.uid).or_default() += 1;
                self.runs.push(run);
            }
            None => {}
        }
        self.tried.insert(named.run.clone());
    }

    /// Waits until a run has lines, or `most` is over.
    pub fn wait(&self, most: Duration) {
        let left = PollTimeout::try_from(most).unwrap_or(PollTimeout::ZERO);
        let mut waited: Vec<_> = self
            .runs
            .iter()
            .map(|run| PollFd::new(run.stream.as_fd(), PollFlags::POLLIN))
            .collect();
        // Interrupted is as good as over.
        let _ = poll(&mut waited, left);
    }

    /// Hands every whole line that is there to `take`, and forgets the runs that are over. The ids of those that were followed come back.
    ///
    /// # Errors
    /// The first of `take`.
    pub fn take(
        &mut self,
        mut take: impl FnMut(&FollowedRun, &[u8]) -> anyhow::Result<()>,
    ) -> anyhow::Result<Vec<String>> {
        for run in &mut self.runs {
            run.fill();
            while let Some(line) = run.line() {
                take(run, &line)?;
            }
        }
        let over = self.runs.extract_if(.., |run| run.over);
        let known = over.filter(|run| run.is_known);
        Ok(known.map(|run| run.run).collect())
    }

    /// Looks once: the first line of every run, as far as it comes until `most` is over. Nothing is followed any more then.
    ///
    /// # Errors
    /// When the names cannot be read.
    pub fn look(most: Duration) -> anyhow::Result<LiveLook> {
        let mut followed = Followed::default();
        let deadline = Instant::now() + most;
        let mut look = LiveLook::default();
        loop {
            followed.find()?;
            followed.runs.retain_mut(|run| {
                run.fill();
                look.states.extend(run.line().map(|line| FirstLine {
                    run: run.run.clone(),
                    uid: run.uid,
                    pid: run.pid,
                    line,
                }));
                let is_read = look.states.last().is_some_and(|last| last.run == run.run);
                // One that is over without a word has ended meanwhile.
                !is_read && !run.over
            });
            let left = deadline.saturating_duration_since(Instant::now());
            if followed.runs.is_empty() || left.is_zero() {
                look.silent = followed.runs.into_iter().map(|run| run.run).collect();
                return Ok(look);
            }
            followed.wait(left);
        }
    }
}

/// The runs at one moment.
#[derive(Default)]
pub struct LiveLook {
    /// The first line of each that has answered.
    pub states: Vec<FirstLine>,
    /// The ids of those that did not.
    pub silent: Vec<String>,
}

/// The first line of a run.
pub struct FirstLine {
    /// The id by which the run was found.
    pub run: String,
    /// The user whose run it is.
    pub uid: u32,
    /// The process of its turnkey, as the kernel tells it.
    pub pid: u32,
    /// The line, without the end of the line.
    pub line: Vec<u8>,
}

impl FollowedRun {
    /// Takes what is there; a line without an end is nobody's line, and ends the following.
    fn fill(&mut self) {
        let mut piece = [0; 16 << 10];
        while self.read.len() < LINE {
            match read_bare(&self.stream, &mut piece) {
                Ok(0) => self.over = true,
                Ok(length) => {
                    self.read.extend_from_slice(&piece[..length]);
                    continue;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(_) => self.over = true,
            }
            return;
        }
        self.over |= !self.read.contains(&b'\n');
    }

    /// The next whole line, without its end.
    fn line(&mut self) -> Option<Vec<u8>> {
        let end = self.read.iter().position(|byte| *byte == b'\n')?;
        let mut line: Vec<u8> = self.read.drain(..=end).collect();
        line.pop();
        self.is_known = true;
        Some(line)
    }
}

/// Reads what is there up to the first descriptor that came with it, which no run sends: taking that would close it here, for as long as
/// its owner likes.
fn read_bare(stream: &Visitor, piece: &mut [u8]) -> io::Result<usize> {
    let mut pieces = [IoSliceMut::new(piece)];
    let mut beside = RecvAncillaryBuffer::default();
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    let seen = recvmsg(&**stream, &mut pieces, &mut beside, flags)?;
    if seen.flags.contains(ReturnFlags::CTRUNC) {
        return Err(io::ErrorKind::InvalidData.into());
    }
    // No more than was seen.
    (&**stream).read(&mut piece[..seen.bytes])
}

/// Connects to a run, where its socket is held by a process outside of all jails, of this user or, for root, of any; or by one of root's
/// that makes it for this user. Such a process shows nobody else what it holds, but no other user listens as root.
fn follow(named: &Named, holders: &mut Holders) -> Option<Result<FollowedRun, NotYet>> {
    let own = geteuid();
    let stream = connected(named)?;
    let peer = Peer::of(&stream)?;
    let is_root_s = peer.uid == 0 && !own.is_root();
    let is_ours = peer.is_own() || own.is_root() || is_root_s;
    if !is_ours || !peer.is_outside_of_jails() {
        return None;
    }
    if !is_root_s {
        match holders.hold(peer, named.inode) {
            Ok(true) => {}
            Ok(false) => return None,
            Err(later) => return Some(Err(later)),
        }
    }
    let stream = match peer.is_own() || is_root_s {
        true => stream,
        false => as_user(Uid::from_raw(peer.uid), || connected(named))?,
    };
    (Peer::of(&stream)? == peer).then(|| {
        Ok(FollowedRun {
            run: named.run.clone(),
            uid: if is_root_s { own.as_raw() } else { peer.uid },
            pid: peer.pid,
            stream,
            read: Vec::new(),
            over: false,
            is_known: !is_root_s,
        })
    })
}

/// A socket of this user's, which a later look is about.
#[derive(Debug, PartialEq, Eq)]
struct NotYet(u32);

/// The processes whose descriptors were read in one look, each once: a process can have listening sockets by the hundred, and
/// descriptors by the ten thousand.
#[derive(Default)]
struct Holders {
    /// The inodes of the sockets of each process.
    sockets: BTreeMap<u32, BTreeSet<u64>>,
    /// The processes of which not all was read.
    cut: BTreeSet<u32>,
    /// The time that reading the descriptors of each user's processes took.
    spent: BTreeMap<u32, Duration>,
    /// The number of each user's runs that are followed.
    followed: BTreeMap<u32, usize>,
}

impl Holders {
    fn new(runs: &[FollowedRun]) -> Holders {
        let mut holders = Holders::default();
        for run in runs {
            *holders.followed.entry(run.uid).or_default() += 1;
        }
        holders
    }

    /// True where no more of a user's names are looked at: nobody keeps the runs of others waiting, or takes all descriptors of this
    /// process. Those of its own user have no bound.
    fn is_over(&self, uid: u32) -> bool {
        let spent = self.spent.get(&uid).is_some_and(|spent| *spent >= A_WHILE);
        let full = self
            .followed
            .get(&uid)
            .is_some_and(|runs| *runs >= OF_A_USER);
        uid != geteuid().as_raw() && (spent || full)
    }

    /// Tells whether the process holds the socket.
    fn hold(&mut self, peer: Peer, inode: u64) -> Result<bool, NotYet> {
        if !self.sockets.contains_key(&peer.pid) {
            if self.is_over(peer.uid) {
                return Err(NotYet(peer.uid));
            }
            self.read(peer);
        }
        let is_held = self.sockets[&peer.pid].contains(&inode);
        match is_held || !self.cut.contains(&peer.pid) {
            true => Ok(is_held),
            false => Err(NotYet(peer.uid)),
        }
    }

    /// Reads what a process holds, as far as there is time for its user. The socket of a run is among the first.
    fn read(&mut self, peer: Peer) {
        let mut held = BTreeSet::new();
        let spent = self.spent.get(&peer.uid).copied().unwrap_or_default();
        let begin = Instant::now();
        for inode in sockets_of(peer.pid) {
            held.insert(inode);
            if !peer.is_own() && spent + begin.elapsed() >= A_WHILE {
                self.cut.insert(peer.pid);
                break;
            }
        }
        self.spent.insert(peer.uid, spent + begin.elapsed());
        self.sockets.insert(peer.pid, held);
    }
}

/// Does something as another user: a run answers its own alone, and cannot tell root from a stranger where it is in a user
/// namespace without root.
fn as_user<T>(user: Uid, act: impl FnOnce() -> Option<T>) -> Option<T> {
    seteuid(user).ok()?;
    let done = act();
    // The real user is root's still, which may always go back.
    seteuid(Uid::from_raw(0)).ok()?;
    done
}

/// Connects without waiting: who does not accept keeps nobody.
fn connected(named: &Named) -> Option<Visitor> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let socket = socket(AddressFamily::Unix, SockType::Stream, flags, None).ok()?;
    connect(socket.as_raw_fd(), &named.address().ok()?).ok()?;
    Some(Visitor::from(UnixStream::from(socket)))
}

#[expect(clippy::disallowed_methods, reason = "of /proc")]
fn sockets() -> anyhow::Result<Vec<Named>> {
    let table = std::fs::read(SOCKETS).with_context(|| format!("{SOCKETS} cannot be read"))?;
    Ok(named(&String::from_utf8_lossy(&table)))
}

/// The runs' sockets in the kernel's list, each name once.
fn named(table: &str) -> Vec<Named> {
    table.lines().filter_map(one_named).collect()
}

/// A line such as `0000000000000000: 00000002 00000000 00010000 0001 01 7313380 @turnkey/6a1-2b`.
fn one_named(line: &str) -> Option<Named> {
    let mut fields = line.split_ascii_whitespace();
    let flags = u32::from_str_radix(fields.nth(3)?, 16).ok()?;
    let inode = fields.nth(2)?.parse().ok()?;
    let name = fields.next()?.strip_prefix('@')?.strip_prefix(PREFIX)?;
    let (run, group) = match name.split_once('/') {
        Some((run, group)) => (run, Some(u64::from_str_radix(group, 16).ok()?)),
        None => (name, None),
    };
    let is_id = |byte: u8| byte.is_ascii_hexdigit() || byte == b'-';
    let is_run = !run.is_empty() && run.len() <= ID && run.bytes().all(is_id);
    (flags & LISTENS != 0 && is_run && fields.next().is_none()).then(|| Named {
        run: run.to_owned(),
        group,
        inode,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_runs_that_listen_are_found_and_no_others() {
        let table = "\
Num       RefCount Protocol Flags    Type St Inode Path
0000: 00000002 00000000 00010000 0001 01 10 @turnkey/6a1-2b
0000: 00000003 00000000 00000000 0001 03 11 @turnkey/6a1-2b
0000: 00000002 00000000 00010000 0001 01 12 @turnkey/6a1\x1b[2J
0000: 00000002 00000000 00010000 0001 01 13 @turnkey/a b
0000: 00000002 00000000 00010000 0001 01 14 /run/turnkey/1
0000: 00000002 00000000 00010000 0001 01 15
0000: 00000002 00000000 00010000 0001 01 16 @turnkey/
";
        let run = "6a1-2b".to_owned();
        let inode = 10;
        assert_eq!(
            named(table),
            [Named {
                run,
                group: None,
                inode
            }]
        );
        let table = table.replace("6a1-2b", "6a1-2b/1f");
        assert_eq!(named(&table)[0].group, Some(0x1f));
        let table = table.replace("/1f", "/1g");
        assert_eq!(named(&table), []);
    }

    #[test]
    fn descriptors_of_a_process_are_read_once_in_a_look() {
        let (one, other) = UnixStream::pair().unwrap();
        let inode = |of: &UnixStream| nix::sys::stat::fstat(of).unwrap().st_ino;
        let peer = Peer::of(&one).unwrap();
        let mut holders = Holders::default();
        assert_eq!(holders.hold(peer, inode(&one)), Ok(true));
        let (later, _its) = UnixStream::pair().unwrap();
        assert_eq!(holders.hold(peer, inode(&other)), Ok(true));
        assert_eq!(holders.hold(peer, inode(&later)), Ok(false), "read once");
    }

    /// As root follows the runs of others.
    #[test]
    fn a_user_has_a_while_of_each_look_and_so_has_the_next() {
        let (socket, _other) = UnixStream::pair().unwrap();
        let inode = nix::sys::stat::fstat(&socket).unwrap().st_ino;
        let own = Peer::of(&socket).unwrap();
        let stranger = Peer {
            uid: own.uid + 1,
            ..own
        };
        let mut holders = Holders::default();
        holders.spent.insert(stranger.uid, A_WHILE);
        assert_eq!(holders.hold(stranger, inode), Err(NotYet(stranger.uid)));
        assert_eq!(holders.sockets.len(), 0, "nothing was read");
        let next = Peer {
            uid: own.uid + 2,
            ..own
        };
        assert_eq!(holders.hold(next, inode), Ok(true), "the next one's");
        let mut holders = Holders::default();
        holders.followed.insert(stranger.uid, OF_A_USER);
        assert_eq!(holders.hold(stranger, inode), Err(NotYet(stranger.uid)));
        holders.followed.insert(own.uid, OF_A_USER);
        assert_eq!(holders.hold(own, inode), Ok(true));
        // What was cut off may hold it.
        holders.cut.insert(own.pid);
        assert_eq!(holders.hold(own, 0), Err(NotYet(own.uid)));
    }

    #[test]
    fn lines_come_whole_and_one_without_end_is_given_up() {
        let (own, mut other) = UnixStream::pair().unwrap();
        own.set_nonblocking(true).unwrap();
        let mut run = FollowedRun {
            run: String::new(),
            uid: 0,
            pid: 0,
            stream: own.into(),
            read: Vec::new(),
            over: false,
            is_known: true,
        };
        std::io::Write::write_all(&mut other, b"one\ntw").unwrap();
        run.fill();
        assert_eq!(run.line(), Some(b"one".to_vec()));
        assert_eq!((run.line(), run.over), (None, false));
        let writer = std::thread::spawn(move || {
            let _ = std::io::Write::write_all(&mut other, &vec![b'x'; 2 * LINE]);
        });
        while !run.over {
            run.fill();
        }
        assert!(run.read.len() < LINE + (16 << 10));
        drop(run);
        foreign::close_dropped();
        writer.join().unwrap();
    }
}
