//! The statements of a text and how they nest, as far as can be seen without understanding them.
//! Unlike the parser, this always gives an answer, also for a torn text.

use super::statement::{Flaw, Part, comment_end, line_end, scan};
use crate::diagnostic::Span;

/// One attribute, one block, or something that wants to be one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Item {
    /// All of it, without the white space around.
    pub(super) span: Span,
    /// The last place at which an error belongs to it: a statement has its line's end, too.
    reach: usize,
    pub(super) form: Form,
    /// The first part of it that has no end, if there is one.
    pub(super) flaw: Option<Flaw>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Form {
    /// An attribute, or words that make no statement.
    Statement,
    /// A block.
    Block {
        /// Behind its `{`.
        body: usize,
    },
    /// A `}` that closes nothing.
    StrayBrace,
}

/// A text, cut into statements.
#[derive(Debug, Default)]
pub(super) struct Outline {
    /// In the order of their starts: an item comes before those within it.
    pub(super) items: Vec<Item>,
    /// Offsets into `items` of the blocks that are still open at the end, outermost first.
    pub(super) unclosed: Vec<usize>,
    /// In the order of the text.
    pub(super) empty_heredocs: Vec<Span>,
}

impl Outline {
    pub(super) fn of(text: &str) -> Self {
        let bytes = text.as_bytes();
        let mut outline = Self::default();
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            match byte {
                _ if byte.is_ascii_whitespace() => at += 1,
                b'#' => at = line_end(bytes, at),
                b'/' if bytes.get(at + 1) == Some(&b'/') => at = line_end(bytes, at),
                b'/' if bytes.get(at + 1) == Some(&b'*') => {
                    at = comment_end(bytes, at).unwrap_or_else(|| outline.torn_comment(at, bytes));
                }
                b'}' => {
                    outline.close(at);
                    at += 1;
                }
                _ => at = outline.statement(text, at),
            }
        }
        outline
    }

    fn torn_comment(&mut self, at: usize, bytes: &[u8]) -> usize {
        let part = Part::Comment;
        self.items.push(Item {
            span: at..bytes.len(),
            reach: bytes.len(),
            form: Form::Statement,
            flaw: Some(Flaw { at, part }),
        });
        bytes.len()
    }

    fn close(&mut self, at: usize) {
        match self.unclosed.pop() {
            Some(block) => {
                self.items[block].span.end = at + 1;
                self.items[block].reach = at;
            }
            None => self.items.push(Item {
                span: at..at + 1,
                reach: at,
                form: Form::StrayBrace,
                flaw: None,
            }),
        }
    }

    /// Adds the statement at `at`; answers where to go on.
    fn statement(&mut self, text: &str, at: usize) -> usize {
        let mut found = scan(text, at);
        self.empty_heredocs.append(&mut found.empty_heredocs);
        let form = if found.opens_block {
            self.unclosed.push(self.items.len());
            Form::Block { body: found.end }
        } else {
            Form::Statement
        };
        // A block reaches to the end of the text until its `}` is found.
        let end = if found.opens_block {
            text.len()
        } else {
            at + text[at..found.end].trim_end().len()
        };
        self.items.push(Item {
            span: at..end,
            reach: if found.opens_block {
                text.len()
            } else {
                found.end
            },
            form,
            flaw: found.flaw,
        });
        found.end.max(at + 1)
    }

    /// The innermost item around `at`; else the nearest before it.
    pub(super) fn item_at(&self, at: usize) -> Option<&Item> {
        let before = &self.items[..self.items.partition_point(|item| item.span.start <= at)];
        before
            .iter()
            .rfind(|item| at <= item.reach)
            .or_else(|| before.last())
            .or_else(|| self.items.first())
    }

    /// The first item that begins at `at` or before and has a flaw.
    pub(super) fn torn_before(&self, at: usize) -> Option<(&Item, Flaw)> {
        self.items
            .iter()
            .take_while(|item| item.span.start <= at)
            .find_map(|item| item.flaw.map(|flaw| (item, flaw)))
    }

    /// The block that most likely lacks its `}` when some block does: the first one whose `}`
    /// stands further left than its own first line, else the innermost that is open at the end.
    pub(super) fn suspect(&self, text: &str) -> Option<Suspect> {
        for (brace, item) in self.closed() {
            if let (Some(opened), Some(shut)) = indentations(text, item, brace)
                && shut < opened
            {
                return Some(Suspect {
                    header: header(item),
                    brace: Some(brace),
                });
            }
        }
        let innermost = self.items.get(*self.unclosed.last()?)?;
        Some(Suspect {
            header: header(innermost),
            brace: None,
        })
    }

    /// The `}` that most likely is one too many: the first one that stands further right than the
    /// block that it closes.
    pub(super) fn surplus(&self, text: &str) -> Option<usize> {
        self.closed().into_iter().find_map(|(brace, item)| {
            let (opened, shut) = indentations(text, item, brace);
            (shut? > opened?).then_some(brace)
        })
    }

    /// The blocks that are closed, in the order of their `}`.
    fn closed(&self) -> Vec<(usize, &Item)> {
        let mut closed: Vec<(usize, &Item)> = Vec::new();
        for (number, item) in self.items.iter().enumerate() {
            // The open ones stand in their own order: a search, not a walk, for each.
            let is_closed = self.unclosed.binary_search(&number).is_err();
            if matches!(item.form, Form::Block { .. }) && is_closed {
                closed.push((item.span.end - 1, item));
            }
        }
        closed.sort_unstable_by_key(|(brace, _)| *brace);
        closed
    }
}

/// How far a block and its `}` stand from the starts of their lines.
fn indentations(text: &str, item: &Item, brace: usize) -> (Option<usize>, Option<usize>) {
    (indentation(text, item.span.start), indentation(text, brace))
}

/// A block that may lack its `}`.
pub(super) struct Suspect {
    pub(super) header: Span,
    /// The `}` that stands for it now, if there is one.
    pub(super) brace: Option<usize>,
}

/// The name and labels of a block.
pub(super) fn header(item: &Item) -> Span {
    match item.form {
        Form::Block { body } => item.span.start..body - 1,
        Form::Statement | Form::StrayBrace => item.span.clone(),
    }
}

/// How far `at` stands from its line's start, if only white space is between.
fn indentation(text: &str, at: usize) -> Option<usize> {
    let line = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
    let lead = &text[line..at];
    lead.trim().is_empty().then(|| lead.chars().count())
}
