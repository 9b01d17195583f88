//! Watching what becomes of a change: its evaluation, then its allocations.
//!
//! ```text
//!   evaluation pending --> complete --> follow-up?  --> allocations pending --> running or ended
//!                      |            `-> rollout?    --> deployment running --> successful or not
//!                      \-> failed       (next_eval)      \-> told as each changes
//! ```

use std::collections::BTreeMap;
use std::time::Duration;

use protocol_api::Operation;
use protocol_api::deployments::{DeploymentAllocations, ReadDeployment};
use protocol_api::evaluations::{EvaluationAllocations, ReadEvaluation};
use protocol_client::{Answer, Client, ClientError, Query};
use protocol_model::{
    AllocationListStub, ClientStatus, Deployment, DeploymentStatus, EvalStatus, Evaluation,
};
use tokio::time::Instant;

use crate::asking::ask_on;
use crate::failure::{Exit, Failure};
use crate::find::{Length, shown};
use crate::render::{alloc, placement, word};
use crate::session::Session;

/// How long one question waits at the server for a change.
const WAIT: &str = "5s";
/// The same for a rollout: that its allocations start is no change of the deployment.
const ROLLOUT_WAIT: &str = "1s";
/// Between two questions where the server does not wait.
const PAUSE: Duration = Duration::from_millis(100);
/// How long allocations may be pending before we stop watching: a large image may take longer.
const PLACED_TIMEOUT: Duration = Duration::from_secs(300);

/// Watches one evaluation to its end.
#[derive(Debug)]
pub(crate) struct Monitor<'s> {
    session: &'s Session,
    client: &'s Client,
    length: Length,
}

impl<'s> Monitor<'s> {
    /// Watches with ids shown at `length`.
    pub(crate) fn new(session: &'s Session, client: &'s Client, length: Length) -> Self {
        Self {
            session,
            client,
            length,
        }
    }

    /// Watches until the evaluation has ended and its allocations run or have ended.
    ///
    /// # Errors
    /// If the server cannot be asked any more. That not everything was placed is no error but
    /// [`Exit::NOT_PLACED`].
    pub(crate) async fn watch(&self, eval_id: &str) -> Result<Exit, Failure> {
        let eval = self.evaluation(eval_id).await?;
        let id = self.id(eval_id);
        let status = word(&eval.status);
        match eval.status {
            EvalStatus::Complete if eval.failed_tg_allocs.is_empty() => {
                self.step(&format!(
                    "Evaluation {id:?} finished with status {status:?}"
                ));
            }
            EvalStatus::Complete => {
                self.step(&format!(
                    "Evaluation {id:?} finished with status {status:?} but failed to place all allocations:"
                ));
                for line in placement::failures(&eval.failed_tg_allocs).lines() {
                    self.line(line);
                }
                if let Some(blocked) = eval.blocked_eval {
                    let blocked = self.id(&blocked.to_string());
                    self.line(&format!(
                        "Evaluation {blocked:?} waiting for additional capacity to place remainder"
                    ));
                }
            }
            EvalStatus::Blocked => {
                self.step(&format!(
                    "Evaluation {id:?} waits for capacity to place allocations:"
                ));
                for line in placement::failures(&eval.failed_tg_allocs).lines() {
                    self.line(line);
                }
            }
            _ => {
                let reason = &eval.status_description;
                self.step(&format!(
                    "Evaluation {id:?} finished with status {status:?}: {reason}"
                ));
            }
        }
        if eval.status != EvalStatus::Complete {
            return Ok(Exit::NOT_PLACED);
        }
        let placed = eval.failed_tg_allocs.is_empty();
        if placed && let Some(deployment) = eval.deployment_id {
            // Its allocations are told with it: one that never runs must not hide that it failed.
            return self.deployment(&deployment.to_string()).await;
        }
        self.allocations(eval_id, eval.create_index).await?;
        if !placed {
            return Ok(Exit::NOT_PLACED);
        }
        match eval.next_eval {
            Some(next) if eval.wait_until.is_none() => {
                Box::pin(self.watch(&next.to_string())).await
            }
            _ => Ok(Exit::SUCCESS),
        }
    }

