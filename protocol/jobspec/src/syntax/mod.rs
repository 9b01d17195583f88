//! From text to syntax tree, also when the text is wrong in several places.
//!
//! The parser stops at the first error. So the statement around it is painted over with spaces,
//! which moves no other text, and the rest is parsed again:
//!
//! ```text
//! text --parse--> body
//!   ^       `error--> outline.rs: which statement is it in, what has no end
//!   `-- painted over <--'            `--> advice.rs: what to tell the user
//! ```
//!
//! What was painted over is remembered as damage: nobody is told that a block lacks an attribute
//! whose line could not be read, or that a variable is not declared whose block could not.

mod advice;
mod damage;
mod flush;
mod heredoc;
mod outline;
mod statement;

pub(crate) use self::damage::Damage;
pub(crate) use self::flush::flush_expression;

use self::advice::{Advice, Inside};
use self::outline::{Form, Item, Outline};
use crate::diagnostic::{Diagnostics, Source, Span};
use hcl_edit::structure::Body;

/// How many syntax errors of one text are told.
pub(crate) const SYNTAX_ERRORS_MAX: usize = 20;

/// How many bytes are parsed again for one text: a file of the largest size is given up earlier.
const REPARSED_BYTES_MAX: usize = 8 * crate::SOURCE_BYTES_MAX;

/// How many `}` are supplied to a text that lacks them: the parser's limit of nesting.
const SUPPLIED_BRACES_MAX: usize = 64;

/// The syntax of a text, as far as it could be read.
pub(crate) struct Syntax {
    pub(crate) body: Body,
    /// What is missing in `body`; `None` where it is no use looking for further mistakes: blocks
    /// may stand within the wrong ones.
    pub(crate) damage: Option<Damage>,
}

/// Parses a text and reports all syntax errors, at most [`SYNTAX_ERRORS_MAX`].
pub(crate) fn parse(source: &Source, problems: &mut Diagnostics) -> Syntax {
    let text = &*heredoc::without_empty_ones(&source.text);
    let first = match hcl_edit::parser::parse_body(text) {
        Ok(mut body) => {
            flush::flush_body(&mut body, text);
            return Syntax {
                body,
                damage: Some(Damage::default()),
            };
        }
        Err(error) => error,
    };
    let mut repair = Repair::new(source, text);
    let mut body = repair.run(0..text.len(), Some(first), problems);
    if let Some(body) = &mut body {
        flush::flush_body(body, text);
    }
    // What is inside of a block whose header is wrong has errors of its own.
    while let Some(inside) = repair.unread.pop() {
        if repair.errors >= SYNTAX_ERRORS_MAX {
            break;
        }
        repair.run(inside, None, problems);
    }
    if repair.structure == Structure::Doubtful || body.is_none() {
        problems.note("The rest is looked at once these are mended.");
        return Syntax {
            body: body.unwrap_or_default(),
            damage: None,
        };
    }
    Syntax {
        body: body.unwrap_or_default(),
        damage: Some(Damage::new(repair.painted)),
    }
}

/// Whether blocks are where their author meant them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Structure {
    Sound,
    Doubtful,
}

struct Repair<'s> {
    source: &'s Source,
    /// The source's text as the parser is given it.
    text: &'s str,
    errors: usize,
    reparsed_bytes: usize,
    painted: Vec<Span>,
    /// Bodies of blocks that were painted over as a whole.
    unread: Vec<Span>,
    structure: Structure,
    /// Something without an end took the rest of the text with it.
    swallowed: bool,
}

impl<'s> Repair<'s> {
    fn new(source: &'s Source, text: &'s str) -> Self {
        Self {
            source,
            text,
            errors: 0,
            reparsed_bytes: 0,
            painted: Vec::new(),
            unread: Vec::new(),
            structure: Structure::Sound,
            swallowed: false,
        }
    }

