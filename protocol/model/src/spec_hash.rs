//! The identity of a job specification: two jobs with the same hash run the same.

use std::collections::BTreeMap;

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::ids::SpecHash;
use crate::instant::UnixNanos;
use crate::job::{Job, JobStatus};

impl Job {
    /// SHA-256 of the canonical form without what the control plane fills in. Registering a job
    /// over one of the same hash changes nothing.
    ///
    /// Not part of it: status, stability, version, times, indexes, the version's tag, who
    /// registered it, and whether it is stopped. Stopping is a wish about the job, not another
    /// specification: the allocations of a stopped job were made from the same one.
    pub fn spec_hash(&self) -> SpecHash {
        let mut spec = self.clone();
        spec.canonicalize();
        spec.clear_volatile();
        // Fails only for maps whose keys are no texts, and a job has none.
        let value = serde_json::to_value(&spec).expect("a job is always JSON");
        let mut text = Vec::new();
        write_sorted(&value, &mut text);
        SpecHash(Sha256::digest(&text).into())
    }

    fn clear_volatile(&mut self) {
        self.stop = false;
        self.status = JobStatus::default();
        self.status_description.clear();
        self.stable = false;
        self.version = 0;
        self.submit_time = UnixNanos::ZERO;
        self.create_index = 0;
        self.modify_index = 0;
        self.job_modify_index = 0;
        self.version_tag = None;
        self.nomad_token_id.clear();
        for group in &mut self.task_groups {
            let of_tasks = group
                .tasks
                .iter_mut()
                .flat_map(|task| &mut task.scaling_policies);
            for scaling in group.scaling.iter_mut().chain(of_tasks) {
                scaling.id.clear();
                scaling.create_index = 0;
                scaling.modify_index = 0;
            }
        }
    }
}

/// JSON with sorted keys, whatever order the JSON library was built to keep: another crate of the
/// build can turn that on. What is `null` is left out, so that a later release can add a field
/// that may be absent without giving every job of today another identity.
fn write_sorted(value: &Value, text: &mut Vec<u8>) {
    match value {
        Value::Object(map) => {
            let sorted: BTreeMap<_, _> = map.iter().filter(|(_, value)| !value.is_null()).collect();
            text.push(b'{');
            for (key, value) in sorted {
                text.extend(Value::from(key.as_str()).to_string().bytes());
                text.push(b':');
                write_sorted(value, text);
                text.push(b',');
            }
            text.push(b'}');
        }
        Value::Array(items) => {
            text.push(b'[');
            for item in items {
                write_sorted(item, text);
                text.push(b',');
            }
            text.push(b']');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            text.extend(value.to_string().bytes());
        }
    }
}
