//! The process of one run: takes a caller's connection, and from it the request; makes the run; answers; ends.
//!
//! Until the jail is made, what the caller names is looked at with the caller's rights: first all of this process has them, which has no
//! other thread then; later only a thread that opens a path ([`turnkey_jailer::ServedUser`]).

use std::ffi::OsStr;
use std::io::IsTerminal;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Parser as _;
use nix::fcntl::{FcntlArg, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::SigSet;
use nix::sys::stat::Mode;
use nix::unistd::Pid;
use turnkey_jailer::foreign::ForeignSocket;
use turnkey_jailer::served;
use turnkey_monitor::shared::AttachedPrograms;
use turnkey_policy::JailLimits;

use turnkey_report::terminal::outcome_line::outcome_line;
use turnkey_supervisor::export::{ExportTarget, WantedExport};
use turnkey_supervisor::service::{
    CallerAllowance, CallerDescriptors, MOST_ORDER, Packet, PacketError, PacketLine, PeerError,
    Refusal, RefusalCode, RunClaim, RunOrder, ServedCaller, ServedPeer, WantedDescriptors, memory,
};
use turnkey_supervisor::{
    CallerEnvironment, FinishedRun, RunDirectory, RunObserver, RunPlace, RunRequest, SettledPolicy,
    Strictness, Terminal, object, standard_error, standard_output,
};

use super::caller_process::{CallerLook, as_caller, be_like};
use super::counters::{GONE, status_of};
use super::first_half::FirstHalf;
use super::heeding::{IS_ANSWERED, die_with, heed};
use super::log::{ServiceEvent, ServiceLog, milliseconds, request_id};
use super::patience;
use super::refusals::{LOCAL, broken, forbidden, malformed, mistaken, refusal, unserved, unusable};
use super::run_maker::CallerLine;
use crate::cli::{CommandLine, RunArguments, ServeRunArguments, TurnkeyCommand};
use crate::cmd::run::{self, CallerTerminal};
use crate::failure::Failure;
use crate::own_process;
use crate::{colour, output};

/// The time in which a caller that has connected sends its request.
const REQUEST: Duration = Duration::from_secs(5);
/// The time, in seconds, in which a request becomes a run: it may name files that do not answer, and rules that take long to compile.
const PREPARATION: u32 = 60;
/// The time, in seconds, in which the caller takes what is left of the output, behind the longest that the program may run.
const UNREAD: u32 = 30;
/// The time, in seconds, in which the caller's process writes the files of an export, and takes what is left of the output.
const EXPORT: u32 = 300;

/// Makes one run.
pub fn make(arguments: &ServeRunArguments) -> Result<u8, Failure> {
    let service_pid = Pid::from_raw(arguments.service);
    die_with(service_pid)?;
    own_process::heed_what_is_ignored();
    // The listener has blocked those that it waits for, and a mask is inherited.
    SigSet::all().thread_unblock()?;
    // It was started by another name.
    nix::sys::prctl::set_name(c"turnkey")?;
    // Of whoever has started the service; the caller's own is the program's alone.
    nix::sys::stat::umask(Mode::S_IWGRP | Mode::S_IWOTH);
    turnkey_supervisor::make_room_for_files();
    served::write_as_everybody().map_err(anyhow::Error::from)?;
    let file = arguments.config.as_deref();
    // Out of the way of the caller's own.
    let service = nix::unistd::dup(std::io::stdin())?;
    fcntl(&service, FcntlArg::F_SETFD(nix::fcntl::FdFlag::FD_CLOEXEC))?;
    let service = PacketLine::from(service);
    // To the end of this process.
    let _attached = arguments.after_a_run.then(hold_attached).flatten();
    let half = FirstHalf::make(file);
    let Some(came) = service.receive(None)? else {
        // The service is over.
        return Ok(0);
    };
    rustix::process::setpriority_process(None, arguments.nice).map_err(anyhow::Error::from)?;
    let (Packet::Caller(handed), descriptors) = came? else {
        return Ok(0);
    };
    let request = request_id(arguments.service.cast_unsigned(), handed.number);
    let Some(connection) = descriptors.into_iter().next() else {
        return Ok(0);
    };
    let (began, log) = (Instant::now(), ServiceLog::open()?);
    let log = match handed.has_lines {
        true => log,
        false => log.without_lines(),
    };
    let caller = Arc::new(CallerLine::from(ForeignSocket::from(connection)));
    let whole = ServedPeer::from_socket(&*caller).and_then(|peer| {
        peer.require_root(&*caller)?;
        Ok(peer)
    });
    let refused = whole.as_ref().err().and_then(PeerError::user);
    let peer = match whole {
        Err(PeerError::Gone) => {
            log.tell(ServiceEvent::Gone { request: &request });
            return Ok(GONE);
        }
        peer => peer.map_err(|error| forbidden(error.to_string())),
    };
    let known = peer.as_ref().ok();
    let (user, pid) = (known.map(|peer| peer.user.user), known.map(|peer| peer.pid));
    let user = user.or(refused);
    let mut untold = None;
    let done = peer.and_then(|peer| {
        let half = match half {
            Ok(half) if half.is_current(file) => half,
            _ => FirstHalf::make(file).map_err(|error| {
                untold = Some(turnkey_supervisor::advice::in_one_line(&error));
                unusable()
            })?,
        };
        let started = |profile: &str, program: &OsStr| {
            log.tell(ServiceEvent::Started {
                request: &request,
                user: peer.user.user,
                caller: peer.pid,
                profile,
                program: &program.to_string_lossy(),
            });
        };
        let done = answered(half, &caller, &peer, (&service, service_pid), &started)?;
        Ok((peer, done))
    });
    let status = match done {
        // The listener has its caller back.
        Ok((_, RequestEnd::Waits)) => 0,
        Ok((_, RequestEnd::Gone)) => {
            log.tell(ServiceEvent::Gone { request: &request });
            GONE
        }
        Ok((peer, RequestEnd::Ran(done))) => {
            let (code, report) = (exit_code(&done), sealed(&done)?);
            log.tell(ServiceEvent::Ran {
                request: &request,
                user: peer.user.user,
                caller: peer.pid,
                run: &done.report.id,
                exit_code: code,
                verdict: done.report.verdict,
                result: &outcome_line(&done.report),
                milliseconds: milliseconds(began),
            });
            IS_ANSWERED.store(true, Ordering::Relaxed);
            // Who has hung up takes no answer.
            let _ = caller.send(&Packet::Ended(code.into()), &[report.as_fd()], true);
            0
        }
        Err(refusal) => {
            log.tell(ServiceEvent::Refused {
                request: &request,
                user,
                caller: pid,
                code: refusal.code as u32,
                reason: untold.as_deref().unwrap_or(&refusal.message),
            });
            let status = status_of(refusal.code);
            // What was only looked at is taken, so that its sender finds the answer and no broken connection.
            let _ = caller.receive(Some(Duration::ZERO));
            let _ = caller.send(&Packet::Refused(refusal), &[], true);
            status
        }
    };
    // To the end of this process: its end is what frees the slot.
    std::mem::forget(service);
    Ok(status)
}

/// The monitor's programs, called as if a jail was watched. That they cannot be had costs time alone: a run attaches what it needs by
/// itself, and tells when it cannot.
fn hold_attached() -> Option<AttachedPrograms> {
    let tier = turnkey_monitor::Available::here().tier;
    AttachedPrograms::hold(object(), tier).ok().flatten()
}

/// Words of a request that may be turnkey's own: each costs more, the more there are.
const MOST_OWN_WORDS: usize = 4096;

/// The end of a request.
enum RequestEnd {
    /// A run, which has been told to its caller but for the report.
    Ran(Box<FinishedRun>),
    /// The caller has hung up before it had asked for anything, or before its run had begun.
    Gone,
    /// The caller waits once more, until there is what the run claims.
    Waits,
}

/// Makes the run that is asked for, where its user has room for it.
fn answered(
    half: FirstHalf,
    caller: &Arc<CallerLine>,
    peer: &ServedPeer,
    (service, service_pid): (&PacketLine, Pid),
    started: &dyn Fn(&str, &OsStr),
) -> Result<RequestEnd, Refusal> {
    let system = |error: std::io::Error| broken(&error.into());
    nix::unistd::alarm::set(PREPARATION);
    // It stays where it is: who has to wait is read anew by the process that makes the run.
    let came = caller
        .peek(Some(REQUEST))
        .map_err(|error| match error.kind() {
            std::io::ErrorKind::TimedOut => {
                refusal(RefusalCode::Late, "no request came in 5 s", "")
            }
            _ => system(error),
        })?;
    let Some(came) = came else {
        return Ok(RequestEnd::Gone);
    };
    let (order, descriptors) = words(came.map_err(malformed)?)?;
    let arguments = parse(&order)?;
    let more = WantedDescriptors {
        terminal: arguments.terminal.chosen().unwrap_or(false),
        events: arguments.events.is_some(),
        export: arguments.export.destination().is_some(),
    };
    let descriptors = CallerDescriptors::check(descriptors, more, peer.user.user)
        .map_err(|error| refusal(RefusalCode::Malformed, error.to_string(), LOCAL))?;
    let taken = (descriptors.events, descriptors.export);
    take_streams(&descriptors.streams).map_err(|errno| broken(&errno.into()))?;
    drop(descriptors.streams);
    let seen = peer.look_at(&**caller, CallerLook::at);
    let seen = seen.map_err(|error| forbidden(error.to_string()))?;
    let seen = seen.map_err(|error| broken(&error))?;
    be_like(peer, &seen).map_err(|error| broken(&error))?;
    let environment: CallerEnvironment = order.variables.into_iter().collect();
    let wanted = as_caller(peer, || {
        nix::unistd::fchdir(&descriptors.directory).map_err(|errno| {
            forbidden(format!("the current directory cannot be entered: {errno}"))
        })?;
        settle(half, &arguments, &environment, (peer, seen.allowance))
    });
    if has_hung_up(caller) {
        return Ok(RequestEnd::Gone);
    }
    let mut wanted = wanted.map_err(|error| broken(&error))??;
    if !claims(service, RunClaim::from_policy(wanted.policy.policy()))
        .map_err(|error| broken(&error))?
    {
        return Ok(RequestEnd::Waits);
    }
    let outlived = service.as_fd().try_clone_to_owned().map_err(system)?;
    wanted.caller.outlived = Some(Arc::new(outlived));
    caller.receive(None).map_err(system)?;
    // A change of user has taken the death signal back, prctl(2), and so do those of threads for themselves: this one has none.
    heed(Arc::clone(caller), service_pid).map_err(|error| broken(&error))?;
    let program = arguments.command.first().map_or(OsStr::new(""), OsStr::new);
    let started = || started(&arguments.profile, program);
    let done = under(&arguments, wanted, taken, peer.pid, &started)?;
    tell(&done, &arguments, &environment);
    Ok(RequestEnd::Ran(Box::new(done)))
}

/// True when nothing comes from the caller any more: until it is listened to, nobody else notices, and a run would be made for nobody.
fn has_hung_up(caller: &CallerLine) -> bool {
    // That of a half that is shut down has no name in nix; nothing else is asked about, and so nothing else is answered.
    let asked = PollFlags::from_bits_retain(nix::libc::POLLRDHUP);
    let mut waited = [PollFd::new(caller.as_fd(), asked)];
    poll(&mut waited, PollTimeout::ZERO).is_ok_and(|count| count > 0)
}

/// Claims of the listener what a run may take. False when there is not as much of its user's: then the listener has its caller wait.
fn claims(service: &PacketLine, claim: RunClaim) -> anyhow::Result<bool> {
    service.send(&Packet::Claim(claim), &[], true)?;
    match service.receive(None)? {
        Some(Ok((Packet::Granted, _))) => Ok(true),
        Some(Ok((Packet::Waits(_), _))) => Ok(false),
        _ => Err(anyhow::anyhow!("the service has ended")),
    }
}

/// The words of the first packet, and the descriptors of a run.
fn words(
    (packet, mut descriptors): (Packet, Vec<OwnedFd>),
) -> Result<(RunOrder, Vec<OwnedFd>), Refusal> {
    let order = match packet {
        Packet::Run(order) => order,
        Packet::LongRun => {
            let memory = descriptors.pop().ok_or(PacketError::Length);
            let words = memory.and_then(|memory| memory::read_sealed(memory, MOST_ORDER));
            let order = words.and_then(|words| RunOrder::decode(&words));
            order.map_err(malformed)?
        }
        _ => return Err(malformed("the first packet asks for no run")),
    };
    Ok((order, descriptors))
}

/// The arguments of `run`, as far as a service does what they ask for.
fn parse(order: &RunOrder) -> Result<RunArguments, Refusal> {
    let own = order.arguments.iter().take_while(|word| *word != "--");
    if own.count() > MOST_OWN_WORDS {
        let message = format!("more than {MOST_OWN_WORDS} words are turnkey's own");
        let fix = "put -- before the program, and name directories instead of the files in them";
        return Err(refusal(RefusalCode::Malformed, message, fix));
    }
    let program = std::iter::once("turnkey".into());
    let words = program.chain(order.arguments.iter().cloned());
    let parsed = CommandLine::try_parse_from(words).map_err(malformed)?;
    let TurnkeyCommand::Run(arguments) = parsed.command else {
        return Err(malformed("only `run` can be asked for"));
    };
    match unserved(&arguments) {
        None => Ok(arguments),
        Some(flag) => Err(forbidden(format!("the service does not do {flag}"))),
    }
}

/// The caller's streams become this process's: everything that a run does with them it does as for one of its own.
fn take_streams([input, output, error]: &[OwnedFd; 3]) -> nix::Result<()> {
    nix::unistd::dup2_stdin(input)?;
    nix::unistd::dup2_stdout(output)?;
    nix::unistd::dup2_stderr(error)
}

/// A run that may be made.
struct SettledRun {
    policy: SettledPolicy,
    directory: RunDirectory,
    caller: ServedCaller,
}

/// The policy for the request, within the ceilings and what the caller may have.
fn settle(
    half: FirstHalf,
    arguments: &RunArguments,
    environment: &CallerEnvironment,
    (peer, allowance): (&ServedPeer, CallerAllowance),
) -> Result<SettledRun, Refusal> {
    let FirstHalf {
        config,
        ceilings,
        sums,
        profile,
        ..
    } = half;
    config
        .require_profile(&arguments.profile)
        .map_err(forbidden)?;
    let overrides = arguments.overrides.resolve();
    let overrides = overrides.map_err(|error| broken(&error.into()))?;
    let mut policy = profile
        .policy(&arguments.profile, &overrides)
        .map_err(|error| mistaken(&error))?;
    config
        .require_within(&policy, &ceilings)
        .map_err(forbidden)?;
    let caller = allowance
        .lower(peer.user, &mut policy.limits)
        .map_err(|error| forbidden(error.to_string()))?;
    config
        .require_ever(RunClaim::from_policy(&policy), sums)
        .map_err(forbidden)?;
    let directory = arguments
        .directory
        .chosen()
        .map_err(|error| broken(&error))?;
    let directory = RunDirectory {
        environment: environment.clone(),
        ..directory
    };
    let policy = SettledPolicy::new(policy, &arguments.command, &directory, Strictness::Whole)
        .map_err(|error| broken(&error.into()))?;
    Ok(SettledRun {
        policy,
        directory,
        caller,
    })
}

fn under(
    arguments: &RunArguments,
    wanted: SettledRun,
    (events, export): (Option<OwnedFd>, Option<OwnedFd>),
    process: u32,
    started: &dyn Fn(),
) -> Result<FinishedRun, Refusal> {
    let failed = |error: anyhow::Error| broken(&error);
    let export = export.map(|line| wanted_export(arguments, line, &wanted.policy));
    let wants_terminal = arguments.terminal.chosen().unwrap_or(false);
    let terminal = wants_terminal.then(|| Terminal::with_output(std::io::stdout()));
    let terminal = terminal.transpose().map_err(|error| failed(error.into()))?;
    let terminal = terminal.map(|terminal| Terminal {
        job: Some(process),
        ..terminal
    });
    let request = RunRequest {
        directory: wanted.directory,
        output: [standard_output(), standard_error()],
        terminal,
        capture: arguments.capture,
        redact: !arguments.no_redact,
        events: events.map(std::fs::File::from),
        export: export.transpose().map_err(failed)?,
        served: Some(wanted.caller),
        ..RunRequest::new(arguments.command.clone())
    };
    let mut observer = StartedRun {
        terminal: CallerTerminal::silent(arguments.quiet),
        told: started,
    };
    let place = RunPlace::entered_before();
    turnkey_supervisor::run(request, wanted.policy, place, &mut observer).map_err(failed)
}

/// The export to the caller's own process, over this connection.
fn wanted_export(
    arguments: &RunArguments,
    line: OwnedFd,
    policy: &SettledPolicy,
) -> anyhow::Result<WantedExport> {
    let destination = arguments.export.destination();
    let (path, mode) = destination.context("no export is asked for")?;
    let target = ExportTarget::Caller {
        line: line.into(),
        mode,
        begins: || patience::give(EXPORT),
    };
    WantedExport::new(target, path, arguments.export.scope(), policy.policy())
}

/// The caller's terminal. From its start on a run has a clock of its own, and a caller that takes no output holds the slot not much
/// longer.
struct StartedRun<'t> {
    terminal: CallerTerminal<'t>,
    /// Tells the service's log.
    told: &'t dyn Fn(),
}

