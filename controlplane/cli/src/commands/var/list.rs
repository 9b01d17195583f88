//! `drover var list`.

use std::io::{IsTerminal as _, stdout};

use clap::{Args, ValueEnum};
use protocol_api::variables::{ListVariables, VariableMetadata};
use protocol_client::Query;

use crate::failure::Failure;
use crate::find::Length;
use crate::listing::{Form, PageFlags};
use crate::render::variable;
use crate::session::Session;

#[derive(Args, Debug)]
pub(crate) struct List {
    /// Only paths that begin so
    #[arg(value_name = "PREFIX", default_value = "")]
    prefix: String,
    /// The form: json, table or terse (paths alone); a terminal gets a table, else JSON
    #[arg(long, value_name = "FORM")]
    out: Option<ListForm>,
    /// With indexes and the time of creation
    #[arg(long)]
    verbose: bool,
    #[command(flatten)]
    page: PageFlags,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum ListForm {
    Json,
    Table,
    Terse,
}

impl List {
    pub(super) async fn run(self, session: &Session) -> Result<(), Failure> {
        let client = session.client()?;
        // No path begins with a slash.
        let prefix = Some(self.prefix.trim_start_matches('/')).filter(|it| !it.is_empty());
        let query = self.page.of(Query::new().with_some("prefix", prefix));
        let default = match stdout().is_terminal() {
            true => ListForm::Table,
            false => ListForm::Json,
        };
        let form = match self.out.unwrap_or(default) {
            ListForm::Json => Form::Json,
            ListForm::Table | ListForm::Terse => Form::Text,
        };
        let is_terse = self.out == Some(ListForm::Terse);
        let (clock, length) = (session.clock(), Length::new(self.verbose));
        let render = |found: Vec<VariableMetadata>| match is_terse {
            true => variable::paths(&found),
            false => variable::list(&clock, &found, length),
        };
        let list = (&ListVariables, &query);
        session.show(&client, list, form, render).await
    }
}
