//! Courses of attempts over time, beyond what any single attempt shows: their names, and
//! what each weighs. Who recognises them is the monitor's side; docs/behaviours.md defines them.

use crate::model::Severity;

/// A course of acts that has a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Behaviour {
    /// Goes after secrets of several kinds, or takes a decoy.
    CredentialAccess,
    /// Asks in a burst what machine, user and network it is on.
    Discovery,
    /// Ties a shell to a connection.
    ReverseShell,
    /// Executes what came over the network.
    DownloadExecute,
    /// Executes what no directory names.
    FilelessExecution,
    /// Tries ports or hosts one after the other.
    PortScan,
    /// Reads a secret, then speaks to the network.
    Exfiltration,
    /// Carries data in the names that it asks for.
    DnsTunnel,
    /// Deletes, overwrites or renames files that it did not make, many and of many kinds.
    MassChange,
    /// Writes what would run later by itself.
    Persistence,
    /// Tries to become another user or to gain capabilities.
    PrivilegeEscalation,
    /// Reaches for what lies outside of every jail.
    JailEscape,
    /// Takes all it can have of memory, processes or disk.
    Exhaustion,
    /// Removes itself, looks for a jail or a virtual machine, or waits until nobody looks.
    Evasion,
    /// Ends processes that it did not start.
    ProcessKilling,
    /// Brings code into other programs, by the loader or by their libraries.
    Injection,
    /// Changes what belongs to the system, or to somebody's home.
    SystemChange,
    /// Lists directories of the system, and does nothing with what is in them.
    FileDiscovery,
    /// Reads the list of accounts itself, or a copy of it.
    AccountDiscovery,
}

impl Behaviour {
    /// The severity of one sighting of the behaviour, at most.
    #[must_use]
    pub const fn severity(self) -> Severity {
        match self {
            Self::ReverseShell | Self::Exfiltration | Self::JailEscape => Severity::Critical,
            Self::CredentialAccess
            | Self::DownloadExecute
            | Self::FilelessExecution
            | Self::DnsTunnel
            | Self::MassChange
            | Self::Persistence
            | Self::Injection
            | Self::ProcessKilling
            | Self::SystemChange
            | Self::FileDiscovery
            | Self::AccountDiscovery => Severity::High,
            // Scripts that were written for another machine call sudo, too.
            Self::PrivilegeEscalation | Self::PortScan | Self::Discovery | Self::Exhaustion => {
                Severity::Medium
            }
            Self::Evasion => Severity::Low,
        }
    }

    /// The MITRE ATT&CK technique.
    #[must_use]
    pub const fn technique(self) -> &'static str {
        match self {
            Self::CredentialAccess => "T1552",
            Self::Discovery => "T1082",
            Self::ReverseShell => "T1059.004",
            Self::DownloadExecute => "T1105",
            Self::FilelessExecution => "T1620",
            Self::PortScan => "T1046",
            Self::Exfiltration => "T1048",
            Self::DnsTunnel => "T1071.004",
            Self::MassChange => "T1486",
            Self::Persistence => "T1546",
            Self::PrivilegeEscalation => "T1548",
            Self::JailEscape => "T1611",
            Self::Exhaustion => "T1499",
            Self::Evasion => "T1497",
            Self::ProcessKilling => "T1489",
            Self::Injection => "T1574",
            Self::SystemChange => "T1565.001",
            Self::FileDiscovery => "T1083",
            Self::AccountDiscovery => "T1087.001",
        }
    }

    /// One sentence for people.
    #[must_use]
    pub const fn about(self) -> &'static str {
        match self {
            Self::CredentialAccess => "goes after secrets of several kinds, or takes a decoy",
            Self::Discovery => "asks in a burst what machine, user and network it is on",
            Self::ReverseShell => "ties a shell to a connection, for somebody far away",
            Self::DownloadExecute => "executes what came over the network",
            Self::FilelessExecution => "executes what no directory names",
            Self::PortScan => "tries ports or hosts one after the other",
            Self::Exfiltration => "reads a secret, then speaks to the network",
            Self::DnsTunnel => "carries data in the names that it asks for",
            Self::MassChange => {
                "deletes, overwrites or renames files that it did not make, many and of many kinds"
            }
            Self::Persistence => "writes what would run later by itself",
            Self::PrivilegeEscalation => "tries to become another user or to gain capabilities",
            Self::JailEscape => "reaches for what lies outside of every jail",
            Self::Exhaustion => "takes all it can have of memory, processes or disk",
            Self::Evasion => {
                "removes itself, looks for a jail or a virtual machine, or waits until nobody looks"
            }
            Self::ProcessKilling => "ends processes that it did not start",
            Self::Injection => "brings code into other programs",
            Self::SystemChange => "changes what belongs to the system, or to somebody's home",
            Self::FileDiscovery => {
                "lists directories of the system, and does nothing with what is in them"
            }
            Self::AccountDiscovery => "reads the list of accounts itself, or a copy of it",
        }
    }
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

/// A finding that is known and no reason for suspicion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcceptedFinding {
    /// The finding's id: a rule's, `behaviour:…` or `turnkey:…`.
    pub finding: String,
    /// The reason why the finding is no cause for suspicion.
    pub why: String,
    /// The last day on which it is accepted, in UTC.
    pub until: time::Date,
}
