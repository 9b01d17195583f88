//! Launches of periodic jobs by the clock.
//!
//! ```text
//!  job registered ──► next(launch record) ──► due ──► PeriodicLaunch ──► record moves ──┐
//!                            ▲                                                         │
//!                            └─────────────────────────────────────────────────────────┘
//! ```
//!
//! The launch record is in the state, and `apply` takes no time that is not above it. So a clock
//! that goes back launches nothing twice. Of times that were missed (no leader, a clock set
//! forward) the newest is launched, once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use controlplane_state::command::{ChildJob, LAUNCHES_MAX, Launch, LaunchCause, PeriodicLaunch};
use controlplane_state::{Command, Signal, Snapshot};
use protocol_model::cron::Schedule;
use protocol_model::{EvalId, EvalTrigger, Evaluation, Job, JobKey, UnixNanos};

use crate::part::{Applied, Effect, LeaderPart};
use crate::time::Now;

/// How often the wall clock is looked at while a launch is to come: it may jump.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The pause after launches that did not get into the log.
const FAILED_PAUSE: Duration = Duration::from_secs(1);

/// Which periodic jobs are due, and when.
#[derive(Debug, Default)]
pub struct PeriodicLaunches {
    due: BTreeSet<(UnixNanos, JobKey)>,
    jobs: BTreeMap<JobKey, UnixNanos>,
    /// The clocks as they were last seen.
    seen: Now,
    /// Nothing is proposed before this time.
    paused_until: Duration,
    /// Launches were refused: a pause begins with the next look.
    refused: bool,
}

impl PeriodicLaunches {
    /// Follows every periodic job of the state.
    pub fn of(snapshot: &Snapshot, now: Now) -> Self {
        let mut launches = Self {
            seen: now,
            ..Self::default()
        };
        for (key, job) in snapshot.jobs() {
            if job.is_periodic() {
                launches.look(key, snapshot);
            }
        }
        launches
    }

    /// Finds out when a job is due next.
    fn look(&mut self, key: &JobKey, snapshot: &Snapshot) {
        self.forget(key);
        let followed = Followed::of(key, snapshot);
        if let Some(due) = followed.and_then(|it| it.schedule.next(it.last)) {
            self.set(key, due);
        }
    }

    fn set(&mut self, key: &JobKey, due: UnixNanos) {
        self.forget(key);
        self.due.insert((due, key.clone()));
        self.jobs.insert(key.clone(), due);
    }

    fn forget(&mut self, key: &JobKey) {
        if let Some(due) = self.jobs.remove(key) {
            self.due.remove(&(due, key.clone()));
        }
    }

    /// The launches that are due, at most [`LAUNCHES_MAX`]. Their jobs are not followed until the
    /// state shows the launch, or the log did not take it.
    fn poll_due(
        &mut self,
        snapshot: &Snapshot,
        ids: &mut dyn FnMut() -> EvalId,
        now: Now,
    ) -> Vec<Launch> {
        let mut launches = Vec::new();
        while launches.len() < LAUNCHES_MAX
            && let Some((due, key)) = self.due.first().cloned()
            && due <= now.wall
        {
            self.forget(&key);
            let Some(followed) = Followed::of(&key, snapshot) else {
                continue;
            };
            match followed.schedule.newest(followed.last, now.wall) {
                Some(at) => launches.push(launch(followed.job, at, ids(), now)),
                // Launched meanwhile.
                None => self.look(&key, snapshot),
            }
        }
        launches
    }

    /// The jobs of launches that the log did not take are due again.
    fn again(&mut self, effect: &Effect) -> bool {
        let Effect::Command(Command::PeriodicLaunch(command)) = effect else {
            return false;
        };
        for launch in &command.launches {
            self.set(&launch.child.parent(), launch.at);
        }
        true
    }
}

/// A periodic job whose launch times are followed.
struct Followed<'s> {
    job: &'s Job,
    schedule: Schedule,
    last: UnixNanos,
}

