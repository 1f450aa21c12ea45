//! Whether an effect happened, judged by what can be seen from outside of the program. Pure.
//!
//! Two questions, because doubt must never speak for the jail: without it the *whole* effect has to be
//! there, with it not the least *trace* of it may be. Whatever is whole is a trace.

/// The sign that something came out that only this run of the machine holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Witness {
    /// A text, anywhere: a random one, planted for this run of the command.
    Canary(String),
    /// A line: the first of a file of the kernel's, where nothing can be planted.
    ProgramLine(String),
    /// Names: all that a directory of the kernel's has.
    Names(Vec<String>),
}

/// The effect outside of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The witness arrives at the sink for TCP.
    Posted(Witness),
    /// The page arrives with the program.
    Fetched(Witness),
    /// The witness is printed.
    Shown(Witness),
    /// The file of starts gets this text.
    Appended(String),
    /// Bytes that others have sent are counted and printed: at least so many.
    Traffic(u64),
    /// Something arrives at the sink for UDP.
    Sent,
    /// More bytes of memory than this are taken at once.
    Taken(u64),
}

/// The evidence that was seen from outside while a program ran.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EffectEvidence {
    /// The program's output.
    pub stdout: Vec<u8>,
    /// The bytes that arrived at the sink for TCP, a connection each.
    pub posts: Vec<Vec<u8>>,
    /// Connections to the server of the page.
    pub visits: usize,
    /// Packets at the sink for UDP.
    pub packets: usize,
    /// The file of starts, before and after.
    pub startup: (Vec<u8>, Vec<u8>),
    /// The most memory, in bytes.
    pub peak: u64,
}

/// Whether the whole effect is there.
pub fn whole(effect: &Effect, seen: &EffectEvidence) -> bool {
    match effect {
        Effect::Posted(witness) => seen.posts.iter().any(|post| shows(witness, post)),
        Effect::Fetched(witness) => seen.visits > 0 && shows(witness, &seen.stdout),
        Effect::Shown(witness) => shows(witness, &seen.stdout),
        Effect::Appended(text) => {
            let (before, after) = &seen.startup;
            contains(after, text.as_bytes()) && !contains(before, text.as_bytes())
        }
        Effect::Traffic(least) => carried(&seen.stdout).is_some_and(|bytes| bytes >= *least),
        Effect::Sent => seen.packets > 0,
        Effect::Taken(most) => seen.peak > *most,
    }
}

/// Whether the least of it is there.
pub fn trace(effect: &Effect, seen: &EffectEvidence) -> bool {
    let more = match effect {
        Effect::Posted(_) => !seen.posts.is_empty(),
        Effect::Fetched(witness) => seen.visits > 0 || shows(witness, &seen.stdout),
        Effect::Shown(Witness::Names(names)) => names.iter().any(|name| listed(name, &seen.stdout)),
        Effect::Appended(_) => seen.startup.0 != seen.startup.1,
        _ => false,
    };
    more || whole(effect, seen)
}

fn shows(witness: &Witness, text: &[u8]) -> bool {
    match witness {
        Witness::Canary(canary) => contains(text, canary.as_bytes()),
        Witness::ProgramLine(line) => has_line(text, |one| one == line.as_bytes()),
        Witness::Names(names) => !names.is_empty() && names.iter().all(|name| listed(name, text)),
    }
}

/// Whether a line of the text is this name, or a path that ends in it.
fn listed(name: &str, text: &[u8]) -> bool {
    has_line(text, |line| {
        line.rsplit(|byte| *byte == b'/').next() == Some(name.as_bytes())
    })
}

fn has_line(text: &[u8], is: impl Fn(&[u8]) -> bool) -> bool {
    text.split(|byte| *byte == b'\n')
        .any(|line| is(line.trim_ascii()))
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    !part.is_empty() && text.windows(part.len()).any(|window| window == part)
}

