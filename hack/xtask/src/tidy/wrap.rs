//! Re-wraps comments that are too long, which rustfmt leaves alone: the writing half of `line-length`.
//!
//! Only a line that is nothing but a comment is touched, and only by breaking it at a space: what a
//! writer put on separate lines stays there. Tables, links and fenced blocks keep their shape.

use super::size::LINE_CHARS_MAX;

/// The text with every over-long comment line broken, or `None` if there was none to break.
pub(crate) fn wrap_comments(text: &str) -> Option<String> {
    let mut fenced = false;
    let mut changed = false;
    let mut wrapped: Vec<String> = Vec::new();
    for line in text.lines() {
        let comment = Comment::parse(line);
        if comment.is_some_and(|comment| comment.words.starts_with("```")) {
            fenced = !fenced;
        }
        let too_long = line.chars().count() > LINE_CHARS_MAX;
        match comment {
            Some(comment) if too_long && !fenced && comment.is_prose() => {
                let pieces = comment.pieces();
                changed |= pieces.len() > 1;
                wrapped.extend(pieces);
            }
            _ => wrapped.push(line.to_owned()),
        }
    }
    changed.then(|| wrapped.join("\n") + "\n")
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

    fn is_prose(self) -> bool {
        !self.words.contains("://") && !self.words.starts_with('|') && !self.words.starts_with('+')
    }

    fn pieces(self) -> Vec<String> {
        let hang = " ".repeat(self.hang_chars);
        let mut pieces: Vec<String> = Vec::new();
        let mut piece = self.prefix.to_owned();
        let mut is_empty = true;
        for word in self.words.split_whitespace() {
            let width = piece.chars().count() + usize::from(!is_empty) + word.chars().count();
            if width > LINE_CHARS_MAX && !is_empty {
                pieces.push(std::mem::replace(
                    &mut piece,
                    format!("{}{hang}", self.prefix),
                ));
                is_empty = true;
            }
            if !is_empty {
                piece.push(' ');
            }
            piece.push_str(word);
            is_empty = false;
        }
        pieces.push(piece);
        pieces
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
