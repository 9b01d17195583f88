//! Update streams: a node's batches, through the coalescer, and their acknowledgements.

use controlplane_state::command::NodeBatch;
use controlplane_state::news::{self, CompleteReport};
use controlplane_state::watch::is_ready;
use controlplane_state::{ItemResult, ReportMark, SessionEpoch, Snapshot};
use protocol_model::{AllocId, NodeId};
use protocol_transport::{FrameReader, FrameWriter, URGENT_PRIORITY};
use protocol_wire::kind::FrameMessage as _;
use protocol_wire::report::AllocReport;
use protocol_wire::v1::{self, UpdateClass};

use super::detail::{self, AllocEvents};
use super::frames::{parse, write};
use super::streams::{self, OwnStream};
use super::{Gateway, NODE_FRAME_BYTES_MAX, reports};

/// Bytes of one batch. Nodes send 256 KiB at most (and one report that is larger alone); a stream
/// that brings more is ended with the reason. Such a batch makes an entry of its own.
const BATCH_BYTES_MAX: usize = 2 * 1024 * 1024;

/// Serves one update stream: a batch, its acknowledgement, the next batch.
pub(super) async fn serve(
    gateway: &Gateway,
    send: quinn::SendStream,
    recv: quinn::RecvStream,
    connection: &quinn::Connection,
) {
    if let Err(reason) = run_stream(gateway, send, recv, connection).await {
        tracing::debug!(%reason, "update stream ended");
    }
}

async fn run_stream(
    gateway: &Gateway,
    send: quinn::SendStream,
    recv: quinn::RecvStream,
    connection: &quinn::Connection,
) -> Result<(), String> {
    let mut reader = FrameReader::new(recv, BATCH_BYTES_MAX);
    let mut writer = FrameWriter::new(send, NODE_FRAME_BYTES_MAX);
    let own = streams::own(gateway, &mut reader, connection).await?;
    if own.hello.class() == UpdateClass::Urgent {
        writer.set_priority(URGENT_PRIORITY);
    }
    while let Some(frame) = reader.read().await.map_err(|error| error.to_string())? {
        let bytes = frame.body.len();
        if frame.kind == v1::DetailReport::KIND {
            take_in_detail(gateway, &own, parse(frame.kind, frame.body)?)?;
            continue;
        }
        let batch: v1::StatusBatch = parse(frame.kind, frame.body)?;
        let ack = tokio::select! {
            ack = take_in_batch(gateway, &own, batch, bytes) => ack?,
            // Its node tells it again in its next session: what waits for the log makes room.
            () = writer.abandoned() => return Err("the node closed the stream".to_owned()),
        };
        write(&mut writer, &ack).await?;
    }
    Ok(())
}

/// Judges a batch of `bytes`: what the log has no use for here, the rest by the log.
async fn take_in_batch(
    gateway: &Gateway,
    own: &OwnStream,
    batch: v1::StatusBatch,
    bytes: usize,
) -> Result<v1::BatchAck, String> {
    let (node, epoch) = (own.node, own.epoch);
    if batch.epoch != epoch.0 {
        return Err(format!(
            "node {node} speaks of epoch {} in session {epoch}",
            batch.epoch
        ));
    }
    let (class, seq) = (batch.class(), batch.seq);
    let reports = reports::from_wire(batch.allocs).map_err(|error| error.to_string())?;
    metrics::histogram!("drover_update_batch_reports").record(reports.len() as f64);
    let volatile = detail::events(&reports);
    let known = gateway.cluster.snapshot();
    let answer = |report: &AllocReport| {
        // The state of a follower may be older than what it has told its nodes.
        let told_here = gateway.detail.revision(report.id, epoch);
        answer_at_hand(&known, epoch, told_here, report)
    };
    let (news, at_hand) = told_apart(reports, answer);
    let (index, judged) = if news.is_empty() {
        if !is_ready(&known, node, epoch) {
            return Err(format!("session {epoch} of node {node} is not ready"));
        }
        (known.index(), Vec::new())
    } else {
        let reported = CompleteReport {
            node,
            epoch,
            ours: true,
            watch_index: 0,
            reports: news,
            facts: None,
        };
        let repeated = count_repeated(&reported, &known);
        metrics::counter!("drover_update_repeated_reports").increment(repeated);
        // Nobody changes the past, and a commit may take long.
        drop(known);
        let batch = NodeBatch {
            node,
            epoch,
            class,
            seq,
            reports: news::durable(reported.reports),
        };
        propose(gateway, batch, bytes).await?
    };
    let results = in_order(at_hand, judged);
    // The state has judged whose allocations these are; of a batch that another server took in
    // before, it says nothing.
    let snapshot = gateway.cluster.snapshot();
    let events = own_events(volatile, &results, |alloc| is_own(&snapshot, alloc, node));
    gateway.with_detail(node, epoch, |detail| detail.take_in(own.told(), events));
    Ok(v1::BatchAck {
        class: class.into(),
        seq,
        index,
        results: results.into_iter().map(Into::into).collect(),
    })
}

