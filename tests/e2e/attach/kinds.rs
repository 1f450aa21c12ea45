//! Calls that a rule denies by their kind. A jail's filter refuses them, and an attachment has none: with BPF LSM its hooks do, and without
//! it the rule is refused.

use std::process::Command;

use turnkey_tests::{binary, scratch};

use super::{Attached, Others, OthersGroup, broken};

const DENIED: &str = r#"schema = "turnkey.profile/v1"
name = "kinds"
description = "Refuses tools of the kernel"
[network]
mode = "host"
why = "an attachment makes none"
[enforcement]
required = ["monitor"]
[[rule]]
id = "kernel-tool"
on = ["bpf", "keyring", "namespace"]
action = "deny"
severity = "high"
why = "nobody here needs them"
"#;

/// Makes a map, a key and a user namespace when asked to, and says what came of each: a number of the kernel's.
const MAKES: &str = "
import ctypes, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *arguments):
    result = libc.syscall(number, *arguments)
    return 'made' if result >= 0 else os.strerror(ctypes.get_errno())
print('ready', flush=True)
for line in sys.stdin:
    if line.strip() == 'end':
        break
    attributes = ctypes.create_string_buffer(struct.pack('IIIII', 2, 4, 4, 1, 0), 120)
    made = [call(321, 0, attributes, len(attributes))]
    made.append(call(248, b'user', b'turnkey-test', b'x', 1, -1))
    made.append(call(272, 0x10000000))
    print(*made, sep=', ', flush=True)
";

/// A map, a key and a namespace.
#[test]
fn a_call_of_a_denied_kind_makes_nothing_and_its_caller_goes_on() {
    let (group, place) = (OthersGroup::new(), scratch());
    let profile = place.path().join("kinds.toml");
    std::fs::write(&profile, DENIED).expect("a test can write its own directory");
    let profile = profile.display().to_string();
    let start = || {
        let mut others = Others::start_with(&group.path, MAKES, &[]);
        assert_eq!(others.line(), "ready");
        others
    };
    let mut control = start();
    assert_eq!(control.ask("all"), "made, made, made", "the control");
    control.end();
    let mut others = start();
    let modules = std::fs::read_to_string("/sys/kernel/security/lsm").unwrap_or_default();
    if !modules.contains("bpf") {
        let (code, said) = refused(&group, &profile);
        others.end();
        assert_eq!(code, Some(125), "{said}");
        let because = "which in groups of others only BPF LSM can: use `action = \"kill\"`";
        assert!(said.contains("rule `kernel-tool` denies `"), "{said}");
        assert!(said.contains(because), "{said}");
        let mended = DENIED.replace("deny", "kill");
        std::fs::write(&profile, mended).expect("a test can write its own directory");
        let attached = Attached::to(&["--cgroup", &group.name], &["--profile", &profile]);
        assert_eq!(start().ask("all"), "", "it died");
        let (code, report, said) = attached.end();
        assert_eq!(
            (code, broken(&report)),
            (121, vec!["kernel-tool"]),
            "{said}"
        );
        return;
    }
    let attached = Attached::to(&["--cgroup", &group.name], &["--profile", &profile]);
    let refused = others.ask("all");
    assert_eq!(others.end(), None, "it went on");
    attached.let_go();
    let (_, report, said) = attached.end();
    let refused: Vec<&str> = refused.split(", ").collect();
    let all = refused
        .iter()
        .all(|word| ["Operation not permitted", "Permission denied"].contains(word));
    assert!(all && refused.len() == 3, "{refused:?}: {said}");
    assert_eq!(broken(&report), ["kernel-tool"; 3], "{said}");
}

/// The status of an attachment that is not begun, and what it says.
fn refused(group: &OthersGroup, profile: &str) -> (Option<i32>, String) {
    let options = ["attach", "--cgroup", &group.name, "--profile", profile];
    let refused = Command::new(binary()).args(options).output();
    let refused = refused.expect("turnkey can be started");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    (refused.status.code(), said)
}

/// On both tiers: no hook answers for a signal.
#[test]
fn a_denial_of_signals_is_refused_and_its_fix_works() {
    let (group, place) = (OthersGroup::new(), scratch());
    let profile = place.path().join("signals.toml");
    let signals = DENIED.replace(r#"["bpf", "keyring", "namespace"]"#, r#""kill""#);
    std::fs::write(&profile, &signals).expect("a test can write its own directory");
    let name = profile.display().to_string();
    let mut others = Others::start_with(&group.path, MAKES, &[]);
    assert_eq!(others.line(), "ready");
    let (code, said) = refused(&group, &name);
    assert_eq!(code, Some(125), "{said}");
    assert!(said.contains("nothing can deny a signal"), "{said}");
    let mended = signals.replace("\"deny\"", "\"log\"");
    std::fs::write(&profile, mended).expect("a test can write its own directory");
    let attached = Attached::to(&["--cgroup", &group.name], &["--profile", &name]);
    others.end();
    let (code, _, said) = attached.end();
    assert_eq!(code, 0, "{said}");
}