    async fn evaluation(&self, eval_id: &str) -> Result<Evaluation, Failure> {
        self.step(&format!("Monitoring evaluation {:?}", self.id(eval_id)));
        let mut index = 0;
        let mut told = None;
        loop {
            let read = ReadEvaluation { id: eval_id };
            let answer = self.ask(&read, &waiting(index, WAIT)).await?;
            let eval = answer.value;
            if told.is_none() {
                self.line(&format!("Evaluation triggered by job {:?}", eval.job_id));
            }
            if told != Some(eval.status) {
                if let Some(before) = told {
                    self.line(&format!(
                        "Evaluation status changed: {:?} -> {:?}",
                        word(&before),
                        word(&eval.status)
                    ));
                }
                told = Some(eval.status);
                if let Some(at) = eval.wait_until
                    && eval.status == EvalStatus::Pending
                {
                    let ahead = self.session.clock().ahead(at);
                    self.line(&format!("Evaluation is not due yet: {ahead}"));
                }
            }
            if eval.status.is_terminal() || eval.status == EvalStatus::Blocked {
                return Ok(eval);
            }
            pause(index, answer.index).await;
            index = answer.index;
        }
    }

    /// Tells what becomes of a deployment until it has ended, or waits for a person.
    ///
    /// # Errors
    /// If the server cannot be asked any more.
    pub(crate) async fn deployment(&self, id: &str) -> Result<Exit, Failure> {
        self.step(&format!("Monitoring deployment {:?}", self.id(id)));
        let mut index = 0;
        let mut told = String::new();
        let mut known = BTreeMap::new();
        loop {
            let query = waiting(index, ROLLOUT_WAIT);
            let answer = self.ask(&ReadDeployment { id }, &query).await?;
            let deployment = answer.value;
            let query = Query::new();
            let all = self.ask(&DeploymentAllocations { id }, &query).await?;
            for alloc in &all.value {
                self.tell(alloc, deployment.create_index, &mut known);
            }
            let progress = progress(&deployment);
            if progress != told {
                self.line(&progress);
                told = progress;
            }
            let status = word(&deployment.status);
            let id = self.id(id);
            match deployment.status {
                DeploymentStatus::Successful => {
                    self.step(&format!("Deployment {id:?} successful"));
                    return Ok(Exit::SUCCESS);
                }
                DeploymentStatus::Failed => {
                    let reason = &deployment.status_description;
                    self.step(&format!("Deployment {id:?} {status}: {reason}"));
                    return Ok(Exit::NOT_PLACED);
                }
                DeploymentStatus::Cancelled => {
                    let reason = &deployment.status_description;
                    self.step(&format!("Deployment {id:?} {status}: {reason}"));
                    return Ok(Exit::NO);
                }
                DeploymentStatus::Paused => {
                    self.step(&format!(
                        "Deployment {id:?} paused: it goes on when told to"
                    ));
                    return Ok(Exit::SUCCESS);
                }
                _ => {}
            }
            if waits_for_promotion(&deployment) {
                self.step(&format!(
                    "Deployment {id:?} waits for its canaries to be promoted: `drover job promote {}`",
                    deployment.job_id
                ));
                return Ok(Exit::SUCCESS);
            }
            pause(index, answer.index).await;
            index = answer.index;
        }
    }

    /// Tells what becomes of the allocations of an evaluation that was made at `made_at` until
    /// none of them is pending.
    async fn allocations(&self, eval_id: &str, made_at: u64) -> Result<(), Failure> {
        let deadline = Instant::now() + PLACED_TIMEOUT;
        let mut known: BTreeMap<String, ClientStatus> = BTreeMap::new();
        let mut index = 0;
        loop {
            let list = EvaluationAllocations { id: eval_id };
            let answer = self.ask(&list, &waiting(index, WAIT)).await?;
            let mut pending = 0;
            for alloc in &answer.value {
                self.tell(alloc, made_at, &mut known);
                if alloc.client_status == ClientStatus::Pending && !is_stopped(alloc) {
                    pending += 1;
                }
            }
            if pending == 0 {
                return Ok(());
            }
            if Instant::now() >= deadline {
                let seconds = PLACED_TIMEOUT.as_secs();
                self.step(&format!(
                    "{pending} allocations are still pending after {seconds} s; `drover job status` shows them"
                ));
                return Ok(());
            }
            pause(index, answer.index).await;
            index = answer.index;
        }
    }

