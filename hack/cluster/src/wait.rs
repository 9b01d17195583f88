//! Waiting for something to become true, with a deadline and a reason.

use std::time::{Duration, Instant};

use anyhow::Context as _;

/// The pause between two questions: short beside what is waited for, long beside what asking costs.
const PAUSE: Duration = Duration::from_millis(20);

/// Asks until the answer is a value, and answers it. `Ok(None)` and errors both mean "not yet".
///
/// # Errors
/// When `patience` is over; the error has the last answer that there was.
pub async fn eventually<T>(
    what: &str,
    patience: Duration,
    mut ask: impl AsyncFnMut() -> anyhow::Result<Option<T>>,
) -> anyhow::Result<T> {
    let deadline = Instant::now() + patience;
    let mut last = anyhow::anyhow!("there was no answer at all");
    let late = |last| Err(last).with_context(|| format!("{what}: not within {patience:?}"));
    loop {
        let asked = Instant::now();
        let left = deadline.saturating_duration_since(asked);
        last = match tokio::time::timeout(left, ask()).await {
            Ok(Ok(Some(value))) => return Ok(value),
            Ok(Ok(None)) => anyhow::anyhow!("it is not so"),
            Ok(Err(error)) => error,
            Err(_) => {
                let took = asked.elapsed();
                return late(
                    last.context(format!("{took:?} without an answer since the last one")),
                );
            }
        };
        if Instant::now() + PAUSE >= deadline {
            return late(last);
        }
        tokio::time::sleep(PAUSE).await;
    }
}
