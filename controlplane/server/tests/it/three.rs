//! Three servers: whichever is asked, the answer is the same.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use controlplane_server::clock::{HostClock, WallClock};
use controlplane_server::cluster::{ChangeError, LeadingError};
use controlplane_server::config::{Config, TlsConfig};
use controlplane_server::{Server, dev};
use controlplane_state::Command;
use controlplane_state::command::AclPolicies;
use protocol_client::{Answer, Client, Query, TlsFiles};
use protocol_model::{TaskEvent, TaskEventKind, UnixNanos};
use protocol_transport::Region;
use protocol_wire::v1;
use serde_json::{Value, json};

use crate::fake_node::FakeNode;
use crate::keyring::keyed;
use crate::node_calls::run_deaf;
use crate::world::{PATIENCE, budgets_of_tests, service};

/// Addresses that were free a moment ago: the servers have to know each other's before they start.
/// They are on a host of their own, so that others take no port while its server is stopped.
pub(crate) fn addresses() -> Vec<SocketAddr> {
    static HOSTS: AtomicU8 = AtomicU8::new(1);
    let host = Ipv4Addr::new(127, 77, 0, HOSTS.fetch_add(1, Ordering::Relaxed));
    let sockets: Vec<UdpSocket> = (0..3)
        .map(|_| UdpSocket::bind((host, 0)).expect("a port"))
        .collect();
    sockets
        .iter()
        .map(|socket| socket.local_addr().expect("an address"))
        .collect()
}

