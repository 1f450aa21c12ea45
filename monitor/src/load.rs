//! Loading the programs into the kernel.

use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;
use std::thread;

use aya::programs::{Program, ProgramError};
use aya::{Btf, Ebpf, EbpfLoader};
use aya_obj::btf::BtfKind;
use turnkey_abi::{ABI_SYMBOL, ABI_VERSION};

use crate::btf;
use crate::error::{OpenError, explain_load, explain_program, read_btf};
use crate::interruption::in_one_go;
use crate::sys::{self, AttachPoint, OffsetsValue};
use crate::tier::Tier;
use crate::tracepoints::{Tracepoint, tracepoints};

/// The cgroup programs, each with where a group calls it: those for socket addresses, and that for new sockets.
pub(crate) const GROUP_HOOKS: [(&str, AttachPoint); 7] = [
    ("connect4", AttachPoint::BPF_CGROUP_INET4_CONNECT),
    ("connect6", AttachPoint::BPF_CGROUP_INET6_CONNECT),
    ("bind4", AttachPoint::BPF_CGROUP_INET4_BIND),
    ("bind6", AttachPoint::BPF_CGROUP_INET6_BIND),
    ("sendmsg4", AttachPoint::BPF_CGROUP_UDP4_SENDMSG),
    ("sendmsg6", AttachPoint::BPF_CGROUP_UDP6_SENDMSG),
    ("sock_create", AttachPoint::BPF_CGROUP_INET_SOCK_CREATE),
];

/// An object whose maps are made. Its programs are not loaded yet.
pub(crate) struct Object {
    pub(crate) ebpf: Ebpf,
    pub(crate) btf: Btf,
    /// The kernel lets programs be attached to its functions.
    pub(crate) takes_entries: bool,
    tracepoints: &'static [Tracepoint],
}

/// Makes the maps of an object, for so many jails at the same time; `level` is that of the watched groups, 0 for jails.
pub(crate) fn object(
    object: &[u8],
    (slots, level): (u32, u32),
    tier: Tier,
    by_perf: bool,
) -> Result<Object, OpenError> {
    let btf_bytes = read_btf()?;
    let offsets = OffsetsValue(btf::offsets(&btf_bytes)?);
    let btf = Btf::parse(&btf_bytes, Default::default()).map_err(OpenError::BadBtf)?;
    let mut loader = EbpfLoader::new();
    for map in ["JAILS", "SLOT_DATA", "RECORDS", "VERDICTS"] {
        loader.map_max_entries(map, slots);
    }
    let takes_entries = tier == Tier::Lsm || takes_entries(&btf);
    if !takes_entries {
        // Seven megabytes that would not be used.
        loader.map_max_entries("HOOK_SCRATCH", 1);
    }
    loader
        .btf(Some(&btf))
        .override_global("OFFSETS", &offsets, true)
        .override_global("LEVEL", &level, true)
        .override_global(ABI_SYMBOL, &ABI_VERSION, true);
    // It fills maps.
    let ebpf = in_one_go(|| loader.load(object)).map_err(explain_load)?;
    Ok(Object {
        ebpf,
        btf,
        takes_entries,
        tracepoints: tracepoints(by_perf),
    })
}

/// True when the kernel lets programs be attached to its functions: it has trampolines, and no lockdown.
fn takes_entries(btf: &Btf) -> bool {
    let function = btf.id_by_type_name_kind("security_path_rename", BtfKind::Func);
    function.is_ok_and(sys::takes_entries)
}

impl Object {
    /// Loads the programs that every tier has.
    pub(crate) fn load(&mut self) -> Result<(), OpenError> {
        let Self {
            ebpf,
            btf,
            tracepoints,
            ..
        } = self;
        // The dearest first: calls are what most is asked about.
        let names = tracepoints.iter().map(|tracepoint| tracepoint.program);
        let groups = GROUP_HOOKS.iter().map(|(name, _)| *name);
        let names: Vec<_> = names.chain(groups).collect();
        let mut programs: HashMap<String, &mut Program> = ebpf
            .programs_mut()
            .map(|(name, program)| (name.to_owned(), program))
            .collect();
        let waiting = names.into_iter().map(|name| {
            let program = programs.remove(name);
            Ok((name, program.ok_or(OpenError::Incomplete { name })?))
        });
        let waiting: VecDeque<_> = waiting.collect::<Result<_, OpenError>>()?;
        let waiting = Mutex::new(waiting);
        let next = || waiting.lock().ok()?.pop_front();
        // The verifier takes most of the time that a start takes, and verifies on every CPU at once.
        let work =
            || std::iter::from_fn(next).try_for_each(|(name, program)| verify(name, program, btf));
        let workers = thread::available_parallelism().map_or(1, usize::from);
        thread::scope(|scope| {
            // Fewer threads than wished for only take longer.
            let start = |_| thread::Builder::new().spawn_scoped(scope, work).ok();
            let others: Vec<_> = (1..workers).filter_map(start).collect();
            let own = work();
            let joined = others.into_iter().map(|worker| {
                let ended = worker.join();
                ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            });
            joined.fold(own, Result::and)
        })
    }

    /// Lets the tracepoints call their programs.
    pub(crate) fn attach(&mut self) -> Result<(), OpenError> {
        for tracepoint in self.tracepoints {
            tracepoint.attach(&mut self.ebpf)?;
        }
        Ok(())
    }
}

/// Hands a program to the verifier.
fn verify(name: &'static str, program: &mut Program, btf: &Btf) -> Result<(), OpenError> {
    let verified = match program {
        Program::BtfTracePoint(program) => program.load(name, btf),
        Program::TracePoint(program) => program.load(),
        Program::CgroupSockAddr(program) => program.load(),
        Program::CgroupSock(program) => program.load(),
        _ => Err(ProgramError::UnexpectedProgramType),
    };
    verified.map_err(|source| explain_program(name, source))
}

/// A program of an object, as its type.
pub(crate) fn program<'a, P>(ebpf: &'a mut Ebpf, name: &'static str) -> Result<&'a mut P, OpenError>
where
    &'a mut P: TryFrom<&'a mut Program, Error = ProgramError>,
{
    let program = ebpf
        .program_mut(name)
        .ok_or(OpenError::Incomplete { name })?;
    typed(program, name)
}

fn typed<'a, P>(program: &'a mut Program, name: &'static str) -> Result<&'a mut P, OpenError>
where
    &'a mut P: TryFrom<&'a mut Program, Error = ProgramError>,
{
    program.try_into().map_err(|source| OpenError::Program {
        name,
        source: Box::new(source),
    })
}
