//! Leaders that are killed at each step between the question for KEKs and the first root key leave
//! one KEK in use, and a root key that every server opens.
//!
//! ```text
//!  elected --> asking --> 1, 2, 3 disks have the KEK --> proposed --> on a majority --> applied
//! ```

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::Request;
use hack_sim::rng::Rng;
use hack_sim_cluster::net::{Machine, Network};
use hack_sim_cluster::pki;
use hack_sim_cluster::server::{Access, Parts, SimServer};
use hack_sim_cluster::time::SimClock;
use tokio::time::{Instant, sleep, timeout};
use tower::ServiceExt;

const SERVERS: u8 = 3;
/// How often is looked whether the step has come: a packet takes a millisecond.
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// How long a leader stays away that was killed.
const AWAY: Duration = Duration::from_secs(2);
/// How long anything may take, in virtual time.
const PATIENCE: Duration = Duration::from_secs(60);

/// The step at which a leader is killed.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// So many milliseconds after it was elected: it asks the others, or waits to.
    Elected(u64),
    /// So many disks have the KEK.
    Stored(usize),
    /// The root key is in its log alone: nothing from it reaches the others any more.
    Proposed,
    /// The root key is in the logs of others too, and it does not know that.
    Replicated,
    /// A server applied the root key.
    Applied,
}

/// A way between a leader and the others.
#[derive(Clone, Copy, Debug)]
enum Way {
    Out,
    Back,
}

/// Three servers, and nothing else.
struct World {
    network: Network,
    servers: Vec<SimServer>,
    /// KEKs that any disk ever had, the oldest first.
    seen: Vec<[u8; 8]>,
    /// Whether a way of the leader is cut.
    is_cut: bool,
}

impl World {
    fn new(seed: u64) -> Self {
        let begun = Instant::now();
        let network = Network::new(Rng::new(seed, 1));
        let pki = pki::shared().expect("certificates");
        let server = |machine: Machine| {
            SimServer::new(Parts {
                machine,
                servers: SERVERS,
                network: network.clone(),
                identity: pki.server.clone(),
                clock: Arc::new(SimClock::new(begun)),
                rng: Rng::new(seed, 2 + u64::from(machine)),
                access: Access {
                    is_on: true,
                    planted: None,
                },
            })
        };
        Self {
            servers: (0..SERVERS).map(server).collect(),
            network,
            seen: Vec::new(),
            is_cut: false,
        }
    }

    async fn start_all(&mut self) {
        for server in self.servers.iter_mut().filter(|it| !it.is_up()) {
            server.start().await.expect("a server starts");
        }
    }

    fn leader(&self) -> Option<Machine> {
        let leads = |it: &&SimServer| it.cluster().is_some_and(|cluster| cluster.is_leader());
        self.servers.iter().find(leads).map(|it| it.machine)
    }

    /// The most disks that have the same KEK.
    fn copies(&mut self) -> usize {
        let disks: Vec<_> = self.servers.iter().map(|it| it.keks.ids()).collect();
        for kek in disks.iter().flatten() {
            if !self.seen.contains(kek) {
                self.seen.push(*kek);
            }
        }
        let on = |kek: &[u8; 8]| disks.iter().filter(|keks| keks.contains(kek)).count();
        self.seen.iter().map(on).max().unwrap_or(0)
    }

    fn has_root_key(&self, machine: Machine) -> bool {
        let cluster = self.servers[usize::from(machine)].cluster();
        cluster.is_some_and(|cluster| cluster.snapshot().active_root_key().is_some())
    }

    fn last_index(&self, machine: Machine) -> u64 {
        let cluster = self.servers[usize::from(machine)].cluster();
        cluster.map_or(0, |cluster| cluster.status().last_index)
    }

    /// Cuts one way between the leader and the others.
    fn cut(&mut self, leader: Machine, way: Way) {
        self.is_cut = true;
        for other in (0..SERVERS).filter(|it| *it != leader) {
            match way {
                Way::Out => self.network.cut(leader, other),
                Way::Back => self.network.cut(other, leader),
            }
        }
    }

    /// Waits for the step, and kills the leader then.
    async fn kill_at(&mut self, step: Step) {
        if let Step::Elected(after_ms) = step {
            while self.leader().is_none() {
                sleep(LOOK_EVERY).await;
            }
            sleep(Duration::from_millis(after_ms)).await;
        }
        // The end of the leader's log when a majority had the KEK.
        let mut mark = None;
        loop {
            if let Some(leader) = self.leader()
                && self.is_at(step, leader, &mut mark)
            {
                self.servers[usize::from(leader)].kill();
                return;
            }
            sleep(LOOK_EVERY).await;
        }
    }

