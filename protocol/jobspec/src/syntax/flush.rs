//! Flush heredocs (`<<-NAME`): the common indentation is cut from their lines.
//!
//! HCL2 applies its rule to lines as the scanner sees them, before anything is evaluated:
//!
//! ```text
//! <<-E
//!     a ${x}        4 blanks             the least of all lines is cut from each line that counts
//!   ${y}            2 blanks
//! ${z}              0: it begins with code
//! (blanks only)     does not count, is left alone
//! E
//! ```
//!
//! `~` removes white space first, which joins lines: a line after `~}` at a line's end, or one that
//! begins with `%{~` after a line of text, is no line of its own: it does not count and stays.
//!
//! The parser has a rule of its own, which also cuts characters that are not blanks. So the text
//! of such a heredoc is taken from the source again.

use crate::eval::span_of;
use hcl_edit::Spanned;
use hcl_edit::expr::Expression;
use hcl_edit::structure::Body;
use hcl_edit::template::{Directive, Element, HeredocTemplate, Strip, Template};
use hcl_edit::visit_mut::{VisitMut, visit_heredoc_template_mut};

/// What a heredoc consists of, directives taken apart.
#[derive(Debug)]
enum Piece<T> {
    Text(T),
    /// `${...}` or `%{...}`, with its `~`.
    Code(Strip),
}

/// Gives the flush heredocs of `body` the text that HCL2 gives them; `source` is what was parsed.
pub(super) fn flush_body(body: &mut Body, source: &str) {
    Flush { source }.visit_body_mut(body);
}

/// The same for an expression that stands alone.
pub(crate) fn flush_expression(expression: &mut Expression, source: &str) {
    Flush { source }.visit_expr_mut(expression);
}

struct Flush<'s> {
    source: &'s str,
}

impl VisitMut for Flush<'_> {
    fn visit_heredoc_template_mut(&mut self, heredoc: &mut HeredocTemplate) {
        let start = span_of(heredoc).start;
        let written = self.source.get(start..).unwrap_or_default();
        if written.starts_with("<<-") {
            self.flush(&mut heredoc.template);
        }
        visit_heredoc_template_mut(self, heredoc);
    }
}

impl Flush<'_> {
    fn flush(&self, template: &mut Template) {
        let mut pieces = Vec::new();
        take_apart(template, &mut pieces);
        for piece in &mut pieces {
            if let Piece::Text(literal) = piece {
                let written = self.source.get(span_of(*literal)).unwrap_or_default();
                *literal.value_mut() = unescaped(written);
            }
        }
        let plain = pieces.iter().map(|piece| match piece {
            Piece::Text(literal) => Piece::Text(literal.value().as_str()),
            Piece::Code(strip) => Piece::Code(*strip),
        });
        let texts = flushed(&plain.collect::<Vec<_>>());
        let literals = pieces.into_iter().filter_map(|piece| match piece {
            Piece::Text(literal) => Some(literal),
            Piece::Code(_) => None,
        });
        for (literal, text) in literals.zip(texts) {
            *literal.value_mut() = text;
        }
    }
}

/// A literal's text: `$${` and `%%{` stand for what would begin code.
fn unescaped(written: &str) -> String {
    written.replace("$${", "${").replace("%%{", "%{")
}

fn take_apart<'t>(template: &'t mut Template, pieces: &mut Vec<Piece<&'t mut Spanned<String>>>) {
    for element in template.iter_mut() {
        match element {
            Element::Literal(literal) => pieces.push(Piece::Text(literal)),
            Element::Interpolation(interpolation) => pieces.push(Piece::Code(interpolation.strip)),
            Element::Directive(directive) => match directive.as_mut() {
                Directive::If(directive) => {
                    pieces.push(Piece::Code(directive.if_expr.strip));
                    take_apart(&mut directive.if_expr.template, pieces);
                    if let Some(other) = &mut directive.else_expr {
                        pieces.push(Piece::Code(other.strip));
                        take_apart(&mut other.template, pieces);
                    }
                    pieces.push(Piece::Code(directive.endif_expr.strip));
                }
                Directive::For(directive) => {
                    pieces.push(Piece::Code(directive.for_expr.strip));
                    take_apart(&mut directive.for_expr.template, pieces);
                    pieces.push(Piece::Code(directive.endfor_expr.strip));
                }
            },
        }
    }
}

/// A part of a literal that ends at a line's end or at code, as HCL2's scanner cuts them.
#[derive(Debug, Clone, Copy)]
struct Run<'t> {
    written: &'t str,
    /// Without what `~` takes of it.
    kept: &'t str,
}

