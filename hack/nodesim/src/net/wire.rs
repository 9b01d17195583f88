//! The wires of all nodes: which connection id belongs to whom, and what is cut.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;

/// Bytes of a connection id of ours (`protocol-transport` draws eight at random).
pub const CONNECTION_ID_BYTES: usize = 8;
/// A connection id of ours: what the server puts on every packet of that connection.
pub type ConnectionId = [u8; CONNECTION_ID_BYTES];

/// One node's way to the network.
#[derive(Debug, Default)]
pub struct Wire {
    cut: AtomicBool,
    dropped: AtomicU64,
}

impl Wire {
    /// Cuts it, or mends it.
    pub fn set_cut(&self, cut: bool) {
        self.cut.store(cut, Ordering::Relaxed);
    }

    /// Whether it is cut.
    pub fn is_cut(&self) -> bool {
        self.cut.load(Ordering::Relaxed)
    }

    /// Packets that a cut took.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Whether a packet gets through; counts one that does not.
    pub(super) fn passes(&self) -> bool {
        if self.is_cut() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        true
    }
}

/// Whose connection ids are whose. Bounded by the connections that are driven, and those that
/// ended behind a cut.
#[derive(Debug, Default)]
pub struct Wires {
    by_id: Mutex<HashMap<ConnectionId, Known>>,
}

#[derive(Debug)]
struct Known {
    wire: Arc<Wire>,
    ended: bool,
}

impl Wires {
    pub(super) fn learn(&self, id: ConnectionId, wire: &Arc<Wire>) {
        let wire = Arc::clone(wire);
        self.by_id.lock().insert(id, Known { wire, ended: false });
    }

    /// A connection ended. Behind a cut its id stays known: the endpoint would answer what still
    /// comes for it, and the server would hear from a node that is silent.
    pub(super) fn forget(&self, id: ConnectionId) {
        let mut by_id = self.by_id.lock();
        if let Some(known) = by_id.get_mut(&id)
            && known.wire.is_cut()
        {
            known.ended = true;
            return;
        }
        by_id.remove(&id);
    }

    /// Wires were mended: what ended behind them is forgotten.
    pub fn on_mended(&self) {
        self.by_id
            .lock()
            .retain(|_, known| !known.ended || known.wire.is_cut());
    }

    /// Whether a packet for this connection gets through. One of nobody's does: the endpoint
    /// answers it.
    pub(super) fn passes(&self, id: ConnectionId) -> bool {
        self.by_id
            .lock()
            .get(&id)
            .is_none_or(|known| known.wire.passes())
    }

    /// How many connection ids are known.
    pub fn len(&self) -> usize {
        self.by_id.lock().len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.by_id.lock().is_empty()
    }
}

/// The connection that is being driven: its node's wire, and its id once a packet showed it.
#[derive(Debug)]
pub(super) struct Driven {
    pub(super) wire: Arc<Wire>,
    pub(super) id: Option<ConnectionId>,
}

thread_local! {
    /// Whose driver this thread polls just now.
    static DRIVEN: RefCell<Option<Driven>> = const { RefCell::new(None) };
}

/// Polls something with a connection at hand, and gives it back.
pub(super) fn driving<T>(driven: Driven, poll: impl FnOnce() -> T) -> (T, Option<Driven>) {
    let before = DRIVEN.replace(Some(driven));
    let polled = poll();
    (polled, DRIVEN.replace(before))
}

/// Shows the connection that is being driven to `look`; `None` outside of any.
pub(super) fn with_driven<T>(look: impl FnOnce(&mut Driven) -> T) -> Option<T> {
    DRIVEN.with_borrow_mut(|driven| driven.as_mut().map(look))
}
