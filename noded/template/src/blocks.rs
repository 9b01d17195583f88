//! The balance of a template's blocks. The engine's parser accepts a block without `end` and drops
//! the text after a spare `end`: both are errors in Go, and here, before it parses.

use crate::Delimiters;
use crate::error::TemplateError;

/// A block that is open.
struct Open {
    keyword: &'static str,
    line: usize,
    has_else: bool,
    /// One, and one more for each `else if`: the engine nests those.
    levels: usize,
}

/// Blocks inside each other. The engine calls itself for each of them, while it parses and while it
/// runs.
const LEVELS_MAX: usize = 90;

const OPENING: [&str; 5] = ["if", "range", "with", "define", "block"];

/// Checks that each block has its `end`, and that `else`, `break`, `continue` and `define` stand
/// where they may.
pub(crate) fn check(text: &str, delimiters: Delimiters<'_>) -> Result<(), TemplateError> {
    let mut scanner = Scanner {
        rest: text,
        line: 1,
        delimiters,
    };
    let mut open = Vec::new();
    while let Some(action) = scanner.next_action()? {
        visit(&action, &mut open)?;
    }
    match open.pop() {
        None => Ok(()),
        Some(Open { keyword, line, .. }) => Err(TemplateError::at(
            line,
            format!("this {keyword:?} has no \"end\""),
        )),
    }
}

/// The inside of one action, without marks of trimming.
struct Action<'a> {
    body: &'a str,
    line: usize,
}

fn visit(action: &Action<'_>, open: &mut Vec<Open>) -> Result<(), TemplateError> {
    let mut words = action.body.split_whitespace();
    let word = words.next().unwrap_or_default();
    let refuse = |problem: &str| Err(TemplateError::at(action.line, problem));
    if let Some(keyword) = OPENING.iter().find(|keyword| **keyword == word) {
        if *keyword == "define" && !open.is_empty() {
            return refuse("\"define\" stands inside another block; it belongs to the top level");
        }
        open.push(Open {
            keyword,
            line: action.line,
            has_else: false,
            levels: 1,
        });
        return shallow(open, action.line);
    }
    match word {
        "end" => match open.pop() {
            Some(_) => Ok(()),
            None => refuse("this \"end\" ends no block"),
        },
        "else" => {
            let is_last = words.next().is_none();
            match open.last_mut() {
                Some(block) if takes_else(block) => {
                    block.has_else = is_last;
                    block.levels += usize::from(!is_last);
                    shallow(open, action.line)
                }
                _ => refuse("this \"else\" belongs to no \"if\", \"range\" or \"with\""),
            }
        }
        "break" | "continue" => {
            let blocks = open.iter().rev();
            let mut inside = blocks.take_while(|b| !matches!(b.keyword, "define" | "block"));
            if inside.any(|block| block.keyword == "range") {
                return Ok(());
            }
            refuse(&format!("this {word:?} is in no \"range\""))
        }
        _ => Ok(()),
    }
}

fn shallow(open: &[Open], line: usize) -> Result<(), TemplateError> {
    let levels: usize = open.iter().map(|block| block.levels).sum();
    if levels <= LEVELS_MAX {
        return Ok(());
    }
    let problem =
        format!("blocks nest deeper than {LEVELS_MAX} levels; each \"else if\" is one of them");
    Err(TemplateError::at(line, problem))
}

fn takes_else(block: &Open) -> bool {
    !block.has_else && matches!(block.keyword, "if" | "range" | "with")
}

struct Scanner<'a> {
    rest: &'a str,
    line: usize,
    delimiters: Delimiters<'a>,
}

impl<'a> Scanner<'a> {
    fn advance(&mut self, bytes: usize) {
        let (passed, rest) = self.rest.split_at(bytes);
        self.line += passed.matches('\n').count();
        self.rest = rest;
    }

