//! Changes of one deployment: `/v1/deployment/{pause,promote,fail,unblock,allocation-health}/:id`.
//!
//! ```text
//!   read the newest state --> a command that names the status it starts from --> apply
//!            ^                                                                     |
//!            +------------------- somebody changed it meanwhile -------------------+
//! ```

use controlplane_leader::failed::{Failed, Reverts, failed, watcher_eval};
use controlplane_state::command::{
    DeploymentAllocHealth, DeploymentChange, DeploymentPromote, DeploymentStatusUpdate,
    PromoteGroups,
};
use controlplane_state::{Command, Refusal, Snapshot};
use protocol_api::deployments::{
    DeploymentChanged, HealthRequest, PauseRequest, PromoteRequest, UnblockRequest,
};
use protocol_model::{
    AllocId, Deployment, DeploymentId, DeploymentStatus, EvalId, Evaluation, UnixNanos,
};
use uuid::Uuid;

use super::ask::Ask;
use super::error::{Answered, HttpError};
use super::lookup;
use crate::cluster::ChangeError;

/// How often a change is made anew because the deployment changed since it was read.
const ATTEMPTS_MAX: usize = 8;

/// A change that is ready to be proposed.
struct Change {
    command: Command,
    eval: Option<EvalId>,
    reverts_to: Option<u64>,
}

/// The deployment that the path names; the body has to name it, too.
fn named(ask: &Ask, in_body: &str) -> Result<DeploymentId, HttpError> {
    if in_body.is_empty() {
        return Err(HttpError::bad_request("DeploymentID must be specified"));
    }
    if !in_body.eq_ignore_ascii_case(ask.parameter("id")) {
        return Err(HttpError::bad_request("Deployment ID does not match"));
    }
    lookup::id("a deployment", ask.parameter("id"))
}

pub(super) async fn pause(ask: &Ask) -> Answered {
    let request: PauseRequest = ask.json()?;
    let id = named(ask, &request.deployment_id)?;
    let (verb, status) = if request.pause {
        ("pause", DeploymentStatus::Paused)
    } else {
        ("resume", DeploymentStatus::Running)
    };
    change(ask, id, &terminal(verb), |snapshot, deployment, now| {
        let eval = match status {
            DeploymentStatus::Running => eval(snapshot, deployment, now),
            _ => None,
        };
        let description = match status {
            DeploymentStatus::Running => deployment.running_description(),
            _ => Deployment::PAUSED,
        };
        Ok(transition(deployment, status, description, eval))
    })
    .await
}

pub(super) async fn promote(ask: &Ask) -> Answered {
    let request: PromoteRequest = ask.json()?;
    let id = named(ask, &request.deployment_id)?;
    let groups = if request.all {
        PromoteGroups::All
    } else {
        PromoteGroups::Named(request.groups)
    };
    change(
        ask,
        id,
        &terminal("promote"),
        |snapshot, deployment, now| {
            let eval = eval(snapshot, deployment, now);
            Ok(Change {
                eval: eval.as_ref().map(|eval| eval.id),
                reverts_to: None,
                command: Command::DeploymentPromote(DeploymentPromote {
                    id,
                    groups: groups.clone(),
                    eval,
                    from: None,
                }),
            })
        },
    )
    .await
}

pub(super) async fn fail(ask: &Ask) -> Answered {
    let id = lookup::id("a deployment", ask.parameter("id"))?;
    change(ask, id, &terminal("fail"), |snapshot, deployment, now| {
        let reverts = reverts(deployment.task_groups.values().any(|it| it.auto_revert));
        let reason = (Deployment::MARKED_FAILED, None);
        let failed = failed(snapshot, deployment, reason, reverts);
        let reverts_to = failed.reverts_to();
        let Failed { change, revert } = failed;
        let eval = eval(snapshot, deployment, now);
        Ok(Change {
            eval: eval.as_ref().map(|eval| eval.id),
            reverts_to,
            command: Command::DeploymentStatus(DeploymentStatusUpdate {
                change,
                revert,
                eval,
            }),
        })
    })
    .await
}

/// Only deployments of several regions are blocked, which this release does not have.
pub(super) async fn unblock(ask: &Ask) -> Answered {
    let request: UnblockRequest = ask.json()?;
    let id = named(ask, &request.deployment_id)?;
    change(
        ask,
        id,
        &terminal("unblock"),
        |snapshot, deployment, now| {
            if deployment.status != DeploymentStatus::Blocked {
                let status = format!("{:?}", deployment.status).to_lowercase();
                let text = format!("can't unblock {status} deployment");
                return Err(HttpError::bad_request(text));
            }
            let eval = eval(snapshot, deployment, now);
            let (status, text) = (DeploymentStatus::Successful, Deployment::SUCCESSFUL);
            Ok(transition(deployment, status, text, eval))
        },
    )
    .await
}

