//! Nothing of an unprivileged jail outlives its turnkey.

use turnkey_tests::Run;

/// At every part of a start: nothing of the jail lives on.
#[test]
fn j51_a_killed_unprivileged_turnkey_leaves_nothing() {
    let marker = format!("6{}", std::process::id());
    let start = |run: &Run| {
        let script = format!("sleep {marker} & exec sleep {marker}");
        let mut command = run.command(&["/bin/sh", "-c", &script]);
        let null = std::process::Stdio::null;
        let command = command.stdout(null()).stderr(null());
        std::os::unix::process::CommandExt::process_group(command, 0)
            .spawn()
            .unwrap()
    };
    let begun = std::time::Instant::now();
    let run = Run::rootless();
    let mut turnkey = start(&run);
    turnkey_tests::eventually("the program runs", || processes_of(&marker) == 2);
    let whole = begun.elapsed();
    let first = inits_of(turnkey.id());
    assert!(first >= 2, "the control: turnkey and the jail's init");
    turnkey.kill().unwrap();
    turnkey.wait().unwrap();
    turnkey_tests::eventually("both are gone", || processes_of(&marker) == 0);
    for percent in [40, 80, 90, 100] {
        let run = Run::rootless();
        let mut turnkey = start(&run);
        let pid = turnkey.id();
        std::thread::sleep(whole * percent / 100);
        turnkey.kill().unwrap();
        turnkey.wait().unwrap();
        let what = format!("nothing is left, killed after {percent} % of a start");
        turnkey_tests::eventually(&what, || processes_of(&marker) == 0 && inits_of(pid) == 0);
        let files = std::fs::read_dir(run.path()).unwrap().count();
        assert_eq!(files, 0, "no file, {what}");
    }
}

pub fn processes_of(marker: &str) -> usize {
    let wanted = format!("sleep\0{marker}\0");
    command_lines()
        .filter(|(_, line)| line == wanted.as_bytes())
        .count()
}

/// Children of a turnkey that is gone, told by their process group: it was theirs.
fn inits_of(turnkey: u32) -> usize {
    let in_group = |(pid, _): &(u32, Vec<u8>)| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let group = stat
            .rsplit_once(')')
            .and_then(|(_, rest)| rest.split(' ').nth(3));
        group.and_then(|group| group.parse().ok()) == Some(turnkey)
    };
    command_lines().filter(in_group).count()
}

pub fn command_lines() -> impl Iterator<Item = (u32, Vec<u8>)> {
    let processes = std::fs::read_dir("/proc").expect("/proc is mounted");
    processes.flatten().filter_map(|process| {
        let pid = process.file_name().to_str()?.parse().ok()?;
        Some((pid, std::fs::read(process.path().join("cmdline")).ok()?))
    })
}
