//! Calls of servers: one stream each, a request, then replies until `end` or `error`.
//!
//! ```text
//!   NodeCall stream --NodeRequest--> CallServer --+-- files: logs, list, stat, read
//!                   <--NodeReply*---              +-- core:  restart, signal
//!                                                 +-- stats: cgroups, host
//!                                                 +-- meta:  the node's metadata
//!                                                 `-- exec:  a process beside the task
//! ```

mod commands;
mod exec;
mod files;
mod follow;
pub(crate) mod foreign;
mod log_cursor;
mod logs;
mod metadata;
mod replies;
mod stats;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use protocol_error_chain::chain;
use protocol_model::AllocId;
use protocol_transport::{FrameReader, FrameWriter};
use protocol_wire::kind::from_frame;
use protocol_wire::v1;
use protocol_wire::v1::node_request::Request;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::timeout;

use self::foreign::ForeignWish;
pub(crate) use self::replies::{CallEnd, CallFailed, Replies};
use crate::executor::Executor;
use crate::file_io::FileIo;
use crate::file_watch::FileWatch;
use crate::fingerprint::core_mhz;
use crate::input::{AllocView, Input, Question};
use crate::metadata::MetadataStore;

/// Calls at a time; more are refused.
pub(crate) const CALLS_MAX: u32 = 256;
/// How long a server may take to say what it wants.
const REQUEST_MAX: Duration = Duration::from_secs(10);
/// How often a command that prints nothing sends a heartbeat.
const HEARTBEAT: Duration = Duration::from_secs(10);

/// Answers calls.
#[derive(Debug)]
pub struct CallServer {
    executor: Arc<Executor>,
    io: FileIo,
    /// `None` where the kernel tells nothing: files are looked at by the clock.
    files: Option<FileWatch>,
    inputs: mpsc::Sender<Input>,
    metadata: Arc<MetadataStore>,
    data_dir: PathBuf,
    /// What a core counts as, where usage is told in MHz.
    core_mhz: u64,
    slots: Arc<Semaphore>,
}

impl CallServer {
    /// A server of calls.
    pub fn new(
        executor: Arc<Executor>,
        (io, inputs, metadata): (FileIo, mpsc::Sender<Input>, Arc<MetadataStore>),
    ) -> Self {
        Self {
            data_dir: executor.config.now().data_dir.clone(),
            executor,
            core_mhz: core_mhz(),
            io,
            files: watch_files(),
            inputs,
            metadata,
            slots: Arc::new(Semaphore::new(CALLS_MAX as usize)),
        }
    }

    /// Serves a stream that a server opened.
    pub fn accept(
        self: Arc<Self>,
        send: quinn::SendStream,
        recv: quinn::RecvStream,
        body_bytes_max: usize,
    ) {
        let mut replies = Replies::new(FrameWriter::new(send, body_bytes_max));
        let reader = FrameReader::new(recv, body_bytes_max);
        let slot = Arc::clone(&self.slots).try_acquire_owned();
        tokio::spawn(async move {
            let ended = match &slot {
                Ok(_slot) => self.serve(reader, &mut replies).await,
                Err(_) => {
                    let failed = CallFailed::new(429, "this node has too many calls under way");
                    Err(failed.into())
                }
            };
            let last = match ended {
                Ok(()) => v1::node_reply::Reply::End(true),
                Err(CallEnd::Failed(CallFailed { status, message })) => {
                    v1::node_reply::Reply::Error(v1::NodeError { status, message })
                }
                Err(CallEnd::Gone) => return,
                Err(CallEnd::Stalled) => {
                    // What nobody has read is worth nothing without its end, and in the way.
                    let _ = replies.writer.into_inner().reset(0_u32.into());
                    return;
                }
            };
            if replies.send(last).await.is_ok() {
                // Finished already where the peer stopped reading.
                let _ = replies.writer.finish();
            }
        });
    }

