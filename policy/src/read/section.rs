//! One table of a profile and the means to take its keys, typed and with their places.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::error::{Located, Problem, SourceText, TextSpan};
use crate::keys::{ProfileKey, ValueForm};
use crate::tables::{self, declare::KeyTable};
use crate::values::{self, ValueError};

type Value<'d> = Spanned<DeValue<'d>>;

/// A text, and the problems that were found in it.
pub(super) struct ProfileReader<'r> {
    pub(super) source: &'r Arc<SourceText>,
    pub(super) problems: &'r mut Vec<Problem>,
}

impl ProfileReader<'_> {
    pub(super) fn span_at(&self, span: std::ops::Range<usize>) -> TextSpan {
        TextSpan {
            source: Arc::clone(self.source),
            span,
        }
    }

    /// The place in the text of a fault within a value. Escapes shift a value against its text;
    /// then the whole value is shown.
    fn at_part(
        &self,
        whole: std::ops::Range<usize>,
        value: &str,
        part: Option<std::ops::Range<usize>>,
    ) -> TextSpan {
        let inner = whole.start + 1..whole.end.saturating_sub(1);
        match part {
            Some(part) if self.source.text.get(inner.clone()) == Some(value) => {
                self.span_at(inner.start + part.start..inner.start + part.end)
            }
            _ => self.span_at(whole),
        }
    }

    fn wrong_value(
        &mut self,
        key: &str,
        value: &str,
        span: std::ops::Range<usize>,
        wrong: ValueError,
    ) {
        let at = self.at_part(span, value, wrong.span);
        let message = format!("`{key}`: {}", wrong.message);
        self.problems.push(
            Problem::new(message)
                .help(wrong.help)
                .with_label(&at, "here"),
        );
    }
}

/// A table of the profile.
pub(crate) struct SectionReader<'s, 'r, 'd> {
    reader: &'s mut ProfileReader<'r>,
    /// The table's name in [`tables::KEYS`].
    name: &'static str,
    table: &'s DeTable<'d>,
    /// The place at which missing keys are reported.
    place: Option<std::ops::Range<usize>>,
}

/// Conditions of rules that people look for, why there are none, and what to write instead.
const NOT_MATCHED: &[(&str, &str, &str)] = &[(
    "uid",
    "a jail has one user, who is never root",
    "remove it; \"setuid\" in `on` speaks of attempts to become another",
)];

impl<'s, 'r, 'd> SectionReader<'s, 'r, 'd> {
    pub(super) fn open(
        reader: &'s mut ProfileReader<'r>,
        name: &'static str,
        table: &'s DeTable<'d>,
    ) -> Self {
        Self {
            reader,
            name,
            table,
            place: None,
        }
    }

    /// Reports every key that means nothing here.
    pub(super) fn report_unknown_keys(&mut self) {
        let known: Vec<&str> = tables::keys_in_table(self.name)
            .map(|key| key.name)
            .collect();
        for (name, _) in self.table {
            if !known.contains(&name.get_ref().as_ref()) {
                let problem = self.unknown_key(name.get_ref(), &known);
                let at = self.reader.span_at(name.span());
                self.reader
                    .problems
                    .push(problem.with_label(&at, "unknown key"));
            }
        }
    }

    fn unknown_key(&self, name: &str, known: &[&str]) -> Problem {
        let place = if self.name.is_empty() {
            "at the top of a profile".to_owned()
        } else {
            format!("in `{}`", self.name)
        };
        if let Some((_, why, help)) = NOT_MATCHED
            .iter()
            .find(|(key, ..)| (self.name, name) == ("rule", *key))
        {
            return Problem::new(format!("rules cannot match on `{name}`: {why}")).help(*help);
        }
        let elsewhere = tables::KEYS.iter().find(|key| key.name == name);
        let help = match (values::nearest(name, known.iter().copied()), elsewhere) {
            (Some(nearest), _) => format!("did you mean `{nearest}`?"),
            (None, Some(key)) => format!("there is a `{}`", key.path()),
            (None, None) => format!("the keys here are {}", known.join(", ")),
        };
        Problem::new(format!("there is no key `{name}` {place}")).help(help)
    }

