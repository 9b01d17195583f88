//! Re-wraps comments that are too long, which rustfmt leaves alone: the writing half of
//! `line-length`.
//!
//! Only prose is touched: a line that is nothing but a comment, broken at a space; what does not
//! fit moves to the front of the next line of the same paragraph. Tables, links, drawings and
//! fenced blocks keep their shape.

use std::collections::VecDeque;

use super::size::LINE_CHARS_MAX;

/// The text with every over-long comment line broken, or `None` if there was none to break.
pub(crate) fn wrap_comments(text: &str) -> Option<String> {
    let mut fenced = false;
    let mut changed = false;
    let mut wrapped: Vec<String> = Vec::new();
    let mut lines: VecDeque<String> = text.lines().map(str::to_owned).collect();
    while let Some(line) = lines.pop_front() {
        let comment = Comment::parse(&line);
        if comment.is_some_and(|comment| comment.words.starts_with("```")) {
            fenced = !fenced;
        }
        let too_long = line.chars().count() > LINE_CHARS_MAX;
        match comment.filter(|comment| too_long && !fenced && comment.is_prose()) {
            None => wrapped.push(line),
            Some(comment) => match comment.split() {
                None => wrapped.push(line),
                Some((fits, rest)) => {
                    changed = true;
                    wrapped.push(fits);
                    let rest = match lines.front().and_then(|next| joined(&rest, next)) {
                        None => rest,
                        Some(joined) => {
                            lines.pop_front();
                            joined
                        }
                    };
                    lines.push_front(rest);
                }
            },
        }
    }
    changed.then(|| wrapped.join("\n") + "\n")
}

/// The rest of a broken line in front of the next one, if that goes on with the same paragraph.
fn joined(rest: &str, next: &str) -> Option<String> {
    let (rest, next) = (Comment::parse(rest)?, Comment::parse(next)?);
    let goes_on = rest.prefix == next.prefix && next.is_prose() && next.continues();
    goes_on.then(|| format!("{}{} {}", rest.prefix, rest.words, next.words))
}

/// A line that is only a comment.
#[derive(Debug, Clone, Copy)]
struct Comment<'a> {
    /// Everything before the first word: indentation, slashes, one space.
    prefix: &'a str,
    /// Indentation that continuation lines need to stay inside a list item.
    hang_chars: usize,
    words: &'a str,
}

impl<'a> Comment<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let indent = line.len() - line.trim_start().len();
        let marker = ["//!", "///", "//"]
            .into_iter()
            .find(|m| line[indent..].starts_with(m))?;
        let rest = &line[indent + marker.len()..];
        let words = rest.trim_start();
        let prefix = &line[..line.len() - words.len()];
        let hang_chars = usize::from(words.starts_with("- ") || words.starts_with("* ")) * 2;
        Some(Self {
            prefix,
            hang_chars,
            words,
        })
    }

    /// A drawing aligns its parts with spaces; prose has one between words.
    fn is_prose(self) -> bool {
        let is_table = self.words.starts_with(['|', '+']);
        !self.words.contains("://") && !is_table && !self.words.contains("  ")
    }

    /// Neither empty nor the beginning of something: a list item, a heading, a fence, a link.
    fn continues(self) -> bool {
        let numbered = self
            .words
            .split_once(". ")
            .is_some_and(|(n, _)| n.parse::<u8>().is_ok());
        !self.words.is_empty()
            && !self.words.starts_with(['-', '*', '#', '`', '[', '<'])
            && !numbered
    }

    /// The longest beginning that fits, and the rest as a line of its own; `None` if there is no
    /// space to break at.
    fn split(self) -> Option<(String, String)> {
        let room = LINE_CHARS_MAX.checked_sub(self.prefix.chars().count())?;
        let limit = self.words.char_indices().nth(room).map(|(at, _)| at)?;
        // A space right behind the last character that fits is a place to break, too.
        let at = self.words[..limit]
            .rfind(' ')
            .max(self.words[limit..].starts_with(' ').then_some(limit))
            .or_else(|| self.words.find(' '))?;
        let hang = " ".repeat(self.hang_chars);
        let (fits, rest) = self.words.split_at(at);
        let rest = format!("{}{hang}{}", self.prefix, rest.trim_start());
        Some((format!("{}{fits}", self.prefix), rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repo::Repo;

    #[test]
    fn a_long_comment_is_broken_at_a_space_and_keeps_its_words() {
        let words = "word ".repeat(30);
        let wrapped = wrap_comments(&format!("    /// {}\nfn a() {{}}\n", words.trim())).unwrap();
        assert!(
            wrapped
                .lines()
                .all(|line| line.chars().count() <= LINE_CHARS_MAX),
            "{wrapped}"
        );
        assert_eq!(wrapped.matches("word").count(), 30);
        assert!(
            wrapped
                .lines()
                .take(2)
                .all(|line| line.starts_with("    /// word")),
            "{wrapped}"
        );
        assert!(wrapped.ends_with("fn a() {}\n"));
        assert_eq!(wrap_comments(&wrapped), None);
    }

    #[test]
    fn the_rest_of_a_line_goes_to_the_next_one_of_its_paragraph() {
        let text = format!(
            "// {} last\n// next line.\n//\n// other\n",
            "word ".repeat(20).trim()
        );
        let wrapped = wrap_comments(&text).unwrap();
        let lines: Vec<&str> = wrapped.lines().skip(1).collect();
        assert_eq!(lines, ["// word last next line.", "//", "// other"]);
    }

    #[test]
    fn the_rest_of_a_line_does_not_run_into_a_list_or_a_drawing() {
        for next in [
            "// - item",
            "// a  --> b",
            "/// other",
            "fn a() {}",
            "// 2. two",
        ] {
            let text = format!("// {} last\n{next}\n", "word ".repeat(20).trim());
            let wrapped = wrap_comments(&text).unwrap();
            assert_eq!(wrapped.lines().nth(2), Some(next), "{wrapped}");
        }
    }

    #[test]
    fn a_list_item_keeps_its_indentation() {
        let wrapped = wrap_comments(&format!("//! - {}\n", "word ".repeat(30).trim())).unwrap();
        assert!(
            wrapped.lines().nth(1).unwrap().starts_with("//!   word"),
            "{wrapped}"
        );
    }

    #[test]
    fn tables_links_fences_and_code_are_left_alone() {
        let long = "word ".repeat(30);
        for text in [
            format!("/// | {long}|\n"),
            format!("// https://example.org/ {long}\n"),
            format!("//! ```text\n//! {long}\n//! ```\n"),
            format!("let a = \"{long}\";\n"),
            format!("//{}\n", "x".repeat(200)),
        ] {
            assert_eq!(wrap_comments(&text), None, "{text}");
        }
    }

    #[test]
    fn wrapping_loses_no_word_of_this_tree_and_is_done_after_one_pass() {
        let repo = Repo::read(&Repo::find_root().unwrap()).unwrap();
        let words = |text: &str| -> Vec<String> {
            let markers = ["//", "///", "//!"];
            let words = text
                .split_whitespace()
                .filter(|word| !markers.contains(word));
            words.map(str::to_owned).collect()
        };
        for (path, text) in repo.texts().filter(|(path, _)| path.ends_with(".rs")) {
            if let Some(wrapped) = wrap_comments(text) {
                assert_eq!(words(text), words(&wrapped), "{path}");
                assert_eq!(wrap_comments(&wrapped), None, "{path}");
            }
        }
    }
}