    async fn serve(&self, mut reader: FrameReader, replies: &mut Replies) -> Result<(), CallEnd> {
        let frame = timeout(REQUEST_MAX, reader.expect())
            .await
            .map_err(|_| CallEnd::Gone)?
            .map_err(|_| CallEnd::Gone)?;
        let message: v1::NodeRequest =
            from_frame(frame.kind, frame.body).map_err(|error| CallFailed::bad(chain(&error)))?;
        let request = message
            .request
            .ok_or_else(|| CallFailed::bad("a request that this node does not know"))?;
        let request = match request {
            Request::HostStats(v1::HostStatsRequest {}) => return self.host_stats(replies).await,
            Request::CollectGarbage(v1::CollectGarbageRequest {}) => {
                return self.collect_garbage(&message.alloc_id).await;
            }
            Request::ReadMeta(v1::ReadMetaRequest {}) => return self.read_meta(replies).await,
            Request::ApplyMeta(request) => return self.apply_meta(request, replies).await,
            Request::Foreign(v1::ForeignRequest {}) => {
                let wish = ForeignWish::List;
                return self.foreign(&message.alloc_id, wish, replies).await;
            }
            Request::ReleaseForeign(v1::ReleaseForeignRequest {}) => {
                let wish = ForeignWish::Release;
                return self.foreign(&message.alloc_id, wish, replies).await;
            }
            of_alloc => of_alloc,
        };
        let alloc = alloc_of(&message.alloc_id)?;
        let view = self.view(alloc).await?;
        match request {
            Request::Logs(request) => {
                tokio::select! {
                    ended = self.logs(&view, &request, replies) => ended,
                    () = broken(reader) => Err(CallEnd::Gone),
                }
            }
            Request::FsRead(request) => {
                tokio::select! {
                    ended = self.fs_read(&view, &request, replies) => ended,
                    () = broken(reader) => Err(CallEnd::Gone),
                }
            }
            Request::FsList(request) => self.fs_list(&view, &request, replies).await,
            Request::FsStat(request) => self.fs_stat(&view, &request, replies).await,
            Request::Stats(request) => self.stats(&view, &request, replies).await,
            Request::Restart(request) => self.restart(alloc, request, replies).await,
            Request::Signal(request) => self.signal(alloc, request, replies).await,
            Request::Exec(request) => self.exec(&view, request, reader, replies).await,
            Request::HostStats(_)
            | Request::CollectGarbage(_)
            | Request::ReadMeta(_)
            | Request::ApplyMeta(_)
            | Request::Foreign(_)
            | Request::ReleaseForeign(_) => Ok(()),
        }
    }

    async fn view(&self, alloc: AllocId) -> Result<AllocView, CallEnd> {
        let (answer, view) = oneshot::channel();
        self.ask(Question::Alloc { alloc, answer }).await?;
        let view = view.await.map_err(|_| CallEnd::Gone)?;
        view.ok_or_else(|| {
            CallFailed::not_found(format!("Unknown allocation \"{alloc}\" on this node")).into()
        })
    }

    pub(in crate::calls) async fn ask(&self, question: Question) -> Result<(), CallEnd> {
        self.inputs
            .send(Input::Ask(question))
            .await
            .map_err(|_| CallEnd::Gone)
    }
}

fn alloc_of(bytes: &[u8]) -> Result<AllocId, CallFailed> {
    AllocId::from_slice(bytes).ok_or_else(|| CallFailed::bad("the allocation id is not 16 bytes"))
}

fn watch_files() -> Option<FileWatch> {
    match FileWatch::start() {
        Ok(files) => Some(files),
        Err(error) => {
            tracing::warn!(
                %error,
                "followed files are polled, since inotify has no instance left: raise \
                 fs.inotify.max_user_instances"
            );
            None
        }
    }
}

/// Ends when the caller's side breaks. A caller that has said everything still listens: that it
/// does not any more is seen by the next heartbeat.
async fn broken(mut reader: FrameReader) {
    loop {
        match reader.read().await {
            Ok(Some(_)) => {}
            Ok(None) => std::future::pending().await,
            Err(_) => return,
        }
    }
}
