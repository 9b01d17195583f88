//! `drover namespace apply`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use protocol_api::namespaces::{
    Namespace, NamespaceCapabilities, NamespaceNodePoolConfiguration, NamespaceRequest,
    ReadNamespace, WriteNamespace,
};
use protocol_client::{Client, Query};
use serde::Deserialize;

use crate::failure::Failure;
use crate::job_file::file_or_stdin;
use crate::session::Session;

#[derive(Args, Debug)]
pub(crate) struct Apply {
    /// The namespace file (- reads it from stdin), or the name of a namespace
    #[arg(value_name = "FILE|NAME")]
    input: PathBuf,
    /// Its purpose, for people; only with a name
    #[arg(long)]
    description: Option<String>,
    /// Its quota, which has to be empty: there are no quotas; only with a name
    #[arg(long)]
    quota: Option<String>,
    /// The file is JSON, as `namespace inspect` writes it
    #[arg(long)]
    json: bool,
}

/// A namespace in JSON. A key that means nothing is a mistake, as in HCL.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct NamespaceJson {
    name: String,
    description: Option<String>,
    quota: Option<String>,
    capabilities: Option<CapabilitiesJson>,
    node_pool_configuration: Option<NodePoolsJson>,
    variables_bytes_max: Option<u64>,
    meta: Option<BTreeMap<String, String>>,
    #[serde(rename = "CreateIndex")]
    _create_index: Option<u64>,
    #[serde(rename = "ModifyIndex")]
    _modify_index: Option<u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct CapabilitiesJson {
    enabled_task_drivers: Option<Vec<String>>,
    disabled_task_drivers: Option<Vec<String>>,
    enabled_network_modes: Option<Vec<String>>,
    disabled_network_modes: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct NodePoolsJson {
    default: Option<String>,
    allowed: Option<Vec<String>>,
    denied: Option<Vec<String>>,
}

impl From<NamespaceJson> for NamespaceRequest {
    fn from(json: NamespaceJson) -> Self {
        let capabilities = json.capabilities.map(|it| NamespaceCapabilities {
            enabled_task_drivers: it.enabled_task_drivers.unwrap_or_default(),
            disabled_task_drivers: it.disabled_task_drivers.unwrap_or_default(),
            enabled_network_modes: it.enabled_network_modes.unwrap_or_default(),
            disabled_network_modes: it.disabled_network_modes.unwrap_or_default(),
        });
        let pools = json.node_pool_configuration;
        let pools = pools.map(|it| NamespaceNodePoolConfiguration {
            default: it.default.unwrap_or_default(),
            allowed: it.allowed,
            denied: it.denied.unwrap_or_default(),
        });
        Self {
            name: json.name,
            description: json.description.unwrap_or_default(),
            quota: json.quota.unwrap_or_default(),
            capabilities,
            node_pool_configuration: pools,
            variables_bytes_max: json.variables_bytes_max.unwrap_or_default(),
            meta: json.meta.unwrap_or_default(),
        }
    }
}

impl Apply {
    pub(super) async fn run(self, session: &Session) -> Result<(), Failure> {
        // As in Nomad: a file of this name comes before a namespace of this name.
        let is_file = self.json || self.input.as_os_str() == "-" || self.input.exists();
        let client = session.client()?;
        let request = if is_file {
            if self.description.is_some() || self.quota.is_some() {
                session
                    .out
                    .note("Flags are ignored when a file is specified!");
            }
            self.read()?
        } else {
            self.changed(&client).await?
        };
        client
            .call_with(&WriteNamespace, &Query::new(), &request)
            .await?;
        let text = format!("Successfully applied namespace {:?}!", request.name);
        session.out.data(&text)
    }

    /// The namespace of a file.
    fn read(&self) -> Result<NamespaceRequest, Failure> {
        let (name, text) = file_or_stdin(&self.input)?;
        let marked = text.trim_start_matches('\u{feff}');
        if self.json || marked.trim_start().starts_with('{') {
            let namespace: NamespaceJson = serde_json::from_str(marked)
                .map_err(|error| Failure::usage(format!("{name} is no namespace: {error}")))?;
            return Ok(namespace.into());
        }
        let namespace =
            protocol_jobspec::parse_namespace(&name, &text).map_err(Failure::NamespaceFile)?;
        serde_json::from_value(namespace).map_err(|source| Failure::Json {
            what: "a namespace",
            source,
        })
    }

    /// The namespace of this name with what the flags change. A field without a flag stays.
    async fn changed(self, client: &Client) -> Result<NamespaceRequest, Failure> {
        let name = self.input.to_string_lossy().into_owned();
        let looks_like_file = name.contains(['/', '.']);
        if looks_like_file {
            return Err(Failure::usage_hint(
                format!("there is no file {name:?}, and no namespace may have this name"),
                "names are letters, digits and hyphens",
            ));
        }
        let read = ReadNamespace { name: &name };
        let known = match client.call(&read, &Query::new()).await {
            Ok(answer) => answer.value,
            Err(error) if error.status() == Some(404) => Namespace::default(),
            Err(error) => return Err(error.into()),
        };
        let Namespace {
            name: _,
            description,
            quota,
            capabilities,
            node_pool_configuration,
            variables_bytes_max,
            meta,
            create_index: _,
            modify_index: _,
        } = known;
        Ok(NamespaceRequest {
            name,
            description: self.description.unwrap_or(description),
            quota: self.quota.unwrap_or(quota),
            capabilities,
            node_pool_configuration,
            variables_bytes_max,
            meta,
        })
    }
}
