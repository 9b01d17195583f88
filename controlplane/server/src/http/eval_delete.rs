//! `DELETE /v1/evaluations`: by ids in one entry of the log, by a filter in pages.
//!
//! ```text
//!   up_to = index now      page 1        page 2              page n
//!   |--------------------->|------------>|-----> ... ------->| next = None: answered
//!                            EvalsDelete { after, rows }
//! ```
//!
//! This server proposes page after page, here or through whoever leads, and adapts their size so
//! that none holds the log up. A page whose outcome is unknown is looked up in the state and
//! proposed again where it did not happen: that is harmless, since its rows are gone or not.

use std::time::Duration;

use controlplane_state::command::{EVALS_PAGE_ROWS_MAX, EvalsDelete, EvalsPage};
use controlplane_state::{Command, EvalsDeleted, Outcome, Snapshot};
use protocol_api::evaluations::{self as api, EVAL_IDS_MAX, EvalDeleteRequest};
use protocol_model::filter::EvalFilter;

use super::ask::Ask;
use super::error::{Answered, HttpError};
use crate::cluster::ChangeError;

/// How long the log may be busy with one page.
const PAGE_TIME: Duration = Duration::from_millis(3);
/// Rows of a page before anything was measured.
const ROWS_FIRST: u32 = 512;
/// The smallest page: below it, an entry costs more than its rows.
const ROWS_MIN: u32 = 128;
/// How often in a row a page is proposed again whose outcome is unknown, or for which there was no
/// leader.
const TRIES_MAX: u32 = 8;

pub(super) async fn delete(ask: &Ask) -> Answered {
    let request: EvalDeleteRequest = ask.json()?;
    let refused = |text: &str| Err(HttpError::bad_request(text));
    match (request.eval_ids.len(), request.filter.is_empty()) {
        (0, true) => refused("evals must be deleted by either ID or filter"),
        (0, false) => by_filter(ask, request.filter).await,
        (_, false) => refused("evals cannot be deleted by both ID and filter"),
        (count, true) if count > EVAL_IDS_MAX => refused(&format!(
            "request includes {count} evaluation IDs, must be {EVAL_IDS_MAX} or fewer"
        )),
        (_, true) => by_ids(ask, EvalsDelete::Ids(request.eval_ids)).await,
    }
}

async fn by_ids(ask: &Ask, command: EvalsDelete) -> Answered {
    let changed = ask.change(Command::EvalsDelete(command));
    let changed = changed.await?;
    let deleted = deleted(changed.outcome)?;
    answer(ask, deleted, changed.index)
}

async fn by_filter(ask: &Ask, filter: String) -> Answered {
    EvalFilter::parse(&filter)?;
    let snapshot = ask.consistent().await?;
    let namespace = ask.namespaces().one().map(str::to_owned);
    let page = EvalsPage {
        filter,
        namespace,
        after: None,
        up_to: snapshot.index(),
        rows: ROWS_FIRST,
    };
    let deletion = Deletion {
        ask,
        page,
        sum: EvalsDeleted::default(),
        index: snapshot.index(),
    };
    let (sum, index) = deletion.run().await?;
    answer(ask, sum, index)
}

/// The pages of one call.
struct Deletion<'a> {
    ask: &'a Ask,
    /// The next one.
    page: EvalsPage,
    sum: EvalsDeleted,
    /// The index of the newest one.
    index: u64,
}

impl Deletion<'_> {
    async fn run(mut self) -> Result<(EvalsDeleted, u64), HttpError> {
        let mut tries = 0;
        loop {
            let before = self.ask.api.cluster.snapshot();
            let command = EvalsDelete::Page(self.page.clone());
            let changed = self.ask.change(Command::EvalsDelete(command)).await;
            let done = match changed {
                Ok(changed) => {
                    self.index = changed.index;
                    Some(deleted(changed.outcome)?)
                }
                Err(ChangeError::OutcomeUnknown | ChangeError::NoLeader(_))
                    if tries < TRIES_MAX =>
                {
                    let now = self.ask.consistent().await?;
                    self.index = now.index();
                    self.look_up(&before, &now)?
                }
                Err(error) => return Err(error.into()),
            };
            let Some(done) = done else {
                tries += 1;
                continue;
            };
            tries = 0;
            self.sum.deleted += done.deleted;
            self.sum.open += done.open;
            self.sum.kept += done.kept;
            if done.next.is_none() {
                return Ok((self.sum, self.index));
            }
            self.page.after = done.next;
            self.page.rows = rows(self.ask.api.cluster.hub().deletion_pace());
        }
    }

    /// The effect of a page whose outcome is unknown, if it happened: what it would have deleted in
    /// the state before is not there now.
    fn look_up(
        &self,
        before: &Snapshot,
        now: &Snapshot,
    ) -> Result<Option<EvalsDeleted>, HttpError> {
        let found = before.evals_page(&self.page)?;
        let gone = || {
            let going = found.going.iter();
            going.filter(|eval| now.eval(eval.id).is_none())
        };
        let open = gone().filter(|eval| !eval.status.is_terminal()).count();
        let deleted = gone().count();
        Ok((deleted > 0).then_some(EvalsDeleted {
            deleted: deleted as u64,
            open: open as u64,
            kept: found.kept,
            next: found.next,
        }))
    }
}

/// How many rows the next page has, by how long so many took here last.
fn rows(pace: Option<(u32, Duration)>) -> u32 {
    let Some((rows, took)) = pace else {
        return ROWS_FIRST;
    };
    let fitting = u128::from(rows) * PAGE_TIME.as_nanos() / took.as_nanos().max(1);
    let fitting = u32::try_from(fitting).unwrap_or(EVALS_PAGE_ROWS_MAX);
    fitting.clamp(ROWS_MIN, EVALS_PAGE_ROWS_MAX)
}

fn deleted(outcome: Outcome) -> Result<EvalsDeleted, HttpError> {
    match outcome {
        Outcome::EvalsDeleted(deleted) => Ok(deleted),
        other => Err(HttpError::internal(format!(
            "a deletion of evaluations was answered by {other:?}"
        ))),
    }
}

fn answer(ask: &Ask, deleted: EvalsDeleted, index: u64) -> Answered {
    let EvalsDeleted {
        deleted: count,
        open,
        kept,
        next: _,
    } = deleted;
    let answer = api::EvalsDeleted {
        count,
        kept,
        open,
        index,
    };
    ask.answer(&answer, index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_as_many_rows_as_fit_into_its_time() {
        let millis = Duration::from_millis;
        assert_eq!(rows(None), ROWS_FIRST);
        assert_eq!(rows(Some((512, millis(3)))), 512);
        assert_eq!(rows(Some((512, millis(6)))), 256);
        assert_eq!(rows(Some((512, millis(1)))), 1536);
        assert_eq!(rows(Some((512, millis(300)))), ROWS_MIN);
        assert_eq!(rows(Some((128, Duration::ZERO))), EVALS_PAGE_ROWS_MAX);
    }
}
