//! Names with references: `ci-${value.project}`.

/// The most bytes of a filled name that are of use to any caller.
const FILLED_BYTES_MAX: usize = 1024;

/// Why a text is no template, or cannot be filled.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TemplateError {
    /// A reference is not closed.
    #[error("\"${{\" without \"}}\"")]
    Unclosed,
    /// A reference names nothing.
    #[error("\"${{}}\" refers to nothing")]
    Empty,
    /// There is no such value.
    #[error("${{{0}}} has no value")]
    Unknown(String),
    /// The result is too long.
    #[error("the result is longer than {FILLED_BYTES_MAX} bytes")]
    TooLong,
}

/// A parsed template. `$${` stands for a literal `${`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NameTemplate(Vec<Piece>);

#[derive(Clone, PartialEq, Eq, Debug)]
enum Piece {
    Text(String),
    Reference(String),
}

impl NameTemplate {
    /// Reads a template.
    ///
    /// # Errors
    /// Where a reference is empty or not closed.
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        let mut pieces = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some(at) = rest.find("${") {
            let (before, reference) = (&rest[..at], &rest[at + 2..]);
            if let Some(before) = before.strip_suffix('$') {
                literal.push_str(before);
                literal.push_str("${");
                rest = reference;
                continue;
            }
            literal.push_str(before);
            let (name, behind) = reference.split_once('}').ok_or(TemplateError::Unclosed)?;
            let name = name.trim();
            if name.is_empty() {
                return Err(TemplateError::Empty);
            }
            if !literal.is_empty() {
                pieces.push(Piece::Text(std::mem::take(&mut literal)));
            }
            pieces.push(Piece::Reference(name.to_owned()));
            rest = behind;
        }
        literal.push_str(rest);
        if !literal.is_empty() {
            pieces.push(Piece::Text(literal));
        }
        Ok(Self(pieces))
    }

    /// The names that are referred to, such as `value.project`.
    pub fn references(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|piece| match piece {
            Piece::Reference(name) => Some(name.as_str()),
            Piece::Text(_) => None,
        })
    }

    /// The text with every reference replaced. A value is inserted as it is, never read as a
    /// template.
    ///
    /// # Errors
    /// Where `value` has none for a reference, or the result is too long.
    pub fn fill(&self, value: impl Fn(&str) -> Option<String>) -> Result<String, TemplateError> {
        let mut filled = String::new();
        for piece in &self.0 {
            match piece {
                Piece::Text(text) => filled.push_str(text),
                Piece::Reference(name) => {
                    let text = value(name).ok_or_else(|| TemplateError::Unknown(name.clone()))?;
                    filled.push_str(&text);
                }
            }
            if filled.len() > FILLED_BYTES_MAX {
                return Err(TemplateError::TooLong);
            }
        }
        Ok(filled)
    }
}
