//! `drover var purge`.

use clap::Args;
use protocol_api::variables::{DeleteVariable, VariableRequest};
use protocol_client::Query;

use super::{Writer, conflict, one_namespace, path_of};
use crate::failure::Failure;
use crate::session::Session;

#[derive(Args, Debug)]
pub(crate) struct Purge {
    /// The variable's path
    #[arg(value_name = "PATH")]
    path: String,
    /// Delete it only if it is at this modify index
    #[arg(long, value_name = "INDEX")]
    check_index: Option<u64>,
}

impl Purge {
    pub(super) async fn run(self, session: &Session) -> Result<(), Failure> {
        one_namespace(session)?;
        let client = session.client()?;
        let query = Query::new().with_some("cas", self.check_index);
        let path = path_of(&self.path);
        let delete = DeleteVariable { path };
        let body = VariableRequest::default();
        let deleted = client.call_with(&delete, &query, &body).await;
        deleted.map_err(|error| conflict(error, path, self.check_index, Writer::Purge))?;
        let text = format!("Successfully purged variable {path:?}!");
        session.out.data(&text)
    }
}
