//! A clock that is set back revives no expired token: the later of the server's clock and the
//! state's time counts, and a token that was refused as expired stays so.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use controlplane_server::Server;
use controlplane_server::clock::{HostClock, WallClock};
use controlplane_server::config::Config;
use controlplane_state::Command;
use protocol_client::{Client, Query};
use protocol_model::{AllocId, UnixNanos};
use serde_json::{Value, json};

use super::super::{Holder, expiring, policy};
use crate::fake_node::FakeNode;
use crate::identities::{forwarded_with, placed, token};
use crate::three;
use crate::world::{PATIENCE, World, refusal, service};

const WRITE: &str = "namespace \"*\" { policy = \"write\" }";
/// How long the tokens of these tests are valid. It is longer than any test takes.
const TTL: Duration = Duration::from_secs(600);
/// Past the end of such a token, for a clock that is set forward.
const LATER: Duration = Duration::from_secs(700);

/// The host's clock, with a difference that a test sets.
#[derive(Debug, Default)]
struct SetClock {
    difference: AtomicI64,
}

impl SetClock {
    /// Sets it forward from the host's time.
    fn forward(&self, by: Duration) {
        let nanos = i64::try_from(by.as_nanos()).expect("a difference");
        self.difference.store(nanos, Ordering::SeqCst);
    }

    /// Sets it an hour back from the host's time.
    fn back(&self) {
        self.difference.store(-3_600_000_000_000, Ordering::SeqCst);
    }
}

impl WallClock for SetClock {
    fn now(&self) -> UnixNanos {
        UnixNanos(HostClock.now().0 + self.difference.load(Ordering::SeqCst))
    }
}

/// The token's reads and writes are refused as those of an expired one.
async fn is_expired(client: &Client, told: &str) {
    let none = Query::new();
    let (status, why) = refusal(client.get::<Value>("/v1/acl/token/self", &none).await);
    assert_eq!((status, why.as_str()), (403, "ACL token expired"), "{told}");
    let (status, _) = refusal(client.get::<Value>("/v1/jobs", &none).await);
    assert_eq!(status, 403, "{told}");
    let body = json!({ "Job": service("web") });
    let (status, _) = refusal(client.put::<_, Value>("/v1/jobs", &none, &body).await);
    assert_eq!(status, 403, "{told}");
}

async fn is_valid(client: &Client) {
    let listed = client.get::<Value>("/v1/jobs", &Query::new()).await;
    listed.expect("it is valid");
}

/// Nothing is written between, so the state's time stands still before the token's end.
#[tokio::test(flavor = "multi_thread")]
async fn an_expired_token_stays_expired_when_the_clock_is_set_back() {
    let clock = Arc::new(SetClock::default());
    let world = World::start_at(clock.clone(), |config| config.acl_enabled = true).await;
    let cluster = world.server.cluster();
    policy(cluster, "write", WRITE).await;
    let client = expiring(cluster, &["write"], TTL).await.of(&world.client);
    is_valid(&client).await;
    clock.forward(LATER);
    is_expired(&client, "the clock is past its end").await;
    clock.back();
    is_expired(&client, "the clock is set back").await;
}

/// The kind of caller of this token, why it is refused, and what its node is answered.
async fn judged((world, node): (&World, &FakeNode), alloc: AllocId, token: &str) -> Value {
    let client = world.client.clone().with_token(Some(token.to_owned()));
    let shown = client.get::<Value>("/v1/acl/whoami", &Query::new()).await;
    let shown = shown.expect("open to all").value;
    let request = ("GET", "/v1/agent/health", "");
    let (status, _, is_rejected) = forwarded_with(node, alloc, token, request).await;
    json!([shown["Kind"], shown["Rejected"], status, is_rejected])
}

