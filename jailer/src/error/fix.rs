//! The fix for each error of a start. Where the message itself says it, there is none.

use nix::errno::Errno;
use turnkey_policy::Layer;

use super::JailError;
use crate::FilterError;
use crate::export::DestinationError;
use crate::host::HostError;
use crate::host::fix::{ASK_THE_DOCTOR, by_errno, errno_of};
use crate::ids::rootless::RootlessError;
use crate::process::wire::ChildStep;
use crate::rootfs::paths::PathError;
use crate::rootfs::root::RootError;

const OUR_FAULT: &str = "this is a fault of turnkey, or of a kernel that it does not know; nothing of the program ran; \
                         please report it with what `turnkey doctor` says";

impl JailError {
    /// A command, or the one thing to change; `None` where the message names it.
    pub fn fix(&self) -> Option<String> {
        let fix = match self {
            JailError::Privileges(_)
            | JailError::RootOutside
            | JailError::CoveredProc(_)
            | JailError::NoIdentity { .. }
            | JailError::TooManyFiles
            | JailError::Namespaces { .. } => return None,
            JailError::Layer { layer, .. } => layer_fix(*layer),
            JailError::Filter(FilterError::Memory) => by_errno(Errno::ENOMEM),
            JailError::Proof(_) | JailError::Unexpected(_) | JailError::Filter(_) => {
                OUR_FAULT.to_owned()
            }
            JailError::Keeper(error) => by_errno(errno_of(error)),
            JailError::Group(error) => return error.fix(),
            JailError::Tree(error) => return error.fix(),
            JailError::Landlock(_) => ASK_THE_DOCTOR.to_owned(),
            JailError::Step { step, errno, .. } | JailError::StepAt { step, errno, .. } => {
                step_fix(*step, *errno)
            }
            JailError::Died => "raise the limit: --memory 64M, or more".to_owned(),
            JailError::Stalled(_) => {
                "this host is overloaded, or a file system does not answer: start fewer at once, \
                 and look at the kernel's log (dmesg)"
                    .to_owned()
            }
            JailError::NotFound(_) => {
                "the jail holds what the profile's `read` names; bring the program in with --read, \
                 or give its path"
                    .to_owned()
            }
            JailError::NotExecutable(program) => {
                format!("chmod +x {program}, or name its interpreter, such as: sh {program}")
            }
            JailError::ExecFailed { source, .. } => exec_fix(*source).to_owned(),
            JailError::NotFollowed { source, .. } => match source {
                Errno::EPERM => "let it be followed: sysctl kernel.yama.ptrace_scope=1 (3 stays until the host boots anew), and, in a \
                     container, --cap-add SYS_PTRACE"
                    .to_owned(),
                errno => by_errno(*errno),
            },
            JailError::System { source, .. } => by_errno(*source),
        };
        Some(fix)
    }
}

impl HostError {
    /// The one thing to change; `None` where the message names it.
    pub fn fix(&self) -> Option<String> {
        match self {
            HostError::Hierarchy(_) | HostError::Root(RootError::TooMany(..)) => None,
            HostError::Root(
                RootError::Etc(_) | RootError::Open(_, PathError::Foreign | PathError::Movable),
            ) => None,
            HostError::Root(RootError::Open(_, PathError::System(errno))) => Some(root_fix(*errno)),
            HostError::Root(RootError::List(_, _, errno)) | HostError::Addresses(errno) => {
                Some(by_errno(*errno))
            }
        }
    }
}

impl RootlessError {
    /// The one thing to change; `None` where the message names it.
    pub fn fix(&self) -> Option<String> {
        match self {
            RootlessError::Elevated
            | RootlessError::PowerlessRoot { .. }
            | RootlessError::Refused { .. }
            | RootlessError::Threads => None,
            RootlessError::Map(errno) => Some(by_errno(*errno)),
        }
    }
}

impl DestinationError {
    /// The one thing to change; `None` where the message names it.
    pub fn fix(&self) -> Option<String> {
        let (DestinationError::System(_, errno)
        | DestinationError::Above(_, PathError::System(errno))) = self
        else {
            return None;
        };
        Some(match errno {
            Errno::ENOENT | Errno::ENOTDIR => {
                "the directory above it does not exist: make that one first".to_owned()
            }
            errno => by_errno(*errno),
        })
    }
}

