//! One run of a program in a jail, and what everybody says of it.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use serde_json::Value;

use crate::encode::{Encoded, encode};
use crate::program::Program;
use crate::stops::{self, Stopped};
use crate::trace::{Calls, Tracer};

/// What is run beside every program, and who looks.
#[derive(Debug)]
pub struct Bench {
    turnkey: PathBuf,
    interpreter: PathBuf,
    /// Without a network, and with a loopback.
    profiles: [PathBuf; 2],
    tracer: Tracer,
    folder: tempfile::TempDir,
}

/// How a program is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// Rules act, instead of being told.
    pub enforces: bool,
    /// Each call is stopped, and looked at from outside.
    pub stops: bool,
    /// The jail has a loopback, instead of no network at all.
    pub has_loopback: bool,
}

/// What came of a run.
#[derive(Debug)]
pub struct Outcome {
    /// The way in which it was run.
    pub way: Way,
    /// What lay where in the program's memory.
    pub encoded: Encoded,
    /// The first task's id on the host.
    pub first: u32,
    /// By the trace.
    pub calls: Calls,
    /// By who stopped each call.
    pub stopped: Option<Stopped>,
    /// The lines of `--events`.
    pub events: Vec<Value>,
    /// The report.
    pub report: Value,
    /// turnkey's status.
    pub code: Option<i32>,
}

const INTERPRETER: &str = include_str!("interpreter.c");
/// The rules that are asked besides the shipped ones.
const PROFILE: &str = include_str!("profile.toml");
const LOOPBACK: &str = "\n[network]\nmode = \"loopback\"\n";
/// So long may a run take, all in all.
const PATIENCE: Duration = Duration::from_secs(90);
/// The name of the interpreter's file, and so of its tasks.
const NAME: &str = "interp";

impl Bench {
    /// Compiles the interpreter, and makes the tracing instance.
    pub fn new(turnkey: &Path) -> Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix("turnkey-differential-")
            .tempdir()?;
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755))?;
        let interpreter = folder.path().join(NAME);
        compile(&interpreter)?;
        let profiles = ["profile.toml", "loopback.toml"].map(|name| folder.path().join(name));
        fs::write(&profiles[0], PROFILE)?;
        fs::write(&profiles[1], [PROFILE, LOOPBACK].concat())?;
        Ok(Self {
            turnkey: turnkey.to_owned(),
            interpreter,
            profiles,
            tracer: Tracer::new()?,
            folder,
        })
    }

    /// Runs a program once.
    pub fn run(&self, program: &Program, way: Way) -> Result<Outcome> {
        let encoded = encode(program);
        let work = tempfile::tempdir_in(self.folder.path())?;
        let out = tempfile::tempdir_in(self.folder.path())?;
        furnish(work.path(), &encoded, &self.interpreter)?;
        let (events, report) = (out.path().join("events"), out.path().join("report"));
        let mode = if way.enforces { "enforce" } else { "observe" };
        let mut turnkey = Command::new(&self.turnkey)
            .args(["run", "--quiet", "--mode", mode])
            .args(["--cpu", "200%", "--wall", "30s", "--profile"])
            .arg(&self.profiles[usize::from(way.has_loopback)])
            .arg("--events")
            .arg(&events)
            .arg("--report")
            .arg(&report)
            .args(["--", "/workspace/interp", "0"])
            .current_dir(work.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .context("turnkey cannot be started")?;
        let watched = self.watch(&mut turnkey, way);
        let ended = end(turnkey)?;
        let (first, stopped) = watched.with_context(|| ended.1.clone())?;
        let calls = self.tracer.end()?;
        let lines = fs::read_to_string(&events).unwrap_or_default();
        let events = lines.lines().map(serde_json::from_str);
        Ok(Outcome {
            way,
            encoded,
            first,
            calls,
            stopped,
            events: events.collect::<Result<_, _>>()?,
            report: serde_json::from_slice(&fs::read(&report).unwrap_or_default())
                .unwrap_or(Value::Null),
            code: ended.0,
        })
    }

    /// Finds the first task, lets the observers follow it, and lets it go.
    fn watch(&self, turnkey: &mut Child, way: Way) -> Result<(u32, Option<Stopped>)> {
        let first = first_task(turnkey)?;
        self.tracer.follow(first)?;
        let mut go = turnkey.stdin.take().context("it has a standard input")?;
        if !way.stops {
            go.write_all(b"g")?;
            return Ok((first, None));
        }
        let stopped = stops::follow(first, || go.write_all(b"g").map_err(Into::into))?;
        Ok((first, Some(stopped)))
    }
}

