//! Others who jail programs, with the flags that come closest to ours: namespaces of every kind, no network, a
//! read-only system, no privileges, a filter of system calls where they have one.

use std::fs;
use std::os::unix::fs::{chown, symlink};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::stage::{BenchStage, printed};
use crate::command;

/// A program that is measured beside us.
pub struct BenchPeer {
    /// As it is called on the page.
    pub name: &'static str,
    /// The program that has to be there.
    program: &'static str,
    /// Asks it for its version.
    version: &'static str,
    /// The peer's arguments in front of the jailed program's, and whatever has to be there for them.
    flags: fn(&BenchStage) -> Result<Vec<String>>,
}

/// A peer that is installed and works for a user without privileges.
pub struct Present {
    /// As it is called on the page.
    pub name: &'static str,
    /// The first line of what it says of itself.
    pub version: String,
    flags: Vec<String>,
}

/// The one that the goals are about.
pub const BUBBLEWRAP: &str = "bubblewrap";
/// The one that is asked for its costs while running, as no system call of its programs is the host's own.
pub const GVISOR: &str = "gVisor";
/// Watches by stopping a program at each of its calls.
pub const STRACE: &str = "strace";
/// Watches from inside the kernel.
pub const BPFTRACE: &str = "bpftrace";
const RUNC: &str = "runc, rootless";

const PEERS: [BenchPeer; 8] = [
    BenchPeer {
        name: BUBBLEWRAP,
        program: "bwrap",
        version: "--version",
        flags: bubblewrap,
    },
    BenchPeer {
        name: "firejail",
        program: "firejail",
        version: "--version",
        flags: firejail,
    },
    BenchPeer {
        name: RUNC,
        program: "runc",
        version: "--version",
        flags: runc,
    },
    BenchPeer {
        name: "nsjail",
        program: "nsjail",
        version: "--version",
        flags: nsjail,
    },
    BenchPeer {
        name: GVISOR,
        program: "runsc",
        version: "--version",
        flags: gvisor,
    },
    BenchPeer {
        name: "hakoniwa",
        program: "hakoniwa",
        version: "--version",
        flags: hakoniwa,
    },
    BenchPeer {
        name: "sandlock",
        program: "sandlock",
        version: "--version",
        flags: sandlock,
    },
    BenchPeer {
        name: "isolate, box kept",
        program: "isolate",
        version: "--version",
        flags: isolate,
    },
];

/// Everybody who is there and works, and for everybody else why not.
pub fn present(stage: &BenchStage) -> Result<(Vec<Present>, Vec<String>)> {
    let (mut present, mut absent) = (Vec::new(), Vec::new());
    for peer in &PEERS {
        let Some(program) = command::find_program(peer.program) else {
            absent.push(format!("{}: not installed", peer.name));
            continue;
        };
        match peer.tried(stage, &program) {
            Ok(works) => present.push(works),
            Err(error) => absent.push(format!("{}: installed, but {error:#}", peer.name)),
        }
    }
    Ok((present, absent))
}

/// The watchers that are not there.
pub fn absent_watchers() -> Vec<String> {
    let names = [STRACE, BPFTRACE].into_iter();
    let absent = names.filter(|name| command::find_program(name).is_none());
    absent
        .map(|name| format!("{name}: not installed"))
        .collect()
}

impl BenchPeer {
    fn tried(&self, stage: &BenchStage, program: &Path) -> Result<Present> {
        let mut flags = vec![program.to_string_lossy().into_owned()];
        flags.extend((self.flags)(stage)?);
        let mut version = Command::new(program);
        let version = printed(version.arg(self.version)).unwrap_or_default();
        let present = Present {
            name: self.name,
            version: version.lines().next().unwrap_or("no version").to_owned(),
            flags,
        };
        printed(&mut present.command(stage, &["/bin/true"])?).context("/bin/true failed in it")?;
        Ok(present)
    }
}

impl Present {
    /// The words that stand before the program.
    pub fn shown_words(&self) -> Vec<String> {
        let mut words = self.flags.clone();
        if self.takes_a_bundle() {
            words.extend(RUNC_BUNDLE.map(String::from));
        }
        words
    }

