//! Receivers of alerts, of `run` and `attach`.

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use turnkey_supervisor::sinks::{FoundSink, SinkTarget, WebhookSecret};

/// The variable that holds the secret of webhooks.
const SECRET: &str = "TURNKEY_WEBHOOK_SECRET";

/// Receivers of alerts.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Output")]
pub struct SinkArguments {
    /// Tell each finding at once, and the verdict, to: journald, file:PATH (appends JSON Lines), webhook:https://HOST/PATH (by the
    /// program curl), webhook:http://127.0.0.1:PORT/PATH or webhook:unix:PATH; ocsf+ before it for OCSF; repeatable
    #[arg(long, value_name = "SINK")]
    pub to: Vec<SinkTarget>,
    /// The file of the secret that signs what goes to webhooks, instead of the variable TURNKEY_WEBHOOK_SECRET
    #[arg(long, value_name = "FILE", requires = "to")]
    pub webhook_secret_file: Option<PathBuf>,
}

impl SinkArguments {
    /// Finds the receivers.
    ///
    /// # Errors
    /// When one cannot be found, or a webhook has no secret.
    pub fn find(&self) -> anyhow::Result<Vec<FoundSink>> {
        FoundSink::find(&self.to, || self.secret())
    }

    fn secret(&self) -> anyhow::Result<WebhookSecret> {
        if let Some(file) = &self.webhook_secret_file {
            return WebhookSecret::read(file);
        }
        let secret = std::env::var_os(SECRET).with_context(|| {
            format!(
                "requests to webhooks are signed, and there is no secret: set {SECRET}, or name a file with \
                 --webhook-secret-file; `openssl rand -hex 32` makes one"
            )
        })?;
        WebhookSecret::new(secret.as_encoded_bytes())
            .with_context(|| format!("{SECRET} holds no secret"))
    }
}
