//! Looking after the table of mapped ports, which other programs can remove.

use std::sync::Arc;
use std::time::Duration;

use protocol_error_chain::chain;

use crate::executor::Executor;

/// Between two looks. One takes about 5 ms of another process, and none is made while no
/// allocation has a network of mode bridge.
const PAUSE: Duration = Duration::from_secs(10);

/// Heals the table every ten seconds, until the node ends. A fault is said once, until it changes.
pub(crate) async fn look_after(executor: Arc<Executor>) {
    let mut said = String::new();
    loop {
        tokio::time::sleep(PAUSE).await;
        let looker = Arc::clone(&executor);
        let Ok(healed) = tokio::task::spawn_blocking(move || looker.networks.heal()).await else {
            continue;
        };
        let problem = healed.err().map_or_else(String::new, |error| chain(&error));
        if problem != said && !problem.is_empty() {
            tracing::error!(
                error = %problem,
                "the table of mapped ports cannot be looked after; some may not answer"
            );
        }
        said = problem;
    }
}
