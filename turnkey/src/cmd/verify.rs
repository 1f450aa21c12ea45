//! `turnkey verify`: whether an attestation holds, and says what somebody wants before a deployment.

use anyhow::Context;
use time::OffsetDateTime;
use turnkey_report::escape;

use crate::attestation::{self, Acceptance, Envelope, PublicKey, Statement, read_all, word};
use crate::cli::VerifyArguments;
use crate::failure::Failure;
use crate::output;

/// The exit status of an attestation that is not accepted.
const REFUSED: u8 = 1;

/// Says whether the attestation is accepted, and if not, why.
pub fn verify(arguments: &VerifyArguments) -> Result<u8, Failure> {
    let name = escape(arguments.attestation.as_os_str().as_encoded_bytes());
    let keys: anyhow::Result<Vec<PublicKey>> = arguments
        .keys
        .iter()
        .map(|key| PublicKey::read(key))
        .collect();
    let acceptance = Acceptance {
        now: OffsetDateTime::now_utc(),
        max_age: arguments.max_age,
        verdict: arguments.verdict,
        status: arguments.exit_code,
        subjects: read_all(&arguments.subjects)?,
        gate: arguments.gate,
        commit: arguments.commit.clone(),
    };
    let bytes = attestation::read(&arguments.attestation)?;
    let told = || format!("{name} is no attestation");
    let envelope = Envelope::read(&bytes).with_context(told)?;
    let payload = envelope.open(&keys?).with_context(told)?;
    let Some(payload) = payload else {
        let whose = match arguments.keys.len() {
            1 => "the key has not signed it",
            _ => "one of the keys has not signed it",
        };
        refuse(&name, &[format!("{whose}, or it was changed since")]);
        return Ok(REFUSED);
    };
    let statement = match Statement::read(&payload) {
        Ok(statement) => statement,
        Err(error) => {
            refuse(
                &name,
                &[format!(
                    "it is signed, and no statement of turnkey attest: {error:#}"
                )],
            );
            return Ok(REFUSED);
        }
    };
    let refusals = acceptance.refusals(&statement);
    if !refusals.is_empty() {
        refuse(&name, &refusals);
        return Ok(REFUSED);
    }
    let line = accepted(&name, &statement, acceptance.subjects.len());
    output::page(line.as_bytes()).context("could not write the answer")?;
    Ok(0)
}

fn refuse(name: &str, reasons: &[String]) {
    for reason in reasons {
        output::line(&format!("{name} is not accepted: {reason}"));
    }
}

fn accepted(name: &str, statement: &Statement, subjects: usize) -> String {
    let run = &statement.predicate.run;
    let about = match subjects {
        0 => "; nobody asked what it is about: name that with --subject".to_owned(),
        1 => ", about the subject".to_owned(),
        several => format!(", about the {several} subjects"),
    };
    let (verdict, at) = (word(run.verdict), &run.started_at);
    let line = format!("{name} is accepted: {verdict}, run of {at}{about}");
    format!("{}\n", turnkey_report::visible(&line))
}
