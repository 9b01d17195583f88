//! From tokens to the tree. After an error the reader goes on at the next line or at the end of
//! the block, so that one document shows all its errors at once.

use super::lexer::{Kind, Lexer, Token};
use super::{DEPTH_MAX, Item, Language, Value};
use crate::policy::error::{Problems, Span, quoted};

/// An error that was reported: the statement is left out.
struct Broken;

struct Reader<'t, 'p> {
    lexer: Lexer<'t>,
    language: Language,
    /// The next token.
    token: Token,
    /// The end of the token before it.
    passed: usize,
    /// Whether the document ended in a block, which was reported for the innermost one.
    is_cut: bool,
    problems: &'p mut Problems,
}

/// The items of a whole document.
pub(super) fn document(text: &str, language: Language, problems: &mut Problems) -> Vec<Item> {
    let mut lexer = Lexer::new(text, language);
    let token = lexer.next(problems);
    let mut reader = Reader {
        lexer,
        language,
        token,
        passed: 0,
        is_cut: false,
        problems,
    };
    if language == Language::Hcl {
        return reader.items(0, None);
    }
    let start = reader.take().span;
    let items = reader.items(1, Some(&start));
    if reader.token.kind != Kind::End {
        let _ = reader.unexpected::<()>("the end of the document");
    }
    items
}

impl Reader<'_, '_> {
    /// Items up to the brace that closes the block which `opened`, or to the end.
    fn items(&mut self, depth: usize, opened: Option<&Span>) -> Vec<Item> {
        let mut items = Vec::new();
        loop {
            match (&self.token.kind, opened) {
                (Kind::Mark('}'), Some(_)) => {
                    self.take();
                    return items;
                }
                (Kind::End, None) => return items,
                (Kind::End, Some(opened)) => {
                    if !std::mem::replace(&mut self.is_cut, true) {
                        let message = "the block has no end: close it with `}`";
                        self.problems.failed(opened, message);
                    }
                    return items;
                }
                _ => {}
            }
            let start = self.token.span.start;
            match self.item(depth).and_then(|item| {
                items.push(item);
                self.separator(opened.is_some())
            }) {
                Ok(()) => {}
                Err(Broken) => self.recover(start),
            }
        }
    }

    fn item(&mut self, depth: usize) -> Result<Item, Broken> {
        let (key, span) = self.key()?;
        let value = match self.token.kind {
            Kind::Mark('=') if self.language == Language::Hcl => {
                self.take();
                self.value(depth)?
            }
            Kind::Mark(':') if self.language == Language::Json => {
                self.take();
                self.value(depth)?
            }
            Kind::Mark('{') if self.language == Language::Hcl => self.value(depth)?,
            // A label: a block in the block.
            Kind::Word(_) | Kind::Text(_) if self.language == Language::Hcl => {
                let deeper = self.deeper(depth)?;
                let start = self.token.span.start;
                let label = self.item_of_label(deeper)?;
                Value::Object(vec![label], start..self.passed)
            }
            _ if self.language == Language::Json => return self.unexpected("`:`"),
            _ => return self.unexpected("`=` or `{`"),
        };
        Ok(Item { key, span, value })
    }

    /// A block behind its label. `a "b" = {` is no block.
    fn item_of_label(&mut self, depth: usize) -> Result<Item, Broken> {
        let (key, span) = self.key()?;
        match self.token.kind {
            Kind::Mark('{') => {
                let value = self.value(depth)?;
                Ok(Item { key, span, value })
            }
            Kind::Word(_) | Kind::Text(_) => {
                let deeper = self.deeper(depth)?;
                let start = self.token.span.start;
                let label = self.item_of_label(deeper)?;
                let value = Value::Object(vec![label], start..self.passed);
                Ok(Item { key, span, value })
            }
            _ => self.unexpected("`{`"),
        }
    }

    fn key(&mut self) -> Result<(String, Span), Broken> {
        match &self.token.kind {
            Kind::Word(_) if self.language == Language::Json => self.unexpected("`\"`"),
            Kind::Word(key) | Kind::Text(key) => {
                let key = key.clone();
                Ok((key, self.take().span))
            }
            _ => self.unexpected("a name"),
        }
    }

