//! Every kind of caller at every server, over mutual TLS: the leader and its followers answer the
//! same, and a certificate gives no right over HTTP.

use std::path::Path;
use std::time::Duration;

use controlplane_server::Server;
use controlplane_server::config::HttpTls;
use protocol_client::{Client, ClientError, Query, TlsFiles};
use protocol_transport::{Role, StreamKind};
use protocol_wire::v1;
use serde_json::{Value, json};

use super::{policy, token};
use crate::fake_node::{open, write};
use crate::identities;
use crate::regions::issued_below;
use crate::three;
use crate::world::PATIENCE;

const CLIENT: &str = "namespace \"default\" {
  capabilities = [\"list-jobs\"]
  variables { path \"app/*\" { capabilities = [\"write\"] } }
}";

/// The files of a client with a certificate of this role.
fn files(root: &Path, role: Role) -> TlsFiles {
    let pem = issued_below(root, role, "global");
    let directory = root.join(format!("client-{role}"));
    std::fs::create_dir_all(&directory).expect("a directory");
    let path = |name: &str| directory.join(name);
    std::fs::write(path("cert.pem"), &pem.certificate).expect("is written");
    std::fs::write(path("key.pem"), &pem.key).expect("is written");
    TlsFiles {
        ca: Some(root.join("dev-tls/ca.pem")),
        cert: Some(path("cert.pem")),
        key: Some(path("key.pem")),
        ..TlsFiles::default()
    }
}

fn client(server: &Server, files: &TlsFiles) -> Client {
    let address = format!("https://{}", server.http_address());
    Client::new(address.parse().expect("an address"), files).expect("a client")
}

/// A caller, and the statuses of its requests in the order of [`asked`].
struct Caller {
    name: &'static str,
    certificate: Role,
    token: Option<String>,
    kind: &'static str,
    statuses: [u16; 6],
}

fn status<T>(answer: Result<T, ClientError>) -> u16 {
    match answer {
        Ok(_) => 200,
        Err(error) => error.status().expect("it is answered"),
    }
}

/// The caller's kind, and the statuses of a request of each kind of right.
async fn asked(client: &Client) -> (String, [u16; 6]) {
    let none = Query::new();
    let get = async |path: &str| client.get::<Value>(path, &none).await;
    let put = async |path: &str, body: Value| {
        let answer = client.put::<_, Value>(path, &none, &body).await;
        status(answer)
    };
    let whoami = get("/v1/acl/whoami").await.expect("open to all").value;
    let items = json!({ "Items": { "word": "planted" } });
    let statuses = [
        status(get("/v1/agent/health").await),
        status(get("/v1/jobs").await),
        status(get("/v1/vars?prefix=nomad/jobs/web").await),
        put("/v1/var/app/a", items).await,
        status(get("/v1/nodes").await),
        put("/v1/namespace", json!({ "Name": "dev" })).await,
    ];
    let kind = whoami["Kind"].as_str().expect("a kind").to_owned();
    (kind, statuses)
}

/// Callers without any right, by what they show, and those with some.
fn callers(manager: &str, reader: &str, workload: &str) -> Vec<Caller> {
    // Lists of variables are shown to all, without those that a caller may not list.
    let nothing = [200, 403, 200, 403, 403, 403];
    let all = [200; 6];
    let shown = |token: &str| Some(token.to_owned());
    let caller = |name, certificate, token, kind, statuses| Caller {
        name,
        certificate,
        token,
        kind,
        statuses,
    };
    vec![
        caller("anonymous", Role::Cli, None, "anonymous", nothing),
        caller(
            "a node's certificate",
            Role::Node,
            None,
            "anonymous",
            nothing,
        ),
        caller(
            "a server's certificate",
            Role::Server,
            None,
            "anonymous",
            nothing,
        ),
        caller(
            "a client token",
            Role::Cli,
            shown(reader),
            "token",
            [200, 200, 200, 200, 403, 403],
        ),
        caller(
            "a management token",
            Role::Cli,
            shown(manager),
            "token",
            all,
        ),
        caller(
            "management on a node",
            Role::Node,
            shown(manager),
            "token",
            all,
        ),
        caller(
            "a workload",
            Role::Cli,
            shown(workload),
            "workload",
            nothing,
        ),
        caller(
            "a workload on a node",
            Role::Node,
            shown(workload),
            "workload",
            nothing,
        ),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_caller_gets_the_same_answers_at_every_server() {
    let root = tempfile::tempdir().expect("a directory");
    let servers = three::cluster_with(root.path(), |config| {
        config.acl_enabled = true;
        config.http.tls = HttpTls::Mutual;
        config.liveness.silence = Duration::from_secs(3600);
    })
    .await;
    let cli = files(root.path(), Role::Cli);
    let first = client(&servers[0], &cli);
    let (node, alloc) = identities::placed_at(&servers[0], root.path(), &first).await;
    let workload = identities::token(&node, alloc, "default").await;
    policy(servers[0].cluster(), "client", CLIENT).await;
    let reader = token(servers[0].cluster(), &["client"]).await;
    let manager = token(servers[0].cluster(), &[]).await;
    let led: Vec<_> = servers
        .iter()
        .filter(|it| it.cluster().status().role == controlplane_raft::RaftRole::Leader)
        .collect();
    assert_eq!(led.len(), 1, "the others are followers");
    for caller in callers(&manager.secret, &reader.secret, &workload) {
        let files = files(root.path(), caller.certificate);
        for (number, server) in servers.iter().enumerate() {
            let client = client(server, &files).with_token(caller.token.clone());
            let found = asked(&client).await;
            let wanted = (caller.kind.to_owned(), caller.statuses);
            assert_eq!(found, wanted, "{} at server {number}", caller.name);
        }
    }
    // Without a certificate nothing is asked at all.
    let bare = TlsFiles {
        ca: cli.ca.clone(),
        ..TlsFiles::default()
    };
    for server in &servers {
        let (client, none) = (client(server, &bare), Query::new());
        let answer = client.get::<Value>("/v1/status/leader", &none).await;
        let refused = answer.expect_err("it has no certificate");
        assert_eq!(refused.status(), None, "{refused}");
    }
    nodes_propose_nothing(&servers, &node).await;
}

/// A node has no rights of a server: its proposal is not answered, and changes nothing.
async fn nodes_propose_nothing(servers: &[Server], node: &crate::fake_node::FakeNode) {
    let before = servers[0].cluster().status().last_index;
    for server in servers {
        let address = server.quic_address().expect("an address");
        let connection = node.endpoint().connect(address).await.expect("it connects");
        let (mut writer, mut reader) = open(&connection, StreamKind::Forward).await;
        let internal = v1::asker::Origin::Internal(v1::Internal {});
        let request = v1::ProposeRequest {
            command: vec![0xff; 32].into(),
            asker: Some(v1::Asker {
                origin: Some(internal),
            }),
        };
        write(&mut writer, &request).await;
        let answer = tokio::time::timeout(PATIENCE, reader.expect()).await;
        answer.expect("in time").expect_err("it is not answered");
    }
    assert_eq!(servers[0].cluster().status().last_index, before);
}
