//! Loading and attaching the programs.

use std::io;

use aya::maps::{Array, HashMap, MapData, RingBuf};
use aya::programs::{BtfTracePoint, ProgramError};
use aya::{Btf, Ebpf, EbpfError, EbpfLoader};
use nix::errno::Errno;
use turnkey_abi::{ABI_SYMBOL, TABLE_RUN, Table};

use crate::btf::{self, BtfError};
use crate::compile::Rules;
use crate::hooks::{self, Hooks};
use crate::stream::Stream;
use crate::sys::{self, JailValue, OffsetsValue, RepeatsValue, TableValue};
use crate::tier::Tier;

/// Why the monitor could not be started. Nothing of it is left in the kernel.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The kernel does not describe itself.
    #[error(
        "{BTF} cannot be read: the monitor needs a kernel built with CONFIG_DEBUG_INFO_BTF=y (every common distribution has it)"
    )]
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
        "the kernel refuses eBPF to this process: run turnkey as root, or with CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN; with lockdown=confidentiality no monitor can work"
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
        /// What the kernel said, with the end of the verifier's log.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A map or program is missing in the object.
    #[error("the eBPF object has no `{name}`: rebuild it with `cargo xtask ebpf`")]
    Incomplete {
        /// Its name.
        name: &'static str,
    },
    /// Nobody can wait for events.
    #[error("the rings of events cannot be waited for")]
    Poll(#[source] io::Error),
    /// A map does not take its value.
    #[error("the kernel does not take the rules")]
    Map(#[from] aya::maps::MapError),
}

/// Where the kernel describes itself.
const BTF: &str = "/sys/kernel/btf/vmlinux";

/// The tracepoint programs, each named like its tracepoint.
pub(crate) const TRACEPOINTS: [&str; 5] = [
    "sys_enter",
    "sys_exit",
    "sched_process_exec",
    "sched_process_fork",
    "sched_process_exit",
];

/// The cgroup programs for socket addresses.
pub(crate) const ADDRESS_HOOKS: [&str; 6] = [
    "connect4", "connect6", "bind4", "bind6", "sendmsg4", "sendmsg6",
];

/// The cgroup program for new sockets.
pub(crate) const SOCKET_HOOK: &str = "sock_create";

/// The programs, loaded and attached as far as they need no cgroup, and their maps.
pub(crate) struct Loaded {
    pub(crate) ebpf: Ebpf,
    /// Those of BPF LSM, on its tier.
    pub(crate) hooks: Option<Hooks>,
    pub(crate) jails: HashMap<MapData, u64, JailValue>,
    pub(crate) tables: Array<MapData, TableValue>,
    pub(crate) repeats: Array<MapData, RepeatsValue>,
    pub(crate) stream: Stream,
    #[cfg(feature = "log")]
    pub(crate) lines: crate::log::Lines,
}

/// Loads the object, hands the rules to the kernel, attaches the tracepoints.
pub(crate) fn load(object: &[u8], rules: &Rules) -> Result<Loaded, OpenError> {
    let btf_bytes = read_btf()?;
    let offsets = OffsetsValue(btf::offsets(&btf_bytes)?);
    let btf = Btf::parse(&btf_bytes, Default::default()).map_err(OpenError::BadBtf)?;
    let mut ebpf = EbpfLoader::new()
        .btf(Some(&btf))
        .override_global("OFFSETS", &offsets, true)
        .override_global(ABI_SYMBOL, &1_u32, true)
        .load(object)
        .map_err(explain_load)?;
    let mut tables: Array<MapData, TableValue> = map(&mut ebpf, "TABLES")?;
    set_table(&mut tables, TABLE_RUN, &rules.table)?;
    load_programs(&mut ebpf, &btf)?;
    let jails = map(&mut ebpf, "JAILS")?;
    let repeats = map(&mut ebpf, "REPEATS")?;
    let rings: [RingBuf<MapData>; 2] = [map(&mut ebpf, "RECORDS")?, map(&mut ebpf, "VERDICTS")?];
    let stream = Stream::new(rings).map_err(OpenError::Poll)?;
    attach_tracepoints(&mut ebpf)?;
    let hooks = match rules.tier {
        Tier::Lsm => Some(hooks::attach(&mut ebpf, &btf, rules)?),
        Tier::Tracepoint => None,
    };
    Ok(Loaded {
        #[cfg(feature = "log")]
        lines: crate::log::Lines::of(&mut ebpf),
        ebpf,
        hooks,
        jails,
        tables,
        repeats,
        stream,
    })
}

/// How the running kernel describes itself.
pub(crate) fn read_btf() -> Result<Vec<u8>, OpenError> {
    std::fs::read(BTF).map_err(OpenError::NoBtf)
}

/// Writes a rule table.
pub(crate) fn set_table(
    tables: &mut Array<MapData, TableValue>,
    index: u32,
    table: &Table,
) -> Result<(), OpenError> {
    Ok(tables.set(index, sys::table_value(table), 0)?)
}

fn map<T>(ebpf: &mut Ebpf, name: &'static str) -> Result<T, OpenError>
where
    T: TryFrom<aya::maps::Map, Error = aya::maps::MapError>,
{
    let map = ebpf.take_map(name).ok_or(OpenError::Incomplete { name })?;
    Ok(T::try_from(map)?)
}

fn load_programs(ebpf: &mut Ebpf, btf: &Btf) -> Result<(), OpenError> {
    for name in TRACEPOINTS {
        let program: &mut BtfTracePoint = program(ebpf, name)?;
        program
            .load(name, btf)
            .map_err(|source| explain_program(name, source))?;
    }
    for name in ADDRESS_HOOKS {
        let program: &mut aya::programs::CgroupSockAddr = program(ebpf, name)?;
        program
            .load()
            .map_err(|source| explain_program(name, source))?;
    }
    let name = SOCKET_HOOK;
    let program: &mut aya::programs::CgroupSock = program(ebpf, name)?;
    program
        .load()
        .map_err(|source| explain_program(name, source))
}

fn attach_tracepoints(ebpf: &mut Ebpf) -> Result<(), OpenError> {
    for name in TRACEPOINTS {
        let program: &mut BtfTracePoint = program(ebpf, name)?;
        program
            .attach()
            .map_err(|source| explain_program(name, source))?;
    }
    Ok(())
}

/// A program of the object, as its type.
pub(crate) fn program<'a, P>(ebpf: &'a mut Ebpf, name: &'static str) -> Result<&'a mut P, OpenError>
where
    &'a mut P: TryFrom<&'a mut aya::programs::Program, Error = ProgramError>,
{
    let program = ebpf
        .program_mut(name)
        .ok_or(OpenError::Incomplete { name })?;
    program.try_into().map_err(|source| OpenError::Program {
        name,
        source: Box::new(source),
    })
}

fn explain_load(error: EbpfError) -> OpenError {
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

/// How the lines behind the reason begin.
const VERIFIER_STATISTICS: [&str; 3] = ["verification time ", "stack depth ", "processed "];

/// Whether the kernel's answer, somewhere down the chain, was EPERM. The verifier says EACCES of a
/// program that it does not accept, which has nothing to do with the caller.
fn is_permission(error: &(dyn std::error::Error + 'static)) -> bool {
    let chain = std::iter::successors(Some(error), |error| error.source());
    let mut causes = chain.filter_map(|error| error.downcast_ref::<io::Error>());
    causes.any(|cause| cause.raw_os_error() == Some(Errno::EPERM as i32))
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
