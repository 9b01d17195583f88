//! `drover operator root keyring`: the keys that secrets are sealed and identities signed with.

use std::time::Duration;

use clap::{ArgGroup, Args, Subcommand};
use protocol_api::keyring::{ListRootKeys, RemoveRootKey, RootKeyMeta, RotateRootKey};
use protocol_client::Query;
use protocol_model::duration::parse_go;

use crate::failure::{Exit, Failure};
use crate::find::{self, Kind, Length};
use crate::listing::Form;
use crate::render::keyring;
use crate::session::Session;

#[derive(Subcommand, Debug)]
pub(crate) enum RootCommand {
    /// The keys that secrets are sealed and identities signed with
    #[command(subcommand)]
    Keyring(KeyringCommand),
}

#[derive(Subcommand, Debug)]
pub(crate) enum KeyringCommand {
    /// List the root keys
    List(List),
    /// Remove a root key that is not active
    Remove(Remove),
    /// Make a new root key
    Rotate(Rotate),
}

#[derive(Args, Debug)]
pub(crate) struct List {
    /// Show whole ids
    #[arg(long)]
    verbose: bool,
    /// Answer of the API
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Remove {
    /// The key's id, or its beginning
    #[arg(value_name = "KEY")]
    key: String,
    /// Also a key that signs identities of live allocations: they get new identities
    #[arg(long)]
    force: bool,
}

#[derive(Args, Debug)]
// The group that clap derives of a struct would hold every flag.
#[command(group(ArgGroup::new("when").args(["now", "prepublish", "full"]).required(true).multiple(true)))]
pub(crate) struct Rotate {
    /// Let the new key sign at once
    #[arg(long)]
    now: bool,
    /// Publish the new key now, let it sign after this time: 1h, for example
    #[arg(long, value_name = "DURATION", value_parser = duration, conflicts_with_all = ["now", "full"])]
    prepublish: Option<Duration>,
    /// Let the new key sign at once, and move the values of all variables to it
    #[arg(long)]
    full: bool,
    /// Show whole ids
    #[arg(long)]
    verbose: bool,
    /// Answer of the API
    #[arg(long)]
    json: bool,
}

fn duration(text: &str) -> Result<Duration, String> {
    parse_go(text).map_err(|error| error.to_string())
}

impl RootCommand {
    pub(crate) async fn run(self, session: &Session) -> Result<Exit, Failure> {
        let Self::Keyring(command) = self;
        match command {
            KeyringCommand::List(command) => command.run(session).await?,
            KeyringCommand::Remove(command) => command.run(session).await?,
            KeyringCommand::Rotate(command) => command.run(session).await?,
        }
        Ok(Exit::SUCCESS)
    }
}

impl List {
    async fn run(self, session: &Session) -> Result<(), Failure> {
        let client = session.client()?;
        let list = (&ListRootKeys, &Query::new());
        let (clock, length) = (session.clock(), Length::new(self.verbose));
        let render = |keys: Vec<RootKeyMeta>| keyring::list(&keys, &clock, length);
        session
            .show(&client, list, Form::new(self.json), render)
            .await
    }
}

impl Remove {
    async fn run(self, session: &Session) -> Result<(), Failure> {
        let client = session.client()?;
        let id = find::id(&client, Kind::RootKey, &self.key).await?;
        let query = Query::new().with_some("force", self.force.then_some(true));
        client.call(&RemoveRootKey { id: &id }, &query).await?;
        session.out.data(&format!("Removed encryption key {id}"))
    }
}

impl Rotate {
    async fn run(self, session: &Session) -> Result<(), Failure> {
        let client = session.client()?;
        let clock = session.clock();
        let publish_time = self.prepublish.map(|wait| clock.now.saturating_add(wait).0);
        let query = Query::new()
            .with_some("full", self.full.then_some(true))
            .with_some("publish_time", publish_time);
        let rotated = client.call(&RotateRootKey, &query).await?.value;
        match Form::new(self.json) {
            Form::Json => session.out.json(&rotated),
            Form::Text => {
                let length = Length::new(self.verbose);
                session
                    .out
                    .data(&keyring::list(&[rotated.key], &clock, length))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        rotate: Rotate,
    }

    fn parses(words: &[&str]) -> bool {
        let line = std::iter::once("rotate").chain(words.iter().copied());
        Line::try_parse_from(line).is_ok_and(|line| !line.rotate.json)
    }

    #[test]
    fn rotation_is_now_or_later_and_full_ones_are_now() {
        for words in [
            &["--now"][..],
            &["--full"],
            &["--now", "--full"],
            &["--prepublish", "1h"],
            &["--now", "--verbose"],
        ] {
            assert!(parses(words), "{words:?}");
        }
        for words in [
            &[][..],
            &["--verbose"],
            &["--now", "--prepublish", "1h"],
            &["--full", "--prepublish", "1h"],
            &["--prepublish", "soon"],
        ] {
            assert!(!parses(words), "{words:?}");
        }
    }
}
