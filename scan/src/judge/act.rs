//! Acts and the rules that they meet.

use std::collections::BTreeSet;

use turnkey_analysis::behaviour::{Reach, is_system};

use super::{Judge, KEPT};
use crate::bounded::LARGEST;
use crate::expand::{self, Expanded};
use crate::place::{self, Place, place};
use crate::value::{HOLE, Origins, Value};
use crate::{Language, decode, rule};

/// The sum of acts over a whole script.
#[derive(Debug, Default)]
pub struct Facts {
    /// Files with something that was downloaded.
    downloaded: BTreeSet<String>,
    /// A descriptor was made standard input or output.
    duplicates: bool,
    /// A connection was made.
    connects: bool,
    /// A shell was started.
    shell: bool,
    /// Data is encrypted.
    encrypts: bool,
    /// A tree of files is walked.
    walks: bool,
    /// Files are removed or replaced, which the script found by itself.
    replaces: bool,
}

/// Steps that a path or an address costs, which is held against whole tables.
const LOOKED_UP: usize = 50;

impl Judge {
    /// Each of the values that something may be, as long as there are steps left.
    fn each(&mut self, value: &Value) -> Vec<Value> {
        let items = value.items.as_ref().filter(|_| value.one_of);
        let many = items.map_or(1, |items| items.len());
        match self.spend(LOOKED_UP * many) {
            true => value.each(),
            false => Vec::new(),
        }
    }

    /// A file is opened for reading, or read.
    pub fn read(&mut self, path: &Value) {
        for path in self.each(path) {
            self.read_one(&path);
        }
    }

    fn read_one(&mut self, path: &Value) {
        let Some(written) = path.known() else { return };
        let it = place(written);
        if it.climbs {
            let says = format!("reads {}, by the path {}", it.path, show(written));
            self.find(&rule::TRAVERSES_PATH, says);
        }
        if let Some(secret) = it.traits.secret {
            self.refuse(&it);
            return self.find(&rule::READS_SECRET, format!("reads {}: {secret}", it.path));
        }
        if it.traits.outside == Some(Reach::Open) {
            self.refuse(&it);
            let says = format!("opens {}, which reaches past a jail", it.path);
            return self.find(&rule::ESCAPES, says);
        }
        if it.traits.probes {
            let says = format!("reads {}, which tells a jail or a virtual machine", it.path);
            self.find(&rule::PROBES_SANDBOX, says);
        } else if it.is_state {
            self.find(&rule::READS_SYSTEM_FILE, format!("reads {}", it.path));
        }
        if it.is_outside() && path.exact().is_some() {
            keep(&mut self.needs.read, it.path);
        }
    }

    /// The origins of what is read there.
    pub fn content(&self, path: &Value) -> Value {
        let it = place(path.known().unwrap_or_default());
        let mut content = Value::from(Origins::FILE);
        if it.traits.secret.is_some() {
            content = content.also(Origins::SECRET);
        }
        if it.is_state || it.climbs {
            content = content.also(Origins::MACHINE);
        }
        if self.facts.downloaded.contains(&it.path) {
            content = content.also(Origins::NETWORK);
        }
        content.source = path.known().map(|_| it.path.as_str().into());
        content
    }

    /// A file is opened for writing; `data` goes into it, where that is known.
    pub fn write(&mut self, path: &Value, data: &Value) {
        for path in self.each(path) {
            self.write_one(&path, data);
        }
    }

    fn write_one(&mut self, path: &Value, data: &Value) {
        let Some(written) = path.known() else { return };
        let it = place(written);
        if data.origins.any(Origins::NETWORK) && self.facts.downloaded.len() < KEPT {
            self.facts.downloaded.insert(it.path.clone());
        }
        self.judge_written(&it, written, data);
        if it.is_outside() && path.exact().is_some() && !it.path.starts_with("/dev/") {
            keep(&mut self.needs.write, it.path);
        }
    }

