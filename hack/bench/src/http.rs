//! Asking servers from threads that wait: a measurement is one thread that does one thing.

use std::sync::OnceLock;

use anyhow::Context;
use hack_cluster::Cluster;
use protocol_client::{Answer, Client, Query};
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};

/// Waits for what a cluster or a fleet does. Not for what is timed: that has an [`Http`].
///
/// # Panics
/// If this process may not start a thread.
pub(crate) fn wait<T>(what: impl Future<Output = T>) -> T {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    let start = || {
        let mut builder = Builder::new_multi_thread();
        let runtime = builder.worker_threads(1).enable_all().build();
        runtime.expect("one more thread can be started")
    };
    RUNTIME.get_or_init(start).block_on(what)
}

/// A client of one server that waits for each answer in the thread that asks, so that nothing timed
/// goes from thread to thread here.
#[derive(Debug)]
pub(crate) struct Http {
    runtime: Runtime,
    client: Client,
}

impl Http {
    /// Asks through this client.
    ///
    /// # Errors
    /// If the kernel has no more descriptors.
    pub(crate) fn of(client: Client) -> anyhow::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        Ok(Self { runtime, client })
    }

    /// Asks for a path, which may end with parameters.
    ///
    /// # Errors
    /// If the server is not reached, refuses, or answers no JSON.
    pub(crate) fn get(&self, path: &str) -> anyhow::Result<Value> {
        Ok(self.ask(path)?.value)
    }

    /// The same, with the index of the answer.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn ask(&self, path: &str) -> anyhow::Result<Answer<Value>> {
        let (path, query) = parameters(path);
        let answer = self.runtime.block_on(self.client.get(path, &query));
        answer.with_context(|| format!("GET {path}"))
    }

    /// Writes to a path.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub(crate) fn put(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
        let query = Query::new();
        let answer = self.runtime.block_on(self.client.put(path, &query, body));
        Ok(answer.with_context(|| format!("PUT {path}"))?.value)
    }

    /// Deletes a path, which may end with parameters.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub(crate) fn delete(&self, path: &str) -> anyhow::Result<Value> {
        let (path, query) = parameters(path);
        let answer = self.runtime.block_on(self.client.delete(path, &query));
        Ok(answer.with_context(|| format!("DELETE {path}"))?.value)
    }
}

fn parameters(path: &str) -> (&str, Query) {
    let (path, all) = path.split_once('?').unwrap_or((path, ""));
    let pairs = all.split('&').filter_map(|pair| pair.split_once('='));
    let query = pairs.fold(Query::new(), |query, (key, value)| query.with(key, value));
    (path, query)
}

/// What measurements ask of a cluster.
pub(crate) trait Ask {
    /// A connection to one server.
    ///
    /// # Errors
    /// As [`Http::of`].
    fn http_of(&self, number: usize) -> anyhow::Result<Http>;

    /// A connection to the first server that runs.
    ///
    /// # Errors
    /// If none does.
    fn http(&self) -> anyhow::Result<Http>;

    /// The server that leads.
    ///
    /// # Errors
    /// If no server does now.
    fn leads(&self) -> anyhow::Result<usize>;
}

impl Ask for Cluster {
    fn http_of(&self, number: usize) -> anyhow::Result<Http> {
        Http::of(self.client(number)?)
    }

    fn http(&self) -> anyhow::Result<Http> {
        let running = (0..self.len()).find(|number| self.is_running(*number));
        self.http_of(running.context("a cluster without servers")?)
    }

    fn leads(&self) -> anyhow::Result<usize> {
        wait(self.leader_now()).context("nobody leads")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_of_a_path_are_taken_apart() {
        let expected = Query::new().with("index", 7).with("wait", "5s");
        assert_eq!(parameters("/a?index=7&wait=5s"), ("/a", expected));
        assert_eq!(parameters("/a"), ("/a", Query::new()));
    }
}
