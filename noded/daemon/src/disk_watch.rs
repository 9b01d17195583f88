//! Sizes of ephemeral disks: measured now and then by one thread with the lowest priority, and
//! reported where one is above what its group asked for. Nothing is stopped.

use std::sync::Arc;

use protocol_model::AllocId;
use tokio::sync::{mpsc, oneshot};

use crate::alloc_dir::AllocRoot;
use crate::config::DiskWatch;
use crate::executor::Executor;
use crate::input::Input;

/// Behind everything else that wants the processor; the disk's queue follows it.
const NICE: i32 = 19;

/// Measures every `gc_interval` until the loop ends. The next pass begins after the one before.
pub(crate) async fn watch(executor: Arc<Executor>, inputs: mpsc::Sender<Input>) {
    loop {
        tokio::time::sleep(executor.config.now().upkeep.gc_interval).await;
        if executor.config.now().upkeep.ephemeral_disk == DiskWatch::Off {
            continue;
        }
        let Some(sizes) = measure(Arc::clone(&executor)).await else {
            continue;
        };
        tracing::debug!(allocs = sizes.len(), "ephemeral disks measured");
        if inputs.send(Input::DisksMeasured(sizes)).await.is_err() {
            return;
        }
    }
}

/// A thread of its own: its priority is not one for others, and a disk that hangs holds only it.
async fn measure(executor: Arc<Executor>) -> Option<Vec<(AllocId, u64)>> {
    let (answer, sizes) = oneshot::channel();
    let work = move || {
        if let Err(error) = rustix::process::setpriority_process(None, NICE) {
            tracing::debug!(%error, "ephemeral disks are measured with the usual priority");
        }
        // The receiver is gone when noded ends.
        let _ = answer.send(AllocRoot::sizes(&executor.allocs));
    };
    let thread = std::thread::Builder::new().name("disk-sizes".to_owned());
    if let Err(error) = thread.spawn(work) {
        tracing::warn!(%error, "ephemeral disks were not measured");
        return None;
    }
    sizes.await.ok()
}
