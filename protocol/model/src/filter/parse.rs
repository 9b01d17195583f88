//! Words to an expression, by recursive descent.

use regex::{Regex, RegexBuilder};

use super::FilterError;
use super::token::Token;

/// Parentheses and negations in each other.
const DEPTH_MAX: usize = 32;
/// Bytes that a compiled regular expression may take.
const REGEX_BYTES_MAX: usize = 1024 * 1024;

/// A question about an item.
#[derive(Debug)]
pub(super) enum Expression {
    Or(Vec<Self>),
    And(Vec<Self>),
    Not(Box<Self>),
    Match(Selector, Operator),
}

/// A field of an item: the names that lead to it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Selector(pub(super) Vec<String>);

/// A question about a field.
#[derive(Debug)]
pub(super) enum Operator {
    Equal(String),
    /// It is a list with this element, a map with this key, or a text with this part.
    Contains(String),
    Matches(Regex),
    IsEmpty,
}

/// Reads all of `tokens`.
///
/// # Errors
/// Where they are no expression.
pub(super) fn expression(tokens: &[Token]) -> Result<Expression, FilterError> {
    let mut parser = Parser { tokens, at: 0 };
    let whole = parser.or(0)?;
    match parser.peek() {
        None => Ok(whole),
        Some(_) => Err(parser.unexpected("\"and\", \"or\" or the end")),
    }
}

struct Parser<'t> {
    tokens: &'t [Token],
    at: usize,
}

