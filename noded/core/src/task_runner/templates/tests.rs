//! Changes of templates in virtual time: wait, splay, merge, action.

use std::sync::Arc;
use std::time::Duration;

use protocol_model::{
    AllocId, Node, NodeId, RestartPolicy, TaskEventKind, TaskRunState, Template, UnixNanos,
    WaitConfig,
};

use super::*;
use crate::alloc_resources::AllocResources;
use crate::alloc_spec::AllocSpec;
use crate::event::{Exit, ExitStatus};
use crate::key::RunEpoch;
use crate::settings::Settings;
use crate::task_runner::AfterStop;
use crate::test_support::{alloc_of, at, job_with_tasks, task};

const ID: AllocId = AllocId::from_u128(1);

fn template(change_mode: &str) -> Template {
    Template {
        change_mode: Some(change_mode.to_owned()),
        splay: Some(Duration::ZERO),
        wait: wait(Some(2), Some(6)),
        ..Template::default()
    }
}

fn wait(min: Option<u64>, max: Option<u64>) -> Option<WaitConfig> {
    Some(WaitConfig {
        min: min.map(Duration::from_secs),
        max: max.map(Duration::from_secs),
    })
}

fn script(fail_on_error: bool) -> Template {
    Template {
        change_script: Some(ChangeScript {
            command: Some("/local/${NOMAD_TASK_NAME}.sh".to_owned()),
            args: vec!["a".to_owned()],
            timeout: None,
            fail_on_error: Some(fail_on_error),
        }),
        ..template("script")
    }
}

fn signal(name: &str) -> Template {
    Template {
        change_signal: Some(name.to_owned()),
        ..template("signal")
    }
}

/// A running task with templates, and its effects.
struct Fixture {
    settings: Settings,
    node: Node,
    spec: Arc<AllocSpec>,
    resources: AllocResources,
    runner: TaskRunner,
    out: Outbox,
}

impl Fixture {
    fn new(templates: Vec<Template>) -> Self {
        Self::with(templates, RestartPolicy::default())
    }

    fn with(templates: Vec<Template>, policy: RestartPolicy) -> Self {
        let main = Task {
            templates,
            restart_policy: Some(policy),
            ..task("main")
        };
        let job = job_with_tasks("web", vec![main]);
        let alloc = alloc_of(&job, ID);
        let mut fixture = Self {
            settings: Settings::new("/data/alloc", [3; 16]),
            node: Node::new(NodeId::from_u128(1), "host", "dc1"),
            spec: Arc::new(AllocSpec::new(alloc, Arc::new(job)).expect("fits")),
            resources: AllocResources::default(),
            runner: TaskRunner::new(ID, "main", at(0)),
            out: Outbox::default(),
        };
        fixture.start(0);
        fixture
    }

