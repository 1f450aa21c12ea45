//! The limits of the control groups as the kernel reads them back when the jail is inside.
//!
//! Written limits were read back before, but only a group that holds the jail's processes limits
//! them, and only now nobody is left who could have moved anything in between.

use turnkey_policy::Layer;

use crate::groups::JailCgroups;
use crate::groups::hierarchy::Controller;
use crate::groups::limits::GroupLimit;
use crate::process::proof::ProofError;
use turnkey_facts::LayerReport;

/// The kernel counts memory in pages and rounds a limit down to whole ones; none is larger.
const LARGEST_PAGE: u64 = 64 << 10;

/// Holds every limit against the plan, and the process `init` against the lists of the groups.
/// Proofs of the layers that groups hold are replaced by what was seen.
pub fn prove(
    groups: &JailCgroups,
    limits: &[GroupLimit],
    init: libc::pid_t,
    reports: &mut [LayerReport],
) -> Result<(), ProofError> {
    for controller in Controller::ALL {
        let layer = layer(controller);
        let report = reports.iter_mut().find(|report| report.layer == layer);
        // A layer without a proof holds nothing, and says so.
        let Some(report) = report.filter(|report| report.proof.is_some()) else {
            continue;
        };
        if !groups.lists_process(controller, init) {
            return Err(ProofError {
                layer,
                expected: format!(
                    "the jail's first process in its group of `{}`",
                    controller.name()
                ),
                seen: "it is not in the group's list".into(),
            });
        }
        let seen = groups.limits_in_force(limits, controller);
        let of = limits.iter().filter(|limit| limit.controller == controller);
        let proof = compare(layer, of, &seen)?;
        report.proof = Some(format!("{proof}; read back with the jail inside"));
    }
    Ok(())
}

fn layer(controller: Controller) -> Layer {
    match controller {
        Controller::Memory => Layer::Memory,
        Controller::Pids => Layer::Pids,
        Controller::Cpu => Layer::Cpu,
        Controller::Io => Layer::Io,
    }
}

/// Pure: what was planned against what was read back, file by file.
fn compare<'a>(
    layer: Layer,
    planned: impl Iterator<Item = &'a GroupLimit>,
    seen: &[(&'static str, String)],
) -> Result<String, ProofError> {
    let mut words = Vec::new();
    for limit in planned {
        let value = seen
            .iter()
            .find(|(file, value)| *file == limit.file && limit.part_of(value).is_some());
        match value {
            None if limit.may_be_missing => {}
            Some((file, value)) if limit.device.is_some() && is_enforced(&limit.value, value) => {
                words.push(format!("{file} is {value}"));
            }
            Some((file, value)) if is_the_same(&limit.value, value) => {
                words.push(format!("{file} is {value}"));
            }
            other => {
                let value = other.map_or("nothing", |(_, value)| value.as_str());
                return Err(ProofError {
                    layer,
                    expected: format!("{} {}", limit.file, limit.value),
                    seen: format!("{} {value}", limit.file),
                });
            }
        }
    }
    Ok(words.join("; "))
}

/// A line of io.max tells of what is not limited, too.
fn is_enforced(planned: &str, seen: &str) -> bool {
    let seen: Vec<_> = seen.split(' ').collect();
    planned.split(' ').all(|word| seen.contains(&word))
}

fn is_the_same(planned: &str, seen: &str) -> bool {
    let numbers = (planned.parse::<u64>(), seen.parse::<u64>());
    match numbers {
        (Ok(planned), Ok(seen)) if planned >= LARGEST_PAGE => {
            seen <= planned && planned - seen < LARGEST_PAGE
        }
        _ => planned == seen,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(file: &'static str, value: &str) -> GroupLimit {
        GroupLimit {
            controller: Controller::Memory,
            parent: None,
            file,
            value: value.to_owned(),
            may_be_missing: file.contains("memsw"),
            device: None,
        }
    }

    fn against(
        file: &'static str,
        planned: &str,
        seen: &[(&'static str, &str)],
    ) -> Result<String, ProofError> {
        let seen: Vec<_> = seen
            .iter()
            .map(|(file, value)| (*file, (*value).to_owned()))
            .collect();
        compare(Layer::Memory, [limit(file, planned)].iter(), &seen)
    }

    #[test]
    fn what_is_in_force_is_the_proof() {
        let proof = against("cpu.max", "100000 100000", &[("cpu.max", "100000 100000")]);
        assert_eq!(proof.unwrap(), "cpu.max is 100000 100000");
    }

    #[test]
    fn memory_is_rounded_down_to_pages_and_never_up() {
        let memory = |seen| against("memory.max", "100000001", &[("memory.max", seen)]);
        assert!(memory("99999744").is_ok());
        assert!(memory("100003840").is_err());
        assert!(memory("99000000").is_err());
        assert!(memory("max").is_err());
    }

    #[test]
    fn small_numbers_are_compared_as_they_are() {
        assert!(against("pids.max", "50", &[("pids.max", "50")]).is_ok());
        assert!(against("pids.max", "50", &[("pids.max", "49")]).is_err());
        assert!(against("pids.max", "50", &[("pids.max", "max")]).is_err());
    }

    #[test]
    fn the_line_of_each_disk_is_compared() {
        let disk = |minor, rest: &str| GroupLimit {
            device: Some(crate::host::storage::BlockDevice { major: 8, minor }),
            ..limit("io.max", &format!("8:{minor} {rest}"))
        };
        let planned = [disk(0, "rbps=1048576"), disk(16, "rbps=1048576")];
        let prove = |lines: &[&str]| {
            let seen = lines.iter().map(|line| ("io.max", (*line).to_owned()));
            let seen: Vec<_> = seen.collect();
            compare(Layer::Io, planned.iter(), &seen)
        };
        let first = "8:0 rbps=1048576 wbps=max riops=max wiops=max";
        let second = "8:16 rbps=1048576 wbps=max riops=max wiops=max";
        assert!(prove(&[second, first]).unwrap().contains(second));
        assert!(prove(&[first]).is_err());
        assert!(prove(&[first, "8:16 rbps=10485760 wbps=max"]).is_err());
    }

    #[test]
    fn a_file_that_is_gone_proves_nothing_unless_it_may_be() {
        assert!(against("memory.max", "1048576", &[]).is_err());
        assert!(against("memory.memsw.limit_in_bytes", "1048576", &[]).is_ok());
    }
}