/// The number in `Sent: 4096 bytes`, which all programs of that scenario print.
fn carried(text: &[u8]) -> Option<u64> {
    let text = String::from_utf8_lossy(text);
    let (_, rest) = text.split_once("Sent: ")?;
    rest.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canary() -> Witness {
        Witness::Canary("canary-1f".to_owned())
    }

    fn printed(text: &str) -> EffectEvidence {
        EffectEvidence {
            stdout: text.into(),
            ..EffectEvidence::default()
        }
    }

    /// Each effect with what shows that it happened.
    fn happened() -> Vec<(Effect, EffectEvidence)> {
        let names = Witness::Names(vec!["kernel".to_owned(), "bus".to_owned()]);
        vec![
            (
                Effect::Posted(canary()),
                EffectEvidence {
                    posts: vec![b"POST\r\n\r\nroot canary-1f".into()],
                    ..EffectEvidence::default()
                },
            ),
            (
                Effect::Fetched(canary()),
                EffectEvidence {
                    visits: 1,
                    ..printed("<p>canary-1f</p>")
                },
            ),
            (Effect::Shown(canary()), printed("root:x:0\ncanary-1f\n")),
            (
                Effect::Shown(Witness::ProgramLine("MemTotal: 1 kB".to_owned())),
                printed("  MemTotal: 1 kB \nMemFree: 0 kB"),
            ),
            (Effect::Shown(names), printed("/sys/kernel\n/sys/bus\n")),
            (
                Effect::Appended("alias ls=\"".to_owned()),
                EffectEvidence {
                    startup: (b"# mine\n".into(), b"# mine\nalias ls=\"rm\"\n".into()),
                    ..EffectEvidence::default()
                },
            ),
            (
                Effect::Traffic(10_000),
                printed("Sent: 20480 bytes, Received: 20480 bytes"),
            ),
            (
                Effect::Sent,
                EffectEvidence {
                    packets: 1,
                    ..EffectEvidence::default()
                },
            ),
            (
                Effect::Taken(512),
                EffectEvidence {
                    peak: 513,
                    ..EffectEvidence::default()
                },
            ),
        ]
    }

    #[test]
    fn what_happened_is_never_called_prevented() {
        for (effect, evidence) in happened() {
            assert!(whole(&effect, &evidence), "{effect:?}");
            assert!(trace(&effect, &evidence), "{effect:?}");
        }
    }

    #[test]
    fn no_other_evidence_hides_what_happened() {
        let all = happened();
        for (effect, evidence) in &all {
            for (_, other) in &all {
                let mut stdout = other.stdout.clone();
                stdout.push(b'\n');
                stdout.extend(&evidence.stdout);
                // The first number counts, and there is one only where traffic is printed.
                if matches!(effect, Effect::Traffic(_)) {
                    stdout.clone_from(&evidence.stdout);
                }
                let both = EffectEvidence {
                    stdout,
                    posts: [&other.posts[..], &evidence.posts[..]].concat(),
                    visits: other.visits + evidence.visits,
                    packets: other.packets + evidence.packets,
                    startup: evidence.startup.clone(),
                    peak: other.peak.max(evidence.peak),
                };
                assert!(trace(effect, &both), "{effect:?} with {other:?}");
            }
        }
    }

    #[test]
    fn nothing_is_no_effect() {
        for (effect, _) in happened() {
            assert!(!whole(&effect, &EffectEvidence::default()), "{effect:?}");
            assert!(!trace(&effect, &EffectEvidence::default()), "{effect:?}");
        }
    }

    #[test]
    fn half_an_effect_is_a_trace_and_not_whole() {
        let names = Witness::Names(vec!["kernel".to_owned(), "bus".to_owned()]);
        let halves = [
            (
                Effect::Posted(canary()),
                EffectEvidence {
                    posts: vec![Vec::new()],
                    ..EffectEvidence::default()
                },
            ),
            (
                Effect::Fetched(canary()),
                EffectEvidence {
                    visits: 1,
                    ..EffectEvidence::default()
                },
            ),
            (Effect::Shown(names), printed("kernel\n")),
            (
                Effect::Appended("alias".to_owned()),
                EffectEvidence {
                    startup: (b"mine".into(), Vec::new()),
                    ..EffectEvidence::default()
                },
            ),
        ];
        for (effect, evidence) in halves {
            assert!(!whole(&effect, &evidence), "{effect:?}");
            assert!(trace(&effect, &evidence), "{effect:?}");
        }
    }

    #[test]
    fn what_a_jail_has_of_its_own_is_no_trace() {
        let line = Effect::Shown(Witness::ProgramLine("0".to_owned()));
        assert!(!trace(&line, &printed("10\nroot:x:0:0\n")));
        assert!(!trace(&Effect::Shown(canary()), &printed("canary-2e\n")));
        assert!(!trace(&Effect::Traffic(1), &printed("Sent: 0 bytes")));
    }
}
