//! Commands: the programs and builtins that do something, and what they print.

use super::decoding::{self, unpacks};
use super::options::Arguments;
use super::walk::Walk;
use crate::codec;
use crate::judge::act::show;
use crate::place::place;
use crate::rule;
use crate::value::{HOLE, Origins, Value};
use crate::{Language, decode};

/// Commands that run another one, and the options of theirs that have a value.
const WRAPPERS: &[(&str, &[&str])] = &[
    ("sudo", &["u", "g", "h", "p", "C"]),
    ("doas", &["u"]),
    ("env", &["u", "C", "S"]),
    ("nohup", &[]),
    ("exec", &["a"]),
    ("command", &[]),
    ("builtin", &[]),
    ("nice", &["n"]),
    ("ionice", &["c", "n"]),
    ("setsid", &[]),
    ("stdbuf", &["i", "o", "e"]),
    ("xargs", &["n", "I", "P", "L", "d", "a"]),
    ("busybox", &[]),
    ("then", &[]),
    ("else", &[]),
    ("unshare", &[]),
    ("time", &[]),
    ("chroot", &[]),
    ("timeout", &["s", "k"]),
    ("watch", &["n"]),
    ("fakeroot", &[]),
    ("strace", &["o", "e", "p"]),
];

/// Options with a value of programs that print files.
const PRINTERS: &[&str] = &["n", "c", "e", "f", "A", "B", "C", "m", "d", "F", "w"];

