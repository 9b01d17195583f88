//! Packets that arrive late: what comes in waits for as long as the network is said to be. Each
//! round trip of a node takes that much longer, so that round trips can be counted.

use std::collections::VecDeque;
use std::future::Future;
use std::io::IoSliceMut;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use quinn::udp::RecvMeta;
use tokio::time::{Instant, Sleep};

/// Packets that wait; further ones are lost, as in any queue of a network.
const WAITING_MAX: usize = 65_536;

/// How long packets take, for all nodes. It may change at any time.
#[derive(Debug, Default)]
pub struct Lateness(AtomicU64);

impl Lateness {
    /// From now on packets take this much longer to arrive.
    pub fn set(&self, delay: Duration) {
        let micros = u64::try_from(delay.as_micros()).unwrap_or(u64::MAX);
        self.0.store(micros, Ordering::Relaxed);
    }

    /// How much longer packets take to arrive.
    pub fn now(&self) -> Duration {
        Duration::from_micros(self.0.load(Ordering::Relaxed))
    }
}

/// What arrived and waits, in order.
#[derive(Debug, Default)]
pub(super) struct Late {
    waiting: VecDeque<(Instant, Vec<u8>, RecvMeta)>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Late {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn push(&mut self, packets: &[u8], meta: RecvMeta, delay: Duration) {
        if self.waiting.len() < WAITING_MAX {
            let due = Instant::now() + delay;
            self.waiting.push_back((due, packets.to_vec(), meta));
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
                let Some((_, packets, meta)) = self.waiting.pop_front_if(|(due, ..)| *due <= now)
                else {
                    break;
                };
                buffer[..packets.len()].copy_from_slice(&packets);
                *slot = meta;
                count += 1;
            }
            if count > 0 {
                return Poll::Ready(count);
            }
            let Some((due, ..)) = self.waiting.front() else {
                self.timer = None;
                return Poll::Pending;
            };
            let mut timer = Box::pin(tokio::time::sleep_until(*due));
            if timer.as_mut().poll(context).is_pending() {
                self.timer = Some(timer);
                return Poll::Pending;
            }
        }
    }
}
