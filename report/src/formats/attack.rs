//! Names of MITRE ATT&CK's techniques (Enterprise, Linux): those of the shipped profiles, of the behaviours and of the
//! rules of scans.

/// The names, in the order of their ids.
const NAMES: &[(&str, &str)] = &[
    ("T1003", "OS Credential Dumping"),
    ("T1003.008", "/etc/passwd and /etc/shadow"),
    ("T1005", "Data from Local System"),
    ("T1006", "Direct Volume Access"),
    ("T1027", "Obfuscated Files or Information"),
    ("T1046", "Network Service Discovery"),
    ("T1048", "Exfiltration Over Alternative Protocol"),
    ("T1049", "System Network Connections Discovery"),
    ("T1053", "Scheduled Task/Job"),
    ("T1053.003", "Cron"),
    ("T1055", "Process Injection"),
    ("T1055.008", "Ptrace System Calls"),
    ("T1056", "Input Capture"),
    ("T1059", "Command and Scripting Interpreter"),
    ("T1059.004", "Unix Shell"),
    ("T1068", "Exploitation for Privilege Escalation"),
    ("T1070", "Indicator Removal"),
    ("T1071", "Application Layer Protocol"),
    ("T1071.004", "DNS"),
    ("T1082", "System Information Discovery"),
    ("T1083", "File and Directory Discovery"),
    ("T1087", "Account Discovery"),
    ("T1087.001", "Local Account"),
    ("T1095", "Non-Application Layer Protocol"),
    ("T1098", "Account Manipulation"),
    ("T1098.004", "SSH Authorized Keys"),
    ("T1105", "Ingress Tool Transfer"),
    ("T1113", "Screen Capture"),
    ("T1136", "Create Account"),
    ("T1136.001", "Local Account"),
    ("T1140", "Deobfuscate/Decode Files or Information"),
    ("T1480", "Execution Guardrails"),
    ("T1485", "Data Destruction"),
    ("T1486", "Data Encrypted for Impact"),
    ("T1489", "Service Stop"),
    ("T1496", "Resource Hijacking"),
    ("T1497", "Virtualization/Sandbox Evasion"),
    ("T1499", "Endpoint Denial of Service"),
    ("T1499.001", "OS Exhaustion Flood"),
    ("T1543", "Create or Modify System Process"),
    ("T1543.002", "Systemd Service"),
    ("T1546", "Event Triggered Execution"),
    ("T1546.004", "Unix Shell Configuration Modification"),
    ("T1547", "Boot or Logon Autostart Execution"),
    ("T1547.006", "Kernel Modules and Extensions"),
    ("T1548", "Abuse Elevation Control Mechanism"),
    ("T1548.003", "Sudo and Sudo Caching"),
    ("T1552", "Unsecured Credentials"),
    ("T1552.001", "Credentials In Files"),
    ("T1552.004", "Private Keys"),
    ("T1555", "Credentials from Password Stores"),
    ("T1555.003", "Credentials from Web Browsers"),
    ("T1562", "Impair Defenses"),
    ("T1562.001", "Disable or Modify Tools"),
    ("T1565", "Data Manipulation"),
    ("T1565.001", "Stored Data Manipulation"),
    ("T1571", "Non-Standard Port"),
    ("T1574", "Hijack Execution Flow"),
    ("T1574.006", "Dynamic Linker Hijacking"),
    ("T1611", "Escape to Host"),
    ("T1620", "Reflective Code Loading"),
];

/// The name of a technique; of one that only a profile of the caller's names, its id.
pub fn name(technique: &str) -> &str {
    let at = NAMES.binary_search_by_key(&technique, |(id, _)| id);
    at.map_or(technique, |at| NAMES[at].1)
}

#[cfg(test)]
mod tests {
    use turnkey_policy::{Overrides, SHIPPED, load};

    use super::*;

    fn has_name(technique: &str) -> bool {
        let above = technique
            .split_once('.')
            .map_or(technique, |(above, _)| above);
        name(technique) != technique && name(above) != above
    }

    #[test]
    fn every_technique_that_a_shipped_profile_or_a_behaviour_names_has_a_name() {
        assert!(NAMES.is_sorted_by_key(|(id, _)| *id));
        let no_files = |path: &str| Err(format!("{path} was asked for"));
        for (profile, _) in SHIPPED {
            let policy = load(profile, &no_files, &Overrides::default()).unwrap();
            let named = policy
                .rules
                .iter()
                .filter_map(|rule| rule.technique.as_deref());
            for technique in named {
                assert!(has_name(technique), "{profile}: {technique}");
            }
        }
        for behaviour in turnkey_policy::Behaviour::ALL {
            let technique = behaviour.technique();
            assert!(has_name(technique), "{}: {technique}", behaviour.name());
        }
        assert_eq!(name("T9999"), "T9999");
    }
}