impl Walk<'_> {
    /// A command, judged; what it prints.
    pub fn command(&mut self, words: &[Value], input: &Value) -> Value {
        if !self.judge.spend(words.len()) {
            return Value::default();
        }
        if let Some(output) = self.call(words) {
            return output;
        }
        let Some((first, arguments)) = words.split_first() else {
            return Value::default();
        };
        if let Some(rest) = wrapped(first, arguments) {
            for word in arguments
                .iter()
                .filter_map(Value::exact)
                .take_while(|word| word.contains('='))
            {
                self.assigns(word);
            }
            return self.command(rest, input);
        }
        if first.exact().is_none()
            || first.origins.any(
                Origins::HIDDEN
                    .with(Origins::DECODED)
                    .with(Origins::NETWORK),
            )
        {
            self.computed(first, words);
        }
        let path = first.shown();
        let name = path.rsplit('/').next().unwrap_or_default().to_owned();
        self.judge.start(&path);
        self.printed(&name, arguments, input)
            .or_else(|| self.executes(&name, arguments, input))
            .or_else(|| self.changes(&name, arguments, input))
            .or_else(|| self.decodes(&name, arguments, input))
            .or_else(|| self.speaks(&name, arguments, input))
            .or_else(|| self.manages(&name, arguments, input))
            .unwrap_or_else(|| {
                arguments
                    .iter()
                    .fold(input.derived(), |all, one| all.tainted(one))
            })
    }

    /// A command whose name is computed.
    fn computed(&mut self, first: &Value, words: &[Value]) {
        if first.origins.any(Origins::DECODED) {
            let how = first.decoded.as_deref().unwrap_or("encoded data");
            self.judge.find(
                &rule::EXECUTES_DECODED,
                format!("decodes {how} and runs it as a command"),
            );
        } else if first.origins.any(Origins::NETWORK) {
            self.judge.find(
                &rule::RUNS_REMOTE_COMMANDS,
                "runs commands that come over the network",
            );
        } else if first.origins.any(Origins::HIDDEN) {
            let says = format!(
                "runs {}, a command that is put together so that it cannot be searched for",
                show(&text_of(words))
            );
            self.judge.find(&rule::HIDES_NAME, says);
        }
    }

    /// Builtins and programs that print what they are given, or files.
    fn printed(&mut self, name: &str, words: &[Value], input: &Value) -> Option<Value> {
        let all = || {
            words
                .iter()
                .fold(Value::default(), |all, one| all.tainted(one))
        };
        Some(match name {
            "echo" | "printf" => {
                let texts = words
                    .iter()
                    .filter(|word| {
                        !matches!(word.known(), Some("-n" | "-e" | "-ne" | "-en" | "--"))
                    })
                    .cloned()
                    .collect::<Vec<_>>();
                let text = text_of(&texts);
                let escaped = name == "printf"
                    || words
                        .first()
                        .and_then(Value::known)
                        .is_some_and(|first| first.starts_with("-") && first.contains('e'));
                let value = Value::text(&text).tainted(&all());
                if escaped && let Some(letters) = decoding::written_in_numbers(name, &text) {
                    return Some(Value::text(&letters).tainted(&value).also(Origins::HIDDEN));
                }
                value
            }
            "gzip" | "bzip2" | "xz" | "lzma" if unpacks(words) => return None,
            "cat" | "head" | "tail" | "less" | "more" | "nl" | "tac" | "sort" | "uniq" | "cut"
            | "strings" | "od" | "wc" | "tee" | "paste" | "gzip" | "bzip2" | "xz" | "md5sum"
            | "sha256sum" | "hexdump" | "file" | "diff" | "cmp" | "pr" | "fold" | "column" => {
                return Some(self.prints_files(name, words, input, 0));
            }
            "grep" | "egrep" | "fgrep" | "awk" | "gawk" | "mawk" | "sed" | "jq" | "tr" => {
                let is_given = Arguments::new(words, PRINTERS).has(&["e", "f"]);
                return Some(self.prints_files(name, words, input, usize::from(!is_given)));
            }
            "env" | "printenv" | "set" | "export" if words.is_empty() => {
                Value::from(Origins::ENVIRONMENT)
            }
            "date" => Value::from(Origins::CLOCK),
            "rev" => {
                let text = input.exact().map(|text| {
                    text.lines()
                        .map(|line| line.chars().rev().collect::<String>())
                        .collect::<Vec<_>>()
                        .join("\n")
                });
                text.map_or_else(|| input.derived(), |text| Value::text(&text).tainted(input))
                    .also(Origins::HIDDEN)
            }
            "true" | "false" | ":" | "exit" | "return" | "cd" | "shift" | "sleep" | "wait"
            | "trap" | "unset" | "read" | "test" | "[" | "[[" => {
                self.tested(name, words);
                all()
            }
            _ => return None,
        })
    }

    fn tested(&mut self, name: &str, words: &[Value]) {
        if name == "unset" && words.iter().any(|word| word.exact() == Some("HISTFILE")) {
            self.judge.find(
                &rule::REMOVES_TRACES,
                "keeps the shell from writing its history",
            );
        }
        let looks = matches!(name, "test" | "[" | "[[");
        for word in words.iter().filter(|_| looks) {
            let it = word
                .exact()
                .filter(|text| text.starts_with('/'))
                .map(place)
                .filter(|it| it.traits.probes);
            if let Some(it) = it {
                self.judge.find(
                    &rule::PROBES_SANDBOX,
                    format!(
                        "looks for {}, which tells a jail or a virtual machine",
                        it.path
                    ),
                );
            }
        }
    }

    fn prints_files(
        &mut self,
        name: &str,
        words: &[Value],
        input: &Value,
        skipped: usize,
    ) -> Value {
        let operands = Arguments::new(words, PRINTERS).operands();
        let mut output = if name == "cat" {
            input.clone()
        } else {
            input.derived()
        };
        if matches!(name, "head" | "tail" | "tee" | "strings" | "sort") {
            output.text.clone_from(&input.text);
        }
        for file in operands.into_iter().skip(skipped) {
            match name {
                "tee" => self.judge.write(file, input),
                _ if file.exact() == Some("-") => {}
                _ => {
                    self.judge.read(file);
                    output = output.tainted(&self.judge.content(file));
                }
            }
        }
        if name == "tr" {
            turned(words, input).unwrap_or(output)
        } else {
            output
        }
    }

    /// Interpreters and what runs a text.
    fn executes(&mut self, name: &str, words: &[Value], input: &Value) -> Option<Value> {
        if name == "eval" {
            let all = words
                .iter()
                .fold(Value::default(), |all, one| all.tainted(one));
            let code = match words {
                [one] => one.clone(),
                _ => Value::text(&text_of(words)).tainted(&all),
            };
            self.judge.evaluate(&code, Language::Shell);
            return Some(Value::default());
        }
        if matches!(name, "source" | ".") {
            let code = words.first()?;
            match code.origins.any(Origins::NETWORK.with(Origins::DECODED)) {
                true => self.judge.evaluate(code, Language::Shell),
                false => self.judge.start(&code.shown()),
            }
            return Some(Value::default());
        }
        let language = Language::of_interpreter(name);
        let is_other = matches!(name, "perl" | "ruby" | "node" | "php" | "lua");
        if language.is_none() && !is_other {
            return None;
        }
        let arguments = Arguments::new(
            words,
            &[
                "c",
                "e",
                "r",
                "O",
                "o",
                "W",
                "X",
                "m",
                "rcfile",
                "init-file",
            ],
        );
        let codes = arguments.values(if language.is_some() {
            &["c"]
        } else {
            &["e", "r"]
        });
        for code in &codes {
            match language {
                Some(language) => self.code(code, language),
                None => self.foreign(code),
            }
        }
        let operands = arguments.operands();
        match operands.first() {
            Some(script) if codes.is_empty() && script.exact() != Some("-") => {
                if script.origins.any(Origins::NETWORK.with(Origins::DECODED)) {
                    self.judge
                        .evaluate(script, language.unwrap_or(Language::Shell));
                }
                self.judge.start(&script.shown());
            }
            _ if codes.is_empty() && *input != Value::default() => {
                let code = input.clone();
                self.judge
                    .evaluate(&code, language.unwrap_or(Language::Shell));
            }
            _ => {}
        }
        Some(Value::from(Origins::PROGRAM).tainted(input))
    }

    /// The code after `-c`: of a shell a command like any other.
    fn code(&mut self, code: &Value, language: Language) {
        match language {
            Language::Shell if code.exact().is_some() && code.origins == Origins::default() => {
                self.judge.shell_text(
                    code.exact().unwrap_or_default(),
                    "in a command that it runs",
                );
            }
            _ => self.judge.evaluate(code, language),
        }
    }

    /// Code in a language that is not read.
    fn foreign(&mut self, code: &Value) {
        let text = code.shown().to_ascii_lowercase();
        let is_shell = text.contains("/sh") || text.contains("/bash") || text.contains("exec");
        if text.contains("socket") && is_shell {
            self.judge.find(
                &rule::REVERSE_SHELL,
                "connects a shell to the network, in another language",
            );
        }
    }

    /// Programs that change files.
    fn changes(&mut self, name: &str, words: &[Value], input: &Value) -> Option<Value> {
        let valued: &[&str] = match name {
            "cp" | "mv" | "ln" | "install" => &["t", "S", "m", "o", "g", "mode", "owner", "group"],
            "ls" | "dir" | "tree" | "du" => &["I", "w", "L"],
            "truncate" | "shred" => &["s", "r", "n"],
            _ => &[],
        };
        let arguments = Arguments::new(words, valued);
        match name {
            "rm" | "unlink" | "shred" => {
                let whole = name == "shred" || arguments.has(&["r", "R", "recursive"]);
                arguments
                    .operands()
                    .into_iter()
                    .for_each(|path| self.judge.delete(path, whole));
            }
            "cp" | "mv" | "ln" | "install" => self.copies(&arguments),
            "dd" => self.dd(words, input),
            "wipefs" | "blkdiscard" => self.judge.find(&rule::DESTROYS, "wipes a disk"),
            "truncate" => arguments
                .operands()
                .into_iter()
                .for_each(|path| self.judge.write(path, &Value::default())),
            "chmod" => self.chmod(words),
            "ls" | "dir" | "tree" | "du" | "vdir" => {
                let listed = arguments.operands();
                listed.iter().for_each(|path| self.judge.list(path));
                return Some(Value::from(Origins::MACHINE));
            }
            "find" => return Some(self.find(words)),
            "tar" | "zip" | "7z" => {
                let mut output = Value::default();
                for path in Arguments::new(words, &["f", "C"]).operands() {
                    self.judge.read(path);
                    output = output.tainted(&self.judge.content(path));
                }
                return Some(output);
            }
            "alias" => {
                for (_, body) in words
                    .iter()
                    .filter_map(Value::known)
                    .filter_map(|word| word.split_once('='))
                {
                    self.judge.shell_text(body, "in an alias");
                }
            }
            "export" | "local" | "declare" | "readonly" | "typeset" => {
                for word in words {
                    let pair = word.known().and_then(|text| text.split_once('='));
                    if let Some((variable, text)) = pair {
                        let mut value = word.clone();
                        value.text = Some(text.into());
                        self.assign(variable, value, false);
                    }
                }
            }
            _ if name.starts_with("mkfs") => self.judge.find(
                &rule::DESTROYS,
                "makes a file system, and what was there is gone",
            ),
            _ => return None,
        }
        Some(Value::default())
    }

    fn copies(&mut self, arguments: &Arguments) {
        let operands = arguments.operands();
        if let Some((to, from)) = operands.split_last() {
            let mut content = Value::default();
            for from in from {
                self.judge.read(from);
                content = content.tainted(&self.judge.content(from));
            }
            self.judge.write(to, &content);
        }
    }

    fn dd(&mut self, words: &[Value], input: &Value) {
        for word in words {
            let Some((key, path)) = word.known().and_then(|text| text.split_once('=')) else {
                continue;
            };
            let path = Value::text(path);
            match key {
                "if" => self.judge.read(&path),
                "of" if path
                    .exact()
                    .is_some_and(|path| place(path).traits.outside.is_some()) =>
                {
                    self.judge.find(
                        &rule::DESTROYS,
                        format!("overwrites {}", show(&path.shown())),
                    );
                }
                "of" => self.judge.write(&path, input),
                _ => {}
            }
        }
    }

    fn chmod(&mut self, words: &[Value]) {
        let Some(mode) = words
            .iter()
            .filter_map(Value::exact)
            .find(|word| !word.starts_with('-'))
        else {
            return;
        };
        let is_numeric = mode.len() >= 4 && mode.chars().all(|char| char.is_digit(8));
        let special = is_numeric
            && mode.trim_start_matches('0').len() == 4
            && matches!(
                mode.trim_start_matches('0').as_bytes().first(),
                Some(b'2' | b'4' | b'6' | b'7')
            );
        let added = mode.split(',').any(|part| {
            part.split_once('+')
                .is_some_and(|(who, rights)| rights.contains('s') && !who.contains(['g', 'o']))
        });
        if (special && !mode.trim_start_matches('0').starts_with('2')) || added {
            self.judge.find(
                &rule::GRANTS_ROOT,
                "lets a program run with the rights of its owner",
            );
        }
    }

    fn find(&mut self, words: &[Value]) -> Value {
        let is_option = |word: &&Value| {
            word.known()
                .is_some_and(|text| text.starts_with(['-', '(', '!']))
        };
        let roots: Vec<&Value> = words.iter().take_while(|word| !is_option(word)).collect();
        let has = |option: &str| words.iter().any(|word| word.exact() == Some(option));
        let removes = has("-delete") || (has("-exec") && has("rm")) || has("shred");
        for root in &roots {
            self.judge.walk(root);
            if removes && words.len() <= roots.len() + 6 && !has("-name") && !has("-mtime") {
                self.judge.delete(root, true);
            }
        }
        if words
            .iter()
            .filter_map(Value::exact)
            .any(|word| matches!(word, "-4000" | "-u=s" | "/4000" | "-u+s" | "+4000"))
        {
            self.judge.find(
                &rule::LISTS_SYSTEM,
                "looks for programs that run with the rights of their owner",
            );
        }
        Value {
            text: Some(HOLE.to_string().into()),
            ..Value::from(Origins::MACHINE)
        }
    }

    /// Programs that speak to the network.
    fn speaks(&mut self, name: &str, words: &[Value], input: &Value) -> Option<Value> {
        Some(match name {
            "curl" | "wget" | "fetch" | "aria2c" | "lynx" => self.fetch(name, words, input),
            "nc" | "ncat" | "netcat" | "nc.openbsd" | "nc.traditional" | "socat" | "telnet" => {
                self.netcat(words, input)
            }
            "scp" | "rsync" | "sftp" => self.copy_to_host(words),
            "ssh" => {
                self.judge.send(input, &Value::default());
                Value::from(Origins::NETWORK)
            }
            "mail" | "mailx" | "sendmail" | "mutt" => {
                self.judge.send(input, &Value::default());
                Value::default()
            }
            "nmap" | "masscan" | "zmap" => {
                self.judge
                    .find(&rule::SCANS_NETWORK, "tries ports or hosts of the network");
                Value::default()
            }
            "xmrig" | "minerd" | "cpuminer" => {
                self.judge.find(&rule::MINES, "starts a program that mines");
                Value::default()
            }
            _ => return None,
        })
    }
}

