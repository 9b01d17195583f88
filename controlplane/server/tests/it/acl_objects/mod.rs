//! The objects of access control over HTTP: what is written, read back, shown and refused.

mod foreign;
mod logins;
mod one_time;
mod policies;
mod roles;
mod tokens;

use protocol_client::{Client, ClientError, Query};
use serde_json::{Value, json};

use crate::world::World;

/// A server with access control, and its first token.
pub(crate) struct Acl {
    pub(crate) world: World,
    pub(crate) manager: Client,
    secret: String,
}

/// A client of a token, with what it takes to ask for something.
pub(crate) trait Asks {
    async fn read(&self, path: &str) -> Result<Value, ClientError>;
    async fn write(&self, path: &str, body: Value) -> Result<Value, ClientError>;
    async fn remove(&self, path: &str) -> Result<Value, ClientError>;
}

impl Asks for Client {
    async fn read(&self, path: &str) -> Result<Value, ClientError> {
        Ok(self.get(path, &Query::new()).await?.value)
    }

    async fn write(&self, path: &str, body: Value) -> Result<Value, ClientError> {
        let answer = self.put(path, &Query::new(), &body).await?;
        assert!(answer.index > 0, "{path}: the index of a write");
        Ok(answer.value)
    }

    async fn remove(&self, path: &str) -> Result<Value, ClientError> {
        Ok(self.delete(path, &Query::new()).await?.value)
    }
}

impl Acl {
    pub(crate) async fn start() -> Self {
        let world = World::start_with(|config| config.acl_enabled = true).await;
        let token = world.put("/v1/acl/bootstrap", json!({})).await;
        let token = token.expect("the first token");
        let manager = holder(&world.client, &token);
        let secret = token["SecretID"].as_str().expect("a secret").to_owned();
        Self {
            world,
            manager,
            secret,
        }
    }

    /// A client token with these fields, and a client that shows it.
    pub(crate) async fn token(&self, mut fields: Value) -> (Value, Client) {
        fields["Type"] = json!("client");
        let token = self.manager.write("/v1/acl/token", fields).await;
        let token = token.expect("a token");
        let client = holder(&self.manager, &token);
        (token, client)
    }

    pub(crate) async fn policy(&self, name: &str, rules: &str) {
        let path = format!("/v1/acl/policy/{name}");
        let body = json!({ "Name": name, "Rules": rules });
        self.manager.write(&path, body).await.expect("a policy");
    }
}

/// A client that shows a token.
fn holder(client: &Client, token: &Value) -> Client {
    let secret = token["SecretID"].as_str().expect("a secret").to_owned();
    client.clone().with_token(Some(secret))
}

/// The names of a list's items.
fn names(list: &Value) -> Vec<&str> {
    let items = list.as_array().expect("a list").iter();
    items
        .map(|it| it["Name"].as_str().expect("a name"))
        .collect()
}