    async fn ask<O: Operation<Body = ()>>(
        &self,
        operation: &O,
        query: &Query,
    ) -> Result<Answer<O::Answer>, ClientError> {
        ask_on(self.session, self.client, operation, query).await
    }

    /// Tells what is new of an allocation. One that is older than the evaluation or the deployment,
    /// which was made at index `made_at`, was changed by it in place.
    fn tell(
        &self,
        alloc: &AllocationListStub,
        made_at: u64,
        known: &mut BTreeMap<String, ClientStatus>,
    ) {
        let id = alloc.id.to_string();
        let shown = self.id(&id);
        let status = alloc.client_status;
        match known.insert(id, status) {
            None if alloc.create_index < made_at => {
                self.placed(&shown, "modified", alloc);
                // What it was before is not known.
                if status.is_terminal() {
                    self.status(&shown, &format!("status {:?}", status.as_str()), alloc);
                }
            }
            None => {
                self.placed(&shown, "created", alloc);
                if status != ClientStatus::Pending {
                    self.changed(&shown, ClientStatus::Pending, alloc);
                }
            }
            Some(before) if before != status => self.changed(&shown, before, alloc),
            Some(_) => {}
        }
    }

    fn placed(&self, shown: &str, what: &str, alloc: &AllocationListStub) {
        let node = self.id(&alloc.node_id.to_string());
        let group = &alloc.task_group;
        self.line(&format!(
            "Allocation {shown:?} {what}: node {node:?}, group {group:?}"
        ));
    }

    fn changed(&self, shown: &str, before: ClientStatus, alloc: &AllocationListStub) {
        let (before, after) = (before.as_str(), alloc.client_status.as_str());
        let what = format!("status changed: {before:?} -> {after:?}");
        self.status(shown, &what, alloc);
    }

    fn status(&self, shown: &str, what: &str, alloc: &AllocationListStub) {
        let reason = match alloc.client_description.as_str() {
            "" => String::new(),
            reason => format!(" ({reason})"),
        };
        self.line(&format!("Allocation {shown:?} {what}{reason}"));
        if alloc.client_status == ClientStatus::Failed {
            for (task, event) in alloc::failures(&alloc.task_states) {
                self.line(&format!("    task {task:?}: {event}"));
            }
        }
    }

    fn id(&self, id: &str) -> String {
        shown(id, self.length)
    }

    fn step(&self, text: &str) {
        self.session.out.note(&format!("==> {text}"));
    }

    fn line(&self, text: &str) {
        self.session.out.note(&format!("    {text}"));
    }
}

/// One line about a deployment's groups.
fn progress(deployment: &Deployment) -> String {
    let groups = deployment.task_groups.iter().map(|(name, group)| {
        format!(
            // Placed counts what took the place of what failed, too.
            "group {name:?}: {} desired, {} placed, {} healthy, {} unhealthy",
            group.desired_total, group.placed_allocs, group.healthy_allocs, group.unhealthy_allocs
        )
    });
    groups.collect::<Vec<_>>().join("; ")
}

/// Whether nothing goes on before a person has looked at healthy canaries.
fn waits_for_promotion(deployment: &Deployment) -> bool {
    let mut canaried = deployment
        .task_groups
        .values()
        .filter(|group| group.awaits_promotion())
        .peekable();
    canaried.peek().is_some()
        && canaried
            .all(|group| !group.auto_promote && group.healthy_allocs >= group.desired_canaries)
}

fn is_stopped(alloc: &AllocationListStub) -> bool {
    alloc.desired_status != protocol_model::DesiredStatus::Run
}

/// A question that waits for something newer than `index`; 0 asks for what is there.
fn waiting(index: u64, wait: &str) -> Query {
    if index == 0 {
        return Query::new();
    }
    Query::new().with("index", index).with("wait", wait)
}

/// Nothing new came back: the server did not wait, so we do.
async fn pause(before: u64, after: u64) {
    if after <= before {
        tokio::time::sleep(PAUSE).await;
    }
}
