//! Carrying out one effect so that it always comes back: a panic in it, and even the loss of its
//! task, becomes the outcome that the core waits for.
//!
//! ```text
//!   effect --> its own task --> events
//!                  | panicked
//!                  +--> directory, preparation: failed, with the text
//!                  +--> start: said, then killed; the end that follows is the outcome
//!                  +--> stop, kill, destroy: said, then tried again until it is done
//!                  `--> signal: said
//! ```
//!
//! An allocation that waits for ever for an answer is worse than one that failed: nobody looks at
//! it, and nothing replaces it.

use std::collections::BTreeSet;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt;
use noded_core::effect::{AllocHook, TaskHook};
use noded_core::event::{AllocEvent, Recovery, RunEvent, ScriptEnd};
use noded_core::{Effect, Event, RunKey};
use protocol_model::TaskEventKind;

/// Between two attempts of what must succeed.
pub(crate) const AGAIN: Duration = Duration::from_secs(5);

/// What is done when an effect panicked.
#[derive(Debug)]
enum Fallback {
    /// Its outcome is known.
    Tell(Vec<Event>),
    /// Something may run that nobody wants: it is killed, and its end is the outcome.
    Kill { run: RunKey },
    /// It must be done, however often it takes.
    Again(Effect),
}

/// Carries out an effect. Whatever happens, what the core waits for comes back. `pause` lies
/// between two attempts of what must succeed.
pub(crate) async fn carry_out<F>(
    effect: Effect,
    pause: Duration,
    run: impl Fn(Effect) -> F,
) -> Vec<Event>
where
    F: Future<Output = Vec<Event>>,
{
    let mut said = Vec::new();
    let mut effect = effect;
    loop {
        let attempt = effect.clone();
        // What a panic leaves behind is on the host, not in memory that we look at again.
        let done = AssertUnwindSafe(async { run(attempt).await })
            .catch_unwind()
            .await;
        let panic = match done {
            Ok(events) => {
                said.extend(events);
                return said;
            }
            Err(panic) => text_of(panic.as_ref()),
        };
        let message = format!("noded failed inside ({panic}); its log has more");
        tracing::error!(
            lane = ?effect.lane(), %panic,
            "an operation of this node panicked; it is retried or reported as failed"
        );
        match fallback(effect, &message) {
            Fallback::Tell(events) => {
                said.extend(events);
                return said;
            }
            Fallback::Kill { run } => {
                said.push(told(&run, TaskEventKind::DriverFailure, &message));
                effect = Effect::KillTask { run };
            }
            Fallback::Again(same) => {
                effect = same;
                tokio::time::sleep(pause).await;
            }
        }
    }
}

fn fallback(effect: Effect, message: &str) -> Fallback {
    let message_owned = || message.to_owned();
    match effect {
        Effect::PrepareAlloc { spec, hooks } => Fallback::Tell(vec![Event::Alloc {
            alloc: spec.id(),
            event: AllocEvent::PrepareFailed {
                hook: hooks.first().copied().unwrap_or(AllocHook::Directory),
                message: message_owned(),
            },
        }]),
        Effect::PrepareTask(prepare) => Fallback::Tell(vec![Event::Run {
            event: RunEvent::PrepareFailed {
                hook: prepare.hooks.first().copied().unwrap_or(TaskHook::Validate),
                message: message_owned(),
                recovery: Recovery::Possible,
            },
            run: prepare.run,
        }]),
        Effect::StartTask(start) => Fallback::Kill { run: start.run },
        // The next noded compares the files.
        Effect::FollowTemplates(work) => {
            Fallback::Tell(vec![told(&work.run, TaskEventKind::Template, message)])
        }
        Effect::RenderTemplates(work) => Fallback::Tell(vec![
            told(&work.run, TaskEventKind::Template, message),
            Event::Run {
                run: work.run,
                event: RunEvent::TemplatesRendered {
                    changed: BTreeSet::new(),
                },
            },
        ]),
        Effect::RunChangeScript(script) => Fallback::Tell(vec![Event::Run {
            run: script.run,
            event: RunEvent::ScriptEnded {
                offset: script.offset,
                end: ScriptEnd::Failed {
                    message: message_owned(),
                },
            },
        }]),
        // The next noded compares the files.
        Effect::FollowIdentities(work) => {
            Fallback::Tell(vec![told(&work.run, TaskEventKind::HookFailed, message)])
        }
        Effect::SignalTask { run, signal: _ } => {
            Fallback::Tell(vec![told(&run, TaskEventKind::Signaling, message)])
        }
        Effect::StopTask { .. } | Effect::KillTask { .. } | Effect::DestroyAlloc { .. } => {
            Fallback::Again(effect)
        }
        // Nothing waits for these.
        Effect::CancelPrepare { .. }
        | Effect::RetireAlloc { .. }
        | Effect::ReleaseRun { .. }
        | Effect::Append(_)
        | Effect::Connect { .. }
        | Effect::Disconnect { .. }
        | Effect::OpenWatch { .. }
        | Effect::TendLeases { .. }
        | Effect::Send { .. } => Fallback::Tell(Vec::new()),
    }
}

fn told(run: &RunKey, kind: TaskEventKind, message: &str) -> Event {
    Event::Run {
        run: run.clone(),
        event: RunEvent::Message {
            kind,
            message: message.to_owned(),
        },
    }
}

