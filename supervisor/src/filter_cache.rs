//! The jail's syscall filters: those that were built before for the same calls, or new ones.

use turnkey_jailer::{FilterError, SeccompFilters};
use turnkey_policy::SyscallPolicy;

use crate::object::object;

/// The filters of these calls.
///
/// # Errors
/// Those of [`SeccompFilters::build`].
pub fn filters_for(syscalls: &SyscallPolicy) -> Result<SeccompFilters, FilterError> {
    let build = || SeccompFilters::build(syscalls);
    let bytes = turnkey_monitor::shared::filter(object(), syscalls, || {
        build().map(|filters| filters.to_bytes())
    })?;
    // What cannot be read is built: it can be of nobody but a turnkey that ended half way.
    SeccompFilters::from_bytes(&bytes).map_or_else(build, Ok)
}