    fn is_at(&mut self, step: Step, leader: Machine, mark: &mut Option<u64>) -> bool {
        let copies = self.copies();
        match step {
            Step::Elected(_) => true,
            Step::Stored(disks) => copies >= disks,
            Step::Applied => (0..SERVERS).any(|it| self.has_root_key(it)),
            Step::Proposed | Step::Replicated => {
                let end = self.last_index(leader);
                let Some(mark) = *mark else {
                    if copies >= 2 {
                        *mark = Some(end);
                        if matches!(step, Step::Proposed) {
                            self.cut(leader, Way::Out);
                        }
                    }
                    return false;
                };
                let others = (0..SERVERS).filter(|it| *it != leader);
                let is_there = match step {
                    Step::Proposed => end > mark,
                    _ => others.map(|it| self.last_index(it)).max() > Some(mark),
                };
                if end > mark && !is_there && !self.is_cut {
                    self.cut(leader, Way::Back);
                }
                assert!(
                    !(0..SERVERS).any(|it| self.has_root_key(it)),
                    "{step:?} is over"
                );
                is_there
            }
        }
    }

    /// Kills so many leaders at the step, one after the other; all come back.
    async fn lose_leaders(&mut self, step: Step, leaders: usize) {
        for _ in 0..leaders {
            self.kill_at(step).await;
            if std::mem::take(&mut self.is_cut) {
                self.network.heal();
            }
            sleep(AWAY).await;
            self.start_all().await;
        }
    }

    /// Whether each server has one root key, and opens it.
    async fn is_well(&self) -> bool {
        for server in &self.servers {
            if !self.has_root_key(server.machine) || health(server).await != "ok" {
                return false;
            }
        }
        true
    }
}

/// The message of `agent/health`: it names a KEK that is missing.
async fn health(server: &SimServer) -> String {
    let Some(door) = server.door() else {
        return "it is off".to_owned();
    };
    let request = Request::get("/v1/agent/health?type=server").body(Body::empty());
    let asked = door.http.clone().oneshot(request.expect("a request"));
    let Ok(answer) = asked.await;
    let bytes = to_bytes(answer.into_body(), 1 << 16).await.expect("a body");
    let body: serde_json::Value = serde_json::from_slice(&bytes).expect("JSON");
    body["server"]["message"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

/// Loses leaders at a step. Answers the KEK in use, and all that were ever made, the oldest first.
fn kek_after(step: Step, leaders: usize) -> ([u8; 8], Vec<[u8; 8]>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let mut world = World::new(7);
        world.start_all().await;
        let lost = timeout(PATIENCE, world.lose_leaders(step, leaders)).await;
        lost.unwrap_or_else(|_| panic!("{step:?} does not come"));
        let well = timeout(PATIENCE, async {
            while !world.is_well().await {
                sleep(Duration::from_millis(50)).await;
            }
        });
        well.await
            .unwrap_or_else(|_| panic!("{step:?}: a server has no root key that it opens"));
        world.copies();
        let mut used = BTreeSet::new();
        for server in &world.servers {
            let snapshot = server.cluster().expect("it runs").snapshot();
            assert_eq!(snapshot.root_keys().count(), 1, "{step:?}");
            let key = snapshot.active_root_key().expect("a root key");
            assert!(server.keks.ids().contains(&key.kek_id), "{step:?}");
            used.insert((key.id, key.kek_id));
        }
        assert_eq!(used.len(), 1, "{step:?}: {used:?}");
        let (_, kek) = used.first().expect("one");
        (*kek, world.seen)
    })
}

#[test]
fn leader_killed_while_it_asks_for_keks_leaves_one_in_use() {
    // A KEK is on the first disk about 20 ms after the election.
    for after_ms in [2, 8, 14, 17, 18, 19, 20, 21] {
        kek_after(Step::Elected(after_ms), 1);
    }
}

#[test]
fn leaders_killed_with_a_kek_on_one_disk_leave_one_in_use() {
    // Their successors may not find it, and make another one.
    let (kek, made) = kek_after(Step::Stored(1), 1);
    assert!(made.contains(&kek) && made.len() <= 2, "{made:?}");
}

#[test]
fn leaders_killed_with_a_kek_on_a_majority_leave_that_one_in_use() {
    for disks in [2, 3] {
        let (kek, made) = kek_after(Step::Stored(disks), 2);
        assert_eq!(made, [kek], "{disks} disks");
    }
}

#[test]
fn leader_killed_with_a_root_key_in_its_log_alone_leaves_one_kek() {
    let (kek, made) = kek_after(Step::Proposed, 1);
    assert_eq!(made, [kek]);
}

#[test]
fn leader_killed_before_it_knows_that_its_root_key_is_replicated() {
    let (kek, made) = kek_after(Step::Replicated, 1);
    assert_eq!(made, [kek]);
}

#[test]
fn leader_killed_once_the_root_key_is_applied_leaves_one_kek() {
    let (kek, made) = kek_after(Step::Applied, 2);
    assert_eq!(made, [kek]);
}
