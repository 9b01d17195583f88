//! Preparing an allocation: the hooks, in order, the first failure ends it.

use noded_core::effect::AllocHook;
use noded_core::event::AllocEvent;
use noded_core::{AllocResources, AllocSpec};
use protocol_error_chain::chain;

use super::Executor;

impl Executor {
    /// Runs the hooks of an allocation. Blocks.
    pub(super) fn prepare_alloc(&self, spec: &AllocSpec, hooks: &[AllocHook]) -> AllocEvent {
        let mut resources = AllocResources::default();
        for hook in hooks {
            let done = match hook {
                AllocHook::Directory => {
                    let built = self.allocs.build(spec.id());
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
}
