//! Calls: the functions of Python's library that do something, and what they give back.

use ruff_python_ast::{self as ast, Expr};

use super::fold;
use super::library::{self, Does};
use super::walk::{Walk, is_open};
use crate::codec::{self, Codec, Decoding};
use crate::value::{Handle, Origins, Value};
use crate::{Language, rule};

/// A call with its arguments.
pub struct Call<'c> {
    /// The function's dotted name.
    name: &'c str,
    /// The object whose method it is.
    of: Value,
    arguments: Vec<(Option<String>, Value)>,
    /// True when the first argument is written out.
    is_literal: bool,
}

impl Call<'_> {
    /// The argument at a place, or by its name.
    fn argument(&self, index: usize, name: &str) -> Value {
        self.find(index, name).cloned().unwrap_or_default()
    }

    fn find(&self, index: usize, name: &str) -> Option<&Value> {
        let named = self
            .arguments
            .iter()
            .find(|(own, _)| own.as_deref() == Some(name));
        let placed = self.arguments.get(index).filter(|(own, _)| own.is_none());
        named.or(placed).map(|(_, value)| value)
    }

    fn first(&self) -> Value {
        self.argument(0, "")
    }

    /// The last word of the name.
    fn method(&self) -> &str {
        self.name.rsplit('.').next().unwrap_or(self.name)
    }

    /// A value of which nothing is known but what it depends on.
    fn result(&self) -> Value {
        let name = format!("{}()", self.name);
        let named = if self.name.is_empty() {
            Value::default()
        } else {
            Value::named(&name)
        };
        self.arguments
            .iter()
            .fold(named.tainted(&self.of), |all, (_, one)| all.tainted(one))
    }
}

impl Walk<'_, '_> {
    /// A call, judged.
    pub fn call(&mut self, it: &ast::ExprCall) -> Value {
        let (of, function) = match &*it.func {
            Expr::Attribute(attribute) => {
                let of = self.expression(&attribute.value);
                let function = self.attribute_of(attribute, &of);
                (of, function)
            }
            function => (Value::default(), self.expression(function)),
        };
        let mut arguments: Vec<(Option<String>, Value)> = Vec::new();
        for argument in &it.arguments.args {
            arguments.push((None, self.expression(argument)));
        }
        for keyword in &it.arguments.keywords {
            let name = keyword.arg.as_ref().map(ToString::to_string);
            arguments.push((name, self.expression(&keyword.value)));
        }
        let written = match &*it.func {
            Expr::Name(name) => Some((name.id.to_string(), false)),
            Expr::Attribute(attribute) => Some((attribute.attr.to_string(), true)),
            _ => None,
        };
        if let Some((name, is_method)) = &written
            && let Some(value) = self.scope.call(name, &arguments, *is_method)
        {
            return value;
        }
        // A method of an object of which nobody knows what it is goes by its own name.
        let unknown = written
            .filter(|(_, is_method)| *is_method)
            .map(|(name, _)| format!(".{name}"));
        let name = function
            .name
            .as_deref()
            .map(library::canonical)
            .or(unknown)
            .unwrap_or_default();
        let is_literal = matches!(it.arguments.args.last(), Some(Expr::StringLiteral(_)));
        let call = Call {
            name: &name,
            of,
            arguments,
            is_literal,
        };
        self.stand_at(it);
        self.hidden(&call, &function);
        self.made(&call)
    }

    /// A dangerous function that is called by a name which is put together.
    fn hidden(&mut self, call: &Call, function: &Value) {
        let is_dangerous = matches!(
            library::does(call.name),
            Some(Does::Evaluate | Does::Shell | Does::Program | Does::Import)
        );
        if function.origins.any(Origins::HIDDEN) && is_dangerous {
            self.judge.find(
                &rule::HIDES_NAME,
                format!("calls {} by a name that is put together", call.name),
            );
        }
    }

    /// The acts of a call, and its result.
    fn made(&mut self, call: &Call) -> Value {
        let Some(does) = library::does(call.name).or_else(|| library::method(call.method())) else {
            return call.result();
        };
        match does {
            Does::Rule(rule, says) => {
                self.judge.find(rule, says);
                call.result().also(Origins::MACHINE)
            }
            Does::Evaluate
            | Does::Shell
            | Does::Program
            | Does::Import
            | Does::GetAttribute
            | Does::Fork
            | Does::Opaque
            | Does::Unpickle => self.executes(does, call),
            Does::Open
            | Does::Path
            | Does::JoinPath
            | Does::Expand
            | Does::ReadText
            | Does::WriteText
            | Does::List
            | Does::Walk
            | Does::Delete
            | Does::DeleteTree
            | Does::Move
            | Does::Mode
            | Does::Watch => self.files(does, call),
            Does::Fetch
            | Does::Post
            | Does::Request
            | Does::Download
            | Does::Address
            | Does::Connect
            | Does::TryPort
            | Does::SendTo
            | Does::Send
            | Does::Receive
            | Does::Duplicate => self.network(does, call),
            _ => self.computes(does, call),
        }
    }

