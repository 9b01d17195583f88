//! The bytes of a task's connection, as hyper may see them: whole heads that [`head::check`] takes,
//! and their bodies. A bad head is replaced by a request that [`Refusal`] answers with 400 and the
//! reason; nothing behind it is read.
//!
//! ```text
//!  Head --good--> passed, then Body (so many bytes) --> Head
//!    |              `-- Rest: chunked, or another protocol; the connection ends after it
//!    `--bad--> Refused
//! ```

use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use hyper::Request;
use noded_core::task_api::head::{self, BadHead, Framing};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The head in place of a bad one. It is never forwarded.
const REFUSED: &[u8] = b"GET /refused HTTP/1.1\r\nConnection: close\r\n\r\n";
const REFUSED_TARGET: &str = "/refused";
/// Bytes that are read at a time while a head is not whole.
const HEAD_READ_BYTES: usize = 4 * 1024;

/// Why a connection's head was refused, if one was.
#[derive(Clone, Debug, Default)]
pub(super) struct Refusal(Arc<OnceLock<BadHead>>);

impl Refusal {
    /// The reason, where `request` stands for the head that was refused.
    pub(super) fn of<B>(&self, request: &Request<B>) -> Option<BadHead> {
        // Heads of before may still wait for their answers.
        let is_the_one = request.uri() == REFUSED_TARGET;
        self.0.get().copied().filter(|_| is_the_one)
    }
}

/// A connection whose heads are checked.
#[derive(Debug)]
pub(super) struct Strict<S> {
    refusal: Refusal,
    stream: S,
    state: State,
    /// Bytes that were read.
    buffer: BytesMut,
    /// Of these, those that may be passed on.
    passed: usize,
    /// Of the others, those that were found to be the beginning of a head.
    looked: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Head,
    Body(u64),
    Rest,
    Refused,
}

impl<S> Strict<S> {
    pub(super) fn new(stream: S, refusal: Refusal) -> Self {
        Self {
            refusal,
            stream,
            state: State::Head,
            buffer: BytesMut::new(),
            passed: 0,
            looked: 0,
        }
    }

    /// Looks at a head in the buffer. Returns whether something may be passed on now.
    fn look(&mut self) -> bool {
        let looked = std::mem::replace(&mut self.looked, self.buffer.len());
        let checked = match head::end_behind(&self.buffer, looked) {
            Some(end) => head::check(&self.buffer[..end]).map(|framing| Some((end, framing))),
            None => head::check_beginning(&self.buffer, looked).map(|()| None),
        };
        if !matches!(checked, Ok(None)) {
            self.looked = 0;
        }
        match checked {
            Ok(None) => return false,
            Ok(Some((end, framing))) => {
                self.passed = end;
                self.state = match framing {
                    Framing::Sized(0) => State::Head,
                    Framing::Sized(bytes) => State::Body(bytes),
                    Framing::Chunked | Framing::Upgrade => State::Rest,
                };
            }
            Err(reason) => {
                tracing::debug!(%reason, "a request of a task is refused");
                // One head of a connection is refused: nothing is looked at after it.
                let _ = self.refusal.0.set(reason);
                self.buffer = BytesMut::from(REFUSED);
                self.passed = REFUSED.len();
                self.state = State::Refused;
            }
        }
        true
    }

    /// Releases what the state lets pass of the buffer.
    fn release(&mut self) {
        let held = self.buffer.len();
        match &mut self.state {
            State::Body(left) => {
                let part = usize::try_from(*left).unwrap_or(usize::MAX).min(held);
                self.passed = part;
                *left -= part as u64;
                if *left == 0 {
                    self.state = State::Head;
                }
            }
            State::Rest => self.passed = held,
            State::Head | State::Refused => {}
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Strict<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        output: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let this = self.get_mut();
        loop {
            if this.passed > 0 {
                let part = this.passed.min(output.remaining());
                output.put_slice(&this.buffer[..part]);
                this.buffer.advance(part);
                this.passed -= part;
                return Poll::Ready(Ok(()));
            }
            match this.state {
                State::Refused => return Poll::Ready(Ok(())),
                State::Body(_) | State::Rest if !this.buffer.is_empty() => {
                    this.release();
                    continue;
                }
                State::Head | State::Body(_) | State::Rest => {}
            }
            if this.state == State::Head && !this.buffer.is_empty() && this.look() {
                continue;
            }
            let mut space = [std::mem::MaybeUninit::<u8>::uninit(); HEAD_READ_BYTES];
            let mut read = ReadBuf::uninit(&mut space);
            ready!(Pin::new(&mut this.stream).poll_read(cx, &mut read))?;
            // A head that ends here was none.
            if read.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
            this.buffer.extend_from_slice(read.filled());
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Strict<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    /// The bytes that come through, whatever the pieces that they are sent in.
    async fn through(bytes: &[u8], piece: usize) -> String {
        let (mut near, far) = tokio::io::duplex(1 << 20);
        let bytes = bytes.to_vec();
        let sending = tokio::spawn(async move {
            for piece in bytes.chunks(piece) {
                // Nothing is read after a bad head.
                if near.write_all(piece).await.is_err() {
                    return;
                }
                tokio::task::yield_now().await;
            }
        });
        let mut received = Vec::new();
        let refusal = Refusal::default();
        Strict::new(far, refusal.clone())
            .read_to_end(&mut received)
            .await
            .expect("is read");
        sending.await.expect("is sent");
        let text = String::from_utf8_lossy(&received).into_owned();
        let stands_for_it = Request::builder().uri(REFUSED_TARGET).body(());
        let reason = refusal.of(&stands_for_it.expect("a request"));
        let other = Request::builder().uri("/a").body(());
        assert_eq!(refusal.of(&other.expect("a request")), None);
        assert_eq!(reason.is_some(), text.contains(REFUSED_TARGET), "{text}");
        text
    }

    #[tokio::test]
    async fn good_requests_pass_unchanged_and_nothing_passes_after_a_bad_one() {
        let get = "GET /a HTTP/1.1\r\nHost: x\r\n\r\n";
        let put = "PUT /a HTTP/1.1\r\nContent-Length: 4\r\n\r\n\r\n\r\n";
        let chunked = "PUT /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n";
        let bad = "GET http://x/a HTTP/1.1\r\n\r\n";
        let refused = std::str::from_utf8(REFUSED).expect("text");
        for piece in [1, 7, 10_000] {
            for (sent, expected) in [
                (format!("{get}{put}{get}"), format!("{get}{put}{get}")),
                (format!("{get}{chunked}"), format!("{get}{chunked}")),
                (format!("{put}{bad}{get}"), format!("{put}{refused}")),
                (format!("{get}GET /b HT"), get.to_owned()),
            ] {
                assert_eq!(through(sent.as_bytes(), piece).await, expected, "{piece}");
            }
        }
    }
}
