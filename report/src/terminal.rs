//! The report for people: a block for what was blocked, and the verdict in one line.
//!
//! Everything from the jail is escaped long before it comes here, so the only control sequences
//! are the colours that this file writes when the caller wants them.

pub mod attached;
pub mod blocked;
mod brief;
pub mod lacking;
mod left;
pub mod meant;
mod order;
pub mod outcome_line;
pub mod remarks;
mod sunk;

use std::io::{self, Write};

use turnkey_policy::{AttemptKind, RuleAction};

use crate::text::by_reason;

use super::behaviour;
use super::came_of;
use super::model::{Actor, FileAccess, Finding, Process, Report, Sink, Status, Verdict, Violation};
use super::peers;
use super::text::quote;
use super::units::seconds;
use super::unknown;

/// Blocks for what no rule speaks of.
const UNRULED: usize = 3;
/// Further paths or addresses named in one block.
const ALSO: usize = 4;
/// Characters of a command line.
const COMMAND: usize = 160;

/// Writes what was exported or is lost, the blocks and the verdict line: all that `run` says on stderr, and
/// `turnkey report` on stdout. Fails only when `out` does.
pub fn story(report: &Report, out: &mut impl Write, colour: bool) -> io::Result<()> {
    if let Some(export) = &report.export {
        export.tell(false, out)?;
    }
    if let Some(kept) = &report.kept {
        kept.tell(false, out)?;
    }
    lost_alerts(report, out)?;
    let mut most = brief::MOST;
    if report.error.is_none() {
        let left = left::thrown_away(report);
        for words in left.chain(left::still_running(report)) {
            writeln!(out, "turnkey: {words}")?;
            most -= 1;
        }
    }
    fitted(report, out, colour, most)
}

/// Writes what did not reach a receiver of alerts: even to those who want to hear nothing. Fails only when `out` does.
pub fn lost_alerts(report: &Report, out: &mut impl Write) -> io::Result<()> {
    let losses = report.sinks.iter().filter_map(Sink::loss);
    for words in losses {
        writeln!(out, "turnkey: {words}")?;
    }
    Ok(())
}

/// Writes the blocks and the verdict line, as far as a screen has room for them. Fails only when `out` does.
#[cfg(test)]
pub fn render(report: &Report, out: &mut impl Write, colour: bool) -> io::Result<()> {
    fitted(report, out, colour, brief::MOST)
}

fn fitted(report: &Report, out: &mut impl Write, colour: bool, most: usize) -> io::Result<()> {
    let mut page = Vec::new();
    whole(report, &mut page, colour)?;
    out.write_all(brief::fit(&String::from_utf8_lossy(&page), most).as_bytes())
}

fn whole(report: &Report, out: &mut impl Write, colour: bool) -> io::Result<()> {
    let mut page = Page {
        out,
        colour,
        whole: false,
    };
    if let Some(error) = &report.error {
        return page.line(&format!("turnkey: {error}"));
    }
    for words in attached::lines(report).chain(remarks::all(report)) {
        page.line(&format!("turnkey: {words}"))?;
    }
    page.elsewhere(&peers::without_name_servers(report))?;
    for words in lacking::lines(report) {
        page.line(&format!("turnkey: {words}"))?;
    }
    let mut findings: Vec<_> = report.findings.iter().collect();
    findings.sort_by_key(|finding| order::rank(report, finding));
    for finding in findings {
        page.finding(report, finding)?;
    }
    for words in sunk::lines(report) {
        page.line(&format!("turnkey: {words}"))?;
    }
    page.unruled(report)?;
    page.unlisted(report)?;
    page.weaker(report)?;
    page.verdict(report)
}

/// The block of one finding, without colours, however long.
pub(super) fn block(report: &Report, finding: &Finding) -> String {
    let mut out = Vec::new();
    let mut page = Page {
        out: &mut out,
        colour: false,
        whole: true,
    };
    // Into memory, which does not fail.
    let _ = page.finding(report, finding);
    String::from_utf8_lossy(&out).into_owned()
}

/// The page and where it is written.
struct Page<'a, W> {
    out: &'a mut W,
    colour: bool,
    /// With rules to write, for what is read by nobody at a terminal.
    whole: bool,
}

