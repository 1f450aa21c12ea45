//! A range of ids that was given to a caller without privileges, subuid(5).

use turnkey_tests::{NOBODY, Run};

use super::processes::{command_lines, processes_of};

/// The first id of the range that [`with_range`] gives to nobody.
const FIRST: u32 = 400_000;

/// The same run by a caller in two groups, to whom the administrator gave a range of ids: in a mount
/// namespace where /etc/subuid and /etc/subgid say so.
fn with_range(run: &Run, program: &[&str]) -> std::process::Command {
    let ranges = run.path().join("ranges");
    std::fs::write(&ranges, format!("{NOBODY}:{FIRST}:65536\n"))
        .expect("a test can write its own directory");
    let inside = run.command(program);
    let script = r#"
mount --bind "$0" /etc/subuid && mount --bind "$0" /etc/subgid &&
exec setpriv --reuid 65534 --regid 65534 --groups 65534,4 "$@""#;
    let mut command = std::process::Command::new("unshare");
    command
        .args(["--mount", "--propagation", "private", "sh", "-c", script])
        .arg(&ranges)
        .arg(inside.get_program())
        .args(inside.get_args())
        .current_dir(run.path());
    command
}

#[test]
fn a_range_of_ids_lets_groups_be_left() {
    let groups = "grep Groups /proc/self/status";
    // The control: without a range they stay, and the report says so.
    let run = Run::rootless();
    let inside = run.command(&["/bin/sh", "-c", groups]);
    let output = std::process::Command::new("setpriv")
        .args([
            "--reuid", "65534", "--regid", "65534", "--groups", "65534,4",
        ])
        .arg(inside.get_program())
        .args(inside.get_args())
        .current_dir(run.path())
        .output()
        .unwrap();
    let (said, told) = (text(&output.stdout), text(&output.stderr));
    assert!(said.contains("65534"), "the control: {said}{told}");
    assert!(told.contains("supplementary groups stay"), "{told}");
    let run = Run::rootless();
    let output = with_range(&run, &["/bin/sh", "-c", groups])
        .output()
        .unwrap();
    let (said, told) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(said, "Groups:\t \n", "{told}");
    assert!(!told.contains("supplementary groups stay"), "{told}");
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_range_of_ids_gives_the_jail_a_user_of_its_own() {
    let marker = format!("7{}", std::process::id());
    let run = Run::rootless().option("--workdir-mode none");
    let mut command = with_range(&run, &["sleep", &marker]);
    let null = std::process::Stdio::null;
    let mut turnkey = command.stdout(null()).stderr(null()).spawn().unwrap();
    let owner = || {
        let wanted = format!("sleep\0{marker}\0");
        let mut sleepers = command_lines().filter(|(_, line)| line == wanted.as_bytes());
        let path = format!("/proc/{}", sleepers.next()?.0);
        let metadata = std::fs::metadata(path).ok()?;
        Some(std::os::unix::fs::MetadataExt::uid(&metadata))
    };
    let is_of_the_range = || owner().is_some_and(|user| (FIRST..FIRST + 65_536).contains(&user));
    turnkey_tests::eventually("it runs with an id of the range", is_of_the_range);
    turnkey.kill().unwrap();
    turnkey.wait().unwrap();
    turnkey_tests::eventually("and dies with turnkey", || processes_of(&marker) == 0);
}

#[test]
fn with_a_range_of_ids_the_workspace_is_still_the_callers() {
    let run = Run::rootless().file("kept", "as it was\n");
    let script = "cat kept && echo changed > kept && stat -c %u kept";
    let output = with_range(&run, &["/bin/sh", "-c", script])
        .output()
        .unwrap();
    let told = text(&output.stderr);
    assert_eq!(text(&output.stdout), "as it was\n1000\n", "{told}");
    let kept = std::fs::read_to_string(run.path().join("kept")).unwrap();
    assert_eq!(kept, "as it was\n");
}
