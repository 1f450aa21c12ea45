//! A program that is followed, from its release to the end of its jail.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use nix::errno::Errno;

use super::ShiftedClock;
use super::tracer::ClockTracer;
use crate::error::JailError;
use crate::kernel_file;

/// A program that is followed.
#[derive(Debug)]
pub struct FollowedProgram {
    thread: Option<JoinHandle<()>>,
    is_over: Arc<AtomicBool>,
}

impl FollowedProgram {
    /// Begins to follow the only child of the jail's first process, which waits for its release.
    pub fn start(
        clock: ShiftedClock,
        answerer: Option<libc::pid_t>,
        init: libc::pid_t,
    ) -> Result<FollowedProgram, JailError> {
        let failed = |source| JailError::NotFollowed {
            allowed: kernel_file::read("/proc/sys/kernel/yama/ptrace_scope")
                .ok()
                .map(|text| text.trim().to_owned()),
            source,
        };
        let program = child_of(init).ok_or(Errno::ESRCH).map_err(failed)?;
        let is_over = Arc::new(AtomicBool::new(false));
        let (told, tell) = (Arc::clone(&is_over), mpsc::channel());
        let (tell, started) = tell;
        let follow = move || {
            let tracer = ClockTracer::seize(clock, answerer, program, told);
            let begun = tracer.as_ref().map(drop).map_err(|errno| *errno);
            if tell.send(begun).is_ok()
                && let Ok(tracer) = tracer
            {
                tracer.follow();
            }
        };
        let thread = thread::Builder::new().name("turnkey-clock".to_owned());
        let thread = thread.spawn(follow).map_err(|_| failed(Errno::EAGAIN))?;
        let begun = started.recv().unwrap_or(Err(Errno::ESRCH));
        begun.map_err(failed)?;
        Ok(FollowedProgram {
            thread: Some(thread),
            is_over,
        })
    }

    /// True when the run is over by its own clock.
    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Waits until nothing is left to follow; the jail has been killed.
    pub fn finish(&mut self) {
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The child of a process, in /proc.
fn child_of(parent: libc::pid_t) -> Option<libc::pid_t> {
    let entries = std::fs::read_dir("/proc").ok()?.flatten();
    let mut pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.find(|pid: &libc::pid_t| {
        let stat = kernel_file::read(format!("/proc/{pid}/stat")).unwrap_or_default();
        // The name in brackets may hold anything.
        let rest = stat.rsplit_once(')').map(|(_, rest)| rest);
        let above = rest.and_then(|rest| rest.split_whitespace().nth(1)?.parse().ok());
        above == Some(parent)
    })
}