fn root_fix(errno: Errno) -> String {
    let fix = match errno {
        Errno::ENOENT | Errno::ENOTDIR => {
            "there is no such directory: name one that holds a system, in `filesystem.root` or with --root"
        }
        Errno::ELOOP => "it is a symlink: name the directory that it leads to",
        _ => return by_errno(errno),
    };
    fix.to_owned()
}

fn layer_fix(layer: Layer) -> String {
    let name = layer.name();
    format!(
        "{ASK_THE_DOCTOR}; or go on without it, which the report then says: --best-effort, or a profile that leaves `{name}` \
         out of `enforcement.required`"
    )
}

fn step_fix(step: ChildStep, errno: Errno) -> String {
    let fix = match (step, errno) {
        (ChildStep::Rootfs, Errno::ENOSPC) => {
            "the jail's root has room for little more than names: name fewer paths and decoys"
        }
        (
            ChildStep::Rootfs | ChildStep::LandlockRules,
            Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP,
        ) => "the host's files have changed since they were looked at: start it again",
        (ChildStep::Rootfs, Errno::EINVAL | Errno::EOPNOTSUPP) => {
            "a file system that it needs cannot do this here: start in another directory, or run with --workdir-mode read-only or none"
        }
        (ChildStep::Rootfs, Errno::ENODEV) => "a file system is not loaded: modprobe overlay",
        (ChildStep::Routes | ChildStep::Listeners, Errno::EAFNOSUPPORT | Errno::EOPNOTSUPP) => {
            "this kernel has no IPv6 (ipv6.disable=1): allow addresses of version 4 alone"
        }
        (ChildStep::Listeners, Errno::EMFILE | Errno::ENFILE | Errno::ETOOMANYREFS) => {
            "raise the limit of open files (ulimit -n), or allow fewer ports"
        }
        (ChildStep::Terminal, Errno::ENOSPC) => {
            "the host has no terminal left for jails: raise kernel.pty.max, or run without one (--no-tty)"
        }
        (ChildStep::WorkingDirectory, _) => {
            "the jail's user cannot enter the working directory: name another with --workdir"
        }
        (ChildStep::Landlock | ChildStep::LandlockRules | ChildStep::Seccomp, _) => ASK_THE_DOCTOR,
        _ => return by_errno(errno),
    };
    fix.to_owned()
}

