//! The needs of the tasks from the system, which packages.toml lists.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Deserialize;

/// A task's list in packages.toml, which says what each is for.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "packages.toml has them")]
pub enum PackageList {
    Build,
    Examples,
    EndToEnd,
    Peers,
    Corpus,
    Reports,
    Fuzz,
    Guest,
    BpfCompiler,
    BpfLinker,
}

/// One package of Debian and Ubuntu.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PackageNeed {
    /// The package's name there.
    #[serde(skip)]
    pub package: String,
    /// The file that tells that it is there. Looking at files takes microseconds, asking the package manager takes
    /// longer than the rest of a task that has nothing to do.
    sign: PathBuf,
    /// The use that a task has for it.
    why: String,
    /// True when the task can go on without it.
    #[serde(default)]
    pub optional: bool,
}

/// Another package manager, whose user is told what to type.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manager {
    /// The program that it is known by.
    pub program: String,
    /// The command before the names.
    pub line: String,
}

/// The content of packages.toml.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PackageTable {
    need: BTreeMap<PackageList, BTreeMap<String, PackageNeed>>,
    /// The other managers, in the order in which they are looked for.
    pub manager: Vec<Manager>,
    /// By Debian's name, the names for those managers where they differ.
    pub elsewhere: BTreeMap<String, Vec<String>>,
}

impl PackageTable {
    /// Reads the table.
    pub fn read() -> Result<PackageTable> {
        let mut packages: PackageTable = toml::from_str(include_str!("packages.toml"))
            .context("xtask/src/setup/packages.toml")?;
        for (name, need) in packages.need.values_mut().flatten() {
            need.package.clone_from(name);
        }
        Ok(packages)
    }

    /// The needs of the lists, each package once.
    pub fn needs(&self, lists: &[PackageList]) -> Vec<&PackageNeed> {
        let mut needs: Vec<&PackageNeed> = Vec::new();
        for need in lists.iter().flat_map(|list| self.need[list].values()) {
            if !needs.iter().any(|known| known.package == need.package) {
                needs.push(need);
            }
        }
        needs
    }

    /// The needs of the lists that are not there.
    pub fn missing(&self, lists: &[PackageList]) -> Vec<&PackageNeed> {
        let mut missing = self.needs(lists);
        missing.retain(|need| !need.is_there());
        missing
    }
}

/// One line per need, with what needs it.
pub fn listed(needs: &[&PackageNeed]) -> String {
    needs.iter().fold(String::new(), |mut text, need| {
        let _ = writeln!(text, "  {:<15} {}", need.package, need.why);
        text
    })
}

const STATIC_SECCOMP: &str = "libseccomp.a";
const SHARED_SECCOMP: &str = "libseccomp.so";

impl PackageNeed {
    /// True when the build links it as the environment says.
    pub fn is_seccomp(&self) -> bool {
        self.sign == Path::new(STATIC_SECCOMP)
    }

    fn is_there(&self) -> bool {
        if !self.is_seccomp() {
            return is_there(&self.sign);
        }
        let variable = |name| std::env::var(name).ok();
        let file = Path::new(seccomp_file(variable("LIBSECCOMP_LINK_TYPE").as_deref()));
        match variable("LIBSECCOMP_LIB_PATH") {
            // The linker looks for a shared one in its own folders, too.
            Some(folder) if file == Path::new(STATIC_SECCOMP) => {
                Path::new(&folder).join(file).exists()
            }
            Some(folder) => Path::new(&folder).join(file).exists() || is_there(file),
            None => is_there(file),
        }
    }
}

/// The file that the build links, by the variable that it goes by: whoever has no static libseccomp asks
/// for the shared one.
fn seccomp_file(link_type: Option<&str>) -> &'static str {
    match link_type {
        Some("dylib") => SHARED_SECCOMP,
        _ => STATIC_SECCOMP,
    }
}

