//! Clients that write and read variables without a pause. A reader remembers the newest value that
//! was acknowledged before it asks: an older one fails the test.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use protocol_client::{Client, ClientError, Query};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::{Duration, Instant, sleep};

use super::{name, text};
use crate::world::PATIENCE;

/// Which answers fail a test.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Tolerance {
    /// Every refusal.
    Nothing,
    /// Requests without an answer: a leader is lost meanwhile.
    LostLeader,
}

struct Shared {
    /// By the number of the variable.
    acknowledged: Vec<AtomicU64>,
    writes: AtomicU64,
    reads: AtomicU64,
    stop: AtomicBool,
    tolerance: Tolerance,
}

/// Writers and readers that run.
pub(super) struct Traffic {
    shared: Arc<Shared>,
    running: Vec<JoinHandle<()>>,
}

impl Traffic {
    /// One writer and one reader for each client. The writers share `variables` among them.
    pub(super) fn start(clients: &[Client], variables: usize, tolerance: Tolerance) -> Self {
        let shared = Arc::new(Shared {
            acknowledged: (0..variables).map(|_| AtomicU64::new(0)).collect(),
            writes: AtomicU64::new(0),
            reads: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            tolerance,
        });
        let mut running = Vec::new();
        for (place, client) in clients.iter().enumerate() {
            let own: Vec<usize> = (place..variables).step_by(clients.len()).collect();
            let (writer, reader) = (Arc::clone(&shared), Arc::clone(&shared));
            let (writes, reads) = (client.clone(), client.clone());
            running.push(tokio::spawn(async move { writer.write(writes, own).await }));
            running.push(tokio::spawn(async move { reader.read(reads).await }));
        }
        Self { shared, running }
    }

    /// How often was written and read.
    pub(super) fn counts(&self) -> (u64, u64) {
        let count = |count: &AtomicU64| count.load(Ordering::SeqCst);
        (count(&self.shared.writes), count(&self.shared.reads))
    }

    /// Ends the clients. Answers the last acknowledged value of each variable.
    pub(super) async fn stop(self) -> Vec<u64> {
        self.shared.stop.store(true, Ordering::SeqCst);
        for running in self.running {
            running.await.expect("no client failed");
        }
        let values = self.shared.acknowledged.iter();
        values.map(|value| value.load(Ordering::SeqCst)).collect()
    }
}

impl Shared {
    fn stops(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    /// Writes a higher value to each of its variables, with check-and-set.
    async fn write(&self, client: Client, own: Vec<usize>) {
        let mut value = 0;
        while !self.stops() {
            value += 1;
            for number in &own {
                if self.stops() {
                    return;
                }
                self.write_one(&client, *number, value).await;
                self.acknowledged[*number].store(value, Ordering::SeqCst);
                self.writes.fetch_add(1, Ordering::SeqCst);
            }
        }
    }

    async fn write_one(&self, client: &Client, number: usize, value: u64) {
        let body = json!({ "Items": { "key": text(value) } });
        let deadline = Instant::now() + PATIENCE;
        loop {
            let (found, index) = self.get(client, number).await;
            if found == text(value) {
                // An answer was lost with its leader, the write was not.
                return;
            }
            let (path, query) = address(number);
            let query = query.with("cas", index);
            let written = client.put::<_, Value>(&path, &query, &body).await;
            match written {
                Ok(written) => {
                    assert_eq!(written.value["Items"]["key"], text(value));
                    return;
                }
                Err(error) => self.bear(&error, deadline, number).await,
            }
        }
    }

    async fn read(&self, client: Client) {
        for number in (0..self.acknowledged.len()).cycle() {
            if self.stops() {
                return;
            }
            let least = self.acknowledged[number].load(Ordering::SeqCst);
            let (found, _) = self.get(&client, number).await;
            let value = found.trim_start_matches("value-").parse::<u64>();
            let value = value.expect("a value of these clients");
            assert!(value >= least, "variable {number}: {value} after {least}");
            self.reads.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// The value and the index of a variable.
    async fn get(&self, client: &Client, number: usize) -> (String, u64) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let (path, query) = address(number);
            match client.get::<Value>(&path, &query).await {
                Ok(read) => {
                    let value = read.value["Items"]["key"].as_str().expect("a value");
                    let index = read.value["ModifyIndex"].as_u64().expect("an index");
                    return (value.to_owned(), index);
                }
                Err(error) => self.bear(&error, deadline, number).await,
            }
        }
    }

    async fn bear(&self, error: &ClientError, deadline: Instant, number: usize) {
        let lasts = Instant::now() >= deadline;
        let is_borne = self.tolerance == Tolerance::LostLeader && !lasts;
        assert!(is_borne, "variable {number}: {error}");
        sleep(Duration::from_millis(20)).await;
    }
}

fn address(number: usize) -> (String, Query) {
    let key = name(number);
    let query = Query::new().with("namespace", key.namespace);
    (format!("/v1/var/{}", key.path), query)
}
