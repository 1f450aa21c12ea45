//! Prints how many BPF programs, maps and links the kernel holds, as JSON. `cargo lab bench` asks before and
//! after many runs.

use aya::maps::loaded_maps;
use aya::programs::{loaded_links, loaded_programs};

#[expect(clippy::print_stdout, reason = "that is its answer")]
fn main() {
    // One that went away while it was looked at is none.
    let programs = loaded_programs().filter(Result::is_ok).count();
    let maps = loaded_maps().filter(Result::is_ok).count();
    let links = loaded_links().filter(Result::is_ok).count();
    println!("{{\"programs\": {programs}, \"maps\": {maps}, \"links\": {links}}}");
}
