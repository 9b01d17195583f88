//! Deleting evaluations: see [`Command::EvalsDelete`](super::Command::EvalsDelete).

use protocol_model::EvalId;
use serde::{Deserialize, Serialize};

use crate::tables::EvalSlot;

/// Evaluations that one [`EvalsPage`] looks at, at most.
pub const EVALS_PAGE_ROWS_MAX: u32 = 4096;

/// The evaluations that one entry deletes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum EvalsDelete {
    /// These: all of them, or none where one is unknown or may not go.
    Ids(Vec<EvalId>),
    /// Those of a page that match and may go. The others stay.
    Page(EvalsPage),
}

/// Neighbouring evaluations in the order in which they were made.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct EvalsPage {
    /// An expression of [`protocol_model::filter::EvalFilter`].
    pub filter: String,
    /// Only of this namespace; of all where it is absent.
    pub namespace: Option<String>,
    /// The page begins behind this place; at the oldest one where it is absent.
    pub after: Option<EvalSlot>,
    /// Evaluations that were made or changed after this index stay.
    pub up_to: u64,
    /// Evaluations to look at: 1 to [`EVALS_PAGE_ROWS_MAX`].
    pub rows: u32,
}
