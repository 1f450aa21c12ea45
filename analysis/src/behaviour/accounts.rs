//! Account discovery: a program that was installed before the run reads the list of accounts itself, or a copy of it; or
//! getent(1) is told to print the whole.
//!
//! Whoever wants the name of a number asks the C library, which reads `/etc/nsswitch.conf` to know where names come from
//! before it opens `/etc/passwd`. Who opens the list without having asked wants the list. A program that the run
//! brought or built may have no such library, so of those nothing is said.

use turnkey_policy::{Behaviour, WORKSPACE};

use super::act::{ObservedAct, Operation};
use super::path_classes::{SERVICES, is_in_any, is_system};
use super::process_state::{ProcessState, base_name};
use super::{Detector, Sighting, Step};

/// The lists of accounts and groups.
const LISTS: &[&[u8]] = &[b"/etc/passwd", b"/etc/group"];

/// The names of the lists, by which copies go, with one of [`ENDINGS`] behind.
const NAMES: &[&[u8]] = &[b"passwd", b"group", b"shadow", b"gshadow"];

/// Ends by which tools and people mark another copy of a file. A file of a package, such as dpkg's `passwd.list`, has the name
/// of a list as well, and is none.
const ENDINGS: &[&[u8]] = &[
    b"-", b"~", b".bak", b".backup", b".master", b".old", b".org", b".orig", b".save",
];
/// The same of packages, with more behind: `passwd.dpkg-old`.
const ENDINGS_OF_PACKAGES: &[&[u8]] = &[b".dpkg-", b".rpm", b".ucf-"];

/// Remembers nothing: what a process has asked is the state's.
#[derive(Debug)]
pub struct AccountDiscovery;

impl Detector for AccountDiscovery {
    fn observe(
        &mut self,
        act: &ObservedAct<'_>,
        state: &ProcessState,
        tell: &mut dyn FnMut(Sighting),
    ) {
        if let Operation::Executed { file, argv, .. } = &act.what
            && base_name(&file.path) == b"getent"
            && let [_, list] = argv
            && NAMES.contains(&&list[..])
        {
            let step = Step::from_event(act.event, &[b"ran getent on the whole of ", list]);
            tell(Sighting::new(Behaviour::AccountDiscovery, vec![step]));
        }
        let Operation::Opened(opened) = &act.what else {
            return;
        };
        let path = &opened.path[..];
        let process = state.process(&act.event.task);
        let reads_itself = LISTS.contains(&path)
            && process.is_some_and(|one| !one.asks_names && is_installed(&one.exe));
        if opened.reads && opened.outcome.is_attempt() && (reads_itself || is_copy(path)) {
            let step = Step::from_event(act.event, &[b"read ", path]);
            tell(Sighting::new(Behaviour::AccountDiscovery, vec![step]));
        }
    }
}

/// True for a program that lies where no run can have put it: of the system, or of a toolchain.
pub fn is_installed(exe: &[u8]) -> bool {
    exe.starts_with(b"/") && !is_in_any(exe, &[WORKSPACE, "/tmp", "/var/tmp", "/dev/shm"])
}

/// True for what the system keeps of such a list under another name: `passwd-`, `group.bak`.
fn is_copy(path: &[u8]) -> bool {
    let name = base_name(path);
    let ends = NAMES.iter().filter_map(|one| name.strip_prefix(*one));
    let is_other = |end: &[u8]| {
        let mut of_packages = ENDINGS_OF_PACKAGES.iter();
        ENDINGS.contains(&end) || of_packages.any(|one| end.starts_with(one))
    };
    let is_the_systems = is_system(path) || is_in_any(path, SERVICES);
    is_the_systems && ends.into_iter().any(is_other)
}
