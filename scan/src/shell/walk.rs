//! The way through a script: commands, pipelines, loops, conditions and functions.

use std::collections::{HashMap, HashSet};

use super::lex::{self, Kind, Token};
use crate::judge::Judge;
use crate::rule;
use crate::value::{HOLE, Origins, Value};

/// Substitutions within others that are run through.
const DEPTH: usize = lex::NESTED;

/// Variables that are kept.
const KEPT: usize = 10_000;

/// A redirection.
struct Redirection {
    operator: &'static str,
    target: Value,
    /// The descriptor, where it is named.
    number: Option<u32>,
}

/// One command with its words and redirections.
#[derive(Default)]
struct Gathered {
    words: Vec<Value>,
    redirections: Vec<Redirection>,
    /// A here-document or a here-string.
    input: Option<Value>,
    assigned: bool,
}

/// The word that a block began with.
enum Block {
    If(bool),
    Loop(bool),
    Case,
    Braces(bool),
}

/// A walk. What it knows of variables outlives one pass.
pub struct Walk<'j> {
    pub judge: &'j mut Judge,
    variables: HashMap<String, Value>,
    functions: HashSet<String>,
    /// Functions around, the innermost last.
    within: Vec<String>,
    depth: usize,
    blocks: Vec<Block>,
    /// The value that goes through the pipe to the next command.
    piped: Option<Value>,
    /// The output of the last command.
    output: Value,
    /// The names of commands of the present pipeline.
    pipeline: Vec<String>,
    /// Origins of what the condition of an `if` or `while` looks at.
    condition: Value,
    /// A variable that gets the words up to the end of the line, and whether `in` was seen.
    looped: Option<(String, bool, Vec<Value>)>,
    skips: usize,
    defines: bool,
}

impl<'j> Walk<'j> {
    pub fn new(judge: &'j mut Judge) -> Self {
        Walk {
            judge,
            variables: HashMap::new(),
            functions: HashSet::new(),
            within: Vec::new(),
            depth: 0,
            blocks: Vec::new(),
            piped: None,
            output: Value::default(),
            pipeline: Vec::new(),
            condition: Value::default(),
            looped: None,
            skips: 0,
            defines: false,
        }
    }

