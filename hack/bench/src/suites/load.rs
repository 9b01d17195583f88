//! Requests to one server, or to sockets, from one thread, as many as it can send: they are made
//! beforehand, and answers are counted by their status lines, so that little processor time goes
//! into the client.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixStream};
use tokio::runtime::Builder;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

use super::status_lines::StatusLines;
use crate::floor::Quantiles;

/// A server that answers this late after the end does not answer.
const LATE_MAX: Duration = Duration::from_secs(30);
const BUFFER_BYTES: usize = 64 * 1024;

/// Requests, which connections send in turn.
pub(super) type Requests = Arc<[Vec<u8>]>;

/// A request in HTTP/1.1 whose connection is kept.
pub(super) fn request(method: &str, path: &str, secret: Option<&str>, body: &str) -> Vec<u8> {
    let token = secret.map(|secret| format!("x-nomad-token: {secret}\r\n"));
    let length = match body.len() {
        0 => String::new(),
        length => format!("content-type: application/json\r\ncontent-length: {length}\r\n"),
    };
    let token = token.unwrap_or_default();
    let text = format!("{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n{token}{length}\r\n{body}");
    text.into_bytes()
}

/// The place that requests are sent to.
#[derive(Debug, Clone)]
pub(super) enum Target {
    /// A port of this host.
    Port(u16),
    /// Sockets, over which connections are spread.
    Sockets(Arc<[PathBuf]>),
}

/// A connection of either kind.
trait Duplex: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Duplex for S {}

impl Target {
    async fn connect(&self, number: usize) -> anyhow::Result<Box<dyn Duplex>> {
        Ok(match self {
            Self::Port(port) => {
                let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, *port)).await;
                let stream = stream.context("connect to the server")?;
                stream.set_nodelay(true)?;
                Box::new(stream)
            }
            Self::Sockets(paths) => {
                let path = &paths[number % paths.len()];
                let stream = UnixStream::connect(path).await;
                Box::new(stream.with_context(|| format!("connect to {}", path.display()))?)
            }
        })
    }
}

/// The requests that a connection sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Share {
    /// All of them in turn, over and over.
    All,
    /// Its own ones, once: of all connections together each request.
    Once,
}

/// The way in which requests are sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    pub(super) connections: usize,
    /// Requests that one connection sends before it waits for their answers.
    pub(super) depth: usize,
    /// Requests in a second, of all connections; `None` = as many as are answered.
    pub(super) rate: Option<u32>,
    pub(super) lasts: Duration,
    pub(super) share: Share,
}

/// The answers to requests.
#[derive(Debug, Default)]
pub(super) struct Answers {
    by_status: BTreeMap<u16, u64>,
    /// Requests whose connection closed before they were answered.
    lost: u64,
    took: Duration,
    /// Of each set of requests that were sent at once.
    waits: Vec<Duration>,
}

impl Answers {
    /// Answers with this status.
    pub(super) fn with(&self, status: u16) -> u64 {
        self.by_status.get(&status).copied().unwrap_or(0)
    }

    /// All answers in a second.
    pub(super) fn rate(&self) -> f64 {
        let all: u64 = self.by_status.values().sum();
        all as f64 / self.took.as_secs_f64()
    }

    /// Answers with this status in a second.
    pub(super) fn rate_of(&self, status: u16) -> f64 {
        self.with(status) as f64 / self.took.as_secs_f64()
    }

    /// The times until requests were answered.
    ///
    /// # Errors
    /// If none was.
    pub(super) fn waits(&self) -> anyhow::Result<Quantiles> {
        Quantiles::of(self.waits.clone()).context("no request was answered")
    }

    /// For those who watch.
    pub(super) fn describe(&self) -> String {
        let Self {
            by_status, lost, ..
        } = self;
        format!("{:.0}/s, by status {by_status:?}, {lost} lost", self.rate())
    }

    /// Fails unless every request was answered with this status.
    ///
    /// # Errors
    /// With the statuses.
    pub(super) fn all_are(&self, status: u16) -> anyhow::Result<()> {
        let others = self.by_status.len() > 1 || self.lost > 0;
        ensure!(
            self.with(status) > 0 && !others,
            "every answer should be {status}: {}",
            self.describe()
        );
        Ok(())
    }

    /// Adds the answers of another round.
    pub(super) fn add(&mut self, other: Self) {
        let Self {
            by_status,
            lost,
            took,
            waits,
        } = other;
        self.join(by_status, lost, waits);
        self.took += took;
    }

    fn join(&mut self, by_status: BTreeMap<u16, u64>, lost: u64, waits: Vec<Duration>) {
        for (status, count) in by_status {
            *self.by_status.entry(status).or_default() += count;
        }
        self.lost += lost;
        self.waits.extend(waits);
    }
}

impl Load {
    /// Sends requests to a port of this host until the time is over; the thread waits.
    ///
    /// # Errors
    /// If the server is not reached, or stops to answer.
    pub(super) fn run(self, port: u16, requests: &Requests) -> anyhow::Result<Answers> {
        self.run_at(&Target::Port(port), requests)
    }

