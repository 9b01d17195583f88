//! Every cell of phase x command and phase x event.

use std::fmt::Write as _;
use std::time::Duration;

use protocol_model::{Artifact, Job, NodeId, TaskEventKind, TaskRunState, UnixNanos};

use super::*;
use crate::alloc_resources::AllocResources;
use crate::effect::Effect;
use crate::event::{Exit, ExitStatus, Recovery, RunEvent};
use crate::test_support::{alloc_of, at, job_with_tasks, task};

const ID: AllocId = AllocId::from_u128(1);

/// A task with one restart after a second, and a shutdown delay of two.
fn job() -> Job {
    let main = Task {
        shutdown_delay: Duration::from_secs(2),
        restart_policy: Some(RestartPolicy {
            attempts: Some(1),
            delay: Some(Duration::from_secs(1)),
            interval: Some(Duration::from_secs(60)),
            mode: Some("fail".to_owned()),
            render_templates: None,
        }),
        ..task("main")
    };
    job_with_tasks("web", vec![main])
}

struct Fixture {
    settings: Settings,
    node: Node,
    spec: Arc<AllocSpec>,
    resources: AllocResources,
}

impl Fixture {
    fn new() -> Self {
        Self::with(job())
    }

    fn with(job: Job) -> Self {
        let alloc = alloc_of(&job, ID);
        let spec = Arc::new(AllocSpec::new(alloc, Arc::new(job)).expect("fits"));
        let settings = Settings::new("/data/alloc", [3; 16]);
        Self {
            settings,
            node: Node::new(NodeId::from_u128(1), "host", "dc1"),
            spec,
            resources: AllocResources::default(),
        }
    }

    fn ctx(&self) -> RunContext<'_> {
        RunContext {
            settings: &self.settings,
            node: &self.node,
            spec: &self.spec,
            resources: &self.resources,
        }
    }

    /// A runner of run epoch 1 that has come to `phase`.
    fn runner(&self, phase: Phase) -> TaskRunner {
        let mut runner = TaskRunner::new(ID, "main", at(0));
        runner.epoch = RunEpoch(1);
        runner.phase = phase;
        runner.state.state = match phase {
            Phase::Dead => TaskRunState::Dead,
            Phase::Running | Phase::ShutdownDelay { .. } | Phase::Stopping { .. } => {
                TaskRunState::Running
            }
            Phase::Waiting
            | Phase::Delayed { .. }
            | Phase::Preparing { .. }
            | Phase::Starting { .. } => TaskRunState::Pending,
        };
        runner
    }
}

