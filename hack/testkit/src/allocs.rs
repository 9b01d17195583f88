//! Allocations as a plan would place them.

use std::collections::BTreeMap;

use controlplane_state::Tables;
use protocol_model::{
    AllocId, Allocation, ClientStatus, EvalId, JobKey, NodeId, SpecHash, UnixNanos,
};

/// A pending allocation of a registered job's first group on `node`, which takes no resources. Its
/// id follows from how many the job has.
pub fn allocation(tables: &Tables, key: &JobKey, node: NodeId) -> Allocation {
    let job = tables.job(key).expect("the job is registered");
    let group = job.task_groups[0].name.clone();
    let number = tables.allocs_by_job(key).count();
    let index = u32::try_from(number).expect("few allocations");
    let id = AllocId::from_u128(0xa0_0000_0000_4000_8000_0000_0000_0000 + u128::from(index));
    Allocation {
        namespace: key.namespace.clone(),
        name: Allocation::name_of(&key.id, &group, index),
        job_id: key.id.clone(),
        job_version: job.version,
        job_create_index: job.create_index,
        spec: tables.job_spec(key).expect("its specification"),
        task_group: group,
        ..bare(id, node)
    }
}

/// A pending allocation on `node` of the job `web`, which nobody registered.
pub fn bare(id: AllocId, node: NodeId) -> Allocation {
    Allocation {
        id,
        namespace: "default".to_owned(),
        eval_id: EvalId::from_u128(1),
        name: String::new(),
        node_id: node,
        node_name: String::new(),
        job_id: "web".to_owned(),
        job: None,
        job_version: 0,
        job_create_index: 1,
        spec: SpecHash([0; 32]),
        task_group: "web".to_owned(),
        allocated_resources: Default::default(),
        metrics: Default::default(),
        desired_status: Default::default(),
        desired_description: String::new(),
        desired_transition: Default::default(),
        client_status: ClientStatus::Pending,
        client_description: String::new(),
        task_states: BTreeMap::new(),
        network_status: None,
        alloc_states: Vec::new(),
        deployment_id: None,
        deployment_status: None,
        followup_eval_id: None,
        previous_allocation: None,
        next_allocation: None,
        reschedule_tracker: None,
        preempted_allocations: Vec::new(),
        preempted_by_allocation: None,
        create_index: 0,
        modify_index: 0,
        alloc_modify_index: 0,
        create_time: UnixNanos::ZERO,
        modify_time: UnixNanos::ZERO,
    }
}
