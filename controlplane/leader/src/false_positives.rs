//! How many nodes that live are taken for silent in bad weather, by the times that servers and
//! nodes keep. Pure arithmetic, for whoever sets those times.

use std::time::Duration;

/// The size and the span for which it is said.
const NODES: f64 = 5_000.0;
const SPAN: Duration = Duration::from_secs(600);
/// What is lost of all packets, and how late the others are at most.
const LOSS: f64 = 0.3;
const JITTER: Duration = Duration::from_millis(300);
/// A server tells the leader once in that time whom it heard.
const REPORT_EVERY: Duration = Duration::from_millis(200);

/// How many of 5,000 nodes that are well are expected to be taken for silent in ten minutes of
/// weather in which three of ten packets are lost and the others late by up to 300 ms: those of
/// which every heartbeat within `silence` is lost, or late, or with the leader too late, which
/// hears of it in its server's next report. Each is lost by itself, since none waits for those
/// before it. What is asked for is less than 0.01. Too many rather than too few: each heartbeat
/// counts as one that came at once and begins a silence, also those that are lost themselves.
///
/// The weather begins while all is calm: the first gap is `calm`, and after the first heartbeat
/// without an answer they come every `interval`, until it is over.
pub fn expected_false_positives(interval: Duration, calm: Duration, silence: Duration) -> f64 {
    let missed = |left: Duration| LOSS + (1.0 - LOSS) * later_than(left);
    let all_missed = |gap: Duration| {
        // What misses is a factor of 1 from the silence's end on, and small long before it.
        let step = interval.max(Duration::from_millis(1));
        let sent = std::iter::successors(Some(gap), |sent| Some(*sent + step));
        let within = sent.take_while(|sent| *sent < silence);
        within.map(|sent| missed(silence - sent)).product::<f64>()
    };
    NODES * (all_missed(calm) + SPAN.div_duration_f64(interval) * all_missed(interval))
}

/// How likely a heartbeat takes longer than `left` until the leader has heard of it: the sum of two
/// times that are equally likely anywhere in theirs.
fn later_than(left: Duration) -> f64 {
    let left = left.as_secs_f64();
    let (long, short) = (JITTER.as_secs_f64(), REPORT_EVERY.as_secs_f64());
    let area = long * short;
    if left <= short {
        1.0 - left * left / (2.0 * area)
    } else if left <= long {
        1.0 - (left - short / 2.0) / long
    } else {
        let rest = (long + short - left).max(0.0);
        rest * rest / (2.0 * area)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn how_late_a_heartbeat_is_lies_between_at_once_and_both_times_together() {
        assert!((later_than(Duration::ZERO) - 1.0).abs() < 1e-9);
        assert!((later_than(250 * MS) - 0.5).abs() < 1e-9, "the middle");
        assert!(later_than(500 * MS).abs() < 1e-9);
        let falls = (0..100).map(|step| later_than(step * 6 * MS));
        assert!(falls.is_sorted_by(|one, next| one >= next));
    }

    #[test]
    fn heartbeats_are_frequent_enough_for_bad_weather_and_a_large_cluster() {
        // As the servers are configured where nobody says otherwise.
        let expected = expected_false_positives(125 * MS, 500 * MS, 2_600 * MS);
        assert!(expected < 0.01, "{expected}");
        for (interval, calm, silence, enough) in [
            (250, 250, 2_600, false),
            (250, 250, 5_100, true),
            (500, 500, 10_000, true),
            (1_000, 1_000, 10_000, false),
            (125, 125, 2_000, false),
            (125, 650, 2_600, true),
            (125, 1_000, 2_600, false),
            (125, 9_000, 2_600, false),
        ] {
            let expected = expected_false_positives(interval * MS, calm * MS, silence * MS);
            let times = format!("{interval} ms, {calm} ms and {silence} ms: {expected}");
            assert_eq!(expected < 0.01, enough, "{times}");
        }
    }
}
