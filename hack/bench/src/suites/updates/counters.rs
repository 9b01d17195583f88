//! What the leader counts of its log.

use anyhow::{Context, ensure};

use hack_cluster::Cluster;

use crate::http::Ask as _;

/// The log's counters, or how much they grew.
#[derive(Debug, Clone, Copy)]
pub(super) struct Counters {
    /// Whose they are.
    pub(super) leader: usize,
    pub(super) bytes: f64,
    pub(super) update_entries: f64,
    pub(super) update_bytes: f64,
    pub(super) update_reports: f64,
}

impl Counters {
    /// The leader's, now.
    ///
    /// # Errors
    /// If nobody leads, or a counter is missing.
    pub(super) fn of(servers: &Cluster) -> anyhow::Result<Self> {
        let leader = servers.leads()?;
        let metrics = servers.http_of(leader)?.get("/v1/metrics")?;
        let counters = metrics["Counters"].as_array().context("no counters")?;
        let count = |name: &str| {
            let counter = counters.iter().find(|counter| counter["Name"] == name);
            let count = counter.map_or(Some(0.0), |counter| counter["Count"].as_f64());
            count.with_context(|| format!("no counter {name}"))
        };
        Ok(Self {
            leader,
            bytes: count("drover.log_bytes")?,
            update_entries: count("drover.log_update_entries")?,
            update_bytes: count("drover.log_update_bytes")?,
            update_reports: count("drover.log_update_reports")?,
        })
    }

    /// How much they grew.
    ///
    /// # Errors
    /// If another server leads since: its log cannot be compared.
    pub(super) fn since(self, before: Self) -> anyhow::Result<Self> {
        ensure!(
            self.leader == before.leader,
            "another server leads since: its log cannot be compared"
        );
        Ok(Self {
            leader: self.leader,
            bytes: self.bytes - before.bytes,
            update_entries: self.update_entries - before.update_entries,
            update_bytes: self.update_bytes - before.update_bytes,
            update_reports: self.update_reports - before.update_reports,
        })
    }
}
