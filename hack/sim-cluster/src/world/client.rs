//! Operators, what they wish, and what they were promised. They use the HTTP API, as everybody
//! does.

use std::sync::Arc;
use std::time::Duration;

use axum::http::{Method, StatusCode};
use hack_sim::rng::Rng;
use hack_sim::schedule::jobs::{self, Kind};
use parking_lot::Mutex;
use protocol_model::JobKey;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::sleep;

use super::World;
use super::doors::Doors;
use super::http::{Answer, Client, Refused};
use super::rounds::{self, MANAGER_SECRET};
use crate::eyes::{Eyes, Observation};
use crate::net::Machine;
use crate::schedule::op::{Op, OpKind, usual};
use crate::schedule::{Schedule, job};
use crate::server::Door;

/// The number of wishes for the end.
const END: u32 = u32::MAX;
/// The pause before the first management token is asked for again.
const BOOTSTRAP_PAUSE: Duration = Duration::from_millis(250);
/// A stream of chance for each round of access, by the number of its wish.
const STREAM_ROUNDS: u64 = 1_000;

/// See the top of this file.
#[derive(Debug)]
pub(super) struct Clients {
    eyes: Arc<Eyes>,
    doors: Doors,
    seed: u64,
    kinds: Vec<Kind>,
    client: Client,
    /// Whether the operators have their token, where they need one.
    ready: watch::Sender<bool>,
    /// Per job, whether its registration for the end was acknowledged.
    end: Vec<Arc<Mutex<Wish>>>,
}

/// How a wish for the end stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Wish {
    #[default]
    Open,
    Asked,
    /// The job is as it was registered at this index.
    Done(u64),
}

/// A request that changes something.
#[derive(Debug)]
struct Change {
    method: Method,
    path: String,
    body: Option<Value>,
    /// The job that is registered with it.
    registers: Option<JobKey>,
}

impl Clients {
    pub(super) fn new(eyes: &Arc<Eyes>, doors: &Doors, schedule: &Schedule, seed: u64) -> Self {
        let kinds = schedule.jobs.clone();
        let secret = schedule.access.then(|| MANAGER_SECRET.to_owned());
        Self {
            eyes: Arc::clone(eyes),
            doors: doors.clone(),
            seed,
            end: kinds.iter().map(|_| Arc::default()).collect(),
            kinds,
            client: Client::operator(secret),
            ready: watch::Sender::new(!schedule.access),
        }
    }

    /// Asks for the first management token, where access control is on.
    pub(super) fn begin(&self) {
        let (ready, eyes) = (self.ready.clone(), Arc::clone(&self.eyes));
        let doors = self.doors.clone();
        tokio::spawn(async move {
            while !*ready.borrow() {
                sleep(BOOTSTRAP_PAUSE).await;
                if let Some(door) = doors.near(0) {
                    let is_done = bootstrap(&eyes, &door).await;
                    ready.send_replace(is_done);
                }
            }
        });
    }

    /// Asks a server for something; what comes of it is noted.
    pub(super) fn wish(&self, op: Op, door: Option<Door>) {
        let Some(door) = door else {
            return;
        };
        let eyes = Arc::clone(&self.eyes);
        let (client, mut ready) = (self.client.clone(), self.ready.subscribe());
        if let OpKind::Access(round) = op.kind {
            let rng = Rng::new(self.seed, STREAM_ROUNDS + u64::from(op.number));
            let parts = (eyes, self.doors.clone());
            tokio::spawn(async move {
                if ready.wait_for(|ready| *ready).await.is_ok() {
                    rounds::run(round, op.number, parts, rng).await;
                }
            });
            return;
        }
        let Some(change) = self.change(op.kind) else {
            tokio::spawn(read(Arc::clone(&eyes), op.server, door.clone()));
            tokio::spawn(read_job(eyes, op.server, door, client));
            return;
        };
        tokio::spawn(async move {
            if ready.wait_for(|ready| *ready).await.is_ok() {
                eyes.note(|| format!("wish {}: {:?}", op.number, op.kind));
                change.carry_out(&eyes, &door, &client, op.number).await;
            }
        });
    }

    /// What was wished for before does not count any more.
    pub(super) fn forget(&mut self) {
        self.end = self.kinds.iter().map(|_| Arc::default()).collect();
    }

    /// Whether everything for the end was acknowledged.
    pub(super) fn all_done(&self) -> bool {
        let done = |wish: &Mutex<Wish>| matches!(*wish.lock(), Wish::Done(_));
        self.end.iter().all(|wish| done(wish))
    }

    /// Asks for each job as it is wanted in the end, where that is not under way.
    fn wish_for_the_end(&self, door: &Door) {
        if !*self.ready.borrow() {
            return;
        }
        self.wish_again_where_overtaken();
        for (job, kind) in self.kinds.iter().enumerate() {
            let wish = Arc::clone(&self.end[job]);
            if *wish.lock() != Wish::Open {
                continue;
            }
            *wish.lock() = Wish::Asked;
            let again = self.register(job, usual(*kind), 0);
            let (eyes, door) = (Arc::clone(&self.eyes), door.clone());
            let client = self.client.clone();
            tokio::spawn(async move {
                let done = again.carry_out(&eyes, &door, &client, END).await;
                *wish.lock() = done.map_or(Wish::Open, Wish::Done);
            });
        }
    }

