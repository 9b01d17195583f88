//! Rollouts that fail, and why, and canaries that are promoted without an operator:
//!
//! | what happened | text |
//! |---|---|
//! | an allocation is unhealthy, and its group's `reschedule` has no attempt left | unhealthy |
//! | an allocation is unhealthy, and the group's `progress_deadline` is zero | unhealthy |
//! | no newly healthy allocation of a group for its `progress_deadline` | deadline |
//!
//! A group with canaries waits for these alone until they are promoted; once all are healthy it has
//! no deadline, however long a person takes. With `auto_promote` this part promotes them then.
//!
//! Of a job that names several regions, each waits for its turn, which is at once: there are no
//! other regions yet that anybody could hear.
//!
//! Where the group asks for it, the job goes back to its last stable version in the same log entry.
//!
//! What happens to healthy rollouts is the scheduler's: this only watches the time. It fails none
//! for want of what only silent nodes could make healthy: those have another deadline then.
//!
//! Rules and texts are Nomad's (its deployment watcher).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use controlplane_state::command::{
    DeploymentChange, DeploymentPromote, DeploymentStatusUpdate, PromoteGroups,
};
use controlplane_state::{Command, Signal, Snapshot};
use protocol_model::{
    Allocation, ClientStatus, Deployment, DeploymentId, DeploymentState, DeploymentStatus, EvalId,
    ReschedulePolicy, UnixNanos,
};

use crate::failed::{Failed, Reverts, failed, watcher_eval};
use crate::part::{Applied, Effect, LeaderPart};
use crate::time::Now;

const NO_PROGRESS: &str = Deployment::NO_PROGRESS;
const UNHEALTHY: &str = Deployment::UNHEALTHY;

/// A rollout that waits for silent nodes is looked at no more often.
const AGAIN_MIN: Duration = Duration::from_secs(10);

/// When each rollout that is under way has to be looked at.
#[derive(Debug, Default)]
pub struct Rollouts {
    due: BTreeMap<DeploymentId, Duration>,
    order: BTreeSet<(Duration, DeploymentId)>,
    /// Nothing is looked at before.
    earliest: Duration,
    /// Deployments whose region has its turn. No report is waited for.
    turns: BTreeSet<DeploymentId>,
    /// Why the job of one that failed cannot go back.
    stuck: BTreeMap<DeploymentId, String>,
}

impl Rollouts {
    /// Every rollout of a state. None of them fails before `earliest`, by the monotonic clock: what
    /// could not be reported while nobody led may be on its way.
    pub fn of(snapshot: &Snapshot, earliest: Duration, now: Now) -> Self {
        let mut rollouts = Self {
            earliest,
            ..Self::default()
        };
        for deployment in snapshot.deployments() {
            rollouts.look_at(snapshot, deployment, now);
        }
        rollouts
    }

    /// A rollout began, went on, or ended.
    pub fn on_changed(&mut self, id: DeploymentId, snapshot: &Snapshot, now: Now) {
        self.unwatch(id);
        match snapshot.deployment(id) {
            Some(deployment) if deployment.status.is_active() => {
                self.look_at(snapshot, deployment, now);
            }
            Some(_) | None => self.forget(id),
        }
    }

    /// It is not there any more.
    pub fn forget(&mut self, id: DeploymentId) {
        self.unwatch(id);
        self.turns.remove(&id);
        self.stuck.remove(&id);
    }

    /// The command for a failed one did not get into the log: it is due again.
    pub fn again(&mut self, id: DeploymentId) {
        self.unwatch(id);
        self.watch(id, Duration::ZERO);
    }

    /// The state refused the command for a failed one. Where the job was to go back, the rollout
    /// fails without it and says why; anything else is refused because somebody else ended it.
    fn on_refused_update(&mut self, update: &DeploymentStatusUpdate, refusal: String) {
        let id = update.change.id;
        if update.revert.is_some() {
            self.stuck.insert(id, refusal);
            self.again(id);
        } else {
            self.forget(id);
        }
    }

    /// No health can be reported until now: nothing has failed before `earliest`.
    pub fn not_before(&mut self, earliest: Duration) {
        self.earliest = earliest;
        while let Some((at, id)) = self.order.first().copied()
            && at < earliest
        {
            self.unwatch(id);
            self.watch(id, earliest);
        }
    }

