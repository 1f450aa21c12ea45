//! The profile as a text, new or added to. What a person has written in it stays as it is.

use toml_edit::{Array, ArrayOfTables, DocumentMut, InlineTable, Item, Table, Value, value};
use turnkey_policy::{JailLimits, NamedVariants, NetworkMode, Overrides, SCHEMA};

use super::calls::KeptCall;
use super::draft::{AllowedPattern, LEFT_OUT, ProfileDraft, STOPPING};
use super::limits::LimitNeed;
use super::network::NetworkDraft;
use super::places::DEVICES;
use super::seen::FileWant;
use turnkey_policy::quoted;

/// The profile is not of the form that can be added to.
#[derive(Debug, thiserror::Error)]
pub enum TextError {
    /// The text is no TOML.
    #[error("the profile cannot be read as TOML")]
    Syntax(#[from] toml_edit::TomlError),
    /// A key holds something else.
    #[error(
        "`{0}` is written in a form that cannot be added to: write it as the reference shows it"
    )]
    Form(&'static str),
}

/// The heading of the comments on what was left out.
const TO_DECIDE: &str = "# To be decided by a person: tried and left out.";
/// The heading of the comments on what else was done.
const BESIDE: &str = "# Done besides, and neither allowed nor stopped by a rule above.";

/// A profile that says nothing yet.
pub fn skeleton(name: &str, base: &str, command: &str) -> String {
    format!(
        "# What `{command}` did, as `turnkey learn` has seen it. Read it before you rely on it: a pattern may\n\
         # allow more than was done, and what another input leads to was not seen.\n\
         schema = \"{SCHEMA}\"\n\
         name = {}\n\
         extends = [{}]\n\
         description = {}\n",
        quoted(name),
        quoted(base),
        quoted(&format!("What {command} did when it was learned")),
    )
}

/// A profile that is being written.
pub struct ProfileText {
    document: DocumentMut,
}

impl ProfileText {
    /// Takes a profile up.
    pub fn parse(text: &str) -> Result<ProfileText, TextError> {
        Ok(ProfileText {
            document: text.parse()?,
        })
    }

    /// The text.
    pub fn text(&self) -> String {
        self.document.to_string()
    }

    /// The profiles that it builds on.
    pub fn bases(&self) -> Vec<String> {
        let extends = self.document.get("extends");
        let one = extends.and_then(Item::as_str).map(str::to_owned);
        let list = extends.and_then(Item::as_array).into_iter().flatten();
        one.into_iter()
            .chain(list.filter_map(Value::as_str).map(str::to_owned))
            .collect()
    }

    /// Says whom the program may talk to, besides those that are named already.
    pub fn let_talk(&mut self, talk: &NetworkDraft) -> Result<(), TextError> {
        if let Some((mode, why)) = &talk.mode {
            let table = section(&mut self.document, "network")?;
            let said = table.get("mode").and_then(Item::as_str);
            if said.and_then(NetworkMode::from_name) < Some(*mode) {
                let mut word = value(mode.name());
                comment(&mut word, why);
                table["mode"] = word;
            }
        }
        if talk.hosts.is_empty() {
            return Ok(());
        }
        let list = array(
            section(&mut self.document, "network")?,
            "allow",
            "network.allow",
        )?;
        for host in &talk.hosts {
            if names(list, "to", &host.pattern) {
                continue;
            }
            let mut entry = InlineTable::new();
            entry.insert("to", host.pattern.as_str().into());
            entry.insert("why", host.why.as_str().into());
            let entry = Value::from(entry).decorated("\n    ", "");
            list.push_formatted(entry);
            list.set_trailing_comma(true);
            list.set_trailing("\n");
        }
        Ok(())
    }

