//! Courses of attempts over time, beyond what any single attempt shows: each is declared here, once. `turnkey_analysis` recognises
//! them; docs/behaviours.md defines them.

use std::collections::BTreeMap;

use crate::keys::{ProfileKey, ValueForm, WiderValue, key, words};
use crate::model::Severity;
use crate::names::names;
use crate::read::SectionReader;
use crate::values;

/// Declares the behaviours. From one row for each follow the variant with its name, weight and words, and the key of `[behaviour]`.
macro_rules! behaviours {
    ($($variant:ident {
        name: $name:literal, severity: $severity:ident, technique: $technique:literal,
        about: $about:literal,
    })+) => {
        /// A course of acts that has a name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Behaviour {
            $(#[doc = $about] $variant,)+
        }

        names!(Behaviour { $($variant => $name),+ });

        impl Behaviour {
            /// The severity of one sighting of the behaviour, at most.
            #[must_use]
            pub const fn severity(self) -> Severity {
                match self {
                    $(Self::$variant => Severity::$severity,)+
                }
            }

            /// The MITRE ATT&CK technique.
            #[must_use]
            pub const fn technique(self) -> &'static str {
                match self {
                    $(Self::$variant => $technique,)+
                }
            }

            /// One sentence for people.
            #[must_use]
            pub const fn about(self) -> &'static str {
                match self {
                    $(Self::$variant => $about,)+
                }
            }
        }

        /// The keys of `[behaviour]`.
        pub(crate) const KEYS: &[ProfileKey] = &[$(
            ProfileKey {
                wider: WiderValue::Later(&["kill", "log", "off"]),
                ..key(
                    "behaviour",
                    $name,
                    ValueForm::Word(words::<BehaviourResponse>),
                    "`log`",
                    concat!("the action when the program ", $about),
                )
            },
        )+];
    };
}

behaviours! {
    CredentialAccess {
        name: "credential-access", severity: High, technique: "T1552",
        about: "goes after secrets of several kinds, or takes a decoy",
    }
    Discovery {
        name: "discovery", severity: Medium, technique: "T1082",
        about: "asks in a burst what machine, user and network it is on",
    }
    ReverseShell {
        name: "reverse-shell", severity: Critical, technique: "T1059.004",
        about: "ties a shell to a network connection",
    }
    DownloadExecute {
        name: "download-execute", severity: High, technique: "T1105",
        about: "executes what came over the network",
    }
    FilelessExecution {
        name: "fileless-execution", severity: High, technique: "T1620",
        about: "executes what no directory names",
    }
    PortScan {
        name: "port-scan", severity: Medium, technique: "T1046",
        about: "tries ports or hosts one after the other",
    }
    Exfiltration {
        name: "exfiltration", severity: Critical, technique: "T1048",
        about: "reads a secret, then speaks to the network, or sends one",
    }
    DnsTunnel {
        name: "dns-tunnel", severity: High, technique: "T1071.004",
        about: "carries data in the names that it asks for",
    }
    MassChange {
        name: "mass-change", severity: High, technique: "T1486",
        about: "deletes, overwrites or renames files that it did not make, many and of many kinds",
    }
    Persistence {
        name: "persistence", severity: High, technique: "T1546",
        about: "writes what would run later by itself",
    }
    // Medium: scripts that were written for another machine call sudo, too.
    PrivilegeEscalation {
        name: "privilege-escalation", severity: Medium, technique: "T1548",
        about: "tries to become another user or to gain capabilities",
    }
    JailEscape {
        name: "jail-escape", severity: Critical, technique: "T1611",
        about: "reaches for what lies outside of every jail",
    }
    Exhaustion {
        name: "exhaustion", severity: Medium, technique: "T1499",
        about: "takes all it can have of memory, processes or disk",
    }
    // High: a program that is refused one task too many stops, or waits; it does not ask as often again as it was given.
    ForkBomb {
        name: "fork-bomb", severity: High, technique: "T1499.001",
        about: "goes on starting tasks when it is refused",
    }
    Evasion {
        name: "evasion", severity: Low, technique: "T1497",
        about: "removes itself, looks for a jail or a virtual machine, or waits before it acts",
    }
    ProcessKilling {
        name: "process-killing", severity: High, technique: "T1489",
        about: "ends processes that it did not start",
    }
    DefenseImpairment {
        name: "defense-impairment", severity: High, technique: "T1562",
        about: "turns off what protects or watches the machine: firewall, audit, access control",
    }
    Capture {
        name: "capture", severity: High, technique: "T1056",
        about: "takes what others type, see, say or send: packets, screen, clipboard, keys, camera, microphone",
    }
    Injection {
        name: "injection", severity: High, technique: "T1574",
        about: "brings code into other programs",
    }
    SystemChange {
        name: "system-change", severity: High, technique: "T1565.001",
        about: "changes files of the system, or of a user's home",
    }
    FileDiscovery {
        name: "file-discovery", severity: High, technique: "T1083",
        about: "lists directories of the system, and does nothing with what is in them",
    }
    AccountDiscovery {
        name: "account-discovery", severity: High, technique: "T1087.001",
        about: "reads the list of accounts itself, or a copy of it",
    }
}

/// Reads `[behaviour]`: the responses that are given.
pub(crate) fn read(
    section: &mut SectionReader<'_, '_, '_>,
) -> BTreeMap<Behaviour, BehaviourResponse> {
    let given = |behaviour: &Behaviour| {
        let response = section.value(behaviour.name(), values::word)?;
        Some((*behaviour, response.value))
    };
    Behaviour::ALL.iter().filter_map(given).collect()
}

/// The response to a behaviour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BehaviourResponse {
    /// The behaviour is not looked for.
    Off,
    /// A finding in the report.
    Log,
    /// A finding, and the jail is killed as soon as the behaviour is recognised: by turnkey, after the act.
    Kill,
}

names!(BehaviourResponse { Off => "off", Log => "log", Kill => "kill" });
