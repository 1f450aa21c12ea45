//! Tells whether the kernel takes the CPU from a task that is in one of the monitor's
//! programs, and leaves the program out for the next task that comes to it there.

use turnkey_monitor::interrupts_tracepoints;

/// The first kernel that leaves no hook of BPF LSM out; stable kernels before it have learnt it too.
const HOOKS: (u32, u32) = (6, 2);

/// The symbol that came to the kernel together with it.
const HOOKS_SYMBOL: &str = "__bpf_prog_enter_recur";

/// Programs that are left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftOutPrograms {
    /// The programs at hooks of BPF LSM.
    Hooks,
    /// The programs at tracepoints.
    Tracepoints,
}

/// The programs known to be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Omission {
    /// No program is left out.
    Never,
    /// The named programs are left out.
    Happens(LeftOutPrograms),
    /// The named programs are left out if the kernel preempts itself, which cannot be told.
    Unknown(LeftOutPrograms),
}

/// The texts in which the kernel describes itself.
pub struct KernelBuild<'a> {
    /// As in uname(2).
    pub release: &'a str,
    /// As in uname(2).
    pub version: &'a str,
    /// `/sys/kernel/debug/sched/preempt`, if it can be read.
    pub choice: Option<&'a str>,
    /// `/proc/cmdline`
    pub command_line: &'a str,
    /// `/proc/kallsyms`
    pub symbols: &'a str,
}

impl KernelBuild<'_> {
    /// The programs that the kernel leaves out.
    pub fn omission(&self) -> Omission {
        match (self.guarded(), self.preempts()) {
            (None, _) | (_, Some(false)) => Omission::Never,
            (Some(programs), Some(true)) => Omission::Happens(programs),
            (Some(programs), None) => Omission::Unknown(programs),
        }
    }

    /// The programs that it can interrupt and enters only once at a time.
    fn guarded(&self) -> Option<LeftOutPrograms> {
        if interrupts_tracepoints(self.release) {
            return Some(LeftOutPrograms::Tracepoints);
        }
        let release = numbers(self.release)?;
        let lets_hooks_in = release >= HOOKS || self.symbols.contains(HOOKS_SYMBOL);
        (!lets_hooks_in).then_some(LeftOutPrograms::Hooks)
    }

    fn preempts(&self) -> Option<bool> {
        let has = |word: &str| self.version.split_whitespace().any(|one| one == word);
        if !has("PREEMPT_DYNAMIC") {
            return Some(
                ["PREEMPT", "PREEMPT_LAZY", "PREEMPT_RT"]
                    .into_iter()
                    .any(has),
            );
        }
        let words = self.command_line.split_whitespace();
        let mut told = words.filter_map(|word| word.strip_prefix("preempt="));
        match self.choice.and_then(chosen).or(told.next_back())? {
            "full" | "lazy" => Some(true),
            "none" | "voluntary" => Some(false),
            _ => None,
        }
    }
}

/// `none (voluntary) full`
fn chosen(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once('(')?;
    Some(rest.split_once(')')?.0)
}

/// `6.1.0-56-cloud-amd64`
fn numbers(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.split(|letter: char| !letter.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DYNAMIC: &str = "#1 SMP PREEMPT_DYNAMIC Debian";

    /// Linux 6.1, which says no more than that it can be told how to preempt.
    fn kernel() -> KernelBuild<'static> {
        KernelBuild {
            release: "6.1.0-8-cloud-amd64",
            version: DYNAMIC,
            choice: None,
            command_line: "quiet",
            symbols: "0 T __bpf_prog_enter\n",
        }
    }

    #[test]
    fn how_it_preempts_is_told_by_build_choice_and_command_line() {
        let preempts = |version, choice, command_line| {
            let kernel = KernelBuild {
                version,
                choice,
                command_line,
                ..kernel()
            };
            kernel.preempts()
        };
        assert_eq!(preempts("#1 SMP PREEMPT_RT x", None, ""), Some(true));
        assert_eq!(preempts("#1 SMP PREEMPT x", None, ""), Some(true));
        assert_eq!(preempts("#1 SMP x", None, "preempt=full"), Some(false));
        assert_eq!(preempts(DYNAMIC, None, "quiet"), None);
        assert_eq!(preempts(DYNAMIC, None, "x preempt=full"), Some(true));
        assert_eq!(preempts(DYNAMIC, None, "preempt=none"), Some(false));
        let voluntary = Some("none (voluntary) full\n");
        assert_eq!(preempts(DYNAMIC, voluntary, "preempt=full"), Some(false));
        assert_eq!(preempts(DYNAMIC, Some("full (lazy)\n"), ""), Some(true));
    }

    #[test]
    fn what_is_left_out_is_told_by_release_and_symbols() {
        let omission = |release, symbols| {
            let kernel = KernelBuild {
                release,
                symbols,
                command_line: "preempt=full",
                ..kernel()
            };
            kernel.omission()
        };
        let old = "0 T __bpf_prog_enter\n";
        let new = "0 T __bpf_prog_enter\n0 T __bpf_prog_enter_recur\n";
        assert_eq!(
            omission("6.1.0-8", old),
            Omission::Happens(LeftOutPrograms::Hooks)
        );
        assert_eq!(omission("6.1.0-56", new), Omission::Never);
        assert_eq!(omission("6.12.117+deb12", ""), Omission::Never);
        let tracepoints = Omission::Happens(LeftOutPrograms::Tracepoints);
        assert_eq!(omission("7.2.13+deb14", new), tracepoints);
        assert_eq!(
            kernel().omission(),
            Omission::Unknown(LeftOutPrograms::Hooks)
        );
    }
}