/// Waits until the last task of a server that was shut down has closed its socket.
async fn is_free(address: SocketAddr) {
    let waited = tokio::time::timeout(PATIENCE, async {
        while UdpSocket::bind(address).is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    waited.await.expect("the port is free");
}

pub(crate) async fn start(
    root: &Path,
    number: usize,
    addresses: &[SocketAddr],
    bend: impl Fn(&mut Config),
) -> Server {
    start_at(root, number, addresses, (bend, Arc::new(HostClock))).await
}

/// The same, with a clock of its own.
async fn start_at(
    root: &Path,
    number: usize,
    addresses: &[SocketAddr],
    (bend, clock): (impl Fn(&mut Config), Arc<dyn WallClock>),
) -> Server {
    let directory = root.join(number.to_string());
    std::fs::create_dir_all(&directory).expect("a directory");
    let mut config = Config::dev(directory).expect("a configuration");
    let made = dev::certificates(root, &Region::global()).expect("certificates");
    let (cert, key) = (made.server.certificate, made.server.key);
    config.tls = TlsConfig::Files {
        ca: made.ca,
        cert,
        key,
    };
    config.limits.budgets = budgets_of_tests();
    bend(&mut config);
    config.name = format!("server-{number}");
    config.datacenter = format!("dc-{number}");
    config.http.listen.set_port(0);
    config.quic_listen = addresses[number];
    config.bootstrap_expect = 3;
    config.retry_join = addresses.iter().map(ToString::to_string).collect();
    is_free(addresses[number]).await;
    Server::start_at(config, clock).await.expect("a server")
}

pub(crate) fn client(server: &Server) -> Client {
    let address = format!("http://{}", server.http_address())
        .parse()
        .expect("an address");
    Client::new(address, &TlsFiles::default()).expect("a client")
}

/// Three servers that are one cluster. Its nodes need not show that they are alive.
pub(crate) async fn cluster(root: &Path) -> Vec<Server> {
    cluster_that_hears_within(root, Duration::from_secs(3600)).await
}

/// The same, where nodes may be silent for so long.
pub(crate) async fn cluster_that_hears_within(root: &Path, silence: Duration) -> Vec<Server> {
    cluster_with(root, |config| config.liveness.silence = silence).await
}

/// Three servers that are one cluster, with their configuration bent.
pub(crate) async fn cluster_with(root: &Path, bend: impl Fn(&mut Config)) -> Vec<Server> {
    cluster_at(root, bend, |_| Arc::new(HostClock)).await
}

/// The same, with a clock for each server, by its number.
pub(crate) async fn cluster_at(
    root: &Path,
    bend: impl Fn(&mut Config),
    clock: impl Fn(usize) -> Arc<dyn WallClock>,
) -> Vec<Server> {
    let addresses = addresses();
    let mut servers = Vec::new();
    for number in 0..3 {
        servers.push(start_at(root, number, &addresses, (&bend, clock(number))).await);
    }
    for server in &servers {
        let mut status = server.cluster().watch_status();
        let joined = status
            .wait_for(|status| status.leader.is_some() && status.membership.voters.len() == 3);
        let joined = tokio::time::timeout(PATIENCE, joined).await;
        drop(
            joined
                .expect("the cluster is formed in time")
                .expect("the log is there"),
        );
    }
    // The entry of the first root key is the last that new servers make by themselves.
    for server in &servers {
        keyed(server).await;
    }
    for server in &servers {
        let known = tokio::time::timeout(PATIENCE, knows_releases(server)).await;
        known.expect("the servers say their releases in time");
    }
    servers
}

/// Waits until a server knows the releases of the others: it takes the newest commands then.
async fn knows_releases(server: &Server) {
    let nothing = AclPolicies::Delete { names: Vec::new() };
    while let Err(ChangeError::OldServer(_)) = server.cluster().change(nothing.clone().into()).await
    {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_node_says_and_is_asked_goes_through_every_server() {
    let root = tempfile::tempdir().expect("a directory");
    let servers = cluster(root.path()).await;
    let clients: Vec<Client> = servers.iter().map(client).collect();
    let none = Query::new();
    let node = FakeNode::join_server(&servers[0], root.path()).await;
    let body = json!({ "Job": service("web") });
    let _: Answer<Value> = clients[1]
        .put("/v1/jobs", &none, &body)
        .await
        .expect("registered");
    let mut newest = servers[0].cluster().hub().watch();
    let placed = newest.wait_for(|snapshot| snapshot.allocs().next().is_some());
    let placed = tokio::time::timeout(PATIENCE, placed)
        .await
        .expect("in time")
        .expect("there");
    let id = placed.allocs().next().map(|alloc| alloc.id).expect("one");
    drop(placed);
    let event = TaskEvent::new(TaskEventKind::Started, "it runs", UnixNanos(7));
    node.report_running(id, "server", event).await;
    for client in &clients {
        let path = format!("/v1/allocation/{id}");
        // Events are volatile, and a busy server that has them is not waited for.
        let shown = async {
            loop {
                let alloc: Answer<Value> = client.get(&path, &none).await.expect("known");
                assert_eq!(alloc.value["ClientStatus"], "running");
                let events = &alloc.value["TaskStates"]["server"]["Events"];
                if events[0]["DisplayMessage"] == "it runs" {
                    return;
                }
                assert_eq!(events, &Value::Null);
            }
        };
        let shown = tokio::time::timeout(PATIENCE, shown).await;
        shown.expect("all of them show the events");
        let query = Query::new().with("task", "server").with("plain", true);
        let path = format!("/v1/client/fs/logs/{id}");
        let logs = client.text(&path, &query).await.expect("output");
        assert_eq!(logs.value, "0123456789");
        run_deaf(client, &id.to_string()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_changed_as_leader_of_a_term_is_neither_forwarded_nor_of_another_term() {
    let root = tempfile::tempdir().expect("a directory");
    let servers = cluster(root.path()).await;
    for server in &servers {
        let status = server.cluster().status();
        let led_by_another = status.leader.is_some_and(|leader| leader.id != status.id);
        // Nobody comes to lead in a term that is over, or that another one leads in.
        let mut terms = vec![status.term - 1];
        terms.extend(led_by_another.then_some(status.term));
        for term in terms {
            let cluster = server.cluster();
            let changed = cluster.change_as_leader(Command::Barrier, term).await;
            let refused = matches!(&changed, Err(LeadingError::NotLeading(it)) if *it == term);
            assert!(refused, "{changed:?}");
        }
    }
    let changed = async {
        loop {
            for server in &servers {
                let cluster = server.cluster();
                let term = cluster.status().term;
                let changed = cluster.change_as_leader(Command::Barrier, term).await;
                if changed.is_ok() {
                    return;
                }
            }
            tokio::task::yield_now().await;
        }
    };
    let changed = tokio::time::timeout(PATIENCE, changed).await;
    assert!(changed.is_ok(), "one of them leads");
}

#[tokio::test(flavor = "multi_thread")]
async fn followers_read_what_was_written_and_forward_what_is() {
    let root = tempfile::tempdir().expect("a directory");
    let servers = cluster(root.path()).await;
    let clients: Vec<Client> = servers.iter().map(client).collect();
    let none = Query::new();
    for (number, writer) in clients.iter().enumerate() {
        let id = format!("job-{number}");
        let body = json!({ "Job": service(&id) });
        let _: Answer<Value> = writer
            .put("/v1/jobs", &none, &body)
            .await
            .expect("registered");
        // Acknowledged is readable at once, wherever it is asked for.
        for reader in &clients {
            let path = format!("/v1/job/{id}");
            let answer: Answer<Value> = reader.get(&path, &none).await.expect("the job");
            assert_eq!(answer.value["ID"], id.as_str());
            assert!(answer.known_leader);
        }
    }
    let mut leaders = Vec::new();
    for reader in &clients {
        let answer: Answer<String> = reader
            .get("/v1/status/leader", &none)
            .await
            .expect("a leader");
        leaders.push(answer.value);
        let stale: Answer<Value> = reader
            .get("/v1/jobs", &Query::new().with("stale", ""))
            .await
            .expect("a list");
        assert!(stale.value.is_array());
        let members: Answer<Value> = reader
            .get("/v1/agent/members", &none)
            .await
            .expect("members");
        let all = members.value["Members"].as_array().expect("a list").clone();
        assert_eq!(all.len(), 3);
        for member in &all {
            let name = member["Name"].as_str().unwrap_or_default();
            let tags = &member["Tags"];
            assert_eq!(member["Status"], "alive", "{member}");
            assert_eq!(tags["build"], env!("CARGO_PKG_VERSION"), "{member}");
            // Each says itself where it is, whoever is asked.
            assert_eq!(tags["dc"], name.replace("server-", "dc-"), "{member}");
        }
    }
    leaders.dedup();
    assert_eq!(leaders.len(), 1, "all know the same leader");
}

#[tokio::test(flavor = "multi_thread")]
async fn heartbeats_are_heard_while_a_change_waits_for_a_leader() {
    let root = tempfile::tempdir().expect("a directory");
    let mut servers = cluster(root.path()).await;
    let mut node = FakeNode::join_server(&servers[0], root.path()).await;
    for server in servers.drain(1..) {
        server.shutdown().await;
    }
    let mut facts = hack_testkit::nodes::node(1);
    facts.attributes.insert("new".to_owned(), "fact".to_owned());
    let json = serde_json::to_vec(&facts).expect("facts are JSON");
    let epoch = node.epoch();
    node.say(&v1::FactsUpdate {
        epoch,
        facts: Some(v1::NodeFacts { json: json.into() }),
    })
    .await;
    for tick in 1..=3 {
        let heartbeat = v1::Heartbeat {
            epoch,
            tick,
            ..v1::Heartbeat::default()
        };
        node.say(&heartbeat).await;
        // Before anything is said about the facts, which nobody can commit.
        let ack: v1::HeartbeatAck = node.hear().await;
        assert_eq!(ack.tick, tick);
    }
}
