//! An evaluation as `/v1/evaluation/:id` and the lists show it: every key that is empty is left
//! out.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use protocol_api::evaluations::RelatedEvaluation;
use protocol_model::{EvalId, Evaluation};
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::{object, set};

/// Evaluations that one answer names as related: a job that failed for days has a long chain.
const RELATED_MAX: usize = 1000;

/// An evaluation without its empty keys.
#[derive(Debug)]
pub(in crate::http) struct EvalShown {
    eval: Arc<Evaluation>,
    related: Vec<RelatedEvaluation>,
}

impl EvalShown {
    pub(in crate::http) fn new(eval: Arc<Evaluation>) -> Self {
        Self {
            eval,
            related: Vec::new(),
        }
    }

    /// With the evaluations that are related to it, for `?related=true`.
    pub(in crate::http) fn with_related(
        eval: Arc<Evaluation>,
        related: Vec<RelatedEvaluation>,
    ) -> Self {
        Self { eval, related }
    }
}

impl Serialize for EvalShown {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut shown = object(&*self.eval)?;
        set(&mut shown, "RelatedEvals", &self.related)?;
        shown.retain(|_, value| !is_empty(value));
        shown.serialize(serializer)
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(object) => object.is_empty(),
    }
}

/// The evaluations that `eval` is connected with by next, previous and blocked evaluations, over
/// any number of steps, oldest first. Nearer ones come first where there are too many.
pub(in crate::http) fn related<'a>(
    eval: &Evaluation,
    find: impl Fn(EvalId) -> Option<&'a Arc<Evaluation>>,
) -> Vec<RelatedEvaluation> {
    let mut seen = BTreeSet::from([eval.id]);
    let mut ahead: VecDeque<EvalId> = neighbours(eval).collect();
    let mut related = Vec::new();
    while let Some(id) = ahead.pop_front()
        && related.len() < RELATED_MAX
    {
        if !seen.insert(id) {
            continue;
        }
        // It may be collected already.
        if let Some(found) = find(id) {
            ahead.extend(neighbours(found));
            related.push(RelatedEvaluation::from(&**found));
        }
    }
    related.sort_by_key(|eval| (eval.create_index, eval.id));
    related
}

fn neighbours(eval: &Evaluation) -> impl Iterator<Item = EvalId> {
    let ids = [eval.next_eval, eval.previous_eval, eval.blocked_eval];
    ids.into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use protocol_model::{EvalTrigger, JobKey, JobType, UnixNanos};
    use serde_json::json;

    use super::*;

    fn eval(number: u128) -> Evaluation {
        let job = JobKey::new("default", "web");
        let id = EvalId::from_u128(number);
        let (kind, trigger) = (JobType::Service, EvalTrigger::JobRegister);
        Evaluation::new(id, &job, kind, 50, trigger, UnixNanos(7))
    }

    #[test]
    fn an_evaluation_leaves_every_empty_key_out() {
        let mut eval = eval(1);
        eval.queued_allocations.insert("front".to_owned(), 0);
        eval.create_index = 12;
        let shown = serde_json::to_value(EvalShown::new(Arc::new(eval.clone()))).expect("JSON");
        let expected = json!({
            "ID": eval.id, "Namespace": "default", "Priority": 50, "Type": "service",
            "TriggeredBy": "job-register", "JobID": "web", "Status": "pending",
            "QueuedAllocations": { "front": 0 }, "CreateTime": 7, "ModifyTime": 7,
            "CreateIndex": 12,
        });
        assert_eq!(shown, expected);
        let read: Evaluation = serde_json::from_value(shown).expect("our own client reads it");
        assert_eq!(read, eval);
    }

    #[test]
    fn related_evaluations_are_found_over_any_number_of_steps() {
        let id = |number| Some(EvalId::from_u128(number));
        // 1 -> 2 -> 3, where 3 waits in 4; 5 belongs to none of them, and 9 is collected.
        let mut all: BTreeMap<EvalId, Arc<Evaluation>> = BTreeMap::new();
        for (number, previous, next, blocked) in [
            (1, id(9), id(2), None),
            (2, id(1), id(3), None),
            (3, id(2), None, id(4)),
            (4, id(3), None, None),
            (5, None, None, None),
        ] {
            let mut eval = eval(number);
            eval.create_index = 100 - u64::try_from(number).expect("small");
            (eval.previous_eval, eval.next_eval, eval.blocked_eval) = (previous, next, blocked);
            all.insert(eval.id, Arc::new(eval));
        }
        let of = |number| {
            let found = related(&all[&EvalId::from_u128(number)], |id| all.get(&id));
            found.into_iter().map(|eval| eval.id).collect::<Vec<_>>()
        };
        let ids = |numbers: &[u128]| numbers.iter().map(|n| EvalId::from_u128(*n)).collect();
        let expected: Vec<EvalId> = ids(&[4, 3, 1]);
        assert_eq!(of(2), expected, "oldest first, and not itself");
        assert_eq!(of(5), Vec::new());
    }
}
