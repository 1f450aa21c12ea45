//! One machine: QEMU started, listened to, and ended.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use turnkey_guest::{Message, PORT};

use super::watch::{End, Together, Watch};

/// The parts of a machine.
pub struct Parts<'a> {
    /// The kernel.
    pub kernel: &'a Path,
    /// The archive with the first process.
    pub initramfs: &'a Path,
    /// The root file system. It is not written to.
    pub disk: &'a Path,
    /// The disk to swap to. It is not written to.
    pub swap: &'a Path,
    /// The addition to the kernel's command line.
    pub command_line: &'a str,
    /// The machine's memory.
    pub megabytes: u32,
    /// The number of its CPUs.
    pub cpus: u32,
    /// The file that keeps the console's text.
    pub console: &'a Path,
    /// The time that it may run, in the host's time.
    pub at_most: Duration,
}

/// No KVM, on purpose: the same machine everywhere, and a clock that counts instructions. Sleeping
/// costs nothing, and what a test measures does not depend on how busy the host is.
///
/// A single CPU, unless the machine says otherwise: two are emulated by one thread all the same, and with a clock that counts
/// instructions 6.1 never gets its second one up. `thread=multi` corrupts memory under QEMU 7.2.
const MACHINE: &[&str] = &[
    "-accel",
    "tcg,thread=single",
    "-icount",
    "shift=1,sleep=off",
    // The host's time, which goes on while the machine is suspended: its clock wakes it up.
    "-rtc",
    "clock=host",
    // Of a CPU that is said to copy and clear memory quickly by single bytes, the emulator emulates each byte; each switch that keeps the
    // kernel off the memory of programs ends a block of what it has translated.
    "-cpu",
    "max,-erms,-fsrm,-smap,-smep,-umip,-pku",
    "-nic",
    "none",
    "-display",
    "none",
    "-monitor",
    "none",
    "-no-reboot",
];

/// Switches of the kernel that make every fault of its own a panic, and a panic the end of the machine. The rest saves
/// work that an emulated CPU is slow at and no test depends on.
const COMMAND_LINE: &str = "console=ttyS0 quiet panic=-1 oops=panic softlockup_panic=1 \
    sysctl.kernel.hung_task_panic=1 mitigations=off no5lvl";

/// The time between two looks at the console's file.
const GLANCE: Duration = Duration::from_millis(200);

/// Boots the machine and listens until it ends. Each message is also handed to `tell`.
pub fn run(parts: &Parts, tell: &dyn Fn(&Message)) -> Result<(Watch, End)> {
    let _ = std::fs::remove_file(parts.console);
    let qemu = Qemu::start(parts)?;
    let mut console = Console::new(parts.console);
    let mut watch = Watch::default();
    let started = Instant::now();
    let mut heard = started;
    let mut is_there = true;
    let end = loop {
        match qemu.messages.recv_timeout(GLANCE) {
            Ok(message) => {
                heard = Instant::now();
                tell(&message);
                watch.hear(message);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => is_there = false,
        }
        console.lines(|line| watch.read_console(line));
        let together = Together {
            so_far: started.elapsed(),
            at_most: parts.at_most,
        };
        if let Some(end) = watch.end(heard.elapsed(), together, is_there) {
            break end;
        }
    };
    Ok((watch, end))
}

/// The process, killed when it is dropped.
struct Qemu {
    child: Child,
    messages: Receiver<Message>,
}

impl Qemu {
    fn start(parts: &Parts) -> Result<Qemu> {
        let mut child = command(parts)
            .spawn()
            .context("cannot start qemu-system-x86_64")?;
        let output = child.stdout.take().context("QEMU has no output")?;
        Ok(Qemu {
            child,
            messages: listen(output),
        })
    }
}

impl Drop for Qemu {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn command(parts: &Parts) -> Command {
    // Killed with us, also when we are: nobody else would ever end it.
    let mut qemu = Command::new("setpriv");
    qemu.args(["--pdeathsig", "KILL", "--", "qemu-system-x86_64"]);
    let line = format!("{COMMAND_LINE} {}", parts.command_line);
    qemu.args(MACHINE)
        .args(["-m", &parts.megabytes.to_string()])
        .args(["-smp", &parts.cpus.to_string()])
        .arg("-kernel")
        .arg(parts.kernel)
        .arg("-initrd")
        .arg(parts.initramfs)
        .args(["-append", line.trim_end()])
        .args(["-serial", &format!("file:{}", parts.console.display())])
        .args(["-drive", &drive(parts.disk)])
        .args(["-drive", &drive(parts.swap)])
        // The results: the machine's port is this process's standard output.
        .args(["-chardev", "stdio,id=results,signal=off"])
        .args(["-device", "virtio-serial-pci"])
        .args([
            "-device",
            &format!("virtserialport,chardev=results,name={PORT}"),
        ])
        // Kept open: at its end QEMU tells the guest that nobody listens.
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    qemu
}

/// The disk of an image. The guest's writes go to a temporary file, so that machines can share the image.
fn drive(image: &Path) -> String {
    format!("file={},if=virtio,format=raw,snapshot=on", image.display())
}

/// Reads messages until the machine is gone.
fn listen(output: ChildStdout) -> Receiver<Message> {
    let (sender, messages) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
            let message = Message::parse(&String::from_utf8_lossy(&line));
            if message.is_some_and(|message| sender.send(message).is_err()) {
                break;
            }
        }
    });
    messages
}

/// The console's file, read as it grows.
struct Console {
    path: PathBuf,
    file: Option<File>,
    rest: Vec<u8>,
}

impl Console {
    fn new(path: &Path) -> Console {
        Console {
            path: path.to_owned(),
            file: None,
            rest: Vec::new(),
        }
    }

    /// Hands on the lines that have come since the last time.
    fn lines(&mut self, mut take: impl FnMut(&str)) {
        if self.file.is_none() {
            self.file = File::open(&self.path).ok();
        }
        if let Some(file) = &mut self.file {
            let _ = file.read_to_end(&mut self.rest);
        }
        while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            take(&String::from_utf8_lossy(&line));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn console_is_read_by_whole_lines_as_it_grows() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("console");
        let mut console = Console::new(&path);
        let mut seen = Vec::new();
        console.lines(|line| seen.push(line.to_owned()));
        let mut file = File::create(&path).expect("made");
        for part in ["one\ntw", "o\nthree"] {
            file.write_all(part.as_bytes()).expect("written");
            console.lines(|line| seen.push(line.to_owned()));
        }
        assert_eq!(seen, ["one\n", "two\n"]);
    }

    #[test]
    fn every_malfunction_of_the_kernel_is_made_a_panic() {
        for word in [
            "oops=panic",
            "softlockup_panic=1",
            "hung_task_panic=1",
            "panic=-1",
        ] {
            assert!(COMMAND_LINE.contains(word), "{word}");
        }
    }
}
