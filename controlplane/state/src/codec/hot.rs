//! Between commands and the messages of the log.

use std::sync::Arc;

use bytes::Bytes;
use protocol_model::{AllocId, Incarnation, Node, NodeId};
use protocol_wire::convert::{
    ConvertError, alloc_report_messages, alloc_reports, bytes16, bytes32, id_bytes, node_id,
};
use protocol_wire::log;
use protocol_wire::log::envelope::Command as Message;
use protocol_wire::v1::UpdateClass;

use super::document::{from_document, to_document};
use super::{DecodeError, EncodeError, plan, secrets, variables};
use crate::command::{
    AccessCommand, Command, DaemonLife, JoinVerdict, NodeBatch, NodeHello, NodeSynced,
};
use crate::record::{Digest, SessionEpoch};

pub(super) fn to_message(command: &Command) -> Result<Message, EncodeError> {
    Ok(match command {
        Command::Barrier => Message::Barrier(log::Barrier {}),
        Command::AllocUpdates { batches } => Message::AllocUpdates(log::AllocUpdates {
            batches: batches.iter().map(batch_message).collect(),
        }),
        Command::NodeHello(hello) => Message::NodeHello(hello_message(hello)?),
        Command::NodeSynced(synced) => Message::NodeSynced(synced_message(synced)?),
        Command::HeartbeatMissed { nodes } => Message::HeartbeatMissed(epoch_messages(nodes)),
        Command::WindowExpired { nodes } => Message::WindowExpired(epoch_messages(nodes)),
        Command::SyncDeadline { nodes } => Message::SyncDeadline(epoch_messages(nodes)),
        Command::SyncRejected { node, epoch } => {
            Message::SyncRejected(epoch_message(*node, *epoch))
        }
        Command::PlanApply(plan) => Message::Plan(plan::to_message(plan)?),
        Command::RestoreChunk {
            incarnation,
            offset,
            bytes,
        } => Message::RestoreChunk(log::RestoreChunk {
            incarnation: id_bytes(incarnation.as_bytes()),
            offset: *offset,
            bytes: bytes.clone(),
        }),
        Command::VariableApply(command) => {
            Message::VariableApply(variables::apply_message(command))
        }
        Command::VariableLocksExpire(command) => {
            Message::VariableLocksExpire(variables::expire_message(command))
        }
        Command::VariablesRekey(command) => {
            Message::VariablesRekey(variables::rekey_message(command))
        }
        Command::Access(AccessCommand::TokensRekey(command)) => {
            Message::TokensRekey(secrets::rekey_message(command))
        }
        Command::ClusterInit { .. }
        | Command::RestoreBegin { .. }
        | Command::RestoreCommit { .. }
        | Command::RestoreDrop { .. }
        | Command::JobRegister(_)
        | Command::JobDeregister(_)
        | Command::JobStability { .. }
        | Command::JobDispatch(_)
        | Command::JobScale(_)
        | Command::JobTag(_)
        | Command::PeriodicLaunch(_)
        | Command::JobEvaluate { .. }
        | Command::EvalsUpsert { .. }
        | Command::EvalsDelete(_)
        | Command::AllocsStop { .. }
        | Command::PendingExpired { .. }
        | Command::NodeFacts { .. }
        | Command::NodeEligibility { .. }
        | Command::NodeDrainSet(_)
        | Command::AllocsMigrate { .. }
        | Command::NodeDrainComplete { .. }
        | Command::NodePurge { .. }
        | Command::DeploymentStatus(_)
        | Command::DeploymentPromote(_)
        | Command::DeploymentAllocHealth(_)
        | Command::AclBootstrap { .. }
        | Command::Access(_)
        | Command::NamespaceUpsert { .. }
        | Command::NamespaceDelete { .. }
        | Command::NodePoolUpsert { .. }
        | Command::NodePoolDelete { .. }
        | Command::SchedulerConfigSet { .. }
        | Command::GcCollect(_) => Message::Cold(to_document(command)?),
    })
}

