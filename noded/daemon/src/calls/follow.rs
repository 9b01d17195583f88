//! Reading a file to its end, and beyond it as it grows.

use std::os::fd::AsFd;
use std::time::Duration;

use bytes::Bytes;
use protocol_wire::v1;
use protocol_wire::v1::node_reply::Reply;

use super::{CallEnd, CallFailed, Replies};
use crate::file_io::{READ_BYTES_MAX, Reader};
use crate::file_watch::{FileWatch, Watched};

/// How often a file that may grow is looked at where the kernel tells nothing.
const POLL: Duration = Duration::from_millis(100);
/// How often one is looked at of which the kernel tells every change.
const IDLE: Duration = Duration::from_millis(500);
/// How long a followed file sends nothing before a heartbeat. Nomad's clients wait for one each
/// second; the first one makes the server send the head of its HTTP answer.
const QUIET_MAX: Duration = Duration::from_secs(1);

/// A place in a file that is being sent.
#[derive(Debug)]
pub(super) struct Position {
    pub(super) reader: Reader,
    /// The name that chunks carry.
    pub(super) name: String,
    pub(super) offset: u64,
}

impl Position {
    /// Sends what is there from this place on, at most `bytes_max` bytes; says how many.
    pub(super) async fn send_rest(
        &mut self,
        bytes_max: u64,
        replies: &mut Replies,
    ) -> Result<u64, CallEnd> {
        let mut sent = 0;
        while sent < bytes_max {
            let left = usize::try_from(bytes_max - sent).unwrap_or(usize::MAX);
            let bytes = self
                .reader
                .read_at(self.offset, left.min(READ_BYTES_MAX))
                .await
                .map_err(|error| CallFailed::internal(&error))?;
            if bytes.is_empty() {
                break;
            }
            let count = bytes.len() as u64;
            send_chunk(&self.name, self.offset, bytes, "", replies).await?;
            self.offset += count;
            sent += count;
        }
        Ok(sent)
    }

    /// Tells something about the file itself: `file truncated`, `file deleted`.
    pub(super) async fn send_event(
        &self,
        event: &str,
        replies: &mut Replies,
    ) -> Result<(), CallEnd> {
        send_chunk(&self.name, self.offset, Vec::new(), event, replies).await
    }
}

/// Sends bytes of a file, or tells something about the file itself.
pub(super) async fn send_chunk(
    file: &str,
    offset: u64,
    bytes: Vec<u8>,
    event: &str,
    replies: &mut Replies,
) -> Result<(), CallEnd> {
    let chunk = v1::FileChunk {
        file: file.to_owned(),
        offset: i64::try_from(offset).unwrap_or(i64::MAX),
        data: Bytes::from(bytes),
        event: event.to_owned(),
    };
    replies.send(Reply::Chunk(chunk)).await
}

/// Waits between two looks, and sends heartbeats while nothing else is sent.
#[derive(Debug)]
pub(super) struct Pace {
    watched: Option<Watched>,
}

impl Pace {
    /// By the clock alone, until [`Self::watch`].
    pub(super) fn new() -> Self {
        Self { watched: None }
    }

    /// From now on changes of this file or directory end the wait.
    pub(super) fn watch(&mut self, files: Option<&FileWatch>, file: impl AsFd) {
        let Some(files) = files else { return };
        match files.watch(file) {
            Ok(watched) => self.watched = Some(watched),
            Err(error) => tracing::warn!(
                %error,
                "a followed file is polled, since inotify has no watch left: raise \
                 fs.inotify.max_user_watches"
            ),
        }
    }

    /// A look begins: whatever changes from now on ends the next wait.
    pub(super) fn mark(&mut self) {
        if let Some(watched) = &mut self.watched {
            watched.mark();
        }
    }

    pub(super) async fn wait(&mut self, replies: &mut Replies) -> Result<(), CallEnd> {
        if replies.quiet_for(QUIET_MAX) {
            replies.heartbeat().await?;
        }
        match &mut self.watched {
            // The end of a task is in no file.
            Some(watched) => drop(tokio::time::timeout(IDLE, watched.changed()).await),
            None => tokio::time::sleep(POLL).await,
        }
        Ok(())
    }
}
