//! Loading the programs into the kernel.

use std::path::Path;

use aya::programs::{CgroupSock, CgroupSockAddr};
use aya::{Btf, Ebpf, EbpfLoader};
use turnkey_abi::{ABI_SYMBOL, ABI_VERSION};

use crate::btf;
use crate::open::{OpenError, explain_load, explain_program, pin_failed, read_btf};
use crate::programs::{ADDRESS_HOOKS, SOCKET_HOOK, program};
use crate::sys::OffsetsValue;
use crate::tier::Tier;
use crate::tracepoints::{Tracepoint, in_one_go, tracepoints};

/// An object whose maps are made. Its programs are not loaded yet.
pub(crate) struct Object {
    pub(crate) ebpf: Ebpf,
    pub(crate) btf: Btf,
    tracepoints: &'static [Tracepoint],
}

/// Makes the maps of an object, for so many jails at the same time.
pub(crate) fn object(
    object: &[u8],
    seats: u32,
    tier: Tier,
    by_perf: bool,
) -> Result<Object, OpenError> {
    let btf_bytes = read_btf()?;
    let offsets = OffsetsValue(btf::offsets(&btf_bytes)?);
    let btf = Btf::parse(&btf_bytes, Default::default()).map_err(OpenError::BadBtf)?;
    let mut loader = EbpfLoader::new();
    for map in ["JAILS", "ROOMS", "RECORDS", "VERDICTS"] {
        loader.map_max_entries(map, seats);
    }
    if tier == Tier::Tracepoint {
        // Seven megabytes that nobody would use.
        loader.map_max_entries("HOOK_SCRATCH", 1);
    }
    loader
        .btf(Some(&btf))
        .override_global("OFFSETS", &offsets, true)
        .override_global(ABI_SYMBOL, &ABI_VERSION, true);
    // It fills maps.
    let ebpf = in_one_go(|| loader.load(object)).map_err(explain_load)?;
    Ok(Object {
        ebpf,
        btf,
        tracepoints: tracepoints(by_perf),
    })
}

impl Object {
    /// Loads the programs that every tier has.
    pub(crate) fn load(&mut self) -> Result<(), OpenError> {
        for tracepoint in self.tracepoints {
            tracepoint.load(&mut self.ebpf, &self.btf)?;
        }
        for name in ADDRESS_HOOKS {
            let program: &mut CgroupSockAddr = program(&mut self.ebpf, name)?;
            program
                .load()
                .map_err(|source| explain_program(name, source))?;
        }
        let name = SOCKET_HOOK;
        let program: &mut CgroupSock = program(&mut self.ebpf, name)?;
        program
            .load()
            .map_err(|source| explain_program(name, source))
    }

    /// Lets the tracepoints call their programs.
    pub(crate) fn attach(&mut self) -> Result<(), OpenError> {
        for tracepoint in self.tracepoints {
            tracepoint.attach(&mut self.ebpf)?;
        }
        Ok(())
    }

    /// As [`Self::attach`], until the links are taken out of this directory.
    pub(crate) fn attach_in(&mut self, links: &Path) -> Result<(), OpenError> {
        for tracepoint in self.tracepoints {
            let path = links.join(tracepoint.program);
            let link = tracepoint.link(&mut self.ebpf)?;
            link.pin(&path).map_err(pin_failed(&path))?;
        }
        Ok(())
    }
}