fn exec_fix(errno: Errno) -> &'static str {
    match errno {
        Errno::ENOENT => "its interpreter or loader is not in the jail: bring it in with --read",
        Errno::ENOEXEC => {
            "it is neither a program of this machine nor a script that names its interpreter: name one, such as sh"
        }
        Errno::EACCES => "make it executable, or bring its interpreter in with --read",
        Errno::E2BIG => {
            "its arguments and environment are longer than the kernel takes: pass fewer"
        }
        Errno::ENOMEM => "raise the limit: --memory 64M, or more",
        _ => "see whether it runs outside of the jail",
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::time::Duration;

    use super::*;
    use crate::ids::userns::NamespaceSwitches;
    use crate::process::proof::ProofError;

    /// One of each, and of those with a number one for every number. A new variant does not compile
    /// without a fix; this shows that none is empty, and that who has none says it in its message.
    fn every_error() -> Vec<JailError> {
        let text = || "something".to_owned();
        let proof = ProofError {
            layer: Layer::Root,
            expected: text(),
            seen: text(),
        };
        let mut errors = vec![
            JailError::Privileges(text()),
            JailError::RootOutside,
            JailError::CoveredProc(Errno::EPERM),
            JailError::Proof(proof),
            JailError::Unexpected(text()),
            JailError::Died,
            JailError::Stalled(Duration::from_secs(1)),
            JailError::NotFound(text()),
            JailError::NotExecutable(text()),
        ];
        errors.push(JailError::TooManyFiles);
        errors.extend(Layer::ALL.iter().map(|layer| JailError::Layer {
            layer: *layer,
            reason: text(),
        }));
        for errno in (1..134).map(Errno::from_raw) {
            errors.push(JailError::Namespaces {
                refusal: NamespaceSwitches::default().explain(errno),
                source: Some(errno),
            });
            errors.push(JailError::Keeper(io::Error::from_raw_os_error(
                errno as i32,
            )));
            errors.push(JailError::ExecFailed {
                program: text(),
                source: errno,
            });
            errors.push(JailError::System {
                act: "try",
                source: errno,
            });
            errors.extend(ChildStep::ALL.iter().map(|step| JailError::Step {
                step: *step,
                index: 3,
                errno,
            }));
        }
        errors
    }

    #[test]
    fn no_error_of_a_start_is_without_a_fix() {
        for error in every_error() {
            let message = error.to_string();
            match error.fix() {
                Some(fix) => assert!(fix.len() > 20 && !message.contains(&fix), "{error:?}"),
                None => assert!(
                    message.contains("turnkey") || message.contains("; ") && message.len() > 60,
                    "{message}"
                ),
            }
        }
    }

    /// Every error outside of a start, with its fix.
    fn every_other_error() -> Vec<(String, Option<String>)> {
        use crate::groups::hierarchy::HierarchyError;
        let path = || std::path::PathBuf::from("/srv/place");
        let mut hosts = vec![
            HostError::from(HierarchyError::NoUnified(String::from("mount it: mount"))),
            RootError::TooMany(path(), path()).into(),
            RootError::Etc(path()).into(),
            RootError::Open(path(), PathError::Foreign).into(),
            RootError::Open(path(), PathError::Movable).into(),
        ];
        let mut callers = vec![
            RootlessError::Elevated,
            RootlessError::PowerlessRoot {
                missing: "something".into(),
                fix: "something else".into(),
            },
            RootlessError::Threads,
        ];
        let mut exports = vec![
            DestinationError::NoName(path()),
            DestinationError::NoDirectory(path()),
            DestinationError::NotEmpty(path()),
            DestinationError::Foreign(path()),
            DestinationError::Above(path(), PathError::Foreign),
            DestinationError::Above(path(), PathError::Movable),
            DestinationError::NoOverlay,
        ];
        for errno in (1..134).map(Errno::from_raw) {
            let source = io::Error::from_raw_os_error(errno as i32);
            hosts.push(
                HierarchyError::Proc {
                    path: "/proc/self/cgroup",
                    source,
                }
                .into(),
            );
            hosts.push(RootError::Open(path(), errno.into()).into());
            hosts.push(HostError::Addresses(errno));
            hosts.push(RootError::List(path(), path(), errno).into());
            callers.push(RootlessError::Map(errno));
            callers.push(RootlessError::Refused {
                refusal: NamespaceSwitches::default().explain(errno),
                source: errno,
            });
            exports.push(DestinationError::System(path(), errno));
            exports.push(DestinationError::Above(path(), errno.into()));
        }
        let hosts = hosts.iter().map(|it| (chain(it), it.fix()));
        let callers = callers.iter().map(|it| (chain(it), it.fix()));
        let exports = exports.iter().map(|it| (chain(it), it.fix()));
        hosts.chain(callers).chain(exports).collect()
    }

    /// The message and the causes, as a caller is told them.
    fn chain(error: &dyn std::error::Error) -> String {
        let chain = std::iter::successors(Some(error), |error| error.source());
        let messages: Vec<_> = chain.map(ToString::to_string).collect();
        messages.join(": ")
    }

    #[test]
    fn no_error_of_the_host_or_the_caller_is_without_a_fix() {
        for (message, fix) in every_other_error() {
            match fix {
                Some(fix) => assert!(fix.len() > 20 && !message.contains(&fix), "{message}"),
                None => assert!(
                    message.contains("; ") || message.contains(": "),
                    "{message}"
                ),
            }
        }
    }

    #[test]
    fn a_file_that_cannot_be_opened_names_itself_and_the_fix() {
        let missing = crate::plan::RootfsStep::Bind {
            source: "/nonexistent/file".into(),
            path: "/nonexistent/file".into(),
            directory: false,
            writable: false,
            owned: false,
        };
        let id = crate::ids::idmap::HostId::for_group(1);
        let error =
            JailError::from(crate::rootfs::open(&[missing], &[], (id, None), None).unwrap_err());
        assert!(error.to_string().contains("/nonexistent/file"), "{error}");
        let fix = error.fix().unwrap();
        assert!(fix.contains("start it again"), "{fix}");
    }

    #[test]
    fn a_group_that_cannot_be_made_names_itself_and_the_fix() {
        let hierarchies = crate::groups::hierarchy::CgroupHierarchies::probe().unwrap();
        let names = crate::groups::GroupNames::new(&hierarchies, "missing/group");
        let error = JailError::from(crate::groups::JailCgroups::create(names).unwrap_err());
        let told = format!("{error} {:?}", error.fix());
        assert!(told.contains("/missing/"), "{told}");
        assert!(
            told.contains("doctor") || told.contains("run as root"),
            "{told}"
        );
    }
}
