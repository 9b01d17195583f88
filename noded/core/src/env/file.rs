//! Environment files: what a template with `env = true` renders. The rules are those of
//! go-envparse 0.1.0, which Nomad uses.
//!
//! ```text
//! export NAME = plain "double\n" 'single \n' # comment
//!        |      |     |          `- all as it is
//!        |      |     `- JSON's escapes, and no others
//!        |      `- as it is, blanks around it removed
//!        `- [A-Za-z_][A-Za-z0-9_./]*
//! ```
//!
//! The parts of a value join: `J={"a": "b"}` is `{a: b}`. A line that is none of this is an error.

use std::collections::BTreeMap;
use std::str::Chars;

/// Why a line of an environment file was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// There is no `=`.
    #[error("no `=`; write NAME=value")]
    NoSeparator,
    /// Nothing is left of the `=`.
    #[error("no name in front of the `=`")]
    NoName,
    /// A character that a name cannot hold.
    #[error("{0:?} in the name; names are [A-Za-z_][A-Za-z0-9_./]*")]
    Name(char),
    /// A control character in the value.
    #[error("control character {0:?} in the value; write \\n, \\t or \\uXXXX in double quotes")]
    Control(char),
    /// An open quote.
    #[error("{0} without its end on the same line")]
    OpenQuote(char),
    /// An escape that JSON does not have.
    #[error("escape \\{0} is unknown; known are \\\" \\\\ \\/ \\b \\f \\n \\r \\t \\uXXXX")]
    Escape(char),
    /// Not four hexadecimal digits after `\u`.
    #[error("\\u needs four hexadecimal digits")]
    Hex,
    /// A surrogate without its other half.
    #[error("\\uD800 to \\uDFFF come in pairs; the second half is missing")]
    Surrogate,
    /// A variable ends at a null character.
    #[error("\\u0000 cannot be part of a variable")]
    Null,
}

/// The variables of an environment file; of two with one name the later counts.
///
/// # Errors
/// The first line that is neither blank, a comment nor an assignment, counted from 1.
pub fn parse(text: &str) -> Result<BTreeMap<String, String>, (usize, LineError)> {
    let mut variables = BTreeMap::new();
    for (offset, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (name, value) = assignment(line).map_err(|error| (offset + 1, error))?;
        variables.insert(name.to_owned(), value);
    }
    Ok(variables)
}

fn assignment(line: &str) -> Result<(&str, String), LineError> {
    let (name, value) = line.split_once('=').ok_or(LineError::NoSeparator)?;
    let name = name.trim();
    // A variable may be called `export`.
    let name = name.strip_prefix("export ").unwrap_or(name);
    check_name(name)?;
    Ok((name, unquoted(value.trim())?))
}

fn check_name(name: &str) -> Result<(), LineError> {
    let first = name.chars().next().ok_or(LineError::NoName)?;
    if !(first.is_ascii_alphabetic() || first == '_') {
        return Err(LineError::Name(first));
    }
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '/');
    name.chars()
        .find(|c| !fits(*c))
        .map_or(Ok(()), |c| Err(LineError::Name(c)))
}

fn unquoted(written: &str) -> Result<String, LineError> {
    let mut value = String::with_capacity(written.len());
    // What a comment leaves: everything up to the last character that is no blank, or was quoted.
    let mut significant = 0;
    let mut rest = written.chars();
    while let Some(c) = rest.next() {
        match c {
            '#' => {
                value.truncate(significant);
                return Ok(value);
            }
            '"' => double_quoted(&mut rest, &mut value, &mut significant)?,
            '\'' => single_quoted(&mut rest, &mut value, &mut significant)?,
            ' ' => value.push(' '),
            c => {
                value.push(printable(c)?);
                significant = value.len();
            }
        }
    }
    Ok(value)
}

fn printable(c: char) -> Result<char, LineError> {
    if c < ' ' {
        return Err(LineError::Control(c));
    }
    Ok(c)
}