    /// Says the flags that the jail was made with, but for limits and whom it may talk to.
    pub fn keep_flags(&mut self, flags: &Overrides) -> Result<(), TextError> {
        const WHY: &str = "given as a flag when this was learned";
        for key in ["read", "write"] {
            for path in flags.texts(key) {
                let list = array(
                    section(&mut self.document, "filesystem")?,
                    key,
                    "filesystem",
                )?;
                if names(list, "path", path) {
                    continue;
                }
                let mut entry = InlineTable::new();
                entry.insert("path", path.into());
                entry.insert("why", WHY.into());
                list.push(entry);
            }
        }
        for scratch in flags.texts("scratch") {
            let (path, size) = scratch.split_once('=').unwrap_or((scratch, ""));
            let list = array(
                section(&mut self.document, "filesystem")?,
                "scratch",
                "filesystem",
            )?;
            let mut entry = InlineTable::new();
            entry.insert("path", path.into());
            entry.insert("size", size.into());
            entry.insert("why", WHY.into());
            list.push(entry);
        }
        if let Some(mode) = flags.texts("workdir-mode").next() {
            let mut workdir = InlineTable::new();
            workdir.insert("mode", mode.into());
            section(&mut self.document, "filesystem")?["workdir"] = value(workdir);
        }
        let single = [
            ("filesystem", "root"),
            ("filesystem", "toolchain"),
            ("identity", "user"),
            ("identity", "hostname"),
        ];
        for (table, key) in single {
            if let Some(flag) = flags.texts(key).next() {
                let mut given = value(flag);
                comment(&mut given, WHY);
                section(&mut self.document, table)?[key] = given;
            }
        }
        for variable in flags.texts("env") {
            let environment = section(&mut self.document, "env")?;
            match variable.split_once('=') {
                None => array(environment, "pass", "env")?.push(variable),
                Some((name, text)) => environment
                    .entry("set")
                    .or_insert(Item::Table(Table::new()))
                    .as_table_like_mut()
                    .ok_or(TextError::Form("env.set"))?
                    .insert(name, value(text))
                    .map_or((), drop),
            }
        }
        Ok(())
    }

    /// Says the limits; with those of a policy, only where they are higher.
    pub fn limit(
        &mut self,
        needs: &[LimitNeed],
        below: Option<&JailLimits>,
    ) -> Result<(), TextError> {
        for need in needs {
            if below.is_some_and(|limits| !(need.exceeds)(limits, &need.value)) {
                continue;
            }
            let count = need.value.parse::<i64>();
            let mut limit = match count {
                Ok(count) if need.is_count => value(count),
                _ => value(need.value.as_str()),
            };
            comment(&mut limit, &need.why);
            section(&mut self.document, "limits")?[need.key] = limit;
        }
        Ok(())
    }

    /// Allows these system calls, besides those that are named already, and no others.
    pub fn keep_calls(&mut self, kept: &[KeptCall]) -> Result<(), TextError> {
        if kept.is_empty() {
            return Ok(());
        }
        let table = section(&mut self.document, "syscalls")?;
        if table.is_empty() {
            let mut inherit = value(false);
            comment(&mut inherit, "no calls but these");
            table["inherit"] = inherit;
        }
        let list = array(table, "allow", "syscalls.allow")?;
        for kept in kept {
            insert(list, kept.name, &kept.why, false);
        }
        Ok(())
    }

    /// Allows what a draft says, stops everything else, and lists what is to be decided.
    pub fn write(&mut self, draft: &ProfileDraft, stops: [bool; 2]) -> Result<(), TextError> {
        let allowed = [
            (
                FileWant::Read,
                "learned-read",
                "open",
                Some("read"),
                "was read when this was learned",
            ),
            (
                FileWant::Write,
                "learned-write",
                "open",
                Some("write"),
                "was written when this was learned",
            ),
            (
                FileWant::Run,
                "learned-exec",
                "exec",
                None,
                "was run when this was learned",
            ),
        ];
        self.allow_devices()?;
        if draft.level > 0 {
            self.join_trees(draft)?;
        }
        for (want, id, on, access, why) in allowed {
            let lines = draft.allowed.get(&want).map_or(&[][..], Vec::as_slice);
            if !lines.is_empty() {
                let rule = rule(&mut self.document, id, |rule| {
                    rule["on"] = value(on);
                    if let Some(access) = access {
                        rule["access"] = value(access);
                    }
                    rule["action"] = value("allow");
                    rule["yields"] = yields();
                    rule["why"] = value(why);
                })?;
                add(array(rule, "path", "rule.path")?, lines);
            }
        }
        self.leave_out(draft)?;
        let stopping = [
            ("open", "a file that was not opened when this was learned"),
            ("exec", "a program that was not run when this was learned"),
        ];
        for ((id, wanted), (on, why)) in STOPPING.into_iter().zip(stops).zip(stopping) {
            if !wanted {
                continue;
            }
            rule(&mut self.document, id, |rule| {
                rule["on"] = value(on);
                rule["action"] = value("kill");
                rule["severity"] = value("high");
                rule["why"] = value(why);
            })?;
        }
        let left_out: Vec<_> = draft.left_out.iter().map(|out| out.words.clone()).collect();
        self.list(TO_DECIDE, &left_out);
        self.list(BESIDE, &draft.notes);
        Ok(())
    }