pub(super) fn from_message(message: Message) -> Result<Command, DecodeError> {
    Ok(match message {
        Message::Barrier(log::Barrier {}) => Command::Barrier,
        Message::AllocUpdates(log::AllocUpdates { batches }) => {
            let batches = batches.into_iter().map(batch).collect::<Result<_, _>>()?;
            Command::AllocUpdates { batches }
        }
        Message::NodeHello(message) => Command::NodeHello(Box::new(hello(message)?)),
        Message::NodeSynced(message) => Command::NodeSynced(Box::new(synced(message)?)),
        Message::HeartbeatMissed(message) => Command::HeartbeatMissed {
            nodes: epochs(message)?,
        },
        Message::WindowExpired(message) => Command::WindowExpired {
            nodes: epochs(message)?,
        },
        Message::SyncDeadline(message) => Command::SyncDeadline {
            nodes: epochs(message)?,
        },
        Message::SyncRejected(message) => {
            let (node, epoch) = epoch(message)?;
            Command::SyncRejected { node, epoch }
        }
        Message::RestoreChunk(message) => {
            let log::RestoreChunk {
                incarnation,
                offset,
                bytes,
            } = message;
            let id = bytes16("incarnation", &incarnation).map_err(DecodeError::Field)?;
            Command::RestoreChunk {
                incarnation: Incarnation::from_u128(u128::from_be_bytes(id)),
                offset,
                bytes,
            }
        }
        Message::VariableApply(message) => {
            Command::VariableApply(Box::new(variables::apply(message)?))
        }
        Message::VariableLocksExpire(message) => {
            Command::VariableLocksExpire(variables::expire(message)?)
        }
        Message::VariablesRekey(message) => Command::VariablesRekey(variables::rekey(message)?),
        Message::TokensRekey(message) => secrets::rekey(message)?.into(),
        Message::Plan(message) => Command::PlanApply(Box::new(plan::from_message(message)?)),
        Message::PlanApply(document) => Command::PlanApply(from_document(document)?),
        Message::Cold(document) => from_document(document)?,
        // It was unpacked before it came here.
        Message::Packed(_) => return Err(DecodeError::NoCommand),
    })
}

fn epoch_message(node: NodeId, epoch: SessionEpoch) -> log::NodeEpoch {
    log::NodeEpoch {
        node_id: id_bytes(node.as_bytes()),
        epoch: epoch.0,
    }
}

fn epoch(message: log::NodeEpoch) -> Result<(NodeId, SessionEpoch), DecodeError> {
    let log::NodeEpoch { node_id: id, epoch } = message;
    let node = node_id("node_id", &id).map_err(DecodeError::Field)?;
    Ok((node, SessionEpoch(epoch)))
}

fn epoch_messages(nodes: &[(NodeId, SessionEpoch)]) -> log::NodeEpochs {
    let nodes = nodes
        .iter()
        .map(|(node, epoch)| epoch_message(*node, *epoch))
        .collect();
    log::NodeEpochs { nodes }
}

fn epochs(message: log::NodeEpochs) -> Result<Vec<(NodeId, SessionEpoch)>, DecodeError> {
    message.nodes.into_iter().map(epoch).collect()
}

fn batch_message(batch: &NodeBatch) -> log::NodeBatch {
    let NodeBatch {
        node,
        epoch,
        class,
        seq,
        reports,
    } = batch;
    log::NodeBatch {
        node_id: id_bytes(node.as_bytes()),
        epoch: epoch.0,
        class: (*class).into(),
        seq: *seq,
        reports: alloc_report_messages(reports),
    }
}

fn batch(message: log::NodeBatch) -> Result<NodeBatch, DecodeError> {
    let log::NodeBatch {
        node_id: id,
        epoch,
        class,
        seq,
        reports,
    } = message;
    Ok(NodeBatch {
        node: node_id("node_id", &id).map_err(DecodeError::Field)?,
        epoch: SessionEpoch(epoch),
        class: update_class(class)?,
        seq,
        reports: alloc_reports(reports).map_err(DecodeError::Field)?,
    })
}

