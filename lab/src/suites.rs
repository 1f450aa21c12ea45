//! `cargo lab suites`: test suites that nobody here wrote, in a jail and outside as an ordinary user. What came of it is
//! docs/suites.md: the tests that fail in the jail and not outside, each with its reason.
//!
//! Runs as root. The sources of packages come from the registry by pip, the suite of CPython from the system's package.

mod junit;
mod modules;
mod reasons;

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::command;
use crate::setup::{self, PackageList};
use crate::workspace::{self, Parts};
use junit::Tests;
use modules::MODULES;
use reasons::REASONS;

/// The arguments of `suites`.
#[derive(Args)]
pub struct Arguments {
    /// Only suites whose name contains this; nothing is written then
    filter: Option<String>,
    /// Reads what the last runs have left, and runs only what has none
    #[arg(long)]
    kept: bool,
}

const PAGE: &str = "docs/suites.md";
/// Below the checkout: what is fetched stays for the next time.
const PLACE: &str = "target/suites";

/// Fewest tests of a suite that was found at all, where some fail: what could not be imported counts as one that does.
const FEWEST: usize = 5;

/// The user of the runs outside of a jail.
const NOBODY: &str = "65534";

/// Packages with their suites, and what those need besides pytest.
const PACKAGES: &[(&str, &[&str])] = &[
    ("attrs", &["hypothesis", "cloudpickle", "pympler"]),
    ("click", &[]),
    ("more-itertools", &[]),
    ("packaging", &["pretend", "hypothesis", "tomli_w"]),
    (
        "requests",
        &[
            "pytest-httpbin==2.1.0",
            "httpbin~=0.10.0",
            "pytest-mock",
            "PySocks",
            "trustme",
        ],
    ),
];

/// Tests that run on neither side: a jail makes no UDPLITE sockets, and of so many tests whose threads fail at once CPython's own runner
/// breaks and writes no results at all.
const IGNORED: (&str, &str) = ("test_socket", "*UDPLITE*");

/// Limits by which a suite ends as outside; the mode, because suites try what rules kill for.
const OPTIONS: &str = "--mode observe --network loopback --memory 3G --disk 2G --pids 600 --wall 30m --cpu-time 30m --output 64M --file-size 4G --scratch /tmp=1G";

struct Suite {
    name: String,
    /// The directory that is the workspace; a copy of it is the user's outside.
    place: PathBuf,
    /// The package of the registry that it is of.
    package: Option<&'static str>,
    program: Vec<String>,
}

/// Runs each suite twice, prints the table and writes it. A failure without a reason is an error.
pub fn run(arguments: &Arguments) -> Result<()> {
    setup::ensure(&[PackageList::Build, PackageList::EndToEnd])?;
    has_suite_of_python()?;
    let turnkey = workspace::build_quick(Parts::All)?;
    let place = workspace::root().join(PLACE);
    fs::create_dir_all(&place)?;
    let wanted = |suite: &Suite| {
        arguments
            .filter
            .as_ref()
            .is_none_or(|part| suite.name.contains(part))
    };
    let mut rows = String::new();
    let mut unexplained = Vec::new();
    for suite in suites(&place).into_iter().filter(wanted) {
        prepare(&suite, &place)?;
        let kept = |side: &str| place.join(format!("results/{}.{side}.xml", suite.name));
        if !arguments.kept || !kept("inside").exists() {
            in_jail(&turnkey, &suite, &kept("inside"))?;
        }
        if !arguments.kept || !kept("outside").exists() {
            as_nobody(&suite, &kept("outside"))?;
        }
        let [inside, outside] = ["inside", "outside"].map(|side| results(&kept(side)));
        let (inside, outside): (Tests, Tests) = (inside?, outside?);
        if outside.run == 0 || (outside.run < FEWEST && !outside.failed.is_empty()) {
            bail!(
                "{}: pytest or unittest has collected next to nothing, see {}",
                suite.name,
                kept("outside").display()
            );
        }
        // A runner that broke reports no failures.
        if inside.run != outside.run {
            let (inside, outside) = (inside.run, outside.run);
            unexplained.push(format!(
                "{}: {inside} of {outside} tests ran, see its log",
                suite.name
            ));
        }
        let new: Vec<&String> = inside.failed.difference(&outside.failed).collect();
        let _ = writeln!(
            rows,
            "| {} | {} | {} | {} | {} | {} |",
            suite.name,
            outside.run,
            outside.failed.len(),
            inside.run,
            inside.failed.len(),
            new.len()
        );
        for name in new {
            match reason(&suite.name, name) {
                Some(why) => {
                    let _ = writeln!(rows, "| | `{name}` | | | | {why} |");
                }
                None => unexplained.push(format!("{}: {name}", suite.name)),
            }
        }
    }
    eprintln!("{rows}");
    if !unexplained.is_empty() {
        bail!(
            "fails in the jail alone, and has no reason in lab/src/suites/reasons.rs:\n  {}",
            unexplained.join("\n  ")
        );
    }
    if arguments.filter.is_none() {
        fs::write(workspace::root().join(PAGE), page(&rows)).context("cannot write the page")?;
    }
    Ok(())
}

