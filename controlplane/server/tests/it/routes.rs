//! Every operation that `protocol-api` declares, with every method, with and without a token, with
//! and without a filter: who may ask, and what is served.

use protocol_access::need::Need;
use protocol_api::{Endpoint, Method, Support, endpoints};
use serde_json::json;

use crate::world::World;

const METHODS: [&str; 6] = ["GET", "HEAD", "PUT", "POST", "DELETE", "PATCH"];
/// No object has it.
const ID: &str = "11111111-2222-3333-4444-555555555555";

/// A path that means this operation and no object.
pub(crate) fn path_of(endpoint: &Endpoint) -> String {
    let segments = endpoint.path.split('/').map(|segment| match segment {
        _ if !segment.starts_with('{') => segment,
        _ => ID,
    });
    segments.collect::<Vec<_>>().join("/")
}

/// The operation that a path of [`path_of`] and a method mean; `PUT` and `POST` are one, and so are
/// `GET` and `HEAD`.
fn meant(path: &str, method: &str) -> Option<&'static Endpoint> {
    let method = match method {
        "GET" | "HEAD" => Method::Get,
        "PUT" | "POST" => Method::Put,
        "DELETE" => Method::Delete,
        _ => return None,
    };
    let path: Vec<&str> = path.split('/').skip(1).collect();
    protocol_api::find(&path, Some(method))
        .ok()
        .map(|it| it.endpoint)
}

/// Operations whose need is open, and whose answer is 403 where the object is none of the caller's
/// (`acl_objects` has their tests).
const JUDGED_BY_THEIR_HANDLER: [&str; 5] = [
    "ReadPolicy",
    "ReadRole",
    "ReadRoleByName",
    "OwnToken",
    "ExchangeOneTimeToken",
];

/// The status that a caller gets whose only fault may be its credential; `None` = not 403.
fn expected(path: &str, method: &str, shows_bad_credential: bool) -> Option<u16> {
    let endpoint = meant(path, method)?;
    let served = match shows_bad_credential {
        true => endpoint.need == Need::Public,
        false => endpoint.need.is_open(),
    };
    (!served).then_some(403)
}

#[tokio::test]
async fn without_a_token_only_open_operations_are_served() {
    let world = World::start_with(|config| config.acl_enabled = true).await;
    let beside = ["/v1/nothing", "/v1"].map(str::to_owned);
    for path in endpoints().map(path_of).chain(beside) {
        for method in METHODS {
            let operation = meant(&path, method).map_or("", |it| it.name);
            if JUDGED_BY_THEIR_HANDLER.contains(&operation) {
                continue;
            }
            // However it is written.
            for (head, bad) in [
                (format!("{method} {path} HTTP/1.1"), false),
                (format!("{method} {path}/ HTTP/1.1"), false),
                (
                    format!("{method} {path}?stale HTTP/1.1\r\nX-Nomad-Token: wrong"),
                    true,
                ),
                (
                    format!("{method} {path}?filter=ID+is+empty HTTP/1.1"),
                    false,
                ),
                (
                    format!("{method} {path} HTTP/1.1\r\nAuthorization: Bearer wrong"),
                    true,
                ),
            ] {
                let (status, _, body) = world.raw(&head, "{}").await;
                let Some(expected) = expected(&path, method, bad) else {
                    assert_ne!(status, 403, "{head}: {body}");
                    continue;
                };
                assert_eq!(status, expected, "{head}: {body}");
                let words = match method {
                    "HEAD" => "",
                    _ => "Permission denied",
                };
                assert_eq!(body, words, "{head}");
            }
        }
    }
    let public = endpoints().filter(|it| it.need == Need::Public).count();
    assert_eq!(
        public, 15,
        "one more or less is a decision, not an accident"
    );
}

#[tokio::test]
async fn exec_is_open_only_to_a_handshake_that_is_one() {
    let world = World::start_with(|config| config.acl_enabled = true).await;
    let ask = async |method: &str, wish: &str| {
        let path = format!("/v1/client/allocation/{ID}/exec?task=x&command=%5B%22x%22%5D{wish}");
        let upgrade = "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                       Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==";
        let head = format!("{method} {path} HTTP/1.1\r\n{upgrade}");
        world.raw(&head, "").await.0
    };
    for wish in [
        "", "=", "=0", "=f", "=F", "=false", "=FALSE", "=False", "=no",
    ] {
        let wish = format!("&ws_handshake{wish}");
        assert_eq!(ask("GET", &wish).await, 403, "{wish}");
    }
    assert_eq!(ask("GET", "").await, 403);
    // The token comes as the first message: until then nothing is done. (Without `Connection:
    // upgrade` it is no WebSocket, and refused behind the door.)
    for wish in ["=1", "=true", "=T"] {
        let wish = format!("&ws_handshake{wish}");
        assert_eq!(ask("GET", &wish).await, 400, "{wish}");
        assert_eq!(ask("PUT", &wish).await, 405, "{wish}");
    }
}

