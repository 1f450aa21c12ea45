//! Log lines of programs that were built with the feature `log`, on standard error.

use aya::Ebpf;
use aya_log::EbpfLogger;
use log::{Log, Metadata, Record};

/// The lines that wait in the kernel.
pub(crate) struct Lines(Option<EbpfLogger<StandardError>>);

/// The sink of log lines.
struct StandardError;

impl Log for StandardError {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        eprintln!("probe: {}: {}", record.target(), record.args());
    }

    fn flush(&self) {}
}

impl Lines {
    /// Of these programs; none where they were built without.
    pub(crate) fn from_programs(ebpf: &mut Ebpf) -> Self {
        Self(EbpfLogger::init_with_logger(ebpf, StandardError).ok())
    }

    /// Prints what waits.
    pub(crate) fn print(&mut self) {
        if let Some(lines) = &mut self.0 {
            lines.flush();
        }
    }
}
