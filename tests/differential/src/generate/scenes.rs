//! Calls that lead somewhere only after one another.

use super::{ADDRESSES, AT_FDCWD, FD_SLOTS, Maker, call};
use crate::address::{ASKED, question};
use crate::program::{Arg, Op};

impl Maker {
    /// A directory of its own, which an overlay lets be renamed, under a name that rules speak of.
    pub(super) fn carry(&mut self) -> Vec<Op> {
        const NAMES: [&str; 3] = ["made", "/workspace/made", "e/../made"];
        const TO: [&str; 6] = [
            "moved",
            "e/moved",
            "d/n",
            "/workspace/moved",
            "newd",
            "made",
        ];
        let [from, name] = [self.pick(&NAMES), self.pick(&NAMES)];
        let to = self.pick(&TO);
        let text = |text: &str| Arg::Text(text.to_owned());
        let made = if self.one_in(2) { name } else { to };
        let mkdir = |name| call("mkdir", vec![text(name), Arg::Number(0o755)], None);
        let mut ops = vec![
            mkdir(made),
            call("rename", vec![text(from), text(to)], None),
            call("rename", vec![text(to), text(from)], None),
        ];
        if self.one_in(3) {
            // With a directory of the same kind, or with what is there.
            ops.extend([mkdir(from), mkdir("newd")]);
            let other = self.pick(&["newd", "new0", "a", "vault", "d"]);
            ops.push(exchange(from, other));
        }
        ops
    }

    /// A resolver that knows of no name server asks the jail itself.
    pub(super) fn ask(&mut self) -> Vec<Op> {
        let slot = FD_SLOTS as u8 + 2;
        let address = || Arg::Bytes(ADDRESSES[1].to_vec());
        let mut send = vec![Arg::Slot(slot, 0), Arg::Bytes(question(ASKED))];
        send.extend([29, 0x40].map(Arg::Number));
        let [named, unnamed] = [
            vec![address(), Arg::Number(16)],
            vec![Arg::Number(0), Arg::Number(0)],
        ]
        .map(|to| call("sendto", [&send[..], &to].concat(), None));
        let connect = vec![Arg::Slot(slot, 0), address(), Arg::Number(16)];
        let write = vec![
            Arg::Slot(slot, 0),
            Arg::Bytes(question(ASKED)),
            Arg::Number(29),
        ];
        vec![
            call("socket", [2, 2, 0].map(Arg::Number).to_vec(), Some(slot)),
            named,
            call("connect", connect, None),
            unnamed,
            call("write", write, None),
        ]
    }

    /// A watch on a file, and a change that it waits for.
    pub(super) fn watch(&mut self) -> Vec<Op> {
        let slot = self.below(FD_SLOTS) as u8;
        let path = self.path();
        let asked = ["s0", "/workspace/s0", "a", &path];
        let path = asked[self.below(4) as usize].to_owned();
        let args = vec![Arg::Slot(slot, 0), Arg::Text(path), Arg::Number(2)];
        vec![
            call("inotify_init1", vec![Arg::Number(0)], Some(slot)),
            call("inotify_add_watch", args, None),
        ]
    }

    /// Two sockets that know each other.
    pub(super) fn talk(&mut self) -> Vec<Op> {
        let kind = self.pick(&[1, 2]);
        let name = self.pick(&[7, 8, 9]);
        let address = || Arg::Bytes(ADDRESSES[name].to_vec());
        let size = || Arg::Number(ADDRESSES[name].len() as u64);
        let [first, second] = [0, 1].map(|index| FD_SLOTS as u8 + index);
        let socket = |out| {
            call(
                "socket",
                vec![Arg::Number(1), Arg::Number(kind), Arg::Number(0)],
                Some(out),
            )
        };
        let mut ops = vec![
            socket(first),
            call("bind", vec![Arg::Slot(first, 0), address(), size()], None),
            call("listen", vec![Arg::Slot(first, 0), Arg::Number(9)], None),
            socket(second),
            call(
                "connect",
                vec![Arg::Slot(second, 0), address(), size()],
                None,
            ),
        ];
        let send = vec![
            Arg::Slot(second, 0),
            Arg::Bytes(vec![1; 24]),
            Arg::Number(1),
            Arg::Number(0x40),
            address(),
            size(),
        ];
        ops.push(call("sendto", send, None));
        let message = Arg::Message {
            name: Some(ADDRESSES[name].to_vec()),
            data: vec![1; 24],
        };
        ops.push(call(
            "sendmsg",
            vec![Arg::Slot(second, 0), message, Arg::Number(0x40)],
            None,
        ));
        ops
    }

    /// A file of its own, with two more names, which all go again.
    pub(super) fn names(&mut self) -> Vec<Op> {
        const O_CREAT: u64 = 0o101;
        const AT_REMOVEDIR: u64 = 0x200;
        let [first, second, third] =
            [0, 1, 2].map(|index| format!("f{}", 3 * self.below(3) + index));
        let text = |text: &str| Arg::Text(text.to_owned());
        let here = || Arg::Number(AT_FDCWD);
        let named =
            |old: &str, new: &str| vec![here(), text(old), here(), text(new), Arg::Number(0)];
        let flags = if self.one_in(6) { AT_REMOVEDIR } else { 0 };
        vec![
            call(
                "open",
                vec![text(&first), Arg::Number(O_CREAT), Arg::Number(0o600)],
                Some(0),
            ),
            call("link", vec![text(&first), text(&second)], None),
            call("linkat", named(&second, &third), None),
            exchange(&second, &third),
            call("unlink", vec![text(&second)], None),
            call(
                "unlinkat",
                vec![here(), text(&third), Arg::Number(flags)],
                None,
            ),
            call("unlink", vec![text(&first)], None),
        ]
    }

    /// A server, with a port that it asks for or with one that the kernel chooses.
    pub(super) fn serve(&mut self) -> Vec<Op> {
        let slot = FD_SLOTS as u8 + 3;
        let kind = self.pick(&[1, 1, 1, 0x801]);
        let address = self.pick(&[3, 3, 0]);
        let socket = || call("socket", [2, kind, 0].map(Arg::Number).to_vec(), Some(slot));
        let listen = || call("listen", vec![Arg::Slot(slot, 0), Arg::Number(4)], None);
        let to = Arg::Bytes(ADDRESSES[address].to_vec());
        vec![
            socket(),
            call("bind", vec![Arg::Slot(slot, 0), to, Arg::Number(16)], None),
            listen(),
            socket(),
            listen(),
        ]
    }
}

/// Two names change places.
fn exchange(one: &str, other: &str) -> Op {
    const RENAME_EXCHANGE: u64 = 2;
    let [one, other] = [one, other].map(|text| Arg::Text(text.to_owned()));
    let here = || Arg::Number(AT_FDCWD);
    let args = vec![here(), one, here(), other, Arg::Number(RENAME_EXCHANGE)];
    call("renameat2", args, None)
}
