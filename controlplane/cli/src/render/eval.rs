//! Evaluations.

use protocol_model::{EvalStatus, Evaluation};

use super::columns::{Columns, pairs};
use super::{placement, word};
use crate::find::{Length, shown};
use crate::output::Colour;
use crate::session::Clock;

/// A list of evaluations.
pub(crate) fn list(evals: &[Evaluation], length: Length) -> String {
    if evals.is_empty() {
        return "No evals found".to_owned();
    }
    let mut table = Columns::new(&[
        "ID",
        "Priority",
        "Triggered By",
        "Job ID",
        "Namespace",
        "Node ID",
        "Status",
        "Placement Failures",
    ]);
    for eval in evals {
        table.row([
            shown(&eval.id.to_string(), length),
            eval.priority.to_string(),
            word(&eval.triggered_by),
            eval.job_id.clone(),
            eval.namespace.clone(),
            eval.node_id
                .map_or_else(String::new, |id| shown(&id.to_string(), length)),
            word(&eval.status),
            placement_failures(eval),
        ]);
    }
    table.render()
}

/// Whether something could not be placed; what is blocked is not through with it.
pub(crate) fn placement_failures(eval: &Evaluation) -> String {
    match eval.status {
        EvalStatus::Blocked => "N/A - In Progress".to_owned(),
        _ => (!eval.failed_tg_allocs.is_empty()).to_string(),
    }
}

/// One evaluation.
pub(crate) fn one(eval: &Evaluation, length: Length, colour: Colour, clock: &Clock) -> String {
    let id = |id: String| shown(&id, length);
    let description = match eval.status_description.as_str() {
        "" => word(&eval.status),
        words => words.to_owned(),
    };
    let mut all = vec![
        ("ID", id(eval.id.to_string())),
        ("Create Time", clock.past(eval.create_time, length)),
        ("Modify Time", clock.past(eval.modify_time, length)),
        ("Status", word(&eval.status)),
        ("Status Description", description),
        ("Type", eval.job_type.to_string()),
        ("TriggeredBy", word(&eval.triggered_by)),
        ("Job ID", eval.job_id.clone()),
        ("Namespace", eval.namespace.clone()),
        ("Priority", eval.priority.to_string()),
        ("Placement Failures", placement_failures(eval)),
    ];
    if let Some(at) = eval.wait_until
        && eval.status == EvalStatus::Pending
    {
        // Pending without it looks as if no server did its work.
        let text = format!("{} ({})", clock.date(at), clock.ahead(at));
        all.push(("Wait Until", text));
    }
    for (name, other) in [
        ("Node ID", eval.node_id.map(|id| id.to_string())),
        ("Previous Eval", eval.previous_eval.map(|id| id.to_string())),
        ("Next Eval", eval.next_eval.map(|id| id.to_string())),
        ("Blocked Eval", eval.blocked_eval.map(|id| id.to_string())),
    ] {
        if let Some(other) = other {
            all.push((name, id(other)));
        }
    }
    let mut text = pairs(&all);
    if !eval.failed_tg_allocs.is_empty() {
        let title = colour.bold("Failed Placements");
        let failures = placement::failures(&eval.failed_tg_allocs);
        text.push_str(&format!("\n{title}\n{failures}"));
    }
    text
}
