//! The escape sign of a raw terminal: `~.` at the beginning of a line ends the session, whatever
//! the command on the other side does with Ctrl-C.
//!
//! ```text
//!   line begins --sign--> held --'.'--> over
//!        |                 |----sign--> the sign itself, once
//!        |other            \---other--> the sign, and that
//!        v
//!   in a line --CR or LF--> line begins
//! ```

/// Where in a line the user types.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum At {
    LineBegin,
    /// The sign was typed at the beginning of a line and is held back.
    Held,
    InLine,
}

/// Looks for the escape sign in what is typed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Escape {
    /// `None` = there is none.
    sign: Option<u8>,
    at: At,
}

/// What is sent on, and whether the session is over.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Typed {
    pub(super) bytes: Vec<u8>,
    pub(super) over: bool,
}

impl Escape {
    /// Looks for `sign`, or for nothing.
    pub(super) fn new(sign: Option<u8>) -> Self {
        Self {
            sign,
            at: At::LineBegin,
        }
    }

    /// What of `typed` goes on to the command.
    pub(super) fn pass(&mut self, typed: &[u8]) -> Typed {
        let Some(sign) = self.sign else {
            return Typed {
                bytes: typed.to_vec(),
                over: false,
            };
        };
        let mut bytes = Vec::with_capacity(typed.len() + 1);
        for &byte in typed {
            match (self.at, byte) {
                (At::Held, b'.') => return Typed { bytes, over: true },
                (At::LineBegin, byte) if byte == sign => {
                    self.at = At::Held;
                    continue;
                }
                (At::Held, byte) if byte == sign => {}
                (At::Held, _) => bytes.push(sign),
                (At::LineBegin | At::InLine, _) => {}
            }
            bytes.push(byte);
            self.at = match byte {
                b'\r' | b'\n' => At::LineBegin,
                _ => At::InLine,
            };
        }
        Typed { bytes, over: false }
    }
}

/// Reads the flag: one character, or `none`.
pub(super) fn sign(text: &str) -> Result<Option<u8>, String> {
    match text.as_bytes() {
        b"none" | b"" => Ok(None),
        [byte] if byte.is_ascii_graphic() => Ok(Some(*byte)),
        _ => Err("expected one ASCII character, or none".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What goes on, and whether it is over, however the bytes are cut.
    fn typed(text: &str) -> (String, bool) {
        let whole = Escape::new(Some(b'~')).pass(text.as_bytes());
        let (mut escape, mut cut) = (Escape::new(Some(b'~')), Vec::new());
        let mut over = false;
        for byte in text.bytes() {
            let piece = escape.pass(&[byte]);
            cut.extend(piece.bytes);
            over = over || piece.over;
            if over {
                break;
            }
        }
        assert_eq!((&cut, over), (&whole.bytes, whole.over), "{text:?}");
        (String::from_utf8_lossy(&cut).into_owned(), over)
    }

    #[test]
    fn the_sign_and_a_dot_at_the_beginning_of_a_line_end_the_session() {
        assert_eq!(typed("~."), (String::new(), true));
        assert_eq!(typed("ls\r~.exit\r"), ("ls\r".to_owned(), true));
    }

    #[test]
    fn everything_else_goes_on() {
        for same in ["cd ~/x\r", "a~.b", "ls\r", "~/bin/x\r", "~\r."] {
            assert_eq!(typed(same), (same.to_owned(), false));
        }
        assert_eq!(typed("~~."), ("~.".to_owned(), false));
    }

    #[test]
    fn without_a_sign_nothing_is_looked_for() {
        let all = Escape::new(None).pass(b"~.");
        assert_eq!((all.bytes.as_slice(), all.over), (b"~.".as_slice(), false));
        assert_eq!(sign("none"), Ok(None));
        assert_eq!(sign("^"), Ok(Some(b'^')));
        sign("ab").expect_err("two characters");
    }
}
