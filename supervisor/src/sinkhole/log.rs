//! The conversations of a sinkhole, as far as there is room for them.

use std::cell::{Cell, RefCell};

use turnkey_facts::{Conversation, SinkholeTraffic};

/// Conversations that are kept.
const MOST_CONVERSATIONS: usize = 1024;
/// Bytes that are kept of one.
pub const MOST_OF_ONE: usize = 64 << 10;
/// Bytes that are kept of all.
const MOST_OF_ALL: usize = 16 << 20;

/// A conversation in a log; none where there was no more room.
#[derive(Clone, Copy, Debug)]
pub struct Row(Option<usize>);

/// The conversations, row by row.
#[derive(Debug, Default)]
pub struct SinkholeLog {
    traffic: RefCell<SinkholeTraffic>,
    kept: Cell<usize>,
}

impl SinkholeLog {
    /// A conversation begins.
    pub fn begin(&self, conversation: Conversation) -> Row {
        let mut traffic = self.traffic.borrow_mut();
        if traffic.conversations.len() >= MOST_CONVERSATIONS {
            traffic.unlisted += 1;
            return Row(None);
        }
        traffic.conversations.push(conversation);
        Row(Some(traffic.conversations.len() - 1))
    }

    /// The program sent this.
    pub fn sent(&self, row: Row, bytes: &[u8]) {
        let room = MOST_OF_ALL.saturating_sub(self.kept.get());
        self.change(row, |conversation| {
            conversation.sent += bytes.len() as u64;
            let room = room.min(MOST_OF_ONE.saturating_sub(conversation.kept.len()));
            let kept = &bytes[..bytes.len().min(room)];
            conversation.kept.extend_from_slice(kept);
            self.kept.set(self.kept.get() + kept.len());
        });
    }

    /// Notes something else of a conversation.
    pub fn change(&self, row: Row, change: impl FnOnce(&mut Conversation)) {
        let mut traffic = self.traffic.borrow_mut();
        if let Some(conversation) = row.0.and_then(|index| traffic.conversations.get_mut(index)) {
            change(conversation);
        }
    }

    /// A question of a resolver was answered.
    pub fn answered_question(&self) {
        self.traffic.borrow_mut().questions += 1;
    }

    /// All of it.
    pub fn take(&self) -> SinkholeTraffic {
        self.traffic.take()
    }
}

#[cfg(test)]
mod tests {
    use turnkey_facts::SinkholeProtocol;

    use super::*;

    fn conversation() -> Conversation {
        Conversation {
            to: ([198, 18, 0, 2], 80).into(),
            socket: 0,
            datagrams: false,
            name: None,
            protocol: SinkholeProtocol::Tcp,
            request: None,
            sent: 0,
            kept: Vec::new(),
            distrusts: false,
            cut: false,
            began_ns: 0,
        }
    }

    #[test]
    fn whatever_is_sent_the_log_is_bounded_and_says_what_it_left_out() {
        let log = SinkholeLog::default();
        let piece = vec![b'x'; MOST_OF_ONE / 2 + 1];
        for _ in 0..MOST_CONVERSATIONS + 3 {
            let row = log.begin(conversation());
            log.sent(row, &piece);
            log.sent(row, &piece);
        }
        let traffic = log.take();
        assert_eq!(traffic.conversations.len(), MOST_CONVERSATIONS);
        assert_eq!(traffic.unlisted, 3);
        let sent = traffic.conversations.iter().map(|one| one.sent);
        assert!(sent.eq(std::iter::repeat_n(
            2 * piece.len() as u64,
            MOST_CONVERSATIONS
        )));
        let kept: Vec<_> = traffic
            .conversations
            .iter()
            .map(|one| one.kept.len())
            .collect();
        assert_eq!(kept[0], MOST_OF_ONE);
        assert_eq!(kept.iter().sum::<usize>(), MOST_OF_ALL);
    }
}
