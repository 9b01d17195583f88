//! How long a server is waited for.
//!
//! ```text
//!   a document       the patience, for its whole answer
//!   a blocking query the patience, and as long as it asks the server to wait
//!   a stream         the patience, for its beginning and again for each part of it
//!   `follow=true`    for ever: there is nothing wrong with a task that prints nothing
//! ```

use std::time::Duration;

use tokio::time::timeout;

use crate::error::ClientError;
use crate::query::Query;

/// What a client has unless told otherwise. A server gives up sooner: on its leader after 10 s, on
/// a node after 30 s, and it says so.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// The longest that a server lets a blocking query wait, with what it adds so that not all of them
/// end at once.
const BLOCKING_MAX: Duration = Duration::from_secs(640);

/// How long the whole answer to a question may take.
pub(crate) fn of_document(patience: Duration, query: &Query) -> Duration {
    // How long it asks to wait is the caller's text; no answer takes longer than the longest.
    let waits = query.has("index");
    patience.saturating_add(if waits { BLOCKING_MAX } else { Duration::ZERO })
}

/// How long a stream may say nothing; `None` = as long as it likes.
pub(crate) fn of_stream(patience: Duration, query: &Query) -> Option<Duration> {
    (!query.holds("follow", "true")).then_some(patience)
}

/// Waits for something of the server at `address`.
///
/// # Errors
/// As it, and [`ClientError::Silent`] where it does not come in time.
pub(crate) async fn within<T>(
    limit: Option<Duration>,
    address: impl ToString,
    answer: impl Future<Output = Result<T, ClientError>>,
) -> Result<T, ClientError> {
    let Some(waited) = limit else {
        return answer.await;
    };
    timeout(waited, answer).await.unwrap_or_else(|_| {
        Err(ClientError::Silent {
            address: address.to_string(),
            waited,
        })
    })
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;
    use crate::{Client, TlsFiles};

    /// Short, and long enough for what is answered at once.
    const SHORT: Duration = Duration::from_millis(100);
    const HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n";

    /// A client of a server that reads one request and then says each of `parts`, a while after the
    /// one before, and after them nothing for ever.
    async fn client(parts: &'static [&'static str]) -> Client {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
        let address = listener.local_addr().expect("an address");
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("a client");
            let mut some = [0; 1024];
            let _ = stream.read(&mut some).await;
            for part in parts {
                tokio::time::sleep(SHORT * 3).await;
                let _ = stream.write_all(part.as_bytes()).await;
            }
            std::future::pending::<()>().await;
        });
        let address = format!("http://{address}").parse().expect("an address");
        let client = Client::new(address, &TlsFiles::default()).expect("a client");
        client.with_patience(SHORT)
    }

    fn is_silent<T: std::fmt::Debug>(answer: &Result<T, ClientError>) -> bool {
        matches!(answer, Err(ClientError::Silent { waited, .. }) if *waited == SHORT)
    }

    #[tokio::test]
    async fn a_server_that_says_nothing_is_given_up() {
        let query = Query::new();
        let answer = client(&[]).await.get::<u32>("/", &query).await;
        assert!(is_silent(&answer), "{answer:?}");
        let answer = client(&[]).await.put::<_, ()>("/", &query, &1).await;
        assert!(is_silent(&answer), "{answer:?}");
        let answer = client(&[]).await.text("/", &query).await;
        assert!(is_silent(&answer), "{answer:?}");
        let answer = client(&[]).await.stream("/", &query).await;
        assert!(is_silent(&answer), "{answer:?}");
        let answer = client(&[]).await.websocket("/", &query).await;
        assert!(is_silent(&answer), "{answer:?}");
    }

    #[tokio::test]
    async fn a_question_that_waits_is_waited_for() {
        let query = Query::new().with("index", 7).with("wait", "5m");
        let answer = client(&[HEAD, "1234"]).await.get::<u32>("/", &query).await;
        assert_eq!(answer.expect("an answer").value, 1234);
    }

    #[tokio::test]
    async fn a_stream_may_pause_only_where_it_is_followed() {
        let query = Query::new().with("follow", true);
        let mut stream = client(&[HEAD, "1234"])
            .await
            .stream("/", &query)
            .await
            .expect("a stream");
        let part = stream.next().await.expect("a part");
        assert_eq!(part.as_deref(), Some(b"1234".as_slice()));

        let client = client(&[HEAD]).await;
        // The head of this one comes late, too: only the parts are tried here.
        let patient = client.clone().with_patience(PATIENCE);
        let mut stream = patient.stream("/", &Query::new()).await.expect("a stream");
        stream.silence_max = Some(SHORT);
        let part = stream.next().await;
        assert!(is_silent(&part), "{part:?}");
    }
}
