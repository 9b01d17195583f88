//! The tree of commands. Each command's flags stand with the command.

use clap::{Parser, Subcommand};

use crate::commands::{
    acl, alloc, cluster, deployment, eval, job, login, namespace, node, operator, scaling, status,
    tls, var,
};
use crate::failure::{Exit, Failure};
use crate::session::{GlobalFlags, Session};

/// Runs jobs on a cluster of Linux hosts
#[derive(Parser, Debug)]
#[command(name = "drover", version, disable_help_subcommand = true)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) global: GlobalFlags,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Jobs: run, plan, look at, stop
    #[command(subcommand)]
    Job(job::JobCommand),
    /// Allocations: their status, output and files
    #[command(subcommand)]
    Alloc(alloc::AllocCommand),
    /// Nodes: what they run, whether they take more
    #[command(subcommand)]
    Node(node::NodeCommand),
    /// Evaluations: what the scheduler did and why
    #[command(subcommand)]
    Eval(eval::EvalCommand),
    /// Deployments: rollouts of job versions
    #[command(subcommand)]
    Deployment(deployment::DeploymentCommand),
    /// Scaling policies
    #[command(subcommand)]
    Scaling(scaling::ScalingCommand),
    /// Namespaces
    #[command(subcommand)]
    Namespace(namespace::NamespaceCommand),
    /// Variables: secrets and settings of tasks
    #[command(subcommand)]
    Var(var::VarCommand),
    /// Servers
    #[command(subcommand)]
    Server(cluster::ServerCommand),
    /// The replicated log and snapshots of the state
    #[command(subcommand)]
    Operator(operator::OperatorCommand),
    /// Access control: policies, tokens, roles, logins
    #[command(subcommand)]
    Acl(acl::AclCommand),
    /// Log in with an identity provider: prints an access token
    Login(login::Login),
    /// The cluster's housekeeping
    #[command(subcommand)]
    System(cluster::SystemCommand),
    /// Show whatever has an id that begins so
    Status(status::Status),
    /// The web interface
    Ui,
    /// This program's version
    Version,
    /// Certificates for servers, nodes and people
    #[command(subcommand)]
    Tls(tls::TlsCommand),
}

impl Command {
    /// Carries the command out.
    pub(crate) async fn run(self, session: &Session) -> Result<Exit, Failure> {
        match self {
            Self::Job(command) => command.run(session).await,
            Self::Alloc(command) => command.run(session).await,
            Self::Node(command) => command.run(session).await,
            Self::Eval(command) => command.run(session).await,
            Self::Deployment(command) => command.run(session).await,
            Self::Scaling(command) => command.run(session).await,
            Self::Namespace(command) => command.run(session).await,
            Self::Var(command) => command.run(session).await,
            Self::Server(command) => command.run(session).await,
            Self::Operator(command) => command.run(session).await,
            Self::Acl(command) => command.run(session).await,
            Self::Login(command) => command.run(session).await,
            Self::System(command) => command.run(session).await,
            Self::Status(command) => command.run(session).await,
            Self::Ui => Err(Failure::usage_hint(
                "this release has no web interface yet",
                "the API is below /v1",
            )),
            Self::Version => {
                let text = concat!("Drover v", env!("CARGO_PKG_VERSION"));
                session.out.data(text)?;
                Ok(Exit::SUCCESS)
            }
            Self::Tls(command) => command.run(session),
        }
    }
}
