//! `drover var purge`.

use clap::Args;
use protocol_api::variables::{DeleteVariable, VariableRequest};
use protocol_client::Query;

use super::{conflict, one_namespace};
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
        let delete = DeleteVariable { path: &self.path };
        let body = VariableRequest::default();
        let deleted = client.call_with(&delete, &query, &body).await;
        deleted.map_err(|error| conflict(error, &self.path, self.check_index))?;
        let text = format!("Successfully purged variable {:?}!", self.path);
        session.out.data(&text)
    }
}
