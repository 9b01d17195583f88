//! A new version that is tried first: canaries run beside the older version until somebody promotes
//! them.
//!
//! ```text
//!   destructive change, update.canary > 0 --> trial
//!   trial     older: stays, is replaced in the older version, follows the count
//!             canaries: as many as are wanted, of the new version, numbers from the lowest
//!   promoted  one side again: of two with one number the older stops, then max_parallel
//!   failed    withdrawn: canaries stop, the older version stays as it is
//! ```
//!
//! Each side is reconciled alone, with the same rules as a group without canaries. Canaries of a
//! deployment that is over, or of an older version, stop in every state.
//!
//! While it is another region's turn, the older version stands alone, as after a failed trial.

use std::sync::Arc;

use controlplane_state::Snapshot;
use protocol_model::{
    Allocation, ClientStatus, DeploymentId, DeploymentStatus, Job, SpecHash, TaskGroup,
};

use super::condition::Taint;
use super::group::{Kind, Side, side};
use super::{Buckets, Difference, NOT_NEEDED, Subject, difference_of};
use crate::place::Staying;
use crate::rollout::Rollout;

/// An older version of a job, which placements are made in.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Older {
    pub(crate) job: Arc<Job>,
    pub(crate) spec: SpecHash,
}

/// How far the trial of a group is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// There is none, or it was promoted.
    Whole,
    /// So many canaries are wanted, of this deployment if it began already.
    Trial(u32, Option<DeploymentId>),
    /// It failed: the older version stays.
    Withdrawn,
}

/// Sorts the group's allocations and says what is missing.
pub(crate) fn group(
    subject: &Subject<'_>,
    existing: &[Arc<Allocation>],
    rollout: &Rollout,
    staying: &mut Staying<'_, '_>,
) -> Buckets {
    let count = subject.group.count();
    let phase = phase(subject, existing, rollout, staying);
    let withheld = rollout.is_withheld();
    if phase == Phase::Whole && !withheld && !existing.iter().any(|alloc| is_canary(alloc)) {
        let whole = Side::new(Kind::Whole, count);
        return side(subject, existing, rollout, &whole, staying);
    }
    let canaries: Vec<_> = existing
        .iter()
        .filter(|it| is_canary(it))
        .cloned()
        .collect();
    let others: Vec<_> = existing
        .iter()
        .filter(|it| !is_canary(it))
        .cloned()
        .collect();
    let present = |alloc: &Arc<Allocation>| match phase {
        Phase::Trial(_, Some(id)) => alloc.deployment_id == Some(id),
        Phase::Trial(_, None) | Phase::Whole | Phase::Withdrawn => false,
    };
    let (present, stale): (Vec<_>, Vec<_>) = canaries.into_iter().partition(present);
    let mut buckets = match phase {
        Phase::Whole if !withheld => {
            let whole = Side::new(Kind::Whole, count);
            side(subject, &others, rollout, &whole, staying)
        }
        Phase::Trial(wanted, _) if withheld => {
            let mut buckets = older(subject, &others, rollout, staying);
            buckets.canaries = Some(wanted);
            buckets
        }
        Phase::Whole | Phase::Withdrawn => older(subject, &others, rollout, staying),
        Phase::Trial(wanted, _) => {
            let mut buckets = older(subject, &others, rollout, staying);
            let mut trial = Side::new(Kind::Canaries, wanted);
            trial.numbers = numbers_to_replace(count, &others);
            let mut new = side(subject, &present, rollout, &trial, staying);
            for wanted in &mut new.place {
                wanted.canary = true;
            }
            buckets.merge(new);
            buckets.canaries = Some(wanted);
            buckets
        }
    };
    for alloc in stale {
        withdraw(subject, alloc, &mut buckets, staying);
    }
    buckets
}

/// Whether an allocation is a canary that was not promoted.
fn is_canary(alloc: &Allocation) -> bool {
    let status = alloc.deployment_status.as_ref();
    status.is_some_and(|status| status.canary)
}

fn phase(
    subject: &Subject<'_>,
    existing: &[Arc<Allocation>],
    rollout: &Rollout,
    staying: &mut Staying<'_, '_>,
) -> Phase {
    let Subject {
        snapshot,
        job,
        group,
        ..
    } = *subject;
    let known = rollout.current().map(|current| current.id);
    let decided = rollout.current().filter(|it| !it.lacks_groups());
    if let Some(current) = decided {
        let waits = current.task_groups.get(&group.name);
        let waits = waits.filter(|group| group.awaits_promotion());
        return match (waits, current.status) {
            (None, _) | (Some(_), DeploymentStatus::Successful) => Phase::Whole,
            (Some(_), DeploymentStatus::Failed | DeploymentStatus::Cancelled) => Phase::Withdrawn,
            (Some(group), _) => Phase::Trial(group.desired_canaries, Some(current.id)),
        };
    }
    let wanted = rollout.canaries_wanted(job, group);
    if wanted == 0 || group.count() == 0 {
        return Phase::Whole;
    }
    let is_replaced = |alloc: &Arc<Allocation>| match difference_of(snapshot, job, alloc) {
        None => false,
        Some(Difference::Destructive) => true,
        Some(Difference::InPlace) => !alloc.terminal() && !staying.may_stay(alloc),
    };
    let of_job =
        |alloc: &&Arc<Allocation>| !is_canary(alloc) && alloc.job_create_index == job.create_index;
    let newest = existing.iter().filter(of_job).map(|it| it.job_version);
    let newest = newest.max();
    // A failed one stands for the version that ran last as long as nothing took its place: it is
    // tried again in that version, and the new one is likely to be what mends it.
    let fails = |alloc: &Allocation| {
        !alloc.server_terminal()
            && alloc.client_status != ClientStatus::Lost
            && alloc.next_allocation.is_none()
            && Some(alloc.job_version) == newest
    };
    let stands = |alloc: &&Arc<Allocation>| of_job(alloc) && (!alloc.terminal() || fails(alloc));
    if existing.iter().filter(stands).any(is_replaced) {
        Phase::Trial(wanted, known)
    } else {
        Phase::Whole
    }
}