    fn executes(&mut self, does: Does, call: &Call) -> Value {
        let first = call.first();
        match does {
            Does::Evaluate => {
                self.judge.evaluate(&first, Language::Python);
                call.result()
            }
            Does::Shell => {
                self.judge.run(&first);
                Value::from(Origins::PROGRAM).tainted(&call.result())
            }
            Does::Program => {
                let words = call.argument(0, "args");
                self.judge.run(&command(&words, call));
                let streams = ["stdin", "stdout"]
                    .iter()
                    .filter_map(|name| call.find(9, name));
                if streams.into_iter().any(|stream| {
                    stream
                        .name
                        .as_deref()
                        .is_some_and(|name| name.contains("socket"))
                }) {
                    self.judge.duplicate();
                }
                Value {
                    name: Some(format!("{}()", call.name).into()),
                    ..Value::from(Origins::PROGRAM).tainted(&words.derived())
                }
            }
            Does::Import => {
                let Some(module) = first.exact() else {
                    return Value::default();
                };
                self.judge.import(module);
                let value = Value::named(module);
                if call.is_literal {
                    value
                } else {
                    value.also(Origins::HIDDEN)
                }
            }
            Does::GetAttribute => {
                let attribute = call.argument(1, "");
                let dotted = first
                    .name
                    .as_deref()
                    .zip(attribute.exact())
                    .map(|(of, attribute)| format!("{of}.{attribute}"));
                let value = dotted
                    .map_or_else(Value::default, |dotted| Value::named(&dotted))
                    .tainted(&first);
                if call.is_literal {
                    value
                } else {
                    value.also(Origins::HIDDEN)
                }
            }
            Does::Fork => {
                if self.endless > 0 {
                    self.judge
                        .find(&rule::FORKS_WITHOUT_END, "forks in a loop without end");
                }
                Value::default()
            }
            Does::Opaque => Value::from(Origins::OPAQUE).tainted(&first),
            _ => {
                if first.origins.any(Origins::NETWORK) {
                    self.judge.find(
                        &rule::UNPICKLES_REMOTE,
                        "makes objects, and runs what they say, from what comes over the network",
                    );
                }
                first.derived()
            }
        }
    }

    fn files(&mut self, does: Does, call: &Call) -> Value {
        // A method of a path has its path before it.
        let is_method = call.name.starts_with('.') || call.name.contains("Path()");
        let path = if is_method {
            call.of.clone()
        } else {
            call.argument(0, "file")
        };
        match does {
            Does::Open => {
                let mode = call.argument(usize::from(!is_method), "mode");
                let writes = mode
                    .known()
                    .is_some_and(|mode| mode.contains(['w', 'a', 'x', '+']));
                return self.open(&path, writes);
            }
            Does::Path => {
                return Value {
                    name: Some("pathlib.Path()".into()),
                    ..joined(call)
                };
            }
            Does::JoinPath => return joined(call),
            Does::Expand => return path,
            Does::ReadText => {
                self.judge.read(&path);
                return self.judge.content(&path);
            }
            Does::WriteText => self.judge.write(&path, &call.first()),
            Does::List => self.judge.list(&path),
            Does::Walk => self.judge.walk(&path),
            Does::Delete => self.judge.delete(&path, false),
            Does::DeleteTree => self.judge.delete(&path, true),
            Does::Move => {
                self.judge.read(&path);
                let content = self.judge.content(&path);
                self.judge.write(&call.argument(1, "dst"), &content);
            }
            Does::Mode => {
                let mode = call
                    .argument(usize::from(!is_method), "mode")
                    .number
                    .unwrap_or_default();
                if mode & 0o6000 != 0 {
                    self.judge.find(
                        &rule::GRANTS_ROOT,
                        "lets a program run with the rights of its owner",
                    );
                }
            }
            _ => self.judge.watch(&call.argument(1, "path")),
        }
        // Names of files that were found.
        Value {
            text: None,
            ..path.derived()
        }
    }

