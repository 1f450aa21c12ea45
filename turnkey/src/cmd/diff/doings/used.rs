//! The use of a file or address, and the programs that used it.

use std::collections::BTreeSet;

use serde_json::Value;
use turnkey_policy::ActorPaths;

use crate::cmd::diff::NewEntry;
use turnkey_report::{escape, unescape};

/// Programs that are named.
const NAMED: usize = 3;

/// Uses of one file or address.
#[derive(Debug, Default)]
pub struct ReportedUse {
    /// The number of uses.
    pub count: u64,
    /// True when a use went well at least once.
    pub succeeded: bool,
    /// True when there was something each time, or the kernel did not say.
    pub is_there: bool,
    /// The programs that did so.
    by: BTreeSet<UsingProgram>,
}

/// A program, as far as the report knows it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum UsingProgram {
    /// Rules can be asked about it.
    Known {
        exe: Vec<u8>,
        script: Option<Vec<u8>>,
    },
    /// A script by a name that does not say where it is: rules take it for the worst.
    Script { name: Vec<u8> },
    /// A program that is not known, as in reports of earlier versions.
    Unknown,
}

/// The reason why a use is not allowed, and to whom.
pub struct DeniedUse {
    pub why: String,
    /// In words behind the count; empty when nothing is known of them.
    pub by: String,
}

impl DeniedUse {
    /// The act as an entry of what is new.
    pub fn entry(self, kind: &'static str, what: String) -> NewEntry {
        NewEntry {
            kind,
            what,
            why: self.why,
            key: String::new(),
        }
    }
}

impl ReportedUse {
    /// Takes in a row of a report.
    pub fn again(&mut self, row: &Value) {
        self.count += row["count"].as_u64().unwrap_or(1);
        self.succeeded |= row["result"] == "allowed";
        self.is_there |= row["errno"] != "ENOENT";
        let programs = row["programs"].as_array().into_iter().flatten();
        let known = self.by.len();
        self.by.extend(programs.filter_map(UsingProgram::read));
        if row["more_programs"] == true || self.by.len() == known && known == 0 {
            self.by.insert(UsingProgram::Unknown);
        }
    }

    /// The number of times and the programs, in brackets.
    pub fn told(&self, against: &DeniedUse) -> String {
        let vain = if self.succeeded {
            ""
        } else {
            "tried in vain, "
        };
        let by = &against.by;
        match self.count {
            1 => format!("({vain}once{by})"),
            count => format!("({vain}{count} times{by})"),
        }
    }

    /// Asks for each of those that did so; the first answer stands, and the others who get one are named with
    /// it.
    pub fn against(
        &self,
        why: impl Fn(Option<ActorPaths<'_>>) -> Option<String>,
    ) -> Option<DeniedUse> {
        let mut refused: Vec<&UsingProgram> = Vec::new();
        let mut first = None;
        for program in &self.by {
            if let Some(why) = why(program.actor()) {
                refused.push(program);
                first.get_or_insert(why);
            }
        }
        Some(DeniedUse {
            why: first?,
            by: named(&refused),
        })
    }
}

fn named(programs: &[&UsingProgram]) -> String {
    let names: BTreeSet<String> = programs.iter().filter_map(|one| one.name()).collect();
    let shown: Vec<&str> = names.iter().take(NAMED).map(String::as_str).collect();
    match (names.len(), names.len().saturating_sub(NAMED)) {
        (0, _) => String::new(),
        (_, 0) => format!(", by {}", shown.join(", ")),
        (_, more) => format!(", by {} and {more} more", shown.join(", ")),
    }
}

impl UsingProgram {
    fn read(row: &Value) -> Option<Self> {
        let exe = unescape(row["exe"].as_str()?);
        let script = row["script"].as_str().map(unescape);
        Some(match script {
            Some(name) if !name.starts_with(b"/") => Self::Script { name },
            script => Self::Known { exe, script },
        })
    }

    fn actor(&self) -> Option<ActorPaths<'_>> {
        match self {
            Self::Known { exe, script } => Some(ActorPaths {
                exe,
                script: script.as_deref(),
            }),
            Self::Script { .. } | Self::Unknown => None,
        }
    }

    /// For people: of a script its own, not that of who interprets it.
    fn name(&self) -> Option<String> {
        let path = match self {
            Self::Known { exe, script } => script.as_ref().unwrap_or(exe),
            Self::Script { name } => name,
            Self::Unknown => return None,
        };
        let last = path.rsplit(|byte| *byte == b'/').next();
        last.map(escape)
    }
}
