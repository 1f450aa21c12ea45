//! Packs the eBPF object: the linker's copy of it is a sixth as large, and only the run that finds no programs
//! loaded unpacks it.

#![expect(clippy::disallowed_methods, reason = "files of the checkout")]

use std::path::PathBuf;
use std::{env, fs};

use miniz_oxide::deflate::compress_to_vec;

/// Smaller by a twentieth than at level 6, for half a second more.
const LEVEL: u8 = 9;

fn main() {
    let object = object();
    println!("cargo::rerun-if-changed={}", object.display());
    println!("cargo::rerun-if-env-changed=TURNKEY_LOG_OBJECT");
    // One for work on the programs lies in the command as it is, so that another of its length can take its place.
    let level = env::var_os("CARGO_FEATURE_PROBE_LOG").map_or(LEVEL, |_| 0);
    let packed = fs::read(&object).map(|bytes| compress_to_vec(&bytes, level));
    let into = env::var_os("OUT_DIR").map(PathBuf::from);
    let into = into.unwrap_or_default().join("turnkey.bpf.o.deflate");
    if let Err(error) = packed.and_then(|packed| fs::write(into, packed)) {
        println!("cargo::error={}: {error}", object.display());
    }
}

/// The committed object, or the one with lines, for work on the programs.
fn object() -> PathBuf {
    match env::var_os("CARGO_FEATURE_PROBE_LOG") {
        Some(_) => env::var_os("TURNKEY_LOG_OBJECT").unwrap_or_default().into(),
        None => "../monitor/bpf/turnkey.bpf.o".into(),
    }
}
