//! The tree of commands. Each command's flags stand with the command.

use clap::{Parser, Subcommand};

use crate::commands::{alloc, job, node, tls};
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
    /// Jobs: run, plan, watch, stop
    #[command(subcommand)]
    Job(job::JobCommand),
    /// Allocations: their status, output and files
    #[command(subcommand)]
    Alloc(alloc::AllocCommand),
    /// Nodes: what they run, whether they take more
    #[command(subcommand)]
    Node(node::NodeCommand),
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
            Self::Tls(command) => command.run(session),
        }
    }
}
