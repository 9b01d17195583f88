//! Where one statement of a body ends. The scanner knows strings, interpolations, heredocs,
//! comments and brackets, and nothing of what they mean.
//!
//! A statement that is torn ends where its author most likely meant it to: a string at its line's
//! end, a bracket before a line that begins a statement of its own.

use super::heredoc::{Heredoc, heredoc};
use crate::diagnostic::Span;

/// A part of a statement that has no end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Flaw {
    /// Where the part begins.
    pub(super) at: usize,
    /// What it is.
    pub(super) part: Part,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    String,
    Heredoc,
    Comment,
    /// Opened by this character.
    Bracket(u8),
}

/// What was found from the start of a statement on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Statement {
    /// Behind the last byte; behind the `{` of a block.
    pub(super) end: usize,
    /// The statement is the header of a block, whose body follows.
    pub(super) opens_block: bool,
    pub(super) flaw: Option<Flaw>,
    pub(super) empty_heredocs: Vec<Span>,
}

/// What is open at some place of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Open {
    /// A bracket and where it stands.
    Bracket(u8, usize),
    /// A string that began there.
    Quote(usize),
    /// `${` or `%{` within a string.
    Interpolation,
}

enum Step {
    On,
    End,
    Block,
}

struct Scanner<'t> {
    bytes: &'t [u8],
    at: usize,
    open: Vec<Open>,
    flaw: Option<Flaw>,
    empty_heredocs: Vec<Span>,
    /// A `=` was seen outside of brackets: what follows is a value.
    assigned: bool,
}

/// Scans the statement that begins at `start`.
pub(super) fn scan(text: &str, start: usize) -> Statement {
    let mut scanner = Scanner {
        bytes: text.as_bytes(),
        at: start,
        open: Vec::new(),
        flaw: None,
        empty_heredocs: Vec::new(),
        assigned: false,
    };
    let mut opens_block = false;
    while let Some(&byte) = scanner.bytes.get(scanner.at) {
        if let Some(Open::Quote(_)) = scanner.open.last() {
            scanner.in_string(byte);
            continue;
        }
        match scanner.in_code(byte) {
            Step::On => {}
            Step::End => break,
            Step::Block => {
                opens_block = true;
                break;
            }
        }
    }
    if !opens_block {
        scanner.tear();
    }
    Statement {
        end: scanner.at.min(text.len()),
        opens_block,
        flaw: scanner.flaw,
        empty_heredocs: scanner.empty_heredocs,
    }
}

