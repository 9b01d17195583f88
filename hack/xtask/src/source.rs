//! A Rust file as the checks see it: which bytes are code, which are comment, which lines are test.
//!
//! ```text
//!   code --"//"--> line comment --newline--> code
//!   code --"/*"--> block comment (nested) --"*/"--> code
//!   code --quote--> string or character --quote--> code
//! ```
//!
//! Checks that look for a word must not stumble over a comment that explains it or a string that
//! prints it. This is no parser: it knows exactly the literals that can hide a quote or a slash.

/// One file, split by line into code and comment; both keep the length of the original line.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    /// The lines as they stand in the file.
    pub(crate) lines: Vec<String>,
    /// The same lines with comments and the contents of literals blanked.
    pub(crate) code: Vec<String>,
    /// The same lines with everything but comments blanked.
    pub(crate) comments: Vec<String>,
    /// Per line: whether it belongs to a `#[cfg(test)]` module or function.
    pub(crate) is_test: Vec<bool>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Code,
    LineComment,
    BlockComment { depth: usize },
    Text,
    RawText { hashes: usize },
}

impl Source {
    /// Splits the text of one file.
    pub(crate) fn parse(text: &str) -> Self {
        let chars: Vec<char> = text.chars().collect();
        let (code, comments) = split(&chars);
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let code: Vec<String> = code.lines().map(str::to_owned).collect();
        let comments = comments.lines().map(str::to_owned).collect();
        let is_test = test_lines(&code);
        Self {
            lines,
            code,
            comments,
            is_test,
        }
    }

    /// Lines that are neither in a test module nor blank at the end of the file.
    pub(crate) fn product_line_count(&self) -> usize {
        self.is_test.iter().filter(|is_test| !**is_test).count()
    }

    /// Code lines outside of tests, numbered from 1.
    pub(crate) fn product_code(&self) -> impl Iterator<Item = (usize, &str)> {
        self.all_code()
            .filter(|(number, _)| !self.is_test[number - 1])
    }

    /// All code lines, numbered from 1.
    pub(crate) fn all_code(&self) -> impl Iterator<Item = (usize, &str)> {
        self.code
            .iter()
            .enumerate()
            .map(|(offset, line)| (offset + 1, line.as_str()))
    }
}

/// Two texts of the same shape: one with only the code left, one with only the comments left.
fn split(chars: &[char]) -> (String, String) {
    let mut code = String::with_capacity(chars.len());
    let mut comments = String::with_capacity(chars.len());
    let mut state = State::Code;
    let mut at = 0;
    while at < chars.len() {
        let (next, taken) = step(state, chars, at);
        let is_comment = |s| matches!(s, State::LineComment | State::BlockComment { .. });
        let in_comment = is_comment(state) || is_comment(next);
        for (offset, &c) in chars[at..at + taken].iter().enumerate() {
            let delimiter = offset == 0 || offset + 1 == taken;
            let keep_code = match (state, next) {
                (State::Code, State::Code) => true,
                (State::Code, State::Text | State::RawText { .. }) => delimiter,
                (State::Text | State::RawText { .. }, State::Code) => delimiter,
                _ => false,
            };
            code.push(if c == '\n' || keep_code { c } else { ' ' });
            comments.push(if c == '\n' || in_comment { c } else { ' ' });
        }
        state = next;
        at += taken;
    }
    (code, comments)
}

/// The state after the next few characters, and how many they are (at least one).
fn step(state: State, chars: &[char], at: usize) -> (State, usize) {
    let c = chars[at];
    let next = chars.get(at + 1).copied();
    match state {
        State::Code => step_in_code(chars, at),
        State::LineComment if c == '\n' => (State::Code, 1),
        State::LineComment => (State::LineComment, 1),
        State::BlockComment { depth } => match (c, next) {
            ('/', Some('*')) => (State::BlockComment { depth: depth + 1 }, 2),
            ('*', Some('/')) if depth == 1 => (State::Code, 2),
            ('*', Some('/')) => (State::BlockComment { depth: depth - 1 }, 2),
            _ => (state, 1),
        },
        State::Text => match c {
            '\\' if next.is_some() => (State::Text, 2),
            '"' => (State::Code, 1),
            _ => (State::Text, 1),
        },
        State::RawText { hashes } => {
            let closes = c == '"' && (1..=hashes).all(|n| chars.get(at + n) == Some(&'#'));
            if closes {
                (State::Code, 1 + hashes)
            } else {
                (state, 1)
            }
        }
    }
}

