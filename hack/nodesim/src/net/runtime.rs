//! Tokio as QUIC's runtime, with a memory of whose connection each driver is.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use quinn::{AsyncTimer, AsyncUdpSocket, Runtime, TokioRuntime};

use super::socket::WiredSocket;
use super::weather::Sky;
use super::wire::{Driven, Wire, Wires, driving};

tokio::task_local! {
    /// The node whose connection is being begun.
    static CONNECTING: Arc<Wire>;
}

/// Begins connections for the node at the end of `wire`.
pub async fn connecting<T>(wire: Arc<Wire>, work: impl Future<Output = T>) -> T {
    CONNECTING.scope(wire, work).await
}

/// See the top of this file.
#[derive(Debug)]
pub struct WiredRuntime {
    wires: Arc<Wires>,
    sky: Arc<Sky>,
}

impl WiredRuntime {
    /// A runtime that keeps what it learns in `wires`, below `sky`.
    pub fn new(wires: Arc<Wires>, sky: Arc<Sky>) -> Self {
        Self { wires, sky }
    }
}

impl Runtime for WiredRuntime {
    fn new_timer(&self, at: Instant) -> Pin<Box<dyn AsyncTimer>> {
        TokioRuntime.new_timer(at)
    }

    fn spawn(&self, future: Pin<Box<dyn Future<Output = ()> + Send>>) {
        // The endpoint's own driver, and connections of nobody, go unwatched.
        let Ok(wire) = CONNECTING.try_with(Arc::clone) else {
            TokioRuntime.spawn(future);
            return;
        };
        tokio::spawn(Driver {
            future,
            driven: Some(Driven { wire, id: None }),
            wires: Arc::clone(&self.wires),
        });
    }

    fn wrap_udp_socket(&self, socket: std::net::UdpSocket) -> io::Result<Arc<dyn AsyncUdpSocket>> {
        let inner = TokioRuntime.wrap_udp_socket(socket)?;
        let (wires, sky) = (Arc::clone(&self.wires), Arc::clone(&self.sky));
        Ok(Arc::new(WiredSocket::new(inner, wires, sky)))
    }

    fn now(&self) -> Instant {
        TokioRuntime.now()
    }
}

/// The driver of one connection.
struct Driver {
    future: Pin<Box<dyn Future<Output = ()> + Send>>,
    driven: Option<Driven>,
    wires: Arc<Wires>,
}

impl Future for Driver {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Some(driven) = self.driven.take() else {
            return self.future.as_mut().poll(context);
        };
        let (polled, driven) = driving(driven, || self.future.as_mut().poll(context));
        self.driven = driven;
        polled
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if let Some(id) = self.driven.as_ref().and_then(|driven| driven.id) {
            self.wires.forget(id);
        }
    }
}