    /// The same at any place.
    ///
    /// # Errors
    /// As there.
    pub(super) fn run_at(self, target: &Target, requests: &Requests) -> anyhow::Result<Answers> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let begun = Instant::now();
            let mut connections = JoinSet::new();
            for number in 0..self.connections {
                let requests = Arc::clone(requests);
                connections.spawn(self.one(target.clone(), number, requests, begun));
            }
            let mut all = Answers::default();
            let joined = async {
                while let Some(one) = connections.join_next().await {
                    let Answers {
                        by_status,
                        lost,
                        waits,
                        ..
                    } = one.context("a connection panicked")??;
                    all.join(by_status, lost, waits);
                }
                Ok::<_, anyhow::Error>(())
            };
            let joined = timeout(self.lasts + LATE_MAX, joined).await;
            joined.context("the server stopped to answer")??;
            all.took = begun.elapsed();
            Ok(all)
        })
    }

    /// The time between two sets of requests of one connection.
    fn every(self) -> Option<Duration> {
        let rate = self.rate?;
        let at_once = self.connections * self.depth;
        Some(Duration::from_secs_f64(at_once as f64 / f64::from(rate)))
    }

    async fn one(
        self,
        target: Target,
        number: usize,
        requests: Requests,
        begun: Instant,
    ) -> anyhow::Result<Answers> {
        let mut answers = Answers::default();
        let end = begun + self.lasts;
        // Connections are spread over the requests, and over time.
        let share = number as f64 / self.connections as f64;
        let first_of = |number| number * requests.len() / self.connections;
        let mut next = first_of(number);
        let last = match self.share {
            Share::All => usize::MAX,
            Share::Once => first_of(number + 1),
        };
        let every = self.every();
        let mut due = begun + every.unwrap_or_default().mul_f64(share);
        let mut buffer = vec![0; BUFFER_BYTES];
        let mut out = Vec::new();
        let goes_on = |next| next < last && Instant::now() < end;
        while goes_on(next) {
            let mut stream = target.connect(number).await?;
            let mut lines = StatusLines::default();
            while goes_on(next) {
                if let Some(every) = every {
                    sleep_until(due.min(end)).await;
                    due += every;
                }
                out.clear();
                let set = self.depth.min(last - next);
                for _ in 0..set {
                    out.extend_from_slice(&requests[next % requests.len()]);
                    next += 1;
                }
                let asked = Instant::now();
                let left = self
                    .exchange(
                        &mut *stream,
                        (&out, set),
                        &mut buffer,
                        &mut lines,
                        &mut answers,
                    )
                    .await;
                if left > 0 {
                    answers.lost += left as u64;
                    break;
                }
                answers.waits.push(asked.elapsed());
            }
        }
        Ok(answers)
    }

    /// Sends a set of requests and waits for all answers; how many do not come because the
    /// connection closed.
    async fn exchange(
        self,
        stream: &mut dyn Duplex,
        (out, count): (&[u8], usize),
        buffer: &mut [u8],
        lines: &mut StatusLines,
        answers: &mut Answers,
    ) -> usize {
        let mut left = count;
        if stream.write_all(out).await.is_err() {
            return left;
        }
        while left > 0 {
            let Ok(length @ 1..) = stream.read(buffer).await else {
                return left;
            };
            lines.read(&buffer[..length], |status| {
                *answers.by_status.entry(status).or_default() += 1;
                left = left.saturating_sub(1);
            });
        }
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(by_status: &[(u16, u64)], millis: u64) -> Answers {
        Answers {
            by_status: by_status.iter().copied().collect(),
            took: Duration::from_millis(millis),
            ..Answers::default()
        }
    }

    #[test]
    fn request_has_a_body_with_its_length_or_none() {
        let text = String::from_utf8(request("PUT", "/v1/a", Some("s"), "{}")).unwrap();
        assert!(text.starts_with("PUT /v1/a HTTP/1.1\r\nhost: "), "{text}");
        assert!(text.contains("x-nomad-token: s\r\n"), "{text}");
        assert!(text.ends_with("content-length: 2\r\n\r\n{}"), "{text}");
        let text = String::from_utf8(request("GET", "/v1/a", None, "")).unwrap();
        assert!(
            !text.contains("token") && !text.contains("length"),
            "{text}"
        );
        assert!(text.ends_with("\r\n\r\n"), "{text}");
    }

    #[test]
    fn rates_are_those_of_all_rounds_together() {
        let mut all = answers(&[(200, 10)], 1_000);
        all.all_are(200).unwrap();
        all.add(answers(&[(200, 5), (429, 15)], 2_000));
        assert!((all.rate_of(200) - 5.0).abs() < 1e-9, "{all:?}");
        assert!((all.rate() - 10.0).abs() < 1e-9, "{all:?}");
        all.all_are(200).unwrap_err();
        answers(&[], 1_000).all_are(200).unwrap_err();
    }

    #[test]
    fn paced_connections_have_the_rate_together() {
        let load = Load {
            connections: 4,
            depth: 5,
            rate: Some(100),
            lasts: Duration::from_secs(1),
            share: Share::All,
        };
        assert_eq!(load.every(), Some(Duration::from_millis(200)));
        assert_eq!(Load { rate: None, ..load }.every(), None);
    }
}
