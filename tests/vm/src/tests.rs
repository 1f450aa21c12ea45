//! Runs the listed tests, one after the other, and tells the host about each.
//!
//! Tests run one at a time: the machine's CPUs are emulated by one thread, so a second test would only
//! make the durations of the first one depend on it.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use turnkey_guest::{BINARIES, IN_THE_GUEST, Message, Outcome, PORT, TURNKEY};

/// The list, kept where it survives the change to the root file system.
pub const LIST: &str = "/run/turnkey-tests";

/// In the guest's own time, which does not pass faster when the host is busy.
const LONGEST_TEST: Duration = Duration::from_secs(180);

/// How often the host hears from a test that takes long, in the guest's own time.
const SIGN_OF_LIFE: Duration = Duration::from_secs(2);

/// What a login would set.
const SEARCH_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Runs every test of the list.
pub fn run() -> Result<()> {
    let mut port = open_port()?;
    let list = fs::read_to_string(LIST).context("no list of tests")?;
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    send(
        &mut port,
        &Message::Up {
            kernel: kernel.trim().to_owned(),
        },
    )?;
    for test in list.lines() {
        send(
            &mut port,
            &Message::Started {
                test: test.to_owned(),
            },
        )?;
        let finished = run_test(test, &mut port)?;
        send(&mut port, &finished)?;
    }
    send(&mut port, &Message::Down)
}

/// Loads the programs once for all tests: emulated, the verifier takes seconds. Tests of loading
/// itself see a BPF file system of their own.
pub fn load_monitor() -> Result<()> {
    let mut load = Command::new(TURNKEY);
    let status = load.args(["monitor", "load"]).env_clear().status();
    let status = status.context("cannot start turnkey")?;
    anyhow::ensure!(status.success(), "turnkey monitor load: {status}");
    Ok(())
}

fn send(port: &mut File, message: &Message) -> Result<()> {
    port.write_all(message.line().as_bytes())
        .context("the host does not listen")
}

/// Without udev nobody makes a link with the port's name.
fn open_port() -> Result<File> {
    for entry in fs::read_dir("/sys/class/virtio-ports")?.flatten() {
        let name = fs::read_to_string(entry.path().join("name")).unwrap_or_default();
        if name.trim() == PORT {
            let device = Path::new("/dev").join(entry.file_name());
            return Ok(File::options().write(true).open(device)?);
        }
    }
    anyhow::bail!("the machine has no port {PORT}")
}

fn run_test(test: &str, port: &mut File) -> Result<Message> {
    let started = Instant::now();
    let mut child = command(test).spawn().context("cannot start a test")?;
    let output = [collect(child.stdout.take()), collect(child.stderr.take())];
    let status = wait_for(&mut child, started + LONGEST_TEST, port)?;
    let output = output
        .map(|reader| reader.join().unwrap_or_default())
        .concat();
    let output = String::from_utf8_lossy(&output).into_owned();
    let outcome = match status {
        None => Outcome::TimedOut,
        // A name that no test has makes the binary succeed at running nothing.
        Some(true) if output.contains("\ntest result: ok. 1 passed;") => Outcome::Passed,
        Some(_) => Outcome::Failed,
    };
    Ok(Message::Finished {
        test: test.to_owned(),
        outcome,
        millis: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
        output,
    })
}

fn command(test: &str) -> Command {
    let (binary, name) = test.split_once(' ').unwrap_or((test, ""));
    let mut command = Command::new(PathBuf::from(BINARIES).join(binary));
    command
        .args(["--exact", name, "--nocapture", "--test-threads", "1"])
        .env_clear()
        .env("PATH", SEARCH_PATH)
        .env("HOME", "/root")
        .env("LANG", "C.UTF-8")
        .env("TURNKEY_BIN", TURNKEY)
        .env(IN_THE_GUEST, "1")
        .current_dir("/root")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn collect(stream: Option<impl Read + Send + 'static>) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut stream) = stream {
            let _ = stream.read_to_end(&mut bytes);
        }
        bytes
    })
}

/// Whether it succeeded; nothing when it had to be killed.
fn wait_for(child: &mut Child, deadline: Instant, port: &mut File) -> Result<Option<bool>> {
    let mut told = Instant::now();
    while Instant::now() < deadline {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status.success()));
        }
        if told.elapsed() > SIGN_OF_LIFE {
            send(port, &Message::Alive)?;
            told = Instant::now();
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill()?;
    child.wait()?;
    Ok(None)
}
