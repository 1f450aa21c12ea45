//! A profile that allows what a run was refused, for whoever meant it: every line that the terminal and the report
//! have as advice, in one text that can be used as it is.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use toml_edit::DocumentMut;
use turnkey_policy::{SCHEMA, Severity, shipped};

use super::command_line;
use crate::advice::WRITABLE_ROOT;
use crate::behaviour;
use crate::model::{LeftProgram, LeftVariable, Report, Violation};
use crate::shortened;
use crate::terminal::{self, lacking::SIZE};
use crate::text::quote;
use turnkey_policy::quoted;

/// Characters of the command in the first line.
const COMMAND: usize = 60;

/// The text that redact.rs puts in the place of a credential.
const REDACTED: &str = "[redacted";

/// The name of the first profile that is suggested.
const NAME: &str = "suggested";

/// The profile. What a rule of severity critical is against, and what no profile can allow, stands in comments.
pub fn document(report: &Report) -> String {
    let mut suggested = SuggestedProfile::over(&report.profile.name);
    for finding in report.findings.iter().filter(|finding| finding.counts()) {
        let violations = finding.violations(report);
        violations.for_each(|violation| suggested.violation(violation));
        if let Some(line) = behaviour::to_allow(finding) {
            let about = format!("a course of acts; to allow it: {line}");
            suggested.leave_out(&finding.id, &about);
        }
    }
    for blocked in terminal::blocked::all(report) {
        let by = blocked.process.map(|process| process.comm.as_str());
        let what = told(&format!("blocked: {}", blocked.what), by);
        let advice = blocked.advice.as_deref().unwrap_or_default();
        suggested.advice(&what, advice, blocked.path);
    }
    for path in &report.on_host {
        suggested.advice("looked for in vain", "--read ", Some(path));
    }
    for path in &report.on_host_to_write {
        add(&mut suggested.scratch, path, "to be written in");
    }
    for program in &report.programs_left {
        suggested.program(program);
    }
    for variable in &report.variables_left {
        suggested.variable(variable);
    }
    suggested.text(report)
}

/// The path that is to be given to be written: the one that was tried, or its directory, as the advice has it.
fn to_write<'p>(advice: &str, path: &'p str) -> &'p str {
    let above = Path::new(path).parent().and_then(Path::to_str);
    let is_above = |above: &&str| {
        let rest = advice.strip_prefix(&format!("--write {}", quote(above)));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([',', '\n']))
    };
    above.filter(is_above).unwrap_or(path)
}

fn told(what: &str, by: Option<&str>) -> String {
    by.map_or_else(|| what.to_owned(), |by| format!("{what}, by {by}"))
}

/// The lines of a profile, each with the reason.
#[derive(Default)]
struct SuggestedProfile {
    /// The name of the profile, which begins those of its rules: one that was suggested before may be below it.
    name: String,
    hosts: BTreeMap<String, String>,
    loopback: Option<String>,
    read: BTreeMap<String, String>,
    write: BTreeMap<String, String>,
    scratch: BTreeMap<String, String>,
    pass: BTreeMap<String, String>,
    search: Option<String>,
    proc: Option<String>,
    root_mode: Option<String>,
    calls: BTreeMap<String, String>,
    /// Rules as the report has them, and what of each name is taken.
    rules: Vec<(String, String)>,
    ids: BTreeSet<String>,
    left_out: BTreeSet<String>,
}

impl SuggestedProfile {
    /// Of a profile over the one of this name.
    fn over(base: &str) -> SuggestedProfile {
        let number = base.strip_prefix(NAME).map(|rest| {
            let number = rest.strip_prefix('-').and_then(|rest| rest.parse().ok());
            number.unwrap_or(1_u32).saturating_add(1)
        });
        let name = number.map_or_else(|| NAME.to_owned(), |number| format!("{NAME}-{number}"));
        SuggestedProfile {
            name,
            ..SuggestedProfile::default()
        }
    }

    /// An attempt that a rule decided on.
    fn violation(&mut self, violation: &Violation) {
        let what = told(
            &terminal::headline(violation),
            Some(&violation.process.comm),
        );
        if violation.severity == Severity::Critical {
            let (rule, why) = (&violation.rule, &violation.why);
            self.leave_out(&what, &format!("rule {rule} is critical: {why}"));
            return;
        }
        self.advice(&what, &violation.advice, violation.path.as_deref());
    }

