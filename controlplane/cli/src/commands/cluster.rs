//! Commands about the cluster as a whole: `server members`, `system gc`.

use clap::{Args, Subcommand};
use protocol_api::agent::AgentMembers;
use protocol_api::operator::CollectGarbage;
use protocol_client::Query;

use crate::failure::{Exit, Failure};
use crate::render::columns::Columns;
use crate::session::{PATIENCE_WHOLE_STATE, Session};

#[derive(Subcommand, Debug)]
pub(crate) enum ServerCommand {
    /// List the servers and whether they answer
    Members(Members),
}

#[derive(Args, Debug)]
pub(crate) struct Members {
    /// Answer of the API
    #[arg(long)]
    json: bool,
    /// Ids, HTTP addresses and votes too
    #[arg(long, alias = "detailed")]
    verbose: bool,
}

impl ServerCommand {
    pub(crate) async fn run(self, session: &Session) -> Result<Exit, Failure> {
        let client = session.client()?;
        let Self::Members(Members { json, verbose }) = self;
        if json {
            let answer = client.call_json(&AgentMembers, &Query::new()).await?;
            session.out.json(&answer.value["Members"])?;
            return Ok(Exit::SUCCESS);
        }
        let answer = client.call(&AgentMembers, &Query::new()).await?;
        let members = answer.value.members;
        let mut heading = vec![
            "Name",
            "Address",
            "Port",
            "Status",
            "Leader",
            "Raft Version",
            "Build",
            "Datacenter",
            "Region",
        ];
        if verbose {
            heading.extend(["ID", "HTTP Address", "Voter"]);
        }
        let mut table = Columns::new(&heading);
        let led = members.iter().any(|member| {
            member
                .tags
                .get("leader")
                .is_some_and(|leads| leads == "true")
        });
        for member in members {
            // What a server that does not answer runs, and where, is not known.
            let tag = |name: &str| {
                let known = member.tags.get(name).filter(|text| !text.is_empty());
                known.map_or_else(|| "N/A".to_owned(), Clone::clone)
            };
            let mut cells = vec![
                member.name.clone(),
                member.addr.clone(),
                member.port.to_string(),
                member.status.clone(),
                tag("leader"),
                tag("raft_vsn"),
                tag("build"),
                tag("dc"),
                tag("region"),
            ];
            if verbose {
                cells.extend([tag("id"), tag("http_addr"), tag("voter")]);
            }
            table.row(cells);
        }
        session.out.data(&table.render())?;
        if !led {
            let note = "warning: the server that was asked knows no leader";
            session.out.note(note);
            return Ok(Exit::NO);
        }
        Ok(Exit::SUCCESS)
    }
}

#[derive(Subcommand, Debug)]
pub(crate) enum SystemCommand {
    /// Collect what has ended, now
    Gc,
}

impl SystemCommand {
    pub(crate) async fn run(self, session: &Session) -> Result<Exit, Failure> {
        let Self::Gc = self;
        // A large cluster's leftovers are forgotten in many steps.
        let client = session.client()?.with_patience(PATIENCE_WHOLE_STATE);
        client.call(&CollectGarbage, &Query::new()).await?;
        Ok(Exit::SUCCESS)
    }
}
