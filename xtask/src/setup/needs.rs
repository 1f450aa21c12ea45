//! The needs of the tasks from the system: a package, how to see that it is there, and why.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// One package of Debian and Ubuntu.
#[derive(Debug)]
pub struct Need {
    /// The package's name there.
    pub package: &'static str,
    /// The sign that the package, or its like on another distribution, is there.
    probe: Probe,
    /// The use that a task has for it.
    why: &'static str,
}

/// The sign that a package is there. Looking at files takes microseconds, asking the package
/// manager takes longer than the rest of a task that has nothing to do.
#[derive(Debug)]
enum Probe {
    /// A file at this path: the jail shows programs of the system only, so one that lies elsewhere
    /// in the search path does not count.
    File(&'static str),
    /// libseccomp, linked as the environment says, where `.cargo/config.toml` tells the build to look.
    Seccomp,
    /// A file of this name in one of the folders where a C compiler finds its libraries.
    StartFile(&'static str),
}

/// For building turnkey.
pub const BUILD: &[Need] = &[
    Need {
        package: "gcc",
        probe: Probe::File("/usr/bin/cc"),
        why: "links every Rust program",
    },
    Need {
        package: "libc6-dev",
        probe: Probe::StartFile("crt1.o"),
        why: "links every Rust program",
    },
    Need {
        package: "libseccomp-dev",
        probe: Probe::Seccomp,
        why: "turnkey links it in",
    },
    Need {
        package: "pkg-config",
        probe: Probe::File("/usr/bin/pkg-config"),
        why: "tells the build which libseccomp it is",
    },
];

/// For the examples, which run inside the jail, and no more than that: whoever may install nothing has to ask somebody for
/// each line. `bash`, `coreutils` and `util-linux` are part of every Debian and Ubuntu.
pub const EXAMPLES: &[Need] = &[
    Need {
        package: "gcc",
        probe: Probe::File("/usr/bin/gcc"),
        why: "C examples are compiled, one of them in the jail",
    },
    Need {
        package: "python3",
        probe: Probe::File("/usr/bin/python3"),
        why: "most examples are Python; the jail shows the system's own",
    },
];

/// For the end-to-end tests: the programs that people run in jails and under the shipped profiles, and who may.
pub const END_TO_END: &[Need] = &[
    Need {
        package: "curl",
        probe: Probe::File("/usr/bin/curl"),
        why: "sends alerts to receivers behind TLS",
    },
    Need {
        package: "default-jdk-headless",
        probe: Probe::File("/usr/bin/javac"),
        why: "compiles and runs under the profile java",
    },
    Need {
        package: "git",
        probe: Probe::File("/usr/bin/git"),
        why: "works on the workspace under the profile shell",
    },
    Need {
        package: "golang-go",
        probe: Probe::File("/usr/bin/go"),
        why: "compiles and runs under the profile go",
    },
    Need {
        package: "less",
        probe: Probe::File("/usr/bin/less"),
        why: "pages in a terminal of the jail's own",
    },
    Need {
        package: "make",
        probe: Probe::File("/usr/bin/make"),
        why: "drives the compiler under the profile compile",
    },
    Need {
        package: "nodejs",
        probe: Probe::File("/usr/bin/node"),
        why: "runs under the profile node",
    },
    Need {
        package: "npm",
        probe: Probe::File("/usr/bin/npm"),
        why: "runs scripts under the profile node",
    },
    Need {
        package: "openssl",
        probe: Probe::File("/usr/bin/openssl"),
        why: "makes the certificates of such receivers",
    },
    Need {
        package: "procps",
        probe: Probe::File("/usr/bin/top"),
        why: "draws in a terminal of the jail's own",
    },
    Need {
        package: "python3-matplotlib",
        probe: Probe::File("/usr/lib/python3/dist-packages/matplotlib"),
        why: "draws a plot under the profile python",
    },
    Need {
        package: "python3-numpy",
        probe: Probe::File("/usr/lib/python3/dist-packages/numpy"),
        why: "computes under the profile python",
    },
    Need {
        package: "python3-pandas",
        probe: Probe::File("/usr/lib/python3/dist-packages/pandas"),
        why: "reads a table under the profile python",
    },
    Need {
        package: "python3-venv",
        probe: Probe::File("/usr/share/python-wheels"),
        why: "makes environments with pip for the profile python",
    },
    Need {
        package: "runc",
        probe: Probe::File("/usr/sbin/runc"),
        why: "makes a container that turnkey is attached to",
    },
    Need {
        package: "strace",
        probe: Probe::File("/usr/bin/strace"),
        why: "holds a container's runtime up, as a busy host does",
    },
    Need {
        package: "uidmap",
        probe: Probe::File("/usr/bin/newuidmap"),
        why: "gives an unprivileged caller of the tests a range of ids",
    },
    Need {
        package: "vim-tiny",
        probe: Probe::File("/usr/bin/vi"),
        why: "edits in a terminal of the jail's own",
    },
];

/// For `cargo lab bench` alone: whom turnkey is measured beside.
pub const PEERS: &[Need] = &[
    Need {
        package: "bpftrace",
        probe: Probe::File("/usr/bin/bpftrace"),
        why: "watches from inside the kernel, too, and is the witness of a kill",
    },
    Need {
        package: "bubblewrap",
        probe: Probe::File("/usr/bin/bwrap"),
        why: "jails",
    },
    Need {
        package: "firejail",
        probe: Probe::File("/usr/bin/firejail"),
        why: "jails",
    },
    Need {
        package: "runc",
        probe: Probe::File("/usr/sbin/runc"),
        why: "jails",
    },
    Need {
        package: "strace",
        probe: Probe::File("/usr/bin/strace"),
        why: "watches",
    },
];

/// For `cargo lab corpus`: what its programs use, and whom they talk to.
pub const CORPUS: &[Need] = &[
    Need {
        package: "bc",
        probe: Probe::File("/usr/bin/bc"),
        why: "programs of the corpus compute with it",
    },
    Need {
        package: "ca-certificates",
        probe: Probe::File("/etc/ssl/certs/ca-certificates.crt"),
        why: "where programs of the corpus find whom to trust",
    },
    Need {
        package: "curl",
        probe: Probe::File("/usr/bin/curl"),
        why: "programs of the corpus post and fetch with it",
    },
    Need {
        package: "iproute2",
        probe: Probe::File("/usr/bin/ip"),
        why: "brings up a loopback device for them",
    },
    Need {
        package: "netcat-openbsd",
        probe: Probe::File("/usr/bin/nc"),
        why: "programs of the corpus send with it",
    },
    Need {
        package: "openssl",
        probe: Probe::File("/usr/bin/openssl"),
        why: "makes the certificate of the page that they fetch",
    },
    Need {
        package: "python3-numpy",
        probe: Probe::File("/usr/lib/python3/dist-packages/numpy"),
        why: "programs of the corpus fill memory with it",
    },
    Need {
        package: "python3-pandas",
        probe: Probe::File("/usr/lib/python3/dist-packages/pandas"),
        why: "programs of the corpus fill memory with it",
    },
    Need {
        package: "python3-psutil",
        probe: Probe::File("/usr/lib/python3/dist-packages/psutil"),
        why: "programs of the corpus look at the machine with it",
    },
    Need {
        package: "python3-requests",
        probe: Probe::File("/usr/lib/python3/dist-packages/requests"),
        why: "programs of the corpus fetch with it",
    },
    Need {
        package: "python3-watchdog",
        probe: Probe::File("/usr/lib/python3/dist-packages/watchdog"),
        why: "programs of the corpus watch directories with it",
    },
];

/// For looking at what `turnkey report` writes.
pub const REPORTS: &[Need] = &[
    Need {
        package: "chromium",
        probe: Probe::File("/usr/bin/chromium"),
        why: "shows the page of a report, in tests and for docs/report.png",
    },
    Need {
        package: "fonts-dejavu-core",
        probe: Probe::File("/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf"),
        why: "makes that page look the same everywhere",
    },
    Need {
        package: "libxml2-utils",
        probe: Probe::File("/usr/bin/xmllint"),
        why: "holds XML against its schema",
    },
];

/// For `cargo xtask fuzz`.
pub const FUZZ: &[Need] = &[Need {
    package: "g++",
    probe: Probe::File("/usr/bin/c++"),
    why: "the fuzzer's engine is C++",
}];

/// For the guest that `cargo xtask vm` boots, whose files are those of the host's packages.
pub const GUEST: &[Need] = &[
    Need {
        package: "dbus",
        probe: Probe::File("/lib/systemd/system/dbus.service"),
        why: "carries what turnkey asks of systemd in the guest",
    },
    Need {
        package: "debian-archive-keyring",
        probe: Probe::File("/usr/share/keyrings/debian-archive-keyring.gpg"),
        why: "tells Debian's kernels from forged ones",
    },
    Need {
        package: "e2fsprogs",
        probe: Probe::File("/usr/sbin/mke2fs"),
        why: "makes the guest's file system",
    },
    Need {
        package: "iproute2",
        probe: Probe::File("/usr/bin/ip"),
        why: "brings up the guest's loopback device",
    },
    Need {
        package: "procps",
        probe: Probe::File("/usr/bin/ps"),
        why: "tests look at the guest's processes",
    },
    Need {
        package: "qemu-system-x86",
        probe: Probe::File("/usr/bin/qemu-system-x86_64"),
        why: "is the guest's machine",
    },
    Need {
        package: "systemd",
        probe: Probe::File("/lib/systemd/systemd"),
        why: "runs part of the guest, for what turnkey asks of it",
    },
];

/// For compiling the BPF programs with Debian's compiler.
pub const BPF_COMPILER: &[Need] = &[
    Need {
        package: "rust-web-src",
        probe: Probe::File("/usr/lib/rustlib/src/rust/library/core/src/lib.rs"),
        why: "the BPF target has no ready-made `core`",
    },
    Need {
        package: "rustc-web",
        probe: Probe::File("/usr/bin/rustc"),
        why: "compiles the BPF programs together with its own sources",
    },
];

/// For building the linker of the BPF programs.
pub const BPF_LINKER: &[Need] = &[Need {
    package: "llvm-22-dev",
    probe: Probe::File("/usr/lib/llvm-22/bin/llvm-config"),
    why: "bpf-linker is built against it",
}];

/// Every list, for tests that hold for each.
#[cfg(test)]
pub const ALL: [&[Need]; 10] = [
    BUILD,
    CORPUS,
    END_TO_END,
    EXAMPLES,
    FUZZ,
    GUEST,
    PEERS,
    REPORTS,
    BPF_COMPILER,
    BPF_LINKER,
];

/// Packages that not every relative of Debian has: Ubuntu's chromium is a snap. What wants one says so itself.
const OPTIONAL: [&str; 1] = ["chromium"];

/// The needs in the lists that are not there, each package once.
pub fn missing(lists: &[&'static [Need]]) -> Vec<&'static Need> {
    let mut missing: Vec<&Need> = Vec::new();
    for need in lists.iter().copied().flatten() {
        let known = missing.iter().any(|other| other.package == need.package);
        if !known && !need.is_there() {
            missing.push(need);
        }
    }
    missing
}

/// One line per need, with what needs it.
pub fn listed(needs: &[&Need]) -> String {
    needs.iter().fold(String::new(), |mut text, need| {
        let _ = writeln!(text, "  {:<15} {}", need.package, need.why);
        text
    })
}

impl Need {
    /// True when the build links it as the environment says.
    pub fn is_seccomp(&self) -> bool {
        matches!(self.probe, Probe::Seccomp)
    }

    /// True when the task can go on without it.
    pub fn is_optional(&self) -> bool {
        OPTIONAL.contains(&self.package)
    }

    fn is_there(&self) -> bool {
        match self.probe {
            Probe::File(path) => Path::new(path).exists(),
            Probe::Seccomp => {
                let name = seccomp_file(std::env::var("LIBSECCOMP_LINK_TYPE").ok().as_deref());
                // The linker looks for a shared one in its own folders, too.
                let is_shared = name == SHARED_SECCOMP;
                seccomp_folder().join(name).exists() || is_shared && is_library(name)
            }
            Probe::StartFile(name) => is_library(name),
        }
    }
}

const SHARED_SECCOMP: &str = "libseccomp.so";

/// The file that the build links, by the variable that it goes by: whoever has no static libseccomp asks
/// for the shared one.
fn seccomp_file(link_type: Option<&str>) -> &'static str {
    match link_type {
        Some("dylib") => SHARED_SECCOMP,
        _ => "libseccomp.a",
    }
}

fn is_library(name: &str) -> bool {
    c_library_folders()
        .iter()
        .any(|folder| folder.join(name).exists())
}

/// The folder where the build looks for libseccomp: cargo hands us the variable that it hands the build.
fn seccomp_folder() -> PathBuf {
    std::env::var_os("LIBSECCOMP_LIB_PATH").map_or_else(multiarch_folder, PathBuf::from)
}

/// The library folder of Debian and Ubuntu for this processor.
fn multiarch_folder() -> PathBuf {
    PathBuf::from(format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH))
}

fn c_library_folders() -> [PathBuf; 3] {
    [
        multiarch_folder(),
        PathBuf::from("/usr/lib64"),
        PathBuf::from("/usr/lib"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABSENT: &[Need] = &[
        Need {
            package: "absent-package",
            probe: Probe::File("/absent/file"),
            why: "a test",
        },
        Need {
            package: "absent-package",
            probe: Probe::StartFile("absent-start-file.o"),
            why: "another test",
        },
    ];
    const PRESENT: &[Need] = &[Need {
        package: "the-kernel",
        probe: Probe::File("/proc/self/status"),
        why: "always there",
    }];

    #[test]
    fn absent_packages_are_missing_once_and_present_ones_are_not() {
        let missing = missing(&[PRESENT, ABSENT]);
        let names: Vec<_> = missing.iter().map(|need| need.package).collect();
        assert_eq!(names, ["absent-package"]);
        assert!(listed(&missing).contains("absent-package  a test"));
    }

    #[test]
    fn every_list_is_sorted_and_says_why() {
        for list in ALL {
            assert!(list.is_sorted_by_key(|need| need.package), "{list:?}");
            assert!(list.iter().all(|need| !need.why.is_empty()));
        }
    }

    #[test]
    fn a_shared_libseccomp_is_looked_for_where_the_build_links_one() {
        assert_eq!(seccomp_file(Some("dylib")), "libseccomp.so");
        for static_one in [Some("static"), None] {
            assert_eq!(seccomp_file(static_one), "libseccomp.a");
        }
    }

    #[test]
    fn readme_names_whatever_the_first_command_needs() {
        let readme = std::fs::read_to_string(crate::workspace::root().join("README.md"));
        let readme = readme.expect("a README");
        let needed = BUILD.iter().chain(EXAMPLES).map(|need| need.package);
        let needed: std::collections::BTreeSet<&str> = needed.collect();
        let needed: Vec<&str> = needed.into_iter().collect();
        let line = format!("`apt-get install git {}`", needed.join(" "));
        assert!(readme.contains(&line), "README.md lacks {line}");
    }

    #[test]
    fn a_browser_is_no_reason_to_fail() {
        let optional = |list: &[Need]| list.iter().any(Need::is_optional);
        assert!(optional(REPORTS) && !optional(BUILD) && !optional(EXAMPLES));
    }
}
