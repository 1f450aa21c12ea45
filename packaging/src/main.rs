//! The program behind `cargo xtask dist`: see the library of the same name.

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    match turnkey_packaging::run(&turnkey_packaging::DistArguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