async fn propose(
    gateway: &Gateway,
    batch: NodeBatch,
    bytes: usize,
) -> Result<(u64, Vec<ItemResult>), String> {
    let node = batch.node;
    let (index, result) = gateway
        .coalescer
        .submit(batch, bytes)
        .await
        .map_err(|error| error.to_string())?;
    match result.rejected {
        None => Ok((index, result.results)),
        Some(rejected) => Err(format!(
            "the batch of node {node} was turned away: {rejected:?}"
        )),
    }
}

/// What the state would say to a report that is not newer than what it has judged already: its
/// node sends it for its events, which never enter the log. `None` = the log has to judge it.
///
/// A node sends events that are all there is to tell under the revision of the report that they
/// belong to, or under 0 where that was the complete one of the session's beginning. That a report
/// says what the state says would not be enough: an earlier one may be on its way still.
fn answer_at_hand(
    known: &Snapshot,
    epoch: SessionEpoch,
    told_here: Option<u64>,
    report: &AllocReport,
) -> Option<ItemResult> {
    let mark = known.alloc_report_mark(report.id);
    // The first that is heard of an allocation is that its node accepted it.
    let is_detail = report.revision == 0 && mark != ReportMark::default();
    let of_state = (mark.epoch == epoch).then_some(mark.revision);
    let is_judged = of_state.max(told_here) >= Some(report.revision);
    (is_detail || is_judged).then_some(ItemResult::Superseded)
}

fn is_own(snapshot: &Snapshot, alloc: AllocId, node: NodeId) -> bool {
    let alloc = snapshot.alloc(alloc);
    alloc.is_some_and(|alloc| alloc.node_id == node)
}

/// The reports that the log has to judge, and for each of all what is answered without it.
fn told_apart(
    reports: Vec<AllocReport>,
    answer: impl Fn(&AllocReport) -> Option<ItemResult>,
) -> (Vec<AllocReport>, Vec<Option<ItemResult>>) {
    let at_hand: Vec<_> = reports.iter().map(answer).collect();
    let judged = reports.into_iter().zip(&at_hand);
    let news = judged.filter(|(_, answer)| answer.is_none());
    (news.map(|(report, _)| report).collect(), at_hand)
}

/// One result per report, in the order of the batch.
fn in_order(at_hand: Vec<Option<ItemResult>>, judged: Vec<ItemResult>) -> Vec<ItemResult> {
    let mut judged = judged.into_iter();
    // A report of which the log says nothing comes again.
    let mut next = || judged.next().unwrap_or(ItemResult::NotInSession);
    let results = at_hand.into_iter();
    results
        .map(|result| result.unwrap_or_else(&mut next))
        .collect()
}

/// How many reports say again what is recorded: their node had no answer to them, or none that it
/// could rely on. What it sends for its events alone is not among them, except where these belong
/// to a last word.
fn count_repeated(reported: &CompleteReport, known: &Snapshot) -> u64 {
    reported.repeated(known) as u64
}

/// Events that the session's last server was told.
fn take_in_detail(
    gateway: &Gateway,
    own: &OwnStream,
    detail: v1::DetailReport,
) -> Result<(), String> {
    let (node, epoch) = (own.node, own.epoch);
    if detail.epoch != epoch.0 {
        return Err(format!(
            "node {node} tells detail of epoch {} in session {epoch}",
            detail.epoch
        ));
    }
    let reports = reports::from_wire(detail.allocs).map_err(|error| error.to_string())?;
    let snapshot = gateway.cluster.snapshot();
    let events = detail::events(&reports).into_iter();
    let events = events.filter(|events| is_own(&snapshot, events.alloc(), node));
    gateway.with_detail(node, epoch, |detail| {
        detail.take_in_whole(own.told(), events);
    });
    Ok(())
}