    /// Allows whole trees for reading and writing alike, also those that were allowed for one of them.
    fn join_trees(&mut self, draft: &ProfileDraft) -> Result<(), TextError> {
        let mut moved = Vec::new();
        for id in ["learned-read", "learned-write"] {
            let Some(list) = self.patterns(id) else {
                continue;
            };
            let is_tree = |entry: &Value| entry.as_str().is_some_and(|text| text.ends_with("/**"));
            loop {
                let at = list.iter().position(is_tree);
                let Some(at) = at else { break };
                moved.push(list.remove(at));
            }
        }
        self.drop_empty_rules();
        if moved.is_empty() && draft.trees.is_empty() {
            return Ok(());
        }
        let rule = rule(&mut self.document, "learned-trees", |rule| {
            rule["on"] = value("open");
            rule["action"] = value("allow");
            rule["yields"] = yields();
            rule["why"] = value(
                "was read or written when this was learned; the mounts say what can be written",
            );
        })?;
        let list = array(rule, "path", "rule.path")?;
        for entry in moved {
            let known = list.iter().any(|other| other.as_str() == entry.as_str());
            if !known {
                list.push_formatted(entry);
            }
        }
        add(list, &draft.trees);
        Ok(())
    }

    /// A rule without its last pattern would mean everything.
    fn drop_empty_rules(&mut self) {
        let rules = self.document.get_mut("rule");
        if let Some(rules) = rules.and_then(Item::as_array_of_tables_mut) {
            let is_empty = |rule: &Table| {
                let list = rule.get("path").and_then(Item::as_array);
                list.is_some_and(Array::is_empty)
            };
            rules.retain(|rule| !is_empty(rule));
        }
    }

    /// The patterns of a rule, if there is one with any.
    fn patterns(&mut self, id: &str) -> Option<&mut Array> {
        let rules = self.document.get_mut("rule")?.as_array_of_tables_mut()?;
        let mut rules = rules.iter_mut();
        let rule = rules.find(|rule| rule.get("id").and_then(Item::as_str) == Some(id))?;
        rule.get_mut("path")?.as_array_mut()
    }

    /// Allows what every jail has, whether it was opened or not.
    fn allow_devices(&mut self) -> Result<(), TextError> {
        let rule = rule(&mut self.document, "jail-devices", |rule| {
            rule["on"] = value("open");
            rule["action"] = value("allow");
            rule["yields"] = yields();
            rule["why"] = value("every jail has these, of its own");
        })?;
        let list = array(rule, "path", "rule.path")?;
        for device in DEVICES {
            if !list.iter().any(|entry| entry.as_str() == Some(device)) {
                list.push_formatted(Value::from(*device).decorated("\n    ", ""));
            }
        }
        list.set_trailing_comma(true);
        list.set_trailing("\n");
        Ok(())
    }

    /// Stops by name what a pattern beside it would allow.
    fn leave_out(&mut self, draft: &ProfileDraft) -> Result<(), TextError> {
        let lines: Vec<AllowedPattern> = draft
            .left_out
            .iter()
            .filter_map(|out| {
                Some(AllowedPattern {
                    pattern: out.pattern.clone()?,
                    why: out.words.clone(),
                })
            })
            .collect();
        if lines.is_empty() {
            return Ok(());
        }
        let rule = rule(&mut self.document, LEFT_OUT, |rule| {
            rule["on"] = value("open");
            rule["action"] = value("kill");
            rule["severity"] = value("high");
            rule["why"] = value(
                "looks like a secret; a person who knows better takes it out of here and allows it above",
            );
        })?;
        add(array(rule, "path", "rule.path")?, &lines);
        Ok(())
    }

