//! Between the wire's messages and the core's events. What makes no sense is an error that ends the
//! attempt.

use std::sync::Arc;
use std::time::Duration;

use noded_core::Watermark;
use noded_core::effect::{StatusBatch, SyncPart, UpdateClass};
use noded_core::event::{
    BatchAck, DesiredAlloc, HeartbeatAck, ItemResult, Refused, RefusedReason, WatchDelta, WatchMap,
    Welcome,
};
use noded_core::key::SessionEpoch;
use noded_core::time::Moment;
use protocol_model::{AllocId, Allocation, Job, SpecHash};
use protocol_wire::compression::decompress_bounded;
use protocol_wire::convert::{alloc_id, incarnation, spec_hash};
use protocol_wire::report::AllocReport;
use protocol_wire::v1;

/// The largest job specification, unpacked.
const SPEC_BYTES_MAX: usize = 32 * 1024 * 1024;

pub(super) fn class(class: UpdateClass) -> v1::UpdateClass {
    match class {
        UpdateClass::Urgent => v1::UpdateClass::Urgent,
        UpdateClass::Typical => v1::UpdateClass::Typical,
    }
}

pub(super) fn watermark(watermark: &Watermark) -> v1::Watermark {
    v1::Watermark {
        incarnation: watermark
            .incarnation
            .map(|incarnation| incarnation.as_bytes().to_vec().into())
            .unwrap_or_default(),
        index: watermark.index,
    }
}

pub(super) fn sync_part(part: &SyncPart, facts: Option<v1::NodeFacts>) -> v1::SyncPart {
    v1::SyncPart {
        epoch: part.epoch.0,
        part: part.part,
        last: part.last,
        watch_index: part.watch_index,
        allocs: part.reports.iter().map(Into::into).collect(),
        facts,
        allocs_total: part.total,
    }
}

pub(super) fn status_batch(batch: &StatusBatch) -> v1::StatusBatch {
    v1::StatusBatch {
        epoch: batch.epoch.0,
        class: class(batch.class).into(),
        seq: batch.seq,
        allocs: batch.reports.iter().map(Into::into).collect(),
    }
}

pub(super) fn heartbeat(epoch: SessionEpoch, tick: u64, sent: Moment) -> v1::Heartbeat {
    v1::Heartbeat {
        epoch: epoch.0,
        tick,
        sent_boottime_ns: sent.as_nanos(),
    }
}

pub(super) fn detail(epoch: SessionEpoch, reports: &[AllocReport]) -> v1::DetailReport {
    v1::DetailReport {
        epoch: epoch.0,
        allocs: reports.iter().map(Into::into).collect(),
    }
}

pub(super) fn watch_known(known: &[(AllocId, u64)]) -> v1::WatchKnown {
    let allocs = known.iter().map(|(alloc, version)| v1::AllocVersion {
        alloc_id: alloc.as_bytes().to_vec().into(),
        version: *version,
    });
    v1::WatchKnown {
        allocs: allocs.collect(),
    }
}

pub(super) fn welcome(message: &v1::Welcome) -> Result<(Welcome, Vec<String>), String> {
    let welcome = Welcome {
        epoch: SessionEpoch(message.epoch),
        resumed: message.resumed,
        applied_urgent_seq: message.applied_urgent_seq,
        applied_typical_seq: message.applied_typical_seq,
        heartbeat_interval: millis(message.heartbeat_interval_ms),
        calm_interval: millis(message.calm_interval_ms),
        typical_interval: millis(message.typical_interval_ms),
        urgent_delay: millis(message.urgent_delay_ms),
        retry_interval: millis(message.retry_interval_ms),
        applied: from_watermark(message.applied.as_ref())?,
        servers: message.servers.len(),
        newcomer: message.newcomer,
    };
    Ok((welcome, addresses(&message.servers)))
}

pub(super) fn refused(message: &v1::Refused) -> (Refused, Vec<String>) {
    let reason = match message.reason() {
        v1::RefusedReason::Unspecified | v1::RefusedReason::OtherIncarnation => {
            RefusedReason::Other
        }
        v1::RefusedReason::NoLeader => RefusedReason::NoLeader,
        v1::RefusedReason::Behind => RefusedReason::Behind,
        v1::RefusedReason::WrongSecret => RefusedReason::WrongSecret,
        v1::RefusedReason::JoinToken => RefusedReason::JoinToken,
        v1::RefusedReason::Protocol => RefusedReason::Protocol,
        v1::RefusedReason::Unregistered => RefusedReason::Unregistered,
        v1::RefusedReason::Overloaded => RefusedReason::Overloaded,
        v1::RefusedReason::Malformed => RefusedReason::Malformed,
        v1::RefusedReason::NotInSession => RefusedReason::NotInSession,
    };
    let refused = Refused {
        reason,
        message: message.message.clone(),
        retry_interval: millis(message.retry_interval_ms),
        servers: message.servers.len(),
    };
    (refused, addresses(&message.servers))
}

pub(super) fn heartbeat_ack(message: &v1::HeartbeatAck) -> HeartbeatAck {
    HeartbeatAck {
        tick: message.tick,
        typical_interval: millis(message.typical_interval_ms),
        confirmed_sent_nanos: message.confirmed_sent_boottime_ns,
        cut_off: message.cut_off,
        pace: millis(message.pace_ms),
    }
}

