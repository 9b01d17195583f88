//! The operator of a round: makes the token, and takes its right away.

use std::time::Duration;

use axum::http::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{MANAGER_SECRET, Shared, Token};
use crate::net::Machine;
use crate::schedule::SERVERS;
use crate::schedule::access::{Revocation, Round};
use crate::world::http::{Answer, Client, Refused};

/// How often a change is asked for before the round is given up.
const TRIES_MAX: u8 = 40;
/// The pause between two tries.
const PAUSE: Duration = Duration::from_millis(250);

/// The rights that users need, and those of a policy without them.
const RIGHTS: &str =
    "namespace \"default\" { policy = \"read\" } node_pool \"*\" { policy = \"write\" }";
const NO_RIGHTS: &str = "agent { policy = \"read\" }";

#[derive(Debug)]
pub(super) struct Operator {
    shared: Shared,
    client: Client,
}

impl Operator {
    pub(super) fn new(shared: Shared) -> Self {
        let client = Client::operator(Some(MANAGER_SECRET.to_owned()));
        Self { shared, client }
    }

    /// Makes the policy and the token. `None` = that was not acknowledged.
    pub(super) async fn make(&self, round: Round) -> Option<Token> {
        self.write_policy(round.maker, RIGHTS).await?;
        let body = json!({ "Name": self.policy(), "Type": "client", "Policies": [self.policy()] });
        let made = self
            .put(round.maker, "/v1/acl/token".to_owned(), body)
            .await?;
        let text = |key: &str| Some(made.body.get(key)?.as_str()?.to_owned());
        let (accessor, secret) = (text("AccessorID"), text("SecretID"));
        accessor
            .zip(secret)
            .map(|(accessor, secret)| Token { accessor, secret })
    }

    /// Takes the right away. Answers the state's index with that; `None` = it was not
    /// acknowledged.
    pub(super) async fn revoke(&self, round: Round, token: &Token) -> Option<u64> {
        match round.revocation {
            Revocation::TokenDeleted => {
                let path = format!("/v1/acl/token/{}", token.accessor);
                self.change(round.revoker, Method::DELETE, path, None).await
            }
            Revocation::PolicyEmptied => self.write_policy(round.revoker, NO_RIGHTS).await,
        }
        .map(|answer| answer.index)
    }

    fn policy(&self) -> String {
        format!("round-{}", self.shared.token)
    }

    async fn write_policy(&self, server: Machine, rules: &str) -> Option<Answer> {
        let path = format!("/v1/acl/policy/{}", self.policy());
        let body = json!({ "Name": self.policy(), "Rules": rules });
        self.put(server, path, body).await
    }

    async fn put(&self, server: Machine, path: String, body: Value) -> Option<Answer> {
        self.change(server, Method::PUT, path, Some(body)).await
    }

    /// Asks for a change until it is acknowledged: through `server`, and through the others where
    /// it does not answer.
    async fn change(
        &self,
        server: Machine,
        method: Method,
        path: String,
        body: Option<Value>,
    ) -> Option<Answer> {
        for tried in 0..TRIES_MAX {
            let server = (server + tried) % SERVERS;
            if let Some(door) = self.shared.doors.at(server) {
                let asked = self.client.ask(&door, method.clone(), &path, body.as_ref());
                let answered = asked.await;
                match answered {
                    _ if !door.is_open() => {}
                    Ok(answer) => return Some(answer),
                    Err(refused) if is_gone(&method, &refused) => return self.newest(),
                    Err(refused) if may_pass(refused.status) => {
                        let why = refused.why;
                        self.shared
                            .eyes
                            .note(|| format!("{method} {path}: s{server}: {why}"));
                    }
                    Err(Refused { status, why }) => {
                        let what = format!("{method} {path}: {status}: {why}");
                        let source = "docs/http-api.md: a management token may change rights";
                        self.shared.eyes.fail("operators_are_served", source, what);
                        return None;
                    }
                }
            }
            sleep(PAUSE).await;
        }
        None
    }

    /// An earlier try took it away already: the newest state that any server has knows that.
    fn newest(&self) -> Option<Answer> {
        Some(Answer {
            index: self.shared.eyes.view().newest.index(),
            body: Value::Null,
        })
    }
}

/// Whether an object that is to be deleted is gone.
fn is_gone(method: &Method, refused: &Refused) -> bool {
    let Refused { status, why } = refused;
    let gone = why.contains("nonexistent") || *status == StatusCode::NOT_FOUND;
    *method == Method::DELETE && status.is_client_error() && gone
}

/// Whether the refusal may pass by itself.
pub(super) fn may_pass(status: StatusCode) -> bool {
    status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS
}