/// The identity `api` has a ttl of 1 h, `default` has none.
#[tokio::test(flavor = "multi_thread")]
async fn workload_token_ends_with_its_ttl_by_the_later_clock() {
    let clock = Arc::new(SetClock::default());
    let world = World::start_at(clock.clone(), |config| config.acl_enabled = true).await;
    let (node, alloc) = placed(&world).await;
    let (way, path) = ((&world, &node), "/v1/var/nomad/jobs/web");
    let [endless, api] = [
        token(&node, alloc, "default").await,
        token(&node, alloc, "api").await,
    ];
    let (alive, dead) = (
        json!(["workload", "", 200, false]),
        json!(["anonymous", "expired", 403, true]),
    );
    clock.forward(Duration::from_secs(3600));
    assert_eq!(judged(way, alloc, &api).await, alive, "the leeway is 60 s");
    let manager = super::super::token(world.server.cluster(), &[]).await;
    let manager = manager.of(&world.client);
    let put = async || {
        let body = json!({ "Items": { "word": "any" } });
        let written = manager.put::<_, Value>(path, &Query::new(), &body).await;
        written.expect("written").index
    };
    let index = put().await;
    let client = world.client.clone().with_token(Some(api.clone()));
    let query = Query::new().with("index", index).with("wait", "60s");
    let waiting = tokio::spawn(async move { client.get::<Value>(path, &query).await });
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!waiting.is_finished(), "it waits");
    clock.forward(Duration::from_secs(3700));
    assert_eq!(judged(way, alloc, &api).await, dead);
    put().await;
    let ended = tokio::time::timeout(PATIENCE, waiting).await;
    let (status, _) = refusal(ended.expect("in time").expect("no panic"));
    assert_eq!(status, 403, "it expired while it waited");
    clock.forward(Duration::ZERO);
    assert_eq!(judged(way, alloc, &api).await, dead, "the state's time");
    assert_eq!(judged(way, alloc, &endless).await, alive);
}

/// The cluster's leader first, then the followers.
async fn leader_first(root: &std::path::Path, clocks: &[Arc<SetClock>; 3]) -> Vec<(usize, Server)> {
    let bend = |config: &mut Config| {
        config.acl_enabled = true;
        config.liveness.silence = Duration::from_secs(3600);
    };
    let clock = |number: usize| clocks[number].clone() as Arc<dyn WallClock>;
    let servers = three::cluster_at(root, bend, clock).await;
    let mut servers: Vec<(usize, Server)> = servers.into_iter().enumerate().collect();
    servers.sort_by_key(|(_, server)| !server.cluster().is_leader());
    servers
}

async fn holder(server: &Server) -> Holder {
    policy(server.cluster(), "write", WRITE).await;
    expiring(server.cluster(), &["write"], TTL).await
}

/// An entry that carries the time of the leader's clock into the state of every server.
async fn entry(servers: &[(usize, Server)]) {
    let changed = servers[0].1.cluster().change(Command::Barrier).await;
    let index = changed.expect("it is on a majority").index;
    for (_, server) in servers {
        let mut newest = server.cluster().hub().watch();
        let applied = newest.wait_for(|snapshot| snapshot.index() >= index);
        let applied = tokio::time::timeout(PATIENCE, applied).await;
        drop(applied.expect("in time").expect("the state is there"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn clocks_set_back_on_leader_or_follower_revive_no_token() {
    let root = tempfile::tempdir().expect("a directory");
    let clocks: [Arc<SetClock>; 3] = std::array::from_fn(|_| Arc::default());
    let servers = leader_first(root.path(), &clocks).await;
    let holder = holder(&servers[0].1).await;
    let clients: Vec<Client> = servers
        .iter()
        .map(|(_, server)| holder.of(&three::client(server)))
        .collect();
    for client in &clients {
        is_valid(client).await;
    }
    // The followers' clocks are wrong from before the end on: the state's time expires the token.
    clocks[servers[1].0].back();
    clocks[servers[0].0].forward(LATER);
    entry(&servers).await;
    for (client, told) in clients.iter().zip(["leader", "set back", "in time"]) {
        is_expired(client, told).await;
    }
    // The leader's clock goes back, and so would the time of its entries.
    clocks[servers[0].0].back();
    entry(&servers).await;
    for (client, told) in clients.iter().zip(["leader", "set back", "in time"]) {
        is_expired(client, told).await;
    }
}
