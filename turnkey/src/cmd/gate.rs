//! `turnkey gate`: one verdict on what a model has written between two commits.
//!
//! ```text
//! config, as the base has it ─┐
//! base, head ── Repository ── Changes ── checks (scan, tests, behaviour) ── overrides ── GateResult ── text, JSON, SARIF, Markdown
//! ```

mod checks;
mod commits;
pub mod config;
mod interruption;
mod markdown;
mod overrides;
mod own_directory;
pub mod pattern;
mod repository;
pub mod result;
mod sarif;
mod text;

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use time::OffsetDateTime;
use turnkey_report::{escape, json};
use turnkey_supervisor::files::{CallerOutput, OpenOutput};

use crate::attestation::{self, sha256};
use crate::cli::GateArguments;
use crate::failure::Failure;
use crate::output;
use checks::Workshop;
use commits::Changes;
use config::GateConfig;
use own_directory::OwnDirectory;
use repository::Repository;
use result::{ConfigSource, GateResult, GateVerdict, SCHEMA};

/// The config of a repository, at its top.
const CONFIG: &str = "turnkey.toml";
/// The exit status of a failed gate.
const FAIL: u8 = 1;
/// The exit status of one that is inconclusive, as of a run whose evidence was lost.
const INCONCLUSIVE: u8 = 120;

/// Judges, and writes what was asked for.
pub fn gate(arguments: &GateArguments) -> Result<u8, Failure> {
    if arguments.init {
        output::page(config::INIT.as_bytes()).context("could not write the config")?;
        return Ok(0);
    }
    let outputs = GateOutputs::open(arguments)?;
    let result = judge(arguments)?;
    outputs.write(&result)?;
    let page = match arguments.json {
        true => json::page(&result)?,
        false => text::page(&result).into_bytes(),
    };
    output::page(&page).context("could not write the result")?;
    Ok(match result.verdict {
        GateVerdict::Pass => 0,
        GateVerdict::Fail => FAIL,
        GateVerdict::Inconclusive => INCONCLUSIVE,
    })
}

fn judge(arguments: &GateArguments) -> anyhow::Result<GateResult> {
    let own = OwnDirectory::new().context("could not make a directory for temporary files")?;
    interruption::remove_when_asked_to_end(own.path())?;
    let repository = Repository::around(&own)?;
    let base = repository.commit(&arguments.base).context(
        "the base is the commit that is trusted; fix: name one with --base, such as origin/main",
    )?;
    let head = repository.commit(&arguments.head)?;
    let (source, config) = read_config(arguments.config.as_deref(), &repository, &base)?;
    let changes = Changes::between(&repository, (&base, &head), &config.model)?;
    let mut notes = Vec::new();
    let workshop = Workshop::new(&own, &repository, (&base, &head));
    let mut checks = checks::all(&config, &changes, &workshop, &mut notes);
    let today = OffsetDateTime::now_utc().date();
    notes.extend(overrides::apply(&config.overrides, today, &mut checks));
    Ok(GateResult {
        schema: SCHEMA.to_owned(),
        turnkey: env!("CARGO_PKG_VERSION").to_owned(),
        finished_at: turnkey_supervisor::clock::now().started_at(),
        verdict: GateVerdict::of(&checks),
        config: source,
        commits: changes.commits,
        model_commits: changes.model_commits,
        files: changes
            .files
            .iter()
            .map(|file| escape(&file.path))
            .collect(),
        checks,
        notes,
        base,
        head,
    })
}

/// The config: of the repository as the base has it, because the head is what is judged; a file outside as it is.
fn read_config(
    path: Option<&Path>,
    repository: &Repository<'_>,
    base: &str,
) -> anyhow::Result<(ConfigSource, GateConfig)> {
    let below = match path {
        Some(path) => below(path, repository.top.as_deref())?,
        None => Some(CONFIG.into()),
    };
    let (from, bytes) = match below.as_deref() {
        Some(below) => {
            let from = [base.as_bytes(), b":", below.as_os_str().as_bytes()].concat();
            let object = std::ffi::OsStr::from_bytes(&from);
            let bytes = repository.ask(&["cat-file".as_ref(), "blob".as_ref(), object]);
            let bytes = bytes.with_context(|| {
                format!(
                    "the base has no {}: `turnkey gate --init` prints one to begin with; commit it, or name a file outside of the repository with --config",
                    below.display()
                )
            })?;
            (from, bytes)
        }
        None => {
            let path = path.unwrap_or(Path::new(CONFIG));
            (
                path.as_os_str().as_bytes().to_vec(),
                attestation::read(path)?,
            )
        }
    };
    let from = escape(&from);
    let text = std::str::from_utf8(&bytes).context("it is no text");
    let config = text.and_then(GateConfig::read);
    let config = config.with_context(|| format!("the config {from} is invalid"))?;
    let sha256 = sha256(&bytes);
    Ok((ConfigSource { from, sha256 }, config))
}

/// The path of a config below the working tree, if it is there by its name. In a bare repository, a relative path is one of it.
fn below(path: &Path, top: Option<&Path>) -> anyhow::Result<Option<PathBuf>> {
    let Some(top) = top else {
        return Ok((!path.is_absolute()).then(|| path.to_owned()));
    };
    let absolute = std::path::absolute(path)?;
    // Not by what is there: the head decides on that, and a symlink in it leads anywhere.
    let parts = absolute.components();
    ensure!(
        parts.into_iter().all(|part| part.as_os_str() != ".."),
        "write the path of the config without `..`"
    );
    let here = std::env::current_dir()?;
    let named = [top.to_owned(), top.canonicalize().unwrap_or_default(), here];
    let inside = named.iter().any(|place| absolute.starts_with(place));
    if !inside {
        return Ok(None);
    }
    let below = absolute
        .strip_prefix(top)
        .or_else(|_| absolute.strip_prefix(&named[1]));
    Ok(Some(below.unwrap_or(path).to_owned()))
}

/// The files that were asked for, open before anything is judged.
struct GateOutputs {
    json: Option<OpenOutput>,
    sarif: Option<OpenOutput>,
    comment: Option<OpenOutput>,
}

impl GateOutputs {
    fn open(arguments: &GateArguments) -> anyhow::Result<GateOutputs> {
        let open = |path: &Option<PathBuf>| {
            let open = |path: &PathBuf| {
                let config = arguments.config.as_deref().unwrap_or(Path::new(CONFIG));
                let found = CallerOutput::find_beside(path, &[("the config", config)]);
                let opened = found.and_then(|found| Ok(found.open()?));
                opened.with_context(|| format!("could not write to {}", path.display()))
            };
            path.as_ref().map(open).transpose()
        };
        Ok(GateOutputs {
            json: open(&arguments.out)?,
            sarif: open(&arguments.sarif)?,
            comment: open(&arguments.comment)?,
        })
    }

    fn write(self, result: &GateResult) -> anyhow::Result<()> {
        let sarif = json::page(&sarif::log(result))?;
        let comment = markdown::comment(result).into_bytes();
        let all = [
            (self.json, json::page(result)?),
            (self.sarif, sarif),
            (self.comment, comment),
        ];
        for (file, page) in all {
            let written = file.map_or(Ok(()), |file| file.write(&page));
            written.context("could not write the result")?;
        }
        Ok(())
    }
}
