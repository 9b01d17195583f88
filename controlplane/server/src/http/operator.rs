//! `/v1/operator` and `/v1/system`: the log's members, the scheduler's settings, garbage.

use axum::http::StatusCode;
use controlplane_leader::gc::{GcThresholds, collect};
use controlplane_raft::{Membership, ServerId};
use controlplane_state::{Command, PreemptionConfig, SchedulerAlgorithm, SchedulerConfig, Table};
use protocol_api::operator::{
    CollectGarbage, PreemptionConfiguration, RaftConfiguration, RaftMember, RaftMembers,
    ReadScheduler, ReconcileSummaries, RemovePeer, RestoreSnapshot, SaveSnapshot,
    SchedulerConfiguration, SchedulerSettings, SchedulerWritten, TransferLeadership,
    WriteScheduler,
};

use super::agent::RAFT_PROTOCOL;
use super::ask::Ask;
use super::error::{Answered, HttpError};
use super::route::{Routes, routes};
use super::{restore, snapshot};
use crate::membership::{self, MembershipChange, MembershipError};

/// Passes of one forced garbage collection: two million objects.
const GC_PASSES_MAX: usize = 1000;

pub(super) const ROUTES: Routes = routes![
    RaftConfiguration => configuration,
    TransferLeadership => transfer,
    RemovePeer => remove_peer,
    SaveSnapshot => snapshot::save,
    RestoreSnapshot => restore::serve,
    ReadScheduler => scheduler,
    WriteScheduler => set_scheduler,
    CollectGarbage => collect_garbage,
    ReconcileSummaries => reconcile_summaries,
];

/// Counters are derived from what they count by every change of it: they cannot be wrong.
async fn reconcile_summaries(ask: &Ask) -> Answered {
    ask.done(ask.api.cluster.snapshot().index())
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
        ask.consistent().await?;
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
    let server = |id: &ServerId, info: &controlplane_raft::ServerInfo, voter: bool| RaftMember {
        address: info.address.clone(),
        id: id.to_string(),
        leader: leader == Some(*id),
        node: info.name.clone(),
        raft_protocol: RAFT_PROTOCOL.to_owned(),
        voter,
    };
    let servers: Vec<_> = voters
        .iter()
        .map(|(id, info)| server(id, info, true))
        .chain(learners.iter().map(|(id, info)| server(id, info, false)))
        .collect();
    ask.answer(&RaftMembers { index, servers }, index)
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

/// An algorithm by its word.
///
/// # Errors
/// 400.
pub(super) fn algorithm(word: &str) -> Result<SchedulerAlgorithm, HttpError> {
    match word {
        "binpack" => Ok(SchedulerAlgorithm::Binpack),
        "spread" => Ok(SchedulerAlgorithm::Spread),
        other => Err(HttpError::bad_request(format!(
            "invalid scheduler algorithm {other:?}: it is binpack or spread"
        ))),
    }
}

/// The word of an algorithm.
pub(super) fn algorithm_word(algorithm: SchedulerAlgorithm) -> &'static str {
    match algorithm {
        SchedulerAlgorithm::Binpack => "binpack",
        SchedulerAlgorithm::Spread => "spread",
    }
}

/// The scheduler's settings, in the shape of the API.
fn scheduler_view(config: &SchedulerConfig) -> SchedulerConfiguration {
    SchedulerConfiguration {
        scheduler_algorithm: algorithm_word(config.algorithm).to_owned(),
        memory_oversubscription_enabled: config.memory_oversubscription,
        reject_job_registration: config.reject_job_registration,
        pause_eval_broker: config.pause_eval_broker,
        preemption_config: Some(PreemptionConfiguration {
            system_scheduler_enabled: config.preemption.system,
            sys_batch_scheduler_enabled: config.preemption.sysbatch,
            batch_scheduler_enabled: config.preemption.batch,
            service_scheduler_enabled: config.preemption.service,
        }),
        create_index: config.create_index,
        modify_index: config.modify_index,
        node_limit_for_feasibility_checks: config.feasibility_limit,
    }
}

async fn scheduler(ask: &Ask) -> Answered {
    ask.read(&[Table::SchedulerConfig], |snapshot| {
        let index = snapshot.table_index(&[Table::SchedulerConfig]);
        Ok(SchedulerSettings {
            index,
            known_leader: true,
            scheduler_config: scheduler_view(snapshot.scheduler_config()),
        })
    })
    .await
}

async fn set_scheduler(ask: &Ask) -> Answered {
    let view: SchedulerConfiguration = ask.json()?;
    let algorithm = match view.scheduler_algorithm.as_str() {
        "" => SchedulerAlgorithm::Binpack,
        word => algorithm(word)?,
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
        feasibility_limit: view.node_limit_for_feasibility_checks,
        create_index: 0,
        modify_index: 0,
    };
    let enforce_index = ask.query.number("cas")?;
    let command = Command::SchedulerConfigSet {
        config,
        enforce_index,
    };
    let changed = ask.change(command).await?;
    let index = changed.index;
    let warnings = match config.feasibility_limit {
        0 => "",
        _ => "NodeLimitForFeasibilityChecks has no effect: every node is looked at",
    };
    let written = SchedulerWritten {
        index,
        updated: true,
        warnings: warnings.to_owned(),
    };
    ask.answer(&written, index)
}
