//! The kernels: Debian's packages, downloaded once into a folder outside of the tree, unpacked and
//! never installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};

use xtask::command;

/// A kernel as Debian builds it.
pub struct Build {
    /// As the cache names it, and the table of machines.
    pub name: &'static str,
    /// The kernel's series, as the packages name it; empty for the newest there is.
    series: &'static str,
    /// The suite that has it, and how it is packed.
    suite: &'static Suite,
    /// The purpose that it is built for, as the packages name it.
    flavour: &'static str,
    /// The modules of its machines beside those of every machine.
    modules: &'static [&'static str],
}

/// A part of Debian's archive.
struct Suite {
    /// As Debian names it.
    name: &'static str,
    /// The sources where apt looks for the kernels, and nowhere else: the host's own stay as they are, and
    /// need not be Debian's.
    sources: &'static str,
    /// The packages of one kernel: what their names begin and end with, around version and flavour.
    /// The first has the image.
    packages: &'static [(&'static str, &'static str)],
}

/// The stable release but one. Its security updates carry both series.
const BOOKWORM: Suite = Suite {
    name: "bookworm-security",
    sources: "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] \
        http://deb.debian.org/debian-security bookworm-security main\n",
    packages: &[("linux-image-", "-unsigned")],
};

/// The suite that is to become Debian: its kernel changes from week to week.
const SID: Suite = Suite {
    name: "sid",
    sources: "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] \
        http://deb.debian.org/debian sid main\n",
    packages: &[
        ("linux-binary-unsigned-", ""),
        ("linux-modules-", ""),
        ("linux-base-", ""),
    ],
};

/// For machines in a cloud: small, and without what no such machine has.
const CLOUD: &str = "cloud-amd64";

/// Linux 6.1 for machines in a cloud.
pub const CLOUD_6_1: Build = Build {
    name: "6.1",
    series: "6.1",
    suite: &BOOKWORM,
    flavour: CLOUD,
    modules: &[],
};

/// Linux 6.12 for machines in a cloud.
pub const CLOUD_6_12: Build = Build {
    name: "6.12",
    series: "6.12",
    suite: &BOOKWORM,
    flavour: CLOUD,
    modules: &[],
};

/// Linux 6.12 for any machine: it has x32, and files of /proc that the other one lacks.
pub const GENERAL_6_12: Build = Build {
    name: "6.12-general",
    series: "6.12",
    suite: &BOOKWORM,
    flavour: "amd64",
    modules: &["sound/soundcore", "sound/core/snd"],
};

/// The newest that Debian has.
pub const NEWEST: Build = Build {
    name: "newest",
    series: "",
    suite: &SID,
    flavour: CLOUD,
    modules: &[],
};

/// An unpacked kernel.
pub struct Kernel {
    /// The image that the machine boots.
    pub image: PathBuf,
    /// The modules it needs, in the order in which they are loaded.
    pub modules: Vec<PathBuf>,
}

/// The modules that the guest needs and Debian does not build in, at least in some series. The order is the one
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

/// Of these, what later series have in the kernel itself, under other names.
const PARTS_ELSEWHERE: &[&str] = &["crypto/crc32c_generic", "lib/crc16"];

/// A kernel, from the cache or the network.
pub fn obtain(build: &Build) -> Result<Kernel> {
    let folder = cache_folder()?.join(build.name);
    if !folder.join(UNPACKED).exists() {
        download(build, &folder).with_context(|| format!("cannot get a kernel {}", build.name))?;
    }
    check_digests(&folder)?;
    open(&folder.join(UNPACKED), build.modules)
}

const UNPACKED: &str = "unpacked";

/// The packages as they were downloaded.
const PACKAGES: &str = "packages";

/// The digests that they had when apt had checked them, by file name.
const DIGESTS: &str = "packages.sha256";

