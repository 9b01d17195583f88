//! `PUT /v1/var/:path?lock-acquire`, `?lock-renew` and `?lock-release`.

use controlplane_state::VariableKey;
use protocol_api::variables::VariableRequest;

use crate::http::ask::Ask;
use crate::http::error::{Answered, HttpError};

pub(super) async fn acquire(_ask: &Ask, _key: VariableKey, _request: VariableRequest) -> Answered {
    Err(HttpError::not_built("not part of this release: locks"))
}

pub(super) async fn renew(_ask: &Ask, _key: VariableKey, _request: &VariableRequest) -> Answered {
    Err(HttpError::not_built("not part of this release: locks"))
}

pub(super) async fn release(_ask: &Ask, _key: VariableKey, _request: &VariableRequest) -> Answered {
    Err(HttpError::not_built("not part of this release: locks"))
}
