//! Diagnostics: the mistakes in a profile or in the flags that override it, and their places.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use miette::{
    Diagnostic, LabeledSpan, MietteError, MietteSpanContents, Severity, SourceCode, SourceSpan,
    SpanContents,
};

use crate::place::ProfilePlace;
use crate::visible;

/// A text that took part: a profile, or the command line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SourceText {
    /// As people know it: a profile's name, a file, or `command line`.
    pub(crate) name: String,
    pub(crate) text: String,
    /// The text as a terminal may show it, byte for byte at the same places.
    shown: String,
    /// True when places in the text can be drawn.
    can_be_drawn: bool,
}

/// Bytes. What draws the place of a problem pads lines to its column, which has to fit 16 bits, a tab as several
/// columns.
pub(crate) const LONGEST_LINE: usize = 8 << 10;

impl SourceText {
    pub(crate) fn new(name: String, text: String) -> Self {
        let shown = visible::in_place(&text);
        let can_be_drawn = too_long_a_line(&text).is_none();
        Self {
            name,
            text,
            shown,
            can_be_drawn,
        }
    }
}

/// The first line that cannot be drawn, from 1. The command line is a text of a single one.
pub(crate) fn too_long_a_line(text: &str) -> Option<usize> {
    let index = text.lines().position(|line| line.len() > LONGEST_LINE);
    index.map(|index| index + 1)
}

impl SourceCode for SourceText {
    fn read_span<'a>(
        &'a self,
        span: &SourceSpan,
        lines_before: usize,
        lines_after: usize,
    ) -> Result<Box<dyn SpanContents<'a> + 'a>, MietteError> {
        let shown = self.shown.read_span(span, lines_before, lines_after)?;
        Ok(Box::new(MietteSpanContents::new_named(
            visible::spelled(&self.name),
            shown.data(),
            *shown.span(),
            shown.line(),
            shown.column(),
            shown.line_count(),
        )))
    }
}

/// A place in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TextSpan {
    pub(crate) source: Arc<SourceText>,
    pub(crate) span: Range<usize>,
}

/// A value and where it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Located<T> {
    pub(crate) value: T,
    pub(crate) at: TextSpan,
}

/// One thing that is wrong.
#[derive(Clone, Debug)]
pub struct Problem {
    message: String,
    help: Option<String>,
    /// The places of the mistake, with a few words beside each.
    at: Vec<(TextSpan, String)>,
    /// Remarks that point into other texts than that of the first place.
    elsewhere: Vec<Problem>,
    /// True for a remark: it explains another problem, and nothing is wrong at its place.
    remark: bool,
}

/// More problems of one profile than this are not told one by one: nobody would read them, and a text that
/// was made to be wrong everywhere would keep the reader busy.
const MOST_TOLD: usize = 50;

/// The problems, one or several, that kept a profile from becoming a policy.
///
/// It implements [`miette::Diagnostic`], with the text at fault, line, column and fix.
#[derive(Debug)]
pub struct LoadError {
    problems: Vec<Problem>,
    /// With those that are not told one by one.
    count: usize,
}

/// Bytes of a sentence, and of a place that is drawn. Of a longer one the beginning is told: a value can be as long
/// as the whole text, and takes seconds to lay out.
const MOST_SHOWN: usize = 2 << 10;

fn sentence(mut text: String) -> String {
    if text.len() > MOST_SHOWN {
        text.truncate(text.floor_char_boundary(MOST_SHOWN));
        text.push('…');
    }
    visible::spelled(&text)
}

/// The part of a place that is drawn.
fn drawn(at: &TextSpan) -> Range<usize> {
    let Range { start, end } = at.span.clone();
    let most = at
        .source
        .text
        .floor_char_boundary(start.saturating_add(MOST_SHOWN));
    start..end.min(most.max(start))
}

impl Problem {
    /// A problem without a place in any text.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self {
            message: sentence(message.into()),
            help: None,
            at: Vec::new(),
            elsewhere: Vec::new(),
            remark: false,
        }
    }

    /// Adds the fix.
    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(sentence(help.into()));
        self
    }

    /// Adds a place, with a few words beside it.
    pub(crate) fn with_label(mut self, at: &TextSpan, label: impl Into<String>) -> Self {
        let label = sentence(label.into());
        match self.at.first() {
            Some((first, _)) if first.source != at.source => {
                let mut other = Self::new(label).with_label(at, "here");
                other.remark = true;
                self.elsewhere.push(other);
            }
            _ => self.at.push((at.clone(), label)),
        }
        self
    }

    /// Every place that it points at, the place where it is in front.
    #[must_use]
    pub fn places(&self) -> Vec<ProfilePlace> {
        let elsewhere = self.elsewhere.iter().filter_map(|other| {
            let (at, _) = other.at.first()?;
            Some(ProfilePlace::new(at, &other.message))
        });
        let here = self
            .at
            .iter()
            .map(|(at, label)| ProfilePlace::new(at, label));
        here.chain(elsewhere).collect()
    }

    /// The fix, when there is one.
    #[must_use]
    pub fn fix(&self) -> Option<&str> {
        self.help.as_deref()
    }

    /// The mistake, in one sentence.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl LoadError {
    /// A profile whose policy somebody else cannot use, who says why, in a sentence.
    pub fn of_policy(message: impl Into<String>) -> Self {
        Self {
            problems: vec![Problem::new(message)],
            count: 1,
        }
    }

    /// `None` when nothing is wrong.
    pub(crate) fn from_problems(mut problems: Vec<Problem>) -> Option<Self> {
        if problems.is_empty() {
            return None;
        }
        let count = problems.len();
        if count > MOST_TOLD {
            problems.truncate(MOST_TOLD);
            let more = count - MOST_TOLD;
            let last = Problem::new(format!("{more} more things are wrong"))
                .help("mend what is told above, and look again");
            problems.push(last);
        }
        Some(Self { problems, count })
    }

    /// The problems, at least one: of very many the first, and at the end how many more there are.
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
    fn severity(&self) -> Option<Severity> {
        self.remark.then_some(Severity::Advice)
    }

    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.help
            .as_ref()
            .map(|help| Box::new(help) as Box<dyn fmt::Display>)
    }

    fn source_code(&self) -> Option<&dyn miette::SourceCode> {
        let (at, _) = self.at.first()?;
        // Without it the problem is told in words alone.
        at.source.can_be_drawn.then_some(&*at.source as _)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let labels = self
            .at
            .iter()
            .map(|(at, label)| LabeledSpan::new_with_span(Some(label.clone()), drawn(at)));
        Some(Box::new(labels))
    }

    fn related<'a>(&'a self) -> Option<Box<dyn Iterator<Item = &'a dyn Diagnostic> + 'a>> {
        if self.elsewhere.is_empty() {
            return None;
        }
        let elsewhere = self.elsewhere.iter();
        Some(Box::new(elsewhere.map(|other| other as &dyn Diagnostic)))
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.only() {
            Some(problem) => problem.fmt(formatter),
            None => write!(formatter, "{} things are wrong", self.count),
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
        if let Some(only) = self.only() {
            return only.related();
        }
        Some(Box::new(
            self.problems
                .iter()
                .map(|problem| problem as &dyn Diagnostic),
        ))
    }
}
