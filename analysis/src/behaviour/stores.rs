//! Credential access without an open: what two applications of a person keep, a browser's, a messenger's or a wallet's, is asked about where
//! it is not. Who looks first and finds nothing opens nothing.
//!
//! An application asks about its own. One alone is what somebody asks who exports bookmarks.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use turnkey_policy::{Behaviour, Glob};

use super::accounts::is_installed;
use super::act::{ActOutcome, ObservedAct, Operation};
use super::credential::handles_files;
use super::interpreter::is_interpreter;
use super::process_state::ProcessState;
use super::{Detector, Sighting, Step};

/// Applications that make a search.
const MANY: usize = 2;

/// Places of applications, below a home.
const STORES: &[&str] = &[
    "**/.config/{google-chrome,chromium,microsoft-edge,opera,vivaldi}*{,/**}",
    "**/.config/{BraveSoftware,discord,discordcanary,Element,Signal,skypeforlinux,Slack}{,/**}",
    "**/.config/{atomic,Exodus,Ledger Live,solana,trezor-suite}*{,/**}",
    "**/.{librewolf,mozilla,thunderbird,waterfox}{,/**}",
    "**/.{armory,atomic,bitcoin,dash,dogecoin,electrum,ethereum,litecoin,monero,zcash}{,/**}",
    "**/.local/share/TelegramDesktop{,/**}",
];

static GLOBS: LazyLock<Vec<Glob>> = LazyLock::new(|| {
    let globs = STORES.iter().map(|text| Glob::parse(text));
    globs.filter_map(Result::ok).collect()
});

/// The applications that were asked about, and the first question.
#[derive(Debug, Default)]
pub struct Stores {
    asked: BTreeMap<Vec<u8>, Step>,
    told: bool,
}

impl Detector for Stores {
    fn observe(
        &mut self,
        act: &ObservedAct<'_>,
        state: &ProcessState,
        tell: &mut dyn FnMut(Sighting),
    ) {
        let path = match &act.what {
            Operation::LookedForInVain(path) => path,
            Operation::Opened(opened) if opened.reads && opened.outcome == ActOutcome::Absent => {
                &opened.path
            }
            _ => return,
        };
        // Nearly all that is not there is elsewhere.
        let may_be = path.windows(2).any(|part| part == b"/.");
        if self.told
            || !may_be
            || !GLOBS.iter().any(|glob| glob.matches(path))
            || !has_none(act, state)
        {
            return;
        }
        let Some(application) = application(path) else {
            return;
        };
        let step = Step::from_event(act.event, &[b"looked for ", path]);
        self.asked.entry(application.to_vec()).or_insert(step);
        if self.asked.len() >= MANY {
            self.told = true;
            let steps = std::mem::take(&mut self.asked).into_values().collect();
            tell(Sighting::new(Behaviour::CredentialAccess, steps));
        }
    }
}

/// True when a program acts that keeps nothing of its own there: one that shows or copies files, one that the run brought, or an interpreter
/// of anything but a script that a package brought.
fn has_none(act: &ObservedAct<'_>, state: &ProcessState) -> bool {
    state.process(&act.event.task).is_some_and(|process| {
        let exe = &process.exe;
        let is_interpreted = is_interpreter(exe) && !state.is_tool(process);
        handles_files(exe) || is_interpreted || !is_installed(exe)
    })
}

/// A path up to the application's own name: behind `.config` or `.local/share`, else the first that begins with a dot.
fn application(path: &[u8]) -> Option<&[u8]> {
    let mut ends = (1..=path.len()).filter(|end| path.get(*end).is_none_or(|byte| *byte == b'/'));
    ends.find_map(|end| {
        let begin = path[..end].iter().rposition(|byte| *byte == b'/')? + 1;
        let is_parent = path[..end].ends_with(b"/.config") || path[..end].ends_with(b"/.local");
        let is_below =
            path[..begin].ends_with(b"/.config/") || path[..begin].ends_with(b"/.local/share/");
        let is_one = is_below || path[begin..].starts_with(b".") && !is_parent;
        is_one.then(|| &path[..end])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_is_one() {
        assert_eq!(GLOBS.len(), STORES.len());
    }

    #[test]
    fn an_application_is_known_by_its_directory() {
        for (path, named) in [
            ("/workspace/.bitcoin/wallet.dat", "/workspace/.bitcoin"),
            ("/home/ada/.mozilla", "/home/ada/.mozilla"),
            (
                "/workspace/.config/google-chrome/Default/Cookies",
                "/workspace/.config/google-chrome",
            ),
            (
                "/workspace/.local/share/TelegramDesktop/tdata",
                "/workspace/.local/share/TelegramDesktop",
            ),
        ] {
            let found = application(path.as_bytes());
            assert_eq!(found, Some(named.as_bytes()), "{path}");
        }
        assert_eq!(application(b"/workspace/x"), None);
    }
}
