//! Counting answers in a stream of bytes: each begins with a status line (RFC 9112, section 4).
//!
//! Bodies are not told apart from heads. The answers that are counted here hold no text like a
//! status line.

const START: &[u8] = b"HTTP/1.1 ";
const DIGITS: usize = 3;

/// The place in the stream: how much of a status line was seen.
#[derive(Debug, Default)]
pub(super) struct StatusLines {
    seen: usize,
    status: u16,
}

impl StatusLines {
    /// Reads on; `found` gets the status of each answer whose status line ends here.
    pub(super) fn read(&mut self, bytes: &[u8], mut found: impl FnMut(u16)) {
        for byte in bytes {
            let expected = START.get(self.seen);
            match expected {
                Some(expected) if byte == expected => self.seen += 1,
                None if byte.is_ascii_digit() => {
                    self.status = self.status * 10 + u16::from(byte - b'0');
                    self.seen += 1;
                }
                // The first byte of a start occurs nowhere else in it.
                Some(_) | None => self.restart(usize::from(*byte == START[0])),
            }
            if self.seen == START.len() + DIGITS {
                found(self.status);
                self.restart(0);
            }
        }
    }

    fn restart(&mut self, seen: usize) {
        *self = Self { seen, status: 0 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_found_wherever_the_stream_is_cut() {
        let stream = b"HTTP/1.1 200 OK\r\n\r\n{\"a\":\"HHTTP/1.1x\"}\
            HHTTP/1.1 403 Forbidden\r\n\r\nno HTTP/1.1 4x HTTP/1.1 429 \r\n";
        for cut in 0..stream.len() {
            let mut lines = StatusLines::default();
            let mut found = Vec::new();
            for part in [&stream[..cut], &stream[cut..]] {
                lines.read(part, |status| found.push(status));
            }
            assert_eq!(found, [200, 403, 429], "{cut}");
        }
    }
}