/// Escape sequences of a colour; nothing else in a report begins with an escape character.
#[derive(Clone, Copy)]
enum Paint {
    Bold,
    Green,
    Yellow,
    Red,
    Magenta,
}

impl Paint {
    fn code(self) -> &'static str {
        match self {
            Self::Bold => "1",
            Self::Green => "1;32",
            Self::Yellow => "1;33",
            Self::Red => "1;31",
            Self::Magenta => "1;35",
        }
    }
}

impl<W: Write> Page<'_, W> {
    fn finding(&mut self, report: &Report, finding: &Finding) -> io::Result<()> {
        let rows: Vec<_> = finding.violations(report).collect();
        match rows.first() {
            _ if !finding.counts() => self.accepted(finding),
            Some(_) => self.rule(report, finding, &rows),
            None if behaviour::is_one(finding) => self.behaviour(report, finding),
            None => self.remark(finding),
        }
    }

    /// The most common reason why a harmless program fails.
    fn elsewhere(&mut self, paths: &[String]) -> io::Result<()> {
        if paths.is_empty() {
            return Ok(());
        }
        let flags: Vec<String> = paths.iter().map(|path| format!("--read {path}")).collect();
        let (does, shows) = match paths.len() {
            1 => ("does not exist in the jail, but does", "shows it"),
            _ => ("do not exist in the jail, but do", "shows them"),
        };
        self.line(&format!(
            "turnkey: {} {does} on this host: {} {shows}",
            paths.join(", "),
            flags.join(" ")
        ))
    }

    /// One rule that was violated, told by its gravest attempt.
    fn rule(&mut self, report: &Report, finding: &Finding, rows: &[&Violation]) -> io::Result<()> {
        let Some(gravest) = Finding::gravest(rows) else {
            return Ok(());
        };
        self.head(&headline(gravest))?;
        let mut fields = fields(report, finding, gravest, rows);
        fields.push((
            "to allow",
            meant::to_allow(report, gravest, self.whole).into_owned(),
        ));
        if !self.whole {
            shorten(&mut fields);
        }
        for (name, text) in &fields {
            self.field(name, text)?;
        }
        Ok(())
    }

    /// A course of acts in one line, with the act that began it.
    fn behaviour(&mut self, report: &Report, finding: &Finding) -> io::Result<()> {
        let name = finding.id.trim_start_matches(behaviour::PREFIX);
        let technique = finding.technique.as_deref().unwrap_or("no technique");
        let steps = &finding.evidence;
        let first = steps
            .first()
            .map_or(finding.reason.as_str(), |step| &step.what);
        let seen = usize::try_from(finding.count).unwrap_or(usize::MAX);
        let more = match seen.max(steps.len()) {
            0 | 1 => String::new(),
            acts => format!(" and {} more", acts - 1),
        };
        let severity = finding.severity;
        self.head(&format!("{name} ({severity}, {technique}): {first}{more}"))?;
        // Beside a rule or a limit the course is none that was meant.
        let is_alone = report.violations.is_empty() && report.status == Status::Exited;
        match behaviour::to_allow(finding).filter(|_| is_alone) {
            Some(line) => self.field("to allow", &format!("in a profile: {line}")),
            None => Ok(()),
        }
    }

    /// Writes the line on a finding that the profile accepts.
    fn accepted(&mut self, finding: &Finding) -> io::Result<()> {
        let Some(accepted) = &finding.accepted else {
            return Ok(());
        };
        let (id, why, until) = (&finding.id, &accepted.why, &accepted.until);
        self.head(&format!("accepted until {until}: {id}, {why}"))
    }

    /// Writes the line on a finding of turnkey itself, or of a rule whose attempts have no row.
    fn remark(&mut self, finding: &Finding) -> io::Result<()> {
        match finding.id.starts_with("turnkey:") {
            true => self.head(&finding.reason),
            // A rule whose attempts found no room in the list.
            false => self.head(&format!(
                "rule {}, {} attempts: {}",
                finding.id, finding.count, finding.reason
            )),
        }
    }

    /// Writes the acts that a layer stopped although no rule speaks of them.
    fn unruled(&mut self, report: &Report) -> io::Result<()> {
        let blocked = blocked::all(report);
        if let Some(words) = blocked::done_without(&blocked) {
            self.line(&format!("turnkey: {words}"))?;
        }
        let blocked: Vec<_> = blocked::that_matter(blocked).collect();
        for row in blocked.iter().take(UNRULED) {
            let times = match row.count {
                0 | 1 => String::new(),
                count => format!(" ({count} times)"),
            };
            self.head(&format!("blocked: {}{times}", row.what))?;
            if let Some(process) = row.process {
                self.field("by", &command(process))?;
            }
            self.field("stopped by", row.stopped_by)?;
            if let Some(advice) = &row.advice {
                self.field("to allow", advice)?;
            }
        }
        match blocked.len().saturating_sub(UNRULED) {
            0 => Ok(()),
            more => self.head(&format!("blocked: {more} more; --report FILE lists them")),
        }
    }

    /// Changes that are in no list at all; what else is left out of one is told in a finding.
    fn unlisted(&mut self, report: &Report) -> io::Result<()> {
        match report.omitted.files_changed {
            0 => Ok(()),
            more => self.head(&format!(
                "files changed: {more} more than the {} that a report lists",
                report.files_changed.len()
            )),
        }
    }

    /// Layers of which less than was asked for is in force, with the reason.
    fn weaker(&mut self, report: &Report) -> io::Result<()> {
        let layers = report.enforcement.iter();
        let weaker = by_reason(
            layers.filter_map(|layer| Some((layer.layer.name(), layer.degraded.as_deref()?))),
        );
        if !weaker.is_empty() {
            self.head(brief::KEPT)?;
        }
        for (layers, reason) in weaker {
            self.line(&format!("  {layers}: {}", reason.replace('\n', "\n  ")))?;
        }
        Ok(())
    }

    fn verdict(&mut self, report: &Report) -> io::Result<()> {
        let (word, paint) = match report.verdict {
            Verdict::Clean => ("clean", Paint::Green),
            Verdict::Suspicious => ("suspicious", Paint::Yellow),
            Verdict::Violated => ("violated", Paint::Red),
            Verdict::Inconclusive => ("inconclusive", Paint::Magenta),
        };
        let score = match report.risk_score {
            0 => String::new(),
            score => format!(", risk score {score}"),
        };
        let word = self.painted(word, paint);
        let (ending, served) = (ending(report), report.served_in_words());
        self.line(&format!("turnkey: {word} — {ending}{score}{served}"))
    }

    fn head(&mut self, text: &str) -> io::Result<()> {
        let text = self.painted(text, Paint::Bold);
        self.line(&format!("turnkey: {text}"))
    }

    /// A name and a text; in a whole block further lines of the text stand below its first.
    fn field(&mut self, name: &str, text: &str) -> io::Result<()> {
        let text = text.replace('\n', &format!("\n{:14}", ""));
        self.line(&format!("  {name:<11} {text}"))
    }

    fn line(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.out, "{text}")
    }

    fn painted(&self, text: &str, paint: Paint) -> String {
        match self.colour {
            true => format!("\x1b[{}m{text}\x1b[0m", paint.code()),
            false => text.to_owned(),
        }
    }
}

