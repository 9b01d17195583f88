//! `drover var get`.

use clap::Args;
use protocol_api::variables::ReadVariable;
use protocol_client::{ClientError, Query};

use super::form::OutForm;
use super::one_namespace;
use crate::failure::Failure;
use crate::session::Session;

#[derive(Args, Debug)]
pub(crate) struct Get {
    /// The variable's path
    #[arg(value_name = "PATH")]
    path: String,
    /// The form: hcl, json, none or table; a terminal gets a table, else JSON
    #[arg(long, value_name = "FORM")]
    out: Option<OutForm>,
    /// Print the value of this item alone
    #[arg(long, value_name = "KEY", conflicts_with = "out")]
    item: Option<String>,
}

impl Get {
    pub(super) async fn run(self, session: &Session) -> Result<(), Failure> {
        one_namespace(session)?;
        let client = session.client()?;
        let read = ReadVariable { path: &self.path };
        let variable = match client.call(&read, &Query::new()).await {
            Ok(answer) => answer.value,
            Err(ClientError::Status { code: 404, .. }) => {
                return Err(Failure::usage("Variable not found"));
            }
            Err(error) => return Err(error.into()),
        };
        let Some(item) = &self.item else {
            let form = OutForm::or_default(self.out, OutForm::Table);
            return form.print(session, &variable);
        };
        let value = variable.items.as_ref().and_then(|items| items.get(item));
        let value = value
            .ok_or_else(|| Failure::usage(format!("Variable does not contain {item:?} item")))?;
        session.out.data(value.reveal())
    }
}
