//! `drover var get`.

use clap::Args;
use protocol_api::variables::ReadVariable;
use protocol_client::{ClientError, Query};

use super::form::OutForm;
use super::{one_namespace, path_of};
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
        let path = path_of(&self.path);
        let read = ReadVariable { path };
        let variable = match client.call(&read, &Query::new()).await {
            Ok(answer) => answer.value,
            Err(ClientError::Status { code: 404, .. }) => {
                let namespace = session.namespace();
                let namespace = namespace.as_deref().unwrap_or("default");
                return Err(Failure::usage_hint(
                    format!("Variable not found: {path:?} in the namespace {namespace:?}"),
                    "`drover var list` shows the paths, -namespace names another namespace",
                ));
            }
            Err(error) => return Err(error.into()),
        };
        let Some(item) = &self.item else {
            let form = OutForm::or_default(self.out, OutForm::Table);
            return form.print(session, &variable);
        };
        let value = variable.items.as_ref().and_then(|items| items.get(item));
        let value = value.ok_or_else(|| {
            Failure::usage_hint(
                format!("Variable does not contain {item:?} item: {path:?}"),
                "`drover var get` without -item shows all of its items",
            )
        })?;
        session.out.data(value.reveal())
    }
}
