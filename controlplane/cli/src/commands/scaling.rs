//! `drover scaling policy`.

use clap::{Args, Subcommand};
use protocol_api::scaling::{ListScalingPolicies, ReadScalingPolicy, ScalingPolicyStub};
use protocol_client::Query;
use std::collections::BTreeMap;

use crate::failure::{Exit, Failure};
use crate::find::{Length, shown};
use crate::listing::Form;
use crate::render::columns::{Columns, pairs};
use crate::session::Session;

#[derive(Subcommand, Debug)]
pub(crate) enum ScalingCommand {
    /// Scaling policies of jobs
    #[command(subcommand)]
    Policy(PolicyCommand),
}

#[derive(Subcommand, Debug)]
pub(crate) enum PolicyCommand {
    /// List scaling policies
    List(List),
    /// Show a scaling policy
    Info(Info),
}

#[derive(Args, Debug)]
pub(crate) struct List {
    /// Only policies of this job
    #[arg(long, value_name = "JOB")]
    job: Option<String>,
    /// Only policies of this type
    #[arg(long = "type", value_name = "TYPE")]
    kind: Option<String>,
    /// Answer of the API
    #[arg(long)]
    json: bool,
    /// Whole ids
    #[arg(long)]
    verbose: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Info {
    /// The policy's id, or its beginning
    #[arg(value_name = "POLICY")]
    policy: String,
    /// Answer of the API
    #[arg(long)]
    json: bool,
    /// Whole ids
    #[arg(long)]
    verbose: bool,
}

impl ScalingCommand {
    pub(crate) async fn run(self, session: &Session) -> Result<Exit, Failure> {
        match self {
            Self::Policy(PolicyCommand::List(command)) => command.run(session).await,
            Self::Policy(PolicyCommand::Info(command)) => command.run(session).await,
        }
    }
}

impl List {
    async fn run(self, session: &Session) -> Result<Exit, Failure> {
        let client = session.client()?;
        let query = Query::new()
            .with_some("job", self.job.as_deref())
            .with_some("type", self.kind.as_deref());
        let length = Length::new(self.verbose);
        let render = |policies: Vec<_>| list(&policies, length);
        let asked = (&ListScalingPolicies, &query);
        session
            .show(&client, asked, Form::new(self.json), render)
            .await?;
        Ok(Exit::SUCCESS)
    }
}

fn list(policies: &[ScalingPolicyStub], length: Length) -> String {
    if policies.is_empty() {
        return "No policies found".to_owned();
    }
    let mut table = Columns::new(&["ID", "Enabled", "Type", "Target"]);
    for policy in policies {
        table.row([
            shown(&policy.id, length),
            policy.enabled.to_string(),
            policy.scaling_type.clone(),
            target(&policy.target),
        ]);
    }
    table.render()
}

fn target(target: &BTreeMap<String, String>) -> String {
    let parts = target.iter().map(|(key, value)| format!("{key}:{value}"));
    parts.collect::<Vec<_>>().join(",")
}

impl Info {
    async fn run(self, session: &Session) -> Result<Exit, Failure> {
        let client = session.client()?;
        let query = Query::new().with("namespace", "*");
        let all = client.call(&ListScalingPolicies, &query).await?.value;
        let ids = all.into_iter().map(|policy| policy.id);
        let found: Vec<String> = ids.filter(|id| id.starts_with(&self.policy)).collect();
        let id = match found.as_slice() {
            [id] => id,
            [] => {
                return Err(Failure::NotFound {
                    what: "scaling policy",
                    id: self.policy,
                });
            }
            many => {
                return Err(Failure::Ambiguous {
                    what: "scaling policie",
                    id: self.policy,
                    matches: many.to_vec(),
                });
            }
        };
        let read = ReadScalingPolicy { id };
        if self.json {
            let policy = client.call_json(&read, &Query::new()).await?.value;
            session.out.json(&policy)?;
            return Ok(Exit::SUCCESS);
        }
        let policy = client.call(&read, &Query::new()).await?.value;
        let bound = |bound: Option<u32>| bound.map_or_else(String::new, |it| it.to_string());
        let head = pairs(&[
            ("ID", shown(&policy.id, Length::new(self.verbose))),
            ("Enabled", policy.enabled.unwrap_or(true).to_string()),
            ("Type", policy.scaling_type),
            ("Target", target(&policy.target)),
            ("Min", bound(policy.min)),
            ("Max", bound(policy.max)),
        ]);
        let rules = serde_json::to_string_pretty(&policy.policy.unwrap_or_default());
        let rules = rules.map_err(|source| Failure::Json {
            what: "a policy",
            source,
        })?;
        let title = session.out.colour().bold("Policy");
        session.out.data(&format!("{head}\n{title}\n{rules}"))?;
        Ok(Exit::SUCCESS)
    }
}
