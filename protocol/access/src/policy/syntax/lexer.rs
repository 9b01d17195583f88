//! From text to tokens.

use super::{Language, is_space};
use crate::policy::error::{Problems, Span, quoted};

/// A token.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// A bare word: a name, or `true`, `false`, `null`.
    Word(String),
    Text(String),
    Number,
    /// One of `{ } [ ] , = :`.
    Mark(char),
    /// An error that was reported.
    Damaged,
    End,
}

#[derive(Clone, Debug)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) span: Span,
}

pub(super) struct Lexer<'t> {
    text: &'t str,
    language: Language,
    at: usize,
}

impl<'t> Lexer<'t> {
    pub(super) fn new(text: &'t str, language: Language) -> Self {
        Self {
            text,
            language,
            at: 0,
        }
    }

    pub(super) fn next(&mut self, problems: &mut Problems) -> Token {
        self.skip_blank(problems);
        let start = self.at;
        let Some(first) = self.rest().chars().next() else {
            let span = start..start;
            return Token {
                kind: Kind::End,
                span,
            };
        };
        self.at += first.len_utf8();
        let kind = match first {
            '{' | '}' | '[' | ']' | ',' | '=' | ':' => Kind::Mark(first),
            '"' => self.text_token(start, problems),
            '-' | '0'..='9' => {
                self.skip_while(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '+' | '-'));
                Kind::Number
            }
            '_' | 'a'..='z' | 'A'..='Z' => {
                self.skip_while(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'));
                Kind::Word(self.text[start..self.at].to_owned())
            }
            other => {
                let shown = quoted(&other.to_string());
                problems.failed(&(start..self.at), format!("unexpected character `{shown}`"));
                Kind::Damaged
            }
        };
        let span = start..self.at;
        Token { kind, span }
    }

    /// Whether a line ends between the two places.
    pub(super) fn breaks_between(&self, from: usize, to: usize) -> bool {
        self.text
            .get(from..to)
            .is_some_and(|gap| gap.contains('\n'))
    }

    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn skip_while(&mut self, wanted: impl Fn(char) -> bool) {
        let rest = self.rest();
        self.at += rest.find(|c| !wanted(c)).unwrap_or(rest.len());
    }

    /// White space, and in HCL comments.
    fn skip_blank(&mut self, problems: &mut Problems) {
        loop {
            self.skip_while(is_space);
            let rest = self.rest();
            if self.language == Language::Json {
                return;
            }
            if rest.starts_with('#') || rest.starts_with("//") {
                self.skip_while(|c| c != '\n');
            } else if rest.starts_with("/*") {
                let end = rest.find("*/");
                if end.is_none() {
                    let span = self.at..self.at + 2;
                    problems.failed(&span, "the comment has no end: close it with `*/`");
                }
                self.at += end.map_or(rest.len(), |end| end + 2);
            } else {
                return;
            }
        }
    }

    /// The rest of a text whose quotation mark was read.
    fn text_token(&mut self, start: usize, problems: &mut Problems) -> Kind {
        let mut read = Some(String::new());
        loop {
            let at = self.at;
            let next = self.rest().chars().next().filter(|c| *c != '\n');
            let Some(character) = next else {
                problems.failed(&(start..at), "the text has no end: close it with `\"`");
                return Kind::Damaged;
            };
            self.at += character.len_utf8();
            match character {
                '"' => return read.map_or(Kind::Damaged, Kind::Text),
                '\\' => {
                    let escaped = self.escaped();
                    if escaped.is_none() {
                        let shown = quoted(&self.text[at..self.at]);
                        problems.failed(&(at..self.at), format!("unknown escape `{shown}`"));
                    }
                    read = read.zip(escaped).map(pushed);
                }
                other => read = read.map(|read| pushed((read, other))),
            }
        }
    }

    /// The character of an escape whose backslash was read.
    fn escaped(&mut self) -> Option<char> {
        let kind = self.rest().chars().next().filter(|c| *c != '\n')?;
        self.at += kind.len_utf8();
        match kind {
            '"' | '\\' | '/' => Some(kind),
            'n' => Some('\n'),
            't' => Some('\t'),
            'r' => Some('\r'),
            'b' => Some('\u{8}'),
            'f' => Some('\u{c}'),
            'u' => {
                let first = self.hex(4)?;
                if !(0xd800..0xdc00).contains(&first) {
                    return char::from_u32(first);
                }
                // JSON writes characters beyond 16 bits as two.
                self.at += self.rest().strip_prefix("\\u").map(|_| 2)?;
                let second = self
                    .hex(4)?
                    .checked_sub(0xdc00)
                    .filter(|low| *low < 0x400)?;
                char::from_u32(0x10000 + ((first - 0xd800) << 10) + second)
            }
            'U' if self.language == Language::Hcl => char::from_u32(self.hex(8)?),
            _ => None,
        }
    }

    fn hex(&mut self, digits: usize) -> Option<u32> {
        let read = self.rest().get(..digits)?;
        if !read.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        self.at += digits;
        u32::from_str_radix(read, 16).ok()
    }
}

fn pushed((mut text, character): (String, char)) -> String {
    text.push(character);
    text
}