/// Debian has the suite in a package of its own for each version.
fn has_suite_of_python() -> Result<()> {
    let mut asked = Command::new("/usr/bin/python3");
    let program = "import sys; print('%d.%d' % sys.version_info[:2]); import test.test_os";
    let answer = asked.args(["-c", program]).output()?;
    if !answer.status.success() {
        let version = String::from_utf8_lossy(&answer.stdout);
        bail!(
            "the suite of CPython is not installed: apt-get install libpython{}-testsuite",
            version.trim()
        );
    }
    Ok(())
}

fn page(rows: &str) -> String {
    format!(
        "# Test suites of others\n\nWritten by `cargo lab suites`: each suite runs outside as an ordinary user and in a jail under `python`,\n\
         with `{OPTIONS}`.\nA test that fails in the jail alone has a row with the reason. Of `{}` the tests `{}` are left out: a jail makes no UDPLITE\n\
         sockets, and CPython's own runner breaks where so many tests fail in threads at once.\n\n\
         | suite | tests outside | failed | tests in the jail | failed | failed in the jail alone |\n|---|---|---|---|---|---|\n{rows}",
        IGNORED.0, IGNORED.1
    )
}

fn reason(suite: &str, test: &str) -> Option<&'static str> {
    let mut reasons = REASONS.iter();
    let found = reasons.find(|(of, begin, _)| suite.starts_with(of) && test.contains(begin));
    found.map(|(.., why)| *why)
}

/// All suites, which lie in `place` once they are fetched.
fn suites(place: &Path) -> Vec<Suite> {
    const OF_CPYTHON: [&str; 6] = [
        "/usr/bin/python3",
        "-m",
        "test",
        "--timeout",
        "600",
        RESULTS_OF_CPYTHON,
    ];
    const OF_PYTEST: [&str; 6] = [
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--junitxml=tests.xml",
    ];
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    let modules = MODULES.iter().map(|module| Suite {
        name: format!("CPython {module}"),
        place: place.join(module),
        package: None,
        program: words(&[&OF_CPYTHON[..], ignored(module), &[module]].concat()),
    });
    let python = python(place).display().to_string();
    let packages = PACKAGES.iter().map(|(package, _)| Suite {
        name: (*package).to_owned(),
        place: place.join(package),
        package: Some(package),
        program: words(&[&[&python[..]], &OF_PYTEST[..]].concat()),
    });
    modules.chain(packages).collect()
}

/// The arguments by which CPython's runner leaves tests of a module out.
fn ignored(module: &str) -> &'static [&'static str] {
    match module == IGNORED.0 {
        true => &["--ignore", IGNORED.1],
        false => &[],
    }
}

const RESULTS_OF_CPYTHON: &str = "--junit-xml=tests.xml";

/// The interpreter of the environment that holds pytest and the packages.
fn python(place: &Path) -> PathBuf {
    place.join("venv/bin/python")
}

