//! Variables that a task is given before it starts, as its process sees them.

use std::sync::Arc;

use protocol_model::{ClientStatus, Job};
use serde_json::json;

use crate::jobs::{alloc, is, job, output, sh};
use crate::scene::{Scene, can_run};

/// A batch job of `main` and a prestart task, `init`, that says in a file what `main` is to know.
fn job_with_init() -> Arc<Job> {
    let templates = json!({ "Templates": [
        { "EmbeddedTmpl": "FROM_TEMPLATE=one\n", "DestPath": "local/a.env", "Envvars": true },
        { "SourcePath": "${NOMAD_ALLOC_DIR}/said", "DestPath": "local/b.env", "Envvars": true },
    ]});
    let script = "echo $FROM_TEMPLATE $FROM_HOOK $0";
    let mut config = sh(script);
    // What a hook gave is known where the configuration is resolved, too.
    config["args"]
        .as_array_mut()
        .unwrap()
        .push(json!("${FROM_HOOK}"));
    let mut whole = Job::clone(&job("told", "raw_exec", &config, templates));
    let says = sh("echo FROM_HOOK=two > $NOMAD_ALLOC_DIR/said");
    let lifecycle = json!({ "Lifecycle": { "Hook": "prestart" } });
    let init = Job::clone(&job("init", "raw_exec", &says, lifecycle));
    let mut init = init.task_groups[0].tasks[0].clone();
    init.name = "init".to_owned();
    whole.task_groups[0].tasks.push(init);
    whole.job_type = protocol_model::JobType::Batch;
    Arc::new(whole)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_template_and_a_prestart_hook_both_give_a_task_variables() {
    if !can_run() {
        return;
    }
    let scene = Scene::new();
    let job = job_with_init();
    let alloc = alloc(&job, 1);
    let id = alloc.id;
    scene.server.want(alloc, &job);
    let ended = |known: &_| is(known, id, ClientStatus::Complete);
    scene.server.until("complete", ended).await;
    output(&scene, id, |text| text == "one two two\n").await;
}