    /// Takes one piece of advice as advice.rs writes them: what opens the layer, and the rule.
    fn advice(&mut self, what: &str, advice: &str, path: Option<&str>) {
        let (opening, rule) = match advice.split_once("\n[[rule]]\n") {
            Some((opening, rule)) => (opening, Some(format!("[[rule]]\n{rule}\n"))),
            None => (advice, None),
        };
        let rule = rule.map(|rule| self.rule(what, &rule));
        if rule == Some(false) || !self.opening(what, opening, path, rule.is_some()) {
            let opening = opening.lines().next().unwrap_or_default();
            self.leave_out(what, opening);
        }
    }

    /// True when the profile now has what opens the layer.
    fn opening(&mut self, what: &str, text: &str, path: Option<&str>, has_rule: bool) -> bool {
        let path = path.filter(|path| path.starts_with('/') && !path.contains('\\'));
        let path = path.filter(|path| !path.contains(REDACTED));
        let line = text.strip_prefix("in a profile: ").unwrap_or_default();
        let call = line.strip_prefix("[syscalls] allow = [\"");
        let call = call.and_then(|rest| rest.split('"').next());
        match (path, call) {
            (Some(path), _) if text.starts_with("--read ") => add(&mut self.read, path, what),
            (Some(path), _) if text.starts_with("--write ") => {
                add(&mut self.write, to_write(text, path), what);
            }
            _ if text.starts_with(WRITABLE_ROOT) => {
                self.root_mode.get_or_insert_with(|| what.to_owned());
            }
            _ if text.starts_with("--network loopback") => {
                self.loopback.get_or_insert_with(|| what.to_owned());
            }
            _ if text.starts_with("--allow ") => return self.talk(what, text),
            (_, Some(call)) => add(&mut self.calls, call, what),
            _ if line.starts_with("[filesystem] proc = \"common\"") => {
                self.proc.get_or_insert_with(|| what.to_owned());
            }
            // The rule alone was in the way.
            _ => return has_rule && text.starts_with("in a profile that extends "),
        }
        true
    }

    fn talk(&mut self, what: &str, flags: &str) -> bool {
        let hosts: Vec<&str> = flags
            .split("--allow ")
            .filter_map(|flag| flag.split(' ').next().filter(|host| !host.is_empty()))
            .collect();
        if hosts.iter().any(|host| host.ends_with("PORT")) {
            return false;
        }
        for host in hosts {
            add(&mut self.hosts, host, what);
        }
        true
    }

    /// True when the profile now has the rule. Of rules that take another's place it has the first.
    fn rule(&mut self, what: &str, text: &str) -> bool {
        let Ok(mut document) = text.parse::<DocumentMut>() else {
            return false;
        };
        let rules = document.get_mut("rule");
        let Some(rule) = rules.and_then(|rules| rules.as_array_of_tables_mut()?.get_mut(0)) else {
            return false;
        };
        let id = rule.get("id").and_then(|id| id.as_str()).map(str::to_owned);
        let Some(id) = id else { return false };
        if self.rules.iter().any(|(known, _)| known == text) {
            return true;
        }
        let replaces = rule.contains_key("replaces");
        let id = match replaces {
            true => id,
            false => format!("{}-{id}", self.name),
        };
        let mut free = id.clone();
        for number in 2.. {
            if self.ids.insert(free.clone()) {
                break;
            }
            if replaces {
                return false;
            }
            free = format!("{id}-{number}");
        }
        rule["id"] = toml_edit::value(free);
        rule["why"] = toml_edit::value(what);
        let written = format!("\n{}", document.to_string().trim_start());
        self.rules.push((text.to_owned(), written));
        true
    }

    /// A program of the caller's, by the last search path: each begins with the program's own directory.
    fn program(&mut self, program: &LeftProgram) {
        let what = format!("{} was to be started", program.name);
        let read = program.read.iter();
        read.for_each(|path| add(&mut self.read, path, &what));
        self.search = Some(match self.search.take() {
            None => program.search.clone(),
            Some(search) => joined(&program.search, &search),
        });
    }

    /// A variable of the caller's, with what it names.
    fn variable(&mut self, variable: &LeftVariable) {
        let what = format!("named by {}", variable.name);
        add(&mut self.pass, &variable.name, "of the caller's");
        let read = variable.read.iter();
        read.for_each(|path| add(&mut self.read, path, &what));
        let allow = variable.allow.iter();
        allow.for_each(|host| add(&mut self.hosts, host, &what));
    }

    fn leave_out(&mut self, what: &str, why: &str) {
        self.left_out.insert(format!("{what}: {why}"));
    }