fn single_quoted(
    rest: &mut Chars<'_>,
    value: &mut String,
    significant: &mut usize,
) -> Result<(), LineError> {
    for c in rest.by_ref() {
        if c == '\'' {
            return Ok(());
        }
        value.push(printable(c)?);
        *significant = value.len();
    }
    Err(LineError::OpenQuote('\''))
}

fn double_quoted(
    rest: &mut Chars<'_>,
    value: &mut String,
    significant: &mut usize,
) -> Result<(), LineError> {
    while let Some(c) = rest.next() {
        let c = match c {
            '"' => return Ok(()),
            '\\' => escaped(rest)?,
            c => printable(c)?,
        };
        value.push(c);
        *significant = value.len();
    }
    Err(LineError::OpenQuote('"'))
}

/// The character that the letters behind a backslash stand for.
fn escaped(rest: &mut Chars<'_>) -> Result<char, LineError> {
    let letter = rest.next().ok_or(LineError::OpenQuote('"'))?;
    Ok(match letter {
        '"' | '\\' | '/' => letter,
        'b' => '\u{8}',
        'f' => '\u{c}',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'u' => unicode(rest)?,
        other => return Err(LineError::Escape(other)),
    })
}

fn unicode(rest: &mut Chars<'_>) -> Result<char, LineError> {
    let first = hex(rest)?;
    if first == 0 {
        return Err(LineError::Null);
    }
    if let Some(c) = char::from_u32(first.into()) {
        return Ok(c);
    }
    if rest.next() != Some('\\') || rest.next() != Some('u') {
        return Err(LineError::Surrogate);
    }
    let pair = char::decode_utf16([first, hex(rest)?]).next();
    // As Go has it: two halves that are no pair are one replacement character.
    Ok(pair
        .and_then(Result::ok)
        .unwrap_or(char::REPLACEMENT_CHARACTER))
}