/// The older side: it stays, and what is missing of it is placed in an older version.
fn older(
    subject: &Subject<'_>,
    existing: &[Arc<Allocation>],
    rollout: &Rollout,
    staying: &mut Staying<'_, '_>,
) -> Buckets {
    let base = base(subject, existing);
    let subject_of_base = match &base {
        Some((older, group)) => Subject {
            job: &older.job,
            group,
            ..*subject
        },
        None => *subject,
    };
    let stays = Side::new(Kind::Older, subject.group.count());
    let mut buckets = side(&subject_of_base, existing, rollout, &stays, staying);
    let name = &subject.group.name;
    for wanted in &mut buckets.place {
        let own = wanted.previous.as_deref();
        let own = own.and_then(|previous| version_of(subject.snapshot, previous));
        let own = own.filter(|older| older.job.task_group(name).is_some());
        wanted.older = own.or_else(|| base.as_ref().map(|(older, _)| older.clone()));
    }
    if rollout.is_withheld() {
        buckets.place.retain(|wanted| wanted.older.is_some());
    }
    buckets
}

/// The version that stands for the older side: the newest of those that run, else the newest that
/// was promoted or needed no promotion. Nothing where there is none: then it is the new one.
fn base(subject: &Subject<'_>, existing: &[Arc<Allocation>]) -> Option<(Older, TaskGroup)> {
    let Subject {
        snapshot,
        job,
        group,
        ..
    } = *subject;
    let of_job = |alloc: &&Arc<Allocation>| {
        alloc.job_create_index == job.create_index && alloc.job_version < job.version
    };
    let standing = existing.iter().filter(of_job).filter(|it| !it.terminal());
    let newest = standing.max_by_key(|alloc| (alloc.job_version, alloc.create_index));
    let older = newest.and_then(|alloc| version_of(snapshot, alloc));
    let older = older.or_else(|| last_promoted(subject));
    let older = older.or_else(|| {
        let known = existing.iter().filter(of_job);
        let newest = known.max_by_key(|alloc| (alloc.job_version, alloc.create_index));
        newest.and_then(|alloc| version_of(snapshot, alloc))
    })?;
    let group = older.job.task_group(&group.name)?.clone();
    Some((older, group))
}

fn last_promoted(subject: &Subject<'_>) -> Option<Older> {
    let Subject {
        snapshot,
        job,
        group,
        ..
    } = *subject;
    let key = job.key();
    let before = snapshot.deployments_by_job(&key).filter(|deployment| {
        let state = deployment.task_groups.get(&group.name);
        deployment.job_create_index == job.create_index
            && deployment.job_version < job.version
            && state.is_some_and(|state| !state.awaits_promotion())
    });
    let newest = before.max_by_key(|deployment| deployment.job_version)?;
    let older = snapshot.job_version(&key, newest.job_version)?;
    let spec = older.spec_hash();
    snapshot.spec(spec).is_some().then(|| Older {
        job: Arc::clone(older),
        spec,
    })
}

fn version_of(snapshot: &Snapshot, alloc: &Allocation) -> Option<Older> {
    let job = snapshot.job_of_alloc(alloc)?;
    let spec = alloc.spec;
    Some(Older { job, spec })
}

/// The numbers that canaries take first: those of the older version that will be replaced.
fn numbers_to_replace(count: u32, existing: &[Arc<Allocation>]) -> Vec<u32> {
    let standing = existing.iter().filter(|alloc| !alloc.terminal());
    let numbers = standing.filter_map(|alloc| alloc.index());
    let mut numbers: Vec<u32> = numbers.filter(|number| *number < count).collect();
    numbers.sort_unstable();
    numbers
}

/// A canary that nobody wants any more stops, and nothing takes its place.
fn withdraw(
    subject: &Subject<'_>,
    alloc: Arc<Allocation>,
    buckets: &mut Buckets,
    staying: &mut Staying<'_, '_>,
) {
    let snapshot = subject.snapshot;
    if alloc.terminal() {
        buckets.ignore.push(alloc);
        return;
    }
    staying.gone(&alloc);
    if Taint::on(snapshot, &alloc).is_final() && !snapshot.is_on_lease(&alloc) {
        buckets.lost.push(alloc);
    } else {
        buckets.stop.push((alloc, NOT_NEEDED));
    }
}
