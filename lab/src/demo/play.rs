//! One run on its stage, in the jail or outside.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::Value;

use super::expectation::contains;
use super::seen::DemoObservation;
use super::stage::DemoStage;

/// A run that lasts longer hangs: no profile allows as much.
const PATIENCE: Duration = Duration::from_secs(60);

/// The folders where the jail looks for programs, so that a control runs the same ones.
const SEARCH_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The place where a program is run.
#[derive(Clone, Copy)]
pub enum DemoPlace<'a> {
    /// By this turnkey.
    Jail(&'a Path),
    /// By ourselves.
    Outside,
}

/// Runs the program of the stage to its end and looks around.
pub fn play(stage: &DemoStage, place: DemoPlace) -> Result<DemoObservation> {
    let report = stage.backstage("report.json");
    let started = Instant::now();
    let mut child = start(stage, &arguments(stage, place, &report))?;
    let (status, visited) = wait(&mut child, stage)?;
    let mut seen = DemoObservation {
        exit: status.and_then(|status| status.code()),
        elapsed: started.elapsed(),
        stdout: fs::read(stage.backstage("stdout"))?,
        stderr: fs::read(stage.backstage("stderr"))?,
        listener_reached: stage.listener_reached()? || visited,
        workdir_changed: stage.workdir_changed()?,
        survivors: end_survivors(stage, place)?,
        ..DemoObservation::default()
    };
    seen.failure = match place {
        DemoPlace::Outside => None,
        DemoPlace::Jail(turnkey) => read_report(&report, &mut seen)
            .err()
            .map(|error| format!("{error:#}"))
            .or_else(|| harm(stage, &seen))
            .or_else(|| story_of(turnkey, &report, &seen))
            .or_else(|| left_behind(child.id())),
    };
    if status.is_none() {
        seen.failure = Some(format!("it was still running after {PATIENCE:?}"));
    }
    Ok(seen)
}

/// The program with its arguments, and turnkey before it when in the jail.
fn arguments(stage: &DemoStage, place: DemoPlace, report: &Path) -> Vec<OsString> {
    let mut words: Vec<OsString> = Vec::new();
    if let DemoPlace::Jail(turnkey) = place {
        words.extend([turnkey.into(), "run".into()]);
        words.extend(["--profile".into(), (&stage.program.profile).into()]);
        words.extend(["--report".into(), report.into()]);
        words.extend(stage.program.flags.iter().map(OsString::from));
        words.push("--".into());
    }
    let command = &stage.program.command;
    words.extend(command.iter().map(|word| stage.fill(word).into()));
    words
}

/// Starts `words` in the caller's directory, with the caller's environment, and with a
/// descriptor that was left open: `sh` opens it, because Rust closes all of ours.
fn start(stage: &DemoStage, words: &[OsString]) -> Result<Child> {
    let stdin = stage.backstage("stdin");
    let line = stage.program.stdin.as_deref();
    fs::write(
        &stdin,
        line.map_or_else(String::new, |it| format!("{it}\n")),
    )?;
    Command::new("/bin/sh")
        .args(["-c", "exec \"$@\" 9<../secret", "sh"])
        .args(words)
        .current_dir(stage.workdir())
        .env_clear()
        .env("PATH", SEARCH_PATH)
        .env("HOME", stage.workdir())
        .env("LANG", "C.UTF-8")
        .env("TURNKEY_DEMO_SECRET", stage.secret())
        .stdin(File::open(stdin)?)
        .stdout(Stdio::from(File::create(stage.backstage("stdout"))?))
        .stderr(Stdio::from(File::create(stage.backstage("stderr"))?))
        .process_group(0)
        .spawn()
        .with_context(|| format!("cannot start {}", stage.program.name()))
}

