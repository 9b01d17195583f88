//! What to tell the user of a syntax error. The parser says what it expected; users want to know
//! what they did.

use super::outline::{Form, Item};
use super::statement::{Flaw, Part, word_end};
use crate::diagnostic::Span;

/// A message in the making; places are relative to the text at hand.
pub(super) struct Advice {
    pub(super) place: Span,
    pub(super) message: String,
    pub(super) hint: Option<String>,
    pub(super) inside: Inside,
}

/// What is known of the inside of a block that is taken out of the text as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Inside {
    /// It has not been read: it may have errors of its own.
    Unread,
    /// It is no use looking.
    Known,
}

/// Of a part that has no end.
pub(super) fn of_flaw(text: &str, flaw: Flaw) -> Advice {
    let (message, hint) = match flaw.part {
        Part::String => (
            "this string has no closing `\"`".to_owned(),
            Some("a text of several lines is written as <<EOT ... EOT".to_owned()),
        ),
        Part::Heredoc => {
            let name_start = flaw.at + 2 + usize::from(text[flaw.at + 2..].starts_with('-'));
            let name = &text[name_start..word_end(text.as_bytes(), name_start)];
            (
                "this text has no end".to_owned(),
                Some(format!("it ends with a line that holds `{name}` alone")),
            )
        }
        Part::Comment => ("this comment has no `*/`".to_owned(), None),
        Part::Bracket(bracket) => {
            let closing = match bracket {
                b'(' => ')',
                b'[' => ']',
                _ => '}',
            };
            let opening = char::from(bracket);
            (format!("this `{opening}` has no `{closing}`"), None)
        }
    };
    let length = match flaw.part {
        Part::Heredoc | Part::Comment => 2,
        Part::String | Part::Bracket(_) => 1,
    };
    Advice {
        place: flaw.at..flaw.at + length,
        message,
        hint,
        inside: Inside::Unread,
    }
}

/// Of what the parser found wrong at `at`, within `item`.
pub(super) fn of_error(text: &str, at: usize, item: &Item, message: &str) -> Advice {
    let rest = text.get(at..).unwrap_or_default();
    let found = rest.chars().next().unwrap_or('\n');
    let place = at..at + found.len_utf8();
    let advice = |message: &str, hint: Option<&str>| Advice {
        place: place.clone(),
        message: message.to_owned(),
        hint: hint.map(str::to_owned),
        inside: Inside::Unread,
    };
    if message.starts_with("invalid nesting depth") {
        return Advice {
            inside: Inside::Known,
            ..advice("this nests deeper than 64 levels", None)
        };
    }
    if message.contains("redefined attribute") {
        let name = &text[at..word_end(text.as_bytes(), at)];
        return Advice {
            place: at..at + name.len(),
            ..advice(&format!("`{name}` is there already"), None)
        };
    }
    if item.form == Form::StrayBrace {
        return advice("this `}` closes nothing", None);
    }
    let (message, hint) = reworded(text, at, item, found, message);
    advice(message, hint)
}

/// What the parser says lists every character that would have been right.
fn reworded<'m>(
    text: &str,
    at: usize,
    item: &Item,
    found: char,
    message: &'m str,
) -> (&'m str, Option<&'static str>) {
    let follows_a_digit = text[..at].ends_with(|c: char| c.is_ascii_digit());
    if follows_a_digit && matches!(found, 'e' | 'E') {
        return ("this number is out of range", None);
    }
    if message.starts_with("invalid attribute; expected `=`") {
        let hint = "on one line a block holds one attribute at most, and no block";
        return ("`=` is expected here", Some(hint));
    }
    if message.starts_with("invalid expression; expected") {
        let hint = (found == '\'').then_some("strings stand between double quotes");
        return ("a value is expected here", hint);
    }
    if message == "expected newline or eof" {
        let hint = match found {
            ',' => "attributes end with their line, without a comma",
            ';' => "attributes end with their line, without a semicolon",
            _ => "each attribute and each block begins on a line of its own",
        };
        return ("the line should end here", Some(hint));
    }
    if message.starts_with("invalid structure; expected") {
        let hint = match found {
            ':' => Some("write `name = value`"),
            _ => None,
        };
        return ("`=` or a block is expected here", hint);
    }
    if !message.starts_with("invalid block body; expected") {
        return (message, None);
    }
    let hint = match found {
        ',' | '\n' => "on one line a block holds one attribute at most, and its `}`",
        '\'' | '"' => "names of attributes stand without quotes",
        _ if text[item.span.clone()].contains("%{") => {
            "`%{ if }` ends with `%{ endif }`, `%{ for }` with `%{ endfor }`"
        }
        _ => "",
    };
    let hint = Some(hint).filter(|hint| !hint.is_empty());
    if at == item.span.start && found != '"' && found != '\'' {
        return ("this cannot be read", hint);
    }
    ("an attribute, a block or `}` is expected here", hint)
}
