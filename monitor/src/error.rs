//! Errors of the monitor, and what the kernel's answers mean.

use std::io;
use std::path::Path;

use aya::EbpfError;
use aya::maps::MapError;
use aya::programs::ProgramError;
use aya::sys::SyscallError;
use nix::errno::Errno;
use turnkey_abi::ABI_SYMBOL;

use crate::btf::BtfError;
use crate::shared::SharedError;

/// Errors of starting the monitor. Nothing of it is left in the kernel.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The kernel does not describe itself.
    #[error("{BTF} cannot be read: {}", how_to_have_btf())]
    NoBtf(#[source] io::Error),
    /// The kernel is too old or too new for this monitor.
    #[error(
        "the running kernel keeps its fields differently: turnkey needs Linux 6.1 or later, and a build that knows this kernel"
    )]
    Fields(#[from] BtfError),
    /// aya's reading of the kernel's BTF failed.
    #[error("{BTF} cannot be understood")]
    BadBtf(#[source] aya::BtfError),
    /// The object was built from another version of the wire types.
    #[error(
        "the eBPF object does not fit this monitor (`{ABI_SYMBOL}` is missing): rebuild it with `cargo xtask ebpf`"
    )]
    OtherVersion,
    /// Not allowed.
    #[error(
        "the kernel refuses eBPF to this process: it takes root's CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN; with lockdown=confidentiality no monitor can work"
    )]
    NotPermitted(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The maps could not be made.
    #[error("the eBPF object cannot be loaded")]
    Load(#[source] Box<EbpfError>),
    /// The kernel does not accept a program, or has no such tracepoint.
    #[error(
        "the kernel does not accept the program `{name}`: the monitor needs Linux 6.1 or later, with tracepoints (CONFIG_FTRACE_SYSCALLS=y) and cgroup hooks (CONFIG_CGROUP_BPF=y)"
    )]
    Program {
        /// The program's name in the object.
        name: &'static str,
        /// The kernel's error, with the end of the verifier's log.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A trace event's number is in no file.
    #[error(
        "no trace event can be found: since Linux 7 the monitor's programs are called for these, so mount the trace file system: mount -t tracefs tracefs /sys/kernel/tracing"
    )]
    NoTraceEvents(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Perf calls as many programs for one event as it will.
    #[error(
        "64 programs are called for a trace event already, and Linux 7 takes no more: for many jails at the same time load them once with `turnkey monitor load`"
    )]
    TooManyForOneEvent(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A map or program is missing in the object.
    #[error("the eBPF object has no `{name}`: rebuild it with `cargo xtask ebpf`")]
    Incomplete {
        /// The name of the missing part.
        name: &'static str,
    },
    /// A program, link or map cannot be put into the BPF file system.
    #[error("{path} cannot be made")]
    Pin {
        /// The path that it was to have.
        path: String,
        /// The cause.
        #[source]
        source: aya::pin::PinError,
    },
    /// The programs that are loaded for all jails cannot be used.
    #[error(transparent)]
    Shared(#[from] SharedError),
    /// Events cannot be waited for.
    #[error("the rings of events cannot be waited for")]
    Poll(#[source] io::Error),
    /// The memory that the kernel shares with this process cannot be mapped.
    #[error("the memory for rules and events cannot be mapped")]
    Mapped(#[source] io::Error),
    /// A program's counts cannot be read.
    #[error("the counts of the programs cannot be read")]
    Missed(#[source] FinishError),
    /// The rules that a canary is to break cannot be had.
    #[error(transparent)]
    Canary(Box<CanaryError>),
    /// The caller, or the host, has no thread left.
    #[error(
        "no thread can be started to load the programs: raise the caller's `ulimit -u`, or end other processes"
    )]
    Thread(#[source] io::Error),
    /// A map of the jail cannot be made, or put where the programs look for it.
    #[error("the kernel makes no room for the jail's rules and events")]
    Map(#[from] MapError),
}

impl OpenError {
    /// True when programs that are loaded for all were left alone, as another user than root could have put them there.
    #[must_use]
    pub fn is_distrust(&self) -> bool {
        matches!(self, Self::Shared(SharedError::Untrusted { .. }))
    }

    /// The command that helps, where the error does not name one itself.
    #[must_use]
    pub fn fix(&self) -> Option<String> {
        match self {
            Self::Shared(error) => error.fix(),
            _ => None,
        }
    }
}

/// The command that makes the kernel describe itself to turnkey.
#[must_use]
pub fn how_to_have_btf() -> &'static str {
    if Path::new("/sys/kernel").is_dir() {
        "the monitor needs a kernel built with CONFIG_DEBUG_INFO_BTF=y (every common distribution has it), and nothing mounted over the file"
    } else {
        "sysfs is not mounted here; as root, mount it: mount -t sysfs sysfs /sys"
    }
}

/// The file with the kernel's own BTF.
const BTF: &str = "/sys/kernel/btf/vmlinux";

/// Errors of proving enforcement. The run must not start.
#[derive(Debug, thiserror::Error)]
pub enum CanaryError {
    /// Preparing failed.
    #[error("the canary could not be prepared: {step}")]
    Prepare {
        /// The step that failed.
        step: &'static str,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The child could not do its part.
    #[error(
        "the canary could not {0}: have a look at the limits of this process and of its groups"
    )]
    Hindered(&'static str),
    /// A hook does not refuse.
    #[error(
        "{0} that a rule denies was not refused: the kernel has BPF LSM in its list, and does not ask it"
    )]
    NotDenied(&'static str),
    /// The network hook does not refuse.
    #[error("a {0} was not refused: cgroup programs do not act on this kernel")]
    NotRefused(&'static str),
    /// The kill does not happen.
    #[error(
        "an open, exec or mapping that a rule kills for did not kill: tracepoint programs do not act on this kernel"
    )]
    NotKilled,
    /// The canary ended otherwise.
    #[error("the canary ended in a way that proves nothing: {0}")]
    Unclear(String),
    /// An act was told more than once.
    #[error(
        "the kernel still calls programs for a run that was killed: it told of one {0} twice for seconds; try again, or use --leave-nothing"
    )]
    Twice(&'static str),
    /// No record of the canary's act was in the ring.
    #[error("the canary was stopped, but the ring holds no record of its {0}")]
    NotRecorded(&'static str),
}

/// Errors of summing up the evidence.
#[derive(Debug, thiserror::Error)]
pub enum FinishError {
    /// No jail was watched.
    #[error("no jail was adopted")]
    NotAdopted,
    /// The kernel does not tell the jail's counts.
    #[error("the jail's counts cannot be read")]
    Map(#[from] MapError),
    /// The kernel does not tell about a program.
    #[error("a program's counts cannot be read")]
    Program(#[from] ProgramError),
    /// The kernel does not tell about a program, or what threads have repeated.
    #[error("a program's counts cannot be read")]
    Proc(#[from] io::Error),
    /// The slot cannot be given back.
    #[error("the jail's slot cannot be given back")]
    Slot(#[source] Box<OpenError>),
}

/// Reads the running kernel's BTF.
pub(crate) fn read_btf() -> Result<Vec<u8>, OpenError> {
    std::fs::read(BTF).map_err(OpenError::NoBtf)
}

pub(crate) fn explain_load(error: EbpfError) -> OpenError {
    if let EbpfError::ParseError(aya_error) = &error
        && aya_error.to_string().contains(ABI_SYMBOL)
    {
        return OpenError::OtherVersion;
    }
    if is_permission(&error) {
        OpenError::NotPermitted(Box::new(error))
    } else {
        OpenError::Load(Box::new(error))
    }
}

/// Makes the error of a program, a link or a map that cannot be pinned.
pub(crate) fn pin_failed(path: &Path) -> impl Fn(aya::pin::PinError) -> OpenError {
    move |source| OpenError::Pin {
        path: path.display().to_string(),
        source,
    }
}

/// The kernel's answer as aya would hand it on.
pub(crate) fn refused(call: &'static str, errno: Errno) -> ProgramError {
    ProgramError::SyscallError(SyscallError {
        call,
        io_error: errno.into(),
    })
}

pub(crate) fn explain_program(name: &'static str, error: ProgramError) -> OpenError {
    if is_permission(&error) {
        return OpenError::NotPermitted(Box::new(error));
    }
    let source = match error {
        ProgramError::LoadError {
            io_error,
            verifier_log,
        } => Refused {
            reason: reason(&verifier_log.to_string()),
            source: io_error,
        }
        .into(),
        other => other.into(),
    };
    OpenError::Program { name, source }
}

/// The verifier's answer in its own words, but not all of them: its log has thousands of lines.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
struct Refused {
    reason: String,
    source: io::Error,
}

/// The line of a verifier's log that says why; behind it stand only its statistics and, on some
/// kernels, the registers.
fn reason(log: &str) -> String {
    let is_statistic = |line: &&str| {
        VERIFIER_STATISTICS
            .iter()
            .any(|start| line.starts_with(start))
    };
    let mut lines = log.lines().map(str::trim).filter(|line| !line.is_empty());
    let line = lines.rfind(|line| !is_statistic(line));
    line.unwrap_or("the verifier says nothing").to_owned()
}

/// Beginnings of the lines behind the reason.
const VERIFIER_STATISTICS: [&str; 3] = ["verification time ", "stack depth ", "processed "];

/// True when the kernel's answer, somewhere down the chain, was EPERM. The verifier says EACCES of a program that it
/// does not accept, which has nothing to do with the caller.
fn is_permission(error: &(dyn std::error::Error + 'static)) -> bool {
    answered(error, Errno::EPERM)
}

/// True when the kernel's answer, somewhere down the chain, was this.
pub(crate) fn answered(error: &(dyn std::error::Error + 'static), errno: Errno) -> bool {
    let chain = std::iter::successors(Some(error), |error| error.source());
    let mut causes = chain.filter_map(|error| error.downcast_ref::<io::Error>());
    causes.any(|cause| cause.raw_os_error() == Some(errno as i32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_verifier_refuses_is_not_called_a_lack_of_rights() {
        let told = |errno: Errno| is_permission(&io::Error::from(errno));
        assert!(told(Errno::EPERM));
        assert!(!told(Errno::EACCES));
    }

    #[test]
    fn reason_is_the_line_before_the_statistics() {
        let log = "1696: (67) r5 <<= 1   ; frame1: R5_w=scalar()
1697: (0f) r4 += r5
math between map_value pointer and register with unbounded min value is not allowed
verification time 117513 usec
stack depth 96+32+0+0+0
processed 1248 insns (limit 1000000) max_states_per_insn 4 total_states 51

";
        let expected =
            "math between map_value pointer and register with unbounded min value is not allowed";
        assert_eq!(reason(log), expected);
        assert_eq!(reason(""), "the verifier says nothing");
    }
}
