//! Templates as job files carry them.

use noded_template::{Delimiters, Known, Limits, MissingKey, Outcome, Template, check, render};

use crate::Verdict;

/// A template without data, with small limits: the error has a line of the text.
pub fn template(data: &[u8]) -> Verdict {
    let text = String::from_utf8_lossy(data);
    let template = Template {
        text: &text,
        delimiters: Delimiters::new("", None),
        missing_key: MissingKey::Zero,
    };
    let limits = Limits {
        output_bytes: 64 * 1024,
        text_bytes: 256 * 1024,
        iterations: 1_000,
        steps: 10_000,
        elements: 1_000,
        ..Limits::default()
    };
    let checked = check(&template, &limits);
    match render(&template, &Known::default(), &limits) {
        Ok(outcome) => {
            assert!(checked.is_ok(), "a template that renders is well formed");
            if let Outcome::Rendered(text) = outcome {
                assert!(text.len() <= limits.output_bytes);
            }
            Verdict::Understood
        }
        Err(error) => {
            let lines = text.matches('\n').count() + 1;
            assert!((1..=lines).contains(&error.line), "{error}");
            assert!(!error.problem.contains("panicked"), "{error}");
            Verdict::refused_with(error.to_string())
        }
    }
}