impl RunObserver for StartedRun<'_> {
    fn notice(&mut self, line: &str) {
        self.terminal.notice(line);
    }

    fn remark(&mut self, line: &str) {
        self.terminal.remark(line);
    }

    fn started(&mut self, limits: &JailLimits) {
        let longest = u32::try_from(limits.wall.as_secs()).unwrap_or(u32::MAX);
        patience::give(longest.saturating_add(UNREAD));
        (self.told)();
    }
}

fn tell(done: &FinishedRun, arguments: &RunArguments, environment: &CallerEnvironment) {
    let stream = std::io::stderr();
    let colour = colour::wanted_in(arguments.colour, stream.is_terminal(), environment);
    run::tell_story(done, arguments.quiet, colour);
    if let Some(error) = &done.unwritten {
        output::lines(&turnkey_supervisor::advice::explain(error));
    }
}

/// The exit code that the caller's turnkey has: turnkey's own where not all that was asked for could be written.
fn exit_code(done: &FinishedRun) -> u8 {
    let code = done.report.exit_code();
    match done.unwritten {
        Some(_) => done.report.code_of_unwritten(code),
        None => code,
    }
}

/// The report in memory that nobody changes any more.
fn sealed(done: &FinishedRun) -> anyhow::Result<OwnedFd> {
    Ok(memory::sealed(&turnkey_report::json::page(&done.report)?)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, socketpair};
    use turnkey_supervisor::service::LINE_TYPE;

    #[test]
    fn a_caller_that_has_hung_up_is_noticed_before_it_is_listened_to() {
        let pair = || socketpair(AddressFamily::UNIX, LINE_TYPE, SocketFlags::CLOEXEC, None);
        let line = |own: OwnedFd| CallerLine::from(ForeignSocket::from(own));
        let (own, other) = pair().unwrap();
        let own = line(own);
        assert!(!has_hung_up(&own), "it waits for its answer");
        rustix::io::write(&other, b"more").unwrap();
        assert!(!has_hung_up(&own), "nor does a signal end it");
        drop(other);
        assert!(has_hung_up(&own));
        let (own, other) = pair().unwrap();
        rustix::net::shutdown(&other, rustix::net::Shutdown::Write).unwrap();
        assert!(has_hung_up(&line(own)), "as its client says it");
    }
}
