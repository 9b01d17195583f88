//! Variables by a client that is not ours.

use std::collections::HashMap;

use nomad_client_rs::variable::{
    CreateVariableRequest, DeleteVariableOptions, ListVariablesOptions, ReadVariableOptions,
};
use nomad_client_rs::{ClientError, Config, Connection, NomadClient};

use crate::world::World;

fn client(world: &World) -> Result<NomadClient, ClientError> {
    let address = format!("http://{}", world.server.http_address());
    NomadClient::new(Config {
        connection: Connection::HttpApi {
            address,
            credential: None,
        },
        ..Config::default()
    })
}

#[tokio::test]
async fn foreign_client_writes_reads_lists_and_deletes_variables() -> Result<(), ClientError> {
    let world = World::start().await;
    let client = client(&world)?;
    let request = CreateVariableRequest {
        items: HashMap::from([("user".to_owned(), "anna".to_owned())]),
        ..CreateVariableRequest::default()
    };
    let read = ReadVariableOptions::default();
    let made = client.create_variable("/app/db", &request).await?;
    assert_eq!(made.path.as_deref(), Some("app/db"));
    assert_eq!(made.items.as_ref(), Some(&request.items));
    assert!(made.create_index.is_some_and(|index| index > 0));
    assert_eq!(client.read_variable("app/db", &read).await?, made);
    let again = client.create_variable("app/db", &request).await?;
    assert!(again.modify_index > made.modify_index, "{again:?}");
    client.create_variable("other", &request).await?;

    let prefixed = ListVariablesOptions {
        prefix: Some("app/".to_owned()),
        ..ListVariablesOptions::default()
    };
    let listed = client.list_variables(&prefixed).await?;
    assert_eq!(listed.len(), 1);
    assert_eq!((&listed[0].path, &listed[0].items), (&made.path, &None));

    // A variable that is not there is deleted, too.
    let delete = DeleteVariableOptions::default();
    for path in ["app/db", "other", "other"] {
        client.delete_variable(path, &delete).await?;
    }
    let missing = client.read_variable("app/db", &read).await;
    let Err(ClientError::NomadRejected { status, message }) = missing else {
        panic!("{missing:?}");
    };
    assert_eq!((status, message.trim()), (404, "variable not found"));
    Ok(())
}