type Input = fn(&mut TaskRunner, RunContext<'_>, &mut Outbox);

fn event(runner: &mut TaskRunner, event: RunEvent, ctx: RunContext<'_>, out: &mut Outbox) {
    runner.on_run_event(RunEpoch(1), event, ctx, out, at(5_000));
}

fn exit(code: i32) -> RunEvent {
    let status = ExitStatus::Code(code);
    RunEvent::Exited(Exit {
        status,
        oom_killed: false,
        signal_discarded: false,
        lease_expired: false,
        at: UnixNanos(1),
    })
}

const INPUTS: [(&str, Input); 12] = [
    ("kill", |it, ctx, out| {
        it.kill(
            KillCause::AllocStopped,
            ShutdownDelay::Wait,
            ctx,
            out,
            at(5_000),
        );
    }),
    ("kill now", |it, ctx, out| {
        let (cause, delay) = (KillCause::LeaseExpired, ShutdownDelay::Skip);
        it.kill(cause, delay, ctx, out, at(5_000));
    }),
    ("restart", |it, ctx, out| {
        let _ = it.restart("asked", ctx, out, at(5_000));
    }),
    ("revive", |it, ctx, out| {
        it.revive("asked", ctx, out, at(5_000));
    }),
    ("signal", |it, _, out| {
        let _ = it.signal("SIGHUP", out, at(5_000));
    }),
    ("timeout", |it, ctx, out| it.on_timeout(ctx, out, at(5_000))),
    ("prepared", |it, ctx, out| {
        event(
            it,
            RunEvent::Prepared {
                environment: std::collections::BTreeMap::new(),
            },
            ctx,
            out,
        );
    }),
    ("cancelled", |it, ctx, out| {
        let cancelled = RunEvent::PrepareFailed {
            hook: TaskHook::Artifacts,
            message: "cancelled".to_owned(),
            recovery: Recovery::Cancelled,
        };
        event(it, cancelled, ctx, out);
    }),
    ("started", |it, ctx, out| {
        event(
            it,
            RunEvent::Started {
                pid: 9,
                at: UnixNanos(1),
            },
            ctx,
            out,
        );
    }),
    ("failed", |it, ctx, out| {
        let (message, recovery) = ("no".to_owned(), Recovery::Possible);
        event(it, RunEvent::StartFailed { message, recovery }, ctx, out);
    }),
    ("exit 1", |it, ctx, out| event(it, exit(1), ctx, out)),
    ("old exit", |it, ctx, out| {
        it.on_run_event(RunEpoch(0), exit(1), ctx, out, at(5_000));
    }),
];

/// The effects and the new phase of every cell; a cell that changes nothing is left out.
const TABLE: &str = "\
waiting: kill -> dead
waiting: kill now -> dead
waiting: failed -> waiting [release]
waiting: exit 1 -> waiting [release]
waiting: old exit -> waiting [release]
delayed: kill -> dead
delayed: kill now -> dead
delayed: revive -> waiting
delayed: timeout -> waiting
delayed: failed -> delayed [release]
delayed: exit 1 -> delayed [release]
delayed: old exit -> delayed [release]
preparing: kill -> preparing, then die [cancel]
preparing: kill now -> preparing, then die [cancel]
preparing: revive -> preparing, then restart [cancel]
preparing: prepared -> starting [start]
preparing: cancelled -> delayed [release]
preparing: old exit -> preparing [release]
preparing, then die: prepared -> dead [release]
preparing, then die: cancelled -> dead [release]
preparing, then die: old exit -> preparing, then die [release]
starting: kill -> starting, then die
starting: kill now -> starting, then die
starting: revive -> starting, then restart
starting: started -> running
starting: failed -> delayed [release]
starting: exit 1 -> delayed [release]
starting: old exit -> starting [release]
starting, then die: started -> stopping, then die [stop]
starting, then die: failed -> dead [release]
starting, then die: exit 1 -> dead [release]
starting, then die: old exit -> starting, then die [release]
running: kill -> shutdown delay
running: kill now -> stopping, then die [stop]
running: restart -> stopping, then restart [stop]
running: revive -> stopping, then restart [stop]
running: signal -> running [signal]
running: exit 1 -> delayed [release]
running: old exit -> running [release]
shutdown delay: kill now -> stopping, then die [stop]
shutdown delay: signal -> shutdown delay [signal]
shutdown delay: timeout -> stopping, then die [stop]
shutdown delay: exit 1 -> dead [release]
shutdown delay: old exit -> shutdown delay [release]
stopping, then restart: kill -> stopping, then die
stopping, then restart: kill now -> stopping, then die
stopping, then restart: signal -> stopping, then restart [signal]
stopping, then restart: exit 1 -> waiting [release]
stopping, then restart: old exit -> stopping, then restart [release]
stopping, then die: signal -> stopping, then die [signal]
stopping, then die: exit 1 -> dead [release]
stopping, then die: old exit -> stopping, then die [release]
dead: revive -> waiting
dead: failed -> dead [release]
dead: exit 1 -> dead [release]
dead: old exit -> dead [release]
";

fn phases() -> Vec<Phase> {
    let die = AfterStop::Die(KillCause::AllocStopped);
    let until = at(5_000).moment;
    vec![
        Phase::Waiting,
        Phase::Delayed { until },
        Phase::Preparing { stop: None },
        Phase::Preparing { stop: Some(die) },
        Phase::Starting { stop: None },
        Phase::Starting { stop: Some(die) },
        Phase::Running,
        Phase::ShutdownDelay {
            until,
            cause: KillCause::AllocStopped,
        },
        Phase::Stopping {
            after: AfterStop::Restart,
        },
        Phase::Stopping { after: die },
        Phase::Dead,
    ]
}

fn after(stop: Option<AfterStop>) -> &'static str {
    match stop {
        None => "",
        Some(AfterStop::Restart) => ", then restart",
        Some(AfterStop::Die(_)) => ", then die",
    }
}

fn name(phase: Phase) -> String {
    match phase {
        Phase::Waiting => "waiting".to_owned(),
        Phase::Delayed { .. } => "delayed".to_owned(),
        Phase::Preparing { stop } => format!("preparing{}", after(stop)),
        Phase::Starting { stop } => format!("starting{}", after(stop)),
        Phase::Running => "running".to_owned(),
        Phase::ShutdownDelay { .. } => "shutdown delay".to_owned(),
        Phase::Stopping { after: wish } => format!("stopping{}", after(Some(wish))),
        Phase::Dead => "dead".to_owned(),
    }
}