impl<'s> Followed<'s> {
    fn of(key: &JobKey, snapshot: &'s Snapshot) -> Option<Self> {
        let job = snapshot.job(key).filter(|job| job.launches_by_time())?;
        // Validation refuses a schedule that cannot be read.
        let schedule = job.periodic.as_ref()?.schedule().ok()?;
        // A job of before there were launch records is followed from its registration on.
        let last = snapshot.last_launch(key).unwrap_or(job.submit_time);
        Some(Self {
            job,
            schedule,
            last,
        })
    }
}

fn launch(job: &Job, at: UnixNanos, eval: EvalId, now: Now) -> Launch {
    let child = job.periodic_child(at);
    let trigger = EvalTrigger::PeriodicJob;
    let key = child.key();
    let eval = Evaluation::new(
        eval,
        &key,
        child.job_type,
        child.priority,
        trigger,
        now.wall,
    );
    Launch {
        child: ChildJob {
            spec: child.spec_hash(),
            job: Arc::new(child),
            parent_index: job.job_modify_index,
            eval: Some(eval),
        },
        at,
        cause: LaunchCause::Schedule,
    }
}

impl LeaderPart for PeriodicLaunches {
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "a part names the signals that it acts on"
    )]
    fn on_applied(&mut self, applied: Applied<'_>, now: Now) {
        self.seen = now;
        for signal in applied.signals {
            match signal {
                Signal::JobChanged(key) | Signal::LaunchRecorded(key) => {
                    self.look(key, applied.snapshot);
                }
                Signal::JobRemoved(key) => self.forget(key),
                _ => {}
            }
        }
    }

    fn poll(
        &mut self,
        snapshot: &Snapshot,
        ids: &mut dyn FnMut() -> EvalId,
        now: Now,
    ) -> Option<Effect> {
        self.seen = now;
        if std::mem::take(&mut self.refused) {
            self.paused_until = now.monotonic + FAILED_PAUSE;
        }
        if now.monotonic < self.paused_until {
            return None;
        }
        let launches = self.poll_due(snapshot, ids, now);
        if launches.is_empty() {
            return None;
        }
        let command = Command::PeriodicLaunch(PeriodicLaunch { launches });
        Some(Effect::Command(command))
    }

    fn on_failed(&mut self, effect: &Effect, now: Now) {
        if self.again(effect) {
            self.paused_until = now.monotonic + FAILED_PAUSE;
        }
    }

    fn on_refused(&mut self, effect: &Effect, _: &str) {
        // A server of an older release is there: it is upgraded in time.
        self.refused |= self.again(effect);
    }

    fn poll_timeout(&self) -> Option<Duration> {
        let (due, _) = self.due.first()?;
        let look = self.seen.monotonic + LOOK_EVERY;
        let due = self.seen.monotonic_of(*due).min(look);
        Some(due.max(self.paused_until))
    }
}

#[cfg(test)]
mod tests {
    use controlplane_state::Outcome;
    use controlplane_state::command::{JobDeregister, JobRegister, Purge};
    use hack_testkit::{World, jobs};
    use protocol_model::{JobType, PeriodicConfig};

    use super::*;

    const NONE: [i64; 0] = [];
    const SECOND: i64 = 1_000_000_000;
    /// 2023-11-14T22:13:20Z, when a [`World`] begins.
    const START: i64 = 1_700_000_000;

    struct Scene {
        world: World,
        part: PeriodicLaunches,
        ids: u128,
    }

    fn template(id: &str, spec: &str) -> Job {
        let mut job = jobs::job(JobType::Batch, id, 1);
        job.periodic = Some(PeriodicConfig {
            enabled: Some(true),
            spec: spec.to_owned(),
            time_zone: "UTC".to_owned(),
            ..PeriodicConfig::default()
        });
        job
    }

