//! `drover node pool apply`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use protocol_api::node_pools::{NodePoolRequest, NodePoolScheduler, WriteNodePool};
use protocol_client::Query;
use serde::Deserialize;

use crate::failure::Failure;
use crate::job_file::file_or_stdin;
use crate::session::Session;

#[derive(Args, Debug)]
pub(crate) struct Apply {
    /// The node pool file; - reads it from stdin
    #[arg(value_name = "FILE")]
    path: PathBuf,
    /// The file is JSON, as `node pool info -json` writes it
    #[arg(long)]
    json: bool,
}

/// A node pool in JSON. A key that means nothing is a mistake, as in HCL.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct PoolJson {
    name: String,
    description: Option<String>,
    meta: Option<BTreeMap<String, String>>,
    scheduler_configuration: Option<SchedulerJson>,
    #[serde(rename = "NodeIdentityTTL")]
    node_identity_ttl: Option<serde_json::Value>,
    #[serde(rename = "CreateIndex")]
    _create_index: Option<u64>,
    #[serde(rename = "ModifyIndex")]
    _modify_index: Option<u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct SchedulerJson {
    scheduler_algorithm: Option<String>,
    memory_oversubscription_enabled: Option<bool>,
}

impl From<PoolJson> for NodePoolRequest {
    fn from(pool: PoolJson) -> Self {
        let scheduler = pool.scheduler_configuration;
        Self {
            name: pool.name,
            description: pool.description.unwrap_or_default(),
            meta: pool.meta.unwrap_or_default(),
            scheduler_configuration: scheduler.map(|scheduler| NodePoolScheduler {
                scheduler_algorithm: scheduler.scheduler_algorithm.unwrap_or_default(),
                memory_oversubscription_enabled: scheduler.memory_oversubscription_enabled,
            }),
            node_identity_ttl: pool.node_identity_ttl,
        }
    }
}

impl Apply {
    pub(super) async fn run(self, session: &Session) -> Result<(), Failure> {
        let request = self.read()?;
        let client = session.client()?;
        client
            .call_with(&WriteNodePool, &Query::new(), &request)
            .await?;
        let text = format!("Successfully applied node pool {:?}!", request.name);
        session.out.data(&text)
    }

    fn read(&self) -> Result<NodePoolRequest, Failure> {
        let (name, text) = file_or_stdin(&self.path)?;
        let marked = text.trim_start_matches('\u{feff}');
        if self.json || marked.trim_start().starts_with('{') {
            let pool: PoolJson = serde_json::from_str(marked)
                .map_err(|error| Failure::usage(format!("{name} is no node pool: {error}")))?;
            return Ok(pool.into());
        }
        let pool = protocol_jobspec::parse_pool(&name, &text).map_err(Failure::PoolFile)?;
        serde_json::from_value(pool).map_err(|source| Failure::Json {
            what: "a node pool",
            source,
        })
    }
}