    fn open(&mut self, path: &Value, writes: bool) -> Value {
        match writes {
            true => self.judge.write(path, &Value::default()),
            false => self.judge.read(path),
        }
        let content = if writes {
            Value::default()
        } else {
            self.judge.content(path)
        };
        let handle = Handle {
            path: path.clone(),
            writes,
        };
        Value {
            handle: Some(handle.into()),
            name: Some("open()".into()),
            ..content
        }
    }

    fn network(&mut self, does: Does, call: &Call) -> Value {
        let first = call.argument(0, "url");
        let received = Value {
            name: Some(format!("{}()", call.name).into()),
            ..Value::from(Origins::NETWORK)
        };
        match does {
            Does::Fetch => {
                // A request that was made before carries its data.
                let data = call
                    .find(1, "data")
                    .cloned()
                    .or_else(|| first.handle.as_ref().map(|_| first.derived()));
                self.judge.fetch(&first, data.as_ref());
                received
            }
            Does::Post => {
                let names = ["data", "json", "files", "params", "headers"];
                let sent = names.iter().filter_map(|name| call.find(1, name));
                let sent = sent.fold(Value::default(), |all, one| all.tainted(one));
                self.judge.fetch(&first, Some(&sent));
                received
            }
            Does::Request => {
                let data = call.argument(1, "data");
                let handle = call.find(1, "data").map(|_| {
                    Handle {
                        path: Value::default(),
                        writes: false,
                    }
                    .into()
                });
                Value {
                    handle,
                    text: first.text.clone(),
                    ..data.derived()
                }
            }
            Does::Download => {
                self.judge.download(&first, &call.argument(1, "filename"));
                received
            }
            Does::Address => {
                let (host, port) = (call.argument(0, "host"), call.argument(1, "port"));
                let port = port.number.or(library::port(call.name));
                self.judge.connect(&host, port, None);
                received
            }
            Does::Connect | Does::TryPort => {
                let (host, port) = address(&first, call);
                if matches!(does, Does::TryPort) {
                    self.judge.try_port();
                }
                self.judge.connect(&host, port, None);
                Value::default()
            }
            Does::SendTo => {
                let to = call
                    .arguments
                    .last()
                    .map(|(_, to)| to.clone())
                    .unwrap_or_default();
                let (host, port) = address(&to, call);
                self.judge.connect(&host, port, Some(&first));
                Value::default()
            }
            Does::Send => {
                if is_of_network(call) {
                    self.judge.send(&first, &Value::default());
                }
                Value::default()
            }
            Does::Duplicate => {
                let to = call.argument(1, "").number;
                if to.is_none_or(|to| (0..=2).contains(&to)) {
                    self.judge.duplicate();
                }
                Value::default()
            }
            _ => Value::from(Origins::NETWORK),
        }
    }

    fn computes(&mut self, does: Does, call: &Call) -> Value {
        let first = call.first();
        match does {
            Does::Decode(codec) => self.decoded(codec, &first),
            Does::DecodeBy => match coded(call) {
                (data, Some(codec)) => self.decoded(codec, &data),
                (data, None) => data,
            },
            // Letters that are moved by thirteen come back by the same way.
            Does::EncodeBy => match coded(call) {
                (data, Some(codec)) if std::ptr::eq(codec, &raw const codec::ROT13) => {
                    self.decoded(codec, &data)
                }
                (data, _) => data,
            },
            Does::Characters => {
                let char = first
                    .number
                    .and_then(|number| u32::try_from(number).ok())
                    .and_then(char::from_u32);
                char.map_or_else(
                    || first.derived(),
                    |char| {
                        Value::text(&char.to_string())
                            .tainted(&first)
                            .also(Origins::HIDDEN)
                    },
                )
            }
            Does::Ordinal => first
                .exact()
                .and_then(|text| text.chars().next())
                .map_or_else(Value::default, |char| {
                    Value::number(i64::from(u32::from(char)))
                }),
            Does::Bytes => match (&first.items, first.exact()) {
                (Some(items), _) => fold::bytes(items).tainted(&first).also(Origins::HIDDEN),
                (_, Some(_)) => first,
                _ => Value {
                    large: first.number.is_some_and(|number| number >= 10_000),
                    ..first.derived()
                },
            },
            Does::Same => first,
            Does::Unchanged => call.of.clone(),
            Does::Contents => call.of.derived(),
            Does::Reverse => fold::slice(&first, (None, None, Some(-1))),
            Does::Join => call.of.exact().map_or_else(
                || first.derived(),
                |separator| fold::fold_str_join(separator, &first),
            ),
            Does::Format => call
                .of
                .known()
                .map_or_else(|| call.result(), |text| fold::format(text, &call.arguments)),
            Does::Replace => replaced(call),
            Does::Split => call.of.exact().map_or_else(
                || call.of.derived(),
                |text| fold::split(text, &first).tainted(&call.of),
            ),
            Does::Clock => Value::from(Origins::CLOCK),
            Does::Environment => self.item(&Value::named("os.environ"), &first, true),
            Does::Keep => {
                self.judge_kept(call);
                Value::default()
            }
            Does::Write => {
                if let Some(handle) = call.of.handle.as_ref().filter(|handle| handle.writes) {
                    self.judge.write(&handle.path, &first);
                }
                Value::default()
            }
            Does::Encrypt => {
                self.judge.encrypt();
                call.result()
            }
            _ => call.result(),
        }
    }

