//! Jobs as tests write them, and the sample files of other people, where they are at hand.

use std::path::PathBuf;

use protocol_model::Job;
use serde_json::Value;

/// A sample below `shared/data/jobspecs` beside the repository; `None`, said aloud, where the
/// folder is absent.
#[expect(
    clippy::disallowed_methods,
    reason = "only the tests read files; the crate does not"
)]
pub(crate) fn sample(name: &str) -> Option<Value> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../../shared/data/jobspecs")
        .join(name);
    match std::fs::read_to_string(&path) {
        Ok(text) => Some(serde_json::from_str(&text).expect("a sample is JSON")),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            eprintln!("skipped: {name} is not at hand");
            None
        }
        Err(error) => panic!("cannot read {}: {error}", path.display()),
    }
}

/// A job as a client sends it.
pub(crate) fn job(value: Value) -> Job {
    serde_json::from_value(value).expect("the test's job has the shape of a job")
}

/// The same in canonical form.
pub(crate) fn canonical(value: Value) -> Job {
    let mut job = job(value);
    job.canonicalize();
    job
}

/// A valid service with one group `web` of one task `server`, both extended by the given fields.
pub(crate) fn service(in_job: Value, in_group: Value, in_task: Value) -> Job {
    let mut task = serde_json::json!({"Name": "server", "Driver": "exec",
        "Config": {"command": "/bin/true"}});
    merge(&mut task, in_task);
    let mut group = serde_json::json!({"Name": "web", "Tasks": [task]});
    merge(&mut group, in_group);
    let mut job = serde_json::json!({"ID": "example", "TaskGroups": [group]});
    merge(&mut job, in_job);
    canonical(job)
}

fn merge(base: &mut Value, extra: Value) {
    let (Value::Object(base), Value::Object(extra)) = (base, extra) else {
        panic!("fixtures are extended by objects");
    };
    base.extend(extra);
}