/// Waits for turnkey, and ends it when it takes too long; its status, and what it said.
fn end(mut turnkey: Child) -> Result<(Option<i32>, String)> {
    let deadline = Instant::now() + PATIENCE;
    let status = loop {
        if let Some(status) = turnkey.try_wait()? {
            break status;
        }
        if Instant::now() > deadline {
            turnkey.kill()?;
            turnkey.wait()?;
            bail!("turnkey did not end");
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    let mut said = String::new();
    if let Some(mut stderr) = turnkey.stderr.take() {
        std::io::Read::read_to_string(&mut stderr, &mut said)?;
    }
    Ok((status.code(), said))
}

/// The interpreter below turnkey: a child of its child, by the name of its file.
fn first_task(turnkey: &mut Child) -> Result<u32> {
    let deadline = Instant::now() + Duration::from_secs(60);
    while Instant::now() < deadline {
        let inits = children(turnkey.id());
        let programs = inits.into_iter().flat_map(children);
        for program in programs {
            let comm = fs::read_to_string(format!("/proc/{program}/comm")).unwrap_or_default();
            if comm.trim_end() == NAME {
                return Ok(program);
            }
        }
        if turnkey.try_wait()?.is_some() {
            bail!("turnkey ended before the program began");
        }
        std::thread::sleep(Duration::from_micros(500));
    }
    turnkey.kill()?;
    bail!("the program did not begin")
}

/// The processes that a process has made and that live.
fn children(of: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{of}/task"));
    let tasks = tasks.into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    let list: String = lists.collect::<Vec<_>>().join(" ");
    list.split_whitespace()
        .filter_map(|id| id.parse().ok())
        .collect()
}

fn compile(to: &Path) -> Result<()> {
    let source = to.with_extension("c");
    fs::write(&source, INTERPRETER)?;
    let flags = [
        "-O1",
        "-static",
        "-nostdlib",
        "-no-pie",
        "-fno-stack-protector",
        "-fno-builtin",
        "-fcf-protection=none",
    ];
    let mut compiler = Command::new("cc");
    let compiled = compiler.args(flags).arg("-o").arg(to).arg(&source).status();
    if !compiled.context("cc cannot be started")?.success() {
        bail!("the interpreter does not compile");
    }
    fs::set_permissions(to, fs::Permissions::from_mode(0o755))?;
    Ok(())
}

/// Files that programs find, by their names below the workspace.
pub const FILES: [&str; 14] = [
    "a", "b", "ra", "rb", "d/x", "d/q", "d/y", "e/x", "q0", "s0", "k0", "kd/k", "vault/v", "script",
];
/// The files that rules forbid to read.
const SECRET: [&str; 4] = ["k0", "kd/k", "vault/v", "d/y"];
/// The content of the files that rules forbid.
pub const FORBIDDEN: &str = "forbidden\n";
/// Symlinks, and where they lead.
pub const SYMLINKS: [(&str, &str); 7] = [
    ("l", "a"),
    ("dl", "d"),
    ("ql", "q0"),
    ("kl", "k0"),
    ("tl", "k0"),
    ("loop", "loop"),
    ("none", "nothing"),
];

/// Makes the tree that programs find.
fn furnish(work: &Path, encoded: &Encoded, interpreter: &Path) -> Result<()> {
    fs::set_permissions(work, fs::Permissions::from_mode(0o755))?;
    for folder in ["d", "e", "kd", "vault"] {
        fs::create_dir(work.join(folder))?;
    }
    for file in FILES {
        let content = if SECRET.contains(&file) {
            FORBIDDEN
        } else {
            "content\n"
        };
        fs::write(work.join(file), content)?;
    }
    fs::write(work.join("script"), "#!/workspace/interp\n")?;
    fs::set_permissions(work.join("script"), fs::Permissions::from_mode(0o755))?;
    mkfifo(&work.join("kp"), Mode::from_bits_truncate(0o644))?;
    for (name, to) in SYMLINKS {
        symlink(to, work.join(name))?;
    }
    fs::hard_link(work.join("b"), work.join("h"))?;
    fs::copy(interpreter, work.join(NAME))?;
    fs::write(work.join(".program"), &encoded.bytes)?;
    Ok(())
}

impl Outcome {
    /// What was told, by the thread that did it; a repetition as often as it is counted.
    pub fn told(&self) -> BTreeMap<u32, Vec<&Value>> {
        let mut told: BTreeMap<u32, Vec<&Value>> = BTreeMap::new();
        for event in &self.events {
            let thread = event["process"]["host_tid"].as_u64();
            let Some(thread) = thread.and_then(|id| u32::try_from(id).ok()) else {
                continue;
            };
            let times = 1 + event["repeated"].as_u64().unwrap_or_default();
            for _ in 0..times {
                told.entry(thread).or_default().push(event);
            }
        }
        told
    }
}