pub(super) fn update_class(value: i32) -> Result<UpdateClass, DecodeError> {
    UpdateClass::try_from(value).map_err(|_| {
        DecodeError::Field(ConvertError::UnknownValue {
            field: "class",
            value,
        })
    })
}

fn hello_message(hello: &NodeHello) -> Result<log::NodeHello, EncodeError> {
    let NodeHello {
        node,
        secret_hash,
        nonce,
        last_epoch,
        boot_id,
        daemon,
        facts,
        join,
    } = hello;
    Ok(log::NodeHello {
        node_id: id_bytes(node.as_bytes()),
        secret_hash: Bytes::copy_from_slice(&secret_hash.0),
        nonce: Bytes::copy_from_slice(nonce),
        last_epoch: last_epoch.0,
        boot_id: Bytes::copy_from_slice(boot_id),
        daemon_restarted: daemon.is_restarted(),
        facts: facts.as_deref().map(to_document).transpose()?,
        join_allowed: *join == JoinVerdict::Allowed,
    })
}

fn hello(message: log::NodeHello) -> Result<NodeHello, DecodeError> {
    let log::NodeHello {
        node_id: id,
        secret_hash,
        nonce,
        last_epoch,
        boot_id,
        daemon_restarted,
        facts,
        join_allowed,
    } = message;
    Ok(NodeHello {
        node: node_id("node_id", &id).map_err(DecodeError::Field)?,
        secret_hash: Digest(bytes32("secret_hash", &secret_hash).map_err(DecodeError::Field)?),
        nonce: bytes16("nonce", &nonce).map_err(DecodeError::Field)?,
        last_epoch: SessionEpoch(last_epoch),
        boot_id: bytes16("boot_id", &boot_id).map_err(DecodeError::Field)?,
        daemon: DaemonLife::of_restarted(daemon_restarted),
        facts: facts_of(facts)?,
        join: if join_allowed {
            JoinVerdict::Allowed
        } else {
            JoinVerdict::Denied
        },
    })
}

fn facts_of(document: Option<log::Document>) -> Result<Option<Arc<Node>>, DecodeError> {
    document.map(from_document).transpose()
}

fn synced_message(synced: &NodeSynced) -> Result<log::NodeSynced, EncodeError> {
    let NodeSynced {
        node,
        epoch,
        watch_index,
        changed,
        unchanged,
        facts,
    } = synced;
    let unchanged: Vec<u8> = unchanged.iter().flat_map(|id| *id.as_bytes()).collect();
    Ok(log::NodeSynced {
        node_id: id_bytes(node.as_bytes()),
        epoch: epoch.0,
        watch_index: *watch_index,
        changed: alloc_report_messages(changed),
        unchanged: Bytes::from(unchanged),
        facts: facts.as_deref().map(to_document).transpose()?,
    })
}

fn synced(message: log::NodeSynced) -> Result<NodeSynced, DecodeError> {
    let log::NodeSynced {
        node_id: id,
        epoch,
        watch_index,
        changed,
        unchanged,
        facts,
    } = message;
    let (ids, rest) = unchanged.as_chunks::<16>();
    if !rest.is_empty() {
        return Err(DecodeError::Field(ConvertError::Length {
            field: "unchanged",
            wanted: 16 * (ids.len() + 1),
            found: unchanged.len(),
        }));
    }
    Ok(NodeSynced {
        node: node_id("node_id", &id).map_err(DecodeError::Field)?,
        epoch: SessionEpoch(epoch),
        watch_index,
        changed: alloc_reports(changed).map_err(DecodeError::Field)?,
        unchanged: ids
            .iter()
            .map(|id| AllocId::from_u128(u128::from_be_bytes(*id)))
            .collect(),
        facts: facts_of(facts)?,
    })
}