    /// Parses a part of the text until nothing is wrong with it; `None` when it is given up.
    fn run(
        &mut self,
        part: Span,
        first: Option<hcl_edit::parser::Error>,
        problems: &mut Diagnostics,
    ) -> Option<Body> {
        let start = part.start;
        let mut text = self.text.get(part)?.to_owned();
        let mut error = match first {
            Some(error) => error,
            None => match hcl_edit::parser::parse_body(&text) {
                Ok(body) => return Some(body),
                Err(error) => error,
            },
        };
        loop {
            self.mend(&mut text, start, &error, problems)?;
            self.reparsed_bytes += text.len();
            if self.errors >= SYNTAX_ERRORS_MAX || self.reparsed_bytes > REPARSED_BYTES_MAX {
                self.structure = Structure::Doubtful;
                return None;
            }
            match hcl_edit::parser::parse_body(&text) {
                Ok(body) => return Some(body),
                Err(next) => error = next,
            }
        }
    }

    /// Reports what is wrong and takes it out of `text`, which begins at `start` of the source;
    /// `None` when nothing could be taken out.
    fn mend(
        &mut self,
        text: &mut String,
        start: usize,
        error: &hcl_edit::parser::Error,
        problems: &mut Diagnostics,
    ) -> Option<()> {
        // The parser reads bytes and may stop inside a character.
        let at = text.floor_char_boundary(error.location().offset());
        let outline = Outline::of(text);
        if let Some((item, flaw)) = outline.torn_before(at) {
            let item = item.clone();
            // A text or comment without an end reaches over every `}` that follows.
            self.swallowed |= text[item.span.end..].trim().is_empty();
            let advice = advice::of_flaw(text, flaw);
            self.tell(advice, text, start, &item, problems);
            return Some(());
        }
        let is_at_end = text.get(at..).is_none_or(|rest| rest.trim().is_empty());
        if is_at_end && !outline.unclosed.is_empty() {
            return self.supply_braces(text, start, &outline, problems);
        }
        let item = outline.item_at(at)?.clone();
        let mut advice = advice::of_error(text, at, &item, error.message());
        if item.form == Form::StrayBrace {
            self.structure = Structure::Doubtful;
            advice.hint = outline.surplus(text).map(|brace| {
                let line = self.source.line_of(start + brace);
                format!("the one in line {line} stands further right than what it closes")
            });
        }
        self.tell(advice, text, start, &item, problems);
        Some(())
    }

    fn supply_braces(
        &mut self,
        text: &mut String,
        start: usize,
        outline: &Outline,
        problems: &mut Diagnostics,
    ) -> Option<()> {
        let missing = outline.unclosed.len();
        self.structure = Structure::Doubtful;
        if !self.swallowed {
            let suspect = outline.suspect(text)?;
            let hint = suspect.brace.map(|brace| {
                let line = self.source.line_of(start + brace);
                format!("the `}}` in line {line}, which closes it now, stands further left")
            });
            let place = start + suspect.header.start..start + suspect.header.end;
            self.report(&place, "this block has no `}`", hint, problems);
        }
        if missing > SUPPLIED_BRACES_MAX {
            return None;
        }
        text.push_str(&"\n}".repeat(missing));
        Some(())
    }

    fn report(
        &mut self,
        place: &Span,
        message: impl Into<String>,
        hint: Option<String>,
        problems: &mut Diagnostics,
    ) {
        self.errors += 1;
        problems.report(self.source, place, message, hint);
    }

    fn tell(
        &mut self,
        advice: Advice,
        text: &mut String,
        start: usize,
        item: &Item,
        problems: &mut Diagnostics,
    ) {
        let place = start + advice.place.start..start + advice.place.end;
        self.report(&place, advice.message, advice.hint, problems);
        if let (Form::Block { body }, Inside::Unread) = (&item.form, advice.inside) {
            let end = item.span.end.saturating_sub(1).max(*body);
            self.unread.push(start + body..start + end);
        }
        self.remove(text, start, item);
    }

    /// Paints an item over, line ends excepted.
    fn remove(&mut self, text: &mut String, start: usize, item: &Item) {
        let span = item.span.clone();
        let mut painted = String::with_capacity(text.len());
        painted.push_str(&text[..span.start]);
        painted.extend(text[span.clone()].chars().flat_map(blank));
        painted.push_str(&text[span.end..]);
        *text = painted;
        self.painted.push(start + span.start..start + span.end);
    }
}

/// As many spaces as the character has bytes.
fn blank(c: char) -> impl Iterator<Item = char> {
    let (kept, count) = match c {
        '\n' | '\r' => (c, 1),
        _ => (' ', c.len_utf8()),
    };
    std::iter::repeat_n(kept, count)
}
