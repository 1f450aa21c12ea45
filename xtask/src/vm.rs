//! `cargo xtask vm`: the end-to-end tests on other kernels, in a machine that QEMU emulates, with
//! control groups of version 2 and nothing else.

mod build;
mod cpio;
mod expected;
mod image;
mod kernel;
mod machine;
mod outcome;
mod watch;

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::Args;
use turnkey_guest::Message;

use crate::{setup, workspace};
use build::Programs;
use expected::{MACHINES, Machine};
use kernel::Kernel;
use outcome::Heard;

/// What `vm` is given.
#[derive(Args)]
pub struct Arguments {
    /// Only the machines whose name is this
    #[arg(long)]
    machine: Option<String>,
    /// Only the tests whose name contains one of these
    filters: Vec<String>,
}

/// Installs what is missing, builds, and runs the tests in the guest.
pub fn run(arguments: &Arguments) -> Result<()> {
    setup::ensure(&[setup::BUILD, setup::EXAMPLES])?;
    let turnkey = workspace::build_turnkey()?;
    let choice = Choice {
        machine: arguments.machine.as_deref(),
        filters: &arguments.filters,
    };
    run_machines(&turnkey, &choice)
}

/// Runs every test that is expected in the guest.
pub fn run_all(turnkey: &Path) -> Result<()> {
    let everything = Choice {
        machine: None,
        filters: &[],
    };
    run_machines(turnkey, &everything)
}

/// A part of the machines and tests, for the one who works on them.
struct Choice<'a> {
    machine: Option<&'a str>,
    filters: &'a [String],
}

/// A machine to boot and the tests it is to run.
struct Job<'a> {
    machine: &'a Machine,
    tests: Vec<String>,
    initramfs: PathBuf,
    console: PathBuf,
}

fn run_machines(turnkey: &Path, choice: &Choice) -> Result<()> {
    setup::ensure(&[setup::GUEST])?;
    let started = Instant::now();
    let folder = workspace::target_folder().join("vm");
    fs::create_dir_all(&folder)?;
    let programs = build::programs(turnkey)?;
    let disks = Disks::make(&folder, &programs)?;
    let kernels = kernels(choice)?;
    let jobs = jobs(choice, &programs, &kernels, &folder)?;
    let heard = run_jobs(jobs, &kernels, &disks)?;
    outcome::judge(&heard, started.elapsed())
}

/// The disks that all machines share and none changes.
struct Disks {
    root: PathBuf,
    swap: PathBuf,
}

impl Disks {
    fn make(folder: &Path, programs: &Programs) -> Result<Disks> {
        let disks = Disks {
            root: folder.join("root.ext4"),
            swap: folder.join("swap"),
        };
        image::make(&disks.root, &programs.in_the_guest())?;
        image::make_swap(&disks.swap)?;
        Ok(disks)
    }
}

impl Choice<'_> {
    fn has(&self, test: &str) -> bool {
        let named = |filter: &String| test.contains(filter.as_str());
        self.filters.is_empty() || self.filters.iter().any(named)
    }

    fn machines(&self) -> Vec<&'static Machine> {
        let is_chosen = |it: &&Machine| self.machine.is_none_or(|name| name == it.name);
        MACHINES.iter().filter(is_chosen).collect()
    }
}

fn kernels(choice: &Choice) -> Result<BTreeMap<&'static str, Kernel>> {
    let mut kernels = BTreeMap::new();
    for machine in choice.machines() {
        if !kernels.contains_key(machine.kernel) {
            kernels.insert(machine.kernel, kernel::obtain(machine.kernel)?);
        }
    }
    if kernels.is_empty() {
        bail!("no machine of that name: see xtask/src/vm/expected.rs");
    }
    Ok(kernels)
}

/// The machines with the most tests first, since they take longest.
fn jobs<'a>(
    choice: &Choice,
    programs: &Programs,
    kernels: &BTreeMap<&str, Kernel>,
    folder: &Path,
) -> Result<VecDeque<Job<'a>>> {
    let mut jobs = VecDeque::new();
    for machine in choice.machines() {
        let binary = machine.tests.binary();
        let mut tests = machine.tests.choose(&programs.tests_of(binary)?)?;
        tests.retain(|test| choice.has(test));
        let tests: Vec<_> = tests
            .iter()
            .map(|test| format!("{binary} {test}"))
            .collect();
        for tests in expected::deal(&tests, machine.copies) {
            let number = jobs.len();
            let initramfs = folder.join(format!("initramfs-{number}"));
            let kernel = kernels
                .get(machine.kernel)
                .context("a kernel for each machine")?;
            fs::write(
                &initramfs,
                build::initramfs(&programs.init, kernel, &tests)?,
            )?;
            let console = folder.join(format!("console-{number}.log"));
            jobs.push_back(Job {
                machine,
                tests,
                initramfs,
                console,
            });
        }
    }
    if jobs.is_empty() {
        bail!("no test that runs in the guest has such a name");
    }
    Ok(jobs)
}

/// As many machines at a time as the host has processors: each keeps one of them busy.
fn run_jobs(
    jobs: VecDeque<Job>,
    kernels: &BTreeMap<&str, Kernel>,
    disks: &Disks,
) -> Result<Vec<Heard>> {
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let waiting = Mutex::new(jobs);
    let next = || waiting.lock().ok().and_then(|mut jobs| jobs.pop_front());
    let work = || -> Result<Vec<Heard>> {
        std::iter::from_fn(next)
            .map(|job| run_job(job, kernels, disks))
            .collect()
    };
    std::thread::scope(|scope| {
        let started: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        let mut heard = Vec::new();
        for worker in started {
            match worker.join() {
                Ok(part) => heard.extend(part?),
                Err(_) => bail!("a guest could not be listened to"),
            }
        }
        Ok(heard)
    })
}

fn run_job(job: Job, kernels: &BTreeMap<&str, Kernel>, disks: &Disks) -> Result<Heard> {
    let kernel = kernels
        .get(job.machine.kernel)
        .context("a kernel for each machine")?;
    let parts = machine::Parts {
        kernel: &kernel.image,
        initramfs: &job.initramfs,
        disk: &disks.root,
        swap: &disks.swap,
        command_line: job.machine.command_line,
        console: &job.console,
    };
    let name = job.machine.name;
    let started = Instant::now();
    let tell = |message: &Message| outcome::tell(name, started.elapsed(), message);
    let (watch, end) = machine::run(&parts, &tell)?;
    Ok(Heard {
        name,
        expected: job.tests,
        watch,
        end,
        console: job.console,
    })
}