    fn judge_written(&mut self, it: &Place, written: &str, data: &Value) {
        let name = &it.path;
        if let Some(occasion) = it.traits.startup {
            self.refuse(it);
            self.find(
                &rule::PERSISTS,
                format!("writes {name}, which runs with {occasion}"),
            );
            if let Some(text) = data.known() {
                self.shell_text(text, &format!("in what it writes to {name}"));
            }
        } else if it.traits.outside.is_some() {
            self.refuse(it);
            self.find(
                &rule::ESCAPES,
                format!("writes {name}, which reaches past a jail"),
            );
        } else if it.traits.library {
            let says = format!("writes {name}, by which a library is loaded into other programs");
            self.find(&rule::HIJACKS_LIBRARIES, says);
        } else if it.climbs {
            let says = format!("writes {name}, by the path {}", show(written));
            self.find(&rule::TRAVERSES_PATH, says);
        } else if it.is_state || (is_system(name.as_bytes()) && !written.starts_with(HOLE)) {
            self.find(&rule::WRITES_SYSTEM, format!("writes {name}"));
        }
    }

    fn refuse(&mut self, it: &Place) {
        keep(&mut self.needs.refused, it.path.clone());
    }

    /// A directory is listed.
    pub fn list(&mut self, path: &Value) {
        for path in self.each(path) {
            let Some(written) = path.known() else {
                continue;
            };
            let it = place(written);
            if it.traits.secret.is_some() {
                self.read_one(&path);
            } else if it.tells_listed && !written.starts_with(HOLE) {
                self.find(&rule::LISTS_SYSTEM, format!("lists {}", it.path));
                let whole = it.path.trim_end_matches("/*");
                keep(&mut self.needs.read, whole.to_owned());
            }
        }
    }

    /// A tree of files is walked.
    pub fn walk(&mut self, path: &Value) {
        self.facts.walks |= self.listens;
        self.list(path);
    }

    /// Changes below a directory are watched.
    pub fn watch(&mut self, path: &Value) {
        for path in self.each(path) {
            let it = path.known().map(place).filter(|it| it.tells_listed);
            if let Some(it) = it {
                let says = format!("is told of every change below {}", it.path);
                self.find(&rule::WATCHES_SYSTEM, says);
            }
        }
    }

    /// Files are removed; `whole`: with everything below.
    pub fn delete(&mut self, path: &Value, whole: bool) {
        self.facts.replaces |= self.listens && path.exact().is_none();
        for path in self.each(path) {
            let Some(written) = path.known() else {
                continue;
            };
            let it = place(written);
            let is_log = it.traits.secret == Some("histories") || it.path.starts_with("/var/log/");
            let is_named = !written.starts_with(HOLE) && !written.ends_with(HOLE);
            if whole && it.is_whole && is_named {
                let says = format!("removes {} with everything below", it.path);
                self.find(&rule::DESTROYS, says);
            } else if is_log {
                self.find(&rule::REMOVES_TRACES, format!("removes {}", it.path));
            } else if it.climbs || it.traits.secret.is_some() || it.traits.startup.is_some() {
                self.find(&rule::WRITES_SYSTEM, format!("removes {}", it.path));
            }
        }
    }

    /// Data is encrypted.
    pub fn encrypt(&mut self) {
        self.facts.encrypts |= self.listens;
    }

    /// A descriptor is made standard input or output.
    pub fn duplicate(&mut self) {
        self.facts.duplicates |= self.listens;
    }

    /// A connection to a host, or a datagram's.
    pub fn connect(&mut self, host: &Value, port: Option<i64>, data: Option<&Value>) {
        self.facts.connects |= self.listens;
        for host in self.each(host) {
            self.connect_one(&host, port, data.is_some());
        }
        if let Some(data) = data {
            self.send(data, host);
        }
    }

