//! The same file under a name that no rule speaks of: hard links and renames.

use turnkey_tests::Run;

use super::{guard, violations};

/// Kills for giving the secret another name, as for reading it.
const NAMES: &str = "[[rule]]
id = \"names\"
on = [\"open\", \"link\", \"rename\"]
path = \"/workspace/secret\"
action = \"kill\"
severity = \"high\"
";

fn jail(sections: &str) -> Run {
    Run::new().file("secret", "hidden\n").profile(sections)
}

fn is_survived(evasions: &[&str]) {
    for evasion in evasions {
        let control = jail(&guard("/workspace/secret")).shell(evasion);
        control.expect(
            control.stdout.contains("hidden"),
            &format!("the control: a rule on open alone does not see {evasion}"),
        );
        let ran = jail(NAMES).shell(evasion);
        ran.expect_code(121);
        ran.expect(!ran.stdout.contains("hidden"), evasion);
        let told = violations(&ran, "names").any(|one| {
            one["path"]
                .as_str()
                .is_some_and(|path| path.ends_with("secret"))
        });
        ran.expect(told, "and it is told");
    }
}

#[test]
fn m05_a_hard_link_to_a_guarded_file_kills() {
    is_survived(&[
        "ln secret alias; cat alias",
        "cd /tmp; ln /workspace/../workspace/secret /workspace/alias; cat /workspace/alias",
        "python3 -c \"import os; d = os.open('.', os.O_PATH); os.link('secret', 'alias', src_dir_fd=d, dst_dir_fd=d)\"; cat alias",
    ]);
}

#[test]
fn m06_a_new_name_of_a_guarded_file_kills() {
    is_survived(&[
        "mv secret alias; cat alias",
        "mv -T --exchange secret other 2>/dev/null || mv secret other; cat other",
        ": > other; python3 -c \"import ctypes; ctypes.CDLL(None).renameat2(-100, b'secret', -100, b'other', 2)\"; cat other",
    ]);
}

/// A workspace with a private key, under a profile that comes with turnkey.
fn with_a_key() -> Run {
    let run = Run::new();
    std::fs::create_dir(run.path().join(".ssh")).expect("a test can write its own directory");
    run.file(".ssh/id_rsa", "hidden")
}

#[test]
fn m05_m06_the_shipped_rules_know_of_other_names() {
    for evasion in ["ln .ssh/id_rsa a; cat a", "mv .ssh/id_rsa a; cat a"] {
        let free = with_a_key().option("--mode observe").shell(evasion);
        free.expect(
            free.stdout == "hidden",
            "the control: nothing else stops it",
        );
        let ran = with_a_key().shell(evasion);
        ran.expect_code(121);
        ran.expect(!ran.stdout.contains("hidden"), evasion);
        ran.expect(violations(&ran, "private-key").count() == 1, "told once");
    }
}