fn short(effect: &Effect) -> Option<&'static str> {
    Some(match effect {
        Effect::Append(_) => return None,
        Effect::PrepareTask(_) => "prepare",
        Effect::CancelPrepare { .. } => "cancel",
        Effect::StartTask(_) => "start",
        Effect::StopTask { .. } => "stop",
        Effect::KillTask { .. } => "kill",
        Effect::SignalTask { .. } => "signal",
        Effect::FollowTemplates(_) => "follow",
        Effect::RenderTemplates(_) => "render",
        Effect::RunChangeScript(_) => "script",
        Effect::FollowIdentities(_) => "identities",
        Effect::ReleaseRun { .. } => "release",
        other => panic!("{other:?} is not asked for by a task"),
    })
}

#[test]
fn every_cell_of_phase_and_input_is_this() {
    let fixture = Fixture::new();
    let mut table = String::new();
    for phase in phases() {
        for (input_name, input) in INPUTS {
            let mut runner = fixture.runner(phase);
            let mut out = Outbox::default();
            input(&mut runner, fixture.ctx(), &mut out);
            let effects: Vec<&str> = std::iter::from_fn(|| out.pop())
                .filter_map(|issued| short(&issued.effect))
                .collect();
            if runner.phase() == phase && effects.is_empty() {
                continue;
            }
            let _ = write!(
                table,
                "{}: {input_name} -> {}",
                name(phase),
                name(runner.phase())
            );
            if !effects.is_empty() {
                let _ = write!(table, " [{}]", effects.join(" "));
            }
            table.push('\n');
        }
    }
    assert_eq!(table, TABLE);
}

#[test]
fn every_attempt_has_an_epoch_of_its_own_that_is_journaled_first() {
    let fixture = Fixture::new();
    let mut runner = TaskRunner::new(ID, "main", at(0));
    let mut out = Outbox::default();
    for epoch in 1..=2 {
        runner.start(fixture.ctx(), &mut out, at(0));
        let first = out.pop().expect("an effect").effect;
        let run = RunKey::new(ID, "main", RunEpoch(epoch));
        assert_eq!(
            first,
            Effect::Append(JournalRecord::Intent { run: run.clone() })
        );
        let Some(Effect::PrepareTask(prepare)) = out.pop().map(|issued| issued.effect) else {
            panic!("the preparation follows");
        };
        assert_eq!(prepare.run, run);
        let failure = RunEvent::PrepareFailed {
            hook: TaskHook::Logs,
            message: "no".to_owned(),
            recovery: Recovery::Possible,
        };
        runner.on_run_event(RunEpoch(epoch), failure, fixture.ctx(), &mut out, at(0));
        runner.on_timeout(fixture.ctx(), &mut out, at(2_000));
        while out.pop().is_some() {}
    }
}

#[test]
fn a_fetched_artifact_is_journaled_and_not_asked_for_again() {
    let mut job = crate::test_support::job_with_tasks("web", vec![task("main")]);
    job.task_groups[0].tasks[0].artifacts = vec![Artifact::default(), Artifact::default()];
    let fixture = Fixture::with(job);
    let mut runner = TaskRunner::new(ID, "main", at(0));
    let mut out = Outbox::default();
    let wanted = |runner: &mut TaskRunner, out: &mut Outbox| {
        runner.start(fixture.ctx(), out, at(0));
        let effects = std::iter::from_fn(|| out.pop()).map(|issued| issued.effect);
        let prepare = effects.filter_map(|effect| match effect {
            Effect::PrepareTask(prepare) => Some(prepare),
            _ => None,
        });
        let prepare = prepare.last().expect("a preparation");
        let offsets: Vec<usize> = prepare.artifacts.iter().map(|it| it.offset).collect();
        (prepare.hooks.contains(&TaskHook::Artifacts), offsets)
    };
    assert_eq!(wanted(&mut runner, &mut out), (true, vec![0, 1]));
    for (fetched, left) in [(1, (true, vec![0])), (0, (false, vec![]))] {
        let epoch = runner.epoch;
        let event = RunEvent::Fetched { artifact: fetched };
        runner.on_run_event(epoch, event, fixture.ctx(), &mut out, at(0));
        assert!(out.pop().is_some(), "it is journaled");
        assert!(runner.persisted().fetched.contains(&fetched));
        runner.phase = Phase::Waiting;
        assert_eq!(wanted(&mut runner, &mut out), left);
    }
}