    fn connect_one(&mut self, host: &Value, port: Option<i64>, sends: bool) {
        let Some(name) = host.exact() else { return };
        let to = port.map_or_else(|| name.to_owned(), |port| format!("{name}:{port}"));
        if place::is_number(name) {
            match sends {
                true => self.find(&rule::SENDS_TO_NUMBER, format!("sends data to {to}")),
                false => self.find(&rule::CONNECTS_TO_NUMBER, format!("connects to {to}")),
            }
        }
        if let (Some((host, _)), Some(port)) = (place::host(name), port) {
            keep(&mut self.needs.connect, format!("{host}:{port}"));
        }
    }

    /// A connection is only tried.
    pub fn try_port(&mut self) {
        if self.loops > 0 {
            let says = "tries to connect again and again in a loop";
            self.find(&rule::SCANS_NETWORK, says);
        }
    }

    /// A page is fetched, maybe with data that goes there.
    pub fn fetch(&mut self, url: &Value, data: Option<&Value>) {
        self.facts.connects |= self.listens;
        for one in self.each(url) {
            self.fetch_one(&one, data.is_some());
        }
        if let Some(data) = data {
            self.send(data, url);
        }
        // What stands in the address goes there, too.
        self.send(&url.derived(), url);
    }

    fn fetch_one(&mut self, url: &Value, sends: bool) {
        let Some(text) = url.known().filter(|text| !text.starts_with(HOLE)) else {
            return;
        };
        if text.contains("stratum+tcp://") {
            self.find(&rule::MINES, format!("addresses {}", show(text)));
        }
        let Some((host, port)) = place::host(text) else {
            return;
        };
        let does = if sends { "sends data to" } else { "fetches" };
        if place::is_number(&host) {
            let says = format!("{does} {}, an address in numbers", show(text));
            self.find(&rule::FETCHES_NUMBER, says);
        } else if place::is_url(text) && url.exact().is_some() {
            self.find(&rule::FETCHES_FIXED, format!("{does} {}", show(text)));
        }
        if let Some(port) = port {
            keep(&mut self.needs.connect, format!("{host}:{port}"));
        }
    }

    /// Something that was fetched is kept in a file.
    pub fn download(&mut self, url: &Value, path: &Value) {
        self.fetch(url, None);
        self.write(path, &Value::from(Origins::NETWORK));
    }

    /// Data goes over the network.
    pub fn send(&mut self, data: &Value, to: &Value) {
        let from = data.source.as_deref().map(show);
        let to = to
            .exact()
            .map_or_else(String::new, |to| format!(" to {}", show(to)));
        if data.origins.any(Origins::SECRET) {
            let from = from.unwrap_or_else(|| "a file that holds secrets".to_owned());
            self.find(
                &rule::SENDS_SECRET,
                format!("sends the content of {from}{to}"),
            );
        } else if data.origins.any(Origins::FILE) && data.origins.any(Origins::MACHINE) {
            let from = from.unwrap_or_else(|| "a file of the system".to_owned());
            self.find(
                &rule::SENDS_FILE,
                format!("sends the content of {from}{to}"),
            );
        } else if data.origins.any(Origins::ENVIRONMENT) {
            let says = format!("sends variables of the environment{to}");
            self.find(&rule::SENDS_ENVIRONMENT, says);
        }
    }

    /// A text is run as code.
    pub fn evaluate(&mut self, code: &Value, language: Language) {
        if code.origins.any(Origins::NETWORK) {
            let says = "executes what comes over the network";
            return self.find(&rule::EXECUTES_DOWNLOADED, says);
        }
        if code.origins.any(Origins::OPAQUE) {
            let says = "executes a code object that was stored as data";
            self.find(&rule::EXECUTES_OPAQUE, says);
        } else if code.origins.any(Origins::DECODED) {
            self.find(
                &rule::EXECUTES_DECODED,
                decoded(code, "executes the result"),
            );
        } else if code.origins.any(Origins::HIDDEN) {
            let says = "executes a text that is put together so that it cannot be searched for";
            self.find(&rule::HIDES_NAME, says);
        } else if code.exact().is_none() {
            let says = "executes a text that is put together while running";
            self.find(&rule::EXECUTES_TEXT, says);
        }
        if let Some(text) = code.known() {
            let inside = "in the code that it executes".to_owned();
            self.nested(inside, |judge| language.read(text, judge));
        }
    }

