//! Text to words, texts and signs.

use super::FilterError;

/// One piece of an expression.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Token {
    /// A keyword, a selector, a number or a bare value: what it is depends on where it stands.
    Word(String),
    /// A text in quotes.
    Text(String),
    Equal,
    NotEqual,
    Open,
    Close,
    OpenBracket,
    CloseBracket,
    Dot,
}

impl Token {
    /// The token as a message shows it.
    pub(super) fn shown(&self) -> String {
        match self {
            Self::Word(word) => format!("{word:?}"),
            Self::Text(text) => format!("the text {text:?}"),
            Self::Equal => "\"==\"".to_owned(),
            Self::NotEqual => "\"!=\"".to_owned(),
            Self::Open => "\"(\"".to_owned(),
            Self::Close => "\")\"".to_owned(),
            Self::OpenBracket => "\"[\"".to_owned(),
            Self::CloseBracket => "\"]\"".to_owned(),
            Self::Dot => "\".\"".to_owned(),
        }
    }
}

/// The pieces of `text`.
///
/// # Errors
/// Where a quote is never closed or a sign is none of the language.
pub(super) fn tokens(text: &str) -> Result<Vec<Token>, FilterError> {
    let mut tokens = Vec::new();
    let mut rest = text.char_indices().peekable();
    while let Some((at, sign)) = rest.next() {
        let token = match sign {
            ' ' | '\t' | '\r' | '\n' => continue,
            '(' => Token::Open,
            ')' => Token::Close,
            '[' => Token::OpenBracket,
            ']' => Token::CloseBracket,
            '.' => Token::Dot,
            '=' | '!' => {
                if rest.next_if(|(_, next)| *next == '=').is_none() {
                    return Err(FilterError::Sign(sign, at));
                }
                if sign == '=' {
                    Token::Equal
                } else {
                    Token::NotEqual
                }
            }
            '"' => Token::Text(quoted(&mut rest, at)?),
            '`' => {
                let mut raw = String::new();
                loop {
                    match rest.next() {
                        None => return Err(FilterError::Unclosed(at)),
                        Some((_, '`')) => break Token::Text(raw),
                        Some((_, other)) => raw.push(other),
                    }
                }
            }
            first if in_word(first) => {
                let mut word = String::from(first);
                // A number may have a fraction; elsewhere a dot leads to a member.
                let numeric = first == '-' || first.is_ascii_digit();
                while let Some((_, next)) =
                    rest.next_if(|(_, next)| in_word(*next) || numeric && *next == '.')
                {
                    word.push(next);
                }
                Token::Word(word)
            }
            other => return Err(FilterError::Sign(other, at)),
        };
        tokens.push(token);
    }
    Ok(tokens)
}

/// The rest of a text in double quotes, its escapes undone.
fn quoted(
    rest: &mut impl Iterator<Item = (usize, char)>,
    begun: usize,
) -> Result<String, FilterError> {
    let mut text = String::new();
    loop {
        match rest.next() {
            None => return Err(FilterError::Unclosed(begun)),
            Some((_, '"')) => return Ok(text),
            Some((_, '\\')) => match rest.next() {
                None => return Err(FilterError::Unclosed(begun)),
                Some((_, 'n')) => text.push('\n'),
                Some((_, 't')) => text.push('\t'),
                Some((_, 'r')) => text.push('\r'),
                Some((_, same @ ('"' | '\\' | '/'))) => text.push(same),
                // A regular expression's own escape, such as `\d`.
                Some((_, other)) => text.extend(['\\', other]),
            },
            Some((_, other)) => text.push(other),
        }
    }
}

fn in_word(sign: char) -> bool {
    sign.is_alphanumeric() || matches!(sign, '_' | '-' | '/')
}
