//! The kernels: Debian's packages, downloaded once into a folder outside of the tree, unpacked and
//! never installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};

use crate::command;

/// A kernel as Debian builds it.
pub struct Build {
    /// As the cache names it, and the table of machines.
    pub name: &'static str,
    /// Its series, as the packages name it.
    series: &'static str,
    /// What it is built for, as the packages name it.
    flavour: &'static str,
    /// What its machines have beside the modules of every machine.
    modules: &'static [&'static str],
}

/// For machines in a cloud: small, and without what no such machine has.
const CLOUD: &str = "cloud-amd64";

/// Linux 6.1 for machines in a cloud.
pub const CLOUD_6_1: Build = Build {
    name: "6.1",
    series: "6.1",
    flavour: CLOUD,
    modules: &[],
};

/// Linux 6.12 for machines in a cloud.
pub const CLOUD_6_12: Build = Build {
    name: "6.12",
    series: "6.12",
    flavour: CLOUD,
    modules: &[],
};

/// Linux 6.12 for any machine: it has x32, and files of /proc that the other one lacks.
pub const GENERAL_6_12: Build = Build {
    name: "6.12-general",
    series: "6.12",
    flavour: "amd64",
    modules: &["sound/soundcore", "sound/core/snd"],
};

/// An unpacked kernel.
pub struct Kernel {
    /// What the machine boots.
    pub image: PathBuf,
    /// The modules it needs, in the order in which they are loaded.
    pub modules: Vec<PathBuf>,
}

/// What the guest needs and Debian builds as modules, at least in some series. The order is the one
/// in which they need one another. Below the line: what attacks reach for. Without it their
/// control runs would fail, and their failure in a jail would prove nothing.
const MODULES: &[&str] = &[
    "drivers/virtio/virtio_ring",
    "drivers/virtio/virtio",
    "drivers/virtio/virtio_pci_legacy_dev",
    "drivers/virtio/virtio_pci_modern_dev",
    "drivers/virtio/virtio_pci",
    "drivers/block/virtio_blk",
    "drivers/char/virtio_console",
    "crypto/crc32c_generic",
    "lib/crc16",
    "fs/mbcache",
    "fs/jbd2/jbd2",
    "fs/ext4/ext4",
    "fs/overlayfs/overlay",
    // ----
    "net/vmw_vsock/vsock",
    "net/vmw_vsock/vmw_vsock_virtio_transport_common",
    "net/vmw_vsock/vsock_loopback",
    "crypto/af_alg",
    "crypto/algif_hash",
    "drivers/md/md-mod",
];

/// Where apt looks for the kernels, and nowhere else: the host's own sources stay as they are, and
/// need not be Debian's.
const SOURCES: &str = "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] \
    http://deb.debian.org/debian-security bookworm-security main\n";

/// A kernel, from the cache or the network.
pub fn obtain(build: &Build) -> Result<Kernel> {
    let folder = cache_folder()?.join(build.name);
    if !folder.join(UNPACKED).exists() {
        download(build, &folder).with_context(|| format!("cannot get a kernel {}", build.name))?;
    }
    check_digest(&folder)?;
    open(&folder.join(UNPACKED), build.modules)
}

const UNPACKED: &str = "unpacked";

/// The package as it was downloaded.
const PACKAGE: &str = "package.deb";

/// The digest that the package had when apt had checked it.
const DIGEST: &str = "package.sha256";

/// The user's cache, outside of any checkout: `cargo clean` and a fresh clone cost no download.
fn cache_folder() -> Result<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(std::env::home_dir()?.join(".cache")))
        .context("neither XDG_CACHE_HOME nor a home folder is set")?;
    Ok(cache.join("turnkey/vm"))
}

/// Into a folder of its own first: a download that breaks off leaves nothing that looks whole.
fn download(build: &Build, folder: &Path) -> Result<()> {
    let parent = folder.parent().context("a folder in the cache")?;
    fs::create_dir_all(parent)?;
    let work = tempfile::Builder::new().prefix("new-").tempdir_in(parent)?;
    let apt = Apt::new(work.path())?;
    command::check(apt.command("apt-get").args(["--quiet", "update"]))?;
    let names = command::output(apt.command("apt-cache").args(["pkgnames", "linux-image-"]))?;
    let name = newest(&names, build).with_context(|| {
        let Build {
            series, flavour, ..
        } = build;
        format!("no linux-image-{series}*-{flavour}-unsigned in bookworm-security")
    })?;
    let made = work.path().join("made");
    fs::create_dir(&made)?;
    command::check(
        apt.command("apt-get")
            .args(["--quiet", "download", name])
            .current_dir(&made),
    )?;
    let package = only_file(&made)?;
    fs::rename(package, made.join(PACKAGE))?;
    fs::write(made.join(DIGEST), digest(&made.join(PACKAGE))?)?;
    let mut unpack = Command::new("dpkg");
    command::check(
        unpack
            .arg("-x")
            .arg(made.join(PACKAGE))
            .arg(made.join(UNPACKED)),
    )?;
    // Another run may have been faster; its kernel is as good.
    if let Err(error) = fs::rename(&made, folder)
        && !folder.exists()
    {
        return Err(error).context("cannot keep the kernel");
    }
    Ok(())
}

/// apt with sources, lists and cache of its own.
struct Apt {
    folder: PathBuf,
}