    /// A wish of before that was on its way may have reached the log after the one for the end.
    fn wish_again_where_overtaken(&self) {
        let state = self.eyes.view().newest;
        for (job, wish) in self.end.iter().enumerate() {
            let changed = state.job(&JobKey::new("default", jobs::name(job)));
            let changed = changed.map_or(0, |job| job.job_modify_index);
            let mut wish = wish.lock();
            if matches!(*wish, Wish::Done(at) if at < changed) {
                *wish = Wish::Open;
            }
        }
    }

    /// What is asked for; `None` = nothing is changed.
    fn change(&self, kind: OpKind) -> Option<Change> {
        match kind {
            OpKind::Read | OpKind::Access(_) => None,
            OpKind::Register {
                job,
                count,
                generation,
            } => Some(self.register(job, count, generation)),
            OpKind::Stop { job } => Some(Change {
                method: Method::DELETE,
                path: format!("/v1/job/{}", jobs::name(job)),
                body: None,
                registers: None,
            }),
            OpKind::Evaluate { job } => Some(Change {
                method: Method::POST,
                path: format!("/v1/job/{}/evaluate", jobs::name(job)),
                body: Some(json!({ "JobID": jobs::name(job) })),
                registers: None,
            }),
        }
    }

    fn register(&self, job: usize, count: u32, generation: u32) -> Change {
        let job = job::job(job, self.kinds[job], count, generation);
        Change {
            method: Method::PUT,
            path: "/v1/jobs".to_owned(),
            registers: Some(job.key()),
            body: Some(json!({ "Job": job })),
        }
    }
}

impl Change {
    /// The index at which the state has it, or the job that it registers; `None` = that is not
    /// certain.
    async fn carry_out(
        self,
        eyes: &Eyes,
        door: &Door,
        client: &Client,
        number: u32,
    ) -> Option<u64> {
        let asked = client.ask(door, self.method, &self.path, self.body.as_ref());
        match asked.await {
            Ok(Answer { index, body }) => {
                eyes.note(|| format!("wish {number} is acknowledged at {index}"));
                eyes.acknowledged(index);
                let Some(key) = self.registers else {
                    return Some(index);
                };
                let modified = modify_index(&body);
                match modified {
                    Some(modified) => eyes.promised(key, modified),
                    None => not_understood(eyes, format!("{key}: {body}")),
                }
                modified
            }
            Err(Refused { status, why }) => {
                eyes.note(|| format!("wish {number}: {status}: {why}"));
                // What was never registered cannot be evaluated.
                if status.is_client_error() && status != StatusCode::NOT_FOUND {
                    not_understood(eyes, why);
                }
                None
            }
        }
    }
}

/// Answers whether the first management token is made. Its secret is asked for, so that an answer
/// which was lost does not matter.
async fn bootstrap(eyes: &Eyes, door: &Door) -> bool {
    let body = json!({ "BootstrapSecret": MANAGER_SECRET });
    let client = Client::anonymous();
    let asked = client.ask(door, Method::PUT, "/v1/acl/bootstrap", Some(&body));
    match asked.await {
        Ok(_) => true,
        Err(refused) if refused.why.contains("bootstrap already done") => true,
        Err(refused) => {
            eyes.note(|| format!("bootstrap: {}: {}", refused.status, refused.why));
            false
        }
    }
}

fn not_understood(eyes: &Eyes, why: String) {
    let source = "README.md, HTTP API: the shapes of Nomad's";
    eyes.fail("requests_are_understood", source, why);
}

fn modify_index(body: &Value) -> Option<u64> {
    body.get("JobModifyIndex")?.as_u64()
}

/// Reads consistently; a server that finds no leader in time says so, which is no answer.
async fn read(eyes: Arc<Eyes>, server: Machine, door: Door) {
    let acknowledged = eyes.view().promises.index;
    if let Ok(state) = door.cluster.consistent().await {
        eyes.see(&Observation::Read {
            server,
            acknowledged,
            index: state.index(),
        });
    }
}

/// Reads through the API the job that was registered last.
async fn read_job(eyes: Arc<Eyes>, server: Machine, door: Door, client: Client) {
    let promises = eyes.view().promises.acknowledged;
    let Some((job, acknowledged)) = promises.into_iter().max_by_key(|(_, index)| *index) else {
        return;
    };
    let path = format!("/v1/job/{}", job.id);
    let modify_index = match client.ask(&door, Method::GET, &path, None).await {
        Ok(answer) => modify_index(&answer.body),
        Err(refused) if refused.status == StatusCode::NOT_FOUND => None,
        // Nobody leads; it is not to be had now.
        Err(refused) if refused.status.is_server_error() => return,
        Err(refused) => return not_understood(&eyes, refused.why),
    };
    eyes.see(&Observation::JobRead {
        server,
        job: &job,
        acknowledged,
        modify_index,
    });
}

impl World {
    pub(super) fn ask_for_the_end(&mut self) {
        if let Some(door) = self.door_at(0) {
            self.clients.wish_for_the_end(&door);
        }
    }
}
