//! What there is one of in a cluster: `server members`, `acl bootstrap`, `system gc`.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use protocol_api::acl::{Bootstrap as MakeToken, BootstrapRequest};
use protocol_api::agent::AgentMembers;
use protocol_api::operator::CollectGarbage;
use protocol_client::Query;
use protocol_model::SecretText;

use crate::failure::{Exit, Failure};
use crate::render::columns::{Columns, pairs};
use crate::session::{PATIENCE_WHOLE_STATE, Session};

/// The most that is read of a file with a token's secret: a UUID has 36 bytes.
const SECRET_BYTES_MAX: u64 = 1024;

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
pub(crate) enum AclCommand {
    /// Make the first management token; its secret is shown once
    Bootstrap(Bootstrap),
}

#[derive(Args, Debug)]
pub(crate) struct Bootstrap {
    /// A file with the token's secret, a UUID; - reads it from stdin; without it a secret is made
    #[arg(value_name = "FILE")]
    secret: Option<PathBuf>,
    /// Answer of the API
    #[arg(long)]
    json: bool,
}

impl AclCommand {
    pub(crate) async fn run(self, session: &Session) -> Result<Exit, Failure> {
        let Self::Bootstrap(Bootstrap { secret, json }) = self;
        let mut request = BootstrapRequest::default();
        if let Some(path) = secret {
            request.bootstrap_secret = SecretText::new(read_secret(&path)?);
        }
        let client = session.client()?;
        let query = Query::new();
        let token = client.call_with(&MakeToken, &query, &request).await?.value;
        if json {
            session.out.json(&token)?;
            return Ok(Exit::SUCCESS);
        }
        session.out.data(&pairs(&[
            ("Accessor ID", token.accessor_id),
            ("Secret ID", token.secret_id.reveal().to_owned()),
            ("Name", token.name),
            ("Type", token.kind),
            (
                "Create Time",
                protocol_model::format_rfc3339(token.create_time),
            ),
        ]))?;
        Ok(Exit::SUCCESS)
    }
}

/// The secret in a file, without the line's end. The server judges its form.
fn read_secret(path: &Path) -> Result<String, Failure> {
    let failed = |source| Failure::ReadFile {
        path: path.to_owned(),
        source,
    };
    let mut text = String::new();
    let mut file: Box<dyn Read> = if path == Path::new("-") {
        Box::new(std::io::stdin().lock())
    } else {
        Box::new(File::open(path).map_err(failed)?)
    };
    file.by_ref()
        .take(SECRET_BYTES_MAX + 1)
        .read_to_string(&mut text)
        .map_err(failed)?;
    let secret = text.trim();
    if secret.is_empty() || text.len() as u64 > SECRET_BYTES_MAX {
        let problem = format!(
            "{} holds no token: expected a UUID and nothing else",
            path.display()
        );
        return Err(Failure::usage(problem));
    }
    Ok(secret.to_owned())
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
