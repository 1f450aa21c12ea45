//! Loading the programs into the kernel.

use std::path::Path;

use aya::programs::links::FdLink;
use aya::programs::{BtfTracePoint, CgroupSock, CgroupSockAddr};
use aya::{Btf, Ebpf, EbpfLoader};
use turnkey_abi::{ABI_SYMBOL, ABI_VERSION};

use crate::btf;
use crate::open::{OpenError, explain_load, explain_program, pin_failed, read_btf};
use crate::programs::{ADDRESS_HOOKS, SOCKET_HOOK, TRACEPOINTS, program};
use crate::sys::OffsetsValue;
use crate::tier::Tier;

/// An object whose maps are made. Its programs are not loaded yet.
pub(crate) struct Object {
    pub(crate) ebpf: Ebpf,
    pub(crate) btf: Btf,
}

/// Makes the maps of an object, for so many jails at the same time.
pub(crate) fn object(object: &[u8], seats: u32, tier: Tier) -> Result<Object, OpenError> {
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
    let ebpf = loader
        .btf(Some(&btf))
        .override_global("OFFSETS", &offsets, true)
        .override_global(ABI_SYMBOL, &ABI_VERSION, true)
        .load(object)
        .map_err(explain_load)?;
    Ok(Object { ebpf, btf })
}

impl Object {
    /// Loads the programs that every tier has.
    pub(crate) fn load(&mut self) -> Result<(), OpenError> {
        for name in TRACEPOINTS {
            let program: &mut BtfTracePoint = program(&mut self.ebpf, name)?;
            program
                .load(name, &self.btf)
                .map_err(|source| explain_program(name, source))?;
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
        for name in TRACEPOINTS {
            let program: &mut BtfTracePoint = program(&mut self.ebpf, name)?;
            program
                .attach()
                .map_err(|source| explain_program(name, source))?;
        }
        Ok(())
    }

    /// As [`Self::attach`], until the links are taken out of this directory.
    pub(crate) fn attach_in(&mut self, links: &Path) -> Result<(), OpenError> {
        for name in TRACEPOINTS {
            let program: &mut BtfTracePoint = program(&mut self.ebpf, name)?;
            let link = program
                .attach()
                .and_then(|id| program.take_link(id))
                .map_err(|source| explain_program(name, source))?;
            let path = links.join(name);
            FdLink::from(link).pin(&path).map_err(pin_failed(&path))?;
        }
        Ok(())
    }
}
