//! A network of UDP in memory: packets get lost, take their time, overtake each other, and are held
//! up by cuts between any two machines, in either direction.
//!
//! ```text
//!   socket --try_send--> cut? lost? --delay--> postman --> inbox --poll_recv--> socket
//! ```
//!
//! A delay is whole milliseconds, as timers are: what arrives in one millisecond arrives in the
//! order in which it was sent, unless the weather mixes it up.

pub mod socket;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use hack_sim::rng::Rng;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

pub use socket::SimSocket;

/// A host, by its number: servers first.
pub type Machine = u8;

/// The port of servers.
pub const SERVER_PORT: u16 = 4647;
/// Packets that wait to be read; further ones are lost, as in a socket's buffer.
const INBOX_MAX: usize = 4096;

/// What the weather is like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Weather {
    /// Packets that are lost, in a thousand.
    pub loss: u64,
    /// The shortest way, in milliseconds.
    pub delay_ms: u64,
    /// What is added at random, in milliseconds: with it packets overtake each other.
    pub jitter_ms: u64,
}

impl Weather {
    /// A quiet data center.
    pub const CALM: Self = Self {
        loss: 0,
        delay_ms: 1,
        jitter_ms: 0,
    };
}

/// The address of a machine.
pub fn address_of(machine: Machine, port: u16) -> SocketAddr {
    ([10, 0, 0, machine + 1], port).into()
}

/// Whose address it is.
fn machine_of(address: SocketAddr) -> Option<Machine> {
    match address {
        SocketAddr::V4(v4) => v4.ip().octets()[3].checked_sub(1),
        SocketAddr::V6(_) => None,
    }
}

/// The network. Clones are the same one.
#[derive(Debug, Clone)]
pub struct Network {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    inner: Mutex<Inner>,
    /// There is a packet that is due before all others.
    earlier: Notify,
}

#[derive(Debug)]
struct Inner {
    begun: Instant,
    inboxes: BTreeMap<SocketAddr, Arc<Inbox>>,
    /// Packets on their way, by the millisecond in which they arrive.
    flying: BTreeMap<u64, Vec<Packet>>,
    /// How often each direction between two machines is cut: faults overlap.
    cuts: BTreeMap<(Machine, Machine), u32>,
    /// What is added to every packet of a machine, in milliseconds.
    slow_ms: BTreeMap<Machine, u64>,
    weather: Weather,
    rng: Rng,
    counts: NetCounts,
}

/// What became of packets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NetCounts {
    pub sent: u64,
    pub lost: u64,
    pub cut: u64,
}

#[derive(Debug)]
struct Packet {
    from: SocketAddr,
    to: SocketAddr,
    bytes: Vec<u8>,
}

/// What arrived at a socket.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    packets: VecDeque<Packet>,
    reader: Option<Waker>,
    unplugged: bool,
}

impl Network {
    /// An empty network, and its postman, on the current runtime.
    pub fn new(rng: Rng) -> Self {
        let inner = Inner {
            begun: Instant::now(),
            inboxes: BTreeMap::new(),
            flying: BTreeMap::new(),
            cuts: BTreeMap::new(),
            slow_ms: BTreeMap::new(),
            weather: Weather::CALM,
            rng,
            counts: NetCounts::default(),
        };
        let shared = Arc::new(Shared {
            inner: Mutex::new(inner),
            earlier: Notify::new(),
        });
        tokio::spawn(carry(Arc::clone(&shared)));
        Self { shared }
    }

    /// A socket at `address`; one that was there before hears nothing more.
    pub fn bind(&self, address: SocketAddr) -> Arc<SimSocket> {
        let inbox = Arc::new(Inbox::default());
        let before = self
            .shared
            .inner
            .lock()
            .inboxes
            .insert(address, Arc::clone(&inbox));
        if let Some(before) = before {
            before.waiting.lock().unplugged = true;
        }
        Arc::new(SimSocket::new(self.clone(), address, inbox))
    }

    /// Pulls the plug of a machine: nobody hears anything of its sockets any more, nor do they. It
    /// is how a process ends that is killed.
    pub fn unplug(&self, machine: Machine) {
        let mut inner = self.shared.inner.lock();
        inner.inboxes.retain(|address, inbox| {
            let goes = machine_of(*address) == Some(machine);
            if goes {
                inbox.waiting.lock().unplugged = true;
            }
            !goes
        });
    }

