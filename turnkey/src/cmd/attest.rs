//! `turnkey attest`: a signed statement about a run and about what came of it.

use std::path::Path;

use anyhow::Context;
use turnkey_report::LARGEST;
use turnkey_supervisor::files::{self, CallerOutput};

use crate::attestation::{
    self, Envelope, GateFacts, Predicate, PrivateKey, RunFacts, Statement, Subject, read_all,
};
use crate::cli::AttestArguments;
use crate::failure::Failure;

/// Writes the attestation.
pub fn attest(arguments: &AttestArguments) -> Result<u8, Failure> {
    let unwritten = || {
        let out = arguments.out.display();
        format!("could not write the attestation to {out}")
    };
    let mut inputs = vec![
        ("the key", &*arguments.key),
        ("the report", &*arguments.report),
    ];
    inputs.extend(
        arguments
            .gate
            .iter()
            .map(|gate| ("the gate's result", &**gate)),
    );
    inputs.extend(arguments.subjects.iter().map(|one| ("a subject", &**one)));
    let out = CallerOutput::find_beside(&arguments.out, &inputs).with_context(unwritten)?;
    let key = PrivateKey::read(&arguments.key)?;
    let report = &arguments.report;
    let bytes = files::read(report, LARGEST)
        .with_context(|| format!("could not read {}", report.display()))?;
    let run = RunFacts::of_report(&bytes)
        .with_context(|| format!("{} is no report to attest", report.display()))?;
    let gate = arguments.gate.as_deref().map(gate).transpose()?;
    let mut subjects = read_all(&arguments.subjects)?;
    if subjects.is_empty() {
        subjects.push(Subject::of_bytes(report, &bytes));
    }
    let predicate = Predicate {
        turnkey: env!("CARGO_PKG_VERSION").to_owned(),
        attested_at: turnkey_supervisor::clock::now().started_at(),
        run,
        gate,
    };
    let statement = serde_json::to_vec(&Statement::new(subjects, predicate))?;
    let mut text = serde_json::to_vec(&Envelope::sign(&statement, &key))?;
    text.push(b'\n');
    out.open()
        .and_then(|file| file.write(&text))
        .with_context(unwritten)?;
    Ok(0)
}

fn gate(path: &Path) -> anyhow::Result<GateFacts> {
    GateFacts::of_result(&attestation::read(path)?)
        .with_context(|| format!("{} is no result of a gate to attest", path.display()))
}