/// The events of the node's own allocations: those whose report was taken in, or that `is_own`.
fn own_events(
    events: Vec<AllocEvents>,
    results: &[ItemResult],
    is_own: impl Fn(AllocId) -> bool,
) -> Vec<AllocEvents> {
    let judged = events.into_iter().zip(results);
    judged
        .filter(|(events, item)| **item == ItemResult::Applied || is_own(events.alloc()))
        .map(|(events, _)| events)
        .collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use controlplane_state::Command;
    use controlplane_state::command::PlanApply;
    use hack_testkit::{World, allocs, jobs, nodes};
    use protocol_model::{ClientStatus, JobType};

    use super::*;

    const AT_HAND: Option<ItemResult> = Some(ItemResult::Superseded);

    /// A state with an allocation.
    fn placed() -> (World, NodeId, AllocId) {
        let mut world = World::new();
        let node = world.add_node(nodes::node(1));
        let eval = world.register(jobs::job(JobType::Service, "web", 1));
        let alloc = allocs::allocation(&world.snapshot(), &eval.job_key(), node);
        let id = alloc.id;
        world.expect(Command::PlanApply(Box::new(PlanApply {
            placed: vec![Arc::new(alloc)],
            ..PlanApply::default()
        })));
        (world, node, id)
    }

    #[test]
    fn only_what_is_judged_already_is_answered_without_the_log() {
        let (mut world, node, alloc) = placed();
        let epoch = world.epoch(node);
        let answer = |world: &World, epoch, told_here, revision| {
            let report = AllocReport::new(alloc, revision, ClientStatus::Running);
            answer_at_hand(&world.snapshot(), epoch, told_here, &report)
        };
        // Nobody has heard of it: even that it is there is news.
        assert_eq!([0, 1].map(|it| answer(&world, epoch, None, it)), [None; 2]);
        world.report(alloc, ClientStatus::Running);
        let mark = world.snapshot().alloc_report_mark(alloc);
        let by_state = |revision| answer(&world, epoch, None, revision);
        let revisions = [0, mark.revision, mark.revision + 1];
        assert_eq!(revisions.map(by_state), [AT_HAND, AT_HAND, None]);
        // A follower has told its node more than its state knows yet.
        let told = Some(mark.revision + 1);
        assert_eq!(answer(&world, epoch, told, mark.revision + 1), AT_HAND);
        assert_eq!(answer(&world, epoch, told, mark.revision + 2), None);
        // What the state says it has from a session that is over: an earlier report of this one
        // may be on its way still, so that it is the same is no reason.
        let next = SessionEpoch(epoch.0 + 100);
        let by_state = |revision| answer(&world, next, None, revision);
        assert_eq!(revisions.map(by_state), [AT_HAND, None, None]);
    }

    #[test]
    fn a_report_is_repeated_that_says_what_is_recorded_whatever_its_revision() {
        let (mut world, node, alloc) = placed();
        world.report(alloc, ClientStatus::Running);
        let known = world.snapshot();
        let stored = known.alloc(alloc).expect("it is placed");
        let mut again = AllocReport::new(alloc, 1_000, ClientStatus::Running);
        again.task_states.clone_from(&stored.task_states);
        let ended = AllocReport {
            client_status: ClientStatus::Complete,
            ..again.clone()
        };
        let count = |reports| {
            let reported = CompleteReport {
                node,
                epoch: world.epoch(node),
                ours: true,
                watch_index: 0,
                reports,
                facts: None,
            };
            count_repeated(&reported, &known)
        };
        assert_eq!(count(vec![again.clone()]), 1);
        assert_eq!(count(vec![ended.clone()]), 0);
        assert_eq!(count(vec![ended, again.clone(), again]), 2);
    }

    #[test]
    fn results_come_in_the_order_of_the_reports() {
        let report = |revision| {
            let id = AllocId::from_u128(u128::from(revision));
            AllocReport::new(id, revision, ClientStatus::Running)
        };
        let is_known = |it: &AllocReport| {
            it.revision
                .is_multiple_of(2)
                .then_some(ItemResult::Superseded)
        };
        let (news, at_hand) = told_apart((1..6).map(report).collect(), is_known);
        assert_eq!(news, [1, 3, 5].map(report));
        let judged = vec![ItemResult::Applied, ItemResult::UnknownAlloc];
        let results = in_order(at_hand, judged);
        let wanted = [
            ItemResult::Applied,
            ItemResult::Superseded,
            ItemResult::UnknownAlloc,
            ItemResult::Superseded,
            ItemResult::NotInSession,
        ];
        assert_eq!(results, wanted);
    }
}
