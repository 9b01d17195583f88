//! How far this server is behind with what it receives: it sends itself datagrams, over a
//! connection like any node's, and measures when it reads them.
//!
//! ```text
//!   probe --100 ms--> QUIC --> socket --> QUIC --> read --> delay
//!                                 ^ behind the heartbeats that arrived before
//! ```
//!
//! A datagram that is read shows that the heartbeats which arrived before it are read, too. While
//! this server is late, the leader lets no node expire: its heartbeats may be waiting here.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use controlplane_leader::Reading;
use controlplane_leader::pace::Pace;
use parking_lot::Mutex;
use protocol_transport::Endpoint;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

use super::Gateway;

/// From one datagram to the next.
const PROBE_EVERY: Duration = Duration::from_millis(100);
/// A delay that is no lateness: heartbeats may be this late, since a node is silent only after
/// `heartbeat_silence` (2.6 s).
const LATE_AFTER: Duration = Duration::from_millis(500);
/// How long a server stays late: what waited is read by then, and reported.
const LATE_FOR: Duration = Duration::from_secs(1);
/// Unread datagrams whose sending times are kept: as many as are sent in [`UNKNOWN_AFTER`].
const WAITING_MAX: usize = 300;
/// Without its connection for longer, nothing is known of the delay.
const UNKNOWN_AFTER: Duration = Duration::from_secs(30);
/// A delay for which a server asks for fewer heartbeats.
const PACED_DELAY: Duration = Duration::from_millis(101);
/// Between two attempts to connect.
const CONNECT_PAUSE: Duration = Duration::from_secs(1);

/// The delay of this server's own datagrams, and the pace that follows from it.
#[derive(Debug, Default)]
pub struct Lateness {
    probes: Mutex<Probes>,
    pace: Mutex<Pace>,
}

impl Lateness {
    /// Whether heartbeats that arrived may be unread at `now`. Logs each change.
    pub fn reading(&self, now: Instant) -> Reading {
        let mut probes = self.probes.lock();
        let before = probes.told;
        let reading = probes.reading(now);
        probes.told = reading;
        match (before, reading) {
            (Reading::InTime, Reading::Late) => tracing::warn!(
                delay_ms = probes.worst.as_millis(),
                "this server is behind with what it receives; no node expires until it has caught \
                 up. It needs more processor time, or fewer nodes"
            ),
            (Reading::Late, Reading::InTime) => {
                let longest = std::mem::take(&mut probes.worst);
                tracing::info!(
                    longest_delay_ms = longest.as_millis(),
                    "this server has caught up with what it receives"
                );
            }
            // Nothing changed.
            _ => {}
        }
        reading
    }

    /// The shortest time between two heartbeats of a node that this server can bear; zero = any.
    pub fn pace(&self) -> Duration {
        self.pace.lock().now()
    }

    /// The `number`th datagram is sent at `now`, which was to be sent at `planned`. The delay of
    /// what this server receives, since the last time.
    fn on_sent(&self, number: u64, planned: Instant, now: Instant) -> Duration {
        let delay = {
            let mut probes = self.probes.lock();
            probes.on_sent(number, now);
            probes.take_longest(now)
        };
        delay.max(now.saturating_duration_since(planned))
    }

    /// Reads this server's datagrams from a connection of a server's, until it ends.
    pub(crate) async fn read(&self, connection: &quinn::Connection) {
        while let Ok(datagram) = connection.read_datagram().await {
            if let Ok(number) = <[u8; 8]>::try_from(datagram.as_ref()) {
                let number = u64::from_be_bytes(number);
                self.probes.lock().on_read(number, Instant::now());
            }
        }
    }
}

/// Sends this server datagrams for as long as it runs.
pub async fn probe(gateway: Arc<Gateway>, endpoint: Endpoint) {
    let (mut number, mut failed) = (0, false);
    let started = Instant::now();
    loop {
        match connect(&endpoint).await {
            Ok(connection) => {
                failed = false;
                let mut tick = interval(PROBE_EVERY);
                tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
                while connection.close_reason().is_none() {
                    let planned = tick.tick().await;
                    number += 1;
                    let now = Instant::now();
                    let delay = gateway.lateness.on_sent(number, planned, now);
                    note_delay(&gateway, delay, now, started);
                    let bytes = Bytes::copy_from_slice(&u64::to_be_bytes(number));
                    // A full buffer drops the oldest: until a newer one is read, that is a delay.
                    let _ = connection.send_datagram(bytes);
                }
            }
            Err(error) => {
                // Nothing is known of the delay: what was asked of nodes is taken back by and by.
                note_delay(&gateway, Duration::ZERO, Instant::now(), started);
                // Once, until it succeeds: the cause stays as a rule.
                if !std::mem::replace(&mut failed, true) {
                    tracing::warn!(
                        %error,
                        "this server cannot connect to itself: it cannot measure whether it is \
                         late, and the leader takes it as in time. It tries again every second"
                    );
                }
            }
        }
        sleep(CONNECT_PAUSE).await;
    }
}

/// The pace of heartbeats and the places at the door follow a delay. `started` begins their clock.
fn note_delay(gateway: &Gateway, delay: Duration, now: Instant, started: Instant) {
    // Nodes that wait for a session need the time that heartbeats take.
    let felt = match gateway.admission.is_crowded(now) {
        true => delay.max(PACED_DELAY),
        false => delay,
    };
    let clock = now.saturating_duration_since(started);
    gateway.lateness.pace.lock().on_delay(felt, clock);
    gateway.admission.on_delay(delay, now);
}

async fn connect(endpoint: &Endpoint) -> Result<quinn::Connection, String> {
    let address = endpoint
        .local_address()
        .map_err(|error| error.to_string())?;
    let connected = endpoint.connect(reachable(address)).await;
    connected.map_err(|error| error.to_string())
}

