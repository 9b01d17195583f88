//! What a server answers: a value with the headers that matter, or bytes as they come.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::HeaderMap;
use hyper::body::Incoming;

use crate::error::ClientError;
use crate::patience;

/// A value and what the server said about it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer<T> {
    /// The value.
    pub value: T,
    /// `X-Nomad-Index`: give it back as `index` to wait for a change.
    pub index: u64,
    /// `X-Nomad-KnownLeader`.
    pub known_leader: bool,
    /// `X-Nomad-LastContact`, milliseconds since the answering server heard its leader.
    pub last_contact_ms: u64,
    /// `X-Nomad-NextToken`, where there are more pages.
    pub next_token: Option<String>,
}

impl<T> Answer<T> {
    pub(crate) fn new(value: T, headers: &HeaderMap) -> Self {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let number = |name: &str| text(name).and_then(|value| value.parse().ok()).unwrap_or(0);
        Self {
            value,
            index: number("x-nomad-index"),
            known_leader: text("x-nomad-knownleader") == Some("true"),
            last_contact_ms: number("x-nomad-lastcontact"),
            next_token: text("x-nomad-nexttoken")
                .filter(|t| !t.is_empty())
                .map(str::to_owned),
        }
    }

    /// The same answer with its value changed.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Answer<U> {
        let Self {
            value,
            index,
            known_leader,
            last_contact_ms,
            next_token,
        } = self;
        Answer {
            value: change(value),
            index,
            known_leader,
            last_contact_ms,
            next_token,
        }
    }
}

/// An answer that is read as it comes: logs that are followed, snapshots.
#[derive(Debug)]
pub struct ByteStream {
    body: Incoming,
    address: String,
    /// How long the server may say nothing; `None` = as long as it likes.
    pub(crate) silence_max: Option<Duration>,
}

impl ByteStream {
    pub(crate) fn new(body: Incoming, address: String, silence_max: Option<Duration>) -> Self {
        Self {
            body,
            address,
            silence_max,
        }
    }

    /// The next bytes; `None` at the end.
    ///
    /// # Errors
    /// Where the connection breaks, or the server says nothing for too long.
    pub async fn next(&mut self) -> Result<Option<Bytes>, ClientError> {
        let Self {
            body,
            address,
            silence_max,
        } = self;
        patience::within(*silence_max, &address, async {
            loop {
                match body.frame().await {
                    None => return Ok(None),
                    Some(Err(source)) => {
                        return Err(ClientError::Ended {
                            address: address.clone(),
                            source: Box::new(source),
                        });
                    }
                    Some(Ok(frame)) => {
                        if let Ok(data) = frame.into_data() {
                            return Ok(Some(data));
                        }
                    }
                }
            }
        })
        .await
    }
}
