//! The maps that all jails of one loaded object share.

use aya::maps::{Array, ArrayOfMaps, HashMap, Map, MapData, MapError};
use turnkey_abi::Jail;

use crate::error::OpenError;
use crate::interruption::in_one_go;
use crate::sys::JailValue;

/// The maps that user space speaks through.
pub(crate) struct Maps {
    /// Jails' states, by the id of the jail's cgroup.
    pub(crate) jails: HashMap<MapData, u64, JailValue>,
    /// Not 0 while every system call has to look for its jail: the programs' own global.
    pub(crate) every_call: Array<MapData, u32>,
    /// Rules, by slot.
    pub(crate) data: ArrayOfMaps<MapData>,
    /// The rings of what no rule decided on, by slot.
    pub(crate) records: ArrayOfMaps<MapData>,
    /// The rings of verdicts, by slot.
    pub(crate) verdicts: ArrayOfMaps<MapData>,
}

/// `linux/bpf.h`: no element of that key is there yet.
const BPF_NOEXIST: u64 = 1;

/// Names of the maps in the object, each with the name of a file: a BPF file system takes no dots.
pub(crate) const NAMES: [(&str, &str); 5] = [
    ("JAILS", "jails"),
    (".bss", "every_call"),
    ("SLOT_DATA", "data"),
    ("RECORDS", "records"),
    ("VERDICTS", "verdicts"),
];

impl Maps {
    /// Collects them: `find` is asked for each of [`NAMES`].
    pub(crate) fn find<E: From<OpenError>>(
        mut find: impl FnMut((&'static str, &'static str)) -> Result<Map, E>,
    ) -> Result<Self, E> {
        let [jails, every_call, data, records, verdicts] = NAMES;
        Ok(Self {
            jails: typed(find(jails)?)?,
            every_call: typed(find(every_call)?)?,
            data: typed(find(data)?)?,
            records: typed(find(records)?)?,
            verdicts: typed(find(verdicts)?)?,
        })
    }

    /// Reads a jail's state from the kernel.
    pub(crate) fn jail(&self, cgroup_id: u64) -> Result<Jail, MapError> {
        let JailValue(jail) = in_one_go(|| self.jails.get(&cgroup_id, 0))?;
        Ok(jail)
    }

    /// Makes a jail known.
    pub(crate) fn enter(&mut self, cgroup_id: u64, jail: Jail) -> Result<(), MapError> {
        in_one_go(|| self.jails.insert(cgroup_id, JailValue(jail), 0))
    }

    /// Makes a group known that nobody watches; `EEXIST` where somebody does.
    pub(crate) fn enter_new(&mut self, cgroup_id: u64, jail: Jail) -> Result<(), MapError> {
        in_one_go(|| self.jails.insert(cgroup_id, JailValue(jail), BPF_NOEXIST))
    }

    /// Takes a jail out that was only tried.
    pub(crate) fn leave(&mut self, cgroup_id: u64) -> Result<(), MapError> {
        in_one_go(|| self.jails.remove(&cgroup_id))
    }

    /// Lets the programs look at every system call, as a jail that they know by now needs it.
    pub(crate) fn look_at_every_call(&mut self) -> Result<(), MapError> {
        self.every_call.set(0, 1, 0)
    }

    /// Forgets a jail that has no task any more. System calls that are not looked at need not look for
    /// their jail any longer for its sake; but there may be another that needs it.
    pub(crate) fn forget(&mut self, cgroup_id: u64) -> Result<(), MapError> {
        in_one_go(|| self.forget_at_once(cgroup_id))
    }

    fn forget_at_once(&mut self, cgroup_id: u64) -> Result<(), MapError> {
        let ended = self.jail(cgroup_id)?;
        self.jails.remove(&cgroup_id)?;
        if !needs_every_call(&ended) {
            return Ok(());
        }
        // In this order: a jail needs it before any run raises the flag, so a jail that raised it in
        // vain is found by the search behind.
        self.every_call.set(0, 0, 0)?;
        let needs_it = |(_, JailValue(jail)): (u64, JailValue)| needs_every_call(&jail);
        if self.jails.iter().filter_map(Result::ok).any(needs_it) {
            self.look_at_every_call()?;
        }
        Ok(())
    }
}

/// True when the jail's end, or its notes, wait for any system call.
fn needs_every_call(jail: &Jail) -> bool {
    jail.condemned != 0 || jail.notes_calls != 0
}

fn typed<T>(map: Map) -> Result<T, OpenError>
where
    T: TryFrom<Map, Error = MapError>,
{
    Ok(T::try_from(map)?)
}
