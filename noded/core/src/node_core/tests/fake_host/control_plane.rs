//! The control plane of the fake host: what it wants, and what it makes of what the node says.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use protocol_model::{AllocId, Allocation, DesiredStatus, Incarnation, Job, SpecHash};
use protocol_wire::report::AllocReport;

use super::FakeHost;
use crate::effect::{Hello, SessionMessage, UpdateClass};
use crate::event::{
    BatchAck, DesiredAlloc, Event, ItemResult, SessionEvent, WatchDelta, WatchMap, Welcome,
};
use crate::journal::{self, JournalRecord};
use crate::key::{Attempt, SessionEpoch, Watermark};
use crate::test_support::alloc_of;

impl FakeHost {
    /// The control plane wants a job: its allocation's id counts from 1.
    pub(in crate::node_core::tests) fn submit(&mut self, job: Job) -> AllocId {
        self.submit_as(job, self.desired.len() as u128 + 1)
    }

    /// As [`Self::submit`], where the number is not the next one.
    pub(in crate::node_core::tests) fn submit_as(&mut self, job: Job, number: u128) -> AllocId {
        let alloc = alloc_of(&job, AllocId::from_u128(number));
        let byte = u8::try_from(number).expect("few jobs");
        let spec = SpecHash([byte; 32]);
        self.jobs.insert(spec, Arc::new(job));
        self.want(Allocation { spec, ..alloc })
    }

    /// As [`Self::submit_as`]; the allocation takes the place of `previous`.
    pub(in crate::node_core::tests) fn submit_after(
        &mut self,
        job: Job,
        number: u128,
        previous: AllocId,
    ) -> AllocId {
        let mut alloc = alloc_of(&job, AllocId::from_u128(number));
        let byte = u8::try_from(number).expect("few jobs");
        alloc.spec = SpecHash([byte; 32]);
        alloc.previous_allocation = Some(previous);
        self.jobs.insert(alloc.spec, Arc::new(job));
        self.want(alloc)
    }

    pub(in crate::node_core::tests) fn want(&mut self, mut alloc: Allocation) -> AllocId {
        self.index += 1;
        alloc.alloc_modify_index = self.index;
        let id = alloc.id;
        self.desired.insert(id, (self.index, alloc));
        self.push_watch();
        id
    }

    /// It is to run on as another version of its job says.
    pub(in crate::node_core::tests) fn update_in_place(&mut self, id: AllocId, job: Job) {
        let (_, alloc) = self.desired[&id].clone();
        let number = u8::try_from(self.jobs.len()).expect("few jobs");
        let spec = SpecHash([100 + number; 32]);
        self.jobs.insert(spec, Arc::new(job));
        self.want(Allocation { spec, ..alloc });
    }

    pub(in crate::node_core::tests) fn stop(&mut self, id: AllocId) {
        if let Some((_, alloc)) = self.desired.get(&id).cloned() {
            self.want(Allocation {
                desired_status: DesiredStatus::Stop,
                ..alloc
            });
        }
    }

    pub(in crate::node_core::tests) fn purge(&mut self, id: AllocId) {
        if self.desired.remove(&id).is_some() {
            self.index += 1;
            self.push_watch();
        }
    }

    /// Sends what changed since the last message of the watch.
    fn push_watch(&mut self) {
        let Some((attempt, from)) = self.watching.filter(|_| self.online) else {
            return;
        };
        let changed = self.desired.values().filter(|(version, _)| *version > from);
        let changed: Vec<DesiredAlloc> = changed
            .map(|(version, alloc)| DesiredAlloc {
                root_key: 0,
                version: *version,
                spec: alloc.spec,
                alloc: alloc.clone(),
            })
            .collect();
        let wanted: BTreeSet<AllocId> = self.desired.keys().copied().collect();
        let removed = self.told.difference(&wanted).copied().collect();
        self.told = wanted;
        let specs = self
            .jobs
            .iter()
            .map(|(hash, job)| (*hash, Arc::clone(job)))
            .collect();
        let delta = WatchDelta {
            previous_index: from,
            index: self.index,
            specs,
            changed,
            removed,
        };
        self.watching = Some((attempt, self.index));
        let event = SessionEvent::WatchDelta(delta);
        self.pending.push_back(Event::Session { attempt, event });
    }

    /// The control plane is restored from a snapshot in which it wanted this: another incarnation,
    /// whose index goes on, and which knows none of the sessions.
    pub(in crate::node_core::tests) fn restore(
        &mut self,
        saved: BTreeMap<AllocId, (u64, Allocation)>,
    ) {
        self.desired = saved;
        self.incarnation = Incarnation::from_u128(self.incarnation.0.as_u128() + 1);
        self.index += 1000;
        self.epoch += 1000;
        self.applied = (0, 0);
        self.disconnect();
    }

