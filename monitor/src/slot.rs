//! A slot: a jail's own maps in the kernel, which hold its rules, what its threads repeat, and its two rings.
//!
//! A slot is an index of the arrays of slot data and of rings. The run that has the slot has all of it: no other
//! jail's events can crowd out its own.

use std::thread;

use aya::maps::{ArrayOfMaps, MapData, MapError};
use aya_obj::generated::bpf_map_type::{BPF_MAP_TYPE_ARRAY, BPF_MAP_TYPE_RINGBUF};
use turnkey_abi::{RING, SlotData, Table, VERDICT_RING};

use crate::error::OpenError;
use crate::interruption::in_one_go;
use crate::maps::Maps;
use crate::shared::Claim;
use crate::stream::Stream;
use crate::sys::{MAPPABLE, Ring, SharedSlotData};

/// The maps of one slot.
pub(crate) struct SlotMaps {
    pub(crate) data: MapData,
    pub(crate) records: MapData,
    pub(crate) verdicts: MapData,
}

impl SlotMaps {
    /// Makes them. No program knows them yet.
    pub(crate) fn make() -> Result<Self, MapError> {
        let bytes = u32::try_from(size_of::<SlotData>()).map_err(|_| MapError::OutOfBounds {
            index: 0,
            max_entries: 1,
        })?;
        let data = (BPF_MAP_TYPE_ARRAY as u32, 4, bytes, 1, MAPPABLE);
        let ring = |bytes| (BPF_MAP_TYPE_RINGBUF as u32, 0, 0, bytes, 0);
        Ok(Self {
            data: create("data", data)?,
            records: create("records", ring(RING))?,
            verdicts: create("verdicts", ring(VERDICT_RING))?,
        })
    }

    /// The kernel's numbers of them: data, records, verdicts.
    pub(crate) fn numbers(&self) -> Result<[u32; 3], MapError> {
        let number = |map: &MapData| map.info().map(|info| info.id());
        Ok([
            number(&self.data)?,
            number(&self.records)?,
            number(&self.verdicts)?,
        ])
    }

    /// Puts them where the programs look, unless they are there, as somebody may have put others there since.
    pub(crate) fn place_again(&self, index: u32, maps: &mut Maps) -> Result<(), OpenError> {
        match numbers_at(index, maps) == self.numbers()?.map(Some) {
            true => Ok(()),
            false => self.place(index, maps),
        }
    }

    /// Puts them where the programs look. After each the kernel waits until no program runs that
    /// could still see what was there before (several milliseconds), so they wait together.
    pub(crate) fn place(&self, index: u32, maps: &mut Maps) -> Result<(), OpenError> {
        let (data, records, verdicts) = (&mut maps.data, &mut maps.records, &mut maps.verdicts);
        let all = thread::scope(|scope| {
            let records = thread::Builder::new()
                .spawn_scoped(scope, || in_one_go(|| records.set(index, &self.records, 0)))?;
            let verdicts = thread::Builder::new().spawn_scoped(scope, || {
                in_one_go(|| verdicts.set(index, &self.verdicts, 0))
            })?;
            Ok([
                Ok(in_one_go(|| data.set(index, &self.data, 0))),
                records.join(),
                verdicts.join(),
            ])
        });
        let all = all.map_err(OpenError::Thread)?;
        for placed in all {
            placed.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        }
        Ok(())
    }
}

/// The kernel's numbers of the maps that the programs find at an index: data, records, verdicts. 0 of one that is not there, and none where
/// the kernel does not say.
pub(crate) fn numbers_at(index: u32, maps: &Maps) -> [Option<u32>; 3] {
    let at = |outer: &ArrayOfMaps<MapData>| match outer.get(&index, 0) {
        Ok(inner) => inner.info().map(|info| info.id()).ok(),
        Err(MapError::KeyNotFound) => Some(0),
        Err(_) => None,
    };
    [at(&maps.data), at(&maps.records), at(&maps.verdicts)]
}

fn create(
    name: &str,
    (kind, key, value, entries, flags): (u32, u32, u32, u32, u32),
) -> Result<MapData, MapError> {
    let map = aya_obj::Map::new_from_params(kind, key, value, entries, flags);
    MapData::create(map, name, None)
}

/// A slot that is ours.
pub(crate) struct Slot {
    pub(crate) index: u32,
    pub(crate) data: SharedSlotData,
    pub(crate) stream: Stream,
    /// The kernel's numbers of its maps: data, records, verdicts.
    pub(crate) numbers: [u32; 3],
    /// The slot's claim, which keeps other runs from it; `None` where there are no others.
    pub(crate) claim: Option<Claim>,
}

impl Slot {
    /// Takes the maps of a slot over, with empty rings.
    pub(crate) fn new(index: u32, maps: SlotMaps, claim: Option<Claim>) -> Result<Self, OpenError> {
        let numbers = maps.numbers()?;
        let SlotMaps {
            data,
            records,
            verdicts,
        } = maps;
        let rings = [(records, RING), (verdicts, VERDICT_RING)];
        let [records, verdicts] = rings.map(|(map, bytes)| Ring::empty(map, bytes));
        let rings = [
            records.map_err(OpenError::Mapped)?,
            verdicts.map_err(OpenError::Mapped)?,
        ];
        Ok(Self {
            index,
            data: SharedSlotData::map(&data).map_err(OpenError::Mapped)?,
            stream: Stream::new(rings).map_err(OpenError::Poll)?,
            numbers,
            claim,
        })
    }

    /// Hands rules to the kernel, in whose memory they are then. Nothing is repeated yet. Call it
    /// only while no task is under the slot's rules.
    pub(crate) fn set_rules(&mut self, table: &Table) {
        self.data.set(table);
    }
}