fn step_in_code(chars: &[char], at: usize) -> (State, usize) {
    let c = chars[at];
    let next = chars.get(at + 1).copied();
    let follows_word = at > 0 && (chars[at - 1].is_alphanumeric() || chars[at - 1] == '_');
    match (c, next) {
        ('/', Some('/')) => (State::LineComment, 2),
        ('/', Some('*')) => (State::BlockComment { depth: 1 }, 2),
        ('"', _) => (State::Text, 1),
        ('r', Some('"' | '#')) if !follows_word => raw_text(chars, at, 1),
        ('b' | 'c', Some('r')) if !follows_word => raw_text(chars, at, 2),
        ('\'', Some('\\')) => {
            // An escaped character: the next quote after the escaped one ends it.
            let end = (at + 3..chars.len())
                .find(|&n| chars[n] == '\'')
                .unwrap_or(at + 1);
            (State::Code, end - at + 1)
        }
        // A character, not a lifetime: 'x' has its closing quote two further on.
        ('\'', Some(_)) if chars.get(at + 2) == Some(&'\'') => (State::Code, 3),
        _ => (State::Code, 1),
    }
}

/// `r"`, `r#"`, `br##"` and the like; a raw identifier (`r#type`) is ordinary code.
fn raw_text(chars: &[char], at: usize, prefix: usize) -> (State, usize) {
    let hashes = chars[at + prefix..]
        .iter()
        .take_while(|c| **c == '#')
        .count();
    if chars.get(at + prefix + hashes) == Some(&'"') {
        (State::RawText { hashes }, prefix + hashes + 1)
    } else {
        (State::Code, 1)
    }
}

/// Marks the lines of items under `#[cfg(test)]`, found by counting braces in the blanked code.
fn test_lines(code: &[String]) -> Vec<bool> {
    let mut marks = vec![false; code.len()];
    let mut offset = 0;
    while offset < code.len() {
        if code[offset].trim_start().starts_with("#[cfg(test)]") {
            let end = item_end(code, offset);
            marks[offset..=end].fill(true);
            offset = end;
        }
        offset += 1;
    }
    marks
}

/// The last line of the item whose attributes begin at `start`.
fn item_end(code: &[String], start: usize) -> usize {
    let mut depth = 0_usize;
    let mut opened = false;
    for (offset, line) in code.iter().enumerate().skip(start) {
        for c in line.chars() {
            match c {
                '{' => {
                    depth += 1;
                    opened = true;
                }
                '}' => depth = depth.saturating_sub(1),
                ';' if !opened => return offset,
                _ => {}
            }
        }
        if opened && depth == 0 {
            return offset;
        }
    }
    code.len().saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code_of(text: &str) -> String {
        Source::parse(text).code.join("\n")
    }

    #[test]
    fn words_in_comments_and_strings_are_not_code() {
        let code = code_of("let a = \"unsafe\"; // unsafe\n/* unsafe /* unsafe */ */ let b = 1;");
        assert!(!code.contains("unsafe"), "{code}");
        assert!(code.contains("let a"), "{code}");
        assert!(code.contains("let b = 1;"), "{code}");
    }

    #[test]
    fn raw_strings_end_at_their_own_number_of_hashes() {
        let code = code_of("let a = r#\"quote \" unsafe \"#; let b = br\"unsafe\"; done();");
        assert!(!code.contains("unsafe"), "{code}");
        assert!(code.contains("done();"), "{code}");
    }

    #[test]
    fn lifetimes_and_quoted_quotes_do_not_open_a_string() {
        let code =
            code_of("fn f<'a>(x: &'a str) { x == '\"' || x == '\\'' || x == '\\u{22}'; } g()");
        assert!(code.contains("g()"), "{code}");
        assert!(code.contains("fn f<'a>"), "{code}");
    }

    #[test]
    fn raw_identifiers_are_code() {
        assert!(code_of("let r#type = 1; unsafe {}").contains("unsafe"));
    }

    #[test]
    fn comments_are_kept_apart() {
        let source = Source::parse("let a = 1; // TODO(#3): b\n");
        assert_eq!(source.comments[0].trim(), "// TODO(#3): b");
    }

    #[test]
    fn a_test_module_is_marked_to_its_closing_brace_and_no_further() {
        let source = Source::parse(
            "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() { c(); }\n}\nfn d() {}\n",
        );
        assert_eq!(source.is_test, [false, true, true, true, true, false]);
        assert_eq!(source.product_line_count(), 2);
    }

    #[test]
    fn a_test_module_in_a_file_of_its_own_is_one_line() {
        let source = Source::parse("#[cfg(test)]\nmod tests;\nfn d() {}\n");
        assert_eq!(source.is_test, [true, true, false]);
    }

    #[test]
    fn an_unclosed_item_marks_the_rest_and_does_not_panic() {
        let source = Source::parse("#[cfg(test)]\nmod tests {\n");
        assert_eq!(source.is_test, [true, true]);
    }
}
