//! One call that waits until a time at the latest: it waits in slices, so that the rest can go by once nothing else runs.

use libc::c_long;
use nix::errno::Errno;

use super::calls::{LeftTime, SplitTime, TimeUse, TimedCall, is_of_cpu_time, waits_until};
use super::memory;
use super::time::JailTime;
use crate::sys::trace::Registers;

/// The first slice of a wait, in nanoseconds of the host; each is twice as long as the one before.
const FIRST_SLICE: i64 = 1_000_000;
/// The longest slice.
const SLICE: i64 = 5_000_000;
/// Below what a function may use under its stack pointer. What was there is put back.
const BELOW_STACK: u64 = 512;
/// Bytes of the three sets of descriptors of select(2) that are kept, 1024 descriptors in each.
const SET: usize = 128;

/// A wait, from the stop before the call to the one behind it.
#[derive(Debug)]
pub struct SlicedWait {
    /// The call.
    pub number: c_long,
    /// The address behind its instruction.
    pub next: u64,
    /// On the jail's clock.
    pub deadline: i64,
    /// The next slice.
    slice: i64,
    arguments: [u64; 6],
    /// The argument that has the time, and whether it is a number of milliseconds.
    timeout: (usize, bool),
    over: i64,
    left: Option<(u64, bool)>,
    /// The memory that was changed for the call, with what was there.
    changed: Option<(u64, Vec<u8>)>,
    /// The sets of descriptors that the call writes to.
    sets: Vec<(u64, Vec<u8>)>,
}

impl SlicedWait {
    /// The wait that this call asks for; `None` of one that has no such time, or none that the kernel takes.
    pub fn read(
        task: libc::pid_t,
        call: TimedCall,
        registers: &Registers,
        time: &JailTime,
    ) -> Result<Option<SlicedWait>, Errno> {
        let arguments = registers.arguments();
        let TimeUse::Waits {
            timeout,
            millis,
            over,
            left,
        } = call.uses
        else {
            return Ok(None);
        };
        if is_of_cpu_time(call.number, arguments) {
            return Ok(None);
        }
        let given = match millis {
            true => Some(i64::from(low(arguments[timeout])) * 1_000_000),
            false => {
                let mut bytes = [0; 16];
                memory::read(task, arguments[timeout], &mut bytes)?;
                SplitTime::of(call.number).read(bytes)
            }
        };
        let Some(given) = given else { return Ok(None) };
        let rest = match waits_until(call.number, arguments) {
            Some(kind) => time.until(kind, given),
            None => given,
        };
        let left = match left {
            LeftTime::Untold => None,
            LeftTime::InPlace => Some((arguments[timeout], true)),
            LeftTime::WhenInterrupted(argument) => Some((arguments[argument], false)),
        };
        Ok(Some(SlicedWait {
            number: call.number,
            next: registers.next(),
            deadline: time.now().saturating_add(rest),
            slice: FIRST_SLICE,
            arguments,
            timeout: (timeout, millis),
            over,
            left: left.filter(|(place, _)| *place != 0),
            changed: None,
            sets: sets(task, call.number, arguments),
        }))
    }

    /// True of a call that waits for a time and for nothing else.
    pub fn is_sleep(&self) -> bool {
        [libc::SYS_nanosleep, libc::SYS_clock_nanosleep].contains(&self.number)
    }

    /// Has the call wait for the next slice alone.
    pub fn begin(
        &mut self,
        task: libc::pid_t,
        registers: &mut Registers,
        time: &JailTime,
    ) -> Result<(), Errno> {
        let rest = self.deadline.saturating_sub(time.now());
        let rest = rest.clamp(0, self.slice);
        self.slice = (2 * self.slice).min(SLICE);
        let mut arguments = self.arguments;
        let (timeout, millis) = self.timeout;
        if millis {
            arguments[timeout] = rest.cast_unsigned().div_ceil(1_000_000);
        } else {
            let moment = match waits_until(self.number, self.arguments) {
                Some(kind) => JailTime::host_after(kind, rest),
                None => rest,
            };
            let place = scratch(registers);
            let written = SplitTime::of(self.number).write(moment);
            self.changed = Some((place, replace(task, place, &written)?));
            arguments[timeout] = place;
        }
        registers.set_arguments(arguments);
        Ok(())
    }

    /// Puts back what was changed for the slice.
    pub fn end(&mut self, task: libc::pid_t, registers: &mut Registers) {
        registers.set_arguments(self.arguments);
        if let Some((place, bytes)) = self.changed.take() {
            // A task that unmapped its own stack meanwhile has nothing to be put back.
            let _ = memory::write(task, place, &bytes);
        }
    }

    /// True when the call ended because its slice was over.
    pub fn ran_out(&self, registers: &Registers) -> bool {
        registers.answer() == self.over
    }

    /// True when the time is over on the jail's clock.
    pub fn is_over(&self, time: &JailTime) -> bool {
        time.now() >= self.deadline
    }

    /// Puts the sets of descriptors back that the call has emptied, for the next slice.
    pub fn restore_sets(&self, task: libc::pid_t) {
        for (place, bytes) in &self.sets {
            let _ = memory::write(task, *place, bytes);
        }
    }

    /// Tells the program what is left of its time, where the call would have.
    pub fn tell_left(&self, task: libc::pid_t, time: &JailTime, was_interrupted: bool) {
        let Some((place, always)) = self.left else {
            return;
        };
        let is_while = waits_until(self.number, self.arguments).is_none();
        if is_while && (always || was_interrupted) {
            let rest = self.deadline.saturating_sub(time.now());
            // The kernel, too, does without where it cannot write.
            let _ = memory::write(task, place, &SplitTime::of(self.number).write(rest));
        }
    }
}

/// The place below a task's stack for a time of ours.
pub fn scratch(registers: &Registers) -> u64 {
    registers.stack().wrapping_sub(BELOW_STACK) & !15
}

/// Writes there, and answers what was there.
pub fn replace(task: libc::pid_t, place: u64, bytes: &[u8]) -> Result<Vec<u8>, Errno> {
    let mut before = vec![0; bytes.len()];
    memory::read(task, place, &mut before)?;
    memory::write(task, place, bytes)?;
    Ok(before)
}

/// The kernel reads 32 bits of an int.
fn low(argument: u64) -> i32 {
    #[expect(clippy::cast_possible_truncation, reason = "as the kernel does")]
    let low = argument as u32;
    low.cast_signed()
}

fn sets(task: libc::pid_t, number: c_long, arguments: [u64; 6]) -> Vec<(u64, Vec<u8>)> {
    if number != libc::SYS_select && number != libc::SYS_pselect6 {
        return Vec::new();
    }
    let count = usize::try_from(low(arguments[0])).unwrap_or_default();
    let length = count.div_ceil(64).saturating_mul(8).min(SET);
    let places = arguments[1..4].iter().filter(|place| **place != 0);
    let read = places.filter_map(|place| {
        let mut bytes = vec![0; length];
        memory::read(task, *place, &mut bytes).ok()?;
        Some((*place, bytes))
    });
    read.collect()
}