/// Where a socket that is bound to all addresses can be reached from its own host.
fn reachable(bound: SocketAddr) -> SocketAddr {
    let ip = match bound.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, bound.port())
}

/// The datagrams on their way. Numbers rise by one.
#[derive(Debug, Default)]
struct Probes {
    /// The oldest that are newer than the newest that was read, at most [`WAITING_MAX`].
    waiting: VecDeque<(u64, Instant)>,
    /// When the newest was sent.
    sent: Option<Instant>,
    late_until: Option<Instant>,
    /// The longest delay since this server became late.
    worst: Duration,
    /// The longest delay since it was asked for.
    longest: Duration,
    /// The last reading in the log.
    told: Reading,
}

impl Probes {
    fn on_sent(&mut self, number: u64, now: Instant) {
        if self.waiting.len() < WAITING_MAX {
            self.waiting.push_back((number, now));
        }
        self.sent = Some(now);
    }

    fn on_read(&mut self, number: u64, now: Instant) {
        // The delay until now counts, although it is over.
        self.reading(now);
        self.longest = self.longest.max(self.delay(now));
        let is_older = |(waiting, _): &(u64, Instant)| *waiting <= number;
        while self.waiting.front().is_some_and(is_older) {
            self.waiting.pop_front();
        }
    }

    /// How long the oldest that is not read has waited.
    fn delay(&self, now: Instant) -> Duration {
        let waits = |(_, since): &(u64, Instant)| now.saturating_duration_since(*since);
        self.waiting.front().map_or(Duration::ZERO, waits)
    }

    fn take_longest(&mut self, now: Instant) -> Duration {
        std::mem::take(&mut self.longest).max(self.delay(now))
    }

    fn reading(&mut self, now: Instant) -> Reading {
        let unsent = self.sent.map(|at| now.saturating_duration_since(at));
        if unsent.is_none_or(|unsent| unsent > UNKNOWN_AFTER) {
            return Reading::InTime;
        }
        let delay = self.delay(now);
        if delay > LATE_AFTER {
            self.late_until = Some(now + LATE_FOR);
            self.worst = self.worst.max(delay);
        }
        match self.late_until.is_some_and(|until| now < until) {
            true => Reading::Late,
            false => Reading::InTime,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn a_server_is_late_while_its_oldest_datagram_waits_and_a_second_longer() {
        let (start, mut probes) = (Instant::now(), Probes::default());
        assert_eq!(probes.reading(start), Reading::InTime, "nothing was sent");
        for number in 0..=9 {
            probes.on_sent(number, start + ms(100 * number));
        }
        assert_eq!(probes.delay(start + ms(500)), ms(500));
        assert_eq!(probes.reading(start + ms(500)), Reading::InTime);
        assert_eq!(probes.reading(start + ms(501)), Reading::Late);
        // The seventh is read: the eighth was sent at 700 ms.
        probes.on_read(6, start + ms(900));
        assert_eq!(probes.delay(start + ms(900)), ms(200));
        probes.on_read(9, start + ms(910));
        assert_eq!(probes.delay(start + ms(1000)), Duration::ZERO);
        assert_eq!(probes.reading(start + ms(1899)), Reading::Late);
        assert_eq!(probes.reading(start + ms(1900)), Reading::InTime);
    }

    #[test]
    fn a_delay_counts_from_the_sending_however_rarely_datagrams_are_sent() {
        let (start, mut probes) = (Instant::now(), Probes::default());
        probes.on_sent(1, start);
        probes.on_sent(2, start + ms(100));
        // No processor time for a second.
        probes.on_sent(3, start + ms(1100));
        probes.on_read(1, start + ms(1150));
        assert_eq!(probes.delay(start + ms(1150)), ms(1050));
        assert_eq!(probes.worst, ms(1150));
    }

    #[test]
    fn unread_datagrams_are_bounded() {
        let (start, mut probes) = (Instant::now(), Probes::default());
        for number in 0..1000 {
            probes.on_sent(number, start + ms(100 * number));
        }
        assert_eq!(probes.waiting.len(), WAITING_MAX);
        assert_eq!(probes.delay(start + ms(100_000)), ms(100_000));
        probes.on_read(999, start + ms(100_000));
        assert_eq!(probes.delay(start + ms(100_000)), Duration::ZERO);
    }

    #[test]
    fn a_datagram_that_is_lost_counts_until_a_newer_one_is_read() {
        let (start, mut probes) = (Instant::now(), Probes::default());
        probes.on_sent(1, start);
        probes.on_sent(2, start + ms(100));
        probes.on_read(2, start + ms(101));
        // It was overtaken by the other.
        probes.on_read(1, start + ms(102));
        assert_eq!(probes.delay(start + ms(150)), Duration::ZERO);
        assert_eq!(probes.reading(start + ms(150)), Reading::InTime);
    }

    #[test]
    fn without_a_connection_lateness_is_unknown_after_a_while() {
        let (start, mut probes) = (Instant::now(), Probes::default());
        probes.on_sent(1, start);
        assert_eq!(probes.reading(start + ms(29_000)), Reading::Late);
        assert_eq!(probes.reading(start + ms(31_000)), Reading::InTime);
    }

    #[test]
    fn a_socket_on_all_addresses_is_reached_on_loopback() {
        for (bound, at) in [
            ("0.0.0.0:7", "127.0.0.1:7"),
            ("[::]:7", "[::1]:7"),
            ("10.0.0.1:7", "10.0.0.1:7"),
        ] {
            assert_eq!(reachable(bound.parse().unwrap()), at.parse().unwrap());
        }
    }
}