    fn value(&mut self, depth: usize) -> Result<Value, Broken> {
        let token = self.token.clone();
        match token.kind {
            Kind::Text(text) => Ok(Value::Text(text, self.take().span)),
            Kind::Number => Ok(Value::Other(self.take().span)),
            Kind::Word(word) if matches!(word.as_str(), "true" | "false" | "null") => {
                Ok(Value::Other(self.take().span))
            }
            Kind::Word(word) => {
                let hint = format!("a value in quotes: \"{}\"", quoted(&word));
                self.unexpected(&hint)
            }
            Kind::Mark('{') => {
                let depth = self.deeper(depth)?;
                let opened = self.take().span;
                let items = self.items(depth, Some(&opened));
                Ok(Value::Object(items, opened.start..self.passed))
            }
            Kind::Mark('[') => {
                let depth = self.deeper(depth)?;
                self.list(depth)
            }
            _ => self.unexpected("a value"),
        }
    }

    fn list(&mut self, depth: usize) -> Result<Value, Broken> {
        let start = self.take().span.start;
        let read = self.list_values(depth);
        if read.is_err() {
            self.skip_list();
        }
        Ok(Value::List(read?, start..self.passed))
    }

    fn list_values(&mut self, depth: usize) -> Result<Vec<Value>, Broken> {
        let mut values = Vec::new();
        while self.token.kind != Kind::Mark(']') {
            values.push(self.value(depth)?);
            match self.token.kind {
                Kind::Mark(',') => {
                    let comma = self.take().span;
                    if self.token.kind == Kind::Mark(']') && self.language == Language::Json {
                        self.problems.failed(&comma, "JSON has no comma before `]`");
                    }
                }
                Kind::Mark(']') => {}
                _ => return self.unexpected("`,` or `]`"),
            }
        }
        self.take();
        Ok(values)
    }

    /// Skips the rest of a list with an error, at most to the end of the block around it.
    fn skip_list(&mut self) {
        let mut open = 0_usize;
        loop {
            match (&self.token.kind, open) {
                (Kind::End, _) | (Kind::Mark('}'), 0) => return,
                (Kind::Mark(']'), 0) => {
                    self.take();
                    return;
                }
                (Kind::Mark('{' | '['), _) => open += 1,
                (Kind::Mark('}' | ']'), _) => open -= 1,
                _ => {}
            }
            self.take();
        }
    }

    /// Between two items: JSON demands a comma, HCL takes one inside of blocks.
    fn separator(&mut self, in_block: bool) -> Result<(), Broken> {
        if self.token.kind == Kind::Mark(',') && in_block {
            let comma = self.take().span;
            if self.token.kind == Kind::Mark('}') && self.language == Language::Json {
                self.problems.failed(&comma, "JSON has no comma before `}`");
            }
            return Ok(());
        }
        match (self.language, &self.token.kind) {
            (Language::Hcl, _) | (_, Kind::Mark('}') | Kind::End) => Ok(()),
            (Language::Json, _) => self.unexpected("`,` or `}`"),
        }
    }

    fn deeper(&mut self, depth: usize) -> Result<usize, Broken> {
        if depth < DEPTH_MAX {
            return Ok(depth + 1);
        }
        let message = format!("more than {DEPTH_MAX} levels of blocks and lists");
        self.problems.failed(&self.token.span, message);
        Err(Broken)
    }

    fn take(&mut self) -> Token {
        let next = self.lexer.next(self.problems);
        let taken = std::mem::replace(&mut self.token, next);
        self.passed = taken.span.end;
        taken
    }

    fn unexpected<T>(&mut self, wanted: &str) -> Result<T, Broken> {
        let found = match &self.token.kind {
            Kind::Damaged => return Err(Broken),
            Kind::End => "the document ends".to_owned(),
            Kind::Word(word) => format!("found `{}`", quoted(word)),
            Kind::Text(text) => format!("found \"{}\"", quoted(text)),
            Kind::Number => "found a number".to_owned(),
            Kind::Mark(mark) => format!("found `{mark}`"),
        };
        self.problems
            .failed(&self.token.span, format!("expected {wanted}, {found}"));
        Err(Broken)
    }

    /// Skips the rest of the broken statement that began at `start`: to the first token of a later
    /// line, past blocks and lists that it opens, or to the end of the block that it stands in.
    fn recover(&mut self, start: usize) {
        let mut open = 0_usize;
        loop {
            let at = self.token.span.start;
            if open == 0 && at > start && self.lexer.breaks_between(self.passed, at) {
                return;
            }
            match self.token.kind {
                Kind::End => return,
                Kind::Mark('{' | '[') => open += 1,
                Kind::Mark('}') if open == 0 => {
                    if at == start {
                        // No block is open that it could close.
                        self.take();
                    }
                    return;
                }
                Kind::Mark('}' | ']') => open = open.saturating_sub(1),
                _ => {}
            }
            self.take();
        }
    }
}
