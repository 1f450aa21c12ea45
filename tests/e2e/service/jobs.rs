//! Callers that are jobs of a shell: what is typed while another job has the terminal is that one's.

use std::process::Command;

use nix::sys::signal::{Signal, kill};
use turnkey_tests::{Run, Service, TerminalSession};

/// A shell that has a job in the background, tells how that has ended, or been stopped, and takes a line.
const BACKGROUND: &str = "
import os, sys
job = os.fork()
if job == 0:
    os.setpgid(0, 0)
    os.execv(sys.argv[1], sys.argv[1:])
_, status = os.waitpid(job, os.WUNTRACED)
print('stopped by', os.WSTOPSIG(status) if os.WIFSTOPPED(status) else None, flush=True)
print('the shell has', input(), flush=True)
os.kill(job, 9)";

/// A shell that has a job in the foreground, stops it when it is told to, takes a line, and gives the job the terminal again.
const STOPPED: &str = "
import os, signal, sys, termios, time
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
before = termios.tcgetattr(0)
job = os.fork()
if job == 0:
    os.setpgid(0, 0)
    os.tcsetpgrp(0, os.getpid())
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    os.execv(sys.argv[1], sys.argv[1:])
signal.signal(signal.SIGUSR1, lambda *_: os.kill(job, signal.SIGSTOP))
os.waitpid(job, os.WUNTRACED)
os.tcsetpgrp(0, os.getpgrp())
termios.tcsetattr(0, termios.TCSANOW, before)
print('it is stopped', flush=True)
time.sleep(0.3)
print('the shell has', input(), flush=True)
os.tcsetpgrp(0, job)
os.kill(job, signal.SIGCONT)
_, status = os.waitpid(job, 0)
os.tcsetpgrp(0, os.getpgrp())
sys.exit(os.waitstatus_to_exitcode(status))";

/// This shell at a terminal, with a served run as its job.
fn shell(
    service: &Service,
    script: &str,
    options: &str,
    program: &[&str],
) -> (TerminalSession, Run) {
    let run = Run::new().option("--service --quiet --wall 20s");
    let run = match options {
        "" => run,
        options => run.option(options),
    };
    let own = run.command(program);
    let mut shell = Command::new("python3");
    shell.arg("-c").arg(script);
    shell.arg(own.get_program()).args(own.get_args());
    shell.env("TURNKEY_SOCKET_DIR", service.directory());
    (TerminalSession::start(&shell), run)
}

#[test]
fn a_caller_in_the_background_is_stopped_and_its_run_has_nothing_that_is_typed() {
    let service = Service::start("");
    for (options, signal) in [("", Signal::SIGTTIN), ("-t", Signal::SIGTTOU)] {
        let (mut shell, _run) = shell(&service, BACKGROUND, options, &["head", "-n1"]);
        shell.wait_for(&format!("stopped by {}\r\n", signal as i32));
        shell.type_in("password\n");
        shell.wait_for("the shell has password\r\n");
        let scene = shell.end();
        assert!(scene.is_restored, "{options}: {}", scene.shown);
    }
}

#[test]
fn a_caller_that_is_stopped_leaves_what_is_typed_and_has_its_terminal_again_later() {
    let service = Service::start("");
    for options in ["", "-t"] {
        let program = ["sh", "-c", "echo ready; read x; echo the program has $x"];
        let (mut shell, _run) = shell(&service, STOPPED, options, &program);
        shell.wait_for("ready\r\n");
        kill(shell.pid(), Signal::SIGUSR1).expect("it lives");
        shell.wait_for("it is stopped\r\n");
        shell.type_in("password\n");
        shell.wait_for("the shell has password\r\n");
        shell.type_in("more\n");
        shell.wait_for("the program has more\r\n");
        assert_eq!(shell.end().code, Some(0), "{options}");
    }
}