    /// Tells what is wanted; of a session that went on, what the node does not name as `known`.
    pub(super) fn open_watch(&mut self, attempt: Attempt, known: Option<Vec<(AllocId, u64)>>) {
        if !self.online {
            return;
        }
        let at = Watermark {
            incarnation: Some(self.incarnation),
            index: self.index,
        };
        let allocs = self
            .desired
            .iter()
            .map(|(id, (version, _))| (*id, *version))
            .collect();
        let map = SessionEvent::WatchMap(WatchMap {
            at,
            part: 0,
            last: true,
            allocs,
        });
        self.session(attempt, map);
        // What the node lacks comes in a delta at the map's own index.
        // What it was told by another incarnation counts for nothing.
        let another = self.core.watermark().incarnation != at.incarnation;
        let named: Option<BTreeMap<_, _>> = known.map(|known| known.into_iter().collect());
        let acted_on = |alloc: AllocId| match &named {
            Some(named) => named.get(&alloc).copied(),
            None => self.core.alloc(alloc).map(|runner| runner.spec().version()),
        };
        let lacking = self.desired.values().filter(|(version, alloc)| {
            another || acted_on(alloc.id).is_none_or(|it| it < *version)
        });
        let changed: Vec<DesiredAlloc> = lacking
            .map(|(version, alloc)| {
                let alloc = alloc.clone();
                DesiredAlloc {
                    root_key: 0,
                    version: *version,
                    spec: alloc.spec,
                    alloc,
                }
            })
            .collect();
        let (previous_index, index) = (self.index, self.index);
        // One at a time: it is the last of them that moves the watermark.
        for desired in changed {
            let job = self.jobs.get(&desired.spec).cloned();
            let delta = WatchDelta {
                previous_index,
                index,
                specs: job.map(|job| (desired.spec, job)).into_iter().collect(),
                changed: vec![desired],
                removed: Vec::new(),
            };
            self.session(attempt, SessionEvent::WatchDelta(delta));
        }
        self.told = self.desired.keys().copied().collect();
        self.watching = Some((attempt, self.index));
    }

    pub(super) fn receive(&mut self, attempt: Attempt, message: SessionMessage) {
        match message {
            SessionMessage::Hello(hello) => self.greet(attempt, &hello),
            SessionMessage::Detail { epoch, parts } => {
                assert_eq!(epoch.0, self.epoch);
                let reports = parts.iter().flatten();
                self.log
                    .extend(reports.map(|it| format!("detail: {}", it.id)));
            }
            SessionMessage::SyncPart(part) => {
                for report in part.reports {
                    self.record(report);
                }
                if part.last {
                    let epoch = SessionEpoch(self.epoch);
                    self.session(
                        attempt,
                        SessionEvent::SyncAck {
                            epoch,
                            index: self.index,
                        },
                    );
                }
            }
            SessionMessage::Heartbeat { tick, sent, .. } => {
                let confirmed = sent.0.saturating_sub(self.confirmed_behind);
                let confirmed = u64::try_from(confirmed.as_nanos()).expect("soon");
                let ack = crate::event::HeartbeatAck {
                    tick,
                    typical_interval: self.typical_interval,
                    confirmed_sent_nanos: confirmed.max(1),
                    cut_off: false,
                    pace: Duration::ZERO,
                };
                self.session(attempt, SessionEvent::HeartbeatAck(ack));
            }
            SessionMessage::Facts { epoch } => {
                self.session(attempt, SessionEvent::FactsAck { epoch });
            }
            SessionMessage::WatchAck { index, .. } => self.take_watch_ack(index),
            SessionMessage::StatusBatch(_) if self.slow => {}
            SessionMessage::StatusBatch(batch) => {
                match batch.class {
                    UpdateClass::Urgent => self.applied.0 = batch.seq,
                    UpdateClass::Typical => self.applied.1 = batch.seq,
                }
                if batch.reports.iter().any(AllocReport::is_terminal) {
                    assert_eq!(
                        self.synced,
                        self.journal.len(),
                        "a terminal status is durable"
                    );
                }
                let results = vec![ItemResult::Applied; batch.reports.len()];
                for report in batch.reports {
                    self.record(report);
                }
                let (class, seq, index) = (batch.class, batch.seq, self.index);
                let ack = BatchAck {
                    class,
                    seq,
                    index,
                    results,
                };
                self.session(attempt, SessionEvent::BatchAck(ack));
            }
        }
    }

    /// A stop that is acknowledged is durable.
    fn take_watch_ack(&mut self, index: u64) {
        self.acked_index = index;
        for bytes in self.journal.iter().skip(self.synced) {
            let record = journal::decode(bytes).expect("decodes");
            let stops = match &record {
                JournalRecord::Desired { alloc, .. } => alloc.server_terminal(),
                JournalRecord::DestroyWanted { .. } => true,
                _ => false,
            };
            assert!(!stops, "acknowledged before it is durable: {record:?}");
        }
    }

    fn greet(&mut self, attempt: Attempt, hello: &Hello) {
        let (named, safe) = (hello.watermark, self.durable);
        assert!(
            named == safe,
            "a crash may make less of {named:?} than {safe:?}"
        );
        let resumed = !hello.daemon.is_restarted() && hello.last_epoch.0 == self.epoch;
        if !resumed {
            self.epoch += 1;
        }
        self.session(attempt, SessionEvent::Welcome(self.welcome(resumed)));
    }

    fn record(&mut self, report: AllocReport) {
        self.recorded.insert(report.id, report);
    }

    fn welcome(&self, resumed: bool) -> Welcome {
        Welcome {
            epoch: SessionEpoch(self.epoch),
            resumed,
            applied_urgent_seq: self.applied.0,
            applied_typical_seq: self.applied.1,
            heartbeat_interval: Duration::from_millis(125),
            calm_interval: Duration::from_millis(500),
            typical_interval: Duration::from_secs(1),
            urgent_delay: Duration::from_millis(10),
            retry_interval: Duration::from_millis(250),
            applied: Watermark {
                incarnation: Some(self.incarnation),
                index: self.index,
            },
            servers: 1,
            newcomer: resumed,
        }
    }
}
