//! The words of a caller while its run lasts, as the process hears them that makes the run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::ensure;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use turnkey_supervisor::SignalSet;
use turnkey_supervisor::service::{ENDS, PASSED_ON, Packet, Refusal, RefusalCode};

use super::patience;
use super::run_maker::CallerLine;

/// True when the caller has its answer: that it hangs up then ends nothing.
pub static IS_ANSWERED: AtomicBool = AtomicBool::new(false);

/// Ends this process with the service, also when that is killed, or has been by now.
pub fn die_with(service: Pid) -> anyhow::Result<()> {
    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
    ensure!(Pid::parent() == service, "the service has ended");
    Ok(())
}

/// Passes on what the caller says while the run lasts, from a thread with which this process dies when the service does. A caller that
/// hangs up wants no run.
pub fn heed(caller: Arc<CallerLine>, service: Pid) -> anyhow::Result<()> {
    let own = Pid::this();
    let (tell, told) = std::sync::mpsc::channel();
    let listen = move || {
        let dies = die_with(service);
        let is_tied = dies.is_ok();
        let _ = tell.send(dies);
        if is_tied {
            listen_to(&caller, own);
        }
    };
    std::thread::Builder::new().spawn(listen)?;
    told.recv()?
}

fn listen_to(caller: &CallerLine, own: Pid) {
    loop {
        match caller.receive_bare() {
            Ok(Some(Ok((Packet::Signal(number), _)))) => {
                let passed = PASSED_ON.into_iter().find(|known| *known as u32 == number);
                if let Some(signal) = passed {
                    pass_on(caller, own, signal);
                }
            }
            _ if IS_ANSWERED.load(Ordering::Relaxed) => return,
            // What is no packet comes from nobody who means it.
            _ => {
                let _ = kill(own, Signal::SIGTERM);
                // A full pipe that nobody reads may hold up what is left of the run.
                patience::lose();
                return;
            }
        }
    }
}

/// Passes a signal on, and has the caller know of one that asks for an end, or that there will be no run: before anything listens to the
/// signal, this process ends by it.
fn pass_on(caller: &CallerLine, own: Pid, signal: Signal) {
    let changes_nothing = [Signal::SIGWINCH, Signal::SIGCONT].contains(&signal);
    let is_heeded = SignalSet::heeded().is_ok_and(|heeded| heeded.has(signal as i32));
    let answer = match is_heeded || changes_nothing {
        true if ENDS.contains(&signal) => Some(Packet::Waits(String::new())),
        true => None,
        false => Some(Packet::Refused(Refusal {
            code: RefusalCode::Withdrawn,
            message: format!("{signal} came before the run had begun"),
            fix: String::new(),
        })),
    };
    if let Some(answer) = answer {
        let _ = caller.send(&answer, &[], false);
    }
    let _ = kill(own, signal);
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, socketpair};
    use std::process::{Child, Command};
    use std::time::Duration;
    use turnkey_jailer::foreign::ForeignSocket;
    use turnkey_supervisor::service::LINE_TYPE;

    /// A process that is listened for, whose caller has hung up.
    fn hung_up() -> Child {
        let family = AddressFamily::UNIX;
        let (own, other) = socketpair(family, LINE_TYPE, SocketFlags::CLOEXEC, None).unwrap();
        let sleeper = Command::new("sleep").arg("60").spawn().unwrap();
        drop(other);
        let pid = Pid::from_raw(sleeper.id().cast_signed());
        listen_to(&ForeignSocket::from(own).into(), pid);
        sleeper
    }

    #[test]
    fn a_caller_that_hangs_up_ends_its_run_unless_it_has_its_answer() {
        use std::os::unix::process::ExitStatusExt;
        let mut ended = hung_up();
        // That of this test.
        let alarm = nix::unistd::alarm::cancel();
        assert_eq!(ended.wait().unwrap().signal(), Some(Signal::SIGTERM as i32));
        assert!(alarm.is_some(), "and it is not waited for without end");
        IS_ANSWERED.store(true, Ordering::Relaxed);
        let mut goes_on = hung_up();
        assert_eq!(nix::unistd::alarm::cancel(), None);
        std::thread::sleep(Duration::from_millis(20));
        assert!(goes_on.try_wait().unwrap().is_none());
        goes_on.kill().unwrap();
        goes_on.wait().unwrap();
    }
}
