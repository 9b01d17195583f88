//! Datagrams that arrive late: they wait, each until its own moment, and overtake each other where
//! chance says so.
//!
//! ```text
//!   socket --poll_recv--> each datagram's fate --> waits --due--> the endpoint
//!   a connection --try_send--> each datagram's fate --> waits --due--> socket
//! ```

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use quinn::udp::{EcnCodepoint, RecvMeta, Transmit};
use quinn::{AsyncUdpSocket, UdpPoller};
use tokio::sync::mpsc;
use tokio::time::{Instant, Sleep};

use super::weather::{Direction, Fate, Sky, Weather};

/// Datagrams that wait in one direction; further ones are lost, as in any queue of a network.
pub(super) const WAITING_MAX: usize = 65_536;
/// How often it is looked whether something is to leave: timers are no finer.
const TICK: Duration = Duration::from_millis(1);

/// What waits, by when it is due; of the same moment, in the order it came.
#[derive(Debug)]
struct Waiting<T> {
    by_due: BTreeMap<(Instant, u64), T>,
    pushed: u64,
}

impl<T> Default for Waiting<T> {
    fn default() -> Self {
        Self {
            by_due: BTreeMap::new(),
            pushed: 0,
        }
    }
}

impl<T> Waiting<T> {
    fn push(&mut self, due: Instant, what: T) {
        if self.by_due.len() < WAITING_MAX {
            self.pushed += 1;
            self.by_due.insert((due, self.pushed), what);
        }
    }

    fn pop_due(&mut self, now: Instant) -> Option<T> {
        let first = self.by_due.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }

    fn next_due(&self) -> Option<Instant> {
        let ((due, _), _) = self.by_due.first_key_value()?;
        Some(*due)
    }
}

/// What arrived and waits.
#[derive(Debug, Default)]
pub(super) struct Late {
    waiting: Waiting<(Vec<u8>, RecvMeta)>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Late {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.by_due.is_empty()
    }

    /// Takes in datagrams that the kernel handed over together: each has a fate of its own.
    pub(super) fn take_in(&mut self, packets: &[u8], meta: RecvMeta, weather: Weather, sky: &Sky) {
        let now = Instant::now();
        for packet in packets.chunks(meta.stride.max(1)) {
            if let Fate::Arrives { late } = sky.next_fate(weather, Direction::ToNode) {
                let (len, stride) = (packet.len(), packet.len());
                let meta = RecvMeta {
                    len,
                    stride,
                    ..meta
                };
                self.waiting.push(now + late, (packet.to_vec(), meta));
            }
        }
    }

    /// What has waited long enough; registers to be woken where nothing has.
    pub(super) fn poll_due(
        &mut self,
        context: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        metas: &mut [RecvMeta],
    ) -> Poll<usize> {
        loop {
            let now = Instant::now();
            let mut count = 0;
            for (buffer, slot) in buffers.iter_mut().zip(metas.iter_mut()) {
                let Some((packet, meta)) = self.waiting.pop_due(now) else {
                    break;
                };
                buffer[..packet.len()].copy_from_slice(&packet);
                *slot = meta;
                count += 1;
            }
            if count > 0 {
                return Poll::Ready(count);
            }
            let Some(due) = self.waiting.next_due() else {
                self.timer = None;
                return Poll::Pending;
            };
            let mut timer = Box::pin(tokio::time::sleep_until(due));
            if timer.as_mut().poll(context).is_pending() {
                self.timer = Some(timer);
                return Poll::Pending;
            }
        }
    }
}

/// A datagram that leaves later.
#[derive(Debug)]
pub(super) struct Leaving {
    destination: SocketAddr,
    ecn: Option<EcnCodepoint>,
    src_ip: Option<IpAddr>,
    contents: Vec<u8>,
}

/// Where datagrams wait that leave later. They do so whatever becomes of their connection, as what
/// is on a network does.
#[derive(Debug)]
pub(super) struct Leavers(mpsc::Sender<(Instant, Leaving)>);

impl Leavers {
    /// Sends through `inner`, from a task that ends with this, and when nothing waits.
    pub(super) fn start(inner: Arc<dyn AsyncUdpSocket>) -> Self {
        let (leavers, handed) = mpsc::channel(WAITING_MAX);
        tokio::spawn(send_when_due(inner, handed));
        Self(leavers)
    }

