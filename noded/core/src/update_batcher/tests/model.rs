//! All of the invariants together, against a model of the control plane that loses, delays and
//! reorders whatever it can.

use proptest::prelude::*;
use protocol_model::ClientStatus;

use super::{EPOCH, live_with, report};
use crate::effect::StatusBatch;
use crate::test_support::at;
use crate::update_batcher::*;

/// The control plane, as the batcher may assume it: it records an item only if its revision is
/// newer, and a batch on its way may arrive late, never, or after a later one.
#[derive(Default)]
struct Model {
    recorded: BTreeMap<AllocId, (u64, AckedState)>,
    applied: AppliedSeqs,
    on_the_way: Vec<StatusBatch>,
}

impl Model {
    fn apply(&mut self, batch: &StatusBatch) -> Vec<ItemResult> {
        let seq = match batch.class {
            UpdateClass::Urgent => &mut self.applied.urgent,
            UpdateClass::Typical => &mut self.applied.typical,
        };
        *seq = (*seq).max(batch.seq);
        let record = |report: &AllocReport| {
            let newest = self
                .recorded
                .get(&report.id)
                .map_or(0, |(revision, _)| *revision);
            if report.revision <= newest {
                return ItemResult::Superseded;
            }
            self.recorded
                .insert(report.id, (report.revision, AckedState::of(report)));
            ItemResult::Applied
        };
        batch.reports.iter().map(record).collect()
    }
}

#[derive(Clone, Debug)]
enum Action {
    Update {
        number: u128,
        status: u8,
        restarts: u64,
    },
    Poll {
        wait: u64,
    },
    Deliver {
        offset: usize,
        answer: Answer,
    },
    Drop {
        offset: usize,
    },
    Reconnect,
}

/// What reaches the node of the control plane's answer.
#[derive(Clone, Copy, Debug)]
enum Answer {
    Arrives,
    Lost,
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        4 => (0..3_u128, 0..3_u8, 0..2_u64)
            .prop_map(|(number, status, restarts)| Action::Update { number, status, restarts }),
        4 => (0..1_500_u64).prop_map(|wait| Action::Poll { wait }),
        3 => (0..4_usize, prop_oneof![3 => Just(Answer::Arrives), 1 => Just(Answer::Lost)])
            .prop_map(|(offset, answer)| Action::Deliver { offset, answer }),
        1 => (0..4_usize).prop_map(|offset| Action::Drop { offset }),
        1 => Just(Action::Reconnect),
    ]
}

fn status_of(number: u8) -> ClientStatus {
    [
        ClientStatus::Pending,
        ClientStatus::Running,
        ClientStatus::Failed,
    ][usize::from(number)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]
    /// Once the network behaves, the control plane comes to know every allocation's newest state,
    /// whatever happened before, and then nothing more is said.
    #[test]
    fn the_control_plane_ends_up_with_the_newest_states(
        actions in prop::collection::vec(action(), 0..60),
    ) {
        let (mut batcher, mut model) = (live_with(0..0), Model::default());
        let mut newest: BTreeMap<AllocId, AckedState> = BTreeMap::new();
        let mut revisions: BTreeMap<AllocId, u64> = BTreeMap::new();
        let mut now = 0;
        let mut poll = |batcher: &mut UpdateBatcher, model: &mut Model, now: u64| {
            while let Some(batch) = batcher.poll_batch(at(now).moment) {
                for report in &batch.reports {
                    let newest = revisions.entry(report.id).or_default();
                    if report.revision > *newest {
                        *newest = report.revision;
                        continue;
                    }
                    // Only detail has no revision of its own: of what is recorded, and no more.
                    let recorded = model.recorded.get(&report.id);
                    let said = (report.revision, AckedState::of(report));
                    assert_eq!(recorded, Some(&said), "revisions rise");
                }
                model.on_the_way.push(batch);
            }
        };
        for action in actions {
            match action {
                Action::Update { number, status, restarts } => {
                    let report = report(number, status_of(status), restarts);
                    newest.insert(report.id, AckedState::of(&report));
                    batcher.on_update(report, at(now).moment);
                }
                Action::Poll { wait } => {
                    now += wait;
                    poll(&mut batcher, &mut model, now);
                }
                Action::Deliver { offset, answer } => {
                    if offset < model.on_the_way.len() {
                        let batch = model.on_the_way.remove(offset);
                        let results = model.apply(&batch);
                        match answer {
                            Answer::Arrives => {
                                batcher.on_ack(batch.class, batch.seq, &results, at(now).moment);
                            }
                            Answer::Lost => {}
                        }
                    }
                }
                Action::Drop { offset } => {
                    if offset < model.on_the_way.len() {
                        model.on_the_way.remove(offset);
                    }
                }
                // Batches of the connection before may still arrive afterwards.
                Action::Reconnect => {
                    batcher.on_disconnected();
                    let applied = model.applied;
                    batcher.on_session(EPOCH, SessionMode::Resumed, applied, at(now).moment);
                }
            }
        }
        batcher.on_disconnected();
        batcher.on_session(EPOCH, SessionMode::Resumed, model.applied, at(now).moment);
        for _ in 0..20 {
            now += 10_000;
            poll(&mut batcher, &mut model, now);
            for batch in std::mem::take(&mut model.on_the_way) {
                let results = model.apply(&batch);
                batcher.on_ack(batch.class, batch.seq, &results, at(now).moment);
            }
        }
        prop_assert_eq!(batcher.depth(), 0);
        let recorded: BTreeMap<AllocId, AckedState> =
            model.recorded.into_iter().map(|(id, (_, state))| (id, state)).collect();
        prop_assert_eq!(recorded, newest);
    }
}
