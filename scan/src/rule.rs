//! The rules: what each is called, which technique it is of, and how much it weighs.

/// One class of what a script may do.
#[derive(Debug, PartialEq, Eq)]
pub struct Rule {
    /// The rule's name.
    pub id: &'static str,
    /// The technique of MITRE ATT&CK.
    pub technique: Option<&'static str>,
    /// The share of a hundred that it takes of what was not suspicious so far.
    pub weight: u32,
    /// One line for documents and other programs.
    pub title: &'static str,
}

/// Those that say of a script that it was not looked at, or not at all of it.
pub const UNREAD: &[&Rule] = &[
    &NOT_PARSED,
    &TOO_LARGE,
    &TOO_NESTED,
    &TOO_MUCH_WORK,
    &NOT_TEXT,
];

macro_rules! rules {
    ($($name:ident $id:literal $technique:expr, $weight:literal, $title:literal;)*) => {
        $(#[doc = $title] pub const $name: Rule = Rule { id: $id, technique: $technique, weight: $weight, title: $title };)*
        /// Every rule.
        pub const ALL: &[&Rule] = &[$(&$name),*];
    };
}

rules! {
    EXECUTES_DECODED "executes-decoded" Some("T1140"), 80, "Code is decoded and executed";
    EXECUTES_OPAQUE "executes-opaque" Some("T1027"), 75, "Code that has no text is executed";
    EXECUTES_DOWNLOADED "executes-downloaded" Some("T1105"), 85, "Something is downloaded and executed";
    RUNS_REMOTE_COMMANDS "runs-remote-commands" Some("T1059"), 85, "Commands that come over the network are run";
    REVERSE_SHELL "reverse-shell" Some("T1059"), 95, "A shell is connected to the network";
    EXECUTES_TEXT "executes-text" Some("T1059"), 6, "A text that is put together while running is executed as code";
    HIDES_NAME "hides-name" Some("T1027"), 55, "A name or command is put together so that it cannot be searched for";
    HIDES_TEXT "hides-text" Some("T1027"), 8, "A long literal holds encoded data";
    UNPICKLES_REMOTE "unpickles-remote" Some("T1059"), 60, "Objects that come over the network are unpickled";
    READS_SECRET "reads-secret" Some("T1552.001"), 50, "A file that holds secrets is read";
    READS_SYSTEM_FILE "reads-system-file" Some("T1005"), 18, "A file of the system's settings or state is read";
    TRAVERSES_PATH "traverses-path" Some("T1083"), 40, "A path leaves its directory by `..` for a file of the system";
    LISTS_SYSTEM "lists-system" Some("T1083"), 22, "A directory of the system is listed";
    WATCHES_SYSTEM "watches-system" Some("T1083"), 25, "Changes below a directory of the system are watched";
    WATCHES_MACHINE "watches-machine" Some("T1082"), 20, "The load or the network of the machine is observed";
    WATCHES_USER "watches-user" Some("T1113"), 55, "The clipboard, the screen, the keyboard, a camera or a microphone is observed";
    SENDS_SECRET "sends-secret" Some("T1048"), 85, "A secret is sent over the network";
    SENDS_FILE "sends-file" Some("T1048"), 45, "A file of the machine is sent over the network";
    SENDS_ENVIRONMENT "sends-environment" Some("T1048"), 55, "The environment is sent over the network";
    CONNECTS_TO_NUMBER "connects-to-number" Some("T1095"), 25, "A connection is made to an address that is written in numbers";
    SENDS_TO_NUMBER "sends-to-number" Some("T1095"), 30, "Data is sent to an address that is written in numbers";
    FETCHES_FIXED "fetches-fixed" Some("T1071"), 15, "A page is fetched whose address is written in the script";
    FETCHES_NUMBER "fetches-number" Some("T1071"), 30, "A page is fetched from an address that is written in numbers";
    PERSISTS "persists" Some("T1546"), 55, "Something is written that runs later by itself";
    SCHEDULES "schedules" Some("T1053"), 40, "A later or repeated run is arranged for";
    WRITES_SYSTEM "writes-system" Some("T1565.001"), 22, "A file of the system is written";
    DESTROYS "destroys" Some("T1485"), 70, "Files of the system or of users, or a disk, are destroyed";
    ENCRYPTS "encrypts" Some("T1486"), 65, "Files are encrypted and the originals removed";
    ADDS_ACCOUNT "adds-account" Some("T1136.001"), 20, "An account is made or its password set";
    LOADS_MODULE "loads-module" Some("T1547.006"), 35, "A kernel module is loaded";
    GRANTS_ROOT "grants-root" Some("T1548"), 55, "A program is given the rights of its owner";
    WEAKENS_DEFENCES "weakens-defences" Some("T1562.001"), 50, "A firewall, an audit or another protection is switched off";
    REMOVES_TRACES "removes-traces" Some("T1070"), 45, "A history or a log is removed";
    FORKS_WITHOUT_END "forks-without-end" Some("T1499.001"), 80, "Processes are made without end";
    FILLS_MEMORY "fills-memory" Some("T1499"), 35, "Memory is filled in a loop";
    EXPANDS "expands" Some("T1499"), 35, "Compressed data grows a hundredfold, to more than is looked at";
    ACTS_BY_DATE "acts-by-date" Some("T1480"), 55, "Something grave happens only from or until a date";
    PROBES_SANDBOX "probes-sandbox" Some("T1497"), 25, "The script looks whether it runs in a jail or a virtual machine";
    INJECTS "injects" Some("T1055"), 60, "Code is put into memory or into other processes";
    FILELESS "fileless" Some("T1620"), 60, "A program is run from memory";
    ESCAPES "escapes" Some("T1611"), 60, "A file is used that reaches past a jail";
    HIJACKS_LIBRARIES "hijacks-libraries" Some("T1574.006"), 50, "A library is forced into other programs";
    SCANS_NETWORK "scans-network" Some("T1046"), 40, "Ports or hosts are tried one after the other";
    MINES "mines" Some("T1496"), 75, "A mining pool is addressed";
    IMPORT_NOT_ALLOWED "import-not-allowed" None, 40, "A module is imported that is not in the list of allowed ones";
    NOT_PARSED "not-parsed" None, 25, "The text is not in the language that it is taken for";
    TOO_LARGE "too-large" None, 25, "The text is too large to be looked at";
    TOO_NESTED "too-nested" Some("T1027"), 45, "The text is nested too deeply to be looked at";
    TOO_MUCH_WORK "too-much-work" Some("T1027"), 30, "The text takes too much work to be looked at";
    NOT_TEXT "not-text" None, 25, "The file is no text";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_has_a_name_of_its_own_and_a_weight_below_certainty() {
        for (index, rule) in ALL.iter().enumerate() {
            assert!(
                ALL[..index].iter().all(|other| other.id != rule.id),
                "{}",
                rule.id
            );
            assert!((1..100).contains(&rule.weight), "{}", rule.id);
        }
    }

    #[test]
    fn the_page_lists_each_rule_as_it_is() {
        let page = include_str!("../../docs/scan.md");
        for rule in ALL {
            let technique = rule.technique.unwrap_or("–");
            let row = format!(
                "| `{}` | {technique} | {} | {} |",
                rule.id, rule.weight, rule.title
            );
            assert!(page.contains(&row), "docs/scan.md lacks {row}");
        }
        let rows = page.lines().filter(|line| line.starts_with("| `"));
        assert_eq!(rows.count(), ALL.len());
    }
}
