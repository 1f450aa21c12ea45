//! Programs that run what they are given, and the ones among them that put packages where these belong.

use super::act::ObservedAct;
use super::process_state::{ObservedProcess, ProcessState, base_name};

/// Programs that run what somebody wrote, without the version in their names.
const INTERPRETERS: &[&str] = &[
    "R", "Rscript", "ash", "awk", "bash", "bun", "busybox", "csh", "dash", "deno", "dotnet",
    "fish", "gawk", "java", "julia", "ksh", "lua", "luajit", "mawk", "mono", "node", "nodejs",
    "perl", "php", "pwsh", "pypy", "python", "ruby", "sh", "tclsh", "tcsh", "zsh",
];

/// Shells, which people type to.
const SHELLS: &[&str] = &[
    "sh", "bash", "dash", "zsh", "ksh", "ash", "busybox", "csh", "tcsh", "fish",
];

/// The dynamic loader runs a program that it is given: ld.so(8).
const LOADERS: &[&[u8]] = &[b"ld-linux", b"ld-musl", b"ld.so"];

/// Installers of packages: what they fetch is what the caller asked a registry for.
const INSTALLERS: &[&str] = &[
    "apk",
    "apt",
    "apt-get",
    "bundle",
    "bundler",
    "cargo",
    "composer",
    "conda",
    "corepack",
    "dnf",
    "dpkg",
    "ensurepip",
    "gem",
    "go",
    "mamba",
    "npm",
    "npx",
    "pip",
    "pip3",
    "pipx",
    "pnpm",
    "poetry",
    "rustup",
    "uv",
    "uvx",
    "venv",
    "virtualenv",
    "yarn",
    "yum",
];

/// True when a program is a shell.
pub fn is_shell(path: &[u8]) -> bool {
    let name = base_name(path);
    SHELLS.iter().any(|shell| shell.as_bytes() == name)
}

/// True for a program that runs what it is given by name: `python3.11`, `sh`, the dynamic loader.
pub fn is_interpreter(exe: &[u8]) -> bool {
    let name = base_name(exe);
    if is_loader(exe) {
        return true;
    }
    let is_version = |c: char| c.is_ascii_digit() || c == '.' || c == '-';
    std::str::from_utf8(name)
        .is_ok_and(|name| INTERPRETERS.contains(&name.trim_end_matches(is_version)))
}

/// True for the dynamic loader, executed as a program.
pub fn is_loader(exe: &[u8]) -> bool {
    let name = base_name(exe);
    LOADERS.iter().any(|loader| name.starts_with(loader))
}

/// True when an installer of packages acts.
pub fn installs(act: &ObservedAct<'_>, state: &ProcessState) -> bool {
    state.process(&act.event.task).is_some_and(is_installer)
}

/// True when an installer of packages acts, or a program that it has started, such as what builds a package: that runs the package's own code.
pub fn is_installed_by(act: &ObservedAct<'_>, state: &ProcessState) -> bool {
    state.ancestry(&act.event.task).any(is_installer)
}

/// True for an installer of packages: by its own name, as a script, or as a module of Python. An argument that is so called is not
/// enough, nor the name by which a program is started, which is its caller's choice.
pub fn is_installer(process: &ObservedProcess) -> bool {
    let words = process.argv.get(1..).unwrap_or_default();
    let given = match is_interpreter(&process.exe) {
        true => given(words),
        false => None,
    };
    let names = [Some(&process.exe[..]), process.script.as_deref(), given];
    names.into_iter().flatten().any(is_its_name)
}

fn is_its_name(path: &[u8]) -> bool {
    let name = base_name(path);
    let name = name.strip_suffix(b"-cli.js").unwrap_or(name);
    INSTALLERS.iter().any(|one| one.as_bytes() == name)
}

/// The first word that is no option, or the module that Python is told to run.
fn given(words: &[Vec<u8>]) -> Option<&[u8]> {
    let at = words
        .iter()
        .position(|word| word == b"-m" || word.first() != Some(&b'-'))?;
    let is_module = words[at] == b"-m";
    let word = words.get(at + usize::from(is_module))?;
    Some(word)
}
