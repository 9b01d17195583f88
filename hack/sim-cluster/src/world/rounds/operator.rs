//! The operator of a round: makes the token, and takes its right away.

use std::time::Duration;

use axum::http::{Method, StatusCode};
use hack_sim::rng::Rng;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{MANAGER_SECRET, Shared, Token, address};
use crate::net::Machine;
use crate::schedule::SERVERS;
use crate::schedule::access::{Making, Revocation, Round};
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
    round: Round,
}

impl Operator {
    pub(super) fn new(shared: Shared, round: Round) -> Self {
        Self {
            shared,
            client: Client::operator(Some(MANAGER_SECRET.to_owned())),
            round,
        }
    }

    /// Makes the token and what gives it its right. `None` = that was not acknowledged.
    pub(super) async fn make(&self, rng: &mut Rng) -> Option<Token> {
        let Round { maker, making, .. } = self.round;
        let first = match making {
            Making::Granted => NO_RIGHTS,
            Making::Whole | Making::Uploaded => RIGHTS,
        };
        self.write_policy(maker, &self.policy(), first).await?;
        let role = match self.round.revocation.is_of_a_role() {
            true => Some(self.make_role().await?),
            false => None,
        };
        let mut body = json!({ "Name": self.policy(), "Type": "client" });
        match &role {
            Some(id) => body["Roles"] = json!([{ "ID": id }]),
            None => body["Policies"] = json!([self.policy()]),
        }
        if making == Making::Uploaded {
            let (accessor, secret) = (uuid(rng), uuid(rng));
            self.show(&secret).await;
            body["AccessorID"] = json!(accessor);
            body["SecretID"] = json!(secret);
        }
        let made = self.put(maker, "/v1/acl/token".to_owned(), body).await?;
        if making == Making::Granted {
            self.write_policy(maker, &self.policy(), RIGHTS).await?;
        }
        Some(Token {
            accessor: text(&made, "AccessorID")?,
            secret: text(&made, "SecretID")?,
            role,
        })
    }

    /// Takes the right away. Answers the state's index with that; `None` = it was not
    /// acknowledged.
    pub(super) async fn revoke(&self, token: &Token) -> Option<u64> {
        let server = self.round.revoker;
        let accessor = format!("/v1/acl/token/{}", token.accessor);
        let role = token.role.as_deref().unwrap_or_default();
        let role = format!("/v1/acl/role/{role}");
        let changed = match self.round.revocation {
            Revocation::TokenDeleted => self.delete(accessor).await,
            Revocation::TokenChanged => {
                let mut body = json!({ "Name": self.policy(), "Type": "client" });
                body["AccessorID"] = json!(token.accessor);
                body["Policies"] = json!([self.other_policy()]);
                self.put(server, accessor, body).await
            }
            Revocation::PolicyEmptied => self.write_policy(server, &self.policy(), NO_RIGHTS).await,
            Revocation::PolicyDeleted => {
                self.delete(format!("/v1/acl/policy/{}", self.policy()))
                    .await
            }
            Revocation::RoleDeleted => self.delete(role).await,
            Revocation::RoleChanged => {
                let body = self.role(&self.other_policy());
                self.put(server, role, body).await
            }
        };
        changed.map(|answer| answer.index)
    }

    /// Shows every server a secret that no token has yet.
    async fn show(&self, secret: &str) {
        for server in 0..SERVERS {
            let client = Client {
                secret: Some(secret.to_owned()),
                address: address(self.shared.token, server),
            };
            if let Some(door) = self.shared.doors.at(server) {
                let _ = client.ask(&door, Method::GET, "/v1/jobs", None).await;
            }
        }
    }

    /// Makes a role with the policy. Answers its id.
    async fn make_role(&self) -> Option<String> {
        let server = self.round.maker;
        self.write_policy(server, &self.other_policy(), NO_RIGHTS)
            .await?;
        let body = self.role(&self.policy());
        let made = self.put(server, "/v1/acl/role".to_owned(), body).await?;
        text(&made, "ID")
    }

    fn role(&self, policy: &str) -> Value {
        json!({ "Name": self.policy(), "Policies": [{ "Name": policy }] })
    }

    fn policy(&self) -> String {
        format!("round-{}", self.shared.token)
    }

    /// The name of a policy without the right.
    fn other_policy(&self) -> String {
        format!("{}-other", self.policy())
    }

    async fn write_policy(&self, server: Machine, name: &str, rules: &str) -> Option<Answer> {
        let path = format!("/v1/acl/policy/{name}");
        let body = json!({ "Name": name, "Rules": rules });
        self.put(server, path, body).await
    }

    async fn put(&self, server: Machine, path: String, body: Value) -> Option<Answer> {
        self.change(server, Method::PUT, path, Some(body)).await
    }

    async fn delete(&self, path: String) -> Option<Answer> {
        self.change(self.round.revoker, Method::DELETE, path, None)
            .await
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
                    Err(refused) if tried > 0 && is_gone(&method, &refused) => {
                        return self.newest();
                    }
                    Err(Refused { status, why }) => {
                        let what = format!("s{server}: {method} {path}: {status}: {why}");
                        self.shared.eyes.note(|| what.clone());
                        if !may_pass(status) {
                            // An earlier try may have been carried out.
                            if tried == 0 {
                                self.not_served(what);
                            }
                            return None;
                        }
                    }
                }
            }
            sleep(PAUSE).await;
        }
        None
    }

    fn not_served(&self, what: String) {
        let source = "docs/access.md: a management token may do everything";
        self.shared.eyes.fail("operators_are_served", source, what);
    }

    /// An earlier try took it away already: the newest state that any server has knows that.
    fn newest(&self) -> Option<Answer> {
        Some(Answer {
            index: self.shared.eyes.view().newest.index(),
            body: Value::Null,
        })
    }
}

fn text(answer: &Answer, key: &str) -> Option<String> {
    Some(answer.body.get(key)?.as_str()?.to_owned())
}

fn uuid(rng: &mut Rng) -> String {
    uuid::Uuid::from_u128(rng.id()).to_string()
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
