//! The programs: those that this process has loaded, or those that are loaded for all.

use std::os::fd::AsFd;

use aya::Ebpf;
use aya::programs::links::PinnedLink;
use aya::programs::{Program, ProgramError};

use crate::evidence::FinishError;
use crate::open::OpenError;
use crate::sys::missed_runs;

/// The cgroup programs for socket addresses.
pub(crate) const ADDRESS_HOOKS: [&str; 6] = [
    "connect4", "connect6", "bind4", "bind6", "sendmsg4", "sendmsg6",
];

/// The cgroup program for new sockets.
pub(crate) const SOCKET_HOOK: &str = "sock_create";

/// The programs of one object.
pub(crate) enum Programs {
    /// They leave the kernel with this process.
    Own(Box<Ebpf>),
    /// They stay.
    Shared {
        programs: Vec<(String, Program)>,
        /// As long as somebody holds these, the programs act, even when they are taken out of the
        /// file system meanwhile.
        _links: Vec<PinnedLink>,
    },
}

impl Programs {
    /// One of them, as its type.
    pub(crate) fn get<'a, P>(&'a mut self, name: &'static str) -> Result<&'a mut P, OpenError>
    where
        &'a mut P: TryFrom<&'a mut Program, Error = ProgramError>,
    {
        let program = match self {
            Self::Own(ebpf) => ebpf.program_mut(name),
            Self::Shared { programs, .. } => programs
                .iter_mut()
                .find_map(|(known, program)| (known == name).then_some(program)),
        };
        typed(program.ok_or(OpenError::Incomplete { name })?, name)
    }

    /// How many runs of all of them the kernel has left out so far.
    pub(crate) fn missed(&self) -> Result<u64, FinishError> {
        match self {
            Self::Own(ebpf) => sum_missed(ebpf.programs().map(|(_, program)| program)),
            Self::Shared { programs, .. } => {
                sum_missed(programs.iter().map(|(_, program)| program))
            }
        }
    }
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

fn sum_missed<'a>(programs: impl Iterator<Item = &'a Program>) -> Result<u64, FinishError> {
    let mut missed = 0;
    for program in programs {
        missed += match program.fd() {
            Ok(descriptor) => missed_runs(descriptor.as_fd()).map_err(std::io::Error::from)?,
            // Of the other tier.
            Err(ProgramError::NotLoaded) => continue,
            Err(error) => return Err(error.into()),
        };
    }
    Ok(missed)
}