/// Lines of a block, its headline among them.
const BLOCK: usize = 8;

/// The fields of a block, but for how to allow it.
fn fields(
    report: &Report,
    finding: &Finding,
    told: &Violation,
    rows: &[&Violation],
) -> Vec<(&'static str, String)> {
    let raw = told.raw.as_ref().map(|raw| match raw.unreadable {
        true => "(memory that could not be read)".to_owned(),
        false => raw.text.clone(),
    });
    let unknown = told.actor_unknown.then(|| unknown::WORDS.to_owned());
    let stopper = came_of::words(told, report.whole()).into_owned();
    [
        ("by", Some(actor(&told.process))),
        ("rule", Some(rule(told))),
        ("who", unknown),
        ("file", unknown::file(told)),
        ("on host", told.host_path.clone()),
        ("stopped by", Some(stopper)),
        (ASKED, raw),
        also(finding, told, rows),
        (
            NOTE,
            meant::decoy(report, told).or_else(|| meant::not_shown(told)),
        ),
    ]
    .into_iter()
    .filter_map(|(name, text)| Some((name, text?)))
    .collect()
}

/// The name of the field for what was asked for, where the kernel has resolved it.
const ASKED: &str = "asked as";
/// The name of the field that says that what was read is worth nothing.
const NOTE: &str = "note";
/// The fields that go first where a block is too long.
const FIRST_TO_GO: [&str; 2] = [ASKED, NOTE];