impl Parser<'_> {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    fn next(&mut self) -> Option<&Token> {
        let token = self.tokens.get(self.at);
        self.at += 1;
        token
    }

    fn unexpected(&self, expected: &'static str) -> FilterError {
        let found = self
            .peek()
            .map_or_else(|| "the end".to_owned(), Token::shown);
        FilterError::Unexpected { expected, found }
    }

    /// Takes the next word if it is this one.
    fn takes(&mut self, word: &str) -> bool {
        let is_it = matches!(self.peek(), Some(Token::Word(found)) if found == word);
        self.at += usize::from(is_it);
        is_it
    }

    fn takes_sign(&mut self, sign: &Token) -> bool {
        let is_it = self.peek() == Some(sign);
        self.at += usize::from(is_it);
        is_it
    }

    fn or(&mut self, depth: usize) -> Result<Expression, FilterError> {
        let first = self.and(depth)?;
        let mut all = vec![first];
        while self.takes("or") {
            all.push(self.and(depth)?);
        }
        Ok(one_or(all, Expression::Or))
    }

    fn and(&mut self, depth: usize) -> Result<Expression, FilterError> {
        let first = self.not(depth)?;
        let mut all = vec![first];
        while self.takes("and") {
            all.push(self.not(depth)?);
        }
        Ok(one_or(all, Expression::And))
    }

    fn not(&mut self, depth: usize) -> Result<Expression, FilterError> {
        if depth > DEPTH_MAX {
            return Err(FilterError::TooDeep);
        }
        if self.takes("not") {
            return Ok(negated(self.not(depth + 1)?));
        }
        if self.takes_sign(&Token::Open) {
            let inner = self.or(depth + 1)?;
            if !self.takes_sign(&Token::Close) {
                return Err(self.unexpected("\")\""));
            }
            return Ok(inner);
        }
        self.comparison()
    }

    /// `selector operator value`, `value in selector` or `selector is empty`.
    fn comparison(&mut self) -> Result<Expression, FilterError> {
        let begun = self.at;
        if let Some(Token::Word(word)) = self.peek()
            && matches!(word.as_str(), "any" | "all")
            && matches!(self.tokens.get(self.at + 1), Some(Token::Word(_)))
        {
            return Err(FilterError::Quantifier(word.clone()));
        }
        // Whether it is a value or a selector is known at the word behind it.
        let left = self.operand()?;
        let found = if self.takes("in") {
            return self.inside(left);
        } else if self.takes("not") {
            if self.takes("in") {
                return self.inside(left).map(negated);
            }
            if self.takes("contains") {
                negate(Operator::Contains(self.value()?))
            } else if self.takes("matches") {
                negate(Operator::Matches(self.regex()?))
            } else {
                return Err(self.unexpected("\"in\", \"contains\" or \"matches\" after \"not\""));
            }
        } else if self.takes("contains") {
            plain(Operator::Contains(self.value()?))
        } else if self.takes("matches") {
            plain(Operator::Matches(self.regex()?))
        } else if self.takes("is") {
            let not = self.takes("not");
            if !self.takes("empty") {
                return Err(self.unexpected("\"empty\" after \"is\""));
            }
            (Operator::IsEmpty, not)
        } else if self.takes_sign(&Token::Equal) {
            plain(Operator::Equal(self.value()?))
        } else if self.takes_sign(&Token::NotEqual) {
            negate(Operator::Equal(self.value()?))
        } else {
            return Err(self.unexpected("an operator"));
        };
        let (operator, not) = found;
        let Some(selector) = left.selector else {
            self.at = begun;
            return Err(self.unexpected("a selector"));
        };
        let asked = Expression::Match(selector, operator);
        Ok(if not { negated(asked) } else { asked })
    }

    fn inside(&mut self, left: Operand) -> Result<Expression, FilterError> {
        let begun = self.at;
        let Some(selector) = self.operand()?.selector else {
            self.at = begun;
            return Err(self.unexpected("a selector"));
        };
        Ok(Expression::Match(selector, Operator::Contains(left.text)))
    }

    /// A word that may be a selector or a value.
    fn operand(&mut self) -> Result<Operand, FilterError> {
        let (first, is_text) = match self.peek() {
            Some(Token::Word(word)) if !is_keyword(word) => (word.clone(), false),
            Some(Token::Text(text)) => (text.clone(), true),
            _ => return Err(self.unexpected("a selector or a value")),
        };
        self.at += 1;
        if is_text {
            // A text is a value, unless it is a path.
            let path = first.strip_prefix('/').map(|path| {
                let names = path.split('/');
                Selector(
                    names
                        .map(|name| name.replace("~1", "/").replace("~0", "~"))
                        .collect(),
                )
            });
            return Ok(Operand {
                selector: path,
                text: first,
            });
        }
        let mut text = first.clone();
        let mut names = vec![first];
        loop {
            let name = if self.takes_sign(&Token::Dot) {
                match self.next() {
                    Some(Token::Word(word)) => word.clone(),
                    _ => {
                        self.at -= 1;
                        return Err(self.unexpected("a name after \".\""));
                    }
                }
            } else if self.takes_sign(&Token::OpenBracket) {
                let name = self.value()?;
                if !self.takes_sign(&Token::CloseBracket) {
                    return Err(self.unexpected("\"]\""));
                }
                name
            } else {
                break;
            };
            text.push('.');
            text.push_str(&name);
            names.push(name);
        }
        Ok(Operand {
            selector: Some(Selector(names)),
            text,
        })
    }

    fn value(&mut self) -> Result<String, FilterError> {
        // A text is taken as it is; a bare word may have dots, as in `v1.2`.
        if let Some(Token::Text(text)) = self.peek() {
            let text = text.clone();
            self.at += 1;
            return Ok(text);
        }
        match self.peek() {
            Some(Token::Word(_)) => Ok(self.operand()?.text),
            _ => Err(self.unexpected("a value")),
        }
    }

    fn regex(&mut self) -> Result<Regex, FilterError> {
        RegexBuilder::new(&self.value()?)
            .size_limit(REGEX_BYTES_MAX)
            .build()
            .map_err(|error| FilterError::Regex(error.to_string()))
    }
}

struct Operand {
    /// The selection, where it can be a selector.
    selector: Option<Selector>,
    /// The text as a value.
    text: String,
}

fn is_keyword(word: &str) -> bool {
    matches!(
        word,
        "and" | "or" | "not" | "in" | "is" | "contains" | "matches"
    )
}

fn plain(operator: Operator) -> (Operator, bool) {
    (operator, false)
}

fn negate(operator: Operator) -> (Operator, bool) {
    (operator, true)
}

fn negated(inner: Expression) -> Expression {
    Expression::Not(Box::new(inner))
}

fn one_or(
    mut all: Vec<Expression>,
    several: impl FnOnce(Vec<Expression>) -> Expression,
) -> Expression {
    match all.len() {
        1 => all.swap_remove(0),
        _ => several(all),
    }
}
