//! What the coalescer asks of the log: where a test says what became of an entry, it is not the
//! cluster.

use controlplane_state::Command;

use crate::cluster::{ChangeError, Changed, Cluster, LeadingError};

pub(super) trait Log: Sync {
    /// As [`Cluster::change`].
    fn change(&self, command: Command)
    -> impl Future<Output = Result<Changed, ChangeError>> + Send;

    /// As [`Cluster::change_as_leader`].
    fn change_as_leader(
        &self,
        command: Command,
        term: u64,
    ) -> impl Future<Output = Result<Changed, LeadingError>> + Send;

    /// The log's term, as far as this server knows.
    fn term(&self) -> u64;
}

impl Log for Cluster {
    async fn change(&self, command: Command) -> Result<Changed, ChangeError> {
        Self::change(self, command).await
    }

    async fn change_as_leader(&self, command: Command, term: u64) -> Result<Changed, LeadingError> {
        Self::change_as_leader(self, command, term).await
    }

    fn term(&self) -> u64 {
        self.status().term
    }
}
