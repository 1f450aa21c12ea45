//! Actors: the processes whose programs and scripts rules name, as the kernel keeps them.

/// Most processes, of all jails together, whose role is known at the same time.
pub const ACTORS: u32 = 1 << 16;

/// A process: the start of its first thread, and its id in the host's namespace. No other ever has both.
pub type Process = [u64; 2];

/// An actor: the role of a process, the role that asked for its exec, and the thread that asks for one, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Actor(pub u64);

impl Actor {
    const ROLE: u64 = 0xff;
    const CALLER: u32 = 8;
    const JUDGED: u64 = 1 << 16;
    const MIXED: u64 = 1 << 17;

    /// A process of this role.
    #[must_use]
    #[inline(always)]
    pub const fn new(role: u32) -> Self {
        Self(role as u64 & Self::ROLE)
    }

    /// The same, whose exec by a process of the role `caller` is decided on and not told yet.
    #[must_use]
    #[inline(always)]
    pub const fn judged(self, caller: u32) -> Self {
        let caller = (caller as u64 & Self::ROLE) << Self::CALLER;
        Self(self.0 & !(Self::ROLE << Self::CALLER) | caller | Self::JUDGED)
    }

    /// The same, of which this thread asks for an exec, and has its working directory for itself. 0: none
    /// does.
    #[must_use]
    #[inline(always)]
    pub const fn alone(self, thread: u32) -> Self {
        Self(self.0 << 32 >> 32 | (thread as u64) << 32)
    }

    /// The same in another role.
    #[must_use]
    #[inline(always)]
    pub const fn in_role(self, role: u32) -> Self {
        Self(self.0 & !Self::ROLE | role as u64 & Self::ROLE)
    }

    /// A process that has made executable what another process of its jail may write, or have written: what it does is no actor's in
    /// particular from then on, until it executes something else.
    #[must_use]
    #[inline(always)]
    pub const fn mixed() -> Self {
        Self(Self::MIXED)
    }

    /// True for a [`mixed`](Self::mixed) actor.
    #[must_use]
    #[inline(always)]
    pub const fn is_mixed(self) -> bool {
        self.0 & Self::MIXED != 0
    }

    /// A process that this one makes. In a role it has executed something since it was mixed, and is that program.
    #[must_use]
    #[inline(always)]
    pub const fn child(self) -> Self {
        Self(self.0 & (Self::ROLE | Self::MIXED))
    }

    /// True for the child of a process of which nothing is known.
    #[must_use]
    #[inline(always)]
    pub const fn is_nobody(self) -> bool {
        self.0 == 0
    }

    /// The thread that asks for an exec, and has its working directory for itself.
    #[must_use]
    #[inline(always)]
    pub const fn thread(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// The process's role.
    #[must_use]
    #[inline(always)]
    pub const fn role(self) -> u32 {
        (self.0 & Self::ROLE) as u32
    }

    /// The role of the process that asked for its exec, as long as that is not told; else its own.
    #[must_use]
    #[inline(always)]
    pub const fn caller(self) -> u32 {
        let is_judged = self.0 & Self::JUDGED != 0;
        let shift = if is_judged { Self::CALLER } else { 0 };
        (self.0 >> shift & Self::ROLE) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_child_of_a_mixed_process_is_mixed_as_long_as_it_is_in_no_role() {
        let mixed = Actor::mixed();
        assert!(mixed.alone(4).child() == mixed && !mixed.is_nobody());
        assert_eq!(mixed.alone(4).in_role(7).child().role(), 7);
        assert!(Actor::new(0).judged(7).alone(4).child().is_nobody());
    }

    #[test]
    fn the_caller_of_an_exec_is_remembered_until_it_is_told() {
        let actor = Actor::new(9).alone(u32::MAX).judged(3).in_role(7);
        assert_eq!((actor.role(), actor.caller()), (7, 3));
        assert_eq!(actor.thread(), u32::MAX);
        assert_eq!(actor.alone(5).thread(), 5);
        let told = Actor::new(actor.role());
        assert_eq!((told.role(), told.caller()), (7, 7));
    }
}
