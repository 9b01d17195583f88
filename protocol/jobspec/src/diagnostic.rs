//! Located messages. Every problem of a job file is one [`Diagnostic`] that carries the text it
//! speaks of, so that it can be shown long after the file is gone.

use std::fmt;
use std::ops::Range;

/// How many problems one parse reports; the rest are counted, not kept.
pub const DIAGNOSTICS_MAX: usize = 50;

/// Longest part of a source line that is quoted, in characters.
const SNIPPET_CHARS_MAX: usize = 160;

/// Longest message and hint, in characters.
const MESSAGE_CHARS_MAX: usize = 500;

/// One problem at one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// The name that the caller gave the text, or the origin of a variable (`-var count`).
    pub file: String,
    /// Line, counted from 1.
    pub line: usize,
    /// Column, counted from 1 in characters.
    pub column: usize,
    /// The source line, cut to a readable length around the place.
    pub snippet: String,
    /// Characters of `snippet` before the offending text.
    pub marker_start: usize,
    /// Length of the offending text within `snippet` in characters, at least 1.
    pub marker_length: usize,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            file,
            line,
            column,
            snippet,
            marker_start,
            marker_length,
            message,
            hint,
        } = self;
        write!(f, "{file}:{line}:{column}: {message}")?;
        if !snippet.is_empty() {
            let number = line.to_string();
            let margin = " ".repeat(number.len());
            // Tabs stay tabs so that the carets stand below their text in any terminal.
            let lead: String = snippet
                .chars()
                .take(*marker_start)
                .map(|c| if c == '\t' { '\t' } else { ' ' })
                .collect();
            let carets = "^".repeat(*marker_length);
            write!(
                f,
                "\n {margin} |\n {number} | {snippet}\n {margin} | {lead}{carets}"
            )?;
        }
        if let Some(hint) = hint {
            write!(f, "\n  hint: {hint}")?;
        }
        Ok(())
    }
}

/// All problems of one parse, in the order of the file; never empty when it is an error.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Diagnostics {
    list: Vec<Diagnostic>,
    dropped: usize,
    /// What the list leaves out, for readers.
    remark: Option<&'static str>,
}

impl Diagnostics {
    /// The problems that were kept, at most [`DIAGNOSTICS_MAX`].
    pub fn list(&self) -> &[Diagnostic] {
        &self.list
    }

    /// How many more there were.
    pub fn dropped(&self) -> usize {
        self.dropped
    }

    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Adds a problem, or only counts it: finding its line costs a pass over the text, which a
    /// file full of problems must not cost each time.
    pub(crate) fn report(
        &mut self,
        source: &Source,
        span: &Span,
        message: impl Into<String>,
        hint: Option<String>,
    ) {
        if self.is_full() {
            self.dropped += 1;
            return;
        }
        self.push(source.diagnostic(span, message, hint));
    }

    /// Says below the list what it leaves out.
    pub(crate) fn note(&mut self, remark: &'static str) {
        self.remark = Some(remark);
    }

    pub(crate) fn push(&mut self, diagnostic: Diagnostic) {
        if self.list.contains(&diagnostic) {
            return;
        }
        if self.is_full() {
            self.dropped += 1;
        } else {
            self.list.push(diagnostic);
        }
    }

    /// Adds problems of which nothing is known but how many they are.
    pub(crate) fn omit(&mut self, count: usize) {
        self.dropped += count;
    }

    pub(crate) fn is_full(&self) -> bool {
        self.list.len() >= DIAGNOSTICS_MAX
    }

    /// Puts the problems of each file into the order of its text.
    pub(crate) fn sort(&mut self) {
        self.list
            .sort_by(|a, b| (&a.file, a.line, a.column).cmp(&(&b.file, b.line, b.column)));
    }
}

impl From<Diagnostic> for Diagnostics {
    fn from(diagnostic: Diagnostic) -> Self {
        Self {
            list: vec![diagnostic],
            ..Self::default()
        }
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, diagnostic) in self.list.iter().enumerate() {
            if position > 0 {
                f.write_str("\n\n")?;
            }
            diagnostic.fmt(f)?;
        }
        if self.dropped > 0 {
            write!(f, "\n\nand {} more", self.dropped)?;
        }
        if let Some(remark) = self.remark {
            write!(f, "\n\n{remark}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Diagnostics {}

/// A byte range of a source text.
pub(crate) type Span = Range<usize>;

/// A text with a name: what spans are resolved against.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    pub(crate) name: String,
    pub(crate) text: String,
}

impl Source {
    pub(crate) fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            text: text.into(),
        }
    }

    /// The text of a span; empty where the span does not lie on character bounds.
    pub(crate) fn slice(&self, span: Span) -> &str {
        self.text.get(span).unwrap_or_default()
    }

    /// The line of a byte, counted from 1.
    pub(crate) fn line_of(&self, at: usize) -> usize {
        let at = self.text.floor_char_boundary(at);
        self.text[..at].matches('\n').count() + 1
    }

    pub(crate) fn diagnostic(
        &self,
        span: &Span,
        message: impl Into<String>,
        hint: Option<String>,
    ) -> Diagnostic {
        let start = self.text.floor_char_boundary(span.start);
        let end = self.text.floor_char_boundary(span.end.max(start));
        let line_start = self.text[..start]
            .rfind('\n')
            .map_or(0, |newline| newline + 1);
        let line_end = self.text[start..]
            .find('\n')
            .map_or(self.text.len(), |n| start + n);
        let line_text = self.text[line_start..line_end].trim_end_matches('\r');
        let before = self.text[line_start..start].chars().count();
        let marked = self.text[start..end.min(line_end).max(start)]
            .chars()
            .count()
            .max(1);

        // A long line is cut so that the offending text stays visible.
        let cut = before.saturating_sub(SNIPPET_CHARS_MAX / 2);
        let snippet: String = line_text
            .chars()
            .skip(cut)
            .take(SNIPPET_CHARS_MAX)
            .map(|c| if c == '\t' { c } else { printable(c) })
            .collect();
        let marker_start = before - cut;
        let room = snippet.chars().count().saturating_sub(marker_start).max(1);
        Diagnostic {
            file: self.name.clone(),
            line: self.line_of(start),
            column: before + 1,
            snippet,
            marker_start,
            marker_length: marked.min(room),
            message: shortened(&message.into()),
            hint: hint.map(|hint| shortened(&hint)),
        }
    }
}

/// Messages quote values, and values can be long, or steer a terminal.
fn shortened(text: &str) -> String {
    let readable = |c| if c == '\n' { c } else { printable(c) };
    let shown = text.chars().take(MESSAGE_CHARS_MAX).map(readable);
    let mut shown: String = shown.collect();
    if text.chars().nth(MESSAGE_CHARS_MAX).is_some() {
        shown.push_str("...");
    }
    shown
}

fn printable(c: char) -> char {
    if c.is_control() { '\u{fffd}' } else { c }
}
