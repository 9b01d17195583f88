//! A thread that only receives: it reads packets, finds their connections, and decides which peers
//! are served.
//!
//! Packets that are received by the threads that also drive handshakes wait behind all of them: the
//! library reads for 50 us, and then every task that is ready goes first, each with up to a
//! millisecond of cryptography. Packets are lost then, peers without an answer send more of them,
//! and heartbeats are late. A thread of its own needs little of a processor, and so gets it as soon
//! as a packet is there.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use quinn::{AsyncTimer, AsyncUdpSocket, Runtime, TokioRuntime};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use crate::turns::take_short_turns;

/// QUIC's runtime with such a thread. Connections are driven by the runtime that this is made in.
#[derive(Debug)]
pub(super) struct Receiver {
    thread: Handle,
    connections: Handle,
    /// Whether the driver of the endpoint runs: the library spawns it first.
    begun: AtomicBool,
    /// Ends the thread when this is dropped.
    _until: oneshot::Sender<()>,
}

impl Receiver {
    pub(super) fn start(connections: Handle) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let thread = runtime.handle().clone();
        let (until, ended) = oneshot::channel::<()>();
        let receive = move || {
            take_short_turns();
            // However it ends, nobody is left who receives.
            let _ = runtime.block_on(ended);
        };
        let named = std::thread::Builder::new().name("quic-receive".to_owned());
        named.spawn(receive)?;
        Ok(Self {
            thread,
            connections,
            begun: AtomicBool::new(false),
            _until: until,
        })
    }

    /// Where its tasks are spawned.
    pub(super) fn thread(&self) -> &Handle {
        &self.thread
    }
}

impl Runtime for Receiver {
    fn new_timer(&self, at: Instant) -> Pin<Box<dyn AsyncTimer>> {
        TokioRuntime.new_timer(at)
    }

    fn spawn(&self, future: Pin<Box<dyn Future<Output = ()> + Send>>) {
        let is_connection = self.begun.swap(true, Ordering::Relaxed);
        let home = if is_connection {
            &self.connections
        } else {
            &self.thread
        };
        home.spawn(future);
    }

    fn wrap_udp_socket(&self, socket: std::net::UdpSocket) -> io::Result<Arc<dyn AsyncUdpSocket>> {
        let _inside = self.thread.enter();
        TokioRuntime.wrap_udp_socket(socket)
    }

    fn now(&self) -> Instant {
        TokioRuntime.now()
    }
}
