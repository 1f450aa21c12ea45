//! The programs at tracepoints, and how the kernel calls them.
//!
//! Since Linux 7 a task can lose the CPU in the middle of a tracepoint, and the kernel leaves a
//! program out while another task of the CPU is in it. A task that wants to break a rule need only
//! have another task interrupted there first. The programs that decide are called by perf then, which
//! keeps the CPU until they are done.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;

use aya::Ebpf;
use aya::programs::links::FdLink;
use aya::programs::{BtfTracePoint, ProgramError, TracePoint};
use nix::errno::Errno;

use crate::error::{OpenError, answered, explain_program, refused};
use crate::load::program;
use crate::sys;

/// A program at a tracepoint.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tracepoint {
    /// The program's name in the object.
    pub(crate) program: &'static str,
    attachment: TracepointAttachment,
}

/// Ways in which the kernel calls a program.
#[derive(Clone, Copy, Debug)]
enum TracepointAttachment {
    /// At the tracepoint of its name (`tp_btf`).
    Direct,
    /// For perf's trace event of this group and name.
    Perf(&'static str, &'static str),
}

const fn direct(program: &'static str) -> Tracepoint {
    let attachment = TracepointAttachment::Direct;
    Tracepoint {
        program,
        attachment,
    }
}

const fn perf(program: &'static str, group: &'static str, event: &'static str) -> Tracepoint {
    let attachment = TracepointAttachment::Perf(group, event);
    Tracepoint {
        program,
        attachment,
    }
}

const WHOLE: &[Tracepoint] = &[
    direct("sys_enter"),
    direct("sys_exit"),
    direct("sched_process_exec"),
    direct("sched_process_fork"),
    direct("sched_process_exit"),
    direct("signal_generate"),
];

/// In the order in which they are attached, which is that of their runs: what perf's program of exec
/// has decided, the other one tells. A fork that is left out is not told, and decides nothing.
const BY_PERF: &[Tracepoint] = &[
    perf("perf_sys_enter", "raw_syscalls", "sys_enter"),
    perf("perf_sys_exit", "raw_syscalls", "sys_exit"),
    perf("perf_sched_process_exec", "sched", "sched_process_exec"),
    perf("perf_sched_process_exit", "sched", "sched_process_exit"),
    direct("sched_process_exec"),
    direct("sched_process_fork"),
    direct("signal_generate"),
];

/// Most programs that there are at tracepoints.
pub(crate) const MOST_TRACEPOINTS: u32 = 7;
const _: () = assert!(WHOLE.len() <= MOST_TRACEPOINTS as usize);
const _: () = assert!(BY_PERF.len() <= MOST_TRACEPOINTS as usize);

/// Tracepoint programs that are loaded.
pub(crate) fn tracepoints(by_perf: bool) -> &'static [Tracepoint] {
    if by_perf { BY_PERF } else { WHOLE }
}

impl Tracepoint {
    /// Lets the kernel call it, as long as the object is there.
    pub(crate) fn attach(self, ebpf: &mut Ebpf) -> Result<(), OpenError> {
        let name = self.program;
        match self.attachment {
            TracepointAttachment::Direct => {
                let attached = program::<BtfTracePoint>(ebpf, name)?.attach();
                attached.map_err(|source| explain_program(name, source))?;
            }
            TracepointAttachment::Perf(group, event) => {
                let attached = program::<TracePoint>(ebpf, name)?.attach(group, event);
                attached.map_err(|source| explain_event(name, source))?;
            }
        }
        Ok(())
    }

    /// Lets the kernel call a program that was loaded before, as long as a process holds the link. The program is open,
    /// and pinned at that path.
    pub(crate) fn link_pinned(
        self,
        program: BorrowedFd<'_>,
        pin: &Path,
    ) -> Result<OwnedFd, OpenError> {
        let name = self.program;
        match self.attachment {
            TracepointAttachment::Direct => {
                let link = sys::link_verified(program);
                link.map_err(|errno| {
                    explain_program(name, refused("bpf_raw_tracepoint_open", errno))
                })
            }
            TracepointAttachment::Perf(group, event) => perf_link((name, pin), (group, event)),
        }
    }
}

/// A link to a trace event of perf, of a program that is pinned there.
fn perf_link(
    (name, pin): (&'static str, &Path),
    (group, event): (&str, &str),
) -> Result<OwnedFd, OpenError> {
    let link = TracePoint::from_pin(pin).and_then(|mut program| {
        let link = program.attach(group, event)?;
        program.take_link(link)
    });
    let link = link.map_err(|source| explain_event(name, source))?;
    let unnumbered = |source| OpenError::Program {
        name,
        source: Box::<dyn std::error::Error + Send + Sync>::from(source),
    };
    let link = FdLink::try_from(link).map_err(unnumbered)?;
    // aya does not hand its descriptor out.
    let ours = sys::link_by_number(link.info().map_err(unnumbered)?.id());
    ours.and_then(|ours| ours.ok_or(Errno::ENOENT))
        .map_err(|errno| explain_program(name, refused("bpf_link_get_fd_by_id", errno)))
}

/// Directories with the numbers of trace events; `Documentation/trace/events.rst`.
const TRACE_EVENTS: [&str; 2] = [
    "/sys/kernel/tracing/events/raw_syscalls",
    "/sys/kernel/debug/tracing/events/raw_syscalls",
];

fn explain_event(name: &'static str, error: ProgramError) -> OpenError {
    if answered(&error, Errno::E2BIG) {
        OpenError::TooManyForOneEvent(Box::new(error))
    } else if TRACE_EVENTS.iter().any(|path| Path::new(path).exists()) {
        explain_program(name, error)
    } else {
        OpenError::NoTraceEvents(Box::new(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn when_perf_takes_no_more_programs_the_way_out_is_said() {
        let full = aya::sys::SyscallError {
            call: "bpf_link_create",
            io_error: Errno::E2BIG.into(),
        };
        let told = explain_event("perf_sys_enter", full.into()).to_string();
        assert!(told.contains("turnkey monitor load"), "{told}");
    }

    #[test]
    fn what_kills_is_called_by_perf_and_before_what_tells_of_the_same() {
        let place = |name: &str| BY_PERF.iter().position(|one| one.program == name);
        for name in ["perf_sys_enter", "perf_sys_exit", "perf_sched_process_exec"] {
            assert!(place(name).is_some(), "{name}");
        }
        assert!(place("perf_sched_process_exec") < place("sched_process_exec"));
        assert_eq!(
            place("sys_enter").or(place("sys_exit")),
            None,
            "nothing is done twice"
        );
    }
}
