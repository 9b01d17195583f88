//! `drover acl whoami`.

use protocol_api::acl::{ReadWhoAmI, WhoAmI};
use protocol_client::Query;

use super::Json;
use crate::failure::Failure;
use crate::render::acl::whoami;
use crate::session::Session;

pub(super) async fn run(session: &Session, json: Json) -> Result<(), Failure> {
    let client = session.client()?;
    let render = |it: WhoAmI| whoami::one(&it);
    let read = (&ReadWhoAmI, &Query::new());
    session.show(&client, read, json.form(), render).await
}
