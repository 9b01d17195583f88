//! Preparing an allocation: the hooks, in order, the first failure ends it.

use noded_core::effect::AllocHook;
use noded_core::event::AllocEvent;
use noded_core::{AllocResources, AllocSpec};
use protocol_error_chain::chain;
use protocol_model::EphemeralDisk;

use super::Executor;
use crate::alloc_dir::AllocDirError;

impl Executor {
    /// Runs the hooks of an allocation. Blocks.
    pub(super) fn prepare_alloc(&self, spec: &AllocSpec, hooks: &[AllocHook]) -> AllocEvent {
        let mut resources = AllocResources::default();
        for hook in hooks {
            let done = match hook {
                AllocHook::Directory => {
                    let built = self.build(spec);
                    built.map_err(|error| chain(&error))
                }
                AllocHook::Network => {
                    let prepared = self.networks.prepare(spec);
                    let kept = prepared.map(|network| resources.network = Some(network));
                    kept.map_err(|error| chain(&error))
                }
            };
            if let Err(message) = done {
                return AllocEvent::PrepareFailed {
                    hook: *hook,
                    message,
                };
            }
        }
        AllocEvent::Prepared { resources }
    }

    /// Makes an allocation's directory, with the data of its predecessor on this node where its
    /// group's disk is sticky. Data that cannot be moved stays where it is (as in Nomad).
    fn build(&self, spec: &AllocSpec) -> Result<(), AllocDirError> {
        self.allocs.build(spec.id())?;
        let disk = spec.group().ephemeral_disk.as_ref();
        let Some(previous) = spec.alloc().previous_allocation else {
            return Ok(());
        };
        if !disk.is_some_and(EphemeralDisk::sticky) {
            return Ok(());
        }
        let tasks = spec.group().tasks.iter().map(|task| task.name.as_str());
        match self.allocs.take_over(spec.id(), previous, tasks) {
            Ok(0) => {}
            Ok(moved) => {
                tracing::info!(alloc = %spec.id(), %previous, moved, "sticky data moved");
            }
            Err(error) => {
                let error = chain(&error);
                tracing::warn!(alloc = %spec.id(), %previous, error, "sticky data not moved");
            }
        }
        Ok(())
    }
}
