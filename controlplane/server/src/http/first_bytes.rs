//! The beginning of a connection, with a time limit: which version of HTTP it speaks is told by its
//! first bytes, and whoever waits for them has no limit of its own.
//!
//! ```text
//!   opened --no byte, or part of HTTP/2's preface--> waiting --limit--> broken
//!      |                                                |
//!      +---- any other byte, or the whole preface ------+--> decided: no limit here any more
//! ```
//!
//! From then on the limits of the version hold: a head's of HTTP/1, pings of HTTP/2.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// RFC 9113, section 3.4.
const H2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A stream whose first bytes have to come in time.
#[derive(Debug)]
pub(super) struct FirstBytes<S> {
    stream: S,
    /// While the version is not decided: the limit, and how much of the preface has come.
    waiting: Option<(Pin<Box<Sleep>>, usize)>,
}

impl<S> FirstBytes<S> {
    /// Gives `stream` the time `limit` from now on to show which version it speaks.
    pub(super) fn new(stream: S, limit: Duration) -> Self {
        Self {
            stream,
            waiting: Some((Box::pin(sleep(limit)), 0)),
        }
    }
}

/// How much of the preface has come after `bytes`; `None` = decided.
fn seen(mut matched: usize, bytes: &[u8]) -> Option<usize> {
    for byte in bytes {
        if H2_PREFACE.get(matched) != Some(byte) {
            return None;
        }
        matched += 1;
    }
    (matched < H2_PREFACE.len()).then_some(matched)
}

impl<S: AsyncRead + Unpin> AsyncRead for FirstBytes<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let before = buffer.filled().len();
        let polled = Pin::new(&mut this.stream).poll_read(context, buffer);
        let Some((limit, matched)) = &mut this.waiting else {
            return polled;
        };
        if let Poll::Ready(Ok(())) = &polled {
            match seen(*matched, &buffer.filled()[before..]) {
                Some(more) => *matched = more,
                None => this.waiting = None,
            }
            return polled;
        }
        if polled.is_pending() && limit.as_mut().poll(context).is_ready() {
            let text = "the client did not say which version of HTTP it speaks";
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, text)));
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for FirstBytes<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anything_but_the_preface_decides_at_its_first_other_byte() {
        assert_eq!(seen(0, b"GET / HTTP/1.0\r\n\r\n"), None);
        assert_eq!(seen(0, b"PRI"), Some(3));
        assert_eq!(seen(3, b"NT / HTTP/1.1"), None);
    }

    #[test]
    fn the_whole_preface_decides_and_a_part_of_it_does_not() {
        assert_eq!(seen(0, &H2_PREFACE[..23]), Some(23));
        assert_eq!(seen(23, &H2_PREFACE[23..]), None);
        assert_eq!(seen(0, b""), Some(0));
    }
}
