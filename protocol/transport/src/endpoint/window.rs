//! How much may be on its way: as the usual congestion control says, but never less than a floor.
//!
//! Where a third of all packets is lost, congestion control goes down to two packets and stays
//! there. One probe for a larger packet size, or ten small messages whose acknowledgements were
//! lost, are then all that a connection says until its probe timer ends, a second or three later: a
//! node would be taken for silent that had something to say all the time. What a session says is a
//! few hundred bytes a second. What is large (logs, checkpoints) goes on over such a way as any
//! connection begins: ten packets a round trip.

use std::any::Any;
use std::sync::Arc;
use std::time::Instant;

use quinn::congestion::{Controller, ControllerFactory, CubicConfig};
use quinn_proto::RttEstimator;

/// Bytes that may always be on their way: ten packets, as many as a connection begins with (RFC
/// 9002, section 7.2).
const WINDOW_BYTES_MIN: u64 = 12_000;

/// Makes the congestion control of each connection.
#[derive(Debug, Default)]
pub(super) struct Floored(Arc<CubicConfig>);

impl ControllerFactory for Floored {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        let inner = Arc::clone(&self.0).build(now, current_mtu);
        Box::new(FlooredController(inner))
    }
}

/// See the top of this file.
struct FlooredController(Box<dyn Controller>);

impl Controller for FlooredController {
    fn on_sent(&mut self, now: Instant, bytes: u64, last_packet_number: u64) {
        self.0.on_sent(now, bytes, last_packet_number);
    }

    fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        app_limited: bool,
        rtt: &RttEstimator,
    ) {
        self.0.on_ack(now, sent, bytes, app_limited, rtt);
    }

    fn on_end_acks(
        &mut self,
        now: Instant,
        in_flight: u64,
        app_limited: bool,
        largest_packet_num_acked: Option<u64>,
    ) {
        self.0
            .on_end_acks(now, in_flight, app_limited, largest_packet_num_acked);
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        is_persistent_congestion: bool,
        lost_bytes: u64,
    ) {
        self.0
            .on_congestion_event(now, sent, is_persistent_congestion, lost_bytes);
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.0.on_mtu_update(new_mtu);
    }

    fn window(&self) -> u64 {
        self.0.window().max(WINDOW_BYTES_MIN)
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(Self(self.0.clone_box()))
    }

    fn initial_window(&self) -> u64 {
        self.0.initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self.0.into_any()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_way_that_loses_everything_leaves_room_for_ten_packets() {
        let begin = Instant::now();
        let mut floored = Arc::new(Floored::default()).build(begin, 1_200);
        let mut usual = Arc::new(CubicConfig::default()).build(begin, 1_200);
        let before = floored.window();
        assert_eq!(before, usual.window());
        for second in 1..20 {
            let now = begin + Duration::from_secs(second);
            for control in [&mut floored, &mut usual] {
                control.on_congestion_event(now, now, true, 1_200);
            }
        }
        assert!(usual.window() < WINDOW_BYTES_MIN, "{}", usual.window());
        assert_eq!(floored.window(), WINDOW_BYTES_MIN);
        assert_eq!(floored.clone_box().window(), WINDOW_BYTES_MIN);
        assert!(before >= WINDOW_BYTES_MIN);
    }
}
