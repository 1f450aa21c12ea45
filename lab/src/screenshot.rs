//! `cargo lab screenshot`: a hostile example, run; its report as a page; a picture of that for the guide.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::setup::PackageList;
use crate::{command, setup, workspace};

/// Tries much, and is only watched.
const EXAMPLE: &str = "examples/hostile/fake_installer.py";
/// The part of the page that the picture shows, in pixels.
const WINDOW: &str = "--window-size=1240,2330";

/// Makes docs/report.png.
pub fn run() -> Result<()> {
    setup::ensure(&[
        PackageList::Build,
        PackageList::Examples,
        PackageList::Reports,
    ])?;
    let turnkey = workspace::build_turnkey()?;
    let stage = tempfile::tempdir().context("cannot make a directory")?;
    let (report, page) = (
        stage.path().join("report.json"),
        stage.path().join("report.html"),
    );
    let workdir = stage.path().join("workdir");
    fs::create_dir(&workdir)?;
    fs::copy(
        workspace::root().join(EXAMPLE),
        workdir.join("fake_installer.py"),
    )?;
    let mut play = Command::new(&turnkey);
    play.args([
        "run",
        "--quiet",
        "--mode",
        "observe",
        "--capture",
        "--report",
    ])
    .arg(&report)
    .args(["--", "python3", "fake_installer.py"])
    .current_dir(&workdir)
    .stdin(Stdio::null());
    command::check(&mut play)?;
    without_build(&report)?;
    let mut render = Command::new(&turnkey);
    render
        .arg("report")
        .arg(&report)
        .args(["--format", "html", "--out"]);
    command::check(render.arg(&page))?;
    picture(&page, stage.path())
}

/// The report without the way in which this machine's kernel was built, which is nobody's business.
fn without_build(report: &Path) -> Result<()> {
    let mut value: Value = serde_json::from_slice(&fs::read(report)?)?;
    let kernel = value["host"]["kernel"].as_str().unwrap_or_default();
    let version = kernel.split('-').next().unwrap_or_default().to_owned();
    value["host"]["kernel"] = json!(version);
    Ok(fs::write(report, value.to_string())?)
}

/// In a network namespace that leads nowhere: a page that fetched something would not look right.
fn picture(page: &Path, home: &Path) -> Result<()> {
    let to = workspace::root().join("docs/report.png");
    let mut browser = Command::new("unshare");
    browser
        .args([
            "--net",
            "--",
            "chromium",
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
        ])
        .args([
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
        ])
        .args([
            "--disable-component-update",
            "--disable-sync",
            "--disable-dev-shm-usage",
        ])
        .args(["--hide-scrollbars", "--force-device-scale-factor=1", WINDOW])
        .arg(format!(
            "--user-data-dir={}",
            home.join("browser").display()
        ))
        .arg(format!("--screenshot={}", to.display()))
        .arg(format!("file://{}", page.display()))
        .env("HOME", home)
        .stderr(Stdio::null());
    let before = fs::metadata(&to).and_then(|it| it.modified()).ok();
    command::check(&mut browser)?;
    let after = fs::metadata(&to).and_then(|it| it.modified()).ok();
    ensure!(
        after.is_some() && after != before,
        "the browser wrote no picture"
    );
    eprintln!("look at {}", to.display());
    Ok(())
}
