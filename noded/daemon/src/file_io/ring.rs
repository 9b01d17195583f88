//! Reads on io_uring. No read is put under a timeout or a select: a dropped operation would go on
//! in the kernel.

use std::io;

use tokio::sync::mpsc;

use super::{Open, ReadAt};

/// Reads in flight are one per file.
const ENTRIES: u32 = 256;

/// Whether the host allows a ring: seccomp profiles and `kernel.io_uring_disabled` may not.
pub(super) fn probe() -> io::Result<()> {
    // As large as it will be: the limit of locked memory may allow a small one only.
    io_uring::IoUring::new(ENTRIES).map(drop)
}

pub(super) fn run(mut opens: mpsc::Receiver<Open>) {
    let mut builder = tokio_uring::builder();
    builder.entries(ENTRIES);
    builder.start(async move {
        let mut files = Vec::new();
        while let Some(open) = opens.recv().await {
            files.retain(|task: &tokio::task::JoinHandle<()>| !task.is_finished());
            files.push(tokio_uring::spawn(serve(open)));
        }
        // The runtime must not go while an operation is under way.
        for task in files {
            let _ = task.await;
        }
    });
}

async fn serve(open: Open) {
    let Open { file, mut reads } = open;
    let file = tokio_uring::fs::File::from_std(file);
    while let Some(ReadAt {
        offset,
        bytes_max,
        answer,
    }) = reads.recv().await
    {
        let (result, mut bytes) = file.read_at(Vec::with_capacity(bytes_max), offset).await;
        let result = result.map(|count| {
            bytes.truncate(count);
            bytes
        });
        // Whoever asked may have gone away.
        let _ = answer.send(result);
    }
    if let Err(error) = file.close().await {
        tracing::debug!(%error, "closing a task's file");
    }
}