    /// The command that runs that program in it, as the user without privileges.
    pub fn command(&self, stage: &BenchStage, program: &[&str]) -> Result<Command> {
        let mut words = self.flags.clone();
        if self.takes_a_bundle() {
            let [flag, _, name] = RUNC_BUNDLE.map(String::from);
            words.extend([flag, runc_bundle(stage, program)?, name]);
        } else {
            words.extend(program.iter().map(ToString::to_string));
        }
        Ok(stage.as_user(&words))
    }

    /// The command of a shell that runs whatever program stands behind it.
    pub fn for_any_program(&self, stage: &BenchStage) -> Result<String> {
        let mut words = self.flags.clone();
        if self.takes_a_bundle() {
            let bundle = runc_bundle(stage, &["any"])?;
            // The user's own, so that the script below may write it.
            let config = Path::new(&bundle).join("config.json");
            chown(config, Some(BenchStage::user()), Some(BenchStage::user()))?;
            let script = stage.path("run-bundle");
            stage.write(&script, RUN_BUNDLE)?;
            let script = script.to_string_lossy().into_owned();
            words.splice(0..0, ["python3".into(), script, bundle]);
        }
        let quoted = words
            .iter()
            .map(|word| format!("'{}'", word.replace('\'', "'\\''")));
        Ok(quoted.collect::<Vec<_>>().join(" "))
    }

    /// Whether it reads the program from a file.
    fn takes_a_bundle(&self) -> bool {
        self.name == RUNC
    }
}

/// The words after its flags. The bundle's `config.json` names the program, seven namespaces, no capabilities and
/// read-only directories of the system.
const RUNC_BUNDLE: [&str; 3] = ["--bundle", "BUNDLE", "turnkey-bench"];

/// Names the program in a bundle, and runs it. Arguments: the bundle, runc's words to `run`, the program's.
const RUN_BUNDLE: &str = r#"
import json, os, sys
bundle, rest = sys.argv[1], sys.argv[2:]
runc, program = rest[:rest.index("run") + 1], rest[rest.index("run") + 1:]
config = bundle + "/config.json"
settings = json.load(open(config))
settings["process"]["args"] = program
json.dump(settings, open(config, "w"))
os.execvp(runc[0], runc + ["--bundle", bundle, f"turnkey-audit-{os.getpid()}"])
"#;

/// Directories at the top that programs need: those of their own, and links into `/usr`.
fn system() -> Vec<(String, Option<String>)> {
    let names = ["/usr", "/bin", "/sbin", "/lib", "/lib64"];
    let there = names.into_iter().filter(|name| Path::new(name).exists());
    there
        .map(|name| {
            let link = fs::read_link(name).ok();
            (
                name.to_owned(),
                link.map(|link| link.to_string_lossy().into_owned()),
            )
        })
        .collect()
}

fn strings(words: &[&str]) -> Vec<String> {
    words.iter().map(ToString::to_string).collect()
}

fn bubblewrap(stage: &BenchStage) -> Result<Vec<String>> {
    let mut flags = strings(&[
        "--unshare-all",
        "--die-with-parent",
        "--new-session",
        "--clearenv",
        "--cap-drop",
        "ALL",
    ]);
    for (place, link) in system() {
        match link {
            Some(link) => flags.extend(["--symlink".into(), link, place]),
            None => flags.extend(["--ro-bind".into(), place.clone(), place]),
        }
    }
    let work = stage.workdir().to_string_lossy().into_owned();
    flags.extend(strings(&[
        "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp",
    ]));
    flags.extend(strings(&[
        "--bind",
        &work,
        "/workspace",
        "--chdir",
        "/workspace",
    ]));
    flags.extend(strings(&["--hostname", "jail", "--"]));
    Ok(flags)
}

fn firejail(_: &BenchStage) -> Result<Vec<String>> {
    Ok(strings(&[
        "--quiet",
        "--noprofile",
        "--private",
        "--private-dev",
        "--private-tmp",
        "--net=none",
        "--seccomp",
        "--caps.drop=all",
        "--nonewprivs",
        "--noroot",
        "--ipc-namespace",
        "--hostname=jail",
        "--rlimit-nproc=50",
        "--",
    ]))
}

fn runc(stage: &BenchStage) -> Result<Vec<String>> {
    let state = stage.home().join("runc-state");
    stage.make_folder(&state)?;
    let state = state.to_string_lossy().into_owned();
    Ok(strings(&["--root", &state, "--rootless=true", "run"]))
}