/// A world with access control, and its first token.
async fn with_token() -> (World, String) {
    let world = World::start_with(|config| config.acl_enabled = true).await;
    let token = world.put("/v1/acl/bootstrap", json!({})).await;
    let token = token.expect("the first token")["SecretID"].clone();
    (world, token.as_str().expect("a secret").to_owned())
}

#[tokio::test]
async fn each_operation_is_served_by_its_methods_and_no_other() {
    let (world, token) = with_token().await;
    let mut served = 0;
    for path in endpoints().map(path_of) {
        for method in METHODS {
            // Restores nothing: an empty body is no snapshot.
            let head = format!("{method} {path} HTTP/1.1\r\nX-Nomad-Token: {token}");
            let (status, _, body) = world.raw(&head, "").await;
            match meant(&path, method).map(|it| it.support) {
                None => assert_eq!(status, 405, "{method} {path}: {body}"),
                Some(Support::Absent(why)) => {
                    assert_eq!(status, 501, "{method} {path}");
                    assert!(method == "HEAD" || body == why, "{method} {path}: {body}");
                }
                Some(Support::Built) => {
                    served += 1;
                    let refused = [403, 405, 501].contains(&status);
                    assert!(
                        !refused && body != "404 page not found",
                        "{method} {path}: {status} {body}"
                    );
                }
            }
        }
    }
    assert!(served > 100, "{served}");
    for path in ["/v1/nothing", "/v1", "/v2/jobs", "/v1/jobs/a/b"] {
        let head = format!("GET {path} HTTP/1.1\r\nX-Nomad-Token: {token}");
        let (status, _, body) = world.raw(&head, "").await;
        assert_eq!(
            (status, body.as_str()),
            (404, "404 page not found"),
            "{path}"
        );
    }
}

#[tokio::test]
async fn a_filter_is_taken_by_filterable_lists_alone() {
    let (world, token) = with_token().await;
    // The lists of a node pool need one.
    let head = format!("PUT /v1/node/pool/{ID} HTTP/1.1\r\nX-Nomad-Token: {token}");
    assert_eq!(world.raw(&head, "{}").await.0, 200);
    for endpoint in endpoints().filter(|it| it.takes(Method::Get)) {
        let path = path_of(endpoint);
        let field = match path.as_str() {
            "/v1/node/pools" => "Name",
            "/v1/acl/tokens" => "AccessorID",
            _ => "ID",
        };
        let filter = format!("filter={field}+is+empty");
        let head = format!("GET {path}?{filter} HTTP/1.1\r\nX-Nomad-Token: {token}");
        let (status, _, body) = world.raw(&head, "").await;
        if endpoint.filterable {
            assert_eq!(status, 200, "{path}: {body}");
            let head = format!("GET {path}?filter=( HTTP/1.1\r\nX-Nomad-Token: {token}");
            assert_eq!(world.raw(&head, "").await.0, 400, "{path}");
        } else {
            assert_eq!(status, 400, "{path}: {body}");
            assert!(body.contains("?filter is for lists"), "{path}: {body}");
        }
    }
}

#[tokio::test]
async fn without_access_control_its_operations_are_refused_by_name() {
    let world = World::start().await;
    for endpoint in endpoints().filter(|it| it.needs_access_control) {
        for method in ["GET", "PUT", "DELETE"] {
            let head = format!("{method} {} HTTP/1.1", path_of(endpoint));
            let (status, _, body) = world.raw(&head, "").await;
            assert_eq!(
                (status, body.as_str()),
                (400, "ACL support disabled"),
                "{head}"
            );
        }
    }
}

#[tokio::test]
async fn every_json_body_of_a_wrong_type_is_a_located_400() {
    let world = World::start().await;
    for endpoint in endpoints() {
        let protocol_api::Body::Json { name, .. } = endpoint.body else {
            continue;
        };
        if endpoint.needs_access_control {
            continue;
        }
        let method = endpoint.methods[0].name();
        for body in ["[1", "\"text\"", "{\"a\": \u{1}}"] {
            let head = format!("{method} {} HTTP/1.1", path_of(endpoint));
            let (status, _, words) = world.raw(&head, body).await;
            assert_eq!(status, 400, "{head} {name} {body}: {words}");
        }
    }
}
