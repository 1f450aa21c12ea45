//! Decides whether to write in colours.

use std::ffi::OsStr;
use std::io::IsTerminal;

use turnkey_supervisor::CallerEnvironment;

use crate::cli::ColourWhen;

/// True when colours were asked for; by default, only for a terminal that knows colours, and for
/// nobody who set `NO_COLOR` (no-color.org).
pub fn wanted(when: ColourWhen, stream: &impl IsTerminal) -> bool {
    let refused = std::env::var_os("NO_COLOR");
    let terminal = std::env::var_os("TERM");
    decide(
        when,
        stream.is_terminal(),
        refused.as_deref(),
        terminal.as_deref(),
    )
}

/// The same for a caller elsewhere, to whom a stream of this process leads.
pub fn wanted_in(when: ColourWhen, is_terminal: bool, environment: &CallerEnvironment) -> bool {
    let (refused, terminal) = (environment.get("NO_COLOR"), environment.get("TERM"));
    decide(when, is_terminal, refused, terminal)
}

fn decide(
    when: ColourWhen,
    is_terminal: bool,
    refused: Option<&OsStr>,
    terminal: Option<&OsStr>,
) -> bool {
    match when {
        ColourWhen::Always => true,
        ColourWhen::Never => false,
        ColourWhen::Auto => {
            let is_refused = refused.is_some_and(|refused| !refused.is_empty());
            is_terminal && !is_refused && terminal != Some(OsStr::new("dumb"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_counts_most_and_then_the_terminal() {
        let auto = |is_terminal, refused: Option<&str>, terminal: &str| {
            let refused = refused.map(OsStr::new);
            decide(
                ColourWhen::Auto,
                is_terminal,
                refused,
                Some(OsStr::new(terminal)),
            )
        };
        assert!(auto(true, None, "xterm") && auto(true, Some(""), "xterm"));
        assert!(!auto(false, None, "xterm") && !auto(true, Some("1"), "xterm"));
        assert!(!auto(true, None, "dumb"));
        let one = Some(OsStr::new("1"));
        assert!(decide(ColourWhen::Always, false, one, None));
        assert!(!decide(ColourWhen::Never, true, None, None));
    }
}
