//! `/v1/operator` and `/v1/system`: the log's members, the scheduler's settings, garbage.

use axum::http::StatusCode;
use controlplane_leader::gc::{GcThresholds, collect};
use controlplane_raft::{Membership, ServerId};
use controlplane_state::{Command, PreemptionConfig, SchedulerAlgorithm, SchedulerConfig, Table};
use protocol_model::nullable::or_default;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::agent::RAFT_PROTOCOL;
use super::ask::{Ask, Verb};
use super::error::{Answered, HttpError};
use super::{restore, snapshot};
use crate::membership::{self, MembershipChange, MembershipError};

/// Passes of one forced garbage collection: two million objects.
const GC_PASSES_MAX: usize = 1000;

pub(super) async fn route(ask: &Ask, rest: &[&str]) -> Answered {
    match (ask.verb, rest) {
        (Verb::Get, ["raft", "configuration"]) => configuration(ask).await,
        (Verb::Put, ["raft", "transfer-leadership"]) => transfer(ask).await,
        (Verb::Delete, ["raft", "peer"]) => remove_peer(ask).await,
        (Verb::Get, ["snapshot"]) => snapshot::save(ask).await,
        (Verb::Put, ["snapshot"]) => restore::serve(ask).await,
        (Verb::Get, ["scheduler", "configuration"]) => scheduler(ask).await,
        (Verb::Put, ["scheduler", "configuration"]) => set_scheduler(ask).await,
        (
            _,
            ["raft", "configuration" | "transfer-leadership" | "peer"]
            | ["snapshot"]
            | ["scheduler", "configuration"],
        ) => Err(HttpError::method()),
        (_, ["autopilot" | "keyring" | "license", ..]) => Err(HttpError::not_built(
            "this operator route is not part of this release",
        )),
        _ => Err(HttpError::no_route()),
    }
}

/// `/v1/system/gc`.
pub(super) async fn system(ask: &Ask, rest: &[&str]) -> Answered {
    match (ask.verb, rest) {
        (Verb::Put, ["gc"]) => collect_garbage(ask).await,
        (Verb::Put, ["reconcile", "summaries"]) => {
            // Counters are derived from what they count by every change of it: they cannot be
            // wrong.
            ask.done(ask.api.cluster.snapshot().index())
        }
        (_, ["gc"] | ["reconcile", "summaries"]) => Err(HttpError::method()),
        _ => Err(HttpError::no_route()),
    }
}

/// Forgets everything that is over, whatever its age.
async fn collect_garbage(ask: &Ask) -> Answered {
    let cluster = &ask.api.cluster;
    let mut snapshot = cluster.consistent().await?;
    for _ in 0..GC_PASSES_MAX {
        let now = snapshot.now().max(ask.now());
        let Some(found) = collect(&snapshot, &GcThresholds::FORCED, now) else {
            break;
        };
        let before = snapshot.index();
        cluster.change(Command::GcCollect(found)).await?;
        snapshot = cluster.consistent().await?;
        if snapshot.index() <= before {
            break;
        }
    }
    ask.done(snapshot.index())
}

/// The log's members: with `?stale` as this server knows them, and otherwise once it knows all that
/// a majority knew when it was asked, so that a server that was cut off does not show what was.
async fn configuration(ask: &Ask) -> Answered {
    if !ask.query.switch("stale") {
        ask.api.cluster.consistent().await?;
    }
    let status = ask.api.cluster.status();
    let Membership {
        voters,
        learners,
        index,
        ..
    } = status.membership;
    let leader = ask.api.leader().map(|leader| leader.id);
    // The log begins with the members, at 0: to a client that index would mean "nothing yet".
    let index = index.max(1);
    let server = |id: &ServerId, info: &controlplane_raft::ServerInfo, voter: bool| {
        json!({
            "ID": id.to_string(),
            "Node": info.name,
            "Address": info.address,
            "Leader": leader == Some(*id),
            "Voter": voter,
            "RaftProtocol": RAFT_PROTOCOL,
        })
    };
    let servers: Vec<_> = voters
        .iter()
        .map(|(id, info)| server(id, info, true))
        .chain(learners.iter().map(|(id, info)| server(id, info, false)))
        .collect();
    ask.answer(&json!({ "Servers": servers, "Index": index }), index)
}

/// The server that `?id=` or `?address=` names.
fn named(ask: &Ask) -> Result<Option<ServerId>, HttpError> {
    let membership = ask.api.cluster.status().membership;
    if let Some(text) = ask.query.text("id") {
        let id: ServerId = text
            .parse()
            .map_err(|error| HttpError::bad_request(format!("{error}")))?;
        if !membership.contains(id) {
            return Err(HttpError::not_found(format!("server {id} is not a member")));
        }
        return Ok(Some(id));
    }
    let Some(address) = ask.query.text("address") else {
        return Ok(None);
    };
    let mut all = membership.voters.iter().chain(&membership.learners);
    let found = all
        .find(|(_, info)| info.address == address)
        .map(|(id, _)| *id);
    let missing = || HttpError::not_found(format!("no member has the address {address:?}"));
    found.map(Some).ok_or_else(missing)
}