    /// The end of one that failed. It is not watched any more: see [`Self::again`].
    pub fn poll_command(
        &mut self,
        snapshot: &Snapshot,
        new_id: &mut dyn FnMut() -> EvalId,
        now: Now,
    ) -> Option<Command> {
        while let Some(id) = self.turns.pop_first() {
            let waiting = snapshot.deployment(id).filter(|it| awaits_turn(it));
            if let Some(deployment) = waiting {
                return Some(turn(snapshot, deployment, new_id(), now));
            }
        }
        loop {
            let (_, id) = self
                .order
                .first()
                .copied()
                .filter(|(at, _)| *at <= now.monotonic)?;
            self.unwatch(id);
            let Some(deployment) = snapshot.deployment(id) else {
                self.forget(id);
                continue;
            };
            if is_promotable(snapshot, deployment) {
                return promotion(snapshot, deployment, new_id(), now);
            }
            match failure(snapshot, deployment, now.wall) {
                Some(NO_PROGRESS) if waits_for_silent(snapshot, deployment) => {
                    let spans = deployment.task_groups.values();
                    let longest = spans.map(|group| group.progress_deadline).max();
                    self.watch(
                        id,
                        now.monotonic + longest.unwrap_or_default().max(AGAIN_MIN),
                    );
                }
                Some(reason) => {
                    let stuck = self.stuck.get(&id).map(String::as_str);
                    let eval = new_id();
                    return Some(fail(snapshot, deployment, (reason, stuck), eval, now));
                }
                // The wall clock was set back meanwhile: look again when it is there.
                None => self.look_at(snapshot, deployment, now),
            }
        }
    }

    fn look_at(&mut self, snapshot: &Snapshot, deployment: &Deployment, now: Now) {
        if awaits_turn(deployment) {
            self.turns.insert(deployment.id);
            return;
        }
        let Some(at) = next_look(snapshot, deployment) else {
            return;
        };
        let wait = u64::try_from(at.0.saturating_sub(now.wall.0)).unwrap_or(0);
        self.watch(deployment.id, now.monotonic + Duration::from_nanos(wait));
    }

    fn unwatch(&mut self, id: DeploymentId) {
        if let Some(at) = self.due.remove(&id) {
            self.order.remove(&(at, id));
        }
    }

    fn watch(&mut self, id: DeploymentId, at: Duration) {
        let at = at.max(self.earliest);
        self.due.insert(id, at);
        self.order.insert((at, id));
    }
}

impl LeaderPart for Rollouts {
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "a part names the signals that it acts on"
    )]
    fn on_applied(&mut self, applied: Applied<'_>, now: Now) {
        for signal in applied.signals {
            match signal {
                Signal::DeploymentChanged(id) => self.on_changed(*id, applied.snapshot, now),
                Signal::DeploymentRemoved(id) => self.forget(*id),
                _ => {}
            }
        }
    }

    fn on_unheard(&mut self, silence: Duration, now: Now) {
        let soon = now.monotonic + silence;
        if self.poll_timeout().is_some_and(|due| due < soon) {
            self.not_before(soon + silence);
        }
    }

    fn poll(
        &mut self,
        snapshot: &Snapshot,
        ids: &mut dyn FnMut() -> EvalId,
        now: Now,
    ) -> Option<Effect> {
        self.poll_command(snapshot, ids, now).map(Effect::Command)
    }

    fn on_failed(&mut self, effect: &Effect, _: Now) {
        let Some(id) = subject(effect) else {
            return;
        };
        if is_turn(effect) {
            self.turns.insert(id);
        } else {
            self.again(id);
        }
    }

    fn on_refused(&mut self, effect: &Effect, why: &str) {
        if is_turn(effect) {
            // It moved meanwhile, and was looked at when it did.
        } else if let Effect::Command(Command::DeploymentStatus(update)) = effect {
            self.on_refused_update(update, why.to_owned());
        } else if let Some(id) = subject(effect) {
            // It moved meanwhile: its deadline is watched as before.
            self.again(id);
        }
    }

    fn poll_timeout(&self) -> Option<Duration> {
        if !self.turns.is_empty() {
            return Some(Duration::ZERO);
        }
        self.order.first().map(|(at, _)| *at)
    }
}

/// Whether an effect of this part lets a region have its turn.
fn is_turn(effect: &Effect) -> bool {
    let Effect::Command(command) = effect;
    matches!(command, Command::DeploymentStatus(update)
        if update.change.from == Some(DeploymentStatus::Pending)
            && update.change.status == DeploymentStatus::Running)
}

/// The deployment that an effect of this part is about.
fn subject(effect: &Effect) -> Option<DeploymentId> {
    let Effect::Command(command) = effect;
    if let Command::DeploymentStatus(update) = command {
        Some(update.change.id)
    } else if let Command::DeploymentPromote(promote) = command {
        Some(promote.id)
    } else {
        None
    }
}

/// When a rollout may have failed; never, where nothing is under way or nothing is wrong yet.
fn next_look(snapshot: &Snapshot, deployment: &Deployment) -> Option<UnixNanos> {
    if deployment.status != DeploymentStatus::Running {
        return None;
    }
    if has_unforgiven(snapshot, deployment) || is_promotable(snapshot, deployment) {
        return Some(UnixNanos(0));
    }
    let waiting = deployment
        .task_groups
        .values()
        .filter(|group| healthy_allocs(snapshot, group) < group.awaited_allocs());
    waiting.filter_map(|group| group.require_progress_by).min()
}

