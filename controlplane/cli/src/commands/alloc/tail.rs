//! The end of a file or of a log: which part of it is wanted, and cut out.

/// Lines that `-tail` shows.
const LINES_DEFAULT: u64 = 10;
/// How many bytes a line is taken to have, when the last lines are fetched.
const LINE_BYTES: u64 = 512;
/// The most that is fetched for the last lines.
const TAIL_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Which part is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Part {
    Whole,
    LastBytes(u64),
    LastLines(usize),
}

impl Part {
    /// What `-c`, `-n` and `-tail` ask for.
    pub(super) fn wanted(bytes: Option<u64>, lines: Option<u64>, tail: bool) -> Self {
        let last = |lines| Self::LastLines(usize::try_from(lines).unwrap_or(usize::MAX));
        match (bytes, lines) {
            (Some(bytes), _) => Self::LastBytes(bytes),
            (None, Some(lines)) => last(lines),
            (None, None) if tail => last(LINES_DEFAULT),
            (None, None) => Self::Whole,
        }
    }

    /// How much of the end has to be fetched for it.
    pub(super) fn bytes(self) -> u64 {
        match self {
            Self::Whole => u64::MAX,
            Self::LastBytes(count) => count,
            Self::LastLines(count) => {
                let count = u64::try_from(count).unwrap_or(u64::MAX);
                count.saturating_mul(LINE_BYTES).min(TAIL_BYTES_MAX)
            }
        }
    }

    /// How much is to be fetched instead of `fetched` bytes, which turned out to be `text`; `None`
    /// where that is enough, all that there is, or all that is fetched at most.
    pub(super) fn more(self, text: &[u8], fetched: u64) -> Option<u64> {
        let Self::LastLines(count) = self else {
            return None;
        };
        let body = text.strip_suffix(b"\n").unwrap_or(text);
        let newlines = body.iter().filter(|byte| **byte == b'\n').count();
        let all = u64::try_from(text.len()).is_ok_and(|length| length < fetched);
        let enough = newlines >= count || all || fetched >= TAIL_BYTES_MAX;
        (!enough).then(|| fetched.saturating_mul(4).min(TAIL_BYTES_MAX))
    }

    /// The last lines of `text`, where lines are wanted.
    pub(super) fn cut(self, text: &[u8]) -> &[u8] {
        let Self::LastLines(count) = self else {
            return text;
        };
        if count == 0 {
            return &[];
        }
        // A newline at the very end ends the last line and begins none.
        let body = text.strip_suffix(b"\n").unwrap_or(text);
        let newlines = body
            .iter()
            .enumerate()
            .rev()
            .filter(|(_, byte)| **byte == b'\n');
        match newlines.map(|(offset, _)| offset).nth(count - 1) {
            Some(offset) => &text[offset + 1..],
            None => text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_fetched_grows_until_it_holds_the_lines() {
        let two = Part::LastLines(2);
        assert_eq!(two.more(b"ne\ntwo\nthree\n", 13), None);
        assert_eq!(two.more(b"wo\nthree\n", 9), Some(36), "a line is cut");
        assert_eq!(two.more(b"two\nthree\n", 11), None, "there is no more");
        let far = TAIL_BYTES_MAX / 2;
        let long = vec![b'x'; usize::try_from(far).expect("small")];
        assert_eq!(two.more(&long, far), Some(TAIL_BYTES_MAX));
        assert_eq!(two.more(&long, TAIL_BYTES_MAX), None);
        assert_eq!(Part::LastBytes(9).more(b"x", 1), None);
    }

    #[test]
    fn the_last_lines_are_cut_out() {
        let text = b"one\ntwo\nthree\n";
        assert_eq!(Part::LastLines(1).cut(text), b"three\n");
        assert_eq!(Part::LastLines(2).cut(text), b"two\nthree\n");
        assert_eq!(Part::LastLines(9).cut(text), text);
        assert_eq!(Part::LastLines(0).cut(text), b"");
        assert_eq!(Part::LastLines(1).cut(b"one\ntwo"), b"two");
        assert_eq!(Part::Whole.cut(text), text);
    }
}
