//! The messages of the protocol, and the domain values that are made of them.
//!
//! Input: a frame's kind byte, then its body, as in the frozen bytes of `protocol/wire`.

use std::fmt::Debug;
use std::io::Read;

use bytes::Bytes;
use protocol_model::{Allocation, Node};
use protocol_wire::convert::{
    ConvertError, alloc_id, alloc_report_messages, alloc_reports, bytes16, bytes32, incarnation,
    node_id, spec_hash,
};
use protocol_wire::kind::{FrameMessage, from_frame, to_frame};
use protocol_wire::v1;

use crate::{Verdict, jobs};

/// More than any specification in the seeds, less than a decompression bomb makes.
const SPEC_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// Decodes the body as the message that its kind says it is, and then all that the message holds.
pub fn wire_message(data: &[u8]) -> Verdict {
    let Some((&kind, body)) = data.split_first() else {
        return Verdict::Refused("there is no kind".to_owned());
    };
    let body = Bytes::copy_from_slice(body);
    macro_rules! by_kind {
        ($($message:ident $check:expr),* $(,)?) => {
            match kind {
                $(<v1::$message as FrameMessage>::KIND => {
                    read::<v1::$message>(kind, body, $check)
                })*
                unknown => match from_frame::<v1::Attached>(unknown, body) {
                    Ok(message) => panic!("kind {unknown} is read as {message:?}"),
                    Err(error) => Verdict::refused(&error),
                },
            }
        };
    }
    by_kind! {
        Hello hello,
        Welcome |message: v1::Welcome| watermark(message.applied),
        Refused nothing_inside,
        Heartbeat nothing_inside,
        HeartbeatAck nothing_inside,
        WatchAck nothing_inside,
        SyncPart |message: v1::SyncPart| {
            facts(message.facts);
            reports(message.allocs)
        },
        SyncAck nothing_inside, Attached nothing_inside, CallsWanted nothing_inside,
        StatusBatch |message: v1::StatusBatch| reports(message.allocs),
        BatchAck nothing_inside,
        DetailReport |message: v1::DetailReport| reports(message.allocs),
        FactsUpdate |message: v1::FactsUpdate| {
            facts(message.facts);
            Ok(())
        },
        FactsAck nothing_inside,
        AttachBulk |message: v1::AttachBulk| {
            node_id("node_id", &message.node_id)?;
            bytes32("secret", &message.secret).map(drop)
        },
        StreamHello |message: v1::StreamHello| node_id("node_id", &message.node_id).map(drop),
        WatchMap watch_map,
        WatchKnown |message: v1::WatchKnown| watch_known(&message),
        WatchDelta watch_delta,
        NodeRequest |message: v1::NodeRequest| node_request(&message),
        NodeReply nothing_inside,
        ExecInput nothing_inside, QueryRequest nothing_inside, QueryReply nothing_inside,
        ApiRequest nothing_inside, ApiResponse nothing_inside, ApiBody nothing_inside,
        ProposeRequest |message: v1::ProposeRequest| {
            crate::log_entry(&message.command);
            Ok(())
        },
        ProposeReply |message: v1::ProposeReply| {
            crate::log_outcome(&message.response);
            Ok(())
        },
        LivenessReport |message: v1::LivenessReport| liveness_report(&message),
        LivenessConfirmed nothing_inside,
        RelayRequest |message: v1::RelayRequest| node_id("node_id", &message.node_id).map(drop),
        Relayed nothing_inside,
        DetailRequest |message: v1::DetailRequest| detail_request(&message),
        DetailReply detail_reply,
        MembershipRequest nothing_inside, MembershipReply nothing_inside,
        AboutRequest nothing_inside, AboutReply nothing_inside, KekRequest nothing_inside,
        KekReply nothing_inside, KekStore nothing_inside, KekProofRequest nothing_inside,
        KekProofReply nothing_inside, LockRenewRequest nothing_inside,
        LockRenewReply nothing_inside,
    }
}

/// Reads one message, and checks that it survives being written.
fn read<M>(
    kind: u8,
    body: Bytes,
    look_inside: impl FnOnce(M) -> Result<(), ConvertError>,
) -> Verdict
where
    M: FrameMessage + Clone + PartialEq + Debug,
{
    let message: M = match from_frame(kind, body) {
        Ok(message) => message,
        Err(error) => return Verdict::refused(&error),
    };
    let (written_kind, written) = to_frame(&message);
    let again = from_frame::<M>(written_kind, written).expect("what was written is read");
    assert_eq!(again, message);
    match look_inside(message) {
        Ok(()) => Verdict::Understood,
        Err(error) => Verdict::refused(&error),
    }
}