/// True when the file is at its path, or, by its name alone, in a folder where a C compiler looks.
fn is_there(sign: &Path) -> bool {
    let multiarch = format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH);
    let folders = [&multiarch, "/usr/lib64", "/usr/lib"];
    folders
        .iter()
        .any(|folder| Path::new(folder).join(sign).exists())
}

#[cfg(test)]
mod tests {
    use super::PackageList::*;
    use super::*;

    fn need(package: &str, sign: &str, why: &str) -> (String, PackageNeed) {
        let need = PackageNeed {
            package: package.to_owned(),
            sign: sign.into(),
            why: why.to_owned(),
            optional: false,
        };
        (package.to_owned(), need)
    }

    #[test]
    fn absent_packages_are_missing_once_and_present_ones_are_not() {
        let packages = PackageTable {
            need: BTreeMap::from([
                (
                    Build,
                    BTreeMap::from([need("the-kernel", "/proc/self/status", "is there")]),
                ),
                (
                    Fuzz,
                    BTreeMap::from([need("absent-package", "/absent/file", "a test")]),
                ),
                (
                    Guest,
                    BTreeMap::from([need("absent-package", "absent.o", "another")]),
                ),
            ]),
            manager: Vec::new(),
            elsewhere: BTreeMap::new(),
        };
        let missing = packages.missing(&[Build, Fuzz, Guest]);
        let names: Vec<_> = missing.iter().map(|need| &need.package).collect();
        assert_eq!(names, ["absent-package"]);
        assert!(listed(&missing).contains("absent-package  a test"));
    }

    #[test]
    fn every_need_says_why_and_every_name_elsewhere_is_of_one() {
        let packages = PackageTable::read().expect("a table");
        let needs: Vec<&PackageNeed> = packages.need.values().flat_map(BTreeMap::values).collect();
        assert!(needs.iter().all(|need| !need.why.is_empty()));
        for (name, names) in &packages.elsewhere {
            assert!(needs.iter().any(|need| need.package == *name), "{name}");
            assert_eq!(names.len(), packages.manager.len(), "{name}");
        }
    }

    #[test]
    fn a_shared_libseccomp_is_looked_for_where_the_build_links_one() {
        assert_eq!(seccomp_file(Some("dylib")), SHARED_SECCOMP);
        for static_one in [Some("static"), None] {
            assert_eq!(seccomp_file(static_one), STATIC_SECCOMP);
        }
    }

    #[test]
    fn readme_names_whatever_the_first_command_needs() {
        let readme = std::fs::read_to_string(crate::workspace::root().join("README.md"));
        let readme = readme.expect("a README");
        let packages = PackageTable::read().expect("a table");
        let needs = packages.needs(&[Build, Examples]);
        let names: std::collections::BTreeSet<&str> =
            needs.iter().map(|need| need.package.as_str()).collect();
        let names: Vec<&str> = names.into_iter().collect();
        let line = format!("`apt-get install git {}`", names.join(" "));
        assert!(readme.contains(&line), "README.md lacks {line}");
    }

    #[test]
    fn a_browser_is_no_reason_to_fail() {
        let packages = PackageTable::read().expect("a table");
        let optional = |list| packages.needs(&[list]).iter().any(|need| need.optional);
        assert!(optional(Reports) && !optional(Build) && !optional(Examples));
    }

    /// Of .cargo/config.toml, by which xtask itself is linked.
    #[test]
    fn without_a_compiler_the_linker_says_what_to_install() {
        let linker = concat!(env!("CARGO_MANIFEST_DIR"), "/../.cargo/cc");
        let asked = std::process::Command::new(linker)
            .env("PATH", "/nowhere")
            .output()
            .unwrap();
        assert_eq!(asked.status.code(), Some(1));
        let said = String::from_utf8(asked.stderr).unwrap();
        assert!(said.contains("apt-get install gcc libc6-dev"), "{said}");
    }
}