/// The user's cache, outside of any checkout: `cargo clean` and a fresh clone cost no download.
fn cache_folder() -> Result<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(std::env::home_dir()?.join(".cache")))
        .context("neither XDG_CACHE_HOME nor a home folder is set")?;
    Ok(cache.join("turnkey/kernels"))
}

/// Into a folder of its own first: a download that breaks off leaves nothing that looks whole.
fn download(build: &Build, folder: &Path) -> Result<()> {
    let parent = folder.parent().context("a folder in the cache")?;
    fs::create_dir_all(parent)?;
    let work = tempfile::Builder::new().prefix("new-").tempdir_in(parent)?;
    let apt = Apt::new(work.path(), build.suite)?;
    command::check(apt.command("apt-get").args(["--quiet", "update"]))?;
    let made = work.path().join("made");
    let packages = made.join(PACKAGES);
    fs::create_dir_all(&packages)?;
    for name in package_names(&apt, build)? {
        let mut fetch = apt.command("apt-get");
        fetch.args(["--quiet", "download", &name]);
        command::check(fetch.current_dir(&packages))?;
    }
    fs::write(made.join(DIGESTS), digests(&packages)?)?;
    for package in files(&packages)? {
        let mut unpack = Command::new("dpkg");
        command::check(unpack.arg("-x").arg(package).arg(made.join(UNPACKED)))?;
    }
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
    fn new(work: &Path, suite: &Suite) -> Result<Apt> {
        let folder = work.join("apt");
        for name in ["lists/partial", "cache/archives/partial"] {
            fs::create_dir_all(folder.join(name))?;
        }
        fs::write(folder.join("sources.list"), suite.sources)?;
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

/// The packages of the newest kernel of a series and flavour.
fn package_names(apt: &Apt, build: &Build) -> Result<Vec<String>> {
    let Some(((before, after), _)) = build.suite.packages.split_first() else {
        bail!("a kernel without packages");
    };
    let names = command::output(apt.command("apt-cache").args(["pkgnames", before]))?;
    let version = newest(&names, build, (before, after)).with_context(|| {
        let Build {
            series, flavour, ..
        } = build;
        format!(
            "no {before}{series}*-{flavour}{after} in {}",
            build.suite.name
        )
    })?;
    let packages = build.suite.packages.iter();
    let flavour = build.flavour;
    Ok(packages
        .map(|(before, after)| format!("{before}{version}-{flavour}{after}"))
        .collect())
}

/// The newest version of the series and flavour among apt's package names, which begin and end so.
fn newest<'a>(names: &'a str, build: &Build, (before, after): (&str, &str)) -> Option<&'a str> {
    let start = match build.series {
        "" => String::new(),
        series => format!("{series}."),
    };
    let end = format!("-{}{after}", build.flavour);
    let version = |name: &'a str| {
        let version = name.strip_prefix(before)?.strip_suffix(&end)?;
        // What a flavour has in front of another one's name is not part of a version.
        let is_such = version.starts_with(&start)
            && version.starts_with(|it: char| it.is_ascii_digit())
            && !version.ends_with(|it: char| it.is_ascii_alphabetic());
        is_such.then_some(version)
    };
    names
        .lines()
        .filter_map(version)
        .max_by_key(|version| numbers(version))
}

/// The numbers in a name: they order its versions.
fn numbers(name: &str) -> Vec<u64> {
    let parts = name.split(|letter: char| !letter.is_ascii_digit());
    parts.filter_map(|part| part.parse().ok()).collect()
}

/// The files of a folder, in the order of their names.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder)?.flatten();
    let mut files: Vec<_> = entries.map(|entry| entry.path()).collect();
    files.sort();
    Ok(files)
}

/// The digests of the files of a folder, one to a line.
fn digests(folder: &Path) -> Result<String> {
    let mut lines = String::new();
    for file in files(folder)? {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        lines += &format!("{} {name}\n", digest(&file)?);
    }
    Ok(lines)
}

