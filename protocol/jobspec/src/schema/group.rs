//! The `group` block.

use super::network::NETWORK;
use super::placement::{AFFINITY, CONSTRAINT, SPREAD};
use super::policies::{DISCONNECT, EPHEMERAL_DISK, MIGRATE, RESCHEDULE, RESTART, SCALING, UPDATE};
use super::service::SERVICE;
use super::task::{CONSUL, TASK};
use super::volume::VOLUME;
use super::{Schema, block, blocks, count, duration, flag, keyed, labelled, text_map};
use crate::decode::{DecodedBlock, Problems};
use serde_json::Value as Json;

/// Tasks that are placed together.
pub(super) static GROUP: Schema = labelled(
    "group",
    "Name",
    &[
        count("count", "Count"),
        duration("shutdown_delay", "ShutdownDelay"),
        duration("stop_after_client_disconnect", "StopAfterClientDisconnect"),
        duration("max_client_disconnect", "MaxClientDisconnect"),
        duration("max_run_duration", "MaxRunDuration"),
        flag("prevent_reschedule_on_lost", "PreventRescheduleOnLost"),
        text_map("meta", "Meta"),
        blocks("Constraints", &CONSTRAINT),
        blocks("Affinities", &AFFINITY),
        blocks("Spreads", &SPREAD),
        blocks("Tasks", &TASK),
        blocks("Networks", &NETWORK),
        blocks("Services", &SERVICE),
        keyed("Volumes", &VOLUME),
        block("RestartPolicy", &RESTART),
        block("ReschedulePolicy", &RESCHEDULE),
        block("Disconnect", &DISCONNECT),
        block("EphemeralDisk", &EPHEMERAL_DISK),
        block("Update", &UPDATE),
        block("Migrate", &MIGRATE),
        block("Scaling", &SCALING),
        block("Consul", &CONSUL),
        block("~vault", &VAULT_FOR_TASKS),
    ],
)
.finish(finish_group);

/// `vault` outside of a task: the API knows it in tasks only.
pub(super) use super::task::VAULT as VAULT_FOR_TASKS;

fn finish_group(block: &mut DecodedBlock, _: &mut Problems<'_>) {
    if let Some(vault) = block.take("~vault") {
        let mut group = Json::Object(std::mem::take(&mut block.object));
        inherit_vault(&mut group, &vault);
        if let Json::Object(object) = group {
            block.object = object;
        }
    }
}

/// Gives a copy of `vault` to each task of the group that has none.
pub(super) fn inherit_vault(group: &mut Json, vault: &Json) {
    let Some(Json::Array(tasks)) = group.get_mut("Tasks") else {
        return;
    };
    for task in tasks.iter_mut().filter_map(Json::as_object_mut) {
        task.entry("Vault").or_insert_with(|| vault.clone());
    }
}
