//! The programs: those that this process has loaded, or those that are loaded for all.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use aya::Ebpf;
use aya::maps::MapError;
use aya::programs::{Program, ProgramError};

use crate::error::{FinishError, OpenError};
use crate::shared::HeldLinks;
use crate::sys::missed_runs;

/// The programs of one object.
pub(crate) enum Programs {
    /// Programs that leave the kernel with this process.
    Own(Box<Ebpf>),
    /// Programs that stay in the kernel.
    Shared {
        programs: Vec<(String, OwnedFd)>,
        /// The programs that these are of act as long as a process holds them.
        links: HeldLinks,
        /// Links of jails' programs to the kernel's hooks: they act even when they are taken out of the file system meanwhile.
        _pinned: Vec<OwnedFd>,
    },
}

impl Programs {
    /// A program's descriptor.
    pub(crate) fn descriptor(&self, name: &'static str) -> Result<BorrowedFd<'_>, OpenError> {
        match self {
            Self::Own(ebpf) => {
                let program = ebpf.program(name).ok_or(OpenError::Incomplete { name })?;
                let loaded = program.fd().map_err(|source| OpenError::Program {
                    name,
                    source: Box::new(source),
                })?;
                Ok(loaded.as_fd())
            }
            Self::Shared { programs, .. } => {
                let found = programs.iter().find(|(known, _)| known == name);
                let (_, program) = found.ok_or(OpenError::Incomplete { name })?;
                Ok(program.as_fd())
            }
        }
    }

    /// True while the kernel may call a program for the link of a run that was killed, too.
    pub(crate) fn are_doubted(&self) -> Result<bool, MapError> {
        match self {
            Self::Own(_) => Ok(false),
            Self::Shared { links, .. } => links.are_doubted(),
        }
    }

    /// A canary has shown that one act is told once.
    pub(crate) fn are_single(&mut self) -> Result<(), MapError> {
        match self {
            Self::Own(_) => Ok(()),
            Self::Shared { links, .. } => links.are_single(),
        }
    }

    /// Takes the programs off whatever calls them, and out of the kernel, where they are this process's alone. Some may
    /// still be at work on other CPUs.
    pub(crate) fn unload(&mut self) -> Result<(), FinishError> {
        let Self::Own(ebpf) = self else {
            // Others may need them. What the programs do not know any more they do not act on.
            return Ok(());
        };
        for (_, program) in ebpf.programs_mut() {
            let unloaded = match program {
                Program::BtfTracePoint(program) => program.unload(),
                Program::TracePoint(program) => program.unload(),
                Program::Lsm(program) => program.unload(),
                Program::FEntry(program) => program.unload(),
                Program::CgroupSockAddr(program) => program.unload(),
                Program::CgroupSock(program) => program.unload(),
                _ => Err(ProgramError::UnexpectedProgramType),
            };
            match unloaded {
                // Of the other tier.
                Ok(()) | Err(ProgramError::NotLoaded) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Runs of all programs that the kernel has left out so far.
    pub(crate) fn missed(&self) -> Result<u64, FinishError> {
        match self {
            Self::Own(ebpf) => sum_missed(ebpf.programs().map(|(_, program)| match program.fd() {
                Ok(descriptor) => Ok(Some(descriptor.as_fd())),
                // Of the other tier.
                Err(ProgramError::NotLoaded) => Ok(None),
                Err(error) => Err(error.into()),
            })),
            Self::Shared { programs, .. } => sum_missed(
                programs
                    .iter()
                    .map(|(_, program)| Ok(Some(program.as_fd()))),
            ),
        }
    }
}

fn sum_missed<'a>(
    programs: impl Iterator<Item = Result<Option<BorrowedFd<'a>>, FinishError>>,
) -> Result<u64, FinishError> {
    let mut missed = 0;
    for program in programs {
        if let Some(program) = program? {
            missed += missed_runs(program).map_err(std::io::Error::from)?;
        }
    }
    Ok(missed)
}