    /// Takes datagrams that were to leave together: each has a fate of its own.
    pub(super) fn take(&self, transmit: &Transmit<'_>, weather: Weather, sky: &Sky) {
        let now = Instant::now();
        let len = transmit.segment_size.unwrap_or(transmit.contents.len());
        for packet in transmit.contents.chunks(len.max(1)) {
            if let Fate::Arrives { late } = sky.next_fate(weather, Direction::ToServer) {
                let leaving = Leaving {
                    destination: transmit.destination,
                    ecn: transmit.ecn,
                    src_ip: transmit.src_ip,
                    contents: packet.to_vec(),
                };
                // Where the queue is full it is lost.
                let _ = self.0.try_send((now + late, leaving));
            }
        }
    }
}

async fn send_when_due(
    inner: Arc<dyn AsyncUdpSocket>,
    mut handed: mpsc::Receiver<(Instant, Leaving)>,
) {
    let mut poller = Arc::clone(&inner).create_io_poller();
    let mut waiting = Waiting::default();
    while let Some((due, leaving)) = handed.recv().await {
        waiting.push(due, leaving);
        while waiting.next_due().is_some() {
            tokio::time::sleep(TICK).await;
            while let Ok((due, leaving)) = handed.try_recv() {
                waiting.push(due, leaving);
            }
            let now = Instant::now();
            while let Some(leaving) = waiting.pop_due(now) {
                // What the kernel does not take is lost, as on any way.
                let _ = send(&*inner, &mut poller, &leaving).await;
            }
        }
    }
}

async fn send(
    inner: &dyn AsyncUdpSocket,
    poller: &mut Pin<Box<dyn UdpPoller>>,
    leaving: &Leaving,
) -> io::Result<()> {
    let transmit = Transmit {
        destination: leaving.destination,
        ecn: leaving.ecn,
        contents: &leaving.contents,
        segment_size: None,
        src_ip: leaving.src_ip,
    };
    loop {
        match inner.try_send(&transmit) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                poll_fn(|context| poller.as_mut().poll_writable(context)).await?;
            }
            done => return done,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_due_first_comes_first_and_what_is_due_together_comes_in_order() {
        let begin = Instant::now();
        let at = |millis| begin + Duration::from_millis(millis);
        let mut waiting = Waiting::default();
        for (millis, what) in [(30, "c"), (10, "a"), (30, "d"), (20, "b")] {
            waiting.push(at(millis), what);
        }
        assert_eq!(waiting.next_due(), Some(at(10)));
        assert_eq!(waiting.pop_due(at(9)), None);
        let due: Vec<&str> = std::iter::from_fn(|| waiting.pop_due(at(30))).collect();
        assert_eq!(due, ["a", "b", "c", "d"]);
        assert_eq!(waiting.next_due(), None);
    }

    #[test]
    fn a_full_queue_loses_what_comes() {
        let now = Instant::now();
        let mut waiting = Waiting::default();
        for number in 0..=WAITING_MAX {
            waiting.push(now, number);
        }
        let kept = std::iter::from_fn(|| waiting.pop_due(now));
        assert_eq!(kept.last(), Some(WAITING_MAX - 1));
    }

    #[test]
    fn every_datagram_that_arrived_with_others_has_a_fate_of_its_own() {
        let (sky, mut late) = (Sky::new(7), Late::default());
        let weather = Weather {
            loss_percent: 30,
            jitter: Duration::from_millis(300),
            delay: Duration::ZERO,
        };
        let mut meta = RecvMeta::default();
        (meta.len, meta.stride) = (999, 10);
        // Ninety-nine datagrams of ten bytes, and one of nine.
        late.take_in(&[1; 999], meta, weather, &sky);
        let arrive = (0..100)
            .filter(|number| weather.fate(Direction::ToNode, *number, 7) != Fate::Lost)
            .count();
        assert!((50..90).contains(&arrive), "{arrive}");
        assert_eq!(late.waiting.by_due.len(), arrive);
        for (packet, meta) in late.waiting.by_due.values() {
            assert_eq!((meta.len, meta.stride), (packet.len(), packet.len()));
        }
    }
}
