//! The findings for programs: schema turnkey.scan/v1.

use serde::Serialize;
use turnkey_scan::{Finding, Import, Needs};

use super::plugin::PluginWord;
use super::{Scanned, ScannedScript};

#[derive(Serialize)]
pub struct ScanPage<'s> {
    schema: &'static str,
    /// The highest of all.
    score: u32,
    files: Vec<ScriptEntry<'s>>,
    /// The files that were not looked at.
    left_out: Vec<LeftOutEntry>,
}

#[derive(Serialize)]
struct ScriptEntry<'s> {
    path: &'s str,
    #[serde(skip_serializing_if = "Option::is_none")]
    language: Option<&'static str>,
    score: u32,
    /// False where something of it was not looked at.
    whole: bool,
    findings: &'s [Finding],
    /// Findings that are not listed.
    findings_left_out: usize,
    imports: &'s [Import],
    needs: &'s Needs,
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<&'s str>,
    /// The words of other scanners, each its own.
    #[serde(skip_serializing_if = "<[PluginWord]>::is_empty")]
    others: &'s [PluginWord],
}

#[derive(Serialize)]
struct LeftOutEntry {
    what: &'static str,
    count: usize,
}

/// The page.
pub fn page(scanned: &Scanned) -> ScanPage<'_> {
    ScanPage {
        schema: "turnkey.scan/v1",
        score: scanned.score(),
        files: scanned.scripts.iter().map(entry).collect(),
        left_out: scanned
            .left_out
            .iter()
            .map(|(what, count)| LeftOutEntry {
                what,
                count: *count,
            })
            .collect(),
    }
}

fn entry(script: &ScannedScript) -> ScriptEntry<'_> {
    let scan = &script.scan;
    ScriptEntry {
        path: &script.path,
        language: scan.language.map(turnkey_scan::Language::name),
        score: scan.score,
        whole: scan.whole,
        findings: &scan.findings,
        findings_left_out: scan.left_out,
        imports: &scan.imports,
        needs: &scan.needs,
        command: script.command.as_deref(),
        others: &script.others,
    }
}
