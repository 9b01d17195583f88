//! What a server that forwarded a command is told: the outcome without its signals, which are the
//! business of whoever applies the entry.

use prost::Message;
use protocol_wire::convert::{ConvertError, id_bytes, node_id};
use protocol_wire::log;
use protocol_wire::v1::ItemResult;

use super::document::{from_document, to_document};
use super::hot::update_class;
use super::{DecodeError, EncodeError};
use crate::applied::{Applied, BatchRejected, BatchResult, Outcome};
use crate::record::SessionEpoch;

/// The bytes of an outcome and its index.
pub fn encode_applied(applied: &Applied) -> Result<Vec<u8>, EncodeError> {
    let Applied {
        index,
        outcome,
        signals: _,
    } = applied;
    let outcome = match outcome {
        Outcome::Updates(results) => log::applied::Outcome::Updates(log::Updates {
            results: results.iter().map(result_message).collect(),
        }),
        Outcome::Done
        | Outcome::NoOp
        | Outcome::Refused(_)
        | Outcome::JobRegistered { .. }
        | Outcome::JobDeregistered { .. }
        | Outcome::JobDispatched(_)
        | Outcome::JobTagged(_)
        | Outcome::PeriodicLaunched(_)
        | Outcome::PlanApplied
        | Outcome::Welcome(_)
        | Outcome::Synced { .. }
        | Outcome::Missed(_)
        | Outcome::Evaluated(_)
        | Outcome::Collected(_)
        | Outcome::OneTimeTokenExchanged { .. }
        | Outcome::VariableChanged(_)
        | Outcome::EvalsDeleted(_) => log::applied::Outcome::Document(to_document(outcome)?),
    };
    Ok(log::Applied {
        index: *index,
        outcome: Some(outcome),
    }
    .encode_to_vec())
}

/// The outcome and its index; signals do not travel.
pub fn decode_applied(bytes: &[u8]) -> Result<Applied, DecodeError> {
    let message = log::Applied::decode(bytes).map_err(DecodeError::Message)?;
    let log::Applied { index, outcome } = message;
    let outcome = match outcome.ok_or(DecodeError::Missing("an outcome"))? {
        log::applied::Outcome::Document(document) => from_document(document)?,
        log::applied::Outcome::Updates(log::Updates { results }) => {
            Outcome::Updates(results.into_iter().map(result).collect::<Result<_, _>>()?)
        }
    };
    Ok(Applied {
        index,
        outcome,
        signals: Vec::new(),
    })
}

fn result_message(result: &BatchResult) -> log::BatchResult {
    let BatchResult {
        node,
        epoch,
        class,
        seq,
        results,
        rejected,
    } = result;
    let rejected = match rejected {
        None => log::Rejected::No,
        Some(BatchRejected::OwesSync) => log::Rejected::OwesSync,
        Some(BatchRejected::NotInSession) => log::Rejected::NotInSession,
    };
    log::BatchResult {
        node_id: id_bytes(node.as_bytes()),
        epoch: epoch.0,
        class: (*class).into(),
        seq: *seq,
        items: results.iter().map(|item| (*item).into()).collect(),
        rejected: rejected.into(),
    }
}

fn result(message: log::BatchResult) -> Result<BatchResult, DecodeError> {
    let log::BatchResult {
        node_id: id,
        epoch,
        class,
        seq,
        items,
        rejected,
    } = message;
    let unknown = |field, value| DecodeError::Field(ConvertError::UnknownValue { field, value });
    let results = items
        .into_iter()
        .map(|value| ItemResult::try_from(value).map_err(|_| unknown("items", value)))
        .collect::<Result<_, _>>()?;
    let rejected = match log::Rejected::try_from(rejected) {
        Ok(log::Rejected::No) => None,
        Ok(log::Rejected::OwesSync) => Some(BatchRejected::OwesSync),
        Ok(log::Rejected::NotInSession) => Some(BatchRejected::NotInSession),
        Err(_) => return Err(unknown("rejected", rejected)),
    };
    Ok(BatchResult {
        node: node_id("node_id", &id).map_err(DecodeError::Field)?,
        epoch: SessionEpoch(epoch),
        class: update_class(class)?,
        seq,
        results,
        rejected,
    })
}
