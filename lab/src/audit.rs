//! `cargo lab audit`: the probe of `turnkey audit` in turnkey's profiles and in each other sandbox that is installed, side by
//! side on docs/audit.md.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use clap::Args;
use serde::Deserialize;

use crate::bench::into_a_namespace;
use crate::bench::machine;
use crate::bench::peers::{self, Present};
use crate::bench::rounds::Phase;
use crate::bench::stage::BenchStage;
use crate::setup::PackageList;
use crate::{command, workspace};

/// The arguments of `audit`.
#[derive(Args)]
pub struct Arguments {
    /// Measure by this turnkey, instead of building the one of the checkout
    #[arg(long, value_name = "PROGRAM")]
    turnkey: Option<PathBuf>,
    /// Says that this process is in the namespace already
    #[arg(long, hide = true)]
    inside: bool,
}

const PAGE: &str = "docs/audit.md";
/// Profiles, of which the first is the default.
const PROFILES: [&str; 4] = ["untrusted", "sealed", "python", "shell"];
/// Every sandbox shows the programs of this folder, which nothing else is in.
const PLACE: &str = "/usr/local/games";

/// The criteria in the order of the table, as audit writes them, each with its words.
const CRITERIA: [(&str, &str); 8] = [
    ("commands", "commands"),
    ("privilege", "privilege"),
    ("outer-network", "outer network"),
    ("neighbours", "neighbours"),
    ("leaks", "leaks"),
    ("upload", "upload"),
    ("technology", "technology"),
    ("limits", "limits"),
];

/// The part of audit's page that is shown.
#[derive(Deserialize)]
struct AuditPage {
    sandboxes: Vec<Measured>,
}

#[derive(Deserialize)]
struct Measured {
    failed: Option<String>,
    findings: BTreeMap<String, Finding>,
}

#[derive(Deserialize)]
struct Finding {
    criterion: String,
    does: String,
    outcome: String,
}

/// A column of the table.
struct Column {
    name: String,
    /// The command, as it is printed.
    command: String,
    measured: Measured,
}

/// Measures, prints the page and writes it.
pub fn run(arguments: &Arguments) -> Result<()> {
    if !arguments.inside {
        return into_a_namespace(&[PackageList::Build]);
    }
    let turnkey = match &arguments.turnkey {
        Some(program) => program.clone(),
        None => workspace::build_turnkey()?,
    };
    let stage = BenchStage::new(&turnkey)?;
    let probe = place(&stage)?;
    stage.enter(Phase::Loaded)?;
    let (present, absent) = peers::present(&stage)?;
    let mut columns = vec![as_user(&stage, &probe, ("no sandbox", "--here", ""))?];
    for profile in PROFILES {
        columns.push(profile_as_root(&stage, &probe, profile)?);
    }
    let unprivileged = format!("{} run --quiet --best-effort --", probe.display());
    columns.push(as_user(
        &stage,
        &probe,
        ("turnkey, without root", "--in", &unprivileged),
    )?);
    for peer in &present {
        columns.push(peer_as_user(&stage, &probe, peer)?);
    }
    stage.enter(Phase::Unloaded)?;
    let page = text(&columns, &absent)?;
    eprintln!("{page}");
    fs::write(workspace::root().join(PAGE), page).with_context(|| format!("cannot write {PAGE}"))
}

/// The probe where everybody sees it, in this mount namespace alone.
fn place(stage: &BenchStage) -> Result<PathBuf> {
    let mut mount = Command::new("mount");
    command::check(mount.args(["-t", "tmpfs", "-o", "mode=0755", "tmpfs", PLACE]))?;
    let probe = Path::new(PLACE).join("turnkey");
    fs::copy(stage.turnkey(), &probe).context("cannot copy turnkey")?;
    Ok(probe)
}

fn as_user(
    stage: &BenchStage,
    probe: &Path,
    (name, flag, sandbox): (&str, &str, &str),
) -> Result<Column> {
    let mut words = vec![
        probe.to_string_lossy().into_owned(),
        "audit".into(),
        "--json".into(),
        flag.into(),
    ];
    if !sandbox.is_empty() {
        words.push(sandbox.into());
    }
    let shown = sandbox.replace(&*probe.to_string_lossy(), "turnkey");
    measured(stage.as_user(&words), name, shown)
}