    fn text(self, report: &Report) -> String {
        let mut text = head(report, &self.name);
        if !self.hosts.is_empty() {
            text += "\n[network]\nmode = \"allow\"\nallow = [\n";
            text += &entries("to", &self.hosts, "");
            text += "]\n";
        } else if let Some(why) = self.loopback {
            let _ = writeln!(text, "\n[network]\n# {why}\nmode = \"loopback\"");
        }
        let given = [&self.read, &self.write, &self.scratch];
        if self.proc.is_some()
            || self.root_mode.is_some()
            || given.iter().any(|paths| !paths.is_empty())
        {
            text += "\n[filesystem]\n";
        }
        if let Some(why) = self.proc {
            let _ = writeln!(text, "# {why}\nproc = \"common\"");
        }
        if let Some(why) = self.root_mode {
            let _ = writeln!(text, "# {why}\nroot_mode = \"overlay\"");
        }
        if !self.read.is_empty() {
            // A program looks for more than there is, on this host or on the next.
            let entries = entries("path", &self.read, "optional = true, ");
            let _ = writeln!(text, "read = [\n{entries}]");
        }
        if !self.write.is_empty() {
            let _ = writeln!(text, "write = [\n{}]", entries("path", &self.write, ""));
        }
        if !self.scratch.is_empty() {
            let size = format!("size = {}, ", quoted(SIZE));
            let entries = entries("path", &self.scratch, &size);
            let _ = writeln!(text, "scratch = [\n{entries}]");
        }
        if !self.pass.is_empty() {
            let names: Vec<_> = self.pass.keys().map(|name| quoted(name)).collect();
            let _ = writeln!(text, "\n[env]\npass = [{}]", names.join(", "));
        }
        if let Some(search) = &self.search {
            let _ = writeln!(text, "\n[env.set]\nPATH = {}", quoted(search));
        }
        if !self.calls.is_empty() {
            text += "\n[syscalls]\nallow = [\n";
            for (call, why) in &self.calls {
                let _ = writeln!(text, "    # {why}\n    {},", quoted(call));
            }
            text += "]\n";
        }
        text.extend(self.rules.iter().map(|(_, rule)| rule.as_str()));
        if !self.left_out.is_empty() {
            text += "\n# Left out, for a person to decide on:\n";
        }
        for words in &self.left_out {
            let _ = writeln!(text, "#   {words}");
        }
        text
    }
}

/// The top of the profile, above the rules for what was refused.
fn head(report: &Report, name: &str) -> String {
    let below = &report.profile.name;
    let (told, kept) = match &report.attached {
        Some(attached) => {
            let group = shortened(&attached.group, COMMAND);
            let told = format!("the group `{group}` was told of, or refused");
            (
                told,
                format!("what the group {group} was told of, or refused"),
            )
        }
        None => {
            let command = command_line(report);
            let told = format!("`{}` was refused", shortened(&command, COMMAND));
            (told, format!("what a run of {command} was refused"))
        }
    };
    let (base, note) = match shipped(below) {
        Some(_) => (below.clone(), String::new()),
        // What had to be escaped is not the path itself any more, and reports of earlier versions have none.
        None => match report
            .profile
            .file
            .as_ref()
            .filter(|file| !file.contains('\\'))
        {
            Some(file) => (file.clone(), String::new()),
            None => (
                format!("./{below}.toml"),
                format!("  # the file of the profile {}", quoted(below)),
            ),
        },
    };
    format!(
        "# What {told}, allowed. Take out what you did not mean: each line says what it is for.\n\
         schema = \"{SCHEMA}\"\n\
         name = \"{name}\"\n\
         extends = [{}]{note}\n\
         description = {}\n",
        quoted(&base),
        quoted(&format!("{below}, and {kept}")),
    )
}

/// Both search paths, each directory once.
fn joined(first: &str, second: &str) -> String {
    let mut directories: Vec<&str> = Vec::new();
    for directory in first.split(':').chain(second.split(':')) {
        if !directories.contains(&directory) {
            directories.push(directory);
        }
    }
    directories.join(":")
}

fn add(map: &mut BTreeMap<String, String>, key: &str, what: &str) {
    map.entry(key.to_owned()).or_insert_with(|| what.to_owned());
}

/// A line for each, with `more` between what it is and why.
fn entries(key: &str, all: &BTreeMap<String, String>, more: &str) -> String {
    all.iter().fold(String::new(), |mut text, (value, why)| {
        let (value, why) = (quoted(value), quoted(why));
        let _ = writeln!(text, "    {{ {key} = {value}, {more}why = {why} }},");
        text
    })
}

#[cfg(test)]
mod tests;
