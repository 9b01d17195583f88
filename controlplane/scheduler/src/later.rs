//! Evaluations for later: who looks again at what waits, is silent, or came back.

use std::collections::BTreeMap;

use controlplane_state::Snapshot;
use protocol_model::{EvalId, EvalStatus, EvalTrigger, Evaluation, UnixNanos};

use crate::ids::Seeded;

/// Times for later are rounded up to this, so that what fails together is looked at together, and
/// nothing before its time.
const ROUND_NANOS: i64 = 1_000_000_000;

/// Why somebody looks again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Why {
    /// One that ended may be placed anew then.
    Failed,
    /// A silent one is given up then.
    Window,
    /// What came back from an older version follows then.
    Rollout,
    /// What came back runs another version.
    Return,
}

impl Why {
    fn trigger(self) -> EvalTrigger {
        match self {
            Self::Failed => EvalTrigger::RetryFailedAlloc,
            Self::Window => EvalTrigger::MaxDisconnectTimeout,
            Self::Rollout => EvalTrigger::RollingUpdate,
            Self::Return => EvalTrigger::Reconnect,
        }
    }

    fn description(self) -> &'static str {
        match self {
            Self::Failed => "created for delayed rescheduling",
            Self::Window => "created for the end of a disconnect window",
            Self::Rollout => "created for what came back from an older version",
            Self::Return => "created to update what came back",
        }
    }
}

/// The evaluations for later of one decision.
#[derive(Debug, Default)]
pub(crate) struct Later {
    /// By their time, those that are to come already included; `None` until somebody asks.
    known: Option<BTreeMap<(UnixNanos, EvalTrigger), EvalId>>,
    made: Vec<Evaluation>,
}

impl Later {
    /// The evaluation of the job that looks again at `at` or up to a second later. One that is
    /// pending for that very time and reason is shared, and of a rollout one that comes sooner;
    /// `deciding` itself is over then.
    pub(crate) fn look_again(
        &mut self,
        snapshot: &Snapshot,
        deciding: &Evaluation,
        at: UnixNanos,
        why: Why,
        ids: &mut Seeded,
        now: UnixNanos,
    ) -> EvalId {
        let at = if at <= now { now } else { rounded_up(at) };
        let known = self
            .known
            .get_or_insert_with(|| pending(snapshot, deciding, now));
        if why == Why::Rollout {
            // Each look makes the next one: of two that are pending there would be two for ever.
            let mut sooner = known.range(..=(at, why.trigger())).rev();
            if let Some((_, id)) = sooner.find(|((_, trigger), _)| *trigger == why.trigger()) {
                return *id;
            }
        }
        *known.entry((at, why.trigger())).or_insert_with(|| {
            let mut later = Evaluation::new(
                EvalId(ids.next_id()),
                &deciding.job_key(),
                deciding.job_type,
                deciding.priority,
                why.trigger(),
                now,
            );
            later.wait_until = Some(at);
            later.previous_eval = Some(deciding.id);
            later.status_description = why.description().to_owned();
            let id = later.id;
            self.made.push(later);
            id
        })
    }

    /// Those that were not there yet.
    pub(crate) fn into_made(self) -> Vec<Evaluation> {
        self.made
    }
}

fn rounded_up(at: UnixNanos) -> UnixNanos {
    let over = at.0.rem_euclid(ROUND_NANOS);
    if over == 0 {
        at
    } else {
        UnixNanos(at.0.saturating_add(ROUND_NANOS - over))
    }
}

/// Those of the job that are still to come. One that is due is not: the broker may have dropped it
/// for the one that is being decided, and it is written off then.
fn pending(
    snapshot: &Snapshot,
    deciding: &Evaluation,
    now: UnixNanos,
) -> BTreeMap<(UnixNanos, EvalTrigger), EvalId> {
    let evals = snapshot.evals_by_job(&deciding.job_key());
    let waiting = evals
        .filter(|eval| eval.status == EvalStatus::Pending && eval.id != deciding.id)
        .filter_map(|eval| Some(((eval.wait_until?, eval.triggered_by), eval.id)));
    waiting.filter(|((at, _), _)| *at > now).collect()
}