/// The words after a command that runs them.
fn wrapped<'w>(first: &Value, arguments: &'w [Value]) -> Option<&'w [Value]> {
    let name = first.exact()?;
    let name = name.rsplit('/').next().unwrap_or(name);
    let (_, valued) = WRAPPERS.iter().find(|(own, _)| *own == name)?;
    let parsed = Arguments::new(arguments, valued);
    let operands = parsed.operands();
    // Settings of `env`, and how long `timeout` waits.
    let is_setting = |word: &&&Value| {
        word.exact().is_some_and(|text| {
            text.split_once('=')
                .is_some_and(|(key, _)| !key.contains('/'))
        })
    };
    let skipped = usize::from(matches!(name, "timeout" | "chroot"))
        + operands.iter().take_while(is_setting).count();
    let command = operands.get(skipped)?;
    let at = arguments
        .iter()
        .position(|word| std::ptr::eq(word, *command))?;
    arguments.get(at..)
}

/// `tr 'A-Za-z' 'N-ZA-Mn-za-m'`, and others that turn letters into letters.
fn turned(words: &[Value], input: &Value) -> Option<Value> {
    let to = words.get(1)?.exact()?;
    let is_rot13 = to.to_ascii_lowercase().starts_with("n-za-m");
    let text = input.exact()?;
    is_rot13.then(|| decoding::result(input, &codec::ROT13, decode::rot13(text)))
}

/// The words with blanks between them.
pub fn text_of(words: &[Value]) -> String {
    words.iter().map(Value::shown).collect::<Vec<_>>().join(" ")
}
