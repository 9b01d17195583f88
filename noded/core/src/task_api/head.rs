//! The head of an HTTP/1.1 request, looked at before a parser of HTTP sees it: a request that two
//! parsers could read differently is refused, so none can hide in another one (request smuggling).
//!
//! | refused | because |
//! |---|---|
//! | CR or LF alone, NUL, other control characters | parsers differ in where a line ends |
//! | a folded line (RFC 9112, 5.2) | parsers differ in which header it belongs to |
//! | two lengths; a length beside chunked | parsers differ in where the body ends |
//! | a coding other than `chunked`; chunked in HTTP/1.0 | the end of the body is not known |
//! | a space before the colon, a name that is no token | parsers differ in the name |
//! | a target that does not begin with a slash | it names another host |
//! | a segment `.` or `..` of a path, also as `%2e` | parsers differ in the route |
//! | `CONNECT` | bytes of another protocol follow the answer |

use std::fmt;

/// The longest head, with its empty line.
pub const HEAD_BYTES_MAX: usize = 16 * 1024;
/// The largest body that a length may announce: beyond, sums of lengths could overflow.
const LENGTH_MAX: u64 = 1 << 40;

/// The body that follows a head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Framing {
    /// So many bytes; 0 where no header names a length.
    Sized(u64),
    /// Chunks, and the connection ends after them: only the parser knows where that is.
    Chunked,
    /// Another protocol, if the server agrees; the connection ends if it does not.
    Upgrade,
}

/// Why a head is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BadHead {
    /// It has no end within [`HEAD_BYTES_MAX`].
    TooLong,
    /// CR without LF, or LF without CR.
    LineEnd,
    /// The first line is not a method, a target and a version, with a space between.
    RequestLine,
    /// The target does not begin with a slash, or has a control character.
    Target,
    /// A segment of the path is `.` or `..`.
    Dots,
    /// The method is `CONNECT`.
    Tunnel,
    /// The version is neither HTTP/1.1 nor HTTP/1.0.
    Version,
    /// A line begins with a space or a tab.
    Folded,
    /// A line has no colon, or its name is no token.
    Name,
    /// A value has a control character.
    Value,
    /// The length is no number, or too large.
    Length,
    /// More than one of `Content-Length`, `Transfer-Encoding`, `Host`, or two of the first two.
    Twice,
    /// A coding other than `chunked`, or chunked in HTTP/1.0.
    Coding,
    /// A body beside `Upgrade`.
    UpgradeWithBody,
}

impl fmt::Display for BadHead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooLong => "the head is longer than 16 KiB",
            Self::LineEnd => "a line does not end with CR LF",
            Self::RequestLine => "the first line is not METHOD TARGET VERSION",
            Self::Target => "the target does not begin with a slash",
            Self::Dots => "a segment of the path is . or ..",
            Self::Tunnel => "there is no tunnel to CONNECT to",
            Self::Version => "the version is neither HTTP/1.1 nor HTTP/1.0",
            Self::Folded => "a header is folded",
            Self::Name => "the name of a header is no token",
            Self::Value => "the value of a header has a control character",
            Self::Length => "Content-Length is not a number up to 2^40",
            Self::Twice => {
                "Content-Length, Transfer-Encoding or Host occurs twice, or a length \
                            beside a coding"
            }
            Self::Coding => "the only coding is chunked, in HTTP/1.1",
            Self::UpgradeWithBody => "a request with Upgrade has a body",
        })
    }
}

/// The end of the first head in `bytes`: the offset behind its empty line.
pub fn end(bytes: &[u8]) -> Option<usize> {
    let empty = bytes.windows(4).position(|four| four == b"\r\n\r\n");
    empty.map(|at| at + 4)
}

/// As [`end`], where the first `looked` bytes were looked at before and do not hold one. A head
/// that comes byte by byte costs no more than one that comes at once.
pub fn end_behind(bytes: &[u8], looked: usize) -> Option<usize> {
    let from = looked.saturating_sub(3);
    end(bytes.get(from..).unwrap_or_default()).map(|at| from + at)
}

/// Whether bytes that do not hold a whole head yet can still become a good one. The first `looked`
/// ones were found good before.
///
/// # Errors
/// Where they cannot.
pub fn check_beginning(bytes: &[u8], looked: usize) -> Result<(), BadHead> {
    let (known, new) = bytes.split_at(looked.min(bytes.len()));
    check_line_ends(known.last().copied().unwrap_or_default(), new)?;
    match bytes.len() < HEAD_BYTES_MAX {
        true => Ok(()),
        false => Err(BadHead::TooLong),
    }
}

