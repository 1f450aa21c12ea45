//! `scan --with CMD`: another scanner, or a model that reviews code. It gets a script on standard input and answers with
//! findings, which are told as its own. One that fails, takes too long or answers with something else is told, too.

use std::io::{Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use turnkey_report::shortened;

use super::gather::Source;

/// A longer answer is none, in bytes.
const LONGEST: usize = 1 << 20;

/// The time for one script.
const PATIENCE: Duration = Duration::from_secs(60);

/// The steps in which the end of a command is waited for.
const STEP: Duration = Duration::from_millis(5);

/// The numbers of the schema.
const FINDINGS: usize = 100;
const WORDS: usize = 1000;

/// The word of a command on one script.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct PluginWord {
    /// The command, as the caller wrote it.
    pub by: String,
    /// The reason why there are no findings of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
    /// By the weights of its own findings.
    pub score: u32,
    /// The findings, in the command's order.
    pub findings: Vec<PluginFinding>,
}

/// A finding of another scanner, in its words.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PluginFinding {
    pub rule: String,
    pub line: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub technique: Option<String>,
    pub weight: u32,
    pub says: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer {
    schema: AnswerSchema,
    findings: Vec<PluginFinding>,
}

#[derive(Deserialize)]
enum AnswerSchema {
    #[serde(rename = "turnkey.scan-findings/v1")]
    Findings1,
}

/// Asks a command about a script.
pub fn ask(command: &str, source: &Source) -> PluginWord {
    let (failed, findings) =
        match answer(command, source, PATIENCE).and_then(|answer| read(&answer)) {
            Ok(findings) => (None, findings),
            Err(why) => (Some(why), Vec::new()),
        };
    PluginWord {
        by: command.to_owned(),
        failed,
        score: score(&findings),
        findings,
    }
}

/// Each finding takes its share of what the others have left of a hundred.
fn score(findings: &[PluginFinding]) -> u32 {
    let left = findings.iter().fold(1_000_000_u64, |left, finding| {
        left * (100 - u64::from(finding.weight)) / 100
    });
    u32::try_from((1_000_000 - left) / 10_000).unwrap_or(99)
}

/// The findings of an answer that is as its schema says.
fn read(answer: &[u8]) -> Result<Vec<PluginFinding>, String> {
    let Answer {
        schema: AnswerSchema::Findings1,
        findings,
    } = serde_json::from_slice(answer)
        .map_err(|error| format!("its answer is no turnkey.scan-findings/v1: {error}"))?;
    if findings.len() > FINDINGS {
        return Err(format!("its answer has more than {FINDINGS} findings"));
    }
    let is_odd = |finding: &&PluginFinding| {
        finding.line == 0
            || finding.column == Some(0)
            || finding.weight > 99
            || finding.says.len() > 4 * WORDS
            || finding.rule.len() > 400
    };
    match findings.iter().find(is_odd) {
        Some(odd) => Err(format!(
            "its finding in line {} has a number or a text out of bounds",
            odd.line
        )),
        None => Ok(findings),
    }
}

/// The output of a command within the time, when it ends well.
fn answer(command: &str, source: &Source, patience: Duration) -> Result<Vec<u8>, String> {
    let mut child = Command::new("/bin/sh")
        .args(["-c", command])
        .env("TURNKEY_SCAN_PATH", &source.path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        // Its words would stand among turnkey's.
        .stderr(Stdio::null())
        // It ends with all that it has started.
        .process_group(0)
        .spawn()
        .map_err(|error| format!("it could not be started: {error}"))?;
    let output = streams(&mut child, &source.code);
    let ended = wait(&mut child, patience);
    let group = i32::try_from(child.id()).map(Pid::from_raw);
    if let Ok(group) = group {
        // Nobody is left where it has ended with all of its own.
        let _ = killpg(group, Signal::SIGKILL);
    }
    let _ = child.wait();
    let status = ended.ok_or_else(|| format!("it took more than {} s", patience.as_secs_f64()))?;
    // What has left its group may still hold the pipe.
    let output = output
        .recv_timeout(Duration::from_secs(1))
        .map_err(|_| "its output has no end".to_owned())?;
    // A command that nobody hears to its end dies of that.
    if output.len() > LONGEST {
        return Err(format!("its answer has more than {LONGEST} bytes"));
    }
    if !status.success() {
        return Err(format!("it ended with {status}"));
    }
    Ok(output)
}

/// Hands the script in and takes the answer, each apart: a command may write before it has read.
fn streams(child: &mut Child, code: &[u8]) -> mpsc::Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel();
    if let Some(mut stdin) = child.stdin.take() {
        let code = code.to_vec();
        // One that does not want to read all of it need not.
        thread::spawn(move || stdin.write_all(&code));
    }
    if let Some(stdout) = child.stdout.take() {
        thread::spawn(move || {
            let mut output = Vec::new();
            let _ = stdout.take(LONGEST as u64 + 1).read_to_end(&mut output);
            sender.send(output)
        });
    }
    receiver
}