pub(super) async fn set_health(ask: &Ask) -> Answered {
    let request: HealthRequest = ask.json()?;
    let id = named(ask, &request.deployment_id)?;
    let (healthy, unhealthy) = (allocs(&request.healthy)?, allocs(&request.unhealthy)?);
    if healthy.is_empty() && unhealthy.is_empty() {
        return Err(HttpError::bad_request(
            "must specify at least one healthy/unhealthy allocation ID",
        ));
    }
    if let Some(both) = healthy.iter().find(|alloc| unhealthy.contains(alloc)) {
        let text = format!("alloc \"{both}\" is said to be healthy and unhealthy");
        return Err(HttpError::bad_request(text));
    }
    let over = "can't set health of allocations for a terminal deployment";
    change(ask, id, over, |snapshot, deployment, now| {
        let failed = (!unhealthy.is_empty()).then(|| {
            let judged = unhealthy.iter().filter_map(|alloc| snapshot.alloc(*alloc));
            let mut groups = judged.filter_map(|it| deployment.task_groups.get(&it.task_group));
            let reverts = reverts(groups.any(|group| group.auto_revert));
            failed(snapshot, deployment, (Deployment::UNHEALTHY, None), reverts)
        });
        let reverts_to = failed.as_ref().and_then(Failed::reverts_to);
        let (change, revert) = match failed {
            Some(Failed { change, revert }) => (Some(change), revert),
            None => (None, None),
        };
        let eval = eval(snapshot, deployment, now);
        Ok(Change {
            eval: eval.as_ref().map(|eval| eval.id),
            reverts_to,
            command: Command::DeploymentAllocHealth(Box::new(DeploymentAllocHealth {
                id,
                healthy: healthy.clone(),
                unhealthy: unhealthy.clone(),
                eval,
                change,
                revert,
            })),
        })
    })
    .await
}

fn allocs(ids: &[String]) -> Result<Vec<AllocId>, HttpError> {
    let unknown = |id: &String| HttpError::bad_request(format!("unknown alloc \"{id}\""));
    let ids = ids.iter().map(|id| {
        let parsed = Uuid::parse_str(id);
        parsed.map(AllocId).map_err(|_| unknown(id))
    });
    ids.collect()
}

fn reverts(asked: bool) -> Reverts {
    if asked {
        Reverts::IfStable
    } else {
        Reverts::Never
    }
}

fn terminal(verb: &str) -> String {
    format!("can't {verb} terminal deployment")
}

fn eval(snapshot: &Snapshot, deployment: &Deployment, now: UnixNanos) -> Option<Evaluation> {
    watcher_eval(snapshot, deployment, EvalId(Uuid::new_v4()), now)
}

fn transition(
    deployment: &Deployment,
    status: DeploymentStatus,
    description: &str,
    eval: Option<Evaluation>,
) -> Change {
    Change {
        eval: eval.as_ref().map(|eval| eval.id),
        reverts_to: None,
        command: Command::DeploymentStatus(DeploymentStatusUpdate {
            change: DeploymentChange {
                id: deployment.id,
                status,
                description: description.to_owned(),
                from: Some(deployment.status),
            },
            revert: None,
            eval,
        }),
    }
}

/// Makes a change of the newest state and proposes it, again where the deployment has another
/// status by then. `over` is the text for a deployment that has ended.
async fn change(
    ask: &Ask,
    id: DeploymentId,
    over: &str,
    make: impl Fn(&Snapshot, &Deployment, UnixNanos) -> Result<Change, HttpError> + Send + Sync,
) -> Answered {
    let mut attempts = 0;
    loop {
        attempts += 1;
        let snapshot = ask.consistent().await?;
        let found = snapshot.deployment(id);
        let deployment = found.ok_or_else(|| HttpError::not_found("deployment not found"))?;
        if !deployment.status.is_active() {
            return Err(HttpError::bad_request(over));
        }
        let Change {
            command,
            eval,
            reverts_to,
        } = make(&snapshot, deployment, ask.now())?;
        let changed = match ask.change(command).await {
            Err(ChangeError::Refused(Refusal::DeploymentMoved { .. }))
                if attempts < ATTEMPTS_MAX =>
            {
                continue;
            }
            Err(ChangeError::Refused(Refusal::DeploymentTerminal(_))) => {
                return Err(HttpError::bad_request(over));
            }
            Err(ChangeError::Refused(Refusal::UnknownAlloc(alloc))) => {
                let text = format!("unknown alloc \"{alloc}\"");
                return Err(HttpError::bad_request(text));
            }
            changed => changed?,
        };
        let index = changed.index;
        let answer = DeploymentChanged {
            eval_create_index: if eval.is_some() { index } else { 0 },
            eval_id: eval.map(|id| id.to_string()).unwrap_or_default(),
            deployment_modify_index: index,
            reverted_job_version: reverts_to,
            index,
        };
        return ask.answer(&answer, index);
    }
}