async fn transfer(ask: &Ask) -> Answered {
    let change = named(ask)?.map_or(MembershipChange::TransferAway, MembershipChange::Transfer);
    membership::change(&ask.api.cluster, change)
        .await
        .map_err(|error| refused(&error))?;
    ask.done(ask.api.cluster.snapshot().index())
}

async fn remove_peer(ask: &Ask) -> Answered {
    let target = named(ask)?.ok_or_else(|| {
        HttpError::bad_request(
            "must specify either ?id with the server's ID or ?address with its address",
        )
    })?;
    membership::change(&ask.api.cluster, MembershipChange::Remove(target))
        .await
        .map_err(|error| refused(&error))?;
    ask.done(ask.api.cluster.snapshot().index())
}

fn refused(error: &MembershipError) -> HttpError {
    match error {
        MembershipError::NoLeader => HttpError::internal("No cluster leader"),
        MembershipError::UnknownServer(_) => HttpError::not_found(error.to_string()),
        MembershipError::Refused(_) => HttpError::bad_request(error.to_string()),
        MembershipError::InProgress(_) => HttpError::new(StatusCode::CONFLICT, error.to_string()),
        MembershipError::OutcomeUnknown(_) => HttpError::internal(error.to_string()),
    }
}

/// The scheduler's settings, in the shape of the API.
#[derive(Serialize, Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct SchedulerView {
    #[serde(deserialize_with = "or_default")]
    scheduler_algorithm: String,
    #[serde(deserialize_with = "or_default")]
    memory_oversubscription_enabled: bool,
    #[serde(deserialize_with = "or_default")]
    reject_job_registration: bool,
    #[serde(deserialize_with = "or_default")]
    pause_eval_broker: bool,
    preemption_config: Option<PreemptionView>,
    #[serde(skip_deserializing)]
    create_index: u64,
    #[serde(skip_deserializing)]
    modify_index: u64,
}

#[derive(Serialize, Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct PreemptionView {
    system_scheduler_enabled: bool,
    sys_batch_scheduler_enabled: bool,
    batch_scheduler_enabled: bool,
    service_scheduler_enabled: bool,
}

impl From<&SchedulerConfig> for SchedulerView {
    fn from(config: &SchedulerConfig) -> Self {
        let algorithm = match config.algorithm {
            SchedulerAlgorithm::Binpack => "binpack",
            SchedulerAlgorithm::Spread => "spread",
        };
        Self {
            scheduler_algorithm: algorithm.to_owned(),
            memory_oversubscription_enabled: config.memory_oversubscription,
            reject_job_registration: config.reject_job_registration,
            pause_eval_broker: config.pause_eval_broker,
            preemption_config: Some(PreemptionView {
                system_scheduler_enabled: config.preemption.system,
                sys_batch_scheduler_enabled: config.preemption.sysbatch,
                batch_scheduler_enabled: config.preemption.batch,
                service_scheduler_enabled: config.preemption.service,
            }),
            create_index: config.create_index,
            modify_index: config.modify_index,
        }
    }
}

async fn scheduler(ask: &Ask) -> Answered {
    ask.read(&[Table::SchedulerConfig], |snapshot| {
        let index = snapshot.table_index(&[Table::SchedulerConfig]);
        let view = SchedulerView::from(snapshot.scheduler_config());
        Ok(json!({ "SchedulerConfig": view, "Index": index, "KnownLeader": true }))
    })
    .await
}

async fn set_scheduler(ask: &Ask) -> Answered {
    let view: SchedulerView = ask.json()?;
    let algorithm = match view.scheduler_algorithm.as_str() {
        "" | "binpack" => SchedulerAlgorithm::Binpack,
        "spread" => SchedulerAlgorithm::Spread,
        other => {
            return Err(HttpError::bad_request(format!(
                "invalid scheduler algorithm {other:?}: it is binpack or spread"
            )));
        }
    };
    let preemption = view
        .preemption_config
        .map_or_else(PreemptionConfig::default, |view| PreemptionConfig {
            system: view.system_scheduler_enabled,
            sysbatch: view.sys_batch_scheduler_enabled,
            batch: view.batch_scheduler_enabled,
            service: view.service_scheduler_enabled,
        });
    let config = SchedulerConfig {
        algorithm,
        memory_oversubscription: view.memory_oversubscription_enabled,
        reject_job_registration: view.reject_job_registration,
        pause_eval_broker: view.pause_eval_broker,
        preemption,
        create_index: 0,
        modify_index: 0,
    };
    let enforce_index = ask.query.number("cas")?;
    let command = Command::SchedulerConfigSet {
        config,
        enforce_index,
    };
    let changed = ask.api.cluster.change(command).await?;
    ask.answer(
        &json!({ "Updated": true, "Index": changed.index }),
        changed.index,
    )
}
