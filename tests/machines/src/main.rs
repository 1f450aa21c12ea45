//! The program behind `cargo xtask vm`: the end-to-end tests on other kernels, in a machine that QEMU emulates, with
//! control groups of version 2 and nothing else.

mod build;
mod contents;
mod cpio;
mod host;
mod image;
mod kernel;
mod machine;
mod machines;
mod outcome;
mod support;
mod watch;

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use clap::Parser;
use turnkey_guest::Message;

use build::Programs;
use contents::Disk;
use kernel::Kernel;
use machines::{MACHINES, Machine};
use outcome::Heard;
use support::{HOST, Ran, Record};
use xtask::expectations::Fate;
use xtask::setup::{self, PackageList};
use xtask::workspace;
use xtask::workspace::Built;

/// The arguments of `cargo xtask vm`.
#[derive(Parser)]
#[command(
    bin_name = "cargo xtask vm",
    about = "The end-to-end tests on other kernels, in machines that QEMU emulates"
)]
struct Arguments {
    /// Only the machine of this name; may be given more than once
    #[arg(long = "machine")]
    machines: Vec<String>,
    /// Write what the machines came to, this host included, into docs/kernel-support.md
    #[arg(long, conflicts_with = "filters")]
    write_table: bool,
    /// With the command as the tests of this host have it, which is built in less time and runs slower
    #[arg(long, conflicts_with = "write_table")]
    quick: bool,
    /// In one machine with BPF LSM, the tests that only it can run; their number goes to standard output
    #[arg(long, hide = true, exclusive = true)]
    by_day: bool,
    /// Only the tests whose name contains one of these
    filters: Vec<String>,
}

fn main() -> ExitCode {
    match perform(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn perform(arguments: &Arguments) -> Result<()> {
    if !arguments.by_day {
        return run(arguments);
    }
    let passed = run_by_day(&workspace::build_tests_of_guests()?)?;
    Ok(std::io::stdout().write_all(format!("{passed}\n").as_bytes())?)
}

/// Installs what is missing, builds, and runs the tests in the guest.
fn run(arguments: &Arguments) -> Result<()> {
    setup::ensure(&[
        PackageList::Build,
        PackageList::Examples,
        PackageList::EndToEnd,
        PackageList::Reports,
    ])?;
    let choice = Choice {
        machines: &arguments.machines,
        filters: &arguments.filters,
    };
    let mut built = workspace::build_tests_of_guests()?;
    if !arguments.quick {
        // As users have it.
        built.turnkey = workspace::build_turnkey()?;
    }
    if arguments.write_table {
        return write_table(&built, &choice);
    }
    run_machines(&built, &choice)?.1
}

/// Runs the machines, and this host like one of them, and records what they came to.
fn write_table(built: &Built, choice: &Choice) -> Result<()> {
    let root = workspace::root();
    let mut record = Record::read(&root)?;
    let mut judged = Ok(());
    if !choice.machines().is_empty() {
        let (ran, verdict) = run_machines(built, choice)?;
        record.update(ran);
        record.write(&root)?;
        judged = verdict;
    }
    if choice.has_machine(HOST) {
        let ran = host::run(&built.turnkey)?;
        record.update(BTreeMap::from([(HOST.to_owned(), ran)]));
        record.write(&root)?;
    }
    judged
}

/// Runs, in one guest on the lsm tier, the tests that only it can run; how many those are.
fn run_by_day(built: &Built) -> Result<usize> {
    let choice = Choice {
        machines: &[turnkey_expectations::machine::BY_DAY.to_owned()],
        filters: &[],
    };
    let started = Instant::now();
    let (_, heard) = hear(built, &choice)?;
    outcome::judge(&heard, started.elapsed())?;
    Ok(heard.iter().map(|guest| guest.watch.passed.len()).sum())
}

/// A part of the machines and tests, for the one who works on them.
struct Choice<'a> {
    machines: &'a [String],
    filters: &'a [String],
}

/// A machine to boot and the tests it is to run.
struct Job<'a> {
    machine: &'a Machine,
    tests: Vec<String>,
    initramfs: PathBuf,
    console: PathBuf,
}

/// The results of the machines on which every test has passed, and whether that is all of them.
fn run_machines(built: &Built, choice: &Choice) -> Result<(BTreeMap<String, Ran>, Result<()>)> {
    let started = Instant::now();
    let (programs, heard) = hear(built, choice)?;
    let mut ran = outcome::by_machine(&heard);
    for machine in choice.machines() {
        if let Some(ran) = ran.get_mut(machine.name) {
            for (test, why) in tests_of(machine, &programs)?.left_out {
                ran.add_left_out(&test, &why);
            }
        }
    }
    Ok((ran, outcome::judge(&heard, started.elapsed())))
}

