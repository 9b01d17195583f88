//! HTTP/1.1 on one connection: a request, its answer, the next request.

use futures::FutureExt;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::sync::watch;

use crate::connection::Socket;

/// What is sent with a request: bytes in memory, or as they come.
pub(crate) type RequestBody = UnsyncBoxBody<Bytes, std::io::Error>;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// A connection that takes requests. What drives it is a task of its own, which ends with it.
#[derive(Debug)]
pub(crate) struct HttpConnection {
    requests: SendRequest<RequestBody>,
    /// Closed when the task ends.
    ended: watch::Receiver<()>,
}

impl HttpConnection {
    /// Starts HTTP on a fresh stream.
    pub(crate) async fn start(socket: Socket) -> Result<Self, hyper::Error> {
        let (requests, connection) = http1::handshake(TokioIo::new(socket)).await?;
        let (ends, ended) = watch::channel(());
        tokio::spawn(async move {
            // Its error reaches whoever waits for the answer.
            let _ = connection.with_upgrades().await;
            drop(ends);
        });
        Ok(Self { requests, ended })
    }

    /// Whether the next request can go: the last answer was read, and nobody has hung up.
    pub(crate) fn is_ready(&self) -> bool {
        self.requests.is_ready()
    }

    /// Sends a request once the last answer was read.
    ///
    /// A request that is handed over in the very moment in which the connection ends can stay with
    /// nobody, and whoever waits for its answer would for ever (hyper 1.12: of two hundred thousand
    /// connections that a server closed at once, one). The end of the task ends the wait, too.
    pub(crate) async fn send(
        &mut self,
        request: Request<RequestBody>,
    ) -> Result<Response<Incoming>, Failure> {
        self.requests.ready().await?;
        let mut answer = std::pin::pin!(self.requests.send_request(request));
        tokio::select! {
            biased;
            answer = &mut answer => return Ok(answer?),
            _ = self.ended.changed() => {}
        }
        // It may have come with the end.
        match answer.now_or_never() {
            Some(answer) => Ok(answer?),
            None => Err("the connection ended without an answer".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http_body_util::{BodyExt, Empty};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::time::timeout;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);

    async fn connected() -> (HttpConnection, TcpStream) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let ours = TcpStream::connect(address).await.expect("it listens");
        let (theirs, _) = listener.accept().await.expect("somebody connects");
        let http = HttpConnection::start(Socket::Tcp(ours)).await;
        (http.expect("HTTP begins"), theirs)
    }

    fn request() -> Request<RequestBody> {
        let body = Empty::new().map_err(|never| match never {}).boxed_unsync();
        Request::get("/").body(body).expect("a request")
    }

    #[tokio::test]
    async fn an_answer_that_comes_with_the_end_is_an_answer() {
        let (mut http, mut server) = connected().await;
        let answering = async {
            let mut head = [0; 8];
            server.read_exact(&mut head).await.expect("a request");
            let answer = b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n";
            server.write_all(answer).await.expect("it listens");
            drop(server);
        };
        let (answer, ()) = tokio::join!(http.send(request()), answering);
        assert_eq!(answer.expect("an answer").status(), 204);
    }

    #[tokio::test]
    async fn nobody_waits_for_the_answer_of_a_connection_that_ended() {
        let (http, server) = connected().await;
        drop(server);
        let HttpConnection { requests, ended } = http;
        let mut task_ended = ended.clone();
        let ended_in_time = timeout(PATIENCE, task_ended.changed()).await;
        assert!(ended_in_time.expect("it ends").is_err());
        // As if the request had been handed over before: to a connection that still takes requests,
        // and says nothing.
        let (mut silent, _server) = connected().await;
        silent.ended = ended;
        drop(requests);
        let answer = timeout(PATIENCE, silent.send(request())).await;
        let error = answer.expect("an end of the wait").expect_err("no answer");
        assert!(error.to_string().contains("without an answer"), "{error}");
    }
}