    fn judge_kept(&mut self, call: &Call) {
        let large = call.arguments.iter().any(|(_, value)| value.large);
        if large && self.judge.is_in_loop() {
            self.judge
                .find(&rule::FILLS_MEMORY, "keeps large objects in a loop");
        }
    }

    fn decoded(&mut self, codec: &Codec, data: &Value) -> Value {
        self.judge.spend(data.known().map_or(0, str::len) / 16);
        match codec.decoding {
            Decoding::Plain(decode) => fold::decoded(data, codec, decode),
            Decoding::Expanding => {
                let expanded = self.judge.expanded(data);
                fold::decoded(data, codec, |_| expanded.clone())
            }
        }
    }
}

/// The data of codecs.decode() or of the method, and the codec that it names.
fn coded(call: &Call) -> (Value, Option<&'static Codec>) {
    let is_method = !call.name.starts_with("codecs.");
    let name = call.argument(usize::from(!is_method), "encoding");
    let data = if is_method {
        call.of.clone()
    } else {
        call.first()
    };
    (data, name.exact().and_then(Codec::named))
}

/// Host and port of an address: a pair, or the first two arguments.
fn address(value: &Value, call: &Call) -> (Value, Option<i64>) {
    match value.items.as_ref().filter(|_| !value.one_of) {
        Some(pair) => (
            pair.first().cloned().unwrap_or_default(),
            pair.get(1).and_then(|port| port.number),
        ),
        None => (value.clone(), call.argument(1, "port").number),
    }
}

fn is_of_network(call: &Call) -> bool {
    let name = call.of.name.as_deref().unwrap_or_default();
    name.contains("socket") || name.contains("SMTP") || call.method() == "sendall"
}

/// The words of a program, or the text of a shell's command.
fn command(words: &Value, call: &Call) -> Value {
    let Some(items) = words.items.as_ref().filter(|_| !words.one_of) else {
        // Without a shell, a text names a program and nothing more.
        let is_shell = call
            .find(9, "shell")
            .is_some_and(|shell| shell.number == Some(1));
        return if is_shell || words.known().is_some_and(|text| !is_open(text)) {
            words.clone()
        } else {
            words.derived()
        };
    };
    let quoted: Vec<String> = items
        .iter()
        .map(|item| format!("'{}'", item.shown().replace('\'', "'\\''")))
        .collect();
    let first = items.first().map(Value::derived).unwrap_or_default();
    // Arguments that come from somewhere are no command from there.
    Value {
        text: Value::text(&quoted.join(" ")).text,
        ..first
    }
}

/// The parts of a path, one below the other.
fn joined(call: &Call) -> Value {
    let mut parts = call.arguments.iter().map(|(_, value)| value);
    let first = parts.next().cloned().unwrap_or_default();
    if call.arguments.len() == 1 {
        return first;
    }
    let text = parts.fold(first.shown(), |text, part| {
        fold::join_path(&text, &part.shown())
    });
    Value::text(&text).tainted(&call.result())
}

fn replaced(call: &Call) -> Value {
    let (from, to) = (call.first(), call.argument(1, ""));
    match (call.of.exact(), from.exact(), to.exact()) {
        (Some(text), Some(from), Some(to)) if to.len() <= from.len().max(1) && !from.is_empty() => {
            Value::text(&text.replace(from, to)).tainted(&call.of)
        }
        _ => call.of.derived(),
    }
}