pub(super) fn batch_ack(message: &v1::BatchAck) -> Result<BatchAck, String> {
    let class = match message.class() {
        v1::UpdateClass::Urgent => UpdateClass::Urgent,
        v1::UpdateClass::Typical => UpdateClass::Typical,
    };
    let results = message.results.iter().map(|raw| {
        v1::ItemResult::try_from(*raw)
            .map(|result| match result {
                v1::ItemResult::Applied => ItemResult::Applied,
                v1::ItemResult::Superseded => ItemResult::Superseded,
                v1::ItemResult::NotInSession => ItemResult::NotInSession,
                v1::ItemResult::UnknownAlloc => ItemResult::UnknownAlloc,
            })
            .map_err(|_| format!("results: unknown value {raw}"))
    });
    Ok(BatchAck {
        class,
        seq: message.seq,
        index: message.index,
        results: results.collect::<Result<_, _>>()?,
    })
}

pub(super) fn watch_map(message: &v1::WatchMap) -> Result<WatchMap, String> {
    let allocs = message
        .allocs
        .iter()
        .map(|alloc| Ok((alloc_id("alloc_id", &alloc.alloc_id)?, alloc.version)))
        .collect::<Result<_, protocol_wire::convert::ConvertError>>()
        .map_err(|error| error.to_string())?;
    Ok(WatchMap {
        at: from_watermark(message.at.as_ref())?,
        part: message.part,
        last: message.last,
        allocs,
    })
}

pub(super) fn watch_delta(message: &v1::WatchDelta) -> Result<WatchDelta, String> {
    let removed = message
        .removed
        .iter()
        .map(|id| alloc_id("removed", id).map_err(|error| error.to_string()));
    Ok(WatchDelta {
        previous_index: message.previous_index,
        index: message.index,
        specs: message.specs.iter().map(spec).collect::<Result<_, _>>()?,
        changed: message
            .changed
            .iter()
            .map(desired)
            .collect::<Result<_, _>>()?,
        removed: removed.collect::<Result<_, _>>()?,
    })
}

fn desired(message: &v1::DesiredAlloc) -> Result<DesiredAlloc, String> {
    let id = alloc_id("alloc_id", &message.alloc_id).map_err(|error| error.to_string())?;
    let alloc: Allocation = serde_json::from_slice(&message.json)
        .map_err(|error| format!("allocation {id} makes no sense: {error}"))?;
    if alloc.id != id {
        return Err(format!("allocation {id} came under the id {}", alloc.id));
    }
    Ok(DesiredAlloc {
        root_key: message.root_key,
        version: message.version,
        spec: spec_hash("spec_hash", &message.spec_hash).map_err(|error| error.to_string())?,
        alloc,
    })
}

fn spec(message: &v1::JobSpec) -> Result<(SpecHash, Arc<Job>), String> {
    let hash = spec_hash("hash", &message.hash).map_err(|error| error.to_string())?;
    let wrong = |error: String| format!("job specification {hash} makes no sense: {error}");
    let json = decompress_bounded(&message.json_zstd, SPEC_BYTES_MAX)
        .map_err(|error| wrong(error.to_string()))?
        .ok_or_else(|| wrong(format!("it is larger than {SPEC_BYTES_MAX} bytes")))?;
    let job = serde_json::from_slice(&json).map_err(|error| wrong(error.to_string()))?;
    Ok((hash, Arc::new(job)))
}

fn from_watermark(message: Option<&v1::Watermark>) -> Result<Watermark, String> {
    let Some(message) = message else {
        return Ok(Watermark::default());
    };
    Ok(Watermark {
        incarnation: incarnation("incarnation", &message.incarnation)
            .map_err(|error| error.to_string())?,
        index: message.index,
    })
}

fn addresses(servers: &[v1::ServerAddress]) -> Vec<String> {
    servers
        .iter()
        .map(|server| server.address.clone())
        .collect()
}

fn millis(value: u32) -> Duration {
    Duration::from_millis(u64::from(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_specification_that_unpacks_without_end_is_refused() {
        let zeros = vec![b' '; SPEC_BYTES_MAX + 2];
        let packed = zstd::encode_all(zeros.as_slice(), 1).unwrap();
        let message = v1::JobSpec {
            hash: vec![1; 32].into(),
            json_zstd: packed.into(),
        };
        assert!(spec(&message).unwrap_err().contains("larger"));
    }

    #[test]
    fn an_allocation_under_another_id_is_refused() {
        let message = v1::DesiredAlloc {
            alloc_id: vec![1; 16].into(),
            version: 1,
            spec_hash: vec![1; 32].into(),
            json: b"{}".to_vec().into(),
            root_key: 0,
        };
        assert!(desired(&message).unwrap_err().contains("makes no sense"));
        let map = v1::WatchMap {
            allocs: vec![v1::AllocVersion::default()],
            ..v1::WatchMap::default()
        };
        assert!(watch_map(&map).unwrap_err().contains("alloc_id"));
    }
}
