//! What the guest tells the host: one JSON object per line, through a port of its own, so that no
//! line of the kernel's console can be taken for a result.

use serde::{Deserialize, Serialize};

/// The name of the virtio port that carries the messages.
pub const PORT: &str = "turnkey.results";

/// Where the initramfs holds the names of the tests to run, one per line: the binary, a blank, the
/// test.
pub const TESTS: &str = "/tests";

/// Where the initramfs holds the kernel's modules, to be loaded in the order of their names.
pub const MODULES: &str = "/modules";

/// Where the root file system holds the test binaries.
pub const BINARIES: &str = "/opt/turnkey";

/// The command under test. Not below /usr, which jails see: as on the machines of those who build it.
pub const TURNKEY: &str = "/opt/turnkey/turnkey";

/// The file of the initramfs that is there where systemd is to be the machine's first process.
pub const SYSTEMD_FIRST: &str = "/systemd-first";

/// The package of the command under test, where there is one.
pub const PACKAGE: &str = "/opt/turnkey/turnkey.deb";

/// What the harness of the tests finds in its environment when it runs in the guest.
pub const IN_THE_GUEST: &str = "TURNKEY_GUEST";

/// One line from the guest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Message {
    /// The root file system is mounted and the tests begin.
    Up {
        /// The kernel's release.
        kernel: String,
    },
    /// A test begins.
    Started {
        /// As it was listed.
        test: String,
    },
    /// The test still runs, and so does the machine.
    Alive,
    /// A test has ended.
    Finished {
        /// As it was listed.
        test: String,
        /// How.
        outcome: Outcome,
        /// How long it took, in the guest's own time.
        millis: u64,
        /// What it printed.
        output: String,
    },
    /// Every listed test has ended; the guest powers off.
    Down,
}

/// How a test ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It ran, alone, and passed.
    Passed,
    /// It failed, or no such test was there to be run.
    Failed,
    /// It took too long and was killed.
    TimedOut,
}

impl Message {
    /// The message as it goes through the port.
    pub fn line(&self) -> String {
        // Strings and numbers always have a JSON form.
        let mut line = serde_json::to_string(self).unwrap_or_default();
        line.push('\n');
        line
    }

    /// The message of a line; none when it is no message.
    pub fn parse(line: &str) -> Option<Message> {
        serde_json::from_str(line).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_is_one_line_and_comes_back() {
        let message = Message::Finished {
            test: "e2e limits::x".to_owned(),
            outcome: Outcome::Failed,
            millis: 12,
            output: "two\nlines \u{1b}[1m".to_owned(),
        };
        let line = message.line();
        assert_eq!(line.matches('\n').count(), 1);
        assert_eq!(Message::parse(&line), Some(message));
    }

    #[test]
    fn other_text_is_no_message() {
        for text in ["", "[    1.0] Kernel panic", "{}", r#"{"is":"up"}"#] {
            assert_eq!(Message::parse(text), None, "{text}");
        }
    }
}
