//! A blocked evaluation that was tried once more, in vain. It blocks again in memory: an entry of
//! the log for each try would be one for every waiting job whenever room appears, and would say
//! nothing. A transition is what has an entry, and this is none.

use controlplane_state::Snapshot;
use controlplane_state::command::PlanApply;
use protocol_model::{EvalStatus, Evaluation};

/// The evaluation as it has to wait on, where a plan does nothing but block it as it was blocked:
/// what it says about why, and about whom it waits for, is in the state already. `None` where
/// anything is new.
pub fn in_vain(snapshot: &Snapshot, plan: &PlanApply) -> Option<Evaluation> {
    let PlanApply {
        eval_id: _,
        snapshot_index: _,
        placed,
        updated,
        changed,
        preempted,
        deployment,
        deployment_changes,
        evals,
    } = plan;
    let nothing = placed.is_empty()
        && updated.is_empty()
        && changed.is_empty()
        && preempted.is_empty()
        && deployment.is_none()
        && deployment_changes.is_empty();
    let [decided] = evals.as_slice() else {
        return None;
    };
    let known = snapshot.eval(decided.id)?;
    if !nothing || known.status != EvalStatus::Blocked {
        return None;
    }
    // When it was looked at is not what it says; nor are words that a first try has.
    let as_known = Evaluation {
        snapshot_index: known.snapshot_index,
        modify_time: known.modify_time,
        modify_index: known.modify_index,
        status_description: known.status_description.clone(),
        ..decided.clone()
    };
    (as_known == **known).then(|| Evaluation {
        snapshot_index: decided.snapshot_index,
        // Not before the moment of the look: whoever went away until then was not looked at.
        modify_time: snapshot.now(),
        ..as_known
    })
}

#[cfg(test)]
mod tests {
    use controlplane_state::Command;
    use hack_testkit::{World, jobs};
    use protocol_model::{AllocMetric, EvalTrigger, JobType, UnixNanos};
    use protocol_model::{EvalId, JobKey};

    use super::*;

    /// A job whose evaluation is blocked, and the plan of another try that changes nothing.
    fn blocked() -> (World, PlanApply) {
        let mut world = World::new();
        let job = jobs::job(JobType::Service, "web", 1);
        let key: JobKey = job.key();
        world.register(job);
        let mut eval = Evaluation::new(
            EvalId::from_u128(77),
            &key,
            JobType::Service,
            50,
            EvalTrigger::QueuedAllocs,
            UnixNanos::ZERO,
        );
        eval.status = EvalStatus::Blocked;
        eval.status_description = "created to place remaining allocations".to_owned();
        eval.snapshot_index = world.snapshot().index();
        eval.failed_tg_allocs
            .insert("web".to_owned(), AllocMetric::default());
        world.expect(Command::EvalsUpsert { evals: vec![eval] });
        let again = Evaluation {
            status_description: String::new(),
            snapshot_index: world.snapshot().index(),
            modify_time: UnixNanos(5),
            ..known(&world)
        };
        let plan = PlanApply {
            evals: vec![again],
            ..PlanApply::default()
        };
        (world, plan)
    }

    fn known(world: &World) -> Evaluation {
        let snapshot = world.snapshot();
        let eval = snapshot.eval(EvalId::from_u128(77)).expect("is there");
        Evaluation::clone(eval)
    }

    #[test]
    fn a_try_that_finds_nothing_new_is_no_entry_of_the_log() {
        let (world, plan) = blocked();
        let waits = in_vain(&world.snapshot(), &plan).expect("nothing is new");
        assert_eq!(waits.snapshot_index, plan.evals[0].snapshot_index);
        assert!(waits.snapshot_index > known(&world).snapshot_index);
        assert_eq!(waits.modify_time, world.snapshot().now());
        assert_eq!(waits.status_description, known(&world).status_description);
    }

    #[test]
    fn whatever_is_new_is_written() {
        let (world, plan) = blocked();
        let changes: [fn(&mut PlanApply); 5] = [
            |plan| plan.evals[0].status = EvalStatus::Complete,
            |plan| {
                let metric = plan.evals[0].failed_tg_allocs.get_mut("web").expect("one");
                metric.nodes_exhausted = 3;
            },
            |plan| plan.evals[0].escaped_computed_class = true,
            |plan| {
                let classes = &mut plan.evals[0].class_eligibility;
                classes.insert("new".to_owned(), true);
            },
            |plan| plan.evals.push(plan.evals[0].clone()),
        ];
        for (number, change) in changes.into_iter().enumerate() {
            let mut plan = plan.clone();
            change(&mut plan);
            assert_eq!(in_vain(&world.snapshot(), &plan), None, "change {number}");
        }
    }
}
