//! The verb `render`.

use std::collections::BTreeSet;

use noded_template::{Delimiters, Dependency, Known, Limits, MissingKey, Outcome, Template};
use serde::{Deserialize, Serialize};

use crate::report::Progress;
use crate::verb::{Verb, Work};

/// A template with the data that is known.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Render {
    /// The text.
    pub text: String,
    /// The mark that begins an action; empty for the default.
    pub left_delimiter: String,
    /// The mark that ends it; empty for the default.
    pub right_delimiter: String,
    /// The result of a field that a map does not have.
    pub missing_key: MissingKey,
    /// The data.
    pub known: Known,
}

/// The result of a rendering.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Rendering {
    /// The text.
    Rendered(String),
    /// The data to add to [`Render::known`] before the next rendering.
    Missing(BTreeSet<Dependency>),
}

impl Work for Render {
    const VERB: Verb = Verb::Render;
    type Answer = Rendering;
}

/// Renders.
///
/// # Errors
/// The template is refused: the line and the reason.
pub fn render(request: &Render, _progress: &mut Progress) -> Result<Rendering, String> {
    let template = Template {
        text: &request.text,
        delimiters: Delimiters::new(&request.left_delimiter, Some(&request.right_delimiter)),
        missing_key: request.missing_key,
    };
    match noded_template::render(&template, &request.known, &Limits::default()) {
        Ok(Outcome::Rendered(text)) => Ok(Rendering::Rendered(text)),
        Ok(Outcome::Missing(missing)) => Ok(Rendering::Missing(missing)),
        Err(error) => Err(error.to_string()),
    }
}