/// Boots the machines and listens to each until its end.
fn hear(built: &Built, choice: &Choice) -> Result<(Programs, Vec<Heard>)> {
    setup::ensure(&[PackageList::Guest])?;
    let folder = workspace::target_folder().join("vm");
    fs::create_dir_all(&folder)?;
    let programs = build::programs(&built.turnkey, &built.tests)?;
    refuse_unrun(&programs)?;
    let disks = Disks::make(&folder, &programs, choice)?;
    let kernels = kernels(choice)?;
    let jobs = jobs(choice, &programs, &kernels, &folder)?;
    let heard = run_jobs(jobs, &kernels, &disks)?;
    Ok((programs, heard))
}

/// The tests of a machine, each with the name of its binary.
#[derive(Default)]
struct Tests {
    run: Vec<String>,
    /// Each with the reason.
    left_out: Vec<(String, String)>,
}

fn tests_of(machine: &Machine, programs: &Programs) -> Result<Tests> {
    let mut tests = Tests::default();
    for (binary, test) in &programs.tests {
        let name = format!("{binary} {test}");
        match programs.words.fate(machine.name, binary, test) {
            Fate::Runs => tests.run.push(name),
            Fate::LeftOut(why) => tests.left_out.push((name, why.to_owned())),
            Fate::ForOthers => {}
        }
    }
    ensure!(
        !tests.run.is_empty(),
        "no test says that it runs on {}",
        machine.name
    );
    Ok(tests)
}

/// Refuses a test that runs nowhere: those that guests alone run say on which.
fn refuse_unrun(programs: &Programs) -> Result<()> {
    for (binary, test) in &programs.tests {
        let fate = |machine: &Machine| programs.words.fate(machine.name, binary, test);
        ensure!(
            MACHINES
                .iter()
                .any(|machine| fate(machine) != Fate::ForOthers),
            "`{binary} {test}` runs on no machine: have it, or its module, say `expected!(on […])`"
        );
    }
    Ok(())
}

/// The disks that machines share and none changes.
struct Disks {
    folder: PathBuf,
    swap: PathBuf,
}

impl Disks {
    /// Makes the disks of the chosen machines.
    fn make(folder: &Path, programs: &Programs, choice: &Choice) -> Result<Disks> {
        let disks = Disks {
            folder: folder.to_owned(),
            swap: folder.join("swap"),
        };
        let machines = choice.machines();
        for disk in [
            &contents::ORDINARY,
            &contents::PROGRAMS,
            &contents::PACKAGED,
        ] {
            if machines.iter().any(|it| it.disk.file == disk.file) {
                let files = programs.in_the_guest(disk, folder)?;
                image::make(disk, &disks.root(disk), &files)?;
            }
        }
        image::make_swap(&disks.swap)?;
        Ok(disks)
    }

    fn root(&self, disk: &Disk) -> PathBuf {
        self.folder.join(disk.file)
    }
}

impl Choice<'_> {
    fn has(&self, test: &str) -> bool {
        let named = |filter: &String| test.contains(filter.as_str());
        self.filters.is_empty() || self.filters.iter().any(named)
    }

    fn machines(&self) -> Vec<&'static Machine> {
        let is_named = |it: &Machine| self.machines.iter().any(|name| name == it.name);
        let is_chosen =
            |it: &&Machine| is_named(it) || self.machines.is_empty() && it.only_named.is_none();
        MACHINES.iter().filter(is_chosen).collect()
    }

    fn has_machine(&self, name: &str) -> bool {
        self.machines.is_empty() || self.machines.iter().any(|chosen| chosen == name)
    }
}

fn kernels(choice: &Choice) -> Result<BTreeMap<&'static str, Kernel>> {
    let mut kernels = BTreeMap::new();
    for machine in choice.machines() {
        let build = machine.boot.kernel;
        if !kernels.contains_key(build.name) {
            kernels.insert(build.name, kernel::obtain(build)?);
        }
    }
    if kernels.is_empty() {
        bail!("no machine of that name: see tests/machines/src/machines.rs");
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
        let mut tests = tests_of(machine, programs)?.run;
        tests.retain(|test| choice.has(test));
        for tests in machines::deal(&tests, machine.copies) {
            let number = jobs.len();
            let initramfs = folder.join(format!("initramfs-{number}"));
            let kernel = kernels
                .get(machine.boot.kernel.name)
                .context("a kernel for each machine")?;
            fs::write(
                &initramfs,
                build::initramfs(&programs.init, machine, kernel, &tests)?,
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
    jobs.make_contiguous()
        .sort_by_key(|job| std::cmp::Reverse(job.tests.len()));
    Ok(jobs)
}

/// As many machines at a time as the host has CPUs: each keeps one of them busy.
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
        .get(job.machine.boot.kernel.name)
        .context("a kernel for each machine")?;
    let parts = machine::Parts {
        kernel: &kernel.image,
        initramfs: &job.initramfs,
        disk: &disks.root(job.machine.disk),
        swap: &disks.swap,
        command_line: job.machine.boot.command_line,
        megabytes: job.machine.megabytes,
        cpus: job.machine.cpus,
        console: &job.console,
        at_most: match job.machine.only_named {
            None => watch::TOGETHER,
            Some(_) => watch::TOGETHER_WHEN_NAMED,
        },
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
