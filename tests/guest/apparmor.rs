//! A caller under an AppArmor profile that allows no user namespaces. Linux asks profiles about them
//! since 6.7. Ubuntu's switch that asks without any profile is a patch that Debian's kernels lack.

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output};

use serde_json::Value;
use turnkey_expectations::expected;
use turnkey_tests::NOBODY;

expected!(on[LSM_6_12]);

/// Two profiles, as the compiler leaves them: apparmor/profiles.txt.
const PROFILES: &[u8] = include_bytes!("apparmor/profiles.bin");

/// Everything is allowed under the one, everything but user namespaces under the other.
const ANYTHING: &str = "turnkey-test-anything";
const NO_USERNS: &str = "turnkey-test-no-userns";

/// Has the next execve(2) enter a profile, which everybody may who is in none.
const ENTER: &str = "import os, sys
with open('/proc/self/attr/apparmor/exec', 'w') as attribute:
    attribute.write('exec ' + sys.argv[1])
os.execvp(sys.argv[2], sys.argv[2:])";

/// A command of nobody's under a profile.
fn under(profile: &str, inside: &Command) -> Output {
    fs::write("/sys/kernel/security/apparmor/.replace", PROFILES).expect("the profiles load");
    let mut command = Command::new("python3");
    command
        .args(["-c", ENTER, profile])
        .arg(inside.get_program())
        .args(inside.get_args())
        .current_dir("/tmp")
        .uid(NOBODY)
        .gid(NOBODY);
    command.output().expect("python3 is there")
}

/// The guest has it where everybody reaches it.
fn turnkey() -> Command {
    Command::new(turnkey_tests::binary())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn j60_a_profile_without_user_namespaces_is_named_and_nothing_weaker_runs() {
    let mut unshare = Command::new("unshare");
    unshare.args(["-U", "echo", "made"]);
    assert_eq!(under(ANYTHING, &unshare).stdout, b"made\n", "the control");
    assert_eq!(under(NO_USERNS, &unshare).stdout, b"", "none can be made");

    // Without a report: under a profile a file that has no name yet is not linked to one.
    let start = |profile: &str| {
        let mut run = turnkey();
        run.args(["run", "--workdir-mode", "none", "--unmonitored"]);
        run.args(["--", "/bin/echo", "ran"]);
        under(profile, &run)
    };
    let control = start(ANYTHING);
    let told = text(&control.stderr);
    assert_eq!(control.status.code(), Some(0), "the control: {told}");
    assert_eq!(control.stdout, b"ran\n", "the control: {told}");

    let refused = start(NO_USERNS);
    let told = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(125), "{told}");
    assert_eq!(refused.stdout, b"", "nothing ran: {told}");
    assert!(told.contains(NO_USERNS), "the profile is named: {told}");
    assert!(told.contains("`userns,`"), "and the fix: {told}");
}

#[test]
fn j60_doctor_names_the_profile_that_allows_no_user_namespaces() {
    let ask = |profile: &str| {
        let mut doctor = turnkey();
        doctor.args(["doctor", "--json"]);
        let object: Value = serde_json::from_slice(&under(profile, &doctor).stdout).unwrap();
        let findings = object["findings"].as_array().unwrap();
        let of = findings.iter().find(|it| it["check"] == "namespaces");
        of.expect("it looks at namespaces").clone()
    };
    let control = ask(ANYTHING);
    assert_eq!(control["state"], "ok", "the control: {control}");
    let refused = ask(NO_USERNS);
    assert_eq!(refused["state"], "missing", "{refused}");
    assert!(
        refused["found"].to_string().contains(NO_USERNS),
        "{refused}"
    );
    assert!(
        refused["fix"].to_string().contains("`userns,`"),
        "{refused}"
    );
}
