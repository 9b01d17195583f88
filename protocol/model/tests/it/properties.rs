//! What holds for every job, whatever its parts.

use proptest::prelude::*;
use protocol_model::Job;
use serde_json::{Value, json};

use crate::fixtures;

/// Any mixture of the given fields, each of them there or not.
fn some_of(fields: &[(&'static str, Value)]) -> impl Strategy<Value = Value> + use<> {
    let fields = fields.to_vec();
    let len = fields.len();
    proptest::sample::subsequence(fields, 0..=len).prop_map(|chosen| {
        let mut object = serde_json::Map::new();
        object.extend(
            chosen
                .into_iter()
                .map(|(key, value)| (key.to_owned(), value)),
        );
        Value::Object(object)
    })
}

fn any_job() -> impl Strategy<Value = Job> {
    let service =
        json!([{"Checks": [{"Type": "tcp"}]}, {"Name": "${BASE}-x", "Provider": "nomad"}]);
    let of_job = some_of(&[
        ("Priority", json!(-7)),
        ("Update", json!({"MaxParallel": 0})),
        ("Reschedule", json!({"Attempts": 2})),
        ("Migrate", json!({"HealthCheck": "manual"})),
        ("Periodic", json!({"Spec": "@daily"})),
        ("ParameterizedJob", json!({})),
        ("Constraints", json!([{"LTarget": "a"}])),
        ("ConsulToken", json!("secret")),
        ("Status", json!("dead")),
    ]);
    let of_group = some_of(&[
        ("Count", json!(3)),
        ("Scaling", json!({"Max": 2})),
        ("Update", json!({"Canary": 1, "HealthCheck": ""})),
        ("ReschedulePolicy", json!({"Unlimited": false})),
        ("RestartPolicy", json!({"Mode": "?"})),
        ("Disconnect", json!({"LostAfter": "1h"})),
        (
            "Networks",
            json!([{"ReservedPorts": [{"Label": "a", "Value": 99_999}]}]),
        ),
        ("Volumes", json!({"v": {}})),
        ("Services", service.clone()),
    ]);
    let of_task = some_of(&[
        (
            "Resources",
            json!({"Cores": 1, "Devices": [{}], "NUMA": {}}),
        ),
        ("LogConfig", json!({"Enabled": false})),
        ("Identities", json!([{}, {"Name": "x"}])),
        ("Templates", json!([{"ChangeMode": "signal"}, {}])),
        ("Artifacts", json!([{"GetterMode": "file"}, {}])),
        ("VolumeMounts", json!([{}])),
        ("Vault", json!({})),
        ("Services", service),
        ("Lifecycle", json!({"Hook": "never"})),
    ]);
    let kind = proptest::sample::select(vec!["service", "batch", "system", "sysbatch"]);
    (kind, of_job, of_group, of_task).prop_map(|(kind, mut job, mut group, mut task)| {
        task["Name"] = json!("server");
        group["Name"] = json!("web");
        group["Tasks"] = json!([task]);
        job["ID"] = json!("example");
        job["Type"] = json!(kind);
        job["TaskGroups"] = json!([group]);
        fixtures::job(job)
    })
}

proptest! {
    #[test]
    fn canonical_form_is_stable_and_the_same_specification(job in any_job()) {
        let mut once = job.clone();
        once.canonicalize();
        let mut twice = once.clone();
        twice.canonicalize();
        prop_assert_eq!(&once, &twice);
        prop_assert_eq!(job.spec_hash(), once.spec_hash());
    }

    #[test]
    fn json_keeps_every_job(job in any_job()) {
        let mut job = job;
        job.canonicalize();
        let text = serde_json::to_string(&job).expect("a job is JSON");
        prop_assert_eq!(serde_json::from_str::<Job>(&text).expect("it was one"), job);
    }

    #[test]
    fn judging_a_job_never_panics(job in any_job()) {
        let before = (job.validate(), job.unhonoured());
        let mut job = job;
        job.canonicalize();
        let after = (job.validate(), job.unhonoured());
        // Every task lacks a driver: whatever else is said, that is.
        prop_assert!(before.0.is_err() && after.0.is_err());
        prop_assert!(after.1.iter().any(|warning| warning.message.starts_with("driver")));
    }
}