    /// Both clocks, `seconds` after the world's start.
    fn at(seconds: i64) -> Now {
        Now {
            monotonic: Duration::from_secs(u64::try_from(seconds).expect("later")),
            wall: UnixNanos((START + seconds) * SECOND),
        }
    }

    impl Scene {
        fn of(jobs: &[Job]) -> Self {
            let mut world = World::new();
            for job in jobs {
                register(&mut world, job.clone());
            }
            let part = PeriodicLaunches::of(&world.snapshot(), at(0));
            Self {
                world,
                part,
                ids: 0,
            }
        }

        fn poll(&mut self, now: Now) -> Option<Command> {
            let snapshot = self.world.snapshot();
            let mut ids = || {
                self.ids += 1;
                EvalId::from_u128(self.ids)
            };
            let effect = self.part.poll(&snapshot, &mut ids, now)?;
            let Effect::Command(command) = effect;
            Some(command)
        }

        fn apply(&mut self, command: Command, now: Now) -> Outcome {
            let applied = self.world.apply(command);
            let snapshot = self.world.snapshot();
            let told = Applied {
                index: applied.index,
                signals: &applied.signals,
                snapshot: &snapshot,
            };
            self.part.on_applied(told, now);
            applied.outcome
        }

        /// Launches all that is due, and answers the seconds since the start that were launched.
        fn launch(&mut self, now: Now) -> Vec<i64> {
            let mut launched = Vec::new();
            while let Some(command) = self.poll(now) {
                let Command::PeriodicLaunch(wanted) = &command else {
                    panic!("{command:?}");
                };
                let times = wanted.launches.iter().map(|it| it.at.0 / SECOND - START);
                launched.extend(times);
                self.apply(command, now);
            }
            launched
        }
    }

    fn register(world: &mut World, job: Job) {
        let spec = job.spec_hash();
        world.expect(Command::JobRegister(JobRegister {
            job: Arc::new(job),
            spec,
            eval: None,
            enforce_index: None,
            submission: None,
        }));
    }

    #[test]
    fn each_time_is_launched_once_when_it_comes() {
        let mut scene = Scene::of(&[template("backup", "* * * * *")]);
        assert_eq!(scene.part.poll_timeout(), Some(Duration::from_secs(1)));
        assert_eq!(scene.launch(at(39)), NONE);
        assert_eq!(scene.launch(at(40)), [40]);
        assert_eq!(scene.launch(at(41)), NONE);
        assert_eq!(scene.launch(at(100)), [100]);
        let snapshot = scene.world.snapshot();
        let child = JobKey::new("default", "backup/periodic-1700000040");
        let evals: Vec<_> = snapshot.evals_by_job(&child).collect();
        assert_eq!(evals.len(), 1);
        assert_eq!(evals[0].triggered_by, EvalTrigger::PeriodicJob);
    }

    #[test]
    fn a_new_leader_launches_the_newest_missed_time_once() {
        let mut scene = Scene::of(&[template("backup", "* * * * *")]);
        assert_eq!(scene.launch(at(40)), [40]);
        let expected: [&[i64]; 2] = [&[3580], &[]];
        for missed in expected {
            scene.part = PeriodicLaunches::of(&scene.world.snapshot(), at(3600));
            assert_eq!(scene.launch(at(3600)), missed);
        }
        let last = scene
            .world
            .snapshot()
            .last_launch(&JobKey::new("default", "backup"));
        assert_eq!(last, Some(at(3580).wall));
    }

    #[test]
    fn a_clock_set_forward_launches_the_newest_skipped_time_once() {
        let mut scene = Scene::of(&[template("backup", "*/10 * * * *")]);
        let hour = at(3600 + 5);
        let jumped = Now {
            monotonic: Duration::from_secs(5),
            ..hour
        };
        assert_eq!(scene.launch(jumped), [3400]);
        assert_eq!(scene.launch(jumped), NONE);
        assert_eq!(scene.launch(at(4000)), [4000]);
    }

