//! One connection to a server, whatever it runs over.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls_pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::client::TlsStream;

use crate::address::Address;
use crate::error::ClientError;
use crate::tls_trouble::TlsTrouble;

/// The WebSocket that `alloc exec` runs over.
pub type WebSocket = tokio_tungstenite::WebSocketStream<Socket>;

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
        Address::Http { .. } => {
            let tcp = TcpStream::connect(address.authority())
                .await
                .map_err(failed)?;
            tcp.set_nodelay(true).map_err(failed)?;
            Ok(Socket::Tcp(tcp))
        }
        Address::Https { host, .. } => {
            let tcp = TcpStream::connect(address.authority())
                .await
                .map_err(failed)?;
            tcp.set_nodelay(true).map_err(failed)?;
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
            let stream =
                connector.connect(name, tcp).await.map_err(|error| {
                    match TlsTrouble::find(&error) {
                        Some(trouble) => ClientError::Tls {
                            address: address.to_string(),
                            trouble,
                            source: Box::new(error),
                        },
                        None => failed(error),
                    }
                })?;
            Ok(Socket::Tls(Box::new(stream)))
        }
    }
}

/// Starts HTTP/1.1 on a fresh stream. The connection is driven by a task of its own, which ends
/// with it.
pub(crate) async fn http(socket: Socket) -> Result<SendRequest<Full<Bytes>>, hyper::Error> {
    let (sender, connection) = http1::handshake(TokioIo::new(socket)).await?;
    tokio::spawn(async move {
        // Its error reaches whoever waits for the answer.
        let _ = connection.with_upgrades().await;
    });
    Ok(sender)
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
