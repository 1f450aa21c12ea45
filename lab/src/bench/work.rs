//! The programs that are run again and again, and the files that they work with.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use super::stage::BenchStage;
use crate::command;

const SOURCE: &str = include_str!("loops.c");

/// The program of `loops.c`, in the working directory.
pub const LOOPS: &str = "./loops";
/// A file of C in the working directory.
pub const UNIT: &str = "unit.c";
/// Stands for the directory of many files, whose name is settled later.
pub const TREE: &str = "TREE";

const FILES_OF_A_DIRECTORY: usize = 100;

/// A jail with every layer of `untrusted`, and room for what is measured.
const PROFILE: &str = r#"schema = "turnkey.profile/v1"
name = "bench"
extends = ["untrusted"]

[filesystem]
read = [{ path = "TREE", why = "a tree of many files" }]

[network]
mode = "loopback"

[limits]
memory = "2G"
cpu = "800%"
pids = 200
wall = "10m"
cpu_time = "10m"
file_size = "1G"
"#;

/// Puts everything in its place.
pub fn prepare(stage: &BenchStage, files: usize) -> Result<()> {
    compile_loops(stage)?;
    stage.write(&stage.workdir().join(UNIT), &unit())?;
    let tree = tree(stage);
    fs::create_dir_all(&tree)?;
    for directory in 0..files.div_ceil(FILES_OF_A_DIRECTORY) {
        let folder = tree.join(format!("d{}/d{}", directory % 10, directory));
        fs::create_dir_all(&folder)?;
        for file in 0..FILES_OF_A_DIRECTORY {
            fs::write(folder.join(format!("f{file}")), "")?;
        }
    }
    let profile = PROFILE.replace(TREE, &tree.to_string_lossy());
    stage.write(&profile_path(stage), &profile)
}

/// Builds the program, without libraries that would have to be found inside.
pub fn compile_loops(stage: &BenchStage) -> Result<()> {
    let source = stage.path("loops.c");
    stage.write(&source, SOURCE)?;
    let program = stage.workdir().join(LOOPS);
    let mut compiler = Command::new("cc");
    compiler
        .args(["-O2", "-Wall", "-static", "-o"])
        .arg(program)
        .arg(source);
    command::check(&mut compiler)
}

/// The profile of the jails in which the work is done.
pub fn profile(stage: &BenchStage) -> String {
    profile_path(stage).to_string_lossy().into_owned()
}

fn profile_path(stage: &BenchStage) -> PathBuf {
    stage.path("bench.toml")
}

fn tree(stage: &BenchStage) -> PathBuf {
    stage.path("tree")
}

/// The word, or what it stands for.
pub fn resolved(stage: &BenchStage, word: &str) -> String {
    match word {
        TREE => tree(stage).to_string_lossy().into_owned(),
        other => other.to_owned(),
    }
}

/// A file that a compiler has something to do with.
fn unit() -> String {
    let headers = ["math", "stdio", "stdlib", "string", "time", "unistd"];
    let mut text: String = headers
        .iter()
        .map(|name| format!("#include <{name}.h>\n"))
        .collect();
    for number in 0..150 {
        let _ = write!(
            text,
            "double work{number}(const double *values, int count) {{\n\
             \x20   double sum = {number};\n\
             \x20   for (int index = 0; index < count; index++) {{\n\
             \x20       sum += values[index] > sum ? sqrt(values[index]) : values[index] * {number};\n\
             \x20   }}\n\
             \x20   if (sum > 1e6) {{ printf(\"%f %d\\n\", sum, count); }}\n\
             \x20   return sum;\n}}\n"
        );
    }
    text
}
