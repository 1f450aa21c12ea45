//! Both rings as one stream of events.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use turnkey_abi::count::SLOTS;

use crate::decode::{DecodeError, count_index, decode};
use crate::order::Order;
use crate::sys::Ring;
use turnkey_facts::Event;

/// Counts of the records that came out of the rings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Arrived {
    /// Records that are events.
    pub(crate) records: u64,
    /// Records that are none.
    pub(crate) malformed: u64,
    /// Acts that the records tell of, by [`turnkey_abi::count::slot`].
    pub(crate) acts: [u64; SLOTS],
}

impl Arrived {
    fn count(&mut self, decoded: Result<Event, DecodeError>) -> Option<Event> {
        match decoded {
            Ok(event) => {
                self.records += 1;
                self.acts[count_index(&event.kind)] += 1 + event.repeated;
                Some(event)
            }
            Err(_) => {
                self.malformed += 1;
                None
            }
        }
    }
}

/// An event and the bytes of its record.
type Head = (Event, usize);

/// The rings of telemetry and of verdicts.
pub(crate) struct Stream {
    rings: [Ring; 2],
    /// The last event of each ring, while the other's is older.
    heads: [Option<Head>; 2],
    order: Order,
    arrived: Arrived,
    /// Losses that the kernel has counted, when last asked.
    lost: u64,
    either: Epoll,
}

impl Stream {
    pub(crate) fn new(rings: [Ring; 2]) -> io::Result<Self> {
        let either = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        for (ring, data) in rings.iter().zip(0..) {
            either.add(ring, EpollEvent::new(EpollFlags::EPOLLIN, data))?;
        }
        Ok(Self {
            rings,
            heads: [None, None],
            order: Order::default(),
            arrived: Arrived::default(),
            lost: 0,
            either,
        })
    }

    /// Hands over at most about `most` events in their order; whether there may be more at once.
    /// `lost` says how many records did not fit the rings.
    pub(crate) fn drain(
        &mut self,
        most: usize,
        lost: impl Fn() -> u64,
        mut on_event: impl FnMut(Event),
    ) -> bool {
        for _ in 0..most {
            let Some((event, bytes)) = self.take() else {
                return false;
            };
            self.order.push(event, bytes);
            self.hand_over(&lost, &mut on_event);
        }
        true
    }

    fn hand_over(&mut self, lost: impl Fn() -> u64, mut on_event: impl FnMut(Event)) {
        let mut asked = false;
        loop {
            let known = self.lost + self.arrived.malformed;
            let mut wanted = false;
            let popped = self.order.pop(|| {
                wanted = true;
                known
            });
            match popped {
                Some(event) => on_event(event),
                None if wanted && !asked => {
                    asked = true;
                    self.lost = lost();
                }
                None => return,
            }
        }
    }

    /// Adds what came by another way than the rings; `next_seq` is the number it gets, as in [`Order::append`].
    pub(crate) fn add(&mut self, event: Result<Event, DecodeError>, next_seq: &mut u64) {
        if let Some(event) = self.arrived.count(event) {
            *next_seq = self.order.append(event, *next_seq);
        }
        *next_seq += 1;
    }

    /// Hands over what waits for numbers that will not come any more, and says what has arrived.
    pub(crate) fn finish(mut self, mut on_event: impl FnMut(Event)) -> Arrived {
        while let Some(event) = self.order.take() {
            on_event(event);
        }
        self.arrived
    }

    /// Forgets what was handed over; the next event has number 0 again.
    pub(crate) fn restart(&mut self) {
        self.heads = [None, None];
        self.order = Order::default();
        self.arrived = Arrived::default();
        self.lost = 0;
    }

    /// The older of the two rings' next events.
    fn take(&mut self) -> Option<Head> {
        for (ring, head) in self.rings.iter_mut().zip(&mut self.heads) {
            if head.is_none() {
                // Where it cannot be read nothing arrives any more, so the evidence is not complete,
                // and says so. To be told that there is something would not help.
                *head = next(ring, &mut self.arrived).unwrap_or_else(|_| {
                    let _ = self.either.delete(&*ring);
                    None
                });
            }
        }
        let seq = |head: &Option<Head>| head.as_ref().map_or(u64::MAX, |(event, _)| event.seq);
        let [telemetry, verdict] = &mut self.heads;
        let older = if seq(telemetry) <= seq(verdict) {
            telemetry
        } else {
            verdict
        };
        older.take()
    }
}

/// A ring's next event; records that are none are counted and left out.
fn next(ring: &mut Ring, arrived: &mut Arrived) -> io::Result<Option<Head>> {
    loop {
        let read = |record: &[u8]| (decode(record), record.len());
        let Some((decoded, bytes)) = ring.next(read)? else {
            return Ok(None);
        };
        if let Some(event) = arrived.count(decoded) {
            return Ok(Some((event, bytes)));
        }
    }
}

impl Stream {
    /// Readable when the ring of verdicts has something.
    pub(crate) fn verdicts(&self) -> BorrowedFd<'_> {
        let [_, verdicts] = &self.rings;
        verdicts.as_fd()
    }
}

impl AsFd for Stream {
    /// Readable when either ring has something.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.either.0.as_fd()
    }
}