/// To as many lines as a block has at most: each field in one, and without those that can be spared.
fn shorten(fields: &mut Vec<(&'static str, String)>) {
    for (_, text) in fields.iter_mut() {
        *text = text.replace('\n', " ");
    }
    for spared in FIRST_TO_GO {
        if fields.len() >= BLOCK {
            fields.retain(|(name, _)| *name != spared);
        }
    }
}

/// The headline of a violation: what was tried on what, and what became of it.
pub(super) fn headline(violation: &Violation) -> String {
    let verb = match (violation.action, violation.stopped_by) {
        (RuleAction::Kill, _) => "killed for",
        (_, Some(_)) => "blocked:",
        (_, None) => "noticed:",
    };
    let name = match object(violation) {
        None if violation.on == AttemptKind::Map => "memory without a file",
        name => name.unwrap_or(blocked::UNREADABLE),
    };
    let what = match violation.on {
        _ if violation.syscall.is_some() => format!("calling {name}"),
        _ if !violation.names.is_empty() => {
            let names = violation.names.first().map_or(name, String::as_str);
            peers::looking_up(names, name)
        }
        AttemptKind::Open => format!("{} {name}", use_of(&violation.access)),
        on => format!("{} {name}", on_words(on)),
    };
    format!("{verb} {what}")
}

/// The target of an attempt.
pub(super) fn object(violation: &Violation) -> Option<&str> {
    violation
        .path
        .as_deref()
        .or(violation.address.as_deref())
        .or(violation.syscall.as_deref())
}

/// Other objects of the same rule.
fn also(
    finding: &Finding,
    told: &Violation,
    rows: &[&Violation],
) -> (&'static str, Option<String>) {
    let mut names: Vec<&str> = Vec::new();
    for name in rows.iter().flat_map(|row| peers::objects(row)) {
        if Some(name) != peers::objects(told).next() && !names.contains(&name) {
            names.push(name);
        }
    }
    let more = match names.len().saturating_sub(ALSO) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    names.truncate(ALSO);
    match (finding.count, names.join(", ")) {
        (1, _) => ("count", None),
        (count, names) if names.is_empty() => ("count", Some(format!("{count} times"))),
        (count, names) => (
            "also",
            Some(format!("{names}{more}; {count} attempts in all")),
        ),
    }
}

fn use_of(access: &[FileAccess]) -> String {
    let words = access.iter().map(|access| match access {
        FileAccess::Read => "reading",
        FileAccess::Write => "writing",
        FileAccess::Execute => "executing",
        FileAccess::Link => "linking",
        FileAccess::Rename => "renaming",
        FileAccess::Unlink => "removing",
        FileAccess::Chmod => "changing the mode or owner of",
        FileAccess::Map => "making executable",
        FileAccess::Stat => "asking about",
        FileAccess::Attribute => "changing the times or attributes of",
    });
    match access {
        [] => "opening".to_owned(),
        _ => words.collect::<Vec<_>>().join(" and "),
    }
}

/// The words for an attempt of a kind, before its object.
fn on_words(on: AttemptKind) -> &'static str {
    match on {
        AttemptKind::Open => "opening",
        AttemptKind::Exec => "executing",
        AttemptKind::Connect => "connecting to",
        AttemptKind::Bind => "binding to",
        AttemptKind::Send => "sending to",
        AttemptKind::Link => "linking",
        AttemptKind::Rename => "renaming",
        AttemptKind::Unlink => "removing",
        AttemptKind::Rmdir => "removing the directory",
        AttemptKind::Mkdir => "making the directory",
        AttemptKind::Symlink => "making the symlink",
        AttemptKind::Mknod => "making the node",
        AttemptKind::Truncate => "truncating",
        AttemptKind::Chmod => "changing the mode or owner of",
        AttemptKind::Chown => "changing the owner of",
        AttemptKind::Attribute => "changing the times or attributes of",
        AttemptKind::Utimens => "changing the times of",
        AttemptKind::Xattr => "changing the attributes of",
        AttemptKind::Map => "making executable",
        AttemptKind::Stat => "asking about",
        AttemptKind::Kill => "signalling",
        AttemptKind::Ptrace => "tracing",
        AttemptKind::Mount => "mounting",
        AttemptKind::Setuid => "becoming another user by",
        AttemptKind::Namespace => "making or joining a namespace by",
        AttemptKind::Bpf => "using bpf by",
        AttemptKind::Module => "changing the kernel by",
        AttemptKind::Keyring => "using a keyring by",
        AttemptKind::IoUring => "using io_uring by",
    }
}