    /// The walk over all of a script, once.
    pub fn script(&mut self, tokens: &[Token<'_>]) {
        let mut command = Gathered::default();
        let mut at = 0;
        while let Some(token) = tokens.get(at) {
            if !self.judge.spend(1) {
                return;
            }
            match &token.kind {
                Kind::Word(word) => {
                    if command.words.is_empty()
                        && command.redirections.is_empty()
                        && !command.assigned
                    {
                        self.judge.at(token.at);
                    }
                    let number = redirected(tokens, at);
                    match number {
                        Some(number) => {
                            at += 1;
                            at += self.redirect(tokens, at, Some(number), &mut command);
                        }
                        None => self.take(word, tokens.get(at + 1), &mut command),
                    }
                }
                Kind::Operator(operator) if is_redirection(operator) => {
                    at += self.redirect(tokens, at, None, &mut command)
                }
                // The document follows.
                Kind::Operator("<<" | "<<-") => {}
                Kind::Operator(operator) => self.separate(operator, &mut command),
                Kind::Document(text, expands) => {
                    command.input = Some(self.document(text, *expands))
                }
            }
            at += 1;
        }
        self.separate("\n", &mut command);
        while let Some(block) = self.blocks.pop() {
            self.leave(&block);
        }
        self.within.clear();
        self.looped = None;
    }

    /// A redirection at this token; the number of tokens that are done with beside it.
    fn redirect(
        &mut self,
        tokens: &[Token<'_>],
        at: usize,
        number: Option<u32>,
        command: &mut Gathered,
    ) -> usize {
        let Some(Kind::Operator(operator)) = tokens.get(at).map(|token| &token.kind) else {
            return 0;
        };
        let Some(Kind::Word(word)) = tokens.get(at + 1).map(|token| &token.kind) else {
            return 0;
        };
        let target = self.word(word);
        match *operator {
            "<<<" => command.input = Some(target),
            operator => command.redirections.push(Redirection {
                operator,
                target,
                number,
            }),
        }
        1
    }

    /// A word: one that the shell knows, an assignment, or one of a command.
    fn take(&mut self, word: &str, next: Option<&Token<'_>>, command: &mut Gathered) {
        if self.skips > 0 {
            self.skips -= 1;
            return;
        }
        if let Some((name, has_in, values)) = &mut self.looped {
            if name.is_empty() {
                *name = word.to_owned();
                return;
            }
            if !*has_in && word == "in" {
                *has_in = true;
                return;
            }
            if *has_in && word != "do" {
                let mut more = std::mem::take(values);
                more.extend(self.words(word));
                if let Some((_, _, values)) = &mut self.looped {
                    *values = more;
                }
                return;
            }
        }
        if command.words.is_empty() {
            let opens = next.is_some_and(|next| next.kind == Kind::Operator("("));
            if self.reserved(word, opens) {
                return;
            }
            if self.assigns(word) {
                command.assigned = true;
                return;
            }
        }
        command.words.extend(self.words(word));
    }

    /// Words that begin and end blocks; true when it was one.
    fn reserved(&mut self, word: &str, opens: bool) -> bool {
        match word {
            "if" => {
                self.condition = Value::default();
                self.blocks.push(Block::If(false));
            }
            "then" => {
                let dated = self.condition.origins.any(Origins::CLOCK);
                if let Some(Block::If(is_dated)) = self.blocks.last_mut()
                    && dated
                    && !*is_dated
                {
                    *is_dated = true;
                    self.judge.dated(true);
                }
            }
            "while" | "until" => self.blocks.push(Block::Loop(false)),
            "for" | "select" => {
                self.looped = Some((String::new(), false, Vec::new()));
                self.blocks.push(Block::Loop(false));
            }
            "do" => {
                if let Some((name, _, values)) = self.looped.take() {
                    let value = Value::list(values).element();
                    self.set(&name, value);
                }
                if let Some(Block::Loop(is_in)) = self.blocks.last_mut() {
                    *is_in = true;
                    self.judge.loops(true);
                }
            }
            "case" => {
                self.blocks.push(Block::Case);
                // The word that is looked at, and `in`.
                self.skips = 2;
            }
            "{" => {
                let is_function = std::mem::take(&mut self.defines);
                self.blocks.push(Block::Braces(is_function));
            }
            "fi" | "done" | "esac" | "}" => {
                if let Some(block) = self.blocks.pop() {
                    self.leave(&block);
                }
            }
            "function" => {
                self.defines = true;
                self.within.push(String::new());
            }
            "else" | "elif" | "!" | "time" | "[[" | "coproc" => return word != "[[",
            name if self.defines && self.within.last().is_some_and(String::is_empty) => {
                self.define(name)
            }
            name if opens && !name.contains('=') => {
                self.within.push(String::new());
                self.define(name);
                self.defines = true;
            }
            _ => return false,
        }
        true
    }

    fn define(&mut self, name: &str) {
        if let Some(own) = self.within.last_mut() {
            name.clone_into(own);
        }
        if self.functions.len() < KEPT {
            self.functions.insert(name.to_owned());
        }
    }

    fn leave(&mut self, block: &Block) {
        match block {
            Block::If(true) => self.judge.dated(false),
            Block::Loop(true) => self.judge.loops(false),
            Block::Braces(true) => drop(self.within.pop()),
            _ => {}
        }
    }

    /// `x=…`, `x+=…`; true when it is one.
    pub fn assigns(&mut self, word: &str) -> bool {
        let Some((name, raw)) = word.split_once('=') else {
            return false;
        };
        let (name, adds) = match name.strip_suffix('+') {
            Some(name) => (name, true),
            None => (name, false),
        };
        let name = name.split('[').next().unwrap_or_default();
        if name.is_empty()
            || !name
                .chars()
                .all(|char| char.is_ascii_alphanumeric() || char == '_')
        {
            return false;
        }
        let value = match raw.strip_prefix('(') {
            Some(list) => self.list(list.strip_suffix(')').unwrap_or(list)),
            None => self.word(raw),
        };
        self.assign(name, value, adds);
        true
    }

    fn list(&mut self, raw: &str) -> Value {
        let (tokens, _) = lex::lex(raw);
        let mut values = Vec::new();
        for token in tokens {
            if let Kind::Word(word) = token.kind {
                values.push(self.word(word));
            }
        }
        Value::list(values).element()
    }

    /// Gives a variable a value.
    pub fn assign(&mut self, name: &str, value: Value, adds: bool) {
        match name {
            "LD_PRELOAD" if value.known() != Some("") => self.judge.find(
                &rule::HIJACKS_LIBRARIES,
                "sets LD_PRELOAD, by which a library is loaded into other programs",
            ),
            "HISTFILE" if matches!(value.exact(), Some("" | "/dev/null")) => self.judge.find(
                &rule::REMOVES_TRACES,
                "keeps the shell from writing its history",
            ),
            _ => {}
        }
        let value = match (adds, self.variables.get(name)) {
            (true, Some(old)) => Value::text(&(old.shown() + &value.shown()))
                .tainted(old)
                .tainted(&value),
            _ => value,
        };
        self.set(name, value);
    }

    fn set(&mut self, name: &str, value: Value) {
        if self.variables.len() < KEPT || self.variables.contains_key(name) {
            self.variables.insert(name.to_owned(), value);
        }
    }

    /// The value of a variable, or of a parameter of the function around.
    pub fn variable(&self, name: &str) -> Option<Value> {
        if name == "HOME" {
            return Some(Value::text("~"));
        }
        let is_parameter =
            name.starts_with(|char: char| char.is_ascii_digit() || char == '@' || char == '*');
        let key = match self.within.last().filter(|_| is_parameter) {
            Some(function) => format!("{function} {name}"),
            None => name.to_owned(),
        };
        self.variables.get(&key).cloned()
    }

    /// Runs through a command whose output becomes a text.
    pub fn substituted(&mut self, source: &str) -> Value {
        if self.depth >= DEPTH || !self.judge.spend(source.len() / 4 + 1) {
            return Value::from(Origins::PROGRAM);
        }
        self.depth += 1;
        let (tokens, _) = lex::lex(source);
        let kept = (
            std::mem::take(&mut self.blocks),
            self.piped.take(),
            std::mem::take(&mut self.pipeline),
            self.within.clone(),
            self.looped.take(),
        );
        self.output = Value::default();
        let line = self.judge.position();
        self.judge.hold(true);
        self.script(&tokens);
        self.judge.hold(false);
        self.judge.at(line);
        (
            self.blocks,
            self.piped,
            self.pipeline,
            self.within,
            self.looped,
        ) = kept;
        self.depth -= 1;
        let output = std::mem::take(&mut self.output);
        let text = output
            .known()
            .map(|text| text.trim_end_matches('\n').to_owned());
        Value {
            text: text.map(|text| text.as_str().into()),
            ..output
        }
        .also(Origins::PROGRAM)
    }

    /// The end of a command.
    fn separate(&mut self, operator: &str, command: &mut Gathered) {
        let gathered = std::mem::take(command);
        let is_piped = matches!(operator, "|" | "|&");
        let input = gathered.input.or_else(|| self.piped.take());
        if !gathered.words.is_empty() || !gathered.redirections.is_empty() {
            let output = self.perform(
                gathered.words,
                &gathered.redirections,
                input.unwrap_or_default(),
            );
            self.output = output;
        }
        if is_piped {
            self.piped = Some(self.output.clone());
            return;
        }
        if operator == ")" && self.blocks.is_empty() && self.pipeline.is_empty() {
            return;
        }
        self.end_pipeline();
        if operator == "\n" || operator == ";" {
            self.end_list();
        }
    }

    fn end_pipeline(&mut self) {
        let names = std::mem::take(&mut self.pipeline);
        // A function that calls itself twice at a time.
        if let Some(function) = self.within.last()
            && names.iter().filter(|name| *name == function).count() >= 2
        {
            self.judge.find(
                &rule::FORKS_WITHOUT_END,
                "starts itself twice each time that it is started",
            );
        }
        self.piped = None;
    }

    /// The words of `for x in …` end with the line.
    fn end_list(&mut self) {
        if let Some((_, has_in, _)) = &mut self.looped {
            *has_in = false;
        }
        self.skips = 0;
    }

    /// A command with its redirections; what it prints.
    fn perform(
        &mut self,
        words: Vec<Value>,
        redirections: &[Redirection],
        mut input: Value,
    ) -> Value {
        for redirection in redirections
            .iter()
            .filter(|redirection| matches!(redirection.operator, "<" | "<>"))
        {
            input = self.input(&redirection.target);
        }
        let to_network = redirections
            .iter()
            .any(|redirection| redirection.target.known().is_some_and(is_network));
        let name = words.first().map(Value::shown).unwrap_or_default();
        self.pipeline.push(name);
        let output = if words.is_empty() {
            input.clone()
        } else {
            self.command(&words, &input)
        };
        if let Some(Block::If(false)) = self.blocks.last() {
            self.condition = std::mem::take(&mut self.condition).tainted(&output);
            for word in &words {
                self.condition = std::mem::take(&mut self.condition).tainted(word);
            }
        }
        let is_shell = words.first().and_then(Value::exact).is_some_and(|name| {
            crate::Language::of_interpreter(name) == Some(crate::Language::Shell)
        });
        if to_network && is_shell {
            self.judge
                .find(&rule::REVERSE_SHELL, "connects a shell to the network");
        }
        for redirection in redirections {
            self.output_to(redirection, &output);
        }
        output
    }

    fn input(&mut self, path: &Value) -> Value {
        match path.known().filter(|path| is_network(path)) {
            Some(_) => {
                self.connect(path, None);
                Value::from(Origins::NETWORK)
            }
            None => {
                self.judge.read(path);
                self.judge.content(path)
            }
        }
    }

    fn output_to(&mut self, redirection: &Redirection, output: &Value) {
        let Redirection {
            operator,
            target,
            number,
        } = redirection;
        if target.known().is_some_and(is_network) {
            let data = if number.is_none_or(|number| number == 1) {
                Some(output)
            } else {
                None
            };
            return self.connect(target, data);
        }
        let is_descriptor = target
            .exact()
            .is_none_or(|target| target == "-" || target.chars().all(|char| char.is_ascii_digit()));
        match *operator {
            "<&" | "<" | "<>" => {}
            ">&" if is_descriptor => {}
            _ => {
                let data = if *number == Some(2) {
                    Value::default()
                } else {
                    output.clone()
                };
                self.judge.write(target, &data);
            }
        }
    }

    /// `/dev/tcp/HOST/PORT`, which bash connects to.
    fn connect(&mut self, target: &Value, data: Option<&Value>) {
        let text = target.shown();
        let mut parts = text.split('/').skip(3);
        let host = parts.next().map(Value::text).unwrap_or_default();
        let port = parts.next().and_then(|port| port.parse().ok());
        self.judge.connect(&host, port, data);
    }

    /// A function of the script is called; what it gives back nobody knows.
    pub fn call(&mut self, words: &[Value]) -> Option<Value> {
        let name = words
            .first()?
            .exact()
            .filter(|name| self.functions.contains(*name))?
            .to_owned();
        for (index, value) in words.iter().enumerate().skip(1) {
            let key = format!("{name} {index}");
            let joined = self
                .variables
                .get(&key)
                .map_or_else(|| value.clone(), |old| old.or(value));
            self.set(&key, joined);
        }
        let result = words
            .iter()
            .skip(1)
            .fold(Value::default(), |all, one| all.tainted(one));
        self.set(&format!("{name} @"), result.clone());
        Some(Value::text(&HOLE.to_string()).tainted(&result))
    }
}

/// The descriptor that a number right before a redirection names.
fn redirected(tokens: &[Token<'_>], at: usize) -> Option<u32> {
    let (token, next) = (tokens.get(at)?, tokens.get(at + 1)?);
    let (Kind::Word(word), Kind::Operator(operator)) = (&token.kind, &next.kind) else {
        return None;
    };
    let is_adjacent = next.end == token.end + operator.len();
    word.parse()
        .ok()
        .filter(|_| is_adjacent && is_redirection(operator))
}

fn is_redirection(operator: &str) -> bool {
    matches!(
        operator,
        "<" | ">" | ">>" | ">&" | "<&" | "<>" | ">|" | "&>" | "&>>" | "<<<"
    )
}

fn is_network(path: &str) -> bool {
    path.starts_with("/dev/tcp/") || path.starts_with("/dev/udp/")
}