/// The runs of a literal between the pieces before and after it.
fn runs<'t>(
    text: &'t str,
    before: Option<&Piece<&str>>,
    after: Option<&Piece<&str>>,
) -> impl Iterator<Item = Run<'t>> {
    let trims_first = matches!(before, Some(Piece::Code(strip)) if strip.strip_end());
    let trims_last = matches!(after, Some(Piece::Code(strip)) if strip.strip_start());
    let count = text.split_inclusive('\n').count();
    let lines = text.split_inclusive('\n').enumerate();
    lines.map(move |(position, written)| {
        let mut kept = written;
        if position == 0 && trims_first {
            kept = kept.trim_start();
        }
        if position + 1 == count && trims_last {
            kept = kept.trim_end();
        }
        Run { written, kept }
    })
}

/// Blanks in front of a line; `None` for a line of blanks alone, which does not count.
fn indentation(line: &str) -> Option<usize> {
    let shown = line.trim_start();
    if shown.is_empty() && line.ends_with('\n') {
        return None;
    }
    Some(line[..line.len() - shown.len()].chars().count())
}

/// The texts of the pieces in their order, without their common indentation.
fn flushed(pieces: &[Piece<&str>]) -> Vec<String> {
    let mut least: Option<usize> = None;
    let mut is_line_start = true;
    // Each run with whether the common indentation is cut from it.
    let mut texts: Vec<Vec<(Run<'_>, bool)>> = Vec::new();
    let mut found = |indentation: Option<usize>| {
        if let Some(blanks) = indentation {
            least = Some(least.map_or(blanks, |least| least.min(blanks)));
        }
    };
    for (position, piece) in pieces.iter().enumerate() {
        let Piece::Text(text) = piece else {
            if std::mem::take(&mut is_line_start) {
                found(Some(0));
            }
            continue;
        };
        let before = position.checked_sub(1).map(|before| &pieces[before]);
        let mut marked = Vec::new();
        for run in runs(text, before, pieces.get(position + 1)) {
            let blanks = is_line_start.then(|| indentation(run.kept)).flatten();
            found(blanks);
            marked.push((run, blanks.is_some()));
            is_line_start = run.kept.ends_with('\n');
        }
        texts.push(marked);
    }
    let least = least.unwrap_or(0);
    let written = |(run, is_cut): &(Run<'_>, bool)| {
        let skipped = if *is_cut { least } else { 0 };
        run.written.chars().skip(skipped).collect::<String>()
    };
    texts
        .iter()
        .map(|marked| marked.iter().map(written).collect())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Code is written `{`, with `~` on either side of it.
    fn of(pieces: &[&'static str]) -> Vec<String> {
        let pieces: Vec<Piece<&str>> = pieces
            .iter()
            .map(|piece| match *piece {
                "{" => Piece::Code(Strip::None),
                "~{" => Piece::Code(Strip::Start),
                "{~" => Piece::Code(Strip::End),
                text => Piece::Text(text),
            })
            .collect();
        flushed(&pieces)
    }

    #[test]
    fn only_common_blanks_of_lines_that_count_are_cut() {
        let table: &[(&[&'static str], &[&str])] = &[
            (&["  a\n   b\n"], &["a\n b\n"]),
            (&["  a\n\n \n  b\n"], &["a\n\n \nb\n"]),
            (&["a", "{", "\n b\n"], &["a", "\n b\n"]),
            (&["  ", "{", " x\n    b\n"], &["", " x\n  b\n"]),
            (&["  a\n", "{", "\n  b\n"], &["  a\n", "\n  b\n"]),
            (&["\ta\n  b\n"], &["a\n b\n"]),
            (&["\u{a0}\u{a0}a\n b\n"], &["\u{a0}a\nb\n"]),
            (&["    \n  \n"], &["    \n  \n"]),
            // What `~` joins to the line before is no line.
            (&["  a\n", "~{", "\n  b\n"], &["a\n", "\nb\n"]),
            (&["  ", "{~", "\n b\n   c\n"], &["", "\n b\n c\n"]),
            (&["  a\n  ", "~{", "\n  b\n"], &["  a\n  ", "\n  b\n"]),
            (&["  a\n \n", "~{", "\n  b\n"], &["  a\n \n", "\n  b\n"]),
        ];
        for (pieces, wanted) in table {
            assert_eq!(of(pieces), *wanted, "{pieces:?}");
        }
    }
}
