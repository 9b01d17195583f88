//! The same with `pread`, one file after the other.

use std::os::unix::fs::FileExt;

use tokio::sync::mpsc;
use tokio::task::LocalSet;

use super::{Open, ReadAt};

pub(super) fn run(mut opens: mpsc::Receiver<Open>) {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::error!(%error, "the io thread cannot run; task files cannot be read");
            return;
        }
    };
    let tasks = LocalSet::new();
    tasks.block_on(&runtime, async move {
        while let Some(open) = opens.recv().await {
            tokio::task::spawn_local(serve(open));
        }
    });
    // Files that are still open are read on until their readers go.
    runtime.block_on(tasks);
}

async fn serve(open: Open) {
    let Open { file, mut reads } = open;
    while let Some(ReadAt {
        offset,
        bytes_max,
        answer,
    }) = reads.recv().await
    {
        let mut bytes = vec![0; bytes_max];
        let result = file.read_at(&mut bytes, offset).map(|count| {
            bytes.truncate(count);
            bytes
        });
        // Whoever asked may have gone away.
        let _ = answer.send(result);
    }
}
