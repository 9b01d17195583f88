//! One request, read: its path, its parameters, its body, and who asks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::extract::ws::WebSocketUpgrade;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::IntoResponse;
use controlplane_state::{Snapshot, Table};
use parking_lot::Mutex;
use protocol_access::budget::Place;
use protocol_api::{Parameters, Written};
use protocol_model::UnixNanos;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::Api;
use super::body::WholeBody;
use super::error::{Answered, HttpError};
use super::gate::Gate;
use super::listen::Held;
use super::query::Query;
use crate::gateway::ViaNode;

/// How long a blocking query waits where it does not say.
const WAIT_DEFAULT: Duration = Duration::from_secs(300);
/// The longest that a blocking query waits.
const WAIT_MAX: Duration = Duration::from_secs(600);
/// A waiting time is lengthened by up to this part of it, so that many queries do not end at once.
const WAIT_JITTER_PART: u32 = 16;

/// One request.
#[derive(Debug)]
pub(super) struct Ask {
    /// What it works on.
    pub(super) api: Api,
    /// Whether it reads and does not write.
    pub(super) is_read: bool,
    /// The values of its path.
    pub(super) parameters: Parameters,
    /// Its parameters.
    pub(super) query: Query,
    /// Its body; empty for reads.
    pub(super) body: WholeBody,
    /// The body that is too large to hold in memory: whoever serves it takes and reads it. (The
    /// lock is for the compiler: a body alone cannot be shared.)
    pub(super) stream: Mutex<Option<Body>>,
    /// The caller and its rights.
    pub(super) gate: Arc<Gate>,
    /// Where the client wants a WebSocket.
    pub(super) upgrade: Option<WebSocketUpgrade>,
    /// The place of its connection, for what goes on after the answer.
    pub(super) held: Option<Held>,
    /// The node and the task that it came through.
    pub(super) via: Option<ViaNode>,
    /// Says when the server ends.
    pub(super) stopped: watch::Receiver<bool>,
    /// The index of what was read last of the state; 0 before.
    pub(super) read_index: AtomicU64,
}

impl Ask {
    /// Now, by the server's clock.
    pub(super) fn now(&self) -> UnixNanos {
        self.api.cluster.wall_clock()
    }

    /// The value of a parameter of the path; empty where its operation has no such parameter.
    pub(super) fn parameter(&self, name: &str) -> &str {
        let mut named = self.parameters.iter().filter(|(known, _)| *known == name);
        named.next().map_or("", |(_, value)| value)
    }

    /// Reads the body as JSON, its keys in any case ([`protocol_model::json`]).
    ///
    /// # Errors
    /// Where it is not what is expected.
    pub(super) fn json<T: DeserializeOwned>(&self) -> Result<T, HttpError> {
        if self.body.is_empty() {
            return Err(HttpError::bad_request("the request has no body"));
        }
        protocol_model::json::from_slice(&self.body)
            .map_err(|error| HttpError::bad_request(format!("cannot decode the body: {error}")))
    }

    /// Reads the body as JSON; the default where there is none.
    ///
    /// # Errors
    /// Where it is not what is expected.
    pub(super) fn json_or_default<T: DeserializeOwned + Default>(&self) -> Result<T, HttpError> {
        if self.body.is_empty() {
            return Ok(T::default());
        }
        self.json::<Option<T>>().map(Option::unwrap_or_default)
    }

    /// Reads the state: consistently unless `?stale` says otherwise, and with `?index=N` only after
    /// one of `tables` has changed since `N`, or the waiting time is over.
    ///
    /// # Errors
    /// Where there is no leader to be consistent with, or `look` finds nothing.
    pub(super) async fn read<T: Serialize>(
        &self,
        tables: &[Table],
        look: impl FnOnce(&Snapshot) -> Result<T, HttpError>,
    ) -> Answered {
        let snapshot = self.snapshot(tables).await?;
        let index = snapshot.table_index(tables);
        self.answer(&look(&snapshot)?, index)
    }

    /// The snapshot that [`Self::read`] reads.
    pub(super) async fn snapshot(&self, tables: &[Table]) -> Result<Snapshot, HttpError> {
        let moved = |snapshot: &Snapshot| snapshot.table_index(tables);
        self.snapshot_after(moved).await
    }

    /// The same where `moved` tells the index at which that changed which is asked for: whatever
    /// else happens in its tables wakes nobody, as in Nomad, whose queries watch rows.
    pub(super) async fn snapshot_after(
        &self,
        moved: impl Fn(&Snapshot) -> u64 + Send + Sync,
    ) -> Result<Snapshot, HttpError> {
        let snapshot = self.moved_snapshot(&moved).await?;
        self.gate.judge(&self.api, &snapshot)?;
        self.read_index
            .store(moved(&snapshot).max(1), Ordering::Relaxed);
        Ok(snapshot)
    }

