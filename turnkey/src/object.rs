//! The eBPF object, built by `cargo xtask ebpf` and carried in this command.

/// Aligned for an ELF reader.
#[cfg(not(feature = "probe-log"))]
pub static OBJECT: &[u8] = aya::include_bytes_aligned!("../../monitor/bpf/turnkey.bpf.o");

/// The one with lines, for work on the programs.
#[cfg(feature = "probe-log")]
pub static OBJECT: &[u8] = aya::include_bytes_aligned!(env!("TURNKEY_LOG_OBJECT"));