fn wait(child: &mut Child, patience: Duration) -> Option<std::process::ExitStatus> {
    let until = Instant::now() + patience;
    while Instant::now() < until {
        if let Ok(Some(status)) = child.try_wait() {
            return Some(status);
        }
        thread::sleep(STEP);
    }
    None
}

/// A command in a line: what a shell is told may be long.
pub fn shown(command: &str) -> String {
    shortened(command, 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source() -> Source {
        Source {
            path: "x.py".to_owned(),
            code: b"password = 1\n".to_vec(),
        }
    }

    const GOOD: &str = r#"{"schema": "turnkey.scan-findings/v1", "findings": [{"rule": "a", "line": 1, "weight": 20, "says": "b"}]}"#;

    #[test]
    fn findings_of_a_command_are_its_own() {
        let word = ask(&format!("cat > /dev/null; echo '{GOOD}'"), &source());
        assert_eq!(
            (word.failed, word.score, word.findings.len()),
            (None, 20, 1)
        );
    }

    #[test]
    fn a_command_that_fails_or_answers_nonsense_is_told() {
        for (command, why) in [
            ("exit 3", "exit status: 3"),
            ("echo hello", "no turnkey.scan-findings/v1"),
            ("true", "no turnkey.scan-findings/v1"),
            (
                "echo '{\"schema\": \"x\", \"findings\": []}'",
                "no turnkey.scan-findings/v1",
            ),
            ("head -c 2000000 /dev/zero", "more than 1048576 bytes"),
            ("kill -9 $$", "signal: 9"),
        ] {
            let word = ask(command, &source());
            let failed = word.failed.unwrap_or_default();
            assert!(failed.contains(why), "{command}: {failed}");
        }
        let heavy = GOOD.replace("20", "100");
        assert!(read(heavy.as_bytes()).is_err());
    }

    #[test]
    fn a_slow_command_ends_with_all_that_it_has_started() {
        let started = Instant::now();
        let slow = answer(
            "sleep 600 & sleep 600",
            &source(),
            Duration::from_millis(100),
        );
        assert!(slow.unwrap_err().contains("more than 0.1 s"));
        assert!(started.elapsed() < Duration::from_secs(2));
    }

    #[test]
    fn answers_are_read_as_the_kept_schema_says() {
        let schema: serde_json::Value =
            serde_json::from_str(crate::cmd::schema::SCAN_FINDINGS).unwrap();
        let mut compiler = boon::Compiler::new();
        compiler.add_resource("x.json", schema).unwrap();
        let mut schemas = boon::Schemas::new();
        let index = compiler.compile("x.json", &mut schemas).unwrap();
        let with =
            |key: &str, value: &str| GOOD.replace("\"line\": 1", &format!("\"{key}\": {value}"));
        let answers = [
            GOOD.to_owned(),
            with("line", "0"),
            with("rows", "1"),
            GOOD.replace("20", "100"),
            GOOD.replace("\"line\": 1", "\"line\": 1, \"column\": 0"),
            GOOD.replace("\"line\": 1", "\"line\": 1, \"technique\": \"T1140\""),
            GOOD.replace("/v1", "/v2"),
            "{}".to_owned(),
        ];
        for answer in answers {
            let value: serde_json::Value = serde_json::from_str(&answer).unwrap();
            let is_valid = schemas.validate(&value, index).is_ok();
            assert_eq!(read(answer.as_bytes()).is_ok(), is_valid, "{answer}");
        }
    }
}