fn failure(snapshot: &Snapshot, deployment: &Deployment, now: UnixNanos) -> Option<&'static str> {
    let due = next_look(snapshot, deployment).is_some_and(|at| at <= now);
    due.then_some(if has_unforgiven(snapshot, deployment) {
        UNHEALTHY
    } else {
        NO_PROGRESS
    })
}

/// Whether silent allocations, whose places nobody has taken, are all that a rollout waits for.
fn waits_for_silent(snapshot: &Snapshot, deployment: &Deployment) -> bool {
    let key = deployment.job_key();
    let mut silent: BTreeMap<&str, Vec<&Allocation>> = BTreeMap::new();
    let mut there: BTreeSet<(&str, Option<u32>)> = BTreeSet::new();
    let is_awaited = |alloc: &Allocation| {
        let group = deployment.task_groups.get(&alloc.task_group);
        let canary = alloc.deployment_status.as_ref().is_some_and(|it| it.canary);
        canary || !group.is_some_and(DeploymentState::awaits_promotion)
    };
    let live = snapshot.allocs_by_job(&key).filter(|it| !it.terminal());
    for alloc in live.filter(|alloc| is_awaited(alloc)) {
        if alloc.client_status == ClientStatus::Unknown {
            silent.entry(&alloc.task_group).or_default().push(alloc);
        } else {
            there.insert((&alloc.task_group, alloc.index()));
        }
    }
    let was_healthy = |alloc: &Allocation| {
        let health = alloc.deployment_status.as_ref().and_then(|it| it.healthy);
        alloc.deployment_id == Some(deployment.id) && health == Some(true)
    };
    deployment.task_groups.iter().all(|(name, group)| {
        let silent = silent.get(name.as_str()).into_iter().flatten();
        let waited_for = silent
            .filter(|alloc| !was_healthy(alloc) && !there.contains(&(name, alloc.index())))
            .count();
        let healthy = healthy_allocs(snapshot, group);
        let missing = group.awaited_allocs().saturating_sub(healthy);
        waited_for >= missing as usize
    })
}

/// Whether an allocation is unhealthy, and its group waits for no other attempt at it.
fn has_unforgiven(snapshot: &Snapshot, deployment: &Deployment) -> bool {
    let mut groups = deployment.task_groups.values();
    if groups.any(|group| group.progress_deadline.is_zero() && group.unhealthy_allocs > 0) {
        return true;
    }
    let key = deployment.job_key();
    let wanted = snapshot.job(&key).filter(|job| {
        job.version == deployment.job_version && job.create_index == deployment.job_create_index
    });
    let Some(job) = wanted else { return false };
    let limited = job.task_groups.iter().filter_map(|group| {
        let unhealthy = deployment.task_groups.get(&group.name)?.unhealthy_allocs > 0;
        let policy = group.reschedule_policy.as_ref()?;
        (unhealthy && !policy.unlimited()).then_some((group.name.as_str(), policy))
    });
    let limited: BTreeMap<&str, &ReschedulePolicy> = limited.collect();
    // Most rollouts have none: their allocations are not looked at.
    !limited.is_empty()
        && snapshot
            .allocs_by_deployment(deployment.id)
            .any(|alloc| is_last_attempt(alloc, limited.get(alloc.task_group.as_str()).copied()))
}

/// Whether an allocation is unhealthy, nobody has taken its place, and nobody will.
fn is_last_attempt(alloc: &Allocation, policy: Option<&ReschedulePolicy>) -> bool {
    let health = alloc.deployment_status.as_ref().and_then(|it| it.healthy);
    health == Some(false)
        && !alloc.server_terminal()
        && alloc.next_allocation.is_none()
        && policy.is_some_and(|policy| !alloc.has_attempt_left(policy))
}

/// The command that fails a rollout: for a reason, and perhaps without going back, for another.
fn fail(
    snapshot: &Snapshot,
    deployment: &Deployment,
    (reason, stuck): (&str, Option<&str>),
    eval: EvalId,
    now: Now,
) -> Command {
    let mut groups = deployment.task_groups.values();
    let reverts = if groups.any(|group| group.auto_revert) {
        Reverts::IfStable
    } else {
        Reverts::Never
    };
    let Failed { change, revert } = failed(snapshot, deployment, (reason, stuck), reverts);
    let eval = watcher_eval(snapshot, deployment, eval, now.wall);
    Command::DeploymentStatus(DeploymentStatusUpdate {
        change,
        revert,
        eval,
    })
}

/// Whether a rollout waits for the turn of its region. Not before its groups are known: the plan
/// that says them says that it is pending, too.
fn awaits_turn(deployment: &Deployment) -> bool {
    deployment.is_multiregion && deployment.status == DeploymentStatus::Pending
}

/// The command that lets a region's rollout go on.
fn turn(snapshot: &Snapshot, deployment: &Deployment, eval: EvalId, now: Now) -> Command {
    let change = DeploymentChange {
        id: deployment.id,
        status: DeploymentStatus::Running,
        description: deployment.running_description().to_owned(),
        from: Some(DeploymentStatus::Pending),
    };
    Command::DeploymentStatus(DeploymentStatusUpdate {
        change,
        revert: None,
        eval: watcher_eval(snapshot, deployment, eval, now.wall),
    })
}