fn hex(rest: &mut Chars<'_>) -> Result<u16, LineError> {
    let mut number = 0;
    for _ in 0..4 {
        let digit = rest.next().and_then(|c| c.to_digit(16));
        let digit = digit.and_then(|digit| u16::try_from(digit).ok());
        number = number << 4 | digit.ok_or(LineError::Hex)?;
    }
    Ok(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_mean_what_go_envparse_makes_of_them() {
        for (line, name, value) in [
            ("A=1", "A", "1"),
            ("V=\"a#b\" # c", "V", "a#b"),
            ("J={\"a\": \"b\"}", "J", "{a: b}"),
            ("A=", "A", ""),
            ("A= ", "A", ""),
            ("A=#c", "A", ""),
            ("A= # c", "A", ""),
            ("A=b#c", "A", "b"),
            ("A=b # c # d", "A", "b"),
            (" A = b c ", "A", "b c"),
            ("\tA\t=\tb\t", "A", "b"),
            ("A=b  c # d", "A", "b  c"),
            ("A=b=c", "A", "b=c"),
            ("export A=b", "A", "b"),
            ("export A = b", "A", "b"),
            ("export=b", "export", "b"),
            ("export =b", "export", "b"),
            ("_=b", "_", "b"),
            ("a9_.b/c=d", "a9_.b/c", "d"),
            ("A='b # c'", "A", "b # c"),
            ("A='b\\n\"c'", "A", "b\\n\"c"),
            ("A='' # c", "A", ""),
            ("A=' b ' # c", "A", " b "),
            ("A=b'c'\"d\"e", "A", "bcde"),
            ("A=b 'c ' ", "A", "b c "),
            ("A=b ''", "A", "b "),
            ("A=b '' # c", "A", "b"),
            ("A=b ' ' # c", "A", "b  "),
            ("A=\" b \"", "A", " b "),
            ("A=\"b'c\"", "A", "b'c"),
            (
                "A=\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"",
                "A",
                "\"\\/\u{8}\u{c}\n\r\t",
            ),
            ("A=\"\\u00e9\"", "A", "é"),
            ("A=\"\\uD83D\\uDE01!\"", "A", "😁!"),
            ("A=\"\\ud83d\\ud83d\"", "A", "\u{fffd}"),
            ("A=\"\\ude01\\ud83d\"", "A", "\u{fffd}"),
            ("A=b\\n", "A", "b\\n"),
            ("A=C:\\dir", "A", "C:\\dir"),
            ("A=é", "A", "é"),
            ("A=é # c", "A", "é"),
            ("A=\"é\" ü # c", "A", "é ü"),
            ("A=\u{7f}\u{80}", "A", "\u{7f}\u{80}"),
            ("A=b # \u{1} \"open", "A", "b"),
            ("A=$B ${C} `d`", "A", "$B ${C} `d`"),
            ("A=b\r", "A", "b"),
        ] {
            let wanted = BTreeMap::from([(name.to_owned(), value.to_owned())]);
            assert_eq!(parse(line), Ok(wanted), "{line:?}");
        }
    }

    #[test]
    fn lines_without_an_assignment_are_skipped_and_the_last_one_counts() {
        for text in ["", "\n", "# a", "  # b=\"", "\r\n \t\r\n"] {
            assert_eq!(parse(text), Ok(BTreeMap::new()), "{text:?}");
        }
        let found = parse("A=1\nB=2\n# A=3\nA=4\n").map(|found| found["A"].clone());
        assert_eq!(found.as_deref(), Ok("4"));
    }

    #[test]
    fn wrong_lines_are_refused_by_number_with_their_reason() {
        use LineError::{
            Control, Escape, Hex, Name, NoName, NoSeparator, Null, OpenQuote, Surrogate,
        };
        for (text, line, wanted) in [
            ("A=1\n\nb c", 3, NoSeparator),
            ("=a", 1, NoName),
            ("=", 1, NoName),
            ("1A=b", 1, Name('1')),
            ("é=b", 1, Name('é')),
            ("A-B=c", 1, Name('-')),
            ("A B=c", 1, Name(' ')),
            ("export  A=b", 1, Name(' ')),
            ("export\tA=b", 1, Name('\t')),
            ("A=b\tc", 1, Control('\t')),
            ("A='b\tc'", 1, Control('\t')),
            ("A=\"b\u{0}\"", 1, Control('\0')),
            ("A=\"b", 1, OpenQuote('"')),
            ("A='b", 1, OpenQuote('\'')),
            ("A=\"b\nc\"", 1, OpenQuote('"')),
            ("# c\nA='b\nc'", 2, OpenQuote('\'')),
            ("A=b 'c' \"d '", 1, OpenQuote('"')),
            ("A=\"\\", 1, OpenQuote('"')),
            ("A=\"\\a\"", 1, Escape('a')),
            ("A=\"\\'\"", 1, Escape('\'')),
            ("A=\"\\é\"", 1, Escape('é')),
            ("A=\"\\u12\"", 1, Hex),
            ("A=\"\\u12g4\"", 1, Hex),
            ("A=\"\\ud83d\"", 1, Surrogate),
            ("A=\"\\ud83d \\ude01\"", 1, Surrogate),
            ("A=\"\\ud83d\\ude0\"", 1, Hex),
            ("A=\"\\u0000\"", 1, Null),
        ] {
            assert_eq!(parse(text), Err((line, wanted)), "{text:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn single_quotes_take_every_printable_text_as_it_is(text in "[^'\\x00-\\x1f]{0,40}") {
            let found = parse(&format!("A='{text}' # c"));
            proptest::prop_assert_eq!(found, Ok(BTreeMap::from([("A".to_owned(), text)])));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[A\\n= #'\"\\\\u0dn\\x01é]{0,40}") {
            let _ = parse(&text);
        }
    }
}
