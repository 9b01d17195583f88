//! Every route that `docs/http-api.md` lists, with every method: who may ask, and what is served.
//! That the list is whole is seen in the router's source.

use std::collections::BTreeSet;

use serde_json::json;

use crate::world::World;

const DOCUMENT: &str = include_str!("../../../../docs/http-api.md");
/// Where paths are told apart.
const ROUTERS: [&str; 16] = [
    include_str!("../../src/http/acl.rs"),
    include_str!("../../src/http/agent.rs"),
    include_str!("../../src/http/alloc.rs"),
    include_str!("../../src/http/client_alloc.rs"),
    include_str!("../../src/http/client_fs.rs"),
    include_str!("../../src/http/deployments.rs"),
    include_str!("../../src/http/evals.rs"),
    include_str!("../../src/http/job.rs"),
    include_str!("../../src/http/jobs.rs"),
    include_str!("../../src/http/namespaces.rs"),
    include_str!("../../src/http/nodes.rs"),
    include_str!("../../src/http/operator.rs"),
    include_str!("../../src/http/route.rs"),
    include_str!("../../src/http/search.rs"),
    include_str!("../../src/http/status.rs"),
    include_str!("../../src/http/metrics/mod.rs"),
];
/// What is served without a token although access control is on, by any method.
const PUBLIC: [&str; 3] = ["/v1/status/leader", "/v1/agent/health", "/v1/acl/bootstrap"];
const METHODS: [&str; 6] = ["GET", "HEAD", "PUT", "POST", "DELETE", "PATCH"];
/// No object has it.
const ID: &str = "11111111-2222-3333-4444-555555555555";

/// A line of the table: paths, and methods that they have.
struct Row {
    paths: Vec<String>,
    methods: BTreeSet<String>,
}

impl Row {
    fn has(&self, method: &str) -> bool {
        // `PUT` and `POST` are one, and so are `GET` and `HEAD`.
        let listed = match method {
            "POST" => "PUT",
            "HEAD" => "GET",
            other => other,
        };
        self.methods.contains(listed)
    }
}

fn rows() -> Vec<Row> {
    let (_, table) = DOCUMENT.split_once("## Routes").expect("a table");
    let rows = table.lines().filter(|line| line.starts_with("| `/v1/"));
    rows.map(|line| {
        let mut cells = line.trim_matches('|').split('|').map(str::trim);
        let paths = cells.next().expect("paths").split('`').skip(1).step_by(2);
        let methods = cells.next().expect("methods").split(", ");
        Row {
            paths: paths.flat_map(expanded).collect(),
            methods: methods.map(str::to_owned).collect(),
        }
    })
    .collect()
}

/// `/v1/a/{b,c}/:id` is two paths.
fn expanded(path: &str) -> Vec<String> {
    let path = path.replace(":id", ID);
    let Some((before, rest)) = path.split_once('{') else {
        return vec![path];
    };
    let (choices, after) = rest.split_once('}').expect("a closing brace");
    let choices = choices.split(',');
    choices
        .map(|word| format!("{before}{word}{after}"))
        .collect()
}

#[test]
fn every_word_that_the_router_knows_is_in_the_document() {
    let listed: BTreeSet<String> = rows()
        .iter()
        .flat_map(|row| &row.paths)
        .flat_map(|path| path.split('/').map(str::to_owned))
        .collect();
    let mut routed = 0;
    for source in ROUTERS {
        let (source, _) = source.split_once("#[cfg(test)]").unwrap_or((source, ""));
        // What is served, or carried on to what serves it; refusals need not be listed.
        let arms = source.lines().filter(|line| {
            let line = line.trim();
            let is_arm = line.starts_with("(Verb::") || line.starts_with("[\"");
            is_arm && line.contains("=>") && !line.contains("Err(")
        });
        for arm in arms {
            let (pattern, _) = arm.split_once("=>").expect("an arm");
            for word in pattern.split('"').skip(1).step_by(2) {
                assert!(
                    listed.contains(word),
                    "{word} is routed and not documented: {arm}"
                );
                routed += 1;
            }
        }
    }
    assert!(
        routed > 60,
        "the arms of the routers were not found: {routed}"
    );
}

#[tokio::test]
async fn without_a_token_only_what_is_public_is_served() {
    let world = World::start_with(|config| config.acl_enabled = true).await;
    let extra = ["/v1/nothing", "/v1/vars", "/v1/event/stream", "/v1"].map(str::to_owned);
    let paths = rows().into_iter().flat_map(|row| row.paths).chain(extra);
    let mut public = BTreeSet::new();
    for path in paths {
        for method in METHODS {
            // However it is written.
            for head in [
                format!("{method} {path} HTTP/1.1"),
                format!("{method} {path}/ HTTP/1.1"),
                format!("{method} {path}?stale HTTP/1.1\r\nX-Nomad-Token: wrong"),
                format!("{method} {path} HTTP/1.1\r\nAuthorization: Bearer wrong"),
            ] {
                let (status, _, body) = world.raw(&head, "{}").await;
                if PUBLIC.contains(&path.as_str()) {
                    assert_ne!(status, 403, "{head}: {body}");
                    public.insert(path.clone());
                } else {
                    assert_eq!(status, 403, "{head}: {body}");
                    let words = if method == "HEAD" {
                        ""
                    } else {
                        "Permission denied"
                    };
                    assert_eq!(body, words, "{head}");
                }
            }
        }
    }
    assert_eq!(public.len(), PUBLIC.len(), "{public:?}");
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

#[tokio::test]
async fn what_the_document_lists_is_served_with_its_methods_and_no_other() {
    let world = World::start_with(|config| config.acl_enabled = true).await;
    let token = world.put("/v1/acl/bootstrap", json!({})).await;
    let token = token.expect("the first token")["SecretID"].clone();
    let token = token.as_str().expect("a secret");
    for row in rows() {
        for path in &row.paths {
            for method in METHODS {
                // Restores nothing: an empty body is no snapshot.
                let head = format!("{method} {path} HTTP/1.1\r\nX-Nomad-Token: {token}");
                let (status, _, body) = world.raw(&head, "").await;
                if row.has(method) {
                    assert!(
                        ![403, 405, 501].contains(&status) && body != "404 page not found",
                        "{method} {path} is listed: {status} {body}"
                    );
                } else {
                    assert_eq!(status, 405, "{method} {path} is not listed: {body}");
                }
            }
        }
    }
}
