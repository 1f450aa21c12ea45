//! What `turnkey doctor` says of the monitor, on a kernel that was started with BPF LSM and on one
//! that was started without it. The lines that begin with `told:` are for the table of kernels.

use std::process::Command;

use serde_json::Value;
use turnkey_tests::binary;

/// What the doctor finds here, told for the table.
fn doctor() -> Vec<Value> {
    let output = Command::new(binary())
        .args(["doctor", "--json"])
        .output()
        .unwrap();
    let object: Value = serde_json::from_slice(&output.stdout).unwrap();
    let findings = object["findings"].as_array().unwrap().clone();
    for check in ["monitor-tier", "monitor", "default-profile"] {
        if let Some(finding) = findings.iter().find(|it| it["check"] == check) {
            eprintln!("told: {check}: {}", finding["found"].as_str().unwrap());
        }
    }
    findings
}

fn find<'a>(findings: &'a [Value], check: &str) -> &'a Value {
    let found = findings.iter().find(|finding| finding["check"] == check);
    found.unwrap_or_else(|| panic!("no check is called {check}: {findings:#?}"))
}

/// The hooks of the monitor that the kernel names nowhere among its functions.
fn unknown_to_the_kernel(hooks: &[&str]) -> Vec<String> {
    let symbols = std::fs::read_to_string("/proc/kallsyms").unwrap();
    let names: Vec<_> = symbols
        .lines()
        .filter_map(|line| line.split_whitespace().nth(2))
        .collect();
    let unknown = hooks
        .iter()
        .filter(|hook| !names.contains(&format!("bpf_lsm_{hook}").as_str()));
    unknown.map(|hook| (*hook).to_owned()).collect()
}

mod lsm {
    use super::*;

    #[test]
    fn doctor_shows_the_lsm_tier_and_names_the_hooks_that_the_kernel_lacks() {
        let findings = doctor();
        let tier = find(&findings, "monitor-tier");
        let found = tier["found"].as_str().unwrap();
        assert!(found.starts_with("lsm, with"), "{tier}");
        assert_eq!(find(&findings, "monitor")["state"], "ok", "{findings:#?}");
        match found.split_once("this kernel has no ") {
            None => assert_eq!(tier["state"], "ok"),
            Some((_, missing)) => {
                assert_eq!(tier["state"], "limited");
                let missing: Vec<_> = missing.split(", ").collect();
                assert_eq!(unknown_to_the_kernel(&missing), missing, "they lack");
            }
        }
        let there = ["file_open", "bprm_check_security", "path_unlink"];
        assert!(unknown_to_the_kernel(&there).is_empty(), "the control");
    }
}

mod tracepoint {
    use super::*;

    #[test]
    fn doctor_shows_the_tracepoint_tier_and_how_to_have_the_other() {
        let findings = doctor();
        let tier = find(&findings, "monitor-tier");
        assert_eq!(tier["state"], "limited");
        let found = tier["found"].as_str().unwrap();
        assert!(found.starts_with("tracepoint; not the lsm tier"), "{tier}");
        assert!(found.contains("`bpf` is not among"), "{tier}");
        let fix = tier["fix"].as_str().unwrap();
        let list = std::fs::read_to_string("/sys/kernel/security/lsm").unwrap();
        assert!(fix.contains(&format!("lsm={},bpf", list.trim())), "{tier}");
        assert_eq!(find(&findings, "monitor")["state"], "ok", "{findings:#?}");
    }
}