    fn next_action(&mut self) -> Result<Option<Action<'a>>, TemplateError> {
        loop {
            let Some(start) = self.rest.find(self.delimiters.left) else {
                return Ok(None);
            };
            self.advance(start + self.delimiters.left.len());
            let (line, inside) = (self.line, self.rest);
            let trimmed = untrimmed(inside);
            if trimmed.trim_start_matches(is_space).starts_with("/*") {
                let end = inside
                    .find("*/")
                    .ok_or_else(|| TemplateError::at(line, "this comment has no end \"*/\""))?;
                self.advance(end + 2);
                continue;
            }
            let end = self.end_of_action(line)?;
            let body = untrimmed(&inside[..end]);
            self.advance(end + self.delimiters.right.len());
            return Ok(Some(Action { body, line }));
        }
    }

    /// The offset of the right delimiter, outside of quotes.
    fn end_of_action(&self, line: usize) -> Result<usize, TemplateError> {
        let mut at = 0;
        while let Some(next) = self.rest[at..].chars().next() {
            if self.rest[at..].starts_with(self.delimiters.right) {
                return Ok(at);
            }
            at += next.len_utf8();
            if matches!(next, '"' | '\'' | '`') {
                let length = quoted(&self.rest[at..], next).ok_or_else(|| {
                    let before = self.rest[..at].matches('\n').count();
                    TemplateError::at(line + before, format!("this {next} has no second one"))
                })?;
                at += length;
            }
        }
        let Delimiters { left, right } = self.delimiters;
        let problem = format!("{left:?} without its end {right:?}");
        Err(TemplateError::at(line, problem))
    }
}

/// The length of a quoted text up to and with its closing quote.
fn quoted(text: &str, quote: char) -> Option<usize> {
    let mut is_escaped = false;
    for (at, next) in text.char_indices() {
        match next {
            _ if is_escaped => is_escaped = false,
            '\\' if quote != '`' => is_escaped = true,
            '\n' if quote != '`' => return None,
            _ if next == quote => return Some(at + 1),
            _ => {}
        }
    }
    None
}

fn untrimmed(inside: &str) -> &str {
    let rest = inside.strip_prefix('-');
    rest.filter(|rest| rest.starts_with(is_space))
        .unwrap_or(inside)
}

fn is_space(next: char) -> bool {
    matches!(next, ' ' | '\t' | '\r' | '\n')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(text: &str) -> Result<(), String> {
        check(text, Delimiters::new("", None)).map_err(|error| error.to_string())
    }

    #[test]
    fn balanced_blocks_are_accepted() {
        for text in [
            "",
            "}} text",
            "{{if a}}{{else if b}}{{else}}{{end}}",
            "{{- range . -}}{{- if . -}}{{- break -}}{{- end -}}{{- else -}}{{- end -}}",
            "{{/* {{end}} */}}{{- /* it's \" */ -}}",
            "{{ \"}}\" }}{{ `{{ if` }}{{ '\"' }}",
            "{{define \"a\"}}{{block \"b\" .}}{{end}}{{end}}",
            "{{ \"a\\\"}}\" }}",
        ] {
            assert_eq!(checked(text), Ok(()), "{text}");
        }
    }

    #[test]
    fn unbalanced_blocks_are_named_with_their_line() {
        for (text, problem) in [
            ("a\n{{if a}}\nb", "line 2: this \"if\" has no \"end\""),
            ("a\n{{end}}b", "line 2: this \"end\" ends no block"),
            (
                "{{if a}}{{else}}{{else}}{{end}}",
                "line 1: this \"else\" belongs to no \"if\", \"range\" or \"with\"",
            ),
            ("\n{{break}}", "line 2: this \"break\" is in no \"range\""),
            (
                "{{range .}}{{block \"a\" .}}{{continue}}{{end}}{{end}}",
                "line 1: this \"continue\" is in no \"range\"",
            ),
            ("{{ a", "line 1: \"{{\" without its end \"}}\""),
            ("{{\n \"a }}", "line 2: this \" has no second one"),
            ("{{/* a", "line 1: this comment has no end \"*/\""),
            (
                "{{if a}}{{define \"x\"}}{{end}}{{end}}",
                "line 1: \"define\" stands inside another block; it belongs to the top level",
            ),
        ] {
            assert_eq!(checked(text), Err(problem.to_owned()), "{text}");
        }
    }
}