fn digest(file: &Path) -> Result<String> {
    let bytes = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    let digest = Sha256::digest(bytes);
    Ok(digest.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Compares the digests of what was downloaded with those of what is there.
fn check_digests(folder: &Path) -> Result<()> {
    let recorded = fs::read_to_string(folder.join(DIGESTS))
        .with_context(|| format!("{} is not whole: remove it", folder.display()))?;
    if digests(&folder.join(PACKAGES))? != recorded {
        bail!(
            "{PACKAGES} are not what was downloaded: remove {}",
            folder.display()
        );
    }
    Ok(())
}

fn open(unpacked: &Path, more: &[&str]) -> Result<Kernel> {
    let image = image(unpacked).context("the packages have no kernel")?;
    let trees = ["lib/modules", "usr/lib/modules"].map(|tree| unpacked.join(tree));
    let trees = trees
        .iter()
        .flat_map(|tree| files(tree).unwrap_or_default());
    let tree = trees
        .into_iter()
        .next()
        .context("the packages have no modules")?;
    let builtin = fs::read_to_string(tree.join("modules.builtin"))
        .context("the packages do not tell what is built into the kernel")?;
    let mut modules = Vec::new();
    for module in MODULES.iter().chain(more) {
        if builtin.contains(&format!("kernel/{module}.ko\n")) {
            continue;
        }
        match find_module(&tree, module) {
            Err(_) if PARTS_ELSEWHERE.contains(module) => {}
            found => modules.push(found?),
        }
    }
    Ok(Kernel { image, modules })
}

/// In /boot, or beside the modules.
fn image(unpacked: &Path) -> Option<PathBuf> {
    let mut folders = files(&unpacked.join("usr/lib/modules")).unwrap_or_default();
    folders.push(unpacked.join("boot"));
    let all = folders
        .iter()
        .flat_map(|folder| files(folder).unwrap_or_default());
    let is_image = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default();
        name.to_string_lossy().starts_with("vmlinuz")
    };
    all.into_iter().find(is_image)
}

/// Some series are compressed.
fn find_module(tree: &Path, module: &str) -> Result<PathBuf> {
    let candidates =
        ["ko", "ko.xz", "ko.zst"].map(|end| tree.join(format!("kernel/{module}.{end}")));
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
        let found = |build| newest(NAMES, &build, BOOKWORM.packages[0]);
        assert_eq!(found(CLOUD_6_1), Some("6.1.0-56"));
        assert_eq!(found(CLOUD_6_12), Some("6.12.115+deb12"));
        assert_eq!(found(GENERAL_6_12), Some("6.12.114+deb12"));
        let none = Build {
            series: "7.2",
            ..CLOUD_6_12
        };
        assert_eq!(found(none), None);
    }

    #[test]
    fn newest_of_all_is_of_any_series() {
        let names = "linux-binary-unsigned-7.2.13+deb14-cloud-amd64
linux-binary-unsigned-7.10.1+deb14-cloud-amd64
linux-binary-unsigned-7.10.1+deb14-rt-amd64
linux-binary-unsigned-amd64
";
        let found = newest(names, &NEWEST, SID.packages[0]);
        assert_eq!(found, Some("7.10.1+deb14"));
    }

    #[test]
    fn changed_package_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let packages = folder.path().join(PACKAGES);
        fs::create_dir(&packages).expect("made");
        fs::write(packages.join("a.deb"), "kernel").expect("written");
        let right = digests(&packages).expect("digests");
        fs::write(folder.path().join(DIGESTS), right).expect("written");
        check_digests(folder.path()).expect("as it was");
        fs::write(packages.join("b.deb"), "more").expect("written");
        assert!(check_digests(folder.path()).is_err());
        fs::remove_file(packages.join("b.deb")).expect("removed");
        fs::write(packages.join("a.deb"), "kernal").expect("written");
        assert!(check_digests(folder.path()).is_err());
    }
}