fn rule(violation: &Violation) -> String {
    let technique = violation
        .technique
        .as_ref()
        .map(|technique| format!(", {technique}"))
        .unwrap_or_default();
    let why = if violation.why.is_empty() {
        String::new()
    } else {
        format!(": {}", violation.why)
    };
    format!(
        "{} ({}{technique}){why}",
        violation.rule, violation.severity
    )
}

/// The process that made an attempt, by its arguments.
pub(super) fn actor(process: &Actor) -> String {
    command_line(&process.comm, process.pid, &process.argv)
}

/// A process, by its arguments.
pub(super) fn command(process: &Process) -> String {
    command_line(&process.comm, process.pid, &process.argv)
}

fn command_line(comm: &str, pid: u32, argv: &[String]) -> String {
    let words: Vec<String> = argv.iter().map(|argument| quote(argument)).collect();
    let mut line = words.join(" ");
    if let Some((end, _)) = line.char_indices().nth(COMMAND) {
        line.truncate(end);
        line.push('…');
    }
    match line.as_str() {
        "" => format!("{comm} (pid {pid})"),
        line => format!("{comm} (pid {pid}): {line}"),
    }
}

/// The end of the run, and the time it took.
pub(super) fn ending(report: &Report) -> String {
    let watched = report.attached.as_ref().map(|attached| attached.seconds);
    let used = report.usage.as_ref().map(|usage| usage.wall_seconds);
    let wall = used.or(watched).unwrap_or_default();
    let wall = seconds(std::time::Duration::try_from_secs_f64(wall).unwrap_or_default());
    match (report.status, report.exit_code) {
        (Status::Exited, Some(code)) => format!("exited {code} in {wall}"),
        (Status::KilledByPolicy, _) => format!("killed by policy after {wall}"),
        (Status::TimedOut, _) => format!("out of time after {wall}"),
        (Status::OutOfMemory, _) => format!("out of memory after {wall}"),
        (Status::LimitExceeded, _) => format!("over a limit after {wall}"),
        (Status::Watching, _) => {
            "turnkey still watches, or was killed before it could tell what happened".to_owned()
        }
        (Status::Detached, _) => format!("let go after {wall}, with processes left"),
        (_, _) => match report.signal {
            Some(signal) => format!("ended by {} after {wall}", signal_name(signal)),
            None => format!("ended after {wall}"),
        },
    }
}

/// As in signal(7).
pub(crate) fn signal_name(signal: i32) -> String {
    const NAMES: &[(i32, &str)] = &[
        (libc::SIGHUP, "SIGHUP"),
        (libc::SIGINT, "SIGINT"),
        (libc::SIGQUIT, "SIGQUIT"),
        (libc::SIGILL, "SIGILL"),
        (libc::SIGTRAP, "SIGTRAP"),
        (libc::SIGABRT, "SIGABRT"),
        (libc::SIGBUS, "SIGBUS"),
        (libc::SIGFPE, "SIGFPE"),
        (libc::SIGKILL, "SIGKILL"),
        (libc::SIGUSR1, "SIGUSR1"),
        (libc::SIGSEGV, "SIGSEGV"),
        (libc::SIGUSR2, "SIGUSR2"),
        (libc::SIGPIPE, "SIGPIPE"),
        (libc::SIGALRM, "SIGALRM"),
        (libc::SIGTERM, "SIGTERM"),
        (libc::SIGXCPU, "SIGXCPU"),
        (libc::SIGXFSZ, "SIGXFSZ"),
        (libc::SIGSYS, "SIGSYS"),
    ];
    let named = NAMES.iter().find(|(number, _)| *number == signal);
    named.map_or_else(
        || format!("signal {signal}"),
        |(_, name)| (*name).to_owned(),
    )
}

#[cfg(test)]
mod bound;
