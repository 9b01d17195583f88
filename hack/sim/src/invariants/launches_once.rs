//! A periodic job is launched when its time comes, each time at most once, and where it prohibits
//! overlap never beside a launch that is not over.

use std::collections::BTreeMap;

use controlplane_state::command::Launch;
use controlplane_state::{Command, LaunchResult, Outcome, Snapshot};
use protocol_model::{JobKey, UnixNanos};

use super::{Invariant, Observation};
use crate::time::{Nanos, SECOND, nanos, wall};
use crate::world::World;

/// How late a launch may be under one leader: it looks each second, waits a second after a failure,
/// and servers and logs may be slow.
const MARGIN: Nanos = 15 * SECOND;

/// The newest time that was launched, by job.
#[derive(Debug, Default)]
pub(super) struct LaunchesOnce {
    newest: BTreeMap<JobKey, UnixNanos>,
}

impl Invariant for LaunchesOnce {
    fn name(&self) -> &'static str {
        "launches_once"
    }

    fn source(&self) -> &'static str {
        "job files, Periodic jobs: no time is launched twice, the newest missed one once"
    }

    fn on(&mut self, seen: &Observation<'_>, world: &World) -> Result<(), String> {
        match seen {
            Observation::Applied {
                before,
                command: Command::PeriodicLaunch(command),
                applied,
                ..
            } => {
                let Outcome::PeriodicLaunched(results) = &applied.outcome else {
                    return Err(format!("launches were answered {:?}", applied.outcome));
                };
                let results = command.launches.iter().zip(results);
                for (launch, result) in results {
                    if let LaunchResult::Launched(_) = result {
                        self.launched(before, launch)?;
                    }
                }
                Ok(())
            }
            Observation::Second => overdue(world),
            _ => Ok(()),
        }
    }
}

impl LaunchesOnce {
    fn launched(&mut self, before: &Snapshot, launch: &Launch) -> Result<(), String> {
        let parent = launch.child.parent();
        let child = &launch.child.job.id;
        let newest = self.newest.get(&parent).copied();
        if newest.is_some_and(|newest| launch.at <= newest) {
            return Err(format!("{child} was launched after {newest:?}"));
        }
        self.newest.insert(parent.clone(), launch.at);
        let Some(template) = before.job(&parent) else {
            return Err(format!("{child} was launched without its parent"));
        };
        if !template.launches_by_time() {
            return Err(format!("{child} was launched, and its parent is stopped"));
        }
        let alone = template
            .periodic
            .as_ref()
            .is_some_and(|it| it.prohibit_overlap);
        let mut others = before.jobs_with_prefix(&parent.namespace, &format!("{}/", parent.id));
        let beside = others.find(|(key, _)| {
            let tally = before.job_tally(key);
            tally.is_some_and(|it| it.allocs_live > 0 || it.evals_live > 0)
        });
        match beside.filter(|_| alone) {
            Some((other, _)) => Err(format!("{child} was launched beside {other}")),
            None => Ok(()),
        }
    }
}

/// Whether a time has come and was neither launched nor skipped.
fn overdue(world: &World) -> Result<(), String> {
    let margin = MARGIN + world.clocks_apart();
    if world.led_for() < margin || world.graced_for() < margin {
        return Ok(());
    }
    let latest = UnixNanos(wall(world.now, 0).0 - i64::try_from(margin).unwrap_or(0));
    for (key, job) in world.state().jobs() {
        let Some(periodic) = job.periodic.as_ref().filter(|_| job.launches_by_time()) else {
            continue;
        };
        let last = world.state().last_launch(key).unwrap_or(UnixNanos::ZERO);
        let next = periodic.schedule().ok().and_then(|it| it.next(last));
        if let Some(next) = next.filter(|next| *next < latest) {
            let late = nanos(latest.saturating_since(next)) / SECOND;
            return Err(format!("{key} was due {late} s and more ago"));
        }
    }
    Ok(())
}
