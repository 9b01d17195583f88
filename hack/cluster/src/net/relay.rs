//! A way for clients on this host to a port on a member's loopback, where the HTTP API listens: a
//! socket belongs to the namespace that it was made in, whoever uses it.

use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use super::inside;

/// Hands connections on. Dropping it ends it; what is open goes on until an end closes.
#[derive(Debug)]
pub(crate) struct Relay {
    pub(crate) port: u16,
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Relay {
    /// Listens on a free port here, for `port` on the loopback of `namespace`.
    pub(crate) fn start(namespace: OwnedFd, port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let own = listener.local_addr()?.port();
        let ended = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&ended);
        let thread = std::thread::spawn(move || {
            let served = inside(&namespace, || serve(&listener, port, &over));
            if let Err(error) = served {
                eprintln!("no way to port {port}: {error:#}");
            }
        });
        Ok(Self {
            port: own,
            ended,
            thread: Some(thread),
        })
    }
}

fn serve(listener: &TcpListener, port: u16, over: &AtomicBool) {
    for from in listener.incoming() {
        if over.load(Ordering::Relaxed) {
            return;
        }
        // A server that is down refuses here as it would there.
        let both = from.and_then(|from| Ok((from, TcpStream::connect(("127.0.0.1", port))?)));
        if let Ok((from, to)) = both
            && let (Ok(back), Ok(forth)) = (from.try_clone(), to.try_clone())
        {
            std::thread::spawn(move || copy(&from, &to));
            std::thread::spawn(move || copy(&forth, &back));
        }
    }
}

fn copy(mut from: &TcpStream, mut to: &TcpStream) {
    // Whatever ends it, the other side is told, and that is all there is to do.
    let _ = io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Write);
    let _ = from.shutdown(Shutdown::Read);
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        // Wakes it.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
