//! Heredocs: where one ends, and the empty ones.
//!
//! The parser takes the last line of an empty heredoc for its first line of text and reads on to
//! the next line that holds the same name, which may be that of another attribute. So an empty
//! heredoc is put as `""` before the parser sees it, in the same place.

use super::outline::Outline;
use super::statement::{line_end, word_end};
use super::{Span, blank};
use std::borrow::Cow;

/// What follows a `<<`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Heredoc {
    /// Behind the name in its last line; `None` where no line ends it.
    pub(super) end: Option<usize>,
    /// Its last line follows its first.
    pub(super) is_empty: bool,
}

/// Where the name of a heredoc stands whose `<<` is at `start`; `None` where none follows.
fn name(bytes: &[u8], start: usize) -> Option<Span> {
    let name_start = start + 2 + usize::from(bytes.get(start + 2) == Some(&b'-'));
    let name_end = word_end(bytes, name_start);
    (name_end > name_start).then_some(name_start..name_end)
}

/// Behind the name, if the line that begins at `content` holds it alone.
fn closed_by(bytes: &[u8], content: usize, name: &[u8]) -> Option<usize> {
    let end = line_end(bytes, content);
    let shown = bytes.get(content..end)?.trim_ascii_start();
    let closes = shown.starts_with(name) && word_end(shown, 0) == name.len();
    closes.then(|| end - shown.len() + name.len())
}

/// The heredoc that begins at `start`: `<<NAME` up to the line that holds `NAME` alone.
pub(super) fn heredoc(bytes: &[u8], start: usize) -> Option<Heredoc> {
    let name = name(bytes, start)?;
    let first = line_end(bytes, name.end);
    let mut line = first;
    while line < bytes.len() {
        if let Some(end) = closed_by(bytes, line + 1, &bytes[name.clone()]) {
            return Some(Heredoc {
                end: Some(end),
                is_empty: line == first,
            });
        }
        line = line_end(bytes, line + 1);
    }
    Some(Heredoc {
        end: None,
        is_empty: false,
    })
}

/// Whether some `<<` looks like an empty heredoc, were it none in a comment, say.
fn may_hold_empty_ones(text: &str) -> bool {
    let bytes = text.as_bytes();
    text.match_indices("<<").any(|(start, _)| {
        let Some(name) = name(bytes, start) else {
            return false;
        };
        let rest = &bytes[name.end..];
        let line_break = if rest.starts_with(b"\r\n") { 2 } else { 1 };
        rest.get(line_break - 1) == Some(&b'\n')
            && closed_by(bytes, name.end + line_break, &bytes[name]).is_some()
    })
}

/// The text with `""` in place of each empty heredoc; nothing else moves.
pub(super) fn without_empty_ones(text: &str) -> Cow<'_, str> {
    if !may_hold_empty_ones(text) {
        return Cow::Borrowed(text);
    }
    let mut written = String::with_capacity(text.len());
    let mut done = 0;
    for span in Outline::of(text).empty_heredocs {
        written.push_str(&text[done..span.start]);
        written.push_str("\"\"");
        written.extend(text[span.start + 2..span.end].chars().flat_map(blank));
        done = span.end;
    }
    written.push_str(&text[done..]);
    Cow::Owned(written)
}
