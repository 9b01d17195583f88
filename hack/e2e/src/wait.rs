//! Waiting for something to become true, with a deadline and a reason.

use std::time::{Duration, Instant};

use anyhow::Context as _;

/// The pause between two questions: short beside what is waited for, long beside what asking costs.
const PAUSE: Duration = Duration::from_millis(20);

/// Asks until the answer is a value, and answers it. `Ok(None)` and errors both mean "not yet".
///
/// # Errors
/// When `patience` is over; the error has the last one that asking had.
pub async fn eventually<T>(
    what: &str,
    patience: Duration,
    mut ask: impl AsyncFnMut() -> anyhow::Result<Option<T>>,
) -> anyhow::Result<T> {
    let deadline = Instant::now() + patience;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let last = match tokio::time::timeout(left, ask()).await {
            Ok(Ok(Some(value))) => return Ok(value),
            Ok(Ok(None)) => anyhow::anyhow!("it is not so"),
            Ok(Err(error)) => error,
            Err(_) => anyhow::anyhow!("asking took until the deadline"),
        };
        if Instant::now() + PAUSE >= deadline {
            return Err(last).with_context(|| format!("{what}: not within {patience:?}"));
        }
        tokio::time::sleep(PAUSE).await;
    }
}
