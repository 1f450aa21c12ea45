//! `turnkey-strip FROM TO`: the object without what only debuggers read.
//!
//! A program of its own, because it takes a library for object files that nothing else here needs.

mod debug;

use std::ffi::OsString;
use std::fs;

use anyhow::{Context, Result, bail};

fn main() -> Result<()> {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let [from, to] = words.as_slice() else {
        bail!("wanted: the object, and where to write it again");
    };
    let object = fs::read(from).with_context(|| format!("cannot read {}", from.display()))?;
    let stripped = debug::without_sections(&object)?;
    fs::write(to, stripped).with_context(|| format!("cannot write {}", to.display()))
}