/// What a panic said; panics carry a text or nothing that can be shown.
fn text_of(panic: &(dyn std::any::Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a text".to_owned())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use noded_core::effect::{PrepareTask, StartTask, TaskNetwork};
    use noded_core::event::{Exit, ExitStatus};
    use noded_core::{AllocSpec, RunEpoch};
    use protocol_model::{AllocId, UnixNanos};

    use super::*;

    const ALLOC: AllocId = AllocId::from_u128(1);

    fn run_key() -> RunKey {
        RunKey::new(ALLOC, "main", RunEpoch(1))
    }

    fn spec() -> Arc<AllocSpec> {
        let job = serde_json::json!({
            "ID": "web", "TaskGroups": [{"Name": "group", "Tasks": [{"Name": "main"}]}],
        });
        let alloc = serde_json::json!({
            "ID": ALLOC, "Namespace": "default", "EvalID": uuid::Uuid::nil(),
            "Name": "web.group[0]", "NodeID": uuid::Uuid::nil(), "JobID": "web",
            "TaskGroup": "group", "SpecHash": protocol_model::SpecHash([1; 32]),
        });
        let job = serde_json::from_value(job).unwrap();
        let alloc = serde_json::from_value(alloc).unwrap();
        Arc::new(AllocSpec::new(alloc, Arc::new(job)).unwrap())
    }

    fn prepare() -> Effect {
        Effect::PrepareTask(Box::new(PrepareTask {
            identities: Vec::new(),
            run: run_key(),
            spec: spec(),
            user: String::new(),
            hooks: vec![TaskHook::Logs],
            environment: BTreeMap::new(),
            templates: Vec::new(),
            artifacts: Vec::new(),
            dispatch_payload_file: None,
        }))
    }

    fn start() -> Effect {
        Effect::StartTask(Box::new(StartTask {
            run: run_key(),
            spec: spec(),
            driver: "exec".to_owned(),
            config: serde_json::Map::new(),
            user: String::new(),
            environment: BTreeMap::new(),
            network: TaskNetwork::default(),
            volume_mounts: Vec::new(),
            identities: Vec::new(),
        }))
    }

    /// The answers to an effect of which the first `panics` attempts panic.
    async fn carried_out(effect: Effect, panics: u32) -> (Vec<Event>, Vec<Effect>) {
        let attempts = AtomicU32::new(0);
        let asked = std::sync::Mutex::new(Vec::new());
        let events = carry_out(effect, Duration::ZERO, |effect| {
            asked.lock().unwrap().push(effect.clone());
            let number = attempts.fetch_add(1, Ordering::Relaxed);
            async move {
                assert!(number >= panics, "boom {number}");
                match effect {
                    Effect::KillTask { run } => vec![Event::Run {
                        run,
                        event: RunEvent::Exited(Exit {
                            status: ExitStatus::Unknown,
                            oom_killed: false,
                            signal_discarded: false,
                            lease_expired: false,
                            at: UnixNanos(1),
                        }),
                    }],
                    Effect::DestroyAlloc { alloc } => vec![Event::Alloc {
                        alloc,
                        event: AllocEvent::Destroyed,
                    }],
                    _ => Vec::new(),
                }
            }
        })
        .await;
        (events, asked.into_inner().unwrap())
    }

    #[tokio::test]
    async fn a_directory_and_a_preparation_that_panic_have_failed_with_the_text() {
        let (events, _) = carried_out(
            Effect::PrepareAlloc {
                spec: spec(),
                hooks: vec![AllocHook::Directory],
            },
            1,
        )
        .await;
        let [
            Event::Alloc {
                alloc: ALLOC,
                event: AllocEvent::PrepareFailed { message, .. },
            },
        ] = events.as_slice()
        else {
            panic!("{events:?}");
        };
        assert!(message.contains("boom 0"), "{message}");
        let (events, _) = carried_out(prepare(), 1).await;
        let [
            Event::Run {
                event: RunEvent::PrepareFailed { message, hook, .. },
                ..
            },
        ] = events.as_slice()
        else {
            panic!("{events:?}");
        };
        assert_eq!((*hook, message.contains("boom 0")), (TaskHook::Logs, true));
    }

    #[tokio::test]
    async fn a_start_that_panics_is_killed_before_its_end_is_told() {
        let (events, asked) = carried_out(start(), 1).await;
        assert_eq!(asked[1], Effect::KillTask { run: run_key() });
        let told: Vec<&RunEvent> = events
            .iter()
            .map(|event| match event {
                Event::Run { event, .. } => event,
                other => panic!("{other:?}"),
            })
            .collect();
        assert!(
            matches!(
                told[..],
                [
                    RunEvent::Message {
                        kind: TaskEventKind::DriverFailure,
                        ..
                    },
                    RunEvent::Exited(_)
                ]
            ),
            "{told:?}"
        );
    }

    #[tokio::test]
    async fn what_must_be_done_is_tried_until_it_is() {
        let (events, asked) = carried_out(Effect::KillTask { run: run_key() }, 3).await;
        assert_eq!((events.len(), asked.len()), (1, 4));
        let (events, asked) = carried_out(Effect::DestroyAlloc { alloc: ALLOC }, 2).await;
        assert_eq!((events.len(), asked.len()), (1, 3));
    }

    #[tokio::test]
    async fn what_nobody_waits_for_may_be_lost() {
        let (events, asked) = carried_out(Effect::ReleaseRun { run: run_key() }, 1).await;
        assert_eq!((events.len(), asked.len()), (0, 1));
    }
}