/// The status, or nothing when our patience ended first; then the child is killed. Also whether
/// the services had a visitor: they hang up at once, so that nobody waits for an answer.
fn wait(child: &mut Child, stage: &DemoStage) -> Result<(Option<ExitStatus>, bool)> {
    let deadline = Instant::now() + PATIENCE;
    let mut visited = false;
    while Instant::now() < deadline {
        visited |= stage.listener_reached()?;
        if let Some(status) = child.try_wait()? {
            return Ok((Some(status), visited));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    // The child leads a group of its own, so that what it started goes with it.
    kill(&format!("-{}", child.id()))?;
    child.wait()?;
    Ok((None, visited))
}

/// Whether the program left processes behind. They are ended.
fn end_survivors(stage: &DemoStage, place: DemoPlace) -> Result<bool> {
    if matches!(place, DemoPlace::Outside) {
        // A control's daemon may still be about to start.
        std::thread::sleep(Duration::from_millis(50));
    }
    let survivors = stage.survivors()?;
    for id in &survivors {
        kill(&id.to_string())?;
    }
    Ok(!survivors.is_empty())
}

/// Ends a process or, with a minus before the number, a group. It may be gone already.
fn kill(target: &str) -> Result<()> {
    Command::new("/bin/sh")
        .args(["-c", "kill -s KILL -- \"$1\"", "sh", target])
        .stderr(Stdio::null())
        .status()
        .context("cannot start /bin/sh")?;
    Ok(())
}

fn read_report(file: &Path, seen: &mut DemoObservation) -> Result<()> {
    let text = fs::read(file).with_context(|| {
        let words = String::from_utf8_lossy(&seen.stderr).into_owned();
        format!("there is no report; turnkey said: {}", words.trim())
    })?;
    let report: Value = serde_json::from_slice(&text).context("the report is not JSON")?;
    seen.report = Some(report);
    Ok(())
}

/// The harm that no run may do, whatever its header says.
fn harm(stage: &DemoStage, seen: &DemoObservation) -> Option<String> {
    let changed = stage.changes_of_the_host();
    if !changed.is_empty() {
        return Some(format!("changed on the host: {}", changed.join(", ")));
    }
    let shadow = fs::read("/etc/shadow").unwrap_or_default();
    let leaked = lines(&shadow).any(|line| lines(&seen.stdout).any(|printed| printed == line));
    leaked.then(|| "a line of the host's /etc/shadow came out on stdout".to_owned())
}

/// Lines that turnkey may say about a run.
const MOST_LINES: usize = 15;

/// The fault of what turnkey said in the end: it is on one screen, its last line is the verdict, and a
/// stored report tells the same.
fn story_of(turnkey: &Path, report: &Path, seen: &DemoObservation) -> Option<String> {
    let rendered = Command::new(turnkey).arg("report").arg(report).output();
    let story = rendered.map(|rendered| rendered.stdout).unwrap_or_default();
    if story.is_empty() || !seen.stderr.ends_with(&story) {
        return Some("`turnkey report` does not tell what the run told".to_owned());
    }
    let story = String::from_utf8_lossy(&story).into_owned();
    let (count, last) = (
        story.lines().count(),
        story.lines().last().unwrap_or_default(),
    );
    let verdict = seen.text("verdict").unwrap_or_default();
    if count > MOST_LINES {
        return Some(format!(
            "turnkey said {count} lines, {MOST_LINES} are the most:\n{story}"
        ));
    }
    let is_verdict = last.starts_with(&format!("turnkey: {verdict} "));
    (!is_verdict).then(|| format!("the last line is not the verdict: {last}"))
}

/// A control group of the turnkey with this process id that is still there.
fn left_behind(turnkey: u32) -> Option<String> {
    const DEEPEST: usize = 4;
    let prefix = format!("turnkey-{turnkey}-");
    let mut level = vec![PathBuf::from("/sys/fs/cgroup")];
    for _ in 0..DEEPEST {
        let is_ours = |path: &&PathBuf| {
            let name = path.file_name().unwrap_or_default();
            name.to_string_lossy().starts_with(&prefix)
        };
        level = level.iter().flat_map(|folder| folders_in(folder)).collect();
        if let Some(group) = level.iter().find(is_ours) {
            return Some(format!("the control group {} is left", group.display()));
        }
    }
    None
}

/// Groups of others may go while we look.
fn folders_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    folders.map(|entry| entry.path()).collect()
}

fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| *byte == b'\n')
        .filter(|line| contains(line, b":"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::header::Header;

    /// A shell program of this text, in a folder that goes with it.
    fn program(lines: &str) -> (tempfile::TempDir, Header) {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("program.sh");
        let header = "# tries: a\n# must: b\n# run: sh {file} {marker}\n# stdin: a line\n\
                      # expect: exit=0\n";
        fs::write(&file, format!("{header}{lines}\n")).expect("it writes");
        let header = Header::load(&file).expect("it reads");
        (folder, header)
    }

    #[test]
    fn program_has_its_input_its_home_and_the_bait() {
        let (_folder, program) =
            program("cat - ~/.ssh/id_rsa; cat <&9; echo \"|$TURNKEY_DEMO_SECRET|\"; exit 3");
        let stage = DemoStage::set(&program).expect("a stage");
        let seen = play(&stage, DemoPlace::Outside).expect("it runs");
        let stdout = String::from_utf8(seen.stdout).expect("text");
        assert!(stdout.starts_with("a line\n-----BEGIN"), "{stdout}");
        assert_eq!(stdout.matches(stage.secret()).count(), 2, "{stdout}");
        assert_eq!(seen.exit, Some(3));
        assert!(!seen.workdir_changed && !seen.survivors && !seen.listener_reached);
    }

    #[test]
    fn survivor_is_seen_and_ended() {
        let (_folder, program) = program("sh -c 'sleep 5; :' sh $1 < /dev/null > /dev/null 2>&1 &");
        let stage = DemoStage::set(&program).expect("a stage");
        let seen = play(&stage, DemoPlace::Outside).expect("it runs");
        assert!(seen.survivors);
        for _ in 0..100 {
            if stage.survivors().expect("a list").is_empty() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("it is still there");
    }

    #[test]
    fn change_of_the_working_directory_is_seen() {
        let (_folder, program) = program("echo x >> ~/.bashrc");
        let stage = DemoStage::set(&program).expect("a stage");
        assert!(
            play(&stage, DemoPlace::Outside)
                .expect("it runs")
                .workdir_changed
        );
    }

    #[test]
    fn lines_of_a_password_database_have_a_colon() {
        let found: Vec<_> = lines(b"root:*:1\n\nno colon\njail:x:2").collect();
        assert_eq!(found, [&b"root:*:1"[..], b"jail:x:2"]);
    }
}
