//! Requests of several callers on one connection: each is judged by its own credential.

use http_body_util::{BodyExt, Empty};
use hyper::client::conn::{http1, http2};
use hyper::{Request, StatusCode, body::Bytes};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::Value;
use tokio::net::TcpStream;

use super::super::{delete, policy, token, world};
use crate::world::World;

/// Requests on each connection.
const REQUESTS: u32 = 4000;
/// Requests of an HTTP/2 connection that are under way at a time.
const AT_ONCE: u32 = 50;

/// A caller, and the answers that it gets.
struct Caller {
    secret: Option<String>,
    /// The accessor id that `acl/token/self` answers; `None` where it refuses.
    accessor_id: Option<String>,
    jobs: StatusCode,
    nodes: StatusCode,
}

/// Two tokens with different rights, a deleted one, and a caller without one.
async fn callers(world: &World) -> Vec<Caller> {
    let cluster = world.server.cluster();
    policy(cluster, "jobs", "namespace \"*\" { policy = \"read\" }").await;
    policy(cluster, "nodes", "node { policy = \"read\" }").await;
    let (ok, refused) = (StatusCode::OK, StatusCode::FORBIDDEN);
    let mut callers = Vec::new();
    for (name, jobs, nodes) in [("jobs", ok, refused), ("nodes", refused, ok)] {
        let holder = token(cluster, &[name]).await;
        callers.push(Caller {
            secret: Some(holder.secret),
            accessor_id: Some(holder.accessor_id),
            jobs,
            nodes,
        });
    }
    let deleted = token(cluster, &["jobs"]).await;
    delete(cluster, &deleted).await;
    callers.push(Caller {
        secret: Some(deleted.secret),
        accessor_id: None,
        jobs: refused,
        nodes: refused,
    });
    callers.push(Caller {
        secret: None,
        accessor_id: Some("anonymous".to_owned()),
        jobs: refused,
        nodes: refused,
    });
    callers
}

/// A request and the answer that it has to get.
struct Asked<'a> {
    path: &'static str,
    caller: &'a Caller,
}

impl Asked<'_> {
    /// The request of this number: callers and paths follow each other in every order.
    fn of(callers: &[Caller], number: u32) -> Asked<'_> {
        // The multiplier of Knuth's hash: neighbours differ in their high bits.
        let mixed = number.wrapping_mul(2_654_435_769) >> 16;
        let paths = ["/v1/acl/token/self", "/v1/jobs", "/v1/nodes"];
        let at = |length: usize, by: u32| usize::try_from(mixed / by).unwrap_or(0) % length;
        Asked {
            path: paths[at(paths.len(), 1)],
            caller: &callers[at(callers.len(), 3)],
        }
    }

    fn request(&self) -> Request<Empty<Bytes>> {
        let mut request = Request::get(format!("http://localhost{}", self.path));
        request = request.header("host", "localhost");
        if let Some(secret) = &self.caller.secret {
            request = request.header("x-nomad-token", secret);
        }
        request.body(Empty::new()).expect("a request")
    }

    fn check(&self, status: StatusCode, body: &[u8]) {
        let caller = self.caller;
        let expected = match (self.path, &caller.accessor_id) {
            ("/v1/jobs", _) => caller.jobs,
            ("/v1/nodes", _) => caller.nodes,
            (_, Some(_)) => StatusCode::OK,
            (_, None) => StatusCode::FORBIDDEN,
        };
        assert_eq!(status, expected, "{} {:?}", self.path, caller.accessor_id);
        if self.path == "/v1/acl/token/self" && status == StatusCode::OK {
            let token: Value = serde_json::from_slice(body).expect("JSON");
            assert_eq!(token["AccessorID"].as_str(), caller.accessor_id.as_deref());
        }
    }
}

async fn connected(world: &World) -> TokioIo<TcpStream> {
    let stream = TcpStream::connect(world.server.http_address()).await;
    TokioIo::new(stream.expect("connects"))
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_of_one_http1_connection_are_judged_by_their_own_tokens() {
    let (world, _) = world().await;
    let callers = callers(&world).await;
    let (mut sender, connection) = http1::handshake(connected(&world).await)
        .await
        .expect("HTTP/1.1");
    tokio::spawn(connection);
    for number in 0..REQUESTS {
        let asked = Asked::of(&callers, number);
        sender.ready().await.expect("the connection is kept alive");
        let answer = sender.send_request(asked.request()).await;
        let answer = answer.expect("it is answered");
        let status = answer.status();
        let body = answer.into_body().collect().await.expect("a body");
        asked.check(status, &body.to_bytes());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_of_one_http2_connection_are_judged_by_their_own_tokens() {
    let (world, _) = world().await;
    let callers = callers(&world).await;
    let (sender, connection) = http2::handshake(TokioExecutor::new(), connected(&world).await)
        .await
        .expect("HTTP/2");
    tokio::spawn(connection);
    for first in (0..REQUESTS).step_by(AT_ONCE as usize) {
        let answers = (first..first + AT_ONCE).map(|number| {
            let asked = Asked::of(&callers, number);
            let mut sender = sender.clone();
            async move {
                let answer = sender.send_request(asked.request()).await;
                let answer = answer.expect("it is answered");
                let status = answer.status();
                let body = answer.into_body().collect().await.expect("a body");
                asked.check(status, &body.to_bytes());
            }
        });
        futures::future::join_all(answers).await;
    }
}
