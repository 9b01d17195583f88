//! The look at all followed files of a node: one task, no process, no thread of its own.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;

use crate::clock;
use crate::executor::Executor;
use crate::input::Input;

/// Between two looks.
const INTERVAL: Duration = Duration::from_secs(2);

/// Looks until the executor or the loop ends. A disk that hangs holds up the next look, and nothing
/// else.
pub(crate) async fn look_at_files(executor: Weak<Executor>, inputs: mpsc::Sender<Input>) {
    let mut ticks = tokio::time::interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut behind = None;
    loop {
        ticks.tick().await;
        let Some(executor) = executor.upgrade() else {
            return;
        };
        let (looks, end) = executor.watch.next_look(behind.take());
        behind = end;
        if looks.is_empty() {
            continue;
        }
        let looker = Arc::clone(&executor);
        let found = tokio::task::spawn_blocking(move || {
            let found = looks.into_iter().map(|look| {
                let mark = looker.mark_of(look.task.0, &look.path);
                (look, mark)
            });
            found.collect()
        });
        let found = match found.await {
            Ok(found) => found,
            Err(error) => {
                tracing::error!(%error, "files of templates were not looked at");
                continue;
            }
        };
        for event in executor.watch.take(found, clock::moment()) {
            if inputs.send(Input::Event(event)).await.is_err() {
                return;
            }
        }
    }
}
