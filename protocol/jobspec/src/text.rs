//! From bytes to the text of a job file or a variable file.

use crate::diagnostic::{Diagnostics, Source};

/// The text of a file; `name` is what messages call it.
///
/// # Errors
///
/// Every place that is not UTF-8.
pub fn decode_text(name: &str, bytes: Vec<u8>) -> Result<String, Diagnostics> {
    let bytes = match String::from_utf8(bytes) {
        Ok(text) => return Ok(text),
        Err(error) => error.into_bytes(),
    };
    let source = Source::new(name, String::from_utf8_lossy(&bytes));
    let mut problems = Diagnostics::default();
    let mut at = 0;
    for chunk in bytes.utf8_chunks() {
        at += chunk.valid().len();
        if chunk.invalid().is_empty() {
            continue;
        }
        let shown: Vec<String> = chunk
            .invalid()
            .iter()
            .map(|b| format!("{b:#04x}"))
            .collect();
        let message = format!("this is not UTF-8: {}", shown.join(" "));
        let hint = "save the file as UTF-8".to_owned();
        let stand_in = at + char::REPLACEMENT_CHARACTER.len_utf8();
        problems.report(&source, &(at..stand_in), message, Some(hint));
        at = stand_in;
    }
    Err(problems)
}

/// The text without the mark that some editors put in front of UTF-8.
pub(crate) fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_that_is_no_text_is_told() {
        let problems = decode_text("a.hcl", b"a = \"\xff\"\nb = \xc3\x28\n".to_vec())
            .expect_err("bytes that are no text");
        let places: Vec<_> = problems.list().iter().map(|p| (p.line, p.column)).collect();
        assert_eq!(places, [(1, 6), (2, 5)], "{problems}");
        assert_eq!(problems.list()[0].message, "this is not UTF-8: 0xff");
        assert_eq!(problems.list()[0].snippet, "a = \"\u{fffd}\"");
    }
}
