//! The maps that all jails of one loaded object share.

use aya::maps::{Array, ArrayOfMaps, HashMap, Map, MapData, MapError};
use turnkey_abi::Jail;

use crate::open::OpenError;
use crate::sys::JailValue;
use crate::tracepoints::in_one_go;

/// The maps that user space speaks through.
pub(crate) struct Maps {
    /// What the kernel knows of each jail, by the id of its cgroup.
    pub(crate) jails: HashMap<MapData, u64, JailValue>,
    /// Not 0 since any jail was condemned: the programs' own global.
    pub(crate) condemned: Array<MapData, u32>,
    /// Rules, by seat.
    pub(crate) rooms: ArrayOfMaps<MapData>,
    /// The rings of what no rule decided on, by seat.
    pub(crate) records: ArrayOfMaps<MapData>,
    /// The rings of verdicts, by seat.
    pub(crate) verdicts: ArrayOfMaps<MapData>,
}

/// Their names in the object, each with the name of a file: a BPF file system takes no dots.
pub(crate) const NAMES: [(&str, &str); 5] = [
    ("JAILS", "jails"),
    (".bss", "condemned"),
    ("ROOMS", "rooms"),
    ("RECORDS", "records"),
    ("VERDICTS", "verdicts"),
];

impl Maps {
    /// Collects them: `find` is asked for each of [`NAMES`].
    pub(crate) fn find<E: From<OpenError>>(
        mut find: impl FnMut((&'static str, &'static str)) -> Result<Map, E>,
    ) -> Result<Self, E> {
        let [jails, condemned, rooms, records, verdicts] = NAMES;
        Ok(Self {
            jails: typed(find(jails)?)?,
            condemned: typed(find(condemned)?)?,
            rooms: typed(find(rooms)?)?,
            records: typed(find(records)?)?,
            verdicts: typed(find(verdicts)?)?,
        })
    }

    /// What the kernel knows of a jail.
    pub(crate) fn jail(&self, cgroup_id: u64) -> Result<Jail, MapError> {
        let JailValue(jail) = in_one_go(|| self.jails.get(&cgroup_id, 0))?;
        Ok(jail)
    }

    /// Makes a jail known.
    pub(crate) fn enter(&mut self, cgroup_id: u64, jail: Jail) -> Result<(), MapError> {
        in_one_go(|| self.jails.insert(cgroup_id, JailValue(jail), 0))
    }

    /// Takes a jail out that was only tried.
    pub(crate) fn leave(&mut self, cgroup_id: u64) -> Result<(), MapError> {
        in_one_go(|| self.jails.remove(&cgroup_id))
    }

    /// Forgets a jail that has no task any more. What it was condemned for is over, so system calls
    /// that nobody looks at need not look for their jail any longer, unless another is condemned.
    pub(crate) fn forget(&mut self, cgroup_id: u64) -> Result<(), MapError> {
        in_one_go(|| self.forget_at_once(cgroup_id))
    }

    fn forget_at_once(&mut self, cgroup_id: u64) -> Result<(), MapError> {
        let ended = self.jail(cgroup_id)?;
        self.jails.remove(&cgroup_id)?;
        if ended.condemned == 0 {
            return Ok(());
        }
        // In this order: a program condemns its jail before it raises the flag, so whoever raised it
        // in vain is found by the search behind.
        self.condemned.set(0, 0, 0)?;
        let is_condemned = |(_, JailValue(jail)): (u64, JailValue)| jail.condemned != 0;
        if self.jails.iter().filter_map(Result::ok).any(is_condemned) {
            self.condemned.set(0, 1, 0)?;
        }
        Ok(())
    }
}

fn typed<T>(map: Map) -> Result<T, OpenError>
where
    T: TryFrom<Map, Error = MapError>,
{
    Ok(T::try_from(map)?)
}
