//! A server in this process, with a client of it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use controlplane_server::Server;
use controlplane_server::clock::{HostClock, WallClock};
use controlplane_server::config::Config;
use controlplane_state::{Command, Snapshot};
use protocol_access::budget::Limits;
use protocol_client::{Answer, Client, ClientError, Query, TlsFiles};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// How long a test waits for something that has to happen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The budgets of tests that are about something else: they ask more than callers do, all from one
/// address.
pub(crate) fn budgets_of_tests() -> Limits {
    let mut limits = Limits::default();
    for kind in [&mut limits.token, &mut limits.anonymous] {
        (kind.read, kind.list, kind.write) = (None, None, None);
        (kind.waiting, kind.streams) = (1024, 1024);
    }
    for rate in [&mut limits.failure, &mut limits.login] {
        (rate.requests, rate.burst) = (100_000, 100_000);
    }
    limits
}

/// A server that leads a cluster of its own.
pub(crate) struct World {
    pub(crate) server: Server,
    pub(crate) client: Client,
    directory: TempDir,
}

impl World {
    /// Registers a service of this name, and waits until it has an allocation.
    pub(crate) async fn placed(&self, id: &str) {
        let body = json!({ "Job": service(id) });
        self.put("/v1/jobs", body).await.expect("registered");
        self.until(|snapshot| snapshot.allocs().next().is_some())
            .await;
    }

    pub(crate) async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    /// As [`Self::start`], with the configuration bent.
    pub(crate) async fn start_with(bend: impl FnOnce(&mut Config)) -> Self {
        Self::start_at(Arc::new(HostClock), bend).await
    }

    /// The same, with another clock.
    pub(crate) async fn start_at(
        clock: Arc<dyn WallClock>,
        bend: impl FnOnce(&mut Config),
    ) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let mut config = Config::dev(directory.path().to_owned()).expect("a configuration");
        config.http.listen.set_port(0);
        config.quic_listen.set_port(0);
        // Nodes of these tests do not send heartbeats.
        config.liveness.silence = Duration::from_secs(3600);
        config.limits.budgets = budgets_of_tests();
        bend(&mut config);
        let server = Server::start_at(config, clock).await.expect("a server");
        let mut newest = server.cluster().hub().watch();
        // The entry that begins identities is the last that a new server makes by itself.
        let ready = newest.wait_for(|snapshot| snapshot.identities_begun());
        let ready = tokio::time::timeout(PATIENCE, ready).await;
        drop(
            ready
                .expect("the cluster is formed in time")
                .expect("the state is there"),
        );
        let address = format!("http://{}", server.http_address());
        let address = address.parse().expect("an address");
        let client = Client::new(address, &TlsFiles::default()).expect("a client");
        Self {
            server,
            client,
            directory,
        }
    }

    pub(crate) fn data_dir(&self) -> PathBuf {
        self.directory.path().to_owned()
    }

    /// The newest state that `wanted` accepts.
    pub(crate) async fn until(&self, wanted: impl FnMut(&Snapshot) -> bool) -> Snapshot {
        let mut newest = self.server.cluster().hub().watch();
        let found = tokio::time::timeout(PATIENCE, newest.wait_for(wanted)).await;
        found
            .expect("it happens in time")
            .expect("the state is there")
            .clone()
    }

    /// The index of a command that changes nothing: what lies between two of these are the entries
    /// Waits until the leader has made the first root key and moved all allocations to it: no entry
    /// of the log is its own afterwards.
    pub(crate) async fn until_signed(&self) -> Snapshot {
        self.until(|snapshot| {
            let active = snapshot.active_root_key().map_or(0, |key| key.number);
            let others = snapshot.live_allocs_not_of_key(active).count();
            snapshot.identities_begun() && others == 0
        })
        .await
    }

    /// that were made meanwhile.
    pub(crate) async fn barrier(&self) -> u64 {
        let changed = self.server.cluster().change(Command::Barrier).await;
        changed.expect("it is on a majority").index
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Value, ClientError> {
        Ok(self.get_whole(path).await?.value)
    }

    pub(crate) async fn get_whole(&self, path: &str) -> Result<Answer<Value>, ClientError> {
        let (path, query) = split(path);
        self.client.get(path, &query).await
    }

    pub(crate) async fn put(&self, path: &str, body: Value) -> Result<Value, ClientError> {
        let (path, query) = split(path);
        Ok(self.client.put(path, &query, &body).await?.value)
    }

    pub(crate) async fn delete(&self, path: &str) -> Result<Value, ClientError> {
        let (path, query) = split(path);
        Ok(self.client.delete(path, &query).await?.value)
    }

    /// One request as bytes: the status, the head and the body of the answer.
    pub(crate) async fn raw(&self, head: &str, body: &str) -> (u16, String, String) {
        raw(&self.server, head, body).await
    }
}

/// As [`World::raw`], of any server.
pub(crate) async fn raw(server: &Server, head: &str, body: &str) -> (u16, String, String) {
    let address = server.http_address();
    let mut stream = tokio::net::TcpStream::connect(address)
        .await
        .expect("connects");
    let length = body.len();
    let request = format!(
        "{head}\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await.expect("is sent");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.expect("is answered");
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let (head, body) = answer.split_once("\r\n\r\n").expect("an HTTP answer");
    let status = head
        .split(' ')
        .nth(1)
        .and_then(|code| code.parse().ok())
        .expect("a status");
    (status, head.to_ascii_lowercase(), body.to_owned())
}

fn split(path: &str) -> (&str, Query) {
    let (path, text) = path.split_once('?').unwrap_or((path, ""));
    let mut query = Query::new();
    for pair in text.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        query = query.with(key, value);
    }
    (path, query)
}

/// The status and the words of a refusal.
pub(crate) fn refusal<T: std::fmt::Debug>(answer: Result<T, ClientError>) -> (u16, String) {
    match answer {
        Err(ClientError::Status { code, message }) => (code, message),
        other => panic!("expected a refusal, got {other:?}"),
    }
}

/// A service of one group with one task that nothing runs.
pub(crate) fn service(id: &str) -> Value {
    json!({
        "ID": id,
        "Name": id,
        "Type": "service",
        "Meta": { "owner": "tests" },
        "TaskGroups": [{
            "Name": "web",
            "Count": 1,
            "Tasks": [{
                "Name": "server",
                "Driver": "raw_exec",
                "Config": { "command": "/bin/sleep", "args": ["600"] },
                "Resources": { "CPU": 100, "MemoryMB": 64 },
            }],
        }],
    })
}
