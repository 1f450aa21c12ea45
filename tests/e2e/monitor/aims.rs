//! What a symlink leads to: making one changes nothing of it, and whoever follows it changes what it leads to.

use super::violations;
use turnkey_tests::{Ran, Run};

/// True where what a symlink leads to is told when it is made, as acts on names are known by their arguments alone.
fn by_arguments(ran: &Ran) -> bool {
    let mut layers = ran.list("/enforcement").iter();
    layers.any(|layer| {
        let effective = layer["effective"].as_str().unwrap_or_default();
        layer["layer"] == "monitor" && effective.contains("by their arguments")
    })
}

/// Suites of tests, package builds and unpacked systems are full of them.
#[test]
fn a_symlink_to_what_a_rule_guards_is_a_preparation_at_most() {
    for program in [
        "os.symlink('/etc/passwd', 'x'); os.remove('x')",
        "os.symlink('/etc', 'x'); os.symlink('/var/log', 'logs'); os.remove('logs')",
        "os.symlink('/etc/shadow', 'a'); os.symlink('/root/.ssh/id_rsa', 'b'); os.symlink('/etc/ld.so.preload', 'c')",
        "os.symlink('../etc/passwd', 'x'); os.mkdir('d'); os.rename('x', 'd/x')",
        "open('f', 'w').close(); os.link('f', 'g'); os.symlink('f', 's'); os.system('cp -rl g h')",
    ] {
        let ran = Run::new().python(&format!("import os; {program}"));
        ran.expect_code(0);
        let score = ran.at("/risk_score").as_u64().unwrap_or(u64::MAX);
        ran.expect(score <= 10, program);
        if by_arguments(&ran) {
            ran.expect(ran.at("/verdict") == "suspicious", "it is told");
            let said = ran.stderr.contains("it had its effect");
            ran.expect(!said, "and nothing is said to be changed");
        }
    }
}

#[test]
fn what_follows_a_symlink_counts_for_what_it_leads_to() {
    let tried = "import ctypes, os
def linked(name):
    ctypes.CDLL(None).linkat(-100, name.encode(), -100, b'second', 0x400)
def tried(act, *given):
    try: act(*given)
    except OSError as error: print(error)
";
    for program in [
        "os.symlink('/etc/passwd', 'x'); tried(os.truncate, 'x', 0)",
        "os.symlink('/etc', 'x'); tried(os.truncate, 'x/passwd', 0)",
        "os.symlink('/etc', 'x'); os.symlink('x/passwd', 'y'); tried(os.truncate, 'y', 0)",
        "os.symlink('/etc/passwd', 'x'); os.mkdir('d'); os.rename('x', 'd/y'); tried(os.truncate, 'd/y', 0)",
        "os.mkdir('d'); os.symlink('/etc/passwd', 'd/x'); os.rename('d', 'e'); tried(os.truncate, 'e/x', 0)",
        "os.symlink('/etc', 'x'); tried(os.rename, 'x/passwd', 'x/old')",
        "os.symlink('/etc/passwd', 'x'); tried(open, 'x', 'a')",
        "os.symlink('/etc/passwd', 'x'); tried(linked, 'x')",
    ] {
        let ran = Run::new().python(&format!("{tried}{program}"));
        ran.expect(ran.at("/verdict") == "violated", program);
        if by_arguments(&ran) {
            let mut told = violations(&ran, "account-change");
            let named = told.any(|one| one["path"] == "/etc/passwd");
            ran.expect(named, program);
        }
    }
    // What no rule guards is the system's all the same.
    let changed = "os.symlink('/etc/hosts', 'x'); tried(os.chmod, 'x', 0o666)";
    let ran = Run::new().python(&format!("{tried}{changed}"));
    let mut found = ran.list("/findings").iter().map(|one| &one["id"]);
    ran.expect(found.any(|id| id == "behaviour:system-change"), changed);
}

#[test]
fn a_rename_behind_a_symlink_is_of_what_it_moves() {
    let program = "import os
os.symlink('s1', 'new'); os.mkdir('d'); os.symlink('d', 'dl')
open('plain', 'w').close(); os.rename('plain', 'dl/n')
os.chmod('dl/n', 0o600); os.mkdir('e'); os.rename('e', 'dl/e'); os.link('dl/n', 'dl/m'); os.link('d/n', 'dl/o', follow_symlinks=False)
print(sorted(os.listdir('d')))";
    let ran = Run::new().python(program);
    ran.expect_code(0);
    ran.expect(
        ran.stdout == "['e', 'm', 'n', 'o']\n",
        "the control: all is done",
    );
    ran.expect(ran.violations().is_empty(), "nothing is told of it");
}