/// A bundle for that program, and where it is.
fn runc_bundle(stage: &BenchStage, program: &[&str]) -> Result<String> {
    let name = program
        .join(" ")
        .replace(|letter: char| !letter.is_ascii_alphanumeric(), "-");
    let bundle = stage
        .home()
        .join(format!("runc{}", &name[..name.len().min(60)]));
    let root = bundle.join("rootfs");
    for folder in ["", "usr", "proc", "dev", "tmp", "workspace"] {
        stage.make_folder(&root.join(folder))?;
    }
    stage.make_folder(&bundle)?;
    let mut mounts = vec![
        json!({"destination": "/proc", "type": "proc", "source": "proc"}),
        json!({"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755"]}),
        json!({"destination": "/tmp", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "nodev"]}),
        bind(&stage.workdir().to_string_lossy(), "/workspace", "rw"),
    ];
    for (place, link) in system() {
        match link {
            Some(link) => {
                let path = root.join(&place[1..]);
                if !path.is_symlink() {
                    symlink(link, path)?;
                }
            }
            None => {
                stage.make_folder(&root.join(&place[1..]))?;
                mounts.push(bind(&place, &place, "ro"));
            }
        }
    }
    let text = serde_json::to_string_pretty(&runc_config(program, &mounts))?;
    stage.write(&bundle.join("config.json"), &text)?;
    Ok(bundle.to_string_lossy().into_owned())
}

fn bind(source: &str, destination: &str, how: &str) -> Value {
    let options = ["rbind", "nosuid", "nodev", how];
    json!({"destination": destination, "type": "none", "source": source, "options": options})
}

/// As `runc spec --rootless` writes it, with a network and a cgroup namespace more and without capabilities.
fn runc_config(program: &[&str], mounts: &[Value]) -> Value {
    let kinds = ["pid", "ipc", "uts", "mount", "user", "network", "cgroup"];
    let namespaces: Vec<_> = kinds.iter().map(|kind| json!({"type": kind})).collect();
    let mapping = json!([{"containerID": 0, "hostID": BenchStage::user(), "size": 1}]);
    json!({
        "ociVersion": "1.0.2",
        "process": {
            "terminal": false,
            "user": {"uid": 0, "gid": 0},
            "args": program,
            "env": ["PATH=/usr/bin:/bin"],
            "cwd": "/workspace",
            "capabilities": {},
            "rlimits": [{"type": "RLIMIT_NOFILE", "hard": 256, "soft": 256}],
            "noNewPrivileges": true,
        },
        "root": {"path": "rootfs", "readonly": true},
        "hostname": "jail",
        "mounts": mounts,
        "linux": {
            "uidMappings": mapping.clone(),
            "gidMappings": mapping,
            "namespaces": namespaces,
            "maskedPaths": ["/proc/kcore", "/proc/keys", "/proc/timer_list"],
            "readonlyPaths": ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"],
        },
    })
}

fn nsjail(_: &BenchStage) -> Result<Vec<String>> {
    let mut flags = strings(&[
        "-Mo",
        "--really_quiet",
        "--hostname",
        "jail",
        "--rlimit_nproc",
        "50",
    ]);
    for (place, _) in system() {
        flags.extend(["-R".into(), place]);
    }
    flags.extend(strings(&["-T", "/tmp", "--"]));
    Ok(flags)
}

fn gvisor(_: &BenchStage) -> Result<Vec<String>> {
    Ok(strings(&[
        "--rootless",
        "--network=none",
        "--ignore-cgroups",
        "do",
        "--",
    ]))
}

fn hakoniwa(_: &BenchStage) -> Result<Vec<String>> {
    Ok(strings(&[
        "run",
        "--unshare-cgroup",
        "--unshare-ipc",
        "--unshare-network",
        "--unshare-uts",
        "--",
    ]))
}

fn sandlock(_: &BenchStage) -> Result<Vec<String>> {
    let mut flags = strings(&["run"]);
    for (place, _) in system() {
        flags.extend(["-r".into(), place]);
    }
    flags.extend(strings(&["-w", "/tmp", "--"]));
    Ok(flags)
}

/// The flags of isolate. Its box is made once: that is how judges of contests use it.
fn isolate(stage: &BenchStage) -> Result<Vec<String>> {
    let program = command::find_program("isolate").context("it is gone")?;
    printed(stage.as_user(&[program]).arg("--init"))?;
    Ok(strings(&[
        "--silent",
        "--processes=50",
        "--wall-time=30",
        "--run",
        "--",
    ]))
}