    #[test]
    fn a_clock_set_back_launches_no_time_twice() {
        let mut scene = Scene::of(&[template("backup", "*/10 * * * *")]);
        assert_eq!(scene.launch(at(3600)), [3400]);
        let mut now = at(3600);
        for back in (0..3400).step_by(50) {
            now = Now {
                monotonic: now.monotonic + Duration::from_secs(50),
                ..at(back)
            };
            assert_eq!(scene.launch(now), NONE, "{back}");
            let leader = PeriodicLaunches::of(&scene.world.snapshot(), now);
            scene.part = leader;
            assert_eq!(scene.launch(now), NONE, "{back}, after an election");
        }
        assert_eq!(scene.launch(at(4000)), [4000]);
    }

    #[test]
    fn launches_that_the_log_did_not_take_are_tried_again_after_a_pause() {
        let mut scene = Scene::of(&[template("backup", "* * * * *")]);
        let command = scene.poll(at(40)).expect("due");
        assert_eq!(scene.poll(at(40)), None, "in the log's hands");
        let effect = Effect::Command(command.clone());
        scene.part.on_failed(&effect, at(41));
        assert_eq!(scene.poll(at(41)), None);
        assert_eq!(scene.part.poll_timeout(), Some(Duration::from_secs(42)));
        let again = scene.poll(at(42)).expect("again");
        // The first one got into the log after all.
        scene.apply(command, at(42));
        scene.apply(again, at(42));
        let snapshot = scene.world.snapshot();
        let children = snapshot.children(&JobKey::new("default", "backup"));
        assert_eq!(children.map(|it| it.total()), Some(1));
        let command = scene.poll(at(100)).expect("due");
        let effect = Effect::Command(command);
        scene.part.on_refused(&effect, "an older server");
        assert_eq!(scene.poll(at(100)), None);
        assert_eq!(scene.launch(at(101)), [100]);
    }

    #[test]
    fn many_jobs_that_are_due_at_once_take_several_entries() {
        let jobs: Vec<Job> = (0..70)
            .map(|number| template(&format!("job-{number}"), "* * * * *"))
            .collect();
        let mut scene = Scene::of(&jobs);
        let mut sizes = Vec::new();
        while let Some(command) = scene.poll(at(40)) {
            let Command::PeriodicLaunch(wanted) = &command else {
                panic!("{command:?}");
            };
            sizes.push(wanted.launches.len());
            scene.apply(command, at(40));
        }
        assert_eq!(sizes, [32, 32, 6]);
    }

    #[test]
    fn only_active_schedules_are_followed_and_changes_count_at_once() {
        let mut disabled = template("backup", "* * * * *");
        disabled.periodic.as_mut().expect("periodic").enabled = Some(false);
        let mut scene = Scene::of(&[disabled]);
        assert_eq!(scene.part.poll_timeout(), None);
        scene.world.wait(Duration::from_secs(90));
        let spec = |job: &Job| job.spec_hash();
        let enabled = template("backup", "* * * * *");
        let command = Command::JobRegister(JobRegister {
            spec: spec(&enabled),
            job: Arc::new(enabled),
            eval: None,
            enforce_index: None,
            submission: None,
        });
        scene.apply(command, at(90));
        // Times before the registration are not made up for.
        assert_eq!(scene.launch(at(99)), NONE);
        assert_eq!(scene.launch(at(100)), [100]);
        let key = JobKey::new("default", "backup");
        let stop = |purge| {
            Command::JobDeregister(JobDeregister {
                key: key.clone(),
                purge,
                eval: None,
                no_shutdown_delay: false,
            })
        };
        scene.apply(stop(Purge::Keep), at(101));
        assert_eq!(scene.part.poll_timeout(), None);
        scene.apply(stop(Purge::Forget), at(102));
        assert_eq!(scene.launch(at(1000)), NONE);
    }
}
