//! The word of a run that watches a group below another's, or that kills what another one watches, too: the name of the socket from which it connects.
//!
//! A name is whole as soon as the connection is made, so the other side need not wait for it, nor this side for the other: a run may be
//! over before it is heard.

use std::ffi::OsStr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, bind, socket};

use super::Visitor;
use super::found::NamedRun;
use super::peer::Peer;

/// The beginnings of such a name: of one that watches, and of one that kills all of its group.
const PREFIXES: [(&[u8], bool); 2] = [(b"turnkey-watches/", false), (b"turnkey-kills/", true)];
/// The longest name, unix(7), without the zero in front.
const LONGEST: usize = 107;

/// A run that watches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announcement {
    /// The run's id.
    pub run: String,
    /// The id of its control group.
    pub group: u64,
    /// The path of that group below the one of who is told; only its end, where it is long. By the time it is heard, the
    /// group may be gone.
    pub name: Vec<u8>,
    /// True when it kills all of its group.
    pub kills: bool,
}

impl Announcement {
    fn text(&self) -> Vec<u8> {
        let prefix = PREFIXES.into_iter().find(|(_, kills)| *kills == self.kills);
        let mut text = prefix
            .map(|(prefix, _)| prefix.to_vec())
            .unwrap_or_default();
        text.extend(format!("{}/{:x}/", self.run, self.group).bytes());
        let left = LONGEST.saturating_sub(text.len());
        let cut = self.name.len().saturating_sub(left);
        text.extend(&self.name[cut..]);
        text
    }

    /// The announcement that is in a name; `None` where it is another one.
    pub fn of(name: &[u8]) -> Option<Announcement> {
        let mut prefixes = PREFIXES.into_iter();
        let (told, kills) =
            prefixes.find_map(|(prefix, kills)| Some((name.strip_prefix(prefix)?, kills)))?;
        let mut parts = told.splitn(3, |byte| *byte == b'/');
        let run = std::str::from_utf8(parts.next()?).ok()?;
        let group = std::str::from_utf8(parts.next()?).ok()?;
        let is_id = |byte: u8| byte.is_ascii_hexdigit() || byte == b'-';
        (!run.is_empty() && run.bytes().all(is_id)).then_some(())?;
        Some(Announcement {
            run: run.to_owned(),
            group: u64::from_str_radix(group, 16).ok()?,
            name: parts.next()?.to_vec(),
            kills,
        })
    }

    /// The end of the group's path.
    pub fn path(&self) -> PathBuf {
        let path = Path::new(OsStr::from_bytes(&self.name));
        path.strip_prefix("/").unwrap_or(path).to_owned()
    }

    /// True when a process of this user made the connection, one outside of all jails as far as it still lives.
    pub fn is_of(&self, stream: &UnixStream) -> bool {
        let peer = Peer::of(stream);
        let lives = |peer: Peer| Path::new(&format!("/proc/{}", peer.pid)).exists();
        peer.is_some_and(|peer| peer.is_own() && (peer.is_outside_of_jails() || !lives(peer)))
    }
}

/// Tells a run of another one; whether it will hear of it.
pub fn announce(run: &NamedRun, told: &Announcement) -> bool {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let made = socket(AddressFamily::Unix, SockType::Stream, flags, None);
    let bound = made.and_then(|socket: OwnedFd| {
        bind(socket.as_raw_fd(), &UnixAddr::new_abstract(&told.text())?)?;
        Ok(Visitor::from(UnixStream::from(socket)))
    });
    bound.is_ok_and(|socket| run.connect(&socket))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_read_as_it_was_said_and_a_long_one_is_cut_at_its_beginning() {
        let told = Announcement {
            run: "6a1-2b".to_owned(),
            group: 0x1f3,
            name: b"jobs/turnkey-1-0".to_vec(),
            kills: false,
        };
        assert_eq!(Announcement::of(&told.text()), Some(told.clone()));
        let killing = Announcement {
            kills: true,
            ..told.clone()
        };
        assert_eq!(Announcement::of(&killing.text()), Some(killing));
        let long = Announcement {
            name: [vec![b'x'; 300], b"/end".to_vec()].concat(),
            ..told
        };
        let heard = Announcement::of(&long.text()).unwrap();
        assert_eq!(long.text().len(), LONGEST);
        assert!(heard.path().ends_with("end"));
        for other in [
            &b"turnkey/6a1"[..],
            b"turnkey-watches/",
            b"turnkey-watches/x y/1/z",
            b"turnkey-watches/a/g/z",
        ] {
            assert_eq!(Announcement::of(other), None);
        }
    }
}