    /// Cuts what goes from one machine to another, once more.
    pub fn cut(&self, from: Machine, to: Machine) {
        *self.shared.inner.lock().cuts.entry((from, to)).or_default() += 1;
    }

    /// Takes one cut back.
    pub fn mend(&self, from: Machine, to: Machine) {
        let mut inner = self.shared.inner.lock();
        if let Some(count) = inner.cuts.get_mut(&(from, to)) {
            *count = count.saturating_sub(1);
        }
    }

    /// Whether what goes from one machine to another gets through.
    pub fn passes(&self, from: Machine, to: Machine) -> bool {
        self.shared.inner.lock().passes(from, to)
    }

    /// Changes the weather.
    pub fn set_weather(&self, weather: Weather) {
        self.shared.inner.lock().weather = weather;
    }

    /// Makes everything to and from a machine take this much longer; zero = not longer.
    pub fn set_slow(&self, machine: Machine, extra: Duration) {
        let millis = u64::try_from(extra.as_millis()).unwrap_or(u64::MAX);
        self.shared.inner.lock().slow_ms.insert(machine, millis);
    }

    /// Everything is well: no cuts, calm weather, nobody slow.
    pub fn heal(&self) {
        let mut inner = self.shared.inner.lock();
        inner.cuts.clear();
        inner.slow_ms.clear();
        inner.weather = Weather::CALM;
    }

    /// What became of packets so far.
    pub fn counts(&self) -> NetCounts {
        self.shared.inner.lock().counts
    }

    /// Sends a packet. Nobody is told what becomes of it.
    fn send(&self, packet: Packet) {
        let mut inner = self.shared.inner.lock();
        let Some(due) = inner.fate(&packet) else {
            return;
        };
        let first = inner.flying.first_key_value().map(|(at, _)| *at);
        inner.flying.entry(due).or_default().push(packet);
        if first.is_none_or(|first| due < first) {
            self.shared.earlier.notify_one();
        }
    }
}

impl Inner {
    fn passes(&self, from: Machine, to: Machine) -> bool {
        self.cuts.get(&(from, to)).is_none_or(|count| *count == 0)
    }

    /// In which millisecond a packet arrives; `None` = it does not.
    fn fate(&mut self, packet: &Packet) -> Option<u64> {
        self.counts.sent += 1;
        let (from, to) = (machine_of(packet.from)?, machine_of(packet.to)?);
        if !self.passes(from, to) {
            self.counts.cut += 1;
            return None;
        }
        let Weather {
            loss,
            delay_ms,
            jitter_ms,
        } = self.weather;
        if loss > 0 && self.rng.chance(loss) {
            self.counts.lost += 1;
            return None;
        }
        let slow = |machine| self.slow_ms.get(&machine).copied().unwrap_or(0);
        let slow = slow(from) + slow(to);
        let jitter = match jitter_ms {
            0 => 0,
            jitter => self.rng.below(jitter + 1),
        };
        Some(self.now_ms() + delay_ms + jitter + slow)
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// What has arrived by now.
    fn arrived(&mut self) -> Vec<Packet> {
        let now = self.now_ms();
        let mut arrived = Vec::new();
        while let Some(first) = self.flying.first_entry()
            && *first.key() <= now
        {
            arrived.extend(first.remove());
        }
        arrived
    }

    /// When the next packet arrives.
    fn next(&self) -> Option<Instant> {
        let (first, _) = self.flying.first_key_value()?;
        Some(self.begun + Duration::from_millis(*first))
    }
}

/// Carries packets to their inboxes for as long as the network is used.
async fn carry(shared: Arc<Shared>) {
    loop {
        let (next, arrived) = {
            let mut inner = shared.inner.lock();
            let arrived = inner.arrived();
            (inner.next(), arrived)
        };
        for packet in arrived {
            let inbox = shared.inner.lock().inboxes.get(&packet.to).cloned();
            if let Some(inbox) = inbox {
                inbox.put(packet);
            }
        }
        match next {
            Some(next) => tokio::select! {
                () = sleep_until(next) => {}
                () = shared.earlier.notified() => {}
            },
            None => shared.earlier.notified().await,
        }
    }
}

impl Inbox {
    fn put(&self, packet: Packet) {
        let mut waiting = self.waiting.lock();
        if waiting.unplugged || waiting.packets.len() >= INBOX_MAX {
            return;
        }
        waiting.packets.push_back(packet);
        let reader = waiting.reader.take();
        drop(waiting);
        if let Some(reader) = reader {
            reader.wake();
        }
    }
}
