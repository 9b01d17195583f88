//! Commands that delete evaluations.

use controlplane_state::Command;
use controlplane_state::command::{EvalsDelete, EvalsPage};
use protocol_model::EvalId;

pub(super) fn commands() -> Vec<(&'static str, Command)> {
    let ids = vec![EvalId::from_u128(1), EvalId::from_u128(2)];
    let page = EvalsPage {
        filter: "Status == \"pending\"".to_owned(),
        namespace: Some("default".to_owned()),
        after: Some((7, EvalId::from_u128(3))),
        up_to: 90,
        rows: 512,
    };
    let delete = |what| Command::EvalsDelete(what);
    vec![
        ("evals_delete_ids", delete(EvalsDelete::Ids(ids))),
        ("evals_delete_page", delete(EvalsDelete::Page(page))),
    ]
}
