//! The lives of the daemon and of the host, and the journal that lies between them.

use super::{FakeHost, FakeRun, node, settings};
use crate::NodeCore;
use crate::event::{KeptPhase, KeptRun};
use crate::journal::{self, JournalRecord};
use crate::key::BootId;
use crate::task_runner::Boot;
use crate::test_support::at;

impl FakeHost {
    /// kill -9 of the daemon and a new one; the host may have been restarted in between.
    pub(in crate::node_core::tests) fn restart_daemon(&mut self, boot: Boot) {
        self.begin_daemon(boot);
        self.drain();
    }

    /// The host crashes: of the journal there is what was on the disk.
    pub(in crate::node_core::tests) fn crash(&mut self) {
        self.journal.truncate(self.synced);
        self.restart_daemon(Boot::Another);
    }

    /// As [`Self::restart_daemon`], and the new daemon is killed when it has carried out so many
    /// effects. Returns whether there were as many.
    pub(in crate::node_core::tests) fn restart_and_kill(
        &mut self,
        boot: Boot,
        effects: usize,
    ) -> bool {
        self.begin_daemon(boot);
        for _ in 0..effects {
            let Some(issued) = self.core.poll_effect() else {
                return false;
            };
            self.execute(issued.effect);
        }
        true
    }

    /// The journal's records of job specifications are damaged.
    pub(in crate::node_core::tests) fn lose_specs(&mut self) {
        self.journal.retain(|bytes| {
            let record = journal::decode(bytes).expect("decodes");
            !matches!(record, JournalRecord::Spec { .. })
        });
    }

    fn begin_daemon(&mut self, boot: Boot) {
        self.watching = None;
        self.pending.clear();
        if boot == Boot::Another {
            self.boot += 1;
            self.runs.clear();
            self.leases.clear();
            self.highest.clear();
        }
        let records = self
            .journal
            .iter()
            .map(|bytes| journal::decode(bytes).expect("decodes"));
        let restored = journal::replay(records);
        // As the daemon, which begins a new file.
        (self.synced, self.durable) = (self.journal.len(), restored.watermark);
        let kept = self.runs.iter().map(|(run, fake)| {
            let phase = match fake {
                FakeRun::Running { kill_at } => KeptPhase::Running {
                    pid: 1,
                    at: at(self.now).wall,
                    stopping: kill_at.is_some(),
                },
                FakeRun::Ended(exit) => KeptPhase::Exited(exit.clone()),
                FakeRun::NotStarted => KeptPhase::StartFailed {
                    message: "no".to_owned(),
                },
            };
            KeptRun {
                run: run.clone(),
                phase,
            }
        });
        let kept = kept.collect();
        let boot = BootId([self.boot; 16]);
        self.core = NodeCore::new(settings(), node(), restored, kept, boot, at(self.now));
        self.core.set_servers(1, at(self.now));
    }

    /// The journal is on the disk as it is.
    pub(super) fn sync(&mut self) {
        self.synced = self.journal.len();
        let records = self.journal.iter().rev();
        let mut records = records.map(|bytes| journal::decode(bytes).expect("decodes"));
        let newest = records.find_map(|record| match record {
            JournalRecord::Watermark { at } => Some(at),
            _ => None,
        });
        if let Some(newest) = newest {
            self.core.on_durable(newest);
            self.durable = newest;
        }
    }

    pub(super) fn append(&mut self, record: &JournalRecord) {
        let bytes = journal::encode(record).expect("encodes");
        assert_eq!(&journal::decode(&bytes).expect("decodes"), record);
        self.journal.push(bytes);
    }
}
