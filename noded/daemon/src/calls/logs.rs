//! A task's output for a caller, once or as it comes.

use std::path::Path;
use std::sync::Arc;

use noded_keeper::io::{OutputStream, streams_are_gone};
use protocol_model::{AllocId, LogConfig};
use protocol_wire::v1;
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::follow::{Pace, send_chunk};
use super::log_cursor::{LogCursor, LogSource, Step};
use super::{CallEnd, CallFailed, CallServer, Replies};
use crate::alloc_dir::AllocDirError;
use crate::executor::Executor;
use crate::input::{AllocView, Liveness};

impl CallServer {
    pub(super) async fn logs(
        &self,
        view: &AllocView,
        request: &v1::LogsRequest,
        replies: &mut Replies,
    ) -> Result<(), CallEnd> {
        let alloc = view.spec.id();
        let task = &request.task;
        let Some(spec) = view.spec.task(task) else {
            let problem = format!("unknown task name {task:?}");
            return Err(CallFailed::not_found(problem).into());
        };
        let files_max = files_max(spec.log_config.as_ref());
        let mut pace = Pace::new();
        let mut cursor = loop {
            if let Some(cursor) = self.find(alloc, request, files_max, &mut pace).await? {
                break cursor;
            }
            if !request.follow || self.is_over(alloc, task).await? {
                return Ok(());
            }
            pace.wait(replies).await?;
        };
        let mut is_over = false;
        loop {
            pace.mark();
            let step = cursor
                .next()
                .await
                .map_err(|error| CallFailed::internal(&error))?;
            match step {
                Step::Chunk {
                    file,
                    offset,
                    bytes,
                } => {
                    send_chunk(&file, offset, bytes, "", replies).await?;
                }
                Step::Truncated { file } => {
                    send_chunk(&file, 0, Vec::new(), "file truncated", replies).await?;
                }
                Step::AtEnd if !request.follow || is_over => return Ok(()),
                Step::AtEnd => {
                    // One more look after it was over: what came in between is in the files.
                    is_over = self.is_over(alloc, task).await?;
                    if !is_over {
                        pace.wait(replies).await?;
                    }
                }
            }
        }
    }

    async fn find(
        &self,
        alloc: AllocId,
        request: &v1::LogsRequest,
        files_max: usize,
        pace: &mut Pace,
    ) -> Result<Option<LogCursor>, CallEnd> {
        let opened = self.look(move |node| {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY;
            let path = Path::new("alloc/logs");
            match node.allocs.open_beneath(alloc, path, flags) {
                Ok(directory) => Ok(Some(directory)),
                Err(AllocDirError::Operation {
                    source: Errno::NOENT,
                    ..
                }) => Ok(None),
                Err(
                    AllocDirError::Escapes { .. }
                    | AllocDirError::Operation {
                        source: Errno::NOTDIR,
                        ..
                    },
                ) => Err(CallFailed::bad("alloc/logs is not a directory any more").into()),
                Err(error) => Err(CallFailed::internal(&error).into()),
            }
        });
        let Some(directory) = opened.await? else {
            return Ok(None);
        };
        if request.follow {
            pace.watch(self.files.as_ref(), &directory);
        }
        let stream = if request.stderr {
            OutputStream::Stderr
        } else {
            OutputStream::Stdout
        };
        let source = LogSource {
            directory: Arc::new(directory),
            prefix: format!("{}.{}.", request.task, stream.as_str()),
            files_max,
            io: self.io.clone(),
        };
        let found = LogCursor::find(source, request.origin(), request.offset)
            .await
            .map_err(|error| CallFailed::internal(&error))?;
        Ok(found.ok())
    }

    /// Whether nothing will be written to the task's output any more, and all of it is in the
    /// files.
    async fn is_over(&self, alloc: AllocId, task: &str) -> Result<bool, CallEnd> {
        let view = match self.view(alloc).await {
            Ok(view) => view,
            // Destroyed meanwhile.
            Err(CallEnd::Failed(failed)) if failed.status == 404 => return Ok(true),
            Err(end) => return Err(end),
        };
        let alive = view
            .runs
            .iter()
            .any(|(run, liveness)| run.task == task && *liveness == Liveness::Alive);
        if alive || !view.over {
            return Ok(false);
        }
        let Some(owner) = Executor::log_owner(alloc, task) else {
            return Ok(true);
        };
        Ok(streams_are_gone(&self.executor.paths, &owner).unwrap_or(true))
    }
}

/// How many files a stream may have at a moment: one more than it keeps, while it is rotated.
fn files_max(config: Option<&LogConfig>) -> usize {
    let kept = config.map_or_else(|| LogConfig::default().max_files(), LogConfig::max_files);
    usize::try_from(kept)
        .unwrap_or(usize::MAX)
        .saturating_add(1)
}
