//! The eBPF object, built by `cargo xtask ebpf` and carried in this command.

/// Aligned for an ELF reader.
pub static OBJECT: &[u8] = aya::include_bytes_aligned!("../../monitor/bpf/turnkey.bpf.o");