    /// The entry of a key in the table of keys. A key that is not listed there is a mistake in
    /// the reader, and every test of it says so.
    fn key(&self, name: &str) -> &'static ProfileKey {
        tables::find_key(self.name, name)
            .unwrap_or_else(|| unreachable!("`{name}` is no listed key"))
    }

    fn get(&self, name: &str) -> Option<&'s Value<'d>> {
        self.table.get(name)
    }

    /// The place of a key's value, when there is one.
    pub(crate) fn place_of(&self, name: &str) -> Option<TextSpan> {
        self.get(name)
            .map(|value| self.reader.span_at(value.span()))
    }

    fn wrong_type(&mut self, key: &ProfileKey, value: &Value<'_>) {
        let at = self.reader.span_at(value.span());
        let problem = Problem::new(format!("`{}` is of the wrong type", key.path()))
            .help(format!("write {}", key.form.describe()))
            .with_label(&at, format!("this is {}", article(value.get_ref())));
        self.reader.problems.push(problem);
    }

    fn parse<T>(
        &mut self,
        key: &ProfileKey,
        value: &Value<'_>,
        parse: impl Fn(&str) -> Result<T, ValueError>,
    ) -> Option<Located<T>> {
        let Some(text) = written(key.form, value.get_ref()) else {
            self.wrong_type(key, value);
            return None;
        };
        match parse(&text) {
            Ok(parsed) => Some(Located {
                value: parsed,
                at: self.reader.span_at(value.span()),
            }),
            Err(wrong) => {
                self.reader
                    .wrong_value(&key.path(), &text, value.span(), wrong);
                None
            }
        }
    }

    /// A key with a single value.
    pub(crate) fn value<T>(
        &mut self,
        name: &str,
        parse: impl Fn(&str) -> Result<T, ValueError>,
    ) -> Option<Located<T>> {
        let (key, value) = (self.key(name), self.get(name)?);
        self.parse(key, value, parse)
    }

    /// A key that must be there.
    pub(super) fn required<T>(
        &mut self,
        name: &str,
        parse: impl Fn(&str) -> Result<T, ValueError>,
    ) -> Option<Located<T>> {
        self.require(name);
        self.value(name, parse)
    }

    /// Reports every key that is missing and that every profile has to say.
    pub(crate) fn require_keys(&mut self) {
        for key in tables::keys_in_table(self.name).filter(|key| key.is_required()) {
            self.require(key.name);
        }
    }

    fn require(&mut self, name: &str) {
        if self.table.contains_key(name) {
            return;
        }
        let key = self.key(name);
        let at = self.reader.span_at(self.place.clone().unwrap_or_default());
        let problem = Problem::new(format!("`{}` is missing", key.path()))
            .help(format!(
                "write `{name} = …` with {}: {}",
                key.form.describe(),
                key.about
            ))
            .with_label(&at, format!("without `{name}`"));
        self.reader.problems.push(problem);
    }

    /// A list, or a single value without brackets.
    pub(crate) fn list<T>(
        &mut self,
        name: &str,
        parse: impl Fn(&str) -> Result<T, ValueError>,
    ) -> Vec<Located<T>> {
        let key = self.key(name);
        match self.get(name).map(|value| (value, value.get_ref())) {
            None => Vec::new(),
            Some((_, DeValue::Array(values))) => values
                .iter()
                .filter_map(|value| self.parse(key, value, &parse))
                .collect(),
            Some((value, _)) => self.parse(key, value, &parse).into_iter().collect(),
        }
    }

    /// A table of texts.
    pub(crate) fn text_table(
        &mut self,
        name: &str,
        parse_name: impl Fn(&str) -> Result<String, ValueError>,
        parse_value: impl Fn(&str) -> Result<String, ValueError>,
    ) -> BTreeMap<String, String> {
        let (key, Some(value)) = (self.key(name), self.get(name)) else {
            return BTreeMap::new();
        };
        let DeValue::Table(table) = value.get_ref() else {
            self.wrong_type(key, value);
            return BTreeMap::new();
        };
        let mut texts = BTreeMap::new();
        for (name, value) in table {
            if let Err(wrong) = parse_name(name.get_ref()) {
                self.reader
                    .wrong_value(&key.path(), name.get_ref(), name.span(), wrong);
            }
            if let Some(parsed) = self.parse(key, value, &parse_value) {
                texts.insert(name.get_ref().to_string(), parsed.value);
            }
        }
        texts
    }

    /// A table of its own.
    pub(super) fn table<K: KeyTable>(&mut self, name: &str, into: &mut K) {
        self.section(name, |section| *into = K::read(section));
    }

    /// A table below this one.
    pub(crate) fn section(
        &mut self,
        name: &str,
        read: impl FnOnce(&mut SectionReader<'_, 'r, 'd>),
    ) {
        let (key, Some(value)) = (self.key(name), self.get(name)) else {
            return;
        };
        match value.get_ref() {
            DeValue::Table(table) => self.below(key, table, value.span(), read),
            _ => self.wrong_type(key, value),
        }
    }

    fn below<T>(
        &mut self,
        key: &ProfileKey,
        table: &DeTable<'d>,
        place: std::ops::Range<usize>,
        read: impl FnOnce(&mut SectionReader<'_, 'r, 'd>) -> T,
    ) -> T {
        let path = key.path();
        let name = tables::KEYS
            .iter()
            .map(|key| key.table)
            .find(|table| *table == path);
        let name = name.unwrap_or_else(|| unreachable!("`{path}` is no listed table"));
        let mut section = SectionReader::open(self.reader, name, table);
        section.place = Some(place);
        section.report_unknown_keys();
        read(&mut section)
    }

    /// A list of tables.
    pub(crate) fn tables<T>(
        &mut self,
        name: &str,
        read: impl Fn(&mut SectionReader<'_, 'r, 'd>) -> Option<T>,
    ) -> Vec<Located<T>> {
        let (key, Some(value)) = (self.key(name), self.get(name)) else {
            return Vec::new();
        };
        let DeValue::Array(values) = value.get_ref() else {
            self.wrong_type(key, value);
            return Vec::new();
        };
        values
            .iter()
            .filter_map(|value| self.entry(key, value, &read))
            .collect()
    }

    fn entry<T>(
        &mut self,
        key: &ProfileKey,
        value: &Value<'d>,
        read: impl FnOnce(&mut SectionReader<'_, 'r, 'd>) -> Option<T>,
    ) -> Option<Located<T>> {
        let DeValue::Table(table) = value.get_ref() else {
            self.wrong_type(key, value);
            return None;
        };
        let value_read = self.below(key, table, value.span(), read)?;
        Some(Located {
            value: value_read,
            at: self.reader.span_at(value.span()),
        })
    }

    /// A problem of this table as a whole.
    pub(super) fn problem(&mut self, problem: Problem, name: &str, label: &str) {
        let at = self.place_of(name);
        let at = at.unwrap_or_else(|| self.reader.span_at(self.place.clone().unwrap_or_default()));
        self.reader.problems.push(problem.with_label(&at, label));
    }

    /// True when a key is there with an empty list.
    pub(super) fn is_empty_list(&self, name: &str) -> bool {
        let value = self.get(name).map(|value| value.get_ref());
        matches!(value, Some(DeValue::Array(values)) if values.is_empty())
    }
}

/// The text of a value, in quotes or, where the form is a number or a truth, without them; `None` for a value of another type.
fn written<'v>(form: ValueForm, value: &'v DeValue<'_>) -> Option<Cow<'v, str>> {
    match (form, value) {
        (ValueForm::Count, DeValue::String(_)) | (ValueForm::Truth, DeValue::String(_)) => None,
        (_, DeValue::String(text)) => Some(text.as_ref().into()),
        (ValueForm::Truth, DeValue::Boolean(truth)) => Some(truth.to_string().into()),
        (ValueForm::Count | ValueForm::Ports, DeValue::Integer(number)) => {
            let decimal = i64::from_str_radix(number.as_str(), number.radix());
            Some(
                decimal
                    .map_or_else(|_| number.to_string(), |number| number.to_string())
                    .into(),
            )
        }
        _ => None,
    }
}

fn article(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number with a fraction",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date or time",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}
