//! Tasks that are interrupted in a tracepoint: which kernels do that, and what must not be.

use std::sync::OnceLock;

use nix::sys::utsname::uname;

use crate::sys::Hurry;

/// The first kernel whose tracepoints can be interrupted.
const INTERRUPTED: (u32, u32) = (7, 0);

/// True when this kernel can interrupt a task in a tracepoint.
pub(crate) fn interrupts_tracepoints_here() -> bool {
    static ARE: OnceLock<bool> = OnceLock::new();
    *ARE.get_or_init(|| {
        let release = uname().map(|name| name.release().to_string_lossy().into_owned());
        // Who does not say what it is, is taken for a new one.
        release.map_or(true, |release| interrupts_tracepoints(&release))
    })
}

/// Speaks to the kernel about its maps. While it reads or writes one, it leaves out the programs that
/// perf calls on the CPU (`bpf_disable_instrumentation`), so a task that took the CPU from us
/// in the middle of it would not be seen. No task of a jail can take it from one in a hurry.
pub(crate) fn in_one_go<T>(act: impl FnOnce() -> T) -> T {
    let _hurry = interrupts_tracepoints_here().then(Hurry::new);
    act()
}

/// True when a kernel of this release, as in uname(2), can interrupt a task in a tracepoint.
#[must_use]
pub fn interrupts_tracepoints(release: &str) -> bool {
    let mut parts = release.split(|letter: char| !letter.is_ascii_digit());
    let mut number = || parts.next().and_then(|part| part.parse::<u32>().ok());
    number()
        .zip(number())
        .is_none_or(|known| known >= INTERRUPTED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_since_7_interrupt_tracepoints_and_so_may_those_that_do_not_say() {
        for old in ["6.1.0-56-cloud-amd64", "6.18.5", "5.15"] {
            assert!(!interrupts_tracepoints(old), "{old}");
        }
        for new in ["7.0.0", "7.2.13+deb14-cloud-amd64", "10.1", "next", ""] {
            assert!(interrupts_tracepoints(new), "{new}");
        }
    }
}