fn nothing_inside<M>(_: M) -> Result<(), ConvertError> {
    Ok(())
}

fn node_request(message: &v1::NodeRequest) -> Result<(), ConvertError> {
    // One about the host names no allocation.
    if message.alloc_id.is_empty() {
        return Ok(());
    }
    alloc_id("alloc_id", &message.alloc_id).map(drop)
}

fn liveness_report(message: &v1::LivenessReport) -> Result<(), ConvertError> {
    let mut nodes = message.heard.iter();
    nodes.try_for_each(|heard| node_id("node_id", &heard.node_id).map(drop))
}

fn detail_request(message: &v1::DetailRequest) -> Result<(), ConvertError> {
    let mut ids = message.alloc_ids.iter();
    ids.try_for_each(|id| alloc_id("alloc_ids", id).map(drop))
}

fn hello(message: v1::Hello) -> Result<(), ConvertError> {
    facts(message.facts);
    node_id("node_id", &message.node_id)?;
    bytes32("secret", &message.secret)?;
    bytes16("nonce", &message.nonce)?;
    bytes16("boot_id", &message.boot_id)?;
    watermark(message.watermark)
}

fn watermark(message: Option<v1::Watermark>) -> Result<(), ConvertError> {
    match message {
        None => Ok(()),
        Some(at) => incarnation("incarnation", &at.incarnation).map(drop),
    }
}

fn facts(message: Option<v1::NodeFacts>) {
    let json = message.map(|facts| facts.json).unwrap_or_default();
    if let Ok(node) = serde_json::from_slice::<Node>(&json) {
        let written = serde_json::to_vec(&node).expect("facts have a form in JSON");
        let again: Node = serde_json::from_slice(&written).expect("what was written is read");
        assert_eq!(again, node);
    }
}

fn reports(messages: Vec<v1::AllocReport>) -> Result<(), ConvertError> {
    let reports = alloc_reports(messages)?;
    let again = alloc_reports(alloc_report_messages(&reports)).expect("what was written is read");
    assert_eq!(again, reports);
    Ok(())
}

fn watch_map(message: v1::WatchMap) -> Result<(), ConvertError> {
    for alloc in &message.allocs {
        alloc_id("allocs", &alloc.alloc_id)?;
    }
    watermark(message.at)
}

fn watch_known(message: &v1::WatchKnown) -> Result<(), ConvertError> {
    message
        .allocs
        .iter()
        .try_for_each(|alloc| alloc_id("allocs", &alloc.alloc_id).map(drop))
}

fn watch_delta(message: v1::WatchDelta) -> Result<(), ConvertError> {
    for spec in message.specs {
        specification(&spec.json_zstd);
        spec_hash("hash", &spec.hash)?;
    }
    for desired in message.changed {
        if let Ok(alloc) = serde_json::from_slice::<Allocation>(&desired.json) {
            let written = serde_json::to_vec(&alloc).expect("an allocation has a form in JSON");
            let again: Allocation =
                serde_json::from_slice(&written).expect("what was written is read");
            assert_eq!(again, alloc);
        }
        spec_hash("spec_hash", &desired.spec_hash)?;
        alloc_id("alloc_id", &desired.alloc_id)?;
    }
    let mut removed = message.removed.iter();
    removed.try_for_each(|id| alloc_id("removed", id).map(drop))
}

fn specification(compressed: &[u8]) {
    let Ok(decoder) = zstd::stream::read::Decoder::new(compressed) else {
        return;
    };
    let mut json = Vec::new();
    if decoder.take(SPEC_BYTES_MAX).read_to_end(&mut json).is_ok() {
        jobs::job_document(&json);
    }
}

fn detail_reply(message: v1::DetailReply) -> Result<(), ConvertError> {
    // A detail is a report that says nothing but its tasks.
    let details = message.details.into_iter().map(|detail| v1::AllocReport {
        alloc_id: detail.alloc_id,
        tasks: detail.tasks,
        ..v1::AllocReport::default()
    });
    reports(details.collect())
}
