//! The command line and the environment that turnkey was started with, as memory: a child made by
//! a fork has a copy, and shows it in its own /proc entry.

use crate::sys;

/// The memory in which the kernel keeps the argument vector and the environment that this process was started
/// with, proc_pid_cmdline(5) and proc_pid_environ(5).
#[derive(Clone, Copy, Debug)]
pub struct StartMemory {
    /// First byte of the arguments.
    pub(crate) arguments: usize,
    /// First byte of the environment.
    pub(crate) environment: usize,
    /// Past the last byte of the environment.
    pub(crate) end: usize,
}

impl StartMemory {
    /// Reads it from the text of `/proc/self/stat`; `None` when the text is not as in
    /// proc_pid_stat(5) or the areas do not follow each other as execve(2) lays them out.
    pub fn parse(stat: &str) -> Option<StartMemory> {
        // The name in parentheses may hold spaces; field 3 is the first behind it.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let field = |number: usize| fields.get(number - 3)?.parse::<usize>().ok();
        let (arguments, arguments_end) = (field(48)?, field(49)?);
        let (environment, end) = (field(50)?, field(51)?);
        let in_order = arguments != 0
            && arguments <= arguments_end
            && arguments_end <= environment
            && environment <= end;
        in_order.then_some(StartMemory {
            arguments,
            environment,
            end,
        })
    }

    /// Overwrites both with zeros, but for a name that shows in a list of processes. Only for a
    /// child that will not look at them again: the jail's first process.
    pub fn forget(&self) {
        sys::overwrite(self, b"turnkey-init");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(fields: [usize; 4]) -> String {
        let before = vec!["0"; 44].join(" ");
        let [arguments, arguments_end, environment, end] = fields;
        format!("7 (a ) name) S {before} {arguments} {arguments_end} {environment} {end} 0\n")
    }

    #[test]
    fn the_areas_are_found_behind_any_name() {
        let start = StartMemory::parse(&stat([100, 120, 120, 180])).unwrap();
        assert_eq!(
            (start.arguments, start.environment, start.end),
            (100, 120, 180)
        );
    }

    #[test]
    fn an_environment_may_be_empty() {
        let start = StartMemory::parse(&stat([100, 120, 120, 120])).unwrap();
        assert_eq!((start.environment, start.end), (120, 120));
    }

    #[test]
    fn a_strange_layout_is_no_layout() {
        assert!(StartMemory::parse(&stat([0, 0, 0, 0])).is_none());
        assert!(StartMemory::parse(&stat([120, 100, 130, 180])).is_none());
        assert!(StartMemory::parse(&stat([100, 120, 110, 180])).is_none());
        assert!(StartMemory::parse("").is_none());
    }

    #[test]
    fn the_kernel_tells_of_this_process() {
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
        assert!(StartMemory::parse(&stat).is_some());
    }
}
