//! `?filter=`: which items of a list are shown. The language is [`protocol_model::filter`].

use protocol_model::filter::{self, FilterError};
use serde::Serialize;

use super::error::HttpError;
use super::query::Query;

/// An expression that can be asked about items.
#[derive(Debug)]
pub(super) struct Filter(filter::Filter);

impl Filter {
    /// The filter that a request asks for; `None` where it asks for none.
    ///
    /// # Errors
    /// 400 where the expression makes no sense.
    pub(super) fn of(query: &Query) -> Result<Option<Self>, HttpError> {
        let parsed = query.text("filter").map(filter::Filter::parse).transpose();
        Ok(parsed?.map(Self))
    }

    /// Whether `item` is shown.
    ///
    /// # Errors
    /// 400 where the expression asks for what such items do not have.
    pub(super) fn keeps(&self, item: &impl Serialize) -> Result<bool, HttpError> {
        Ok(self.0.keeps(item)?)
    }
}

impl From<FilterError> for HttpError {
    fn from(error: FilterError) -> Self {
        Self::bad_request(format!("failed to read filter expression: {error}"))
    }
}
