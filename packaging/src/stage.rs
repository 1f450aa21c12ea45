//! The files of a package where they will lie, and what dpkg wants to know of them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::{VERSION, notices};
use xtask::command;

/// From the checkout, and where it goes.
const FILES: [(&str, &str); 13] = [
    ("README.md", "usr/share/doc/turnkey/README.md"),
    ("SECURITY.md", "usr/share/doc/turnkey/SECURITY.md"),
    ("CHANGELOG.md", "usr/share/doc/turnkey/CHANGELOG.md"),
    ("LICENSE-MIT", "usr/share/doc/turnkey/LICENSE-MIT"),
    ("packaging/copyright", "usr/share/doc/turnkey/copyright"),
    (
        "packaging/attach.conf",
        "usr/share/doc/turnkey/examples/attach.conf",
    ),
    (
        "packaging/ci-runner.conf",
        "usr/share/doc/turnkey/examples/ci-runner.conf",
    ),
    (
        "packaging/ci-runner.service",
        "usr/share/doc/turnkey/examples/ci-runner.service",
    ),
    // Where podman and CRI-O look: oci-hooks(5).
    (
        "packaging/oci-hook.json",
        "usr/share/containers/oci/hooks.d/turnkey.json",
    ),
    (
        "packaging/turnkey-monitor.service",
        "usr/lib/systemd/system/turnkey-monitor.service",
    ),
    (
        "packaging/turnkey.service",
        "usr/lib/systemd/system/turnkey.service",
    ),
    (
        "packaging/turnkey.socket",
        "usr/lib/systemd/system/turnkey.socket",
    ),
    (
        "packaging/serve.toml",
        "usr/share/doc/turnkey/examples/serve.toml",
    ),
];

/// The notices of crates that are linked.
const NOTICES: &str = "usr/share/doc/turnkey/THIRD-PARTY";

/// Folders, of which files with these endings go along.
const FOLDERS: [(&str, &str, &[&str]); 3] = [
    ("profiles", "usr/share/turnkey/profiles", &["toml"]),
    ("docs", "usr/share/doc/turnkey/docs", &["md", "json", "png"]),
    ("docs/guide", "usr/share/doc/turnkey/docs/guide", &["md"]),
];

/// The shells that `turnkey completions` knows, and the file that each looks for.
const SHELLS: [(&str, &str); 3] = [
    ("bash", "usr/share/bash-completion/completions/turnkey"),
    ("fish", "usr/share/fish/vendor_completions.d/turnkey.fish"),
    ("zsh", "usr/share/zsh/vendor-completions/_turnkey"),
];

/// The folder of manual pages.
const PAGES: &str = "usr/share/man/man1";

/// One file of each kind: what is installed has them, or something was forgotten.
pub const ONE_OF_EACH: [&str; 15] = [
    "usr/bin/turnkey",
    "usr/bin/turnkey-runc",
    "usr/lib/systemd/system/turnkey-monitor.service",
    "usr/lib/systemd/system/turnkey.service",
    "usr/lib/systemd/system/turnkey.socket",
    "usr/share/bash-completion/completions/turnkey",
    "usr/share/containers/oci/hooks.d/turnkey.json",
    "usr/share/doc/turnkey/copyright",
    NOTICES,
    "usr/share/doc/turnkey/docs/profile.md",
    "usr/share/doc/turnkey/examples/attach.conf",
    "usr/share/doc/turnkey/examples/serve.toml",
    "usr/share/man/man1/turnkey.1.gz",
    "usr/share/man/man1/turnkey-run.1.gz",
    "usr/share/turnkey/profiles/untrusted.toml",
];

/// Lays everything out from nothing.
pub fn fill(root: &Path, turnkey: &Path, stage: &Path) -> Result<()> {
    if stage.exists() {
        fs::remove_dir_all(stage).context("cannot empty the folder of the package")?;
    }
    of_the_checkout(root, turnkey, stage)?;
    of_the_command(turnkey, stage)?;
    let size = size(stage)?;
    put(
        control(size).as_bytes(),
        &stage.join("DEBIAN/control"),
        0o644,
    )?;
    scripts(root, stage)
}

/// The scripts that dpkg runs when the package comes and goes.
const SCRIPTS: [&str; 3] = ["postinst", "postrm", "prerm"];

fn scripts(root: &Path, stage: &Path) -> Result<()> {
    for script in SCRIPTS {
        let from = root.join("packaging").join(script);
        let bytes = fs::read(&from).with_context(|| format!("cannot read {}", from.display()))?;
        put(&bytes, &stage.join("DEBIAN").join(script), 0o755)?;
    }
    Ok(())
}

/// The binary, and the files that are copied as they are.
fn of_the_checkout(root: &Path, turnkey: &Path, stage: &Path) -> Result<()> {
    put(&fs::read(turnkey)?, &stage.join("usr/bin/turnkey"), 0o755)?;
    let wrapper = root.join("packaging/turnkey-runc");
    put(
        &fs::read(wrapper)?,
        &stage.join("usr/bin/turnkey-runc"),
        0o755,
    )?;
    for (from, to) in FILES {
        let bytes = fs::read(root.join(from)).with_context(|| format!("cannot read {from}"))?;
        put(&bytes, &stage.join(to), 0o644)?;
    }
    put(notices::text(root)?.as_bytes(), &stage.join(NOTICES), 0o644)?;
    for (from, to, endings) in FOLDERS {
        folder(&root.join(from), &stage.join(to), endings)?;
    }
    Ok(())
}

