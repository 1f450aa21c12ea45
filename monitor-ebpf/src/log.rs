//! Log lines for work on the programs, where they were built with the feature `log`.
//! Elsewhere they are nothing at all.

/// A line, as `aya_log_ebpf::info!` takes it: the program's context, a format, its arguments.
#[cfg(feature = "log")]
macro_rules! line {
    ($($part:tt)*) => { aya_log_ebpf::info!($($part)*) };
}

/// Discards a line: without the feature `log` the object has no code for it.
#[cfg(not(feature = "log"))]
macro_rules! line {
    ($context:expr, $format:literal $(, $argument:expr)*) => {
        let _ = ($context, $(&$argument),*);
    };
}

pub(crate) use line;
