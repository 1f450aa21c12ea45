//! Whether the program gets a terminal.

use clap::Args;

/// The flags that say whether the program gets a terminal.
#[derive(Clone, Copy, Debug, Default, Args)]
#[command(next_help_heading = "Output")]
pub struct TerminalArguments {
    /// Give the program a terminal of the jail's own, as for a shell or an editor; the default when standard input,
    /// output and error are all a terminal
    #[arg(long = "tty", short = 't', overrides_with = "no_tty")]
    tty: bool,
    /// Give the program pipes, even when standard input, output and error are all a terminal
    #[arg(long = "no-tty", short = 'T', overrides_with = "tty")]
    no_tty: bool,
    /// Accepted and without effect, for those used to -it: standard input is always passed on
    #[arg(long = "interactive", short = 'i', hide = true)]
    interactive: bool,
}

impl TerminalArguments {
    /// The choice of the flags; `None` leaves it to what this process has.
    pub fn chosen(self) -> Option<bool> {
        match (self.tty, self.no_tty) {
            (true, _) => Some(true),
            (_, true) => Some(false),
            _ => None,
        }
    }
}
