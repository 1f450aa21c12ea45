//! Programs that speak to the network.

use super::options::Arguments;
use super::walk::Walk;
use crate::Language;
use crate::place;
use crate::rule;
use crate::value::{Origins, Value};

/// Options of curl and wget that have a value.
const FETCH: &[&str] = &[
    "o",
    "O",
    "d",
    "X",
    "H",
    "F",
    "T",
    "u",
    "A",
    "e",
    "m",
    "w",
    "b",
    "c",
    "x",
    "data",
    "data-binary",
    "data-raw",
    "data-urlencode",
    "header",
    "output",
    "request",
    "form",
    "upload-file",
    "user",
    "user-agent",
    "max-time",
    "connect-timeout",
    "retry",
    "write-out",
    "post-file",
    "post-data",
    "body-file",
    "body-data",
    "output-document",
    "proxy",
    "cacert",
    "url",
    "P",
    "t",
    "directory-prefix",
    "tries",
    "timeout",
];

const DATA: &[&str] = &[
    "d",
    "F",
    "T",
    "data",
    "data-binary",
    "data-raw",
    "data-urlencode",
    "form",
    "upload-file",
    "post-file",
    "post-data",
    "body-file",
    "body-data",
];

/// Options whose value is the name of a file, whatever it begins with.
const FILES: &[&str] = &["T", "upload-file", "post-file", "body-file"];

impl Walk<'_> {
    /// curl, wget and their like.
    pub fn fetch(&mut self, name: &str, words: &[Value], input: &Value) -> Value {
        // `-O` of curl has no value.
        let valued: Vec<&str> = FETCH
            .iter()
            .copied()
            .filter(|option| name != "curl" || *option != "O")
            .collect();
        let arguments = Arguments::new(words, &valued);
        let mut data = None;
        for value in arguments.values(DATA) {
            let is_file = arguments
                .values(FILES)
                .iter()
                .any(|file| file.text == value.text);
            let sent = self.sent(&value, is_file, input);
            data = Some(sent.tainted(&data.unwrap_or_default()));
        }
        let is_address = |word: &&&Value| word.known().is_some_and(|text| !text.is_empty());
        let urls: Vec<Value> = arguments
            .operands()
            .iter()
            .filter(is_address)
            .map(|word| with_scheme(word))
            .collect();
        let output = arguments.values(if name == "curl" {
            &["o", "output"]
        } else {
            &["O", "output-document"]
        });
        let url = match urls.as_slice() {
            [one] => one.clone(),
            _ => Value::list(urls).element(),
        };
        self.judge.fetch(&url, data.as_ref());
        let to = output.first().cloned().or_else(|| {
            let keeps = name != "curl" || arguments.has(&["O", "remote-name"]);
            let last = url.known()?.rsplit('/').next()?;
            (keeps && !last.is_empty()).then(|| Value::text(last))
        });
        let content = Value {
            source: url.text.clone(),
            ..Value::from(Origins::NETWORK)
        };
        match to.filter(|to| to.exact() != Some("-") && to.exact() != Some("/dev/null")) {
            Some(to) => {
                self.judge.write(&to, &Value::from(Origins::NETWORK));
                content
            }
            None => content,
        }
    }

    /// The value of `@file`, `name=@file` or a text.
    fn sent(&mut self, value: &Value, is_file: bool, input: &Value) -> Value {
        let text = value.shown();
        let path = if is_file {
            Some(text.as_str())
        } else {
            text.split_once('@')
                .filter(|(before, _)| before.is_empty() || before.ends_with('='))
                .map(|(_, path)| path)
        };
        match path {
            Some("-") => input.clone(),
            Some(path) => {
                let mut paths = value.clone();
                paths.text = Some(path.into());
                paths.items = value.items.as_ref().map(|items| {
                    items
                        .iter()
                        .map(|item| Value::text(item.shown().trim_start_matches('@')))
                        .collect()
                });
                self.judge.read(&paths);
                self.judge.content(&paths).tainted(value)
            }
            None => value.clone(),
        }
    }

    /// nc, ncat, socat, telnet.
    pub fn netcat(&mut self, words: &[Value], input: &Value) -> Value {
        let arguments = Arguments::new(
            words,
            &[
                "e", "c", "w", "p", "i", "s", "q", "exec", "sh-exec", "X", "x",
            ],
        );
        let programs = arguments.values(&["e", "c", "exec", "sh-exec"]);
        let all: String = words.iter().map(Value::shown).collect::<Vec<_>>().join(" ");
        let starts_shell = programs.iter().any(|program| {
            program
                .known()
                .and_then(|text| text.split(' ').next())
                .and_then(Language::of_interpreter)
                .is_some()
        });
        if starts_shell || (all.to_ascii_lowercase().contains("exec:") && all.contains("sh")) {
            self.judge
                .find(&rule::REVERSE_SHELL, "connects a shell to the network");
        }
        let operands = arguments.operands();
        let (host, port) = match operands.as_slice() {
            [host, port, ..] => (
                (*host).clone(),
                port.known().and_then(|port| port.parse().ok()),
            ),
            _ => (Value::default(), None),
        };
        if arguments.has(&["z"]) {
            self.judge.try_port();
        }
        let sends = *input != Value::default();
        self.judge.connect(&host, port, sends.then_some(input));
        Value::from(Origins::NETWORK)
    }

    /// scp, rsync, sftp: files to another host.
    pub fn copy_to_host(&mut self, words: &[Value]) -> Value {
        let arguments = Arguments::new(words, &["i", "P", "p", "o", "e", "F", "rsh"]);
        let operands = arguments.operands();
        let Some((to, from)) = operands.split_last() else {
            return Value::default();
        };
        let is_remote = |value: &Value| {
            value
                .known()
                .is_some_and(|text| text.contains(':') && !text.starts_with('/'))
        };
        for from in from {
            if is_remote(from) {
                self.judge.write(to, &Value::from(Origins::NETWORK));
                continue;
            }
            self.judge.read(from);
            if is_remote(to) {
                let content = self.judge.content(from);
                self.judge.send(&content, to);
            }
        }
        Value::default()
    }
}

/// Curl takes an address without a scheme for HTTP's.
fn with_scheme(word: &Value) -> Value {
    let text = word.shown();
    if place::is_url(&text) || text.contains("://") || word.known().is_none() || word.one_of {
        return word.clone();
    }
    Value {
        text: Some(format!("http://{text}").into()),
        ..word.clone()
    }
}
