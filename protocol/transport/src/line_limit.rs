//! Bounds the log lines that peers and clients cause: a flood of bad requests must not become a
//! flood of lines. One [`LineLimit`] stands beside each line that somebody outside can cause.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Lines of one kind that are written within [`WINDOW`]: enough to see what happens.
const LINES_MAX: u64 = 10;
const WINDOW: Duration = Duration::from_secs(1);

/// At most ten lines a second; the others are counted.
///
/// ```text
/// static REFUSED: LineLimit = LineLimit::new();
/// if let Some(left_out) = REFUSED.admit() {
///     tracing::warn!(left_out, "peer refused");
/// }
/// ```
#[derive(Debug, Default)]
pub struct LineLimit(Mutex<Lines>);

#[derive(Debug, Default)]
struct Lines {
    /// When the window began; `None` before the first line.
    since: Option<Instant>,
    written: u64,
    /// Since the last line that was written.
    left_out: u64,
}

impl LineLimit {
    /// No line was written yet.
    pub const fn new() -> Self {
        Self(Mutex::new(Lines {
            since: None,
            written: 0,
            left_out: 0,
        }))
    }

    /// Whether one more line is written: `Some` with how many were left out since the last one, or
    /// `None` where this one is left out, too.
    pub fn admit(&self) -> Option<u64> {
        // Ignores poisoning: each change is a whole assignment.
        let mut lines = self.0.lock();
        lines.admit(Instant::now())
    }
}

impl Lines {
    fn admit(&mut self, now: Instant) -> Option<u64> {
        let is_over = |since: Instant| now.saturating_duration_since(since) >= WINDOW;
        if self.since.is_none_or(is_over) {
            self.since = Some(now);
            self.written = 0;
        }
        if self.written == LINES_MAX {
            self.left_out = self.left_out.saturating_add(1);
            return None;
        }
        self.written += 1;
        Some(std::mem::take(&mut self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_lines_a_second_are_written_and_the_others_counted() {
        let (mut lines, now) = (Lines::default(), Instant::now());
        let admitted = |lines: &mut Lines, at| (0..1000).filter_map(|_| lines.admit(at)).collect();
        let first: Vec<u64> = admitted(&mut lines, now);
        assert_eq!(first, [0; 10]);
        let later = now + Duration::from_millis(999);
        assert_eq!(lines.admit(later), None);
        let second: Vec<u64> = admitted(&mut lines, now + WINDOW);
        assert_eq!(second, [991, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn rare_lines_are_all_written() {
        let (mut lines, now) = (Lines::default(), Instant::now());
        for second in 0..100 {
            assert_eq!(lines.admit(now + second * WINDOW / 5), Some(0));
        }
    }
}