    async fn moved_snapshot(
        &self,
        moved: impl Fn(&Snapshot) -> u64 + Send + Sync,
    ) -> Result<Snapshot, HttpError> {
        let cluster = &self.api.cluster;
        let first = if self.query.switch("stale") {
            cluster.snapshot()
        } else {
            cluster.consistent().await?
        };
        let known: u64 = self.query.number("index")?.unwrap_or(0);
        let wait = self.wait()?;
        if known == 0 || moved(&first) > known {
            return Ok(first);
        }
        let _place = self.gate.enter(&self.api, Place::Waiting)?;
        let deadline = Instant::now() + self.until_expiry().map_or(wait, |left| wait.min(left));
        let mut newest = cluster.hub().watch();
        let mut stopped = self.stopped.clone();
        let changed = async {
            // A caller that loses its right waits no longer.
            let ends = |snapshot: &Snapshot| {
                moved(snapshot) > known || self.gate.is_lost(&self.api, snapshot)
            };
            let found = newest.wait_for(ends).await;
            found.map(|snapshot| snapshot.clone())
        };
        tokio::select! {
            changed = timeout_at(deadline, changed) => match changed {
                Ok(Ok(snapshot)) => Ok(snapshot),
                // The time is over, or the state is gone: what there is now.
                _ => Ok(cluster.snapshot()),
            },
            _ = stopped.wait_for(|stopped| *stopped) => Ok(cluster.snapshot()),
        }
    }

    fn wait(&self) -> Result<Duration, HttpError> {
        let wait = match self.query.duration("wait")? {
            None | Some(Duration::ZERO) => WAIT_DEFAULT,
            Some(wait) => wait.min(WAIT_MAX),
        };
        let part = u32::from(uuid::Uuid::new_v4().as_bytes()[0]);
        Ok(wait + wait / WAIT_JITTER_PART * part / 255)
    }

    /// A value as JSON with the headers that every answer has.
    ///
    /// # Errors
    /// Never for the types of this API: none has a map whose keys are no texts.
    pub(super) fn answer<T: Serialize + ?Sized>(&self, value: &T, index: u64) -> Answered {
        self.answer_page(value, index, None)
    }

    /// As [`Self::answer`], with where the next page begins.
    ///
    /// # Errors
    /// As [`Self::answer`].
    pub(super) fn answer_page<T: Serialize + ?Sized>(
        &self,
        value: &T,
        index: u64,
        next_token: Option<&str>,
    ) -> Answered {
        let mut bytes = if self.query.switch("pretty") {
            serde_json::to_vec_pretty(value)
        } else {
            serde_json::to_vec(value)
        }
        .map_err(|error| HttpError::internal(format!("the answer cannot be written: {error}")))?;
        if self.query.switch("pretty") {
            bytes.push(b'\n');
        }
        let json = [(header::CONTENT_TYPE, "application/json")];
        let mut response = (StatusCode::OK, json, bytes).into_response();
        self.put_headers(response.headers_mut(), index);
        if let Some(token) = next_token
            && let Ok(value) = HeaderValue::from_str(token)
        {
            response.headers_mut().insert("x-nomad-nexttoken", value);
        }
        Ok(response)
    }

    /// The answer to a read that found nothing: it tells the index as any other does, so that its
    /// caller can wait for what is missing.
    pub(super) fn not_found(&self, error: HttpError) -> Answered {
        let index = self.read_index.load(Ordering::Relaxed);
        if !self.is_read || error.status != StatusCode::NOT_FOUND || index == 0 {
            return Err(error);
        }
        let mut response = error.into_response();
        self.put_headers(response.headers_mut(), index);
        Ok(response)
    }

    /// What every answer says about where it comes from.
    pub(super) fn put_headers(&self, headers: &mut HeaderMap, index: u64) {
        let cluster = &self.api.cluster;
        let known_leader = self.api.leader().is_some();
        let contact = cluster
            .raft()
            .last_contact()
            .unwrap_or_default()
            .as_millis();
        let contact = u64::try_from(contact).unwrap_or(u64::MAX);
        // Index 0 would make a client's next query return at once, forever.
        headers.insert("x-nomad-index", HeaderValue::from(index.max(1)));
        let known = if known_leader { "true" } else { "false" };
        headers.insert("x-nomad-knownleader", HeaderValue::from_static(known));
        headers.insert("x-nomad-lastcontact", HeaderValue::from(contact));
    }

    /// The answer of a write that has nothing to say but its index.
    ///
    /// # Errors
    /// As [`Self::answer`].
    pub(super) fn done(&self, index: u64) -> Answered {
        self.answer(&Written { index }, index)
    }
}
