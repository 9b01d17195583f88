//! An allocation as `/v1/allocation/:id` shows it.

use std::sync::Arc;

use protocol_model::{Allocation, ShownResources, ShownTaskStates};
use serde::{Serialize, Serializer};

use super::older::Resources;
use super::{object, set};

/// An allocation with every key that Nomad's clients read. Its job is joined in already.
#[derive(Debug)]
pub(in crate::http) struct AllocShown(Arc<Allocation>);

impl AllocShown {
    pub(in crate::http) fn new(alloc: Arc<Allocation>) -> Self {
        Self(alloc)
    }
}

impl Serialize for AllocShown {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let alloc = &*self.0;
        let given = &*alloc.allocated_resources;
        let mut shown = object(alloc)?;
        set(&mut shown, "Resources", &Resources::total(given))?;
        set(&mut shown, "SharedResources", &Resources::shared(given))?;
        set(&mut shown, "TaskResources", &Resources::of_tasks(given))?;
        let resources = ShownResources::new(alloc, alloc.job.as_deref());
        set(&mut shown, "AllocatedResources", &resources)?;
        set(
            &mut shown,
            "TaskStates",
            &ShownTaskStates(&alloc.task_states),
        )?;
        if alloc.network_status.is_none() {
            set(&mut shown, "NetworkStatus", &())?;
        }
        shown.serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use protocol_model::{AllocId, EvalId, NodeId};
    use serde_json::{Value, json};

    use super::*;

    fn shown() -> Value {
        let alloc: Allocation = serde_json::from_value(json!({
            "ID": AllocId::from_u128(1), "Namespace": "default", "EvalID": EvalId::from_u128(2),
            "Name": "web.front[0]", "NodeID": NodeId::from_u128(3), "JobID": "web",
            "TaskGroup": "front",
            "Job": { "ID": "web", "TaskGroups": [{ "Name": "front", "Tasks": [
                { "Name": "server" },
                { "Name": "warm", "Lifecycle": { "Hook": "prestart" } },
            ] }, { "Name": "back", "Tasks": [{ "Name": "other" }] }] },
            "AllocatedResources": {
                "Tasks": { "server": { "Cpu": { "CpuShares": 500 } } },
                "Shared": { "DiskMB": 300 },
            },
        }))
        .expect("an allocation");
        serde_json::to_value(AllocShown::new(Arc::new(alloc))).expect("JSON")
    }

    #[test]
    fn an_allocation_has_the_older_resources_of_nomad() {
        let shown = shown();
        assert_eq!(shown["TaskResources"]["server"]["CPU"], 500);
        let group = |from: &Value| json!([from["CPU"], from["DiskMB"], from["Devices"]]);
        assert_eq!(group(&shown["Resources"]), json!([500, 300, null]));
        assert_eq!(group(&shown["SharedResources"]), json!([0, 300, null]));
        assert_eq!(shown.get("NetworkStatus"), Some(&Value::Null));
    }

    #[test]
    fn an_allocation_shows_the_lifecycle_of_each_task_of_its_group() {
        let given = shown()["AllocatedResources"].clone();
        assert_eq!(given["Tasks"]["server"]["Cpu"]["CpuShares"], 500);
        let expected = json!({
            "server": null, "warm": { "Hook": "prestart", "Sidecar": false },
        });
        assert_eq!(given["TaskLifecycles"], expected);
    }
}
