//! The reason why a command did not do what it was asked for.

use turnkey_policy::LoadError;

/// The failure of a command, which ends with turnkey's own status, 125, where nothing that weighs more is known.
#[derive(Debug)]
pub enum Failure {
    /// A profile or an override is wrong; rendered with the place in its text.
    Profile(Box<LoadError>),
    /// A file that was asked for could not be written once the run was over: what became of the run decides.
    Unwritten {
        /// The exit code.
        code: u8,
        /// The reason.
        error: anyhow::Error,
    },
    /// Anything else.
    Other(anyhow::Error),
}

impl Failure {
    /// The exit code of the command.
    pub fn code(&self) -> u8 {
        match self {
            Failure::Unwritten { code, .. } => *code,
            Failure::Profile(_) | Failure::Other(_) => crate::FAILED,
        }
    }

    /// The same failure of a command whose exit codes tell of no run.
    pub fn of_turnkey(self) -> Failure {
        match self {
            Failure::Unwritten { error, .. } => Failure::Other(error),
            other => other,
        }
    }
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure::Other(error.into())
    }
}
