//! What operators and the shell want of the node, beside what happens to it.

use std::sync::Arc;

use protocol_model::{AllocId, Node};

use super::NodeCore;
use crate::alloc_runner::{CommandError, RestartScope, SignalScope, World};
use crate::settings::Reconfigured;
use crate::time::Now;

impl NodeCore {
    /// Restarts tasks of an allocation.
    ///
    /// # Errors
    /// Where nothing that was named can be restarted now.
    pub fn restart(
        &mut self,
        alloc: AllocId,
        scope: RestartScope,
        now: Now,
    ) -> Result<(), CommandError> {
        let world = World {
            settings: &self.settings,
            node: &self.node,
        };
        let runner = self
            .runners
            .get_mut(&alloc)
            .ok_or(CommandError::UnknownAlloc { alloc })?;
        runner.restart(scope, world, &mut self.outbox, now)?;
        self.settle(alloc, now);
        self.flush(now);
        Ok(())
    }

    /// Sends a signal, by its name, to tasks of an allocation.
    ///
    /// # Errors
    /// Where nothing that was named has a process.
    pub fn signal(
        &mut self,
        alloc: AllocId,
        scope: SignalScope,
        signal: &str,
        now: Now,
    ) -> Result<(), CommandError> {
        let runner = self
            .runners
            .get_mut(&alloc)
            .ok_or(CommandError::UnknownAlloc { alloc })?;
        runner.signal(scope, signal, &mut self.outbox, now)?;
        self.settle(alloc, now);
        self.flush(now);
        Ok(())
    }

    /// An operator says that allocations of an earlier incarnation of the cluster may go.
    pub fn release_foreign(&mut self, now: Now) {
        let released = self.alloc_set.release_foreign();
        self.remove_foreign(released, now);
        self.flush(now);
    }

    /// The operator changed what may change while the daemon runs.
    pub fn reconfigure(&mut self, changed: Reconfigured, now: Now) {
        let Reconfigured {
            drivers,
            kill_timeout_max,
            terminal_allocs_max,
        } = changed;
        self.settings.drivers = drivers;
        self.settings.kill_timeout_max = kill_timeout_max;
        self.settings.terminal_allocs_max = terminal_allocs_max;
        self.flush(now);
    }

    /// What the node says of itself now: tasks that start from now on see it, and the control plane
    /// hears of it where it is not what it was. Returns whether it is not.
    pub fn set_node(&mut self, node: Arc<Node>) -> bool {
        if *node == *self.node {
            return false;
        }
        self.node = node;
        self.session.on_facts_changed(&mut self.outbox);
        true
    }

    /// How many servers the shell knows: offsets of [`crate::effect::ServerChoice`] stay below it.
    pub fn set_servers(&mut self, servers: usize, now: Now) {
        self.session.set_servers(servers, now);
    }
}
