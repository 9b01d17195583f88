//! One connection to a server, whatever it runs over.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use rustls_pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;
use tokio_rustls::client::TlsStream;

use crate::address::Address;
use crate::error::ClientError;
use crate::tls_trouble::TlsTrouble;

/// The WebSocket that `alloc exec` runs over.
pub type WebSocket = tokio_tungstenite::WebSocketStream<Socket>;

/// How long a server may take for a TCP connection, and again for the TLS handshake.
const CONNECT_MAX: Duration = Duration::from_secs(10);

/// A byte stream to a server.
#[derive(Debug)]
pub enum Socket {
    /// Plain TCP.
    Tcp(TcpStream),
    /// TLS over TCP.
    Tls(Box<TlsStream<TcpStream>>),
    /// A Unix socket.
    Unix(UnixStream),
}

/// Opens a byte stream to `address`.
pub(crate) async fn dial(
    address: &Address,
    tls: Option<&Arc<rustls::ClientConfig>>,
    server_name: Option<&str>,
) -> Result<Socket, ClientError> {
    let failed = |source| ClientError::Connect {
        address: address.to_string(),
        source,
    };
    match address {
        Address::Unix { path } => Ok(Socket::Unix(
            UnixStream::connect(path).await.map_err(failed)?,
        )),
        Address::Http { .. } => Ok(Socket::Tcp(tcp(address).await.map_err(failed)?)),
        Address::Https { host, .. } => {
            let tcp = tcp(address).await.map_err(failed)?;
            let name = server_name
                .unwrap_or(host)
                .trim_matches(['[', ']'])
                .to_owned();
            let name =
                ServerName::try_from(name).map_err(|error| failed(std::io::Error::other(error)))?;
            let config = tls
                .ok_or_else(|| failed(std::io::Error::other("no TLS configuration")))?
                .clone();
            let connector = tokio_rustls::TlsConnector::from(config);
            let connecting = timeout(CONNECT_MAX, connector.connect(name, tcp)).await;
            let connected = connecting.unwrap_or_else(|_| Err(late("no TLS handshake")));
            let stream = connected.map_err(|error| match TlsTrouble::find(&error) {
                Some(trouble) => ClientError::Tls {
                    address: address.to_string(),
                    trouble,
                    source: Box::new(error),
                },
                None => failed(error),
            })?;
            Ok(Socket::Tls(Box::new(stream)))
        }
    }
}

/// A TCP connection, in time: an address that swallows packets would hold its user for minutes.
async fn tcp(address: &Address) -> std::io::Result<TcpStream> {
    let connecting = timeout(CONNECT_MAX, TcpStream::connect(address.authority())).await;
    let tcp = connecting.unwrap_or_else(|_| Err(late("no connection")))?;
    tcp.set_nodelay(true)?;
    Ok(tcp)
}

fn late(what: &str) -> std::io::Error {
    let words = format!("{what} within {CONNECT_MAX:?}");
    std::io::Error::new(std::io::ErrorKind::TimedOut, words)
}

macro_rules! delegate {
    ($self:ident, $stream:ident => $call:expr) => {
        match $self.get_mut() {
            Socket::Tcp(inner) => {
                let $stream = Pin::new(inner);
                $call
            }
            Socket::Tls(inner) => {
                let $stream = Pin::new(inner.as_mut());
                $call
            }
            Socket::Unix(inner) => {
                let $stream = Pin::new(inner);
                $call
            }
        }
    };
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        delegate!(self, stream => stream.poll_read(context, buffer))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        delegate!(self, stream => stream.poll_write(context, bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        delegate!(self, stream => stream.poll_flush(context))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        delegate!(self, stream => stream.poll_shutdown(context))
    }
}