impl Scanner<'_> {
    fn peek(&self, ahead: usize) -> Option<u8> {
        self.bytes.get(self.at + ahead).copied()
    }

    fn blame(&mut self, at: usize, part: Part) {
        self.flaw.get_or_insert(Flaw { at, part });
    }

    /// Gives up everything that is open: the outermost part has no end.
    fn tear(&mut self) {
        match self.open.first() {
            Some(Open::Bracket(bracket, at)) => self.blame(*at, Part::Bracket(*bracket)),
            Some(Open::Quote(at)) => self.blame(*at, Part::String),
            Some(Open::Interpolation) | None => {}
        }
        self.open.clear();
    }

    fn in_string(&mut self, byte: u8) {
        match byte {
            b'\\' if self.peek(1).is_some_and(|next| next != b'\n') => self.at += 2,
            b'"' => {
                self.open.pop();
                self.at += 1;
            }
            b'$' | b'%' if self.peek(1) == Some(byte) && self.peek(2) == Some(b'{') => self.at += 3,
            b'$' | b'%' if self.peek(1) == Some(b'{') => {
                self.open.push(Open::Interpolation);
                self.at += 2;
            }
            b'\n' => {
                let is_quote = |open: &Open| matches!(open, Open::Quote(_));
                if let Some(outermost) = self.open.iter().position(is_quote) {
                    if let Open::Quote(at) = self.open[outermost] {
                        self.blame(at, Part::String);
                    }
                    self.open.truncate(outermost);
                }
                self.back_to_brace();
            }
            _ => self.at += 1,
        }
    }

    /// A torn label is still the header of a block if its line ends in `{`.
    fn back_to_brace(&mut self) {
        let line = self.bytes[..self.at].trim_ascii_end();
        if self.open.is_empty() && !self.assigned && line.last() == Some(&b'{') {
            self.at = line.len() - 1;
        }
    }

    fn in_code(&mut self, byte: u8) -> Step {
        match byte {
            b'\n' => {
                let Some(innermost) = self.open.last() else {
                    return Step::End;
                };
                let in_object = matches!(innermost, Open::Bracket(b'{', _));
                if begins_statement(&self.bytes[self.at + 1..], in_object) {
                    return Step::End;
                }
            }
            b'"' => self.open.push(Open::Quote(self.at)),
            b'#' => return self.skip_line(),
            b'/' if self.peek(1) == Some(b'/') => return self.skip_line(),
            b'/' if self.peek(1) == Some(b'*') => return self.skip_comment(),
            b'<' if self.peek(1) == Some(b'<') => return self.heredoc(),
            b'{' if self.open.is_empty() && !self.assigned => {
                self.at += 1;
                return Step::Block;
            }
            b'(' | b'[' | b'{' => self.open.push(Open::Bracket(byte, self.at)),
            b')' | b']' => {
                let opener = if byte == b')' { b'(' } else { b'[' };
                if matches!(self.open.last(), Some(Open::Bracket(open, _)) if *open == opener) {
                    self.open.pop();
                }
            }
            b'}' => return self.close_brace(),
            b'=' if self.open.is_empty() => self.assigned = true,
            _ => {}
        }
        self.at += 1;
        Step::On
    }

    /// A `}` ends the innermost `{` or `${`, and what is still open within it; without one it
    /// ends the body that the statement stands in.
    fn close_brace(&mut self) -> Step {
        let takes = |open: &Open| matches!(open, Open::Bracket(b'{', _) | Open::Interpolation);
        let Some(opener) = self.open.iter().rposition(takes) else {
            return Step::End;
        };
        if let Some(Open::Bracket(bracket, at)) = self.open.get(opener + 1).copied() {
            self.blame(at, Part::Bracket(bracket));
        }
        self.open.truncate(opener);
        self.at += 1;
        Step::On
    }

    fn skip_line(&mut self) -> Step {
        self.at = line_end(self.bytes, self.at);
        Step::On
    }

    fn skip_comment(&mut self) -> Step {
        if let Some(end) = comment_end(self.bytes, self.at) {
            self.at = end;
        } else {
            self.blame(self.at, Part::Comment);
            self.at = self.bytes.len();
        }
        Step::On
    }

    fn heredoc(&mut self) -> Step {
        let start = self.at;
        match heredoc(self.bytes, start) {
            None => self.at += 2,
            Some(Heredoc {
                end: Some(end),
                is_empty,
            }) => {
                self.at = end;
                self.empty_heredocs.extend(is_empty.then_some(start..end));
            }
            Some(Heredoc { end: None, .. }) => {
                self.blame(start, Part::Heredoc);
                self.at = self.bytes.len();
            }
        }
        Step::On
    }
}

/// The end of the line that `at` stands in.
pub(super) fn line_end(bytes: &[u8], at: usize) -> usize {
    let rest = bytes.get(at..).unwrap_or_default();
    rest.iter()
        .position(|byte| *byte == b'\n')
        .map_or(bytes.len(), |length| at + length)
}

/// Behind the `*/` of the comment that begins at `at`.
pub(super) fn comment_end(bytes: &[u8], at: usize) -> Option<usize> {
    let rest = bytes.get(at + 2..)?;
    let length = rest.windows(2).position(|pair| pair == b"*/")?;
    Some(at + 2 + length + 2)
}

/// The end of the name that begins at `at`; `at` itself where none does.
pub(super) fn word_end(bytes: &[u8], at: usize) -> usize {
    let rest = bytes.get(at..).unwrap_or_default();
    let starts = |byte: &u8| byte.is_ascii_alphabetic() || *byte == b'_' || !byte.is_ascii();
    if !rest.first().is_some_and(starts) {
        return at;
    }
    let continues = |byte: &u8| starts(byte) || byte.is_ascii_digit() || *byte == b'-';
    at + rest.iter().take_while(|byte| continues(byte)).count()
}

/// Whether a line looks like `name = ...` or like the header of a block. Within an object
/// `name = ...` is an entry.
fn begins_statement(line: &[u8], in_object: bool) -> bool {
    let line = &line[..line_end(line, 0)];
    let blanks = |bytes: &[u8]| {
        bytes
            .iter()
            .take_while(|byte| matches!(byte, b' ' | b'\t'))
            .count()
    };
    let name_start = blanks(line);
    let name_end = word_end(line, name_start);
    if name_end == name_start {
        return false;
    }
    let mut at = name_end + blanks(&line[name_end..]);
    if line.get(at) == Some(&b'=') {
        return !in_object && !matches!(line.get(at + 1), Some(b'=' | b'>'));
    }
    while line.get(at) == Some(&b'"') {
        let Some(length) = line[at + 1..].iter().position(|byte| *byte == b'"') else {
            return false;
        };
        at += length + 2;
        at += blanks(&line[at..]);
    }
    line[at..].trim_ascii_end() == b"{"
}
