//! Followers of a run that lives, and how they find it.
//!
//! Each run and each attachment listens on an abstract socket, `@turnkey/RUN`: it is in /proc/net/unix as long as its process
//! lives, so that there is no registry, and nothing to be swept after a SIGKILL. A name there is anybody's, so each side looks at
//! the other (see [`peer`]): whoever follows is of the same user, and no process of a jail; root follows as the user whose run
//! it is. Names belong to a network namespace; runs of another one are not found.
//!
//! The name of a run that watches goes on with a slash and the id of its control group, by which others that watch the same processes
//! find it: see [`announcement`].
//!
//! A follower sends nothing. It gets a line of the state, then a line for each event and for each alert.

use std::os::unix::net::UnixStream;

use turnkey_jailer::foreign::ForeignSocket;

mod announcement;
mod feed;
mod found;
mod listener;
mod peer;

pub use announcement::{Announcement, announce};
pub use feed::LiveFeed;
pub use found::{FirstLine, Followed, FollowedRun, LiveLook, NamedRun, runs_that_watch};
pub use listener::{FollowerListener, next};

/// The beginning of the names, without the zero that makes them abstract.
const PREFIX: &str = "turnkey/";

/// A connection whose other side is anybody.
pub type Visitor = ForeignSocket<UnixStream>;