    fn act(&mut self, act: impl FnOnce(&mut TaskRunner, RunContext<'_>, &mut Outbox)) {
        let ctx = RunContext {
            settings: &self.settings,
            node: &self.node,
            spec: &self.spec,
            resources: &self.resources,
        };
        act(&mut self.runner, ctx, &mut self.out);
    }

    fn tell(&mut self, event: RunEvent, now: u64) {
        let epoch = self.runner.epoch;
        self.act(|it, ctx, out| it.on_run_event(epoch, event, ctx, out, at(now)));
    }

    /// Begins an attempt; returns how it treats each template, and lets it run.
    fn start(&mut self, now: u64) -> Vec<Rendering> {
        self.act(|it, ctx, out| it.start(ctx, out, at(now)));
        let effects = self.effects().into_iter();
        let prepared = effects.filter_map(|effect| match effect {
            Effect::PrepareTask(prepare) => Some(prepare.templates),
            _ => None,
        });
        let rendering = prepared.flatten().map(|it| it.rendering).collect();
        let environment = std::collections::BTreeMap::new();
        self.tell(RunEvent::Prepared { environment }, now);
        let started = UnixNanos(1);
        self.tell(
            RunEvent::Started {
                pid: 9,
                at: started,
            },
            now,
        );
        rendering
    }

    fn end(&mut self, now: u64) {
        let exit = Exit {
            status: ExitStatus::Code(1),
            oom_killed: false,
            signal_discarded: false,
            lease_expired: false,
            at: at(now).wall,
        };
        self.tell(RunEvent::Exited(exit), now);
        self.effects();
    }

    fn change(&mut self, offsets: &[usize], now: u64) {
        let offsets = offsets.iter().copied().collect();
        self.tell(RunEvent::TemplatesChanged { offsets }, now);
    }

    fn rendered(&mut self, changed: &[usize], now: u64) {
        let changed = changed.iter().copied().collect();
        self.tell(RunEvent::TemplatesRendered { changed }, now);
    }

    fn effects(&mut self) -> Vec<Effect> {
        let issued = std::iter::from_fn(|| self.out.pop());
        issued
            .map(|issued| issued.effect)
            .filter(|effect| !matches!(effect, Effect::Append(_)))
            .collect()
    }

    /// Lets time pass until `until`; returns when which templates were rendered.
    fn renderings(&mut self, until: u64) -> Vec<(u64, Vec<usize>)> {
        let mut renderings = Vec::new();
        while let Some(due) = self.runner.poll_timeout() {
            let now = u64::try_from(due.0.as_nanos().div_ceil(1_000_000)).expect("soon");
            if now > until {
                break;
            }
            self.act(|it, ctx, out| it.on_timeout(ctx, out, at(now)));
            for effect in self.effects() {
                if let Effect::RenderTemplates(work) = effect {
                    let anew = work.templates.iter();
                    let anew = anew.filter(|it| it.rendering == Rendering::Anew);
                    renderings.push((now, anew.map(|it| it.offset).collect()));
                    self.rendered(&[], now);
                }
            }
        }
        renderings
    }

    /// The effects of a rendering in which these texts changed.
    fn acted(&mut self, changed: &[usize]) -> Vec<String> {
        self.change(changed, 0);
        self.act(|it, ctx, out| it.on_timeout(ctx, out, at(10_000)));
        self.effects();
        self.rendered(changed, 10_000);
        let effects = self.effects().into_iter();
        let named = effects.map(|effect| match effect {
            Effect::StopTask { .. } => "stop".to_owned(),
            Effect::SignalTask { signal, .. } => signal,
            Effect::RunChangeScript(run) => format!("{} {}", run.command, run.args.join(" ")),
            other => format!("{other:?}"),
        });
        named.collect()
    }

    fn last_event(&self) -> (TaskEventKind, String) {
        let last = self.runner.state().events.last().expect("an event");
        (last.kind, last.display_message.clone())
    }
}

#[test]
fn changes_are_rendered_after_the_shortest_quiet_wait() {
    let mut task = Fixture::new(vec![template("noop")]);
    task.change(&[0], 1_000);
    assert_eq!(task.renderings(60_000), [(3_000, vec![0])]);
    assert_eq!(task.renderings(600_000), [], "once");
}

#[test]
fn changes_that_go_on_are_rendered_after_the_longest_wait() {
    let mut task = Fixture::new(vec![template("noop")]);
    let mut found = Vec::new();
    for second in 0..8 {
        task.change(&[0], second * 1_000);
        found.extend(task.renderings(second * 1_000 + 999));
    }
    // The seventh is a new first one.
    assert_eq!(found, [(6_000, vec![0])]);
    assert_eq!(task.renderings(60_000), [(9_000, vec![0])]);
}

#[test]
fn the_waits_of_a_job_have_the_defaults_of_nomad() {
    for (given, first, longest) in [
        (None, 5, 240),
        (wait(None, None), 5, 240),
        (wait(Some(10), None), 10, 40),
        (wait(None, Some(3)), 3, 3),
        (wait(Some(1), Some(2)), 1, 2),
        (wait(Some(0), Some(0)), 0, 0),
    ] {
        let with = |wait: Option<WaitConfig>| Template {
            wait,
            ..template("noop")
        };
        let mut task = Fixture::new(vec![with(given.clone())]);
        task.change(&[0], 0);
        assert_eq!(task.renderings(600_000), [(first * 1_000, vec![0])]);
        let mut task = Fixture::new(vec![with(given)]);
        let mut now = 0;
        while now <= longest * 1_000 && task.renderings(now).is_empty() {
            task.change(&[0], now);
            now += 500;
        }
        let rendered = now.saturating_sub(1_000)..=now;
        assert!(rendered.contains(&(longest * 1_000)), "{longest}: {now}");
    }
}

#[test]
fn splay_is_one_delay_for_all_that_are_acted_upon_and_none_for_noop() {
    let slow = |mode: &str, secs| Template {
        splay: Some(Duration::from_secs(secs)),
        ..template(mode)
    };
    let templates = vec![slow("restart", 5), slow("restart", 50), slow("noop", 500)];
    let mut delays = std::collections::BTreeSet::new();
    for seed in 0..20 {
        let mut task = Fixture::new(templates.clone());
        task.settings.seed = [seed; 16];
        task.change(&[0, 1, 2], 0);
        let found = task.renderings(600_000);
        assert_eq!(found[0], (2_000, vec![2]), "noop is not delayed");
        let (acted, offsets) = found[1].clone();
        assert_eq!(offsets, [0, 1], "together");
        assert!((2_000..52_000).contains(&acted), "{acted}");
        delays.insert(acted);
    }
    assert!(delays.len() > 15, "{delays:?}");
    assert!(delays.iter().any(|at| *at > 7_000), "the longest counts");
}

#[test]
fn a_change_during_a_rendering_waits_for_its_answer() {
    let mut task = Fixture::new(vec![template("noop"), template("noop")]);
    task.effects();
    task.change(&[0], 0);
    task.act(|it, ctx, out| it.on_timeout(ctx, out, at(2_000)));
    assert_eq!(task.effects().len(), 1);
    task.change(&[1], 2_000);
    task.act(|it, ctx, out| it.on_timeout(ctx, out, at(4_000)));
    assert_eq!(task.effects(), []);
    task.rendered(&[0], 4_500);
    assert!(matches!(
        task.effects()[..],
        [Effect::RenderTemplates(ref work)] if work.templates[1].rendering == Rendering::Anew
    ));
}

#[test]
fn changes_together_have_one_merged_action() {
    let all = || {
        vec![
            template("restart"),
            signal("SIGHUP"),
            signal("SIGUSR1"),
            signal("SIGHUP"),
            script(false),
            template("noop"),
            Template {
                change_mode: None,
                ..template("noop")
            },
        ]
    };
    let expected: [(&[usize], &[&str]); 9] = [
        (&[], &[]),
        (&[5], &[]),
        (&[0], &["stop"]),
        (&[6], &["stop"]),
        (&[1], &["SIGHUP"]),
        (&[1, 2, 3], &["SIGHUP", "SIGUSR1"]),
        (&[4], &["/local/main.sh a"]),
        (&[1, 4, 5], &["/local/main.sh a", "SIGHUP"]),
        (&[0, 1, 2, 3, 4, 5, 6], &["stop"]),
    ];
    for (changed, actions) in expected {
        let mut task = Fixture::new(all());
        assert_eq!(task.acted(changed), actions, "{changed:?}");
    }
}

#[test]
fn a_restart_is_an_event_and_not_counted_by_the_policy() {
    let mut task = Fixture::with(
        vec![template("restart")],
        RestartPolicy {
            attempts: Some(0),
            ..RestartPolicy::default()
        },
    );
    task.acted(&[0]);
    let events = &task.runner.state().events;
    let (kind, text) = (TaskEventKind::RestartSignaled, RESTART_REASON);
    assert!(
        events
            .iter()
            .any(|it| it.kind == kind && it.display_message == text)
    );
    task.end(11_000);
    assert_eq!(task.runner.phase(), Phase::Waiting);
    assert_eq!(task.start(11_000), [Rendering::Kept]);
    assert_eq!(task.runner.state().state, TaskRunState::Running);
}

#[test]
fn a_signal_is_an_event_with_the_words_of_nomad() {
    let mut task = Fixture::new(vec![signal("SIGUSR1")]);
    task.acted(&[0]);
    let expected = (TaskEventKind::Signaling, "Template re-rendered".to_owned());
    assert_eq!(task.last_event(), expected);
}

#[test]
fn a_task_that_does_not_run_is_passed_over() {
    let mut task = Fixture::new(vec![signal("SIGUSR1")]);
    task.change(&[0], 0);
    task.act(|it, ctx, out| it.on_timeout(ctx, out, at(2_000)));
    task.act(|it, ctx, out| {
        let (cause, delay) = (KillCause::AllocStopped, ShutdownDelay::Skip);
        it.kill(cause, delay, ctx, out, at(2_000));
    });
    task.effects();
    task.rendered(&[0], 2_000);
    assert_eq!(task.effects(), []);
}

#[test]
fn an_answer_that_was_not_asked_for_causes_nothing() {
    let mut task = Fixture::new(vec![template("restart")]);
    task.effects();
    task.rendered(&[0], 2_000);
    assert_eq!(task.effects(), []);
}

#[test]
fn scripts_end_with_an_event_and_kill_where_the_job_says_so() {
    let failed = || ScriptEnd::Failed {
        message: "no such file".to_owned(),
    };
    let exited = |code| ScriptEnd::Exited { code };
    use TaskEventKind::{HookFailed, HookMessage};
    for (fail_on_error, end, kind, says, dies) in [
        (true, exited(0), HookMessage, "exit code 0", false),
        (false, exited(3), HookFailed, "exit code 3", false),
        (true, exited(3), HookFailed, "exit code 3", true),
        (false, failed(), HookFailed, "no such file", false),
        (true, failed(), HookFailed, "no such file", true),
    ] {
        let mut task = Fixture::new(vec![script(fail_on_error)]);
        task.acted(&[0]);
        task.tell(RunEvent::ScriptEnded { offset: 0, end }, 11_000);
        let events = task.runner.state().events.iter();
        let found = events.clone().find(|it| it.kind == kind).expect("an event");
        let text = &found.display_message;
        assert!(
            text.contains("script /local/main.sh with arguments [a]"),
            "{text}"
        );
        assert!(text.contains(says), "{text}");
        let after = AfterStop::Die(KillCause::ChangeScriptFailed);
        assert_eq!(task.runner.phase() == Phase::Stopping { after }, dies);
        if dies {
            task.end(12_000);
            assert!(task.runner.state().failed);
        }
    }
}

#[test]
fn a_script_runs_once_more_for_all_changes_while_it_runs() {
    let scripts = |task: &mut Fixture| {
        let effects = task.effects().into_iter();
        let scripts = effects.filter(|effect| matches!(effect, Effect::RunChangeScript(_)));
        scripts.count()
    };
    let mut task = Fixture::new(vec![script(false)]);
    let end = ScriptEnd::Exited { code: 0 };
    let ended = || RunEvent::ScriptEnded {
        offset: 0,
        end: end.clone(),
    };
    let change = |task: &mut Fixture| {
        task.change(&[0], 0);
        task.act(|it, ctx, out| it.on_timeout(ctx, out, at(400_000)));
        task.effects();
        task.rendered(&[0], 400_000);
        scripts(task)
    };
    assert_eq!([(); 3].map(|()| change(&mut task)), [1, 0, 0]);
    task.tell(ended(), 401_000);
    assert_eq!(scripts(&mut task), 1);
    task.tell(ended(), 402_000);
    assert_eq!(scripts(&mut task), 0);
}

#[test]
fn templates_rendered_once_are_not_followed() {
    let once = Template {
        once: Some(true),
        ..template("restart")
    };
    let mut task = Fixture::new(vec![once.clone()]);
    assert_eq!(task.effects().len(), 1, "only the start");
    task.change(&[0], 0);
    assert_eq!(task.renderings(600_000), []);
    let mut task = Fixture::new(vec![once, template("restart")]);
    assert!(matches!(
        task.effects()[..],
        [_, Effect::FollowTemplates(_)]
    ));
}

#[test]
fn a_restart_keeps_the_files_unless_the_job_says_otherwise() {
    use Rendering::{Anew, Kept};
    let policy = |render_templates| RestartPolicy {
        attempts: Some(5),
        delay: Some(Duration::ZERO),
        interval: Some(Duration::from_secs(600)),
        mode: Some("fail".to_owned()),
        render_templates,
    };
    for (render_templates, second) in [(None, Kept), (Some(false), Kept), (Some(true), Anew)] {
        let templates = vec![template("restart"), template("noop")];
        let mut task = Fixture::with(templates, policy(render_templates));
        task.end(1_000);
        assert_eq!(task.start(1_000), [second, second]);
    }
}

#[test]
fn the_first_attempt_of_a_daemon_renders_and_so_does_a_revived_task() {
    use Rendering::{Anew, Kept};
    let mut task = Fixture::new(vec![template("restart")]);
    let persisted = task.runner.persisted();
    task.end(1_000);
    task.act(|it, ctx, out| it.revive("asked", ctx, out, at(2_000)));
    assert_eq!(task.start(2_000), [Anew]);
    task.end(3_000);
    task.runner.phase = Phase::Waiting;
    assert_eq!(task.start(3_000), [Kept]);
    let persisted = super::super::PersistedTask {
        state: protocol_model::TaskState::default(),
        ..persisted
    };
    task.runner = TaskRunner::from_persisted(ID, "main", persisted);
    assert_eq!(task.start(4_000), [Anew]);
}

#[test]
fn a_change_that_is_waited_out_is_rendered_by_a_restart() {
    use Rendering::{Anew, Kept};
    let mut task = Fixture::new(vec![template("restart"), template("restart")]);
    task.change(&[1], 500);
    task.act(|it, ctx, out| {
        it.restart("asked", ctx, out, at(1_000)).expect("it runs");
    });
    task.end(1_500);
    assert_eq!(task.start(1_500), [Kept, Anew]);
    assert_eq!(task.runner.poll_timeout(), None, "nothing is left to do");
}

#[test]
fn changes_of_an_earlier_run_count_for_nothing() {
    let mut task = Fixture::new(vec![template("restart")]);
    let offsets = std::iter::once(0).collect();
    let event = RunEvent::TemplatesChanged { offsets };
    task.act(|it, ctx, out| it.on_run_event(RunEpoch(0), event, ctx, out, at(0)));
    assert_eq!(task.renderings(600_000), []);
}
