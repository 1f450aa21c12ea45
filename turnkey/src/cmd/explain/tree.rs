//! The steps that fill the jail's root, each with why it is there.

use std::path::Path;

use serde::Serialize;
use turnkey_jailer::Plan;
use turnkey_jailer::host::PathFact;
use turnkey_jailer::plan::RootfsStep;
use turnkey_policy::ProcView;

use super::view::shown;

/// One step.
#[derive(Debug, Serialize)]
pub struct TreeRow {
    /// The kind of step.
    pub step: &'static str,
    /// The path, as seen from inside.
    pub path: String,
    /// The path of the host that shows there, or the text of a symlink.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The restrictions of a mount.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub attributes: Vec<&'static str>,
    /// Bytes: of a file, or the most that a memory file system may hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// The profile's reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

impl TreeRow {
    /// Reads a step of the plan.
    pub fn new(step: &RootfsStep, plan: &Plan) -> TreeRow {
        let row = |name, path: &Path| TreeRow {
            step: name,
            path: shown(path),
            source: None,
            attributes: step.attributes_in_words(),
            size: None,
            why: None,
        };
        match step {
            RootfsStep::Directory(path) => row("directory", path),
            RootfsStep::Unlisted(path) => row("unlisted", path),
            RootfsStep::Symlink { path, text } => TreeRow {
                source: Some(shown(text)),
                why: reason(path, plan),
                ..row("symlink", path)
            },
            RootfsStep::File { path, content } => TreeRow {
                // An empty one is a place to mount on.
                size: u64::try_from(content.len()).ok().filter(|size| *size > 0),
                why: decoy(path, plan),
                ..row("file", path)
            },
            RootfsStep::Decoy { path, content, .. } => TreeRow {
                size: u64::try_from(content.len()).ok(),
                why: decoy(path, plan),
                ..row("decoy", path)
            },
            RootfsStep::RootEntry { root, path, .. } => TreeRow {
                source: Some(shown(root)),
                why: Some("the profile's own root".to_owned()),
                ..row("root", path)
            },
            RootfsStep::Bind {
                source,
                path,
                writable,
                ..
            } => TreeRow {
                source: Some(shown(source)),
                why: reason(source, plan),
                ..row(if *writable { "write" } else { "read" }, path)
            },
            RootfsStep::Setting { source, path } => TreeRow {
                source: Some(shown(source)),
                why: reason(source, plan),
                ..row("copy", path)
            },
            RootfsStep::Device { path, .. } => row("device", path),
            RootfsStep::Tmpfs { path, size } => TreeRow {
                size: Some(*size),
                ..row("tmpfs", path)
            },
            RootfsStep::Proc { path, shows } => TreeRow {
                why: (*shows == ProcView::Processes)
                    .then(|| "the jail's processes, and nothing of the machine".to_owned()),
                ..row("proc", path)
            },
            RootfsStep::Mask { path, .. } => TreeRow {
                why: Some("covered where the kernel has it".to_owned()),
                ..row("mask", path)
            },
            RootfsStep::Late(path) => TreeRow {
                why: Some(
                    "the certificate of the sinkhole's authority, made for each run".to_owned(),
                ),
                ..row("file", path)
            },
            RootfsStep::Cover { file, path } => TreeRow {
                source: Some(shown(file)),
                why: Some("the sinkhole's authority, where the file is there".to_owned()),
                ..row("cover", path)
            },
            RootfsStep::Terminals(path) => row("devpts", path),
            RootfsStep::WritableRoot { size } => TreeRow {
                size: Some(*size),
                ..row("overlay", Path::new("/"))
            },
            RootfsStep::WritableDirectory { source, path } => TreeRow {
                source: Some(shown(source)),
                why: reason(source, plan),
                ..row("overlay", path)
            },
            RootfsStep::Overlay { source, path, size } => TreeRow {
                source: Some(shown(source)),
                size: Some(*size),
                ..row("overlay", path)
            },
        }
    }
}

fn decoy(path: &Path, plan: &Plan) -> Option<String> {
    let planted = plan
        .policy
        .filesystem
        .decoys
        .iter()
        .any(|decoy| decoy == path);
    let words = match plan.is_watched {
        true => "a decoy: worthless, and watched",
        false => "a decoy: worthless; nobody watches who opens it",
    };
    planted.then(|| words.to_owned())
}

/// The reason why the profile gives the jail this path of the host: by its own name, or by that of
/// a symlink which leads to it.
fn reason(path: &Path, plan: &Plan) -> Option<String> {
    let filesystem = &plan.policy.filesystem;
    let leads_here = |named: &Path| matches!(plan.host.fact(named), PathFact::Symlink { leads_to: Some(target), .. } if target == path);
    let mut named = filesystem.read.iter().chain(&filesystem.write);
    // A symlink is looked for last: of each, the host's facts have to be asked.
    let found = named.clone().find(|named| named.path == path);
    let found = found.or_else(|| named.find(|named| leads_here(&named.path)))?;
    Some(shown(&found.why))
}
