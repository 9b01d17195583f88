//! `drover acl policy`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use protocol_api::acl::{
    DeletePolicy, JobAcl, ListPolicies, OwnPolicies, Policy, PolicyRequest, PolicyStub, ReadPolicy,
    UpdatePolicy,
};
use protocol_client::Query;

use super::Json;
use crate::failure::Failure;
use crate::job_file::file_or_stdin;
use crate::render::acl::policy;
use crate::session::Session;

#[derive(Subcommand, Debug)]
pub(crate) enum PolicyCommand {
    /// Create or change a policy
    Apply(Apply),
    /// Delete a policy
    Delete(Name),
    /// Show a policy
    Info(Info),
    /// List policies; without a management token, one's own
    List(Json),
    /// List the policies of one's own token and its roles
    #[command(name = "self")]
    Own(Json),
    /// Find the mistakes of a policy's file, without a server
    Validate(Validate),
}

#[derive(Args, Debug)]
pub(crate) struct Apply {
    /// The policy
    #[arg(value_name = "NAME")]
    name: String,
    /// A file with its rules, HCL or JSON; - reads them from stdin
    #[arg(value_name = "FILE")]
    path: PathBuf,
    /// A description for people
    #[arg(long, default_value = "")]
    description: String,
    /// Join the identities of this job's workloads, in the namespace of -namespace
    #[arg(long)]
    job: Option<String>,
    /// Only of this group
    #[arg(long, requires = "job")]
    group: Option<String>,
    /// Only of this task
    #[arg(long, requires = "group")]
    task: Option<String>,
}

#[derive(Args, Debug)]
pub(crate) struct Name {
    /// The policy
    #[arg(value_name = "NAME")]
    name: String,
}

#[derive(Args, Debug)]
pub(crate) struct Info {
    /// The policy
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    json: Json,
}

#[derive(Args, Debug)]
pub(crate) struct Validate {
    /// A file with rules, HCL or JSON; - reads them from stdin
    #[arg(value_name = "FILE")]
    path: PathBuf,
}

impl PolicyCommand {
    pub(super) async fn run(self, session: &Session) -> Result<(), Failure> {
        let query = Query::new();
        match self {
            Self::Apply(apply) => apply.run(session).await,
            Self::Validate(validate) => validate.run(session),
            Self::Delete(Name { name }) => {
                let delete = DeletePolicy { name: &name };
                session.client()?.call(&delete, &query).await?;
                let text = format!("Successfully deleted {name} policy!");
                session.out.data(&text)
            }
            Self::Info(Info { name, json }) => {
                let read = (&ReadPolicy { name: &name }, &query);
                let render = |it: Policy| policy::one(&it);
                let client = session.client()?;
                let shown = session.show(&client, read, json.form(), render).await;
                let hint = "`drover acl policy list` shows the policies";
                shown.map_err(|failure| failure.naming(&name, hint))
            }
            Self::List(json) => {
                let render = |all: Vec<PolicyStub>| policy::list(&all);
                let list = (&ListPolicies, &query);
                session
                    .show(&session.client()?, list, json.form(), render)
                    .await
            }
            Self::Own(json) => {
                let render = |all: Vec<PolicyStub>| policy::own(&all);
                let list = (&OwnPolicies, &query);
                session
                    .show(&session.client()?, list, json.form(), render)
                    .await
            }
        }
    }
}

impl Apply {
    async fn run(self, session: &Session) -> Result<(), Failure> {
        let (_, rules) = file_or_stdin(&self.path)?;
        let job_acl = self.job_acl(session.namespace_flag())?;
        let request = PolicyRequest {
            name: self.name.clone(),
            description: self.description,
            rules,
            job_acl,
        };
        let update = UpdatePolicy { name: &self.name };
        let client = session.client()?;
        client.call_with(&update, &Query::new(), &request).await?;
        let text = format!("Successfully wrote {:?} ACL policy!", self.name);
        session.out.data(&text)
    }

    /// The workloads that the flags name. A namespace from the environment names none: a policy
    /// must not join every workload of it by accident.
    fn job_acl(&self, namespace: Option<&str>) -> Result<Option<JobAcl>, Failure> {
        let text = |flag: &Option<String>| flag.clone().unwrap_or_default();
        match namespace {
            Some(namespace) => Ok(Some(JobAcl {
                namespace: namespace.to_owned(),
                job_id: text(&self.job),
                group: text(&self.group),
                task: text(&self.task),
            })),
            None if self.job.is_some() => Err(Failure::usage_hint(
                "-job needs -namespace, the namespace of the job",
                "-namespace default",
            )),
            None => Ok(None),
        }
    }
}

impl Validate {
    /// Prints every mistake with its place, as compilers do.
    fn run(&self, session: &Session) -> Result<(), Failure> {
        let (name, text) = file_or_stdin(&self.path)?;
        let Err(errors) = protocol_access::Policy::parse(&text) else {
            return session.out.data(&format!("{name} is a valid policy"));
        };
        let place = |it: &protocol_access::PolicyError| {
            format!("{name}:{}:{}: {}", it.line, it.column, it.message)
        };
        let mut lines: Vec<String> = errors.list().iter().map(place).collect();
        if errors.omitted() > 0 {
            lines.push(format!("and {} more", errors.omitted()));
        }
        Err(Failure::PolicyFile(lines.join("\n")))
    }
}
