//! Requests of tasks, which come over a node's stream instead of a connection of their own: the
//! same routes, with a token on every one.
//!
//! ```text
//!  gateway::task_api --> credential: absent, unknown --> rejected (the node answers 403)
//!                            | known
//!                            v
//!                        entry::handle, with `ViaNode` in place of a connection
//! ```

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Request, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Router};
use controlplane_state::Snapshot;
use futures::future::BoxFuture;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::io::DuplexStream;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::Instant;

use super::Api;
use super::entry::{self, Entry};
use super::error::HttpError;
use super::query::Query;
use super::requested::{self, Unresolved};
use crate::access::{Caller, Credential, Rejected, Sender};
use crate::gateway::{TaskAnswer, TaskRequests, ViaNode};

/// Routes that mean a node: that of the task, where the request names none.
const OF_NODE: [&str; 3] = ["/v1/client/stats", "/v1/client/gc", "/v1/client/metadata"];
/// The route of refused credentials, as the audit log names it.
const ROUTE: &str = "task api";

/// The API as tasks reach it.
#[derive(Debug)]
pub(crate) struct TaskEntry {
    entry: Entry,
    threads: Handle,
}

/// A request that is not served.
enum Refused {
    /// Its credential is not valid.
    Rejected,
    /// Its credential is not valid, or not known here, and its task has no failures left.
    Limited(HttpError),
    /// For another reason.
    Other(HttpError),
}

impl TaskEntry {
    /// The entry to `api`, served on `threads`.
    pub(crate) fn new(api: Api, threads: Handle, stopped: watch::Receiver<bool>) -> Self {
        Self {
            entry: Entry::new(api, stopped),
            threads,
        }
    }

    async fn find_caller(&self, headers: &HeaderMap, sender: Sender) -> Result<(), Refused> {
        let api = &self.entry.api;
        let credential = Credential::of(headers).map_err(|error| Refused::Other(error.into()))?;
        let found = requested::resolve(api, &credential, &sender).await;
        let unresolved = match found.map(|asker| asker.caller) {
            Ok(Caller::Token { .. } | Caller::Workload(_)) => return Ok(()),
            Ok(Caller::Anonymous { .. }) => Unresolved::Rejected(Rejected::Unknown),
            Ok(Caller::Open) => match self.look_at_identity(&credential).await {
                Ok(()) => return Ok(()),
                Err(why) => Unresolved::Rejected(why),
            },
            Err(unresolved) => unresolved,
        };
        let access = api.cluster.access();
        requested::refuse(access, &unresolved, ROUTE, &sender, Instant::now())
            .map_err(Refused::Limited)?;
        Err(match unresolved {
            Unresolved::Rejected(_) => Refused::Rejected,
            other => Refused::Other(other.into()),
        })
    }
}

impl TaskEntry {
    /// Verifies a workload token where access control is off: an ACL token is no credential there.
    /// One of an allocation that is too new for this server is looked at once more.
    async fn look_at_identity(&self, credential: &Credential) -> Result<(), Rejected> {
        let api = &self.entry.api;
        let Credential::Workload(shown) = credential else {
            return Err(Rejected::Unknown);
        };
        let verify = |snapshot: &Snapshot| {
            let access = api.cluster.access();
            let verified = access.workload(snapshot, shown, api.cluster.wall_clock());
            verified.map(drop)
        };
        if verify(&api.cluster.snapshot()).is_ok() {
            return Ok(());
        }
        match api.cluster.consistent().await {
            Ok(snapshot) => verify(&snapshot),
            Err(_) => Err(Rejected::Unknown),
        }
    }
}

impl TaskRequests for TaskEntry {
    fn threads(&self) -> &Handle {
        &self.threads
    }

    fn authenticate<'a>(
        &'a self,
        headers: &'a HeaderMap,
        via: &'a ViaNode,
    ) -> BoxFuture<'a, Result<(), TaskAnswer>> {
        Box::pin(async move { Ok(self.find_caller(headers, via.sender()).await?) })
    }

    fn answer(&self, mut request: Request<Body>, via: ViaNode) -> BoxFuture<'_, Response> {
        Box::pin(async move {
            name_node(request.uri_mut(), &via);
            request.extensions_mut().insert(via);
            entry::handle(State(self.entry.clone()), request).await
        })
    }

    fn serve_upgrade(&self, io: DuplexStream, via: ViaNode) -> BoxFuture<'_, ()> {
        let router = Router::new()
            .fallback(entry::handle)
            .with_state(self.entry.clone())
            .layer(Extension(via));
        Box::pin(async move {
            let service = TowerToHyperService::new(router);
            let serving = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(io), service)
                .with_upgrades();
            if let Err(error) = serving.await {
                tracing::debug!(%error, "a connection of a task broke");
            }
        })
    }
}

impl From<Refused> for TaskAnswer {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Rejected => Self {
                response: (StatusCode::FORBIDDEN, "Forbidden").into_response(),
                is_rejected: true,
            },
            Refused::Limited(error) => Self {
                response: error.into_response(),
                is_rejected: true,
            },
            Refused::Other(error) => Self {
                response: error.into_response(),
                is_rejected: false,
            },
        }
    }
}

/// Names the node of the task where the route means a node and the request names none.
fn name_node(uri: &mut Uri, via: &ViaNode) {
    if !OF_NODE.contains(&uri.path()) {
        return;
    }
    let query = uri.query().unwrap_or_default();
    // A query that cannot be read is refused at the entry.
    let is_named = Query::parse(query).is_ok_and(|query| query.text("node_id").is_some());
    if is_named {
        return;
    }
    let separator = if query.is_empty() { "" } else { "&" };
    let named = format!("{}?{query}{separator}node_id={}", uri.path(), via.node);
    if let Ok(named) = named.parse() {
        *uri = named;
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use protocol_model::NodeId;

    use super::*;

    #[test]
    fn routes_of_a_node_mean_that_of_the_task_unless_they_name_one() {
        let via = ViaNode {
            node: NodeId::from_u128(1),
            address: IpAddr::from([10, 0, 0, 7]),
            task: None,
        };
        let id = via.node;
        for (given, expected) in [
            ("/v1/client/stats", format!("/v1/client/stats?node_id={id}")),
            (
                "/v1/client/gc?x=1",
                format!("/v1/client/gc?x=1&node_id={id}"),
            ),
            (
                "/v1/client/metadata?node_id=ab",
                "/v1/client/metadata?node_id=ab".to_owned(),
            ),
            ("/v1/jobs", "/v1/jobs".to_owned()),
        ] {
            let mut uri: Uri = given.parse().expect("a target");
            name_node(&mut uri, &via);
            assert_eq!(uri.to_string(), expected);
        }
    }
}
