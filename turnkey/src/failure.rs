//! The reason why a command did not do what it was asked for.

use turnkey_policy::LoadError;

/// Ends a command with turnkey's own status, 125.
#[derive(Debug)]
pub enum Failure {
    /// A profile or an override is wrong; rendered with the place in its text.
    Profile(Box<LoadError>),
    /// Anything else.
    Other(anyhow::Error),
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure::Other(error.into())
    }
}