    /// Compressed data, expanded; a bomb is found, and what is not known is `None`.
    pub fn expanded(&mut self, data: &Value) -> Option<Vec<u8>> {
        let data = decode::as_bytes(data.exact()?);
        // A dictionary takes a while by itself, however little is in it.
        const DICTIONARY: usize = 500;
        if !self.spend(DICTIONARY + data.len() / 16) {
            return None;
        }
        let expanded = expand::expand(&data);
        let length = match &expanded {
            Expanded::Whole(expanded) => expanded.len(),
            Expanded::Bomb | Expanded::Unknown => LARGEST,
        };
        self.spend(length / 64);
        match expanded {
            Expanded::Whole(expanded) => Some(expanded),
            Expanded::Unknown => None,
            Expanded::Bomb => {
                let says = format!("decompresses {} bytes to more than {LARGEST}", data.len());
                self.find(&rule::EXPANDS, says);
                None
            }
        }
    }

    /// A text is run as a command of the shell.
    pub fn run(&mut self, command: &Value) {
        for command in self.each(command) {
            self.run_one(&command);
        }
    }

    fn run_one(&mut self, command: &Value) {
        let begins = command.known().is_some_and(|text| !text.starts_with(HOLE));
        if command.origins.any(Origins::NETWORK) && !begins {
            let says = "runs commands that come over the network";
            self.find(&rule::RUNS_REMOTE_COMMANDS, says);
        }
        if command.origins.any(Origins::DECODED) {
            self.find(
                &rule::EXECUTES_DECODED,
                decoded(command, "runs it as a command"),
            );
        } else if command.origins.any(Origins::HIDDEN) {
            let shown = show(&command.shown());
            let says = format!(
                "runs {shown}, a command that is put together so that it cannot be searched for"
            );
            self.find(&rule::HIDES_NAME, says);
        }
        if let Some(text) = command.known() {
            self.shell_text(text, "in a command that it runs");
        }
    }

    /// A text of the shell inside of another text.
    pub fn shell_text(&mut self, text: &str, inside: &str) {
        self.nested(inside.to_owned(), |judge| Language::Shell.read(text, judge));
    }

    /// A program is started, by its path or name.
    pub fn start(&mut self, program: &str) {
        self.facts.shell |=
            self.listens && Language::of_interpreter(program) == Some(Language::Shell);
        if self.facts.downloaded.contains(&place(program).path) {
            let says = format!("downloads {} and executes it", show(program));
            self.find(&rule::EXECUTES_DOWNLOADED, says);
        }
    }

    /// Findings that only the whole tells.
    pub(super) fn conclude(&mut self) {
        let Facts {
            duplicates,
            connects,
            shell,
            ..
        } = self.facts;
        if duplicates && connects && shell {
            let says = "connects to the network, makes a descriptor standard input or output, and starts a shell";
            self.find(&rule::REVERSE_SHELL, says);
        }
        let Facts {
            encrypts,
            walks,
            replaces,
            ..
        } = self.facts;
        if encrypts && walks && replaces {
            let says = "walks a tree of files, encrypts data, and removes or replaces files";
            self.find(&rule::ENCRYPTS, says);
        }
    }
}

fn decoded(code: &Value, and: &str) -> String {
    let what = code.decoded.as_deref().unwrap_or("encoded data");
    format!("decodes {what} and {and}")
}

/// A text of the script in a sentence: short, and what is not known of it as three dots.
pub fn show(text: &str) -> String {
    let mut shown: String = text.chars().take(80).collect::<String>().replace(HOLE, "…");
    if text.chars().nth(80).is_some() {
        shown.push('…');
    }
    shown
}

fn keep(kept: &mut BTreeSet<String>, one: String) {
    if kept.len() < KEPT && !one.contains(HOLE) {
        kept.insert(one);
    }
}