/// Fetches a suite that is not there, into the environment too. Its directory comes last: one that is there is whole.
fn prepare(suite: &Suite, place: &Path) -> Result<()> {
    let Some(package) = suite.package else {
        return Ok(fs::create_dir_all(&suite.place)?);
    };
    if suite.place.exists() {
        return Ok(());
    }
    let python = python(place);
    if !python.exists() {
        let mut make = Command::new("/usr/bin/python3");
        command::check(make.args(["-m", "venv"]).arg(place.join("venv")))?;
    }
    let fetched = tempfile::tempdir_in(place)?;
    let archive = download(&python, package, fetched.path())?;
    let own = fetched.path().join("own");
    fs::create_dir(&own)?;
    let mut tar = Command::new("tar");
    tar.args(["--strip-components=1", "-C"]).arg(&own);
    command::check(tar.arg("-xf").arg(&archive))?;
    let needed = PACKAGES.iter().filter(|(its, _)| its == &package);
    let needed = needed.flat_map(|(_, needed)| *needed);
    let mut pip = pip(&python, "install");
    command::check(pip.arg("pytest").args(needed).arg(&archive))?;
    fs::rename(&own, &suite.place).context("cannot keep what was fetched")
}

fn pip(python: &Path, command: &str) -> Command {
    let mut pip = Command::new(python);
    pip.args(["-m", "pip", "-q", command]);
    pip
}

/// The sources of a package as the registry has them.
fn download(python: &Path, package: &str, to: &Path) -> Result<PathBuf> {
    // Of this package alone: what builds it may come as it is.
    let mut pip = pip(python, "download");
    pip.args(["--no-deps", "--no-binary", package, package, "-d"]);
    command::check(pip.arg(to))?;
    let fetched = fs::read_dir(to)?.next();
    Ok(fetched.context("pip fetched nothing")??.path())
}

fn in_jail(turnkey: &Path, suite: &Suite, to: &Path) -> Result<()> {
    let results = tempfile::tempdir()?;
    let mut run = Command::new(turnkey);
    run.current_dir(&suite.place)
        .args(["run", "-q", "--profile", "python"])
        .args(OPTIONS.split(' '));
    run.arg("--export-changes")
        .arg("--export")
        .arg(results.path().join("out"))
        .arg("--")
        .args(&suite.program);
    finish(run, suite, to)?;
    keep(&results.path().join("out"), suite, to)
}

fn as_nobody(suite: &Suite, to: &Path) -> Result<()> {
    let copy = tempfile::tempdir()?;
    let own = copy.path().join("own");
    command::check(Command::new("cp").arg("-r").arg(&suite.place).arg(&own))?;
    command::check(Command::new("chown").args(["-R", NOBODY]).arg(&own))?;
    fs::set_permissions(copy.path(), fs::Permissions::from_mode(0o755))?;
    let mut run = Command::new("setpriv");
    run.args([
        "--reuid",
        NOBODY,
        "--regid",
        NOBODY,
        "--clear-groups",
        "env",
        "-i",
        "LANG=C.UTF-8",
        "PATH=/usr/bin:/bin",
    ]);
    run.arg(format!("HOME={}", own.display()))
        .args(&suite.program)
        .current_dir(&own);
    finish(run, suite, to)?;
    keep(&own, suite, to)
}

/// Lets a suite run, and keeps what it says beside the results; that tests fail is no error.
fn finish(mut run: Command, suite: &Suite, to: &Path) -> Result<()> {
    eprintln!("{}", suite.name);
    fs::create_dir_all(to.parent().context("results have a directory")?)?;
    let said = fs::File::create(to.with_extension("log"))?;
    run.stdin(Stdio::null()).stderr(said.try_clone()?);
    let started = run.stdout(said).status();
    started.with_context(|| format!("cannot start {}", suite.name))?;
    Ok(())
}

fn keep(from: &Path, suite: &Suite, to: &Path) -> Result<()> {
    let copied = fs::copy(from.join("tests.xml"), to);
    let said = to.with_extension("log");
    copied.with_context(|| {
        format!(
            "{} has written no results; what it said is in {}",
            suite.name,
            said.display()
        )
    })?;
    Ok(())
}

fn results(of: &Path) -> Result<Tests> {
    let read = fs::read_to_string(of).map_err(anyhow::Error::from);
    read.and_then(|text| junit::read(&text))
        .with_context(|| format!("cannot read {}", of.display()))
}
