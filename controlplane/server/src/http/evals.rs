//! `/v1/evaluations` and `/v1/evaluation/:id`.

use std::sync::Arc;

use controlplane_state::{Snapshot, Table};
use protocol_api::evaluations::{
    CountEvaluations, DeleteEvaluations, EvaluationAllocations, EvaluationCount, ListEvaluations,
    ReadEvaluation,
};
use protocol_model::filter::EvalFilter;
use protocol_model::{EvalId, EvalStatus, Evaluation};

use super::ask::Ask;
use super::error::{Answered, HttpError};
use super::filter::Filter;
use super::page::{ByIndex, page_of_sorted, page_where};
use super::route::{Routes, routes};
use super::shown::{EvalShown, related};
use super::{alloc, eval_delete, lookup};

pub(super) const ROUTES: Routes = routes![
    ListEvaluations => list,
    CountEvaluations => count,
    DeleteEvaluations => eval_delete::delete,
    ReadEvaluation => read,
    EvaluationAllocations => allocations,
];

/// `/v1/evaluations`, perhaps of one job (`?job=`) or in one status (`?status=`).
async fn list(ask: &Ask) -> Answered {
    let prefix = lookup::prefix(&ask.query)?;
    let namespaces = ask.namespaces();
    let job = ask.query.text("job");
    let status = match ask.query.text("status") {
        None => None,
        Some(text) => Some(status(text)?),
    };
    let filter = Filter::of(&ask.query)?;
    if filter.is_some() && (job.is_some() || status.is_some()) {
        return Err(HttpError::bad_request(
            "?filter cannot be used together with ?job or ?status: put them into the expression",
        ));
    }
    let snapshot = ask.snapshot(&[Table::Evals]).await?;
    let shown = |eval: &&Arc<Evaluation>| {
        namespaces.contains(&eval.namespace)
            && job.is_none_or(|job| eval.job_id == job)
            && status.is_none_or(|status| eval.status == status)
    };
    let key = |eval: &Arc<Evaluation>| (ByIndex(eval.create_index, eval.id.0), Arc::clone(eval));
    let keep = |eval: &Arc<Evaluation>| match &filter {
        None => Ok(true),
        Some(filter) => filter.keeps(eval),
    };
    let page = match prefix {
        None => {
            let from = |token: Option<&ByIndex>, newest_first| {
                evals_from(&snapshot, token, newest_first)
                    .filter(shown)
                    .map(key)
            };
            page_of_sorted(&ask.query, from, keep)?
        }
        Some(prefix) => page_where(
            &ask.query,
            snapshot.evals_with_prefix(prefix).filter(shown).map(key),
            keep,
        )?,
    };
    let shown: Vec<EvalShown> = page.items.into_iter().map(EvalShown::new).collect();
    ask.answer_page(
        &shown,
        snapshot.table_index(&[Table::Evals]),
        page.next_token.as_deref(),
    )
}

/// All evaluations in their order, beginning with the one that a token names.
fn evals_from<'a>(
    snapshot: &'a Snapshot,
    token: Option<&ByIndex>,
    newest_first: bool,
) -> Box<dyn Iterator<Item = &'a Arc<Evaluation>> + Send + 'a> {
    let from = token.map(|ByIndex(index, id)| (*index, EvalId(*id)));
    match (newest_first, from) {
        (false, None) => Box::new(snapshot.evals()),
        (true, None) => Box::new(snapshot.evals().rev()),
        (false, Some(from)) => Box::new(snapshot.evals_within(from..)),
        (true, Some(from)) => Box::new(snapshot.evals_within(..=from).rev()),
    }
}

/// `/v1/evaluations/count`: as many as the list with the same parameters shows.
async fn count(ask: &Ask) -> Answered {
    let prefix = lookup::prefix(&ask.query)?;
    let namespaces = ask.namespaces();
    let filter = ask
        .query
        .text("filter")
        .map(EvalFilter::parse)
        .transpose()?;
    ask.read(&[Table::Evals], |snapshot| {
        let counts = |eval: &&Arc<Evaluation>| {
            namespaces.contains(&eval.namespace)
                && filter.as_ref().is_none_or(|filter| filter.keeps(eval))
        };
        let count = match prefix {
            None => snapshot.evals().filter(counts).count(),
            Some(prefix) => snapshot.evals_with_prefix(prefix).filter(counts).count(),
        };
        Ok(EvaluationCount {
            count: count as u64,
            index: snapshot.table_index(&[Table::Evals]),
            known_leader: ask.api.leader().is_some(),
        })
    })
    .await
}

fn status(text: &str) -> Result<EvalStatus, HttpError> {
    serde_json::from_value(serde_json::Value::from(text)).map_err(|_| {
        HttpError::bad_request(format!(
            "{text:?} is no status of an evaluation: blocked, pending, complete, failed, canceled"
        ))
    })
}

/// The evaluation that the path names.
fn id(ask: &Ask) -> Result<EvalId, HttpError> {
    lookup::id("an evaluation", ask.parameter("id"))
}

async fn read(ask: &Ask) -> Answered {
    let id = id(ask)?;
    let with_related = ask.query.flag("related")?;
    ask.read(&[Table::Evals], |snapshot| {
        let eval = snapshot.eval(id);
        let eval = eval.ok_or_else(|| HttpError::not_found("eval not found"))?;
        let related = match with_related {
            true => related(eval, |id| snapshot.eval(id)),
            false => Vec::new(),
        };
        Ok(EvalShown::with_related(Arc::clone(eval), related))
    })
    .await
}

async fn allocations(ask: &Ask) -> Answered {
    let id = id(ask)?;
    alloc::answer_found(ask, alloc::any_moved, |snapshot| {
        snapshot.allocs_by_eval(id).map(Arc::clone).collect()
    })
    .await
}
