//! The regular expressions of constraints and affinities. Whoever checks a job and whoever matches
//! it compile them here, so that what was accepted can be matched.

use regex::{Regex, RegexBuilder};

/// How large one compiled pattern may become.
const COMPILED_BYTES_MAX: usize = 1 << 20;

/// Compiles a pattern. It matches in linear time, whatever it is.
///
/// # Errors
/// In a few words, where it is no regular expression, or one that is too large.
pub fn compile(pattern: &str) -> Result<Regex, String> {
    let compiled = RegexBuilder::new(pattern)
        .size_limit(COMPILED_BYTES_MAX)
        .build();
    compiled.map_err(|error| {
        let words = error.to_string();
        // A syntax error is drawn over several lines; the last one states it.
        let last = words.lines().last().unwrap_or(&words);
        last.trim_start_matches("error: ").to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_that_cannot_be_used_says_why() {
        assert!(compile("^(amd|arm)64$").is_ok_and(|pattern| pattern.is_match("arm64")));
        for (pattern, why) in [("([", "unclosed"), (r"(\w{900}){900}", "size limit")] {
            let error = compile(pattern).expect_err("no pattern");
            assert!(error.contains(why) && error.lines().count() == 1, "{error}");
        }
    }
}
