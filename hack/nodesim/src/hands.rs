//! What a simulated node does on its host: nothing, but it answers as if it had.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::BoxFuture;
use noded_core::effect::{StartTask, TaskHook};
use noded_core::event::{AllocEvent, LeasesAnswer, Recovery, RunEvent};
use noded_core::{AllocResources, Effect, Event, Moment};
use noded_daemon::config::DriverSettings;
use noded_daemon::drivers::{self, Checked, DriverError, MockConfig, StartFailed};
use noded_daemon::hands::Hands;
use noded_daemon::identities::{IdentityService, ObtainError};
use noded_daemon::upkeep::DiskUse;
use protocol_model::{AllocId, Node};
use tokio_util::sync::CancellationToken;

use crate::tasks::{Manners, Script, Tasks};

/// See the top of this file.
#[derive(Debug)]
pub struct IdleHands {
    /// The node's tasks.
    pub tasks: Arc<Tasks>,
    /// How they behave where their jobs do not say.
    pub manners: Manners,
    /// The identities of its tasks.
    pub identities: Arc<IdentityService>,
}

impl IdleHands {
    /// Does what an effect says of identities; hands back the rest.
    async fn identify(
        &self,
        effect: Effect,
        cancel: &CancellationToken,
    ) -> Result<Effect, Vec<Event>> {
        match &effect {
            Effect::PrepareTask(task) if task.hooks.contains(&TaskHook::Identity) => {
                let obtained = self.identities.obtain(task, cancel).await;
                if let Err(error) = obtained {
                    let event = RunEvent::PrepareFailed {
                        hook: TaskHook::Identity,
                        message: error.to_string(),
                        recovery: match error {
                            ObtainError::Cancelled => Recovery::Cancelled,
                            ObtainError::TimedOut { .. } | ObtainError::Rejected { .. } => {
                                Recovery::Possible
                            }
                        },
                    };
                    let run = task.run.clone();
                    return Err(vec![Event::Run { run, event }]);
                }
            }
            Effect::FollowIdentities(task) => self.identities.follow(Arc::new((**task).clone())),
            Effect::ReleaseRun { run } => self.identities.pause(run),
            Effect::RetireAlloc { alloc } | Effect::DestroyAlloc { alloc } => {
                self.identities.forget(*alloc).await;
            }
            _ => {}
        }
        Ok(effect)
    }

    /// The events that answer an effect at once. `StartTask` is answered by the task itself.
    fn answer(&self, effect: Effect) -> Vec<Event> {
        match effect {
            Effect::PrepareAlloc { spec, .. } => vec![Event::Alloc {
                alloc: spec.id(),
                event: AllocEvent::Prepared {
                    resources: AllocResources::default(),
                },
            }],
            Effect::DestroyAlloc { alloc } => vec![Event::Alloc {
                alloc,
                event: AllocEvent::Destroyed,
            }],
            Effect::PrepareTask(task) => vec![Event::Run {
                run: task.run,
                event: RunEvent::Prepared {
                    environment: BTreeMap::new(),
                },
            }],
            Effect::StartTask(task) => self.start(*task),
            Effect::StopTask { run, .. } => self.tasks.stop(run),
            Effect::KillTask { run } => self.tasks.kill(run),
            Effect::ReleaseRun { run } => {
                self.tasks.release(&run);
                Vec::new()
            }
            Effect::RetireAlloc { .. }
            | Effect::CancelPrepare { .. }
            | Effect::SignalTask { .. }
            | Effect::FollowTemplates(_)
            | Effect::RenderTemplates(_)
            | Effect::FollowIdentities(_)
            | Effect::RunChangeScript(_)
            | Effect::Append(_)
            | Effect::Connect { .. }
            | Effect::Disconnect { .. }
            | Effect::OpenWatch { .. }
            | Effect::TendLeases { .. }
            | Effect::Send { .. } => Vec::new(),
        }
    }

    fn start(&self, task: StartTask) -> Vec<Event> {
        let script = if self.tasks.lease_is_over(task.run.alloc) {
            let message = "the lease has run out".to_owned();
            Err(failed(message, Recovery::Possible))
        } else {
            self.script(&task)
        };
        match script {
            Ok(script) => {
                self.tasks.start(task.run, script);
                Vec::new()
            }
            Err(event) => vec![Event::Run {
                run: task.run,
                event,
            }],
        }
    }

    /// What a task will do: `mock_driver` says it in the job, others run until they are ended.
    fn script(&self, task: &StartTask) -> Result<Script, RunEvent> {
        let Some(mock) = mock_of(task).map_err(StartFailed::from)? else {
            return Ok(Script {
                start_after: self.manners.start_delay,
                run_for: None,
                exit_code: 0,
                stop_after: self.manners.stop_delay,
            });
        };
        if let Some(message) = mock.start_error {
            let recovery = if mock.start_error_recoverable {
                Recovery::Possible
            } else {
                Recovery::Hopeless
            };
            return Err(failed(message, recovery));
        }
        Ok(Script {
            start_after: self.manners.start_delay + mock.start_block_for,
            run_for: mock.run_for,
            exit_code: mock.exit_code,
            stop_after: self.manners.stop_delay + mock.kill_after,
        })
    }
}

impl Hands for IdleHands {
    fn carry_out(
        self: Arc<Self>,
        effect: Effect,
        cancel: CancellationToken,
    ) -> BoxFuture<'static, Vec<Event>> {
        Box::pin(async move {
            match self.identify(effect, &cancel).await {
                Ok(effect) => self.answer(effect),
                Err(events) => events,
            }
        })
    }

    fn tend_leases(
        &self,
        extend: Vec<(AllocId, Moment)>,
        end: Vec<AllocId>,
    ) -> BoxFuture<'_, Option<LeasesAnswer>> {
        self.tasks.tend_leases(extend, &end);
        Box::pin(async { Some(LeasesAnswer::Done) })
    }

    fn on_facts(&self, _before: &Node, _now: &Node) {}

    fn is_too_full(&self, _measured: DiskUse) -> bool {
        false
    }
}

/// What the job says of a task of `mock_driver`; `None` = it is another driver's.
fn mock_of(task: &StartTask) -> Result<Option<MockConfig>, DriverError> {
    let driver = drivers::find(&task.driver);
    let driver = driver.ok_or_else(|| DriverError::Unavailable(task.driver.clone()))?;
    match DriverSettings::unset(driver).check(&task.config)? {
        Checked::Sandboxed(_) => Ok(None),
        Checked::Own => MockConfig::parse(&task.config).map(Some),
    }
}

fn failed(message: String, recovery: Recovery) -> RunEvent {
    RunEvent::StartFailed { message, recovery }
}