/// Checks a whole head, with its empty line.
///
/// # Errors
/// See [`BadHead`].
pub fn check(head: &[u8]) -> Result<Framing, BadHead> {
    if head.len() > HEAD_BYTES_MAX {
        return Err(BadHead::TooLong);
    }
    check_line_ends(0, head)?;
    let head = head.strip_suffix(b"\r\n\r\n").ok_or(BadHead::LineEnd)?;
    let mut lines = head.split(|byte| *byte == b'\n').map(|line| {
        // Each LF has its CR, and the last line has neither.
        line.strip_suffix(b"\r").unwrap_or(line)
    });
    let is_newest = check_request_line(lines.next().unwrap_or_default())?;
    let mut found = Found::default();
    for line in lines {
        found.take(line)?;
    }
    found.framing(is_newest)
}

/// Each CR before an LF, and each LF behind a CR; the last byte may be a CR.
fn check_line_ends(mut before: u8, bytes: &[u8]) -> Result<(), BadHead> {
    for byte in bytes {
        if (before == b'\r') != (*byte == b'\n') {
            return Err(BadHead::LineEnd);
        }
        before = *byte;
    }
    Ok(())
}

/// Returns whether the version is HTTP/1.1.
fn check_request_line(line: &[u8]) -> Result<bool, BadHead> {
    let mut parts = line.split(|byte| *byte == b' ');
    let (Some(method), Some(target), Some(version), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(BadHead::RequestLine);
    };
    if method.is_empty() || !method.iter().all(u8::is_ascii_uppercase) {
        return Err(BadHead::RequestLine);
    }
    let is_visible = |byte: &u8| byte.is_ascii_graphic() && *byte != b'#';
    if !target.starts_with(b"/") || !target.iter().all(is_visible) {
        return Err(BadHead::Target);
    }
    let path = target.split(|byte| *byte == b'?').next();
    let mut segments = path.unwrap_or_default().split(|byte| *byte == b'/');
    if segments.any(is_dots) {
        return Err(BadHead::Dots);
    }
    if method == b"CONNECT" {
        return Err(BadHead::Tunnel);
    }
    match version {
        b"HTTP/1.1" => Ok(true),
        b"HTTP/1.0" => Ok(false),
        _ => Err(BadHead::Version),
    }
}

/// Whether a segment of a path is `.` or `..`, in any encoding.
fn is_dots(segment: &[u8]) -> bool {
    let mut dots = 0;
    let mut rest = segment;
    loop {
        rest = match rest {
            [b'.', rest @ ..] | [b'%', b'2', b'e' | b'E', rest @ ..] => rest,
            [] => return (1..=2).contains(&dots),
            _ => return false,
        };
        dots += 1;
    }
}

/// The headers that say where a request ends.
#[derive(Default)]
struct Found {
    length: Option<u64>,
    is_chunked: bool,
    has_host: bool,
    has_upgrade: bool,
}

impl Found {
    fn take(&mut self, line: &[u8]) -> Result<(), BadHead> {
        if line.starts_with(b" ") || line.starts_with(b"\t") {
            return Err(BadHead::Folded);
        }
        let colon = line.iter().position(|byte| *byte == b':');
        let (name, value) = line.split_at(colon.ok_or(BadHead::Name)?);
        if name.is_empty() || !name.iter().all(is_token) {
            return Err(BadHead::Name);
        }
        let value = value.get(1..).unwrap_or_default();
        if value
            .iter()
            .any(|byte| byte.is_ascii_control() && *byte != b'\t')
        {
            return Err(BadHead::Value);
        }
        let value = value.trim_ascii();
        if name.eq_ignore_ascii_case(b"content-length") {
            if self.length.replace(length(value)?).is_some() {
                return Err(BadHead::Twice);
            }
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            if !value.eq_ignore_ascii_case(b"chunked") {
                return Err(BadHead::Coding);
            }
            if std::mem::replace(&mut self.is_chunked, true) {
                return Err(BadHead::Twice);
            }
        } else if name.eq_ignore_ascii_case(b"host") {
            if std::mem::replace(&mut self.has_host, true) {
                return Err(BadHead::Twice);
            }
        } else if name.eq_ignore_ascii_case(b"upgrade") {
            self.has_upgrade = true;
        }
        Ok(())
    }

    fn framing(self, is_newest: bool) -> Result<Framing, BadHead> {
        match (self.length, self.is_chunked) {
            (Some(_), true) => Err(BadHead::Twice),
            (None, true) if !is_newest => Err(BadHead::Coding),
            (None, true) if self.has_upgrade => Err(BadHead::UpgradeWithBody),
            (Some(1..), false) if self.has_upgrade => Err(BadHead::UpgradeWithBody),
            (None, true) => Ok(Framing::Chunked),
            (_, false) if self.has_upgrade => Ok(Framing::Upgrade),
            (length, false) => Ok(Framing::Sized(length.unwrap_or(0))),
        }
    }
}

fn length(value: &[u8]) -> Result<u64, BadHead> {
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return Err(BadHead::Length);
    }
    let text = std::str::from_utf8(value).map_err(|_| BadHead::Length)?;
    let length = text.parse().map_err(|_| BadHead::Length)?;
    match length {
        0..=LENGTH_MAX => Ok(length),
        _ => Err(BadHead::Length),
    }
}

/// A character of a token (RFC 9110, 5.6.2).
fn is_token(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte)
}