/// The command that promotes a rollout's canaries, where every group that has some asks for it and
/// has all of them healthy.
fn promotion(
    snapshot: &Snapshot,
    deployment: &Deployment,
    eval: EvalId,
    now: Now,
) -> Option<Command> {
    is_promotable(snapshot, deployment).then(|| {
        Command::DeploymentPromote(DeploymentPromote {
            id: deployment.id,
            groups: PromoteGroups::All,
            eval: watcher_eval(snapshot, deployment, eval, now.wall),
            from: Some(deployment.status),
        })
    })
}

/// Groups without canaries have no say (Nomad #11878).
fn is_promotable(snapshot: &Snapshot, deployment: &Deployment) -> bool {
    let groups = deployment.task_groups.values();
    let mut waiting = groups.filter(|group| group.awaits_promotion()).peekable();
    deployment.status == DeploymentStatus::Running
        && waiting.peek().is_some()
        && waiting.all(|group| {
            group.auto_promote && healthy_allocs(snapshot, group) >= group.desired_canaries
        })
}

/// How many healthy ones there are of those that a group waits for now.
fn healthy_allocs(snapshot: &Snapshot, group: &DeploymentState) -> u32 {
    if group.awaits_promotion() {
        group.healthy_canaries(|id| snapshot.alloc(id).map(|alloc| &**alloc))
    } else {
        group.healthy_allocs
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use controlplane_state::command::{AllocChange, Change, PlanApply};
    use hack_testkit::{World, allocs, jobs, nodes};
    use protocol_model::{
        Job, JobKey, JobType, Multiregion, MultiregionRegion, RescheduleEvent, RescheduleTracker,
        UpdateStrategy,
    };

    use super::*;

    const DEADLINE: Duration = Duration::from_secs(600);

    fn job(command: &str) -> Job {
        let mut job = jobs::draft(JobType::Service, "web", 1);
        let config = &mut job.task_groups[0].tasks[0].config;
        config.insert("command".to_owned(), command.into());
        job.task_groups[0].update = Some(UpdateStrategy {
            auto_revert: Some(true),
            ..UpdateStrategy::default()
        });
        job.canonicalize();
        job
    }

    /// Registers a version and begins its rollout, which has until `progress_deadline` from now.
    fn begin(world: &mut World, command: &str, progress_deadline: Duration) -> DeploymentId {
        begin_job(world, job(command), progress_deadline)
    }

    fn begin_job(world: &mut World, job: Job, progress_deadline: Duration) -> DeploymentId {
        let eval = world.register(job);
        let snapshot = world.snapshot();
        let job = snapshot.job(&eval.job_key()).expect("it is registered");
        let id = DeploymentId::from_u128(0xd0 + u128::from(job.version));
        let group = DeploymentState {
            auto_revert: true,
            progress_deadline,
            desired_total: 1,
            require_progress_by: Some(world.now().saturating_add(progress_deadline)),
            ..DeploymentState::default()
        };
        let deployment = Deployment {
            id,
            namespace: job.namespace.clone(),
            job_id: job.id.clone(),
            job_version: job.version,
            job_modify_index: job.modify_index,
            job_spec_modify_index: job.job_modify_index,
            job_create_index: job.create_index,
            is_multiregion: false,
            task_groups: BTreeMap::from([("group".to_owned(), group)]),
            status: DeploymentStatus::Running,
            status_description: String::new(),
            eval_priority: 50,
            create_index: 0,
            modify_index: 0,
            create_time: UnixNanos(0),
            modify_time: UnixNanos(0),
        };
        let mut alloc = allocs::allocation(&snapshot, &job.key(), nodes::node(1).id);
        alloc.deployment_id = Some(id);
        world.expect(Command::PlanApply(Box::new(PlanApply {
            deployment: Some(Arc::new(deployment)),
            placed: vec![Arc::new(alloc)],
            ..PlanApply::default()
        })));
        id
    }

    fn world() -> World {
        let mut world = World::new();
        world.add_node(nodes::node(1));
        world
    }

    fn now(world: &World) -> Now {
        let wall = world.now();
        Now {
            monotonic: Duration::from_nanos(u64::try_from(wall.0).expect("after 1970")),
            wall,
        }
    }

    fn poll(rollouts: &mut Rollouts, world: &World) -> Option<Command> {
        let mut id = || EvalId::from_u128(0xe0);
        rollouts.poll_command(&world.snapshot(), &mut id, now(world))
    }

    fn succeed(world: &mut World, id: DeploymentId) {
        let change = DeploymentChange {
            id,
            status: DeploymentStatus::Successful,
            description: String::new(),
            from: None,
        };
        let update = DeploymentStatusUpdate {
            change,
            revert: None,
            eval: None,
        };
        world.expect(Command::DeploymentStatus(update));
    }

    #[test]
    fn a_rollout_without_progress_fails_at_its_deadline_and_not_before() {
        let mut world = world();
        let id = begin(&mut world, "/bin/one", DEADLINE);
        let mut rollouts = Rollouts::of(&world.snapshot(), Duration::ZERO, now(&world));
        world.wait(DEADLINE - Duration::from_secs(1));
        assert_eq!(poll(&mut rollouts, &world), None);
        world.wait(Duration::from_secs(1));
        let command = poll(&mut rollouts, &world).expect("it failed");
        world.expect(command);
        let snapshot = world.snapshot();
        let failed = snapshot.deployment(id).expect("kept for people");
        assert_eq!(failed.status, DeploymentStatus::Failed);
        assert_eq!(
            failed.status_description,
            "Failed due to progress deadline - no stable job version to auto revert to"
        );
        assert_eq!(poll(&mut rollouts, &world), None, "once");
        rollouts.again(id);
        assert_eq!(
            poll(&mut rollouts, &world),
            None,
            "the state knows it already"
        );
    }

    #[test]
    fn a_rollout_that_failed_goes_back_to_the_last_stable_version() {
        let mut world = world();
        let first = begin(&mut world, "/bin/one", DEADLINE);
        succeed(&mut world, first);
        let second = begin(&mut world, "/bin/two", DEADLINE);
        let mut rollouts = Rollouts::of(&world.snapshot(), Duration::ZERO, now(&world));
        world.wait(DEADLINE);
        let command = poll(&mut rollouts, &world).expect("it failed");
        world.expect(command);
        let snapshot = world.snapshot();
        let job = snapshot.job(&JobKey::new("default", "web")).expect("there");
        assert_eq!(
            (job.version, job.spec_hash()),
            (2, self::job("/bin/one").spec_hash())
        );
        let failed = snapshot.deployment(second).expect("kept for people");
        assert_eq!(
            failed.status_description,
            "Failed due to progress deadline - rolling back to job version 0"
        );
    }

    #[test]
    fn a_rollout_that_cannot_go_back_fails_all_the_same_and_says_why() {
        let mut world = world();
        let first = begin(&mut world, "/bin/one", DEADLINE);
        succeed(&mut world, first);
        let second = begin(&mut world, "/bin/two", DEADLINE);
        let mut rollouts = Rollouts::of(&world.snapshot(), Duration::ZERO, now(&world));
        world.wait(DEADLINE);
        let Some(Command::DeploymentStatus(update)) = poll(&mut rollouts, &world) else {
            panic!("it failed")
        };
        assert!(update.revert.is_some());
        rollouts.on_refused_update(&update, "there is no namespace default".to_owned());
        // What happens to it meanwhile does not make it try again.
        rollouts.on_changed(second, &world.snapshot(), now(&world));
        let command = poll(&mut rollouts, &world).expect("without going back");
        world.expect(command);
        let snapshot = world.snapshot();
        let failed = snapshot.deployment(second).expect("kept for people");
        assert_eq!(failed.status, DeploymentStatus::Failed);
        assert_eq!(
            failed.status_description,
            "Failed due to progress deadline - rolling back to job version 0 was refused: there \
             is no namespace default"
        );
        let job = snapshot.job(&JobKey::new("default", "web")).expect("there");
        assert_eq!(job.version, 1, "it stays as it is");
    }

    #[test]
    fn a_deadline_that_passed_while_nothing_could_be_reported_is_waited_out() {
        let mut world = world();
        let id = begin(&mut world, "/bin/one", DEADLINE);
        world.wait(2 * DEADLINE);
        let second = Duration::from_secs(1);
        let earliest = now(&world).monotonic + second;
        let mut rollouts = Rollouts::of(&world.snapshot(), earliest, now(&world));
        assert_eq!(poll(&mut rollouts, &world), None);
        assert_eq!(rollouts.poll_timeout(), Some(earliest));
        rollouts.not_before(earliest + second);
        world.wait(second);
        assert_eq!(poll(&mut rollouts, &world), None);
        // What changes meanwhile is not looked at earlier for that.
        rollouts.on_changed(id, &world.snapshot(), now(&world));
        assert_eq!(rollouts.poll_timeout(), Some(earliest + second));
        world.wait(second);
        assert!(poll(&mut rollouts, &world).is_some());
    }

    /// The node falls silent, and the scheduler takes note of it.
    fn silence(world: &mut World, id: DeploymentId) {
        world.silence(nodes::node(1).id);
        let snapshot = world.snapshot();
        let members = snapshot.allocs_by_deployment(id);
        let changed = members.map(|alloc| AllocChange {
            id: alloc.id,
            change: Change::Disconnect {
                description: String::new(),
                followup_eval: None,
            },
        });
        let changed = changed.collect();
        world.expect(Command::PlanApply(Box::new(PlanApply {
            changed,
            ..PlanApply::default()
        })));
    }

    #[test]
    fn a_rollout_that_waits_for_silent_nodes_alone_does_not_fail_at_its_deadline() {
        let mut world = world();
        let id = begin(&mut world, "/bin/one", DEADLINE);
        let mut rollouts = Rollouts::of(&world.snapshot(), Duration::ZERO, now(&world));
        silence(&mut world, id);
        world.wait(DEADLINE);
        for _ in 0..3 {
            assert_eq!(poll(&mut rollouts, &world), None);
            let again = rollouts.poll_timeout().expect("it is looked at again");
            assert_eq!(again, now(&world).monotonic + DEADLINE);
            world.wait(DEADLINE);
        }
        // Back, and not healthy for as long as it may take.
        world.add_node(nodes::node(1));
        let alloc = world.snapshot().allocs_by_deployment(id).next().cloned();
        world.report(alloc.expect("one").id, ClientStatus::Running);
        let command = poll(&mut rollouts, &world).expect("it failed");
        world.expect(command);
        let snapshot = world.snapshot();
        let failed = snapshot.deployment(id).expect("kept for people");
        assert_eq!(failed.status, DeploymentStatus::Failed);
    }

    /// A job of which a failed allocation is tried again so often, and one of its allocations.
    fn limited(world: &mut World, attempts: u32) -> (DeploymentId, Job) {
        let mut limited = job("/bin/false");
        let policy = limited.task_groups[0].reschedule_policy.as_mut();
        let policy = policy.expect("services have one");
        policy.unlimited = Some(false);
        policy.attempts = Some(attempts);
        policy.interval = Some(Duration::from_secs(3600));
        (begin_job(world, limited.clone(), DEADLINE), limited)
    }

    fn only_live(world: &World, id: DeploymentId) -> Allocation {
        let snapshot = world.snapshot();
        let mut live = snapshot
            .allocs_by_deployment(id)
            .filter(|alloc| !alloc.terminal());
        Allocation::clone(live.next().expect("one stands"))
    }

    #[test]
    fn a_rollout_fails_once_an_unhealthy_alloc_has_no_attempt_left() {
        let mut world = world();
        let first = begin(&mut world, "/bin/one", DEADLINE);
        succeed(&mut world, first);
        let (second, _) = limited(&mut world, 0);
        let mut rollouts = Rollouts::of(&world.snapshot(), Duration::ZERO, now(&world));
        assert_eq!(poll(&mut rollouts, &world), None);
        world.report_health(only_live(&world, second).id, false);
        rollouts.on_changed(second, &world.snapshot(), now(&world));
        let command = poll(&mut rollouts, &world).expect("long before its deadline");
        world.expect(command);
        let snapshot = world.snapshot();
        let failed = snapshot.deployment(second).expect("kept for people");
        assert_eq!(
            failed.status_description,
            "Failed due to unhealthy allocations - rolling back to job version 0"
        );
        let job = snapshot.job(&JobKey::new("default", "web")).expect("there");
        assert_eq!(job.spec_hash(), self::job("/bin/one").spec_hash());
    }

    #[test]
    fn a_rollout_with_one_attempt_fails_with_the_second_allocation() {
        let mut world = world();
        let (id, job) = limited(&mut world, 1);
        let mut rollouts = Rollouts::of(&world.snapshot(), Duration::ZERO, now(&world));
        let first = only_live(&world, id);
        world.report_health(first.id, false);
        rollouts.on_changed(id, &world.snapshot(), now(&world));
        assert_eq!(poll(&mut rollouts, &world), None, "one more is to come");
        let mut second = allocs::allocation(&world.snapshot(), &job.key(), first.node_id);
        second.deployment_id = Some(id);
        second.previous_allocation = Some(first.id);
        second.reschedule_tracker = Some(RescheduleTracker {
            events: vec![RescheduleEvent {
                reschedule_time: world.now(),
                prev_alloc_id: first.id,
                prev_node_id: first.node_id,
                delay: Duration::from_secs(30),
            }],
        });
        let stop = Change::Stop {
            description: String::new(),
            client_status: None,
            followup_eval: None,
        };
        world.expect(Command::PlanApply(Box::new(PlanApply {
            changed: vec![AllocChange {
                id: first.id,
                change: stop,
            }],
            placed: vec![Arc::new(second)],
            ..PlanApply::default()
        })));
        rollouts.on_changed(id, &world.snapshot(), now(&world));
        assert_eq!(poll(&mut rollouts, &world), None);
        world.report_health(only_live(&world, id).id, false);
        rollouts.on_changed(id, &world.snapshot(), now(&world));
        assert!(poll(&mut rollouts, &world).is_some());
    }

    #[test]
    fn a_rollout_that_may_try_again_waits_for_its_deadline() {
        let mut world = world();
        let id = begin(&mut world, "/bin/one", DEADLINE);
        let mut rollouts = Rollouts::of(&world.snapshot(), Duration::ZERO, now(&world));
        world.report_health(only_live(&world, id).id, false);
        rollouts.on_changed(id, &world.snapshot(), now(&world));
        assert_eq!(poll(&mut rollouts, &world), None);
        world.wait(DEADLINE);
        assert!(poll(&mut rollouts, &world).is_some());
    }

    #[test]
    fn a_deadline_of_zero_fails_with_the_first_unhealthy_allocation() {
        let mut world = world();
        let id = begin(&mut world, "/bin/one", Duration::ZERO);
        let mut rollouts = Rollouts::of(&world.snapshot(), Duration::ZERO, now(&world));
        let alloc = world
            .snapshot()
            .allocs_by_deployment(id)
            .map(|alloc| alloc.id)
            .next()
            .expect("one");
        world.report_health(alloc, false);
        rollouts.on_changed(id, &world.snapshot(), now(&world));
        let Some(Command::DeploymentStatus(update)) = poll(&mut rollouts, &world) else {
            panic!("it failed")
        };
        assert!(update.change.description.starts_with(UNHEALTHY));
    }

    /// Groups of a deployment, each with so many canaries, some of them healthy.
    fn trial(world: &mut World, groups: &[(&str, u32, bool, u32)]) -> DeploymentId {
        let mut draft = job("/bin/one");
        let group = draft.task_groups[0].clone();
        draft.task_groups = groups
            .iter()
            .map(|(name, ..)| named(&group, name))
            .collect();
        let id = begin_job(world, draft, DEADLINE);
        let snapshot = world.snapshot();
        let begun = snapshot.deployment(id).expect("it began");
        let mut deployment = Deployment::clone(begun);
        let mut placed = Vec::new();
        for (name, canaries, auto_promote, _) in groups {
            let state = DeploymentState {
                desired_total: 3,
                desired_canaries: *canaries,
                auto_promote: *auto_promote,
                progress_deadline: DEADLINE,
                ..DeploymentState::default()
            };
            deployment.task_groups.insert((*name).to_owned(), state);
            let node = nodes::node(1).id;
            for number in 0..*canaries {
                let key = deployment.job_key();
                let mut alloc = allocs::allocation(&snapshot, &key, node);
                alloc.id = protocol_model::AllocId::from_u128(placed.len() as u128 + 0xca_0000);
                alloc.name = Allocation::name_of(&key.id, name, number);
                alloc.task_group = (*name).to_owned();
                alloc.deployment_id = Some(id);
                alloc.deployment_status = Some(protocol_model::AllocDeploymentStatus {
                    canary: true,
                    ..Default::default()
                });
                placed.push(Arc::new(alloc));
            }
        }
        world.expect(Command::PlanApply(Box::new(PlanApply {
            deployment: Some(Arc::new(deployment)),
            placed,
            ..PlanApply::default()
        })));
        for (name, _, _, healthy) in groups {
            let snapshot = world.snapshot();
            let canaries = snapshot.allocs_by_deployment(id);
            let canaries = canaries.filter(|it| {
                let status = it.deployment_status.as_ref();
                it.task_group == *name && status.is_some_and(|status| status.canary)
            });
            let ids: Vec<_> = canaries.map(|alloc| alloc.id).collect();
            for id in ids.into_iter().take(*healthy as usize) {
                world.report_health(id, true);
            }
        }
        id
    }

    fn named(group: &protocol_model::TaskGroup, name: &str) -> protocol_model::TaskGroup {
        let mut group = group.clone();
        name.clone_into(&mut group.name);
        group
    }

    fn promotes(world: &World) -> bool {
        let mut rollouts = Rollouts::of(&world.snapshot(), Duration::ZERO, now(world));
        matches!(
            poll(&mut rollouts, world),
            Some(Command::DeploymentPromote(_))
        )
    }

    /// Nomad #11878: a group without canaries kept the others from being promoted.
    #[test]
    fn canaries_are_promoted_where_every_group_with_canaries_asks_for_it() {
        for (groups, expected) in [
            (vec![("group", 2, true, 2)], true),
            (vec![("group", 2, true, 1)], false),
            (vec![("group", 2, false, 2)], false),
            (vec![("group", 0, false, 0), ("other", 1, true, 1)], true),
            (vec![("group", 1, true, 1), ("other", 1, false, 1)], false),
            (vec![("group", 1, true, 1), ("other", 1, true, 0)], false),
            (vec![("group", 0, true, 0)], false),
        ] {
            let mut world = world();
            trial(&mut world, &groups);
            assert_eq!(promotes(&world), expected, "{groups:?}");
        }
    }

    #[test]
    fn healthy_canaries_wait_for_a_person_without_a_deadline() {
        let mut world = world();
        let id = trial(&mut world, &[("group", 1, false, 1)]);
        world.wait(100 * DEADLINE);
        let mut rollouts = Rollouts::of(&world.snapshot(), Duration::ZERO, now(&world));
        assert_eq!(poll(&mut rollouts, &world), None);
        // Nomad #7058: the rest has its own time from the promotion on.
        world.expect(Command::DeploymentPromote(DeploymentPromote {
            id,
            groups: PromoteGroups::All,
            eval: None,
            from: None,
        }));
        rollouts.on_changed(id, &world.snapshot(), now(&world));
        assert_eq!(poll(&mut rollouts, &world), None);
        world.wait(DEADLINE);
        let Some(Command::DeploymentStatus(update)) = poll(&mut rollouts, &world) else {
            panic!("the rest made no progress")
        };
        assert_eq!(update.change.from, Some(DeploymentStatus::Running));
    }

    #[test]
    fn canaries_that_become_healthy_too_late_fail_their_deployment() {
        let mut world = world();
        trial(&mut world, &[("group", 2, true, 1)]);
        let mut rollouts = Rollouts::of(&world.snapshot(), Duration::ZERO, now(&world));
        assert_eq!(poll(&mut rollouts, &world), None);
        world.wait(DEADLINE);
        let command = poll(&mut rollouts, &world);
        assert!(matches!(command, Some(Command::DeploymentStatus(_))));
    }

    /// Nomad #27804.
    #[test]
    fn a_paused_deployment_does_not_fail_and_is_not_promoted() {
        let mut world = world();
        let id = trial(&mut world, &[("group", 1, true, 1)]);
        let pause = |status| {
            Command::DeploymentStatus(DeploymentStatusUpdate {
                change: DeploymentChange {
                    id,
                    status,
                    description: String::new(),
                    from: None,
                },
                revert: None,
                eval: None,
            })
        };
        world.apply(pause(DeploymentStatus::Paused));
        world.wait(10 * DEADLINE);
        let mut rollouts = Rollouts::of(&world.snapshot(), Duration::ZERO, now(&world));
        assert_eq!(poll(&mut rollouts, &world), None);
        world.apply(pause(DeploymentStatus::Running));
        rollouts.on_changed(id, &world.snapshot(), now(&world));
        let command = poll(&mut rollouts, &world);
        assert!(matches!(command, Some(Command::DeploymentPromote(_))));
    }

    #[test]
    fn a_pending_deployment_of_several_regions_gets_its_turn_once() {
        let mut world = world();
        let mut job = job("/bin/one");
        job.multiregion = Some(Multiregion {
            strategy: None,
            regions: vec![MultiregionRegion {
                name: "global".to_owned(),
                ..MultiregionRegion::default()
            }],
        });
        let eval = world.register(job);
        let snapshot = world.snapshot();
        let found = snapshot.latest_deployment(&eval.job_key()).expect("made");
        // Also where it is too early to judge anything.
        let mut rollouts = Rollouts::of(&snapshot, Duration::MAX, now(&world));
        assert_eq!(poll(&mut rollouts, &world), None, "no plan was made of it");
        let update = DeploymentStatusUpdate {
            change: DeploymentChange {
                id: found.id,
                status: DeploymentStatus::Pending,
                description: String::new(),
                from: Some(DeploymentStatus::Initializing),
            },
            revert: None,
            eval: None,
        };
        world.expect(Command::DeploymentStatus(update));
        rollouts.on_changed(found.id, &world.snapshot(), now(&world));
        let command = poll(&mut rollouts, &world).expect("its turn");
        rollouts.on_failed(&Effect::Command(command), now(&world));
        assert_eq!(rollouts.poll_timeout(), Some(Duration::ZERO), "again");
        let command = poll(&mut rollouts, &world).expect("its turn");
        world.expect(command);
        rollouts.on_changed(found.id, &world.snapshot(), now(&world));
        let snapshot = world.snapshot();
        let running = snapshot.deployment(found.id).expect("there");
        assert_eq!(running.status, DeploymentStatus::Running);
        assert_eq!(running.status_description, Deployment::RUNNING);
        let evals = snapshot.evals_by_job(&eval.job_key());
        let mut evals = evals.filter(|it| it.deployment_id == Some(found.id));
        assert!(evals.next().is_some(), "it is looked at");
        assert_eq!(poll(&mut rollouts, &world), None, "once");
    }

    #[test]
    fn a_promotion_that_is_refused_leaves_the_deadline_watched() {
        let mut world = world();
        let id = trial(&mut world, &[("group", 1, true, 1)]);
        let mut rollouts = Rollouts::of(&world.snapshot(), Duration::ZERO, now(&world));
        let command = poll(&mut rollouts, &world).expect("a promotion");
        let snapshot = world.snapshot();
        let canary = snapshot.allocs_by_deployment(id).find(|alloc| {
            let status = alloc.deployment_status.as_ref();
            status.is_some_and(|status| status.canary)
        });
        world.report(canary.expect("one").id, ClientStatus::Failed);
        rollouts.on_refused(&Effect::Command(command), "a canary failed");
        assert_eq!(poll(&mut rollouts, &world), None);
        assert!(rollouts.poll_timeout().is_some(), "its deadline is watched");
    }
}