impl Apt {
    fn new(work: &Path) -> Result<Apt> {
        let folder = work.join("apt");
        for name in ["lists/partial", "cache/archives/partial"] {
            fs::create_dir_all(folder.join(name))?;
        }
        fs::write(folder.join("sources.list"), SOURCES)?;
        Ok(Apt { folder })
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        let mut set = |name: &str, value: &str| {
            command.args(["-o", &format!("{name}={value}")]);
        };
        let inside = |name: &str| self.folder.join(name).display().to_string();
        set("Dir::Etc::SourceList", &inside("sources.list"));
        set("Dir::Etc::SourceParts", "-");
        set("Dir::State::Lists", &inside("lists"));
        set("Dir::Cache", &inside("cache"));
        set("Acquire::Languages", "none");
        // The folders are the caller's own; apt's user may not see them.
        set("APT::Sandbox::User", "root");
        command
    }
}

/// The newest kernel of the series and flavour among apt's package names.
fn newest<'a>(names: &'a str, build: &Build) -> Option<&'a str> {
    let start = format!("linux-image-{}.", build.series);
    let end = format!("-{}-unsigned", build.flavour);
    let is_such = |name: &&str| {
        let version = name
            .strip_prefix(&start)
            .and_then(|it| it.strip_suffix(&end));
        // What a flavour has in front of another one's name is not part of a version.
        version.is_some_and(|version| !version.ends_with(|it: char| it.is_ascii_alphabetic()))
    };
    names
        .lines()
        .filter(is_such)
        .max_by_key(|name| numbers(name))
}

/// The numbers in a name: they order its versions.
fn numbers(name: &str) -> Vec<u64> {
    let parts = name.split(|letter: char| !letter.is_ascii_digit());
    parts.filter_map(|part| part.parse().ok()).collect()
}

fn only_file(folder: &Path) -> Result<PathBuf> {
    let mut entries = fs::read_dir(folder)?;
    let entry = entries.next().context("apt-get downloaded nothing")??;
    Ok(entry.path())
}

fn digest(file: &Path) -> Result<String> {
    let bytes = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    let digest = Sha256::digest(bytes);
    Ok(digest.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// What was downloaded is what is there.
fn check_digest(folder: &Path) -> Result<()> {
    let recorded = fs::read_to_string(folder.join(DIGEST))
        .with_context(|| format!("{} is not whole: remove it", folder.display()))?;
    if digest(&folder.join(PACKAGE))? != recorded {
        bail!(
            "{} is not what was downloaded: remove {}",
            PACKAGE,
            folder.display()
        );
    }
    Ok(())
}

fn open(unpacked: &Path, more: &[&str]) -> Result<Kernel> {
    let boot = unpacked.join("boot");
    let release = fs::read_dir(&boot)?
        .flatten()
        .find_map(|entry| {
            Some(
                entry
                    .file_name()
                    .to_str()?
                    .strip_prefix("vmlinuz-")?
                    .to_owned(),
            )
        })
        .context("the package has no kernel")?;
    let tree = unpacked.join("lib/modules").join(&release);
    let builtin = fs::read_to_string(tree.join("modules.builtin"))?;
    let mut modules = Vec::new();
    for module in MODULES.iter().chain(more) {
        if !builtin.contains(&format!("kernel/{module}.ko\n")) {
            modules.push(find_module(&tree, module)?);
        }
    }
    Ok(Kernel {
        image: boot.join(format!("vmlinuz-{release}")),
        modules,
    })
}

/// Some series are compressed.
fn find_module(tree: &Path, module: &str) -> Result<PathBuf> {
    let candidates = ["ko", "ko.xz"].map(|end| tree.join(format!("kernel/{module}.{end}")));
    candidates
        .into_iter()
        .find(|path| path.exists())
        .with_context(|| format!("the kernel has no module {module}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: &str = "linux-image-6.1.0-9-cloud-amd64-unsigned
linux-image-6.1.0-56-cloud-amd64-unsigned
linux-image-6.1.0-56-amd64-unsigned
linux-image-6.12.9+deb12-cloud-amd64-unsigned
linux-image-6.12.115+deb12-cloud-amd64-unsigned
linux-image-6.12.115+deb12-cloud-amd64-dbg
linux-image-6.12.114+deb12-amd64-unsigned
linux-image-6.12.115+deb12-rt-amd64-unsigned
";

    #[test]
    fn newest_is_by_number_and_of_its_series_and_flavour() {
        let found = |build| newest(NAMES, &build);
        assert_eq!(
            found(CLOUD_6_1),
            Some("linux-image-6.1.0-56-cloud-amd64-unsigned")
        );
        assert_eq!(
            found(CLOUD_6_12),
            Some("linux-image-6.12.115+deb12-cloud-amd64-unsigned")
        );
        assert_eq!(
            found(GENERAL_6_12),
            Some("linux-image-6.12.114+deb12-amd64-unsigned")
        );
        let none = Build {
            series: "7.2",
            ..CLOUD_6_12
        };
        assert_eq!(found(none), None);
    }

    #[test]
    fn changed_package_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join(PACKAGE), "kernel").expect("written");
        let right = digest(&folder.path().join(PACKAGE)).expect("a digest");
        fs::write(folder.path().join(DIGEST), right).expect("written");
        check_digest(folder.path()).expect("as it was");
        fs::write(folder.path().join(PACKAGE), "kernal").expect("written");
        assert!(check_digest(folder.path()).is_err());
    }
}
