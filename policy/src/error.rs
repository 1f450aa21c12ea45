//! What can be wrong with a profile or with the flags that override it, and where.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use miette::{Diagnostic, LabeledSpan, NamedSource};

/// A text that took part: a profile, or the command line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Source {
    /// As people know it: a profile's name, a file, or `command line`.
    pub(crate) name: String,
    pub(crate) text: String,
}

/// A place in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct At {
    pub(crate) source: Arc<Source>,
    pub(crate) span: Range<usize>,
}

/// A value and where it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Located<T> {
    pub(crate) value: T,
    pub(crate) at: At,
}

/// One thing that is wrong.
#[derive(Debug)]
pub struct Problem {
    message: String,
    help: Option<String>,
    source: Option<Box<NamedSource<String>>>,
    labels: Vec<LabeledSpan>,
}

/// Why no policy came of a profile: one problem or several.
///
/// It implements [`miette::Diagnostic`], with the text at fault, line, column and fix.
#[derive(Debug)]
pub struct LoadError {
    problems: Vec<Problem>,
}

impl Problem {
    /// A problem without a place in any text.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            help: None,
            source: None,
            labels: Vec::new(),
        }
    }

    /// What to do about it.
    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Where it is, with a few words beside the place.
    pub(crate) fn at(mut self, at: &At, label: impl Into<String>) -> Self {
        let Source { name, text } = &*at.source;
        self.source
            .get_or_insert_with(|| Box::new(NamedSource::new(name, text.clone())));
        self.labels.push(LabeledSpan::new_with_span(
            Some(label.into()),
            at.span.clone(),
        ));
        self
    }

    /// What is wrong, in one sentence.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl LoadError {
    /// `None` when nothing is wrong.
    pub(crate) fn from_problems(problems: Vec<Problem>) -> Option<Self> {
        if problems.is_empty() {
            None
        } else {
            Some(Self { problems })
        }
    }

    /// Everything that is wrong, at least one thing.
    #[must_use]
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// With a single problem, this error is that problem.
    fn only(&self) -> Option<&Problem> {
        match self.problems.as_slice() {
            [only] => Some(only),
            _ => None,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl std::error::Error for Problem {}

impl Diagnostic for Problem {
    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.help
            .as_ref()
            .map(|help| Box::new(help) as Box<dyn fmt::Display>)
    }

    fn source_code(&self) -> Option<&dyn miette::SourceCode> {
        self.source
            .as_ref()
            .map(|source| &**source as &dyn miette::SourceCode)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        Some(Box::new(self.labels.iter().cloned()))
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.only() {
            Some(problem) => problem.fmt(formatter),
            None => write!(formatter, "{} things are wrong", self.problems.len()),
        }
    }
}

impl std::error::Error for LoadError {}

impl Diagnostic for LoadError {
    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.only().and_then(Diagnostic::help)
    }

    fn source_code(&self) -> Option<&dyn miette::SourceCode> {
        self.only().and_then(Diagnostic::source_code)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        self.only().and_then(Diagnostic::labels)
    }

    fn related<'a>(&'a self) -> Option<Box<dyn Iterator<Item = &'a dyn Diagnostic> + 'a>> {
        if self.only().is_some() {
            return None;
        }
        Some(Box::new(
            self.problems
                .iter()
                .map(|problem| problem as &dyn Diagnostic),
        ))
    }
}
