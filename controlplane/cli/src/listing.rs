//! Showing an answer: as JSON, as the API gives it, or as text; page after page.

use clap::Args;
use protocol_api::Operation;
use protocol_client::{Client, Query};

use crate::failure::Failure;
use crate::find::Length;
use crate::session::Session;

/// Flags of commands that show one list or one object.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct ShowFlags {
    /// Answer of the API
    #[arg(long)]
    pub(crate) json: bool,
    /// Whole ids
    #[arg(long)]
    pub(crate) verbose: bool,
}

/// Flags of lists that come in pages.
#[derive(Args, Clone, Debug)]
pub(crate) struct PageFlags {
    /// Only those for which this expression holds; see the API's ?filter
    #[arg(long, value_name = "EXPRESSION")]
    filter: Option<String>,
    /// At most so many
    #[arg(long, value_name = "COUNT")]
    per_page: Option<u32>,
    /// Where an earlier page ended
    #[arg(long, value_name = "TOKEN")]
    page_token: Option<String>,
}

/// The form in which an answer is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    /// As the API gives it, unknown keys included.
    Json,
    /// For people.
    Text,
}

impl ShowFlags {
    pub(crate) fn form(self) -> Form {
        Form::new(self.json)
    }

    pub(crate) fn length(self) -> Length {
        Length::new(self.verbose)
    }
}

impl PageFlags {
    /// `query` for this page.
    pub(crate) fn of(&self, query: Query) -> Query {
        query
            .with_some("filter", self.filter.as_ref())
            .with_some("per_page", self.per_page)
            .with_some("next_token", self.page_token.as_ref())
    }
}

impl Form {
    /// JSON where `-json` asks for it.
    pub(crate) fn new(json: bool) -> Self {
        if json { Self::Json } else { Self::Text }
    }
}

impl Session {
    /// Carries out an operation and shows its answer; the text is that of `render`. Tells where the
    /// next page begins, if there is one.
    ///
    /// # Errors
    /// Those of the call and of the output.
    pub(crate) async fn show<O: Operation<Body = ()>>(
        &self,
        client: &Client,
        (operation, query): (&O, &Query),
        form: Form,
        render: impl FnOnce(O::Answer) -> String,
    ) -> Result<(), Failure> {
        let next_token = match form {
            Form::Json => {
                let answer = client.call_json(operation, query).await?;
                self.out.json(&answer.value)?;
                answer.next_token
            }
            Form::Text => {
                let answer = client.call(operation, query).await?;
                self.out.data(&render(answer.value))?;
                answer.next_token
            }
        };
        self.tell_next_page(next_token);
        Ok(())
    }

    /// Tells how to ask for the next page, if there is one.
    pub(crate) fn tell_next_page(&self, next_token: Option<String>) {
        if let Some(token) = next_token {
            let hint = format!("hint: there is more: -page-token {token}");
            self.out.note(&hint);
        }
    }
}