#[test]
fn progress_takes_one_line_of_the_history() {
    let fixture = Fixture::new();
    let mut runner = fixture.runner(Phase::Preparing { stop: None });
    let mut out = Outbox::default();
    let kind = TaskEventKind::DownloadingArtifacts;
    let lines = |runner: &TaskRunner| -> Vec<String> {
        let events = runner.state.events.iter();
        events.map(|line| line.display_message.clone()).collect()
    };
    let before = lines(&runner).len();
    let message = "Client is downloading artifacts".to_owned();
    event(
        &mut runner,
        RunEvent::Message { kind, message },
        fixture.ctx(),
        &mut out,
    );
    for percent in [10, 20, 30] {
        let message = format!("{percent} %");
        event(
            &mut runner,
            RunEvent::Progress { kind, message },
            fixture.ctx(),
            &mut out,
        );
    }
    assert_eq!(
        lines(&runner)[before..],
        ["Client is downloading artifacts", "30 %"]
    );
}

#[test]
fn hooks_that_are_done_once_are_not_done_again() {
    let fixture = Fixture::new();
    let mut runner = TaskRunner::new(ID, "main", at(0));
    let mut out = Outbox::default();
    let mut hooks_of_start = |runner: &mut TaskRunner| {
        runner.start(fixture.ctx(), &mut out, at(0));
        std::iter::from_fn(|| out.pop()).find_map(|issued| match issued.effect {
            Effect::PrepareTask(prepare) => Some(prepare.hooks),
            _ => None,
        })
    };
    let first = hooks_of_start(&mut runner);
    assert_eq!(
        first,
        Some(vec![
            TaskHook::Validate,
            TaskHook::TaskDirectory,
            TaskHook::Logs,
            TaskHook::Api
        ])
    );
    let mut other = Outbox::default();
    event(
        &mut runner,
        RunEvent::Prepared {
            environment: std::collections::BTreeMap::new(),
        },
        fixture.ctx(),
        &mut other,
    );
    event(&mut runner, exit(1), fixture.ctx(), &mut other);
    runner.on_timeout(fixture.ctx(), &mut other, at(60_000));
    assert_eq!(
        hooks_of_start(&mut runner),
        Some(vec![TaskHook::Validate, TaskHook::Logs, TaskHook::Api])
    );
}

#[test]
fn a_task_is_as_old_as_its_newest_run() {
    let fixture = Fixture::new();
    let mut runner = fixture.runner(Phase::Starting { stop: None });
    let mut out = Outbox::default();
    let started = |at: i64| RunEvent::Started {
        pid: 7,
        at: UnixNanos(at),
    };
    event(&mut runner, started(100), fixture.ctx(), &mut out);
    event(&mut runner, exit(1), fixture.ctx(), &mut out);
    // While it waits to run again there is nothing newer to tell.
    assert_eq!(runner.state().started_at, Some(UnixNanos(100)));
    runner.phase = Phase::Starting { stop: None };
    event(&mut runner, started(200), fixture.ctx(), &mut out);
    assert_eq!(runner.state().started_at, Some(UnixNanos(200)));
}

#[test]
fn a_task_has_its_kill_timeout_but_no_longer_than_the_node_allows() {
    let mut fixture = Fixture::new();
    for (of_node, expected) in [(60, 40), (30, 30)] {
        fixture.settings.kill_timeout_max = Duration::from_secs(of_node);
        let mut job = job();
        job.task_groups[0].tasks[0].kill_timeout = Some(Duration::from_secs(40));
        let spec = AllocSpec::new(alloc_of(&job, ID), Arc::new(job)).expect("fits");
        fixture.spec = Arc::new(spec);
        let mut runner = fixture.runner(Phase::Running);
        let (mut out, cause) = (Outbox::default(), KillCause::AllocStopped);
        runner.kill(
            cause,
            ShutdownDelay::Skip,
            fixture.ctx(),
            &mut out,
            at(5_000),
        );
        let given = std::iter::from_fn(|| out.pop()).find_map(|issued| match issued.effect {
            Effect::StopTask { kill_after, .. } => Some(kill_after),
            _ => None,
        });
        assert_eq!(given, Some(Duration::from_secs(expected)));
    }
}