/// The files that the command itself writes: completions for each shell, and a manual page for each of its commands.
fn of_the_command(turnkey: &Path, stage: &Path) -> Result<()> {
    for (shell, to) in SHELLS {
        let text = command::output(Command::new(turnkey).args(["completions", shell]))?;
        put(text.as_bytes(), &stage.join(to), 0o644)?;
    }
    let folder = stage.join(PAGES);
    fs::create_dir_all(&folder).context("cannot make the folder of the manual")?;
    command::check(Command::new(turnkey).arg("man").arg(&folder))?;
    for page in fs::read_dir(&folder)? {
        let mut gzip = Command::new("gzip");
        command::output(gzip.args(["--best", "--no-name"]).arg(page?.path()))?;
    }
    Ok(())
}

fn folder(from: &Path, to: &Path, endings: &[&str]) -> Result<()> {
    let entries = fs::read_dir(from).with_context(|| format!("cannot list {}", from.display()))?;
    for entry in entries {
        let path = entry?.path();
        let ending = path.extension().and_then(|it| it.to_str());
        if let (true, Some(name)) = (
            ending.is_some_and(|it| endings.contains(&it)),
            path.file_name(),
        ) {
            put(&fs::read(&path)?, &to.join(name), 0o644)?;
        }
    }
    Ok(())
}

/// Writes a file that everybody may read, whatever the umask of the packager is.
fn put(bytes: &[u8], to: &Path, mode: u32) -> Result<()> {
    let failed = || format!("cannot write {}", to.display());
    let folder = to.parent().with_context(failed)?;
    fs::create_dir_all(folder).with_context(failed)?;
    fs::write(to, bytes).with_context(failed)?;
    fs::set_permissions(to, fs::Permissions::from_mode(mode)).with_context(failed)
}

/// In kibibytes, as dpkg counts.
fn size(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        bytes += if entry.file_type()?.is_dir() {
            size(&entry.path())? * 1024
        } else {
            entry.metadata()?.len()
        };
    }
    Ok(bytes.div_ceil(1024))
}

/// Debian's name of this CPU.
pub fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn control(size: u64) -> String {
    format!(
        "Package: turnkey\n\
         Version: {VERSION}\n\
         Architecture: {}\n\
         Maintainer: the maintainers of turnkey\n\
         Section: admin\n\
         Priority: optional\n\
         Installed-Size: {size}\n\
         Suggests: git, uidmap\n\
         Description: jail with eBPF monitoring for programs that nobody trusts\n \
         turnkey runs a program in a jail, watches from inside the kernel what it does,\n \
         kills it the moment it breaks the rules, and says what happened.\n",
        architecture()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_has_what_dpkg_insists_on_and_a_description_of_lines_that_belong_to_it() {
        let text = control(7);
        for key in [
            "Package: turnkey",
            "Version: ",
            "Architecture: ",
            "Installed-Size: 7",
        ] {
            assert!(text.lines().any(|line| line.starts_with(key)), "{text}");
        }
        let rest = text
            .lines()
            .skip_while(|line| !line.starts_with("Description: "));
        assert!(rest.skip(1).all(|line| line.starts_with(' ')), "{text}");
        assert!(text.ends_with('\n'));
    }

    #[test]
    fn the_guide_gives_the_units_that_the_package_has() {
        let read = |name: &str| fs::read_to_string(xtask::workspace::root().join(name));
        let guide = read("docs/guide/attach.md").expect("a guide");
        for example in ["attach.conf", "ci-runner.conf", "ci-runner.service"] {
            let unit = read(&format!("packaging/{example}")).expect("an example");
            let setting = unit.lines().filter(|line| !line.starts_with('#'));
            let setting: Vec<&str> = setting.collect();
            let block = format!("```ini\n{}\n```\n", setting.join("\n"));
            assert!(guide.contains(&block), "the guide lacks {block}");
        }
    }

    #[test]
    fn everything_lies_where_it_is_looked_for_and_is_readable() {
        let folder = tempfile::tempdir().expect("a folder");
        let stage = folder.path().join("stage");
        let program = Path::new("/bin/false");
        of_the_checkout(&xtask::workspace::root(), program, &stage).expect("filled");
        scripts(&xtask::workspace::root(), &stage).expect("written");
        for file in [
            "usr/bin/turnkey",
            "usr/share/doc/turnkey/copyright",
            "usr/share/turnkey/profiles/untrusted.toml",
            "usr/lib/systemd/system/turnkey-monitor.service",
        ] {
            assert!(stage.join(file).is_file(), "{file}");
        }
        for file in ["usr/bin/turnkey", "usr/bin/turnkey-runc", "DEBIAN/prerm"] {
            let mode = fs::metadata(stage.join(file))
                .expect("there")
                .permissions()
                .mode();
            assert_eq!(mode & 0o777, 0o755, "{file}");
        }
        // A program that has no manual is an error, and no package without one.
        assert!(of_the_command(program, &stage).is_err());
    }
}
