//! Jail escape: a mount, a look into another process, a kernel program or module, a setting of the kernel,
//! a raw device, the root of another process, or the socket of a container engine was wanted.
//!
//! Event loops try `io_uring` when they start and go on without, so that alone is none; so is a process
//! that lets itself be traced, or traces what it started, which every debugger does.

use turnkey_policy::{AttemptKind, Behaviour};

use super::act::{ObservedAct, Opened, Operation};
use super::path_classes::Reach;
use super::process_state::{ProcessState, base_name};
use super::{Detector, OPENED, SPOKE, Sighting, Step, Verb};
use turnkey_facts::Address;

/// ptrace(2): `PTRACE_TRACEME`
const TRACE_ME: u64 = 0;

/// Calls that no ordinary program makes, besides those that rules know as mounts and modules.
const CALLS: &[&str] = &[
    "bpf",
    "process_vm_writev",
    "pidfd_getfd",
    "open_by_handle_at",
    "pivot_root",
    "chroot",
    "setns",
];

const BY_HANDLE: Verb = ("opened by its handle ", "tried to open by its handle ");
const FOR_WRITING: Verb = ("opened for writing ", "tried to open for writing ");

/// Remembers nothing.
#[derive(Debug)]
pub struct Escape;

impl Detector for Escape {
    fn observe(
        &mut self,
        act: &ObservedAct<'_>,
        state: &ProcessState,
        tell: &mut dyn FnMut(Sighting),
    ) {
        let step = match &act.what {
            Operation::Called { name, on, args }
                if reaches_out(name, *on, args) && !traces_own(act, state) =>
            {
                Step::from_event(act.event, &[b"called ", name.as_bytes()])
            }
            Operation::Opened(opened) if passes_every_directory(opened) => {
                Step::by_outcome(act, BY_HANDLE, &[&opened.path])
            }
            Operation::Opened(opened) => match state.traits(&opened.path).outside {
                Some(Reach::Open) => Step::by_outcome(act, OPENED, &[&opened.path]),
                Some(Reach::Write) if opened.writes => {
                    Step::by_outcome(act, FOR_WRITING, &[&opened.path])
                }
                _ => return,
            },
            Operation::Spoke {
                address: Address::UnixPath(path),
                ..
            } if reaches_a_service(path, state) => Step::by_outcome(act, SPOKE, &[path]),
            _ => return,
        };
        tell(Sighting::new(Behaviour::JailEscape, vec![step]));
    }
}

/// True for a socket by which somebody outside is told what to do. Of a relative name the directory is not known, and the name of such a
/// socket tells enough: it stands in `/run`, or in a directory there that is called as it is.
fn reaches_a_service(path: &[u8], state: &ProcessState) -> bool {
    let is_outside = |path: &[u8]| state.traits(path).outside.is_some();
    if path.first() == Some(&b'/') {
        return is_outside(&state.socket(path));
    }
    let name = base_name(path);
    let stem = name.strip_suffix(b".sock").unwrap_or(name);
    let below = [b"/run/".as_slice(), stem, b"/", name].concat();
    name.ends_with(b".sock") && (is_outside(&[b"/run/", name].concat()) || is_outside(&below))
}

/// True for a file that was opened by its handle, past every directory and mount on its way, as programs do that leave a container by
/// a file system of the host. A control group is found by its handle every day, and files of the kernel's own stand in no directory: who
/// has the handle of a pidfd or a namespace gets by it what pidfd_open(2) and /proc give.
fn passes_every_directory(opened: &Opened<'_>) -> bool {
    let of_the_kernel = [b"/sys/".as_slice(), b"/proc/"]
        .iter()
        .any(|place| opened.path.starts_with(place));
    opened.by_handle && !opened.nameless && !of_the_kernel
}

/// True for ptrace(2) of a process that comes from the caller, as a debugger's or a tracer's does: it gets by it what is its own.
fn traces_own(act: &ObservedAct<'_>, state: &ProcessState) -> bool {
    let Operation::Called {
        on: Some(AttemptKind::Ptrace),
        args: [_, process, _],
        ..
    } = &act.what
    else {
        return false;
    };
    let process = u32::try_from(*process);
    process.is_ok_and(|process| state.comes_from(process, &act.event.task))
}

fn reaches_out(name: &str, on: Option<AttemptKind>, args: &[u64; 3]) -> bool {
    match on {
        Some(AttemptKind::Mount | AttemptKind::Module) => true,
        Some(AttemptKind::Ptrace) if name == "ptrace" => args[0] != TRACE_ME,
        _ => CALLS.contains(&name),
    }
}