fn profile_as_root(stage: &BenchStage, probe: &Path, profile: &str) -> Result<Column> {
    let words = [
        &*probe.to_string_lossy(),
        "audit",
        "--json",
        "--profile",
        profile,
    ]
    .map(String::from);
    let shown = format!("turnkey run --profile {profile}");
    measured(stage.as_root(&words), &format!("turnkey, {profile}"), shown)
}

fn peer_as_user(stage: &BenchStage, probe: &Path, peer: &Present) -> Result<Column> {
    let command = peer.for_any_program(stage)?;
    let mut column = as_user(stage, probe, (peer.name, "--in", &command))?;
    column.name = format!("{} ({})", peer.name, peer.version);
    column.command = stage.shown(&peer.shown_words());
    Ok(column)
}

fn measured(mut audit: Command, name: &str, command: String) -> Result<Column> {
    eprintln!("measuring: {name}");
    let output = audit
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .output();
    let output = output.context("turnkey audit cannot be started")?;
    let page: AuditPage = serde_json::from_slice(&output.stdout)
        .with_context(|| format!("turnkey audit said nothing of {name}"))?;
    let Some(measured) = page.sandboxes.into_iter().next() else {
        bail!("turnkey audit measured nothing for {name}");
    };
    Ok(Column {
        name: name.to_owned(),
        command,
        measured,
    })
}

fn text(columns: &[Column], absent: &[String]) -> Result<String> {
    let machine = machine::here()?;
    let mut page = String::from(
        "# Sandboxes from inside\n\n\
         Written by `cargo lab audit`, which runs the probe of `turnkey audit` ([guide](guide/audit.md)) in each of them. A number is how many of\n\
         the things that the probe tries came to nothing: the call was refused, the run was ended for it, or it reached something of the\n\
         sandbox's own. What a sandbox lets happen on purpose, such as running a shell, counts like everything else, so a column is no mark:\n\
         read the lists below it. Turnkey's profiles were started by root, everything else by an ordinary user, with the flags that come\n\
         closest to turnkey's defaults.\n\n",
    );
    writeln!(page, "Linux {}, {}.\n", machine.kernel, machine.groups)?;
    let (good, failed): (Vec<&Column>, Vec<&Column>) = columns
        .iter()
        .partition(|column| column.measured.failed.is_none());
    let names: Vec<&str> = good.iter().map(|column| column.name.as_str()).collect();
    writeln!(
        page,
        "| held | {} |\n|---|{}",
        names.join(" | "),
        "---|".repeat(good.len())
    )?;
    for (key, words) in CRITERIA {
        let cells: Vec<String> = good
            .iter()
            .map(|column| cell(&column.measured, key))
            .collect();
        writeln!(page, "| {words} | {} |", cells.join(" | "))?;
    }
    page += "\n## Open\n";
    for column in &good {
        write!(page, "\n**{}**", column.name)?;
        if !column.command.is_empty() {
            write!(page, ", `{}`", column.command)?;
        }
        page += "\n\n";
        for (key, words) in CRITERIA {
            let open: Vec<&str> = findings_of(&column.measured, key)
                .filter(|finding| finding.outcome == "open")
                .map(|finding| finding.does.as_str())
                .collect();
            if !open.is_empty() {
                writeln!(page, "- {words}: {}", open.join("; "))?;
            }
        }
    }
    if !failed.is_empty() || !absent.is_empty() {
        page += "\n## Not measured\n\n";
    }
    for column in failed {
        let reason = column.measured.failed.as_deref().unwrap_or_default();
        writeln!(page, "- {}: {reason}", column.name)?;
    }
    for line in absent {
        writeln!(page, "- {line}")?;
    }
    Ok(page)
}

fn findings_of<'m>(measured: &'m Measured, criterion: &str) -> impl Iterator<Item = &'m Finding> {
    let findings = measured.findings.values();
    findings.filter(move |finding| finding.criterion == criterion)
}

/// As "12 of 13", with what nobody can tell.
fn cell(measured: &Measured, criterion: &str) -> String {
    let with = |outcomes: &[&str]| {
        findings_of(measured, criterion)
            .filter(|finding| outcomes.contains(&finding.outcome.as_str()))
            .count()
    };
    let unknown = match with(&["unknown"]) {
        0 => String::new(),
        count => format!(", {count} unknown"),
    };
    format!(
        "{} of {}{unknown}",
        with(&["stopped", "ended"]),
        findings_of(measured, criterion).count()
    )
}