    /// Comments at the end, each once.
    fn list(&mut self, head: &str, lines: &[String]) {
        let mut end = self
            .document
            .trailing()
            .as_str()
            .unwrap_or_default()
            .to_owned();
        // Who did it, and how often, may differ.
        let act = |line: &str| line.split(" (").next().unwrap_or_default().to_owned();
        let known: Vec<String> = end.lines().map(act).collect();
        let is_new = |line: &&String| !known.contains(&act(line));
        let lines: Vec<String> = lines.iter().map(|line| format!("#   {line}")).collect();
        let new: Vec<_> = lines.iter().filter(is_new).cloned().collect();
        if new.is_empty() {
            return;
        }
        let new = new.join("\n");
        match end.find(head) {
            Some(at) => end.insert_str(at + head.len(), &format!("\n{new}")),
            None => end += &format!("\n{head}\n{new}\n"),
        }
        self.document.set_trailing(end);
    }
}

/// A table of the profile, made when it is not there.
fn section<'d>(
    document: &'d mut DocumentMut,
    name: &'static str,
) -> Result<&'d mut Table, TextError> {
    if !document.contains_key(name) {
        // Before the rules, which stand last.
        let mut table = Table::new();
        table.set_position(None);
        document.insert(name, Item::Table(table));
    }
    document[name].as_table_mut().ok_or(TextError::Form(name))
}

/// A list in a table, made when it is not there.
fn array<'t>(
    table: &'t mut Table,
    key: &str,
    form: &'static str,
) -> Result<&'t mut Array, TextError> {
    let item = table.entry(key).or_insert(value(Array::new()));
    item.as_array_mut().ok_or(TextError::Form(form))
}

/// The rule of this id, made when it is not there.
fn rule<'d>(
    document: &'d mut DocumentMut,
    id: &str,
    make: impl FnOnce(&mut Table),
) -> Result<&'d mut Table, TextError> {
    let rules = document
        .entry("rule")
        .or_insert(Item::ArrayOfTables(ArrayOfTables::new()))
        .as_array_of_tables_mut()
        .ok_or(TextError::Form("rule"))?;
    let is_it = |rule: &Table| rule.get("id").and_then(Item::as_str) == Some(id);
    let known = rules.iter().position(is_it);
    let index = known.unwrap_or(rules.len());
    if known.is_none() {
        let mut table = Table::new();
        table["id"] = value(id);
        make(&mut table);
        rules.push(table);
    }
    rules.get_mut(index).ok_or(TextError::Form("rule"))
}

/// True when one of the entries says this under the key.
fn names(list: &Array, key: &str, text: &str) -> bool {
    let mut texts = list
        .iter()
        .filter_map(|entry| entry.as_inline_table()?.get(key)?.as_str());
    texts.any(|known| known == text)
}

fn add(list: &mut Array, lines: &[AllowedPattern]) {
    for line in lines {
        insert(list, &line.pattern, &line.why, true);
    }
}

/// Puts a word with its comment where it belongs in the order, unless it is there.
fn insert(list: &mut Array, word: &str, why: &str, sorted: bool) {
    let texts: Vec<&str> = list.iter().filter_map(Value::as_str).collect();
    if texts.contains(&word) {
        return;
    }
    let behind = texts.iter().position(|text| sorted && *text > word);
    let at = behind.unwrap_or(list.len());
    let entry = Value::from(word).decorated(format!("\n    # {why}\n    "), "");
    list.insert_formatted(at, entry);
    list.set_trailing_comma(true);
    if !list
        .trailing()
        .as_str()
        .is_some_and(|end| end.contains('\n'))
    {
        list.set_trailing("\n");
    }
}

/// The word of a learned allowance.
fn yields() -> Item {
    let mut yields = value(true);
    comment(
        &mut yields,
        "rules of the profile below about the same file decide first",
    );
    yields
}

fn comment(item: &mut Item, words: &str) {
    if let Some(value) = item.as_value_mut() {
        value.decor_mut().set_suffix(format!("  # {words}"));
    }
}
